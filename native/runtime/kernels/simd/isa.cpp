#include "kernels/simd/isa.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "kernels/amx.h"
#include "kernels/simd/arm_features.h"
#include "kernels/simd/x86_features.h"

namespace executorch_ggml::kernels {

namespace {

// Whether this build has kernels for an instruction set, and this CPU runs them.
bool has(Isa isa) {
  switch (isa) {
    case Isa::Generic:
      return true;
#if EXECUTORCH_GGML_ISA_NEON
    case Isa::Neon:
      return true;
#endif
#if EXECUTORCH_GGML_ISA_DOTPROD
    case Isa::Dotprod:
      return arm_features().dotprod;
#endif
#if EXECUTORCH_GGML_ISA_I8MM
    case Isa::I8mm:
      return has(Isa::Dotprod) && arm_features().i8mm;
#endif
#if EXECUTORCH_GGML_ISA_NEONBF16
    case Isa::NeonBf16:
      return has(Isa::I8mm) && arm_features().bf16;
#endif
#if EXECUTORCH_GGML_ISA_AVX2
    case Isa::Avx2:
      return x86_features().avx2;
#endif
#if EXECUTORCH_GGML_ISA_AVXVNNI
    case Isa::AvxVnni:
      return x86_features().avxvnni;
#endif
#if EXECUTORCH_GGML_ISA_AVX512
    case Isa::Avx512:
      return x86_features().avx512;
#endif
#if EXECUTORCH_GGML_ISA_AVX512VNNI
    case Isa::Avx512Vnni:
      return x86_features().avx512vnni;
#endif
#if EXECUTORCH_GGML_ISA_AVX512BF16
    case Isa::Avx512Bf16:
      return has(Isa::Avx512Vnni) && x86_features().avx512bf16;
#endif
#if EXECUTORCH_GGML_ISA_AMX
    case Isa::Amx:
      return has(Isa::Avx512Bf16) && (amx_multiplies(AmxType::Int8) || amx_multiplies(AmxType::Bfloat16));
#endif
    default:
      return false;
  }
}

// The best of them up to this one; a better one need not have all of those before it.
Isa best_up_to(Isa most) {
  int isa = static_cast<int>(most);
  while (!has(static_cast<Isa>(isa))) --isa;
  return static_cast<Isa>(isa);
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
    if (std::strcmp(name, kIsaNames[isa]) != 0 || !is_of_architecture(static_cast<Isa>(isa))) continue;
    *most = static_cast<Isa>(isa);
    return true;
  }
  return false;
}

Isa best_isa() {
  static const Isa best = [] {
    Isa most = Isa::Amx;
    allowed_isa(&most);
    const Isa found = best_up_to(most);
    const bool is_slow = found == Isa::Avx512Bf16 && most != found && x86_features().slow_bf16_products;
    return is_slow ? Isa::Avx512Vnni : found;
  }();
  return best;
}

Isa active_isa() { return active().load(std::memory_order_relaxed); }

void limit_isa(Isa most) { active().store(best_up_to(std::min(most, best_isa())), std::memory_order_relaxed); }

}  // namespace executorch_ggml::kernels
