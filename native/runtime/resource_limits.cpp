#include "resource_limits.h"

#include <cstdlib>

#include "platform/platform.h"

namespace executorch_ggml {
size_t available_memory() {
  static const size_t bytes = platform::memory_limit();
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
