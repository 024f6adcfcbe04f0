// A processor's hint that a loop waits.
#pragma once

namespace executorch_ggml::platform {

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace executorch_ggml::platform
