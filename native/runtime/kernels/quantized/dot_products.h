// Instructions that sum products of four inputs with four signed weights in each lane. For folders of
// instruction sets only.
#pragma once

#include "kernels/simd/vec.h"

#if !defined(__clang__)  // GCC 12 warns of its own AVX-512 header (bug 105593)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

// Whether the inputs are signed too, or unsigned.
#if defined(__aarch64__)
constexpr bool kSignedInputs = true;
#else
constexpr bool kSignedInputs = false;
#endif

VEC_INLINE Int plus_dot_products(Int sum, Int x, Int weights) {
#if defined(__AVX512VNNI__)
  return reinterpret_cast<Int>(_mm512_dpbusd_epi32(reinterpret_cast<__m512i>(sum), reinterpret_cast<__m512i>(x),
                                                   reinterpret_cast<__m512i>(weights)));
#elif defined(__aarch64__)
  return reinterpret_cast<Int>(vdotq_s32(reinterpret_cast<int32x4_t>(sum), reinterpret_cast<int8x16_t>(x),
                                         reinterpret_cast<int8x16_t>(weights)));
#else
  return reinterpret_cast<Int>(_mm256_dpbusd_avx_epi32(reinterpret_cast<__m256i>(sum), reinterpret_cast<__m256i>(x),
                                                       reinterpret_cast<__m256i>(weights)));
#endif
}

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
