// The arithmetic of depthwise layers of integers by instructions that sum products of four inputs with four signed
// weights: of four input rows at a time. For folders of instruction sets only.
#pragma once

#include "kernels/quantized/depthwise_loops.h"
#include "kernels/quantized/dot_products.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

struct Quads {
  static constexpr int kRows = kQuad;

  // Inputs become what the instruction takes: signed ones 128 larger, or unsigned ones 128 smaller.
  template <class Byte>
  static VEC_INLINE void interleave(const Bytes<Byte> (&rows)[kRows], int32_t, char* to) {
    constexpr bool kIsSigned = static_cast<Byte>(-1) < 0;
    constexpr auto kFlip = static_cast<uint8_t>(kIsSigned == kSignedInputs ? 0 : 0x80);
    Bytes<uint8_t> flipped[kRows];
    VEC_UNROLL
    for (int i = 0; i < kRows; ++i) flipped[i] = reinterpret_cast<Bytes<uint8_t>>(rows[i]) ^ kFlip;
    store_quads(flipped, to);
  }

  static VEC_INLINE void pack(const Bytes<int8_t> (&taps)[kRows], char* to) {
    Bytes<uint8_t> bytes[kRows];
    VEC_UNROLL
    for (int i = 0; i < kRows; ++i) bytes[i] = reinterpret_cast<Bytes<uint8_t>>(taps[i]);
    store_quads(bytes, to);
  }

  static VEC_INLINE void store_quads(const Bytes<uint8_t> (&rows)[kRows], char* to) {
    using Two = Vec<uint16_t, kChannels / 2>;
    const auto upper_low = reinterpret_cast<Two>(interleave_low(rows[0], rows[1]));
    const auto upper_high = reinterpret_cast<Two>(interleave_high(rows[0], rows[1]));
    const auto lower_low = reinterpret_cast<Two>(interleave_low(rows[2], rows[3]));
    const auto lower_high = reinterpret_cast<Two>(interleave_high(rows[2], rows[3]));
    store(to, interleave_low(upper_low, lower_low));
    store(to + sizeof(Two), interleave_high(upper_low, lower_low));
    store(to + 2 * sizeof(Two), interleave_low(upper_high, lower_high));
    store(to + 3 * sizeof(Two), interleave_high(upper_high, lower_high));
  }

  static int outside(const QuantizedDepthwise& layer) { return zero(layer); }
  static int32_t zero(const QuantizedDepthwise& layer) {
    if (layer.is_signed == kSignedInputs) return layer.zero;
    return layer.zero + (kSignedInputs ? -128 : 128);
  }

  static VEC_INLINE Int plus_products(Int sum, Int x, Int weights) { return plus_dot_products(sum, x, weights); }
};

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
