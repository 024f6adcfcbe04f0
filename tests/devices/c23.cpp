// C23's variants of C's functions, for libraries that were built on glibc 2.38 (see older_glibc.py). They differ from
// the older ones in numbers like 0b101 alone.
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

extern "C" {

long __isoc23_strtol(const char* text, char** end, int base) { return std::strtol(text, end, base); }

unsigned long __isoc23_strtoul(const char* text, char** end, int base) { return std::strtoul(text, end, base); }

unsigned long long __isoc23_strtoull(const char* text, char** end, int base) { return std::strtoull(text, end, base); }

int __isoc23_sscanf(const char* text, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int count = std::vsscanf(text, format, arguments);
  va_end(arguments);
  return count;
}
}
