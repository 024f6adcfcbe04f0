#include "status.h"

#include <cstdarg>
#include <cstdio>

namespace executorch_ggml {

std::string format(const char* pattern, ...) {
  va_list args;
  va_start(args, pattern);
  va_list again;
  va_copy(again, args);
  const int length = std::vsnprintf(nullptr, 0, pattern, args);
  va_end(args);
  std::string text;
  if (length > 0) {
    text.resize(static_cast<size_t>(length) + 1);
    std::vsnprintf(text.data(), text.size(), pattern, again);
    text.resize(static_cast<size_t>(length));
  }
  va_end(again);
  return text;
}

void RunStatus::fail(const char* pattern, ...) {
  // The flag's holder writes; the message is whole before failed_ says that it may be read.
  if (writing_.test_and_set(std::memory_order_acquire)) {
    return;
  }
  if (!failed_.load(std::memory_order_relaxed)) {
    va_list args;
    va_start(args, pattern);
    std::vsnprintf(message_, sizeof(message_), pattern, args);
    va_end(args);
    failed_.store(true, std::memory_order_release);
  }
  writing_.clear(std::memory_order_release);
}

}  // namespace executorch_ggml
