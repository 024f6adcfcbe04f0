// macOS, beside posix.cpp.
#define _REENTRANT  // for lgammaf_r

#include <mach-o/dyld.h>
#include <math.h>
#include <sys/sysctl.h>

#include "platform/platform.h"

namespace executorch_ggml::platform {

size_t memory_limit() {
  uint64_t bytes = 0;
  size_t size = sizeof(bytes);
  return sysctlbyname("hw.memsize", &bytes, &size, nullptr, 0) == 0 ? static_cast<size_t>(bytes) : SIZE_MAX;
}

std::chrono::nanoseconds waited_for_a_core() { return {}; }

int current_core() { return -1; }

void move_to_core(int) {}

std::chrono::nanoseconds coarse_time() { return std::chrono::steady_clock::now().time_since_epoch(); }

std::vector<std::string> loaded_libraries() {
  std::vector<std::string> paths;
  for (uint32_t i = 0; i < _dyld_image_count(); ++i) {
    const char* path = _dyld_get_image_name(i);  // null once another thread has unloaded it
    if (path != nullptr) paths.emplace_back(path);
  }
  return paths;
}

Status enable_tile_registers() { return Status::error("macOS does not keep them"); }

float log_gamma(float x) {
  int sign = 0;
  return ::lgammaf_r(x, &sign);
}

}  // namespace executorch_ggml::platform
