// Inputs of layers of integers as int16, less the zero point, and on ARM64 their products by lane. For *_isa.cpp files
// and folders of instruction sets only.
#pragma once

#include "kernels/quantized/rounding.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

template <class Byte>
VEC_INLINE void widen_bytes(const Byte* from, int64_t n, int16_t zero, int16_t* to) {
  constexpr int kWords = kLanesOf<Words>;
  int64_t i = 0;
  for (; i + kWords <= n; i += kWords) {
    store(to + i, __builtin_convertvector(load<Vec<Byte, kWords>>(from + i), Words) - zero);
  }
  for (; i < n; ++i) to[i] = static_cast<int16_t>(from[i] - zero);
}

// One after the other (QuantizedTiles::arrange).
inline void widen_inputs(const void* from, int64_t n, int32_t zero, bool is_signed, void* to) {
  auto* words = static_cast<int16_t*>(to);
  if (is_signed) return widen_bytes(static_cast<const int8_t*>(from), n, static_cast<int16_t>(zero), words);
  widen_bytes(static_cast<const uint8_t*>(from), n, static_cast<int16_t>(zero), words);
}

#if defined(__aarch64__)
// sums += the K-th input of each row times the weights of 16 channels, 8 in each vector.
template <int K, int Rows>
VEC_INLINE void add_lane_products(const int16x4_t (&x)[Rows], int16x8_t low, int16x8_t high,
                                  int32x4_t (&sums)[Rows][4]) {
  VEC_UNROLL
  for (int r = 0; r < Rows; ++r) {
    sums[r][0] = vmlal_lane_s16(sums[r][0], vget_low_s16(low), x[r], K);
    sums[r][1] = vmlal_high_lane_s16(sums[r][1], low, x[r], K);
    sums[r][2] = vmlal_lane_s16(sums[r][2], vget_low_s16(high), x[r], K);
    sums[r][3] = vmlal_high_lane_s16(sums[r][3], high, x[r], K);
  }
}
#endif

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
