// macOS, beside posix.cpp.
#define _REENTRANT  // for lgammaf_r

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

std::chrono::nanoseconds coarse_time() { return std::chrono::steady_clock::now().time_since_epoch(); }

Status enable_tile_registers() { return Status::error("macOS does not keep them"); }

float log_gamma(float x) {
  int sign = 0;
  return ::lgammaf_r(x, &sign);
}

}  // namespace executorch_ggml::platform
