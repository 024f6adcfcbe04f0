// Inputs of layers of integers as int16, less the zero point. For *_isa.cpp files and folders of instruction sets only.
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

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
