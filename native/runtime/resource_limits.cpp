#include "resource_limits.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace executorch_ggml {
namespace {

// The number in a control group's file; SIZE_MAX where there is no such file or it says "max".
size_t group_limit(const char* path) {
  std::FILE* file = std::fopen(path, "r");
  if (file == nullptr) return SIZE_MAX;
  unsigned long long bytes = 0;
  const bool number = std::fscanf(file, "%llu", &bytes) == 1;
  std::fclose(file);
  return number ? static_cast<size_t>(bytes) : SIZE_MAX;
}

size_t physical_memory() {
  return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
}

}  // namespace

size_t available_memory() {
  static const size_t bytes = std::min({physical_memory(), group_limit("/sys/fs/cgroup/memory.max"),
                                        group_limit("/sys/fs/cgroup/memory/memory.limit_in_bytes")});
  return bytes;
}

bool can_allocate(size_t bytes) {
  void* volatile memory = std::malloc(bytes);  // volatile, or the compiler leaves both calls out
  const bool given = memory != nullptr;
  std::free(memory);
  return given;
}

size_t Limits::memory_limit() const { return memory == 0 ? available_memory() : memory; }

}  // namespace executorch_ggml
