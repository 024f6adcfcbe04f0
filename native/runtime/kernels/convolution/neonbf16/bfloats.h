// Floats rounded to bf16 by an instruction of ARM64. For folders of instruction sets only.
#pragma once

#include "kernels/simd/vec.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

// Half to even. Numbers under 1.2e-38 become zeros, as products of bf16 take them.
VEC_INLINE bfloat16x4_t rounded_bfloats(Float x) {
  const Float normal = pick(abs(x) < 1.17549435e-38f, splat(0.0f), x);
  return vcvt_bf16_f32(reinterpret_cast<float32x4_t>(normal));
}

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
