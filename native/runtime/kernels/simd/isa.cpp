#include "kernels/simd/isa.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>

namespace executorch_ggml::kernels {

namespace {

Isa detect() {
#if EXECUTORCH_GGML_ISA_AVX2
  __builtin_cpu_init();
  // Every CPU with AVX2 and FMA has F16C too, which not all compilers can ask for.
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    return Isa::Generic;
  }
#if EXECUTORCH_GGML_ISA_AVX512
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
#if EXECUTORCH_GGML_ISA_AVX512VNNI
    if (__builtin_cpu_supports("avx512vnni")) return Isa::Avx512Vnni;
#endif
    return Isa::Avx512;
  }
#endif
  return Isa::Avx2;
#else
  return Isa::Generic;
#endif
}

std::atomic<Isa>& active() {
  static std::atomic<Isa> isa{best_isa()};
  return isa;
}

}  // namespace

bool allowed_isa(Isa* most) {
  *most = Isa::Amx;
  const char* name = std::getenv("EXECUTORCH_GGML_CPU");
  if (name == nullptr || *name == '\0') return true;
  for (int isa = 0; isa <= static_cast<int>(Isa::Amx); ++isa) {
    if (std::strcmp(name, kIsaNames[isa]) != 0) continue;
    *most = static_cast<Isa>(isa);
    return true;
  }
  return false;
}

Isa best_isa() {
  static const Isa best = [] {
    Isa most = Isa::Amx;
    allowed_isa(&most);
    return std::min(most, detect());
  }();
  return best;
}

Isa active_isa() { return active().load(std::memory_order_relaxed); }

void limit_isa(Isa most) { active().store(std::min(most, best_isa()), std::memory_order_relaxed); }

}  // namespace executorch_ggml::kernels
