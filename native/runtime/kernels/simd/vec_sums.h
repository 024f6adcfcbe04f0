// Sums over the lanes of vectors. For *_isa.cpp files only, as vec.h.
#pragma once

#include "kernels/simd/vec.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

using Quad = float __attribute__((vector_size(16)));

VEC_INLINE Quad quad_of(Float x, int part) {
  Quad quads[kBytes / 16];
  std::memcpy(quads, &x, sizeof(x));
  return quads[part];
}

// The sums of every fourth lane.
VEC_INLINE Quad folded(Float x) {
  Quad sum = quad_of(x, 0);
  for (int part = 1; part < kBytes / 16; ++part) sum += quad_of(x, part);
  return sum;
}

VEC_INLINE float total(Float x) {
  const Quad sum = folded(x);
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// The totals of four vectors.
VEC_INLINE Quad totals(Quad a, Quad b, Quad c, Quad d) {
  const Quad ab = __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Quad cd = __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
  return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
