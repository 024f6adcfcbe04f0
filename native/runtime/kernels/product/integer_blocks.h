// Blocks of ggml's quantized types, and how one is unpacked into bytes. For folders of instruction sets only.
#pragma once

#include "kernels/product/integer_lanes.h"
#include "kernels/product/panels.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

using Block = Vec<uint16_t, 16>;  // 32 bytes in pairs, which can be shifted

VEC_INLINE float widened(uint16_t half) {
#if defined(__aarch64__)
  __fp16 number;
  std::memcpy(&number, &half, sizeof(number));
  return static_cast<float>(number);
#else
  return _cvtsh_ss(half);
#endif
}

// The same byte in both halves of each pair.
VEC_INLINE Block splat_bytes(int byte) { return Block{} + static_cast<uint16_t>(byte * 0x101); }

// 16 bytes as 32 numbers: the lower halves before the upper ones.
VEC_INLINE Block nibbles(const uint8_t* from) {
  const auto x = load<Vec<uint16_t, 8>>(from);
  const auto high = x >> 4;
  return __builtin_shufflevector(x, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) & splat_bytes(15);
}

// The bits of each byte from `shift` on that `mask` keeps.
VEC_INLINE Block bits_from(Block x, int shift, int mask) { return x >> shift & splat_bytes(mask); }

// 16 where a bit is set, to add to nibbles.
VEC_INLINE Block fifth_bits(uint32_t high) { return bytes_where(high, 16); }

// A block of one column: (weights - Type::kOffset) * scales - mins.
struct Unpacked {
  Block weights;
  float scales[2];
  float mins[2];
};

// A type has kBits of a weight; kOffset, what is added to make its weights unsigned; kHalves, whether each 16 weights
// have their own scale; kMins, whether a minimum is subtracted; and unpack(column, index), which reads the index-th
// block of a column.

struct Q8_0 {
  static constexpr int kBits = 8;
  static constexpr int kOffset = kByteOffset;
  static constexpr bool kHalves = false;
  static constexpr bool kMins = false;
  uint16_t scale;
  int8_t weights[32];

  static VEC_INLINE Unpacked unpack(const char* column, int64_t index) {
    const Q8_0& block = reinterpret_cast<const Q8_0*>(column)[index];
    return {load<Block>(block.weights) ^ splat_bytes(kByteOffset), {widened(block.scale)}, {}};
  }
};

struct Q4_0 : Q4_0Block {
  static constexpr int kBits = 4;
  static constexpr int kOffset = 8;
  static constexpr bool kHalves = false;
  static constexpr bool kMins = false;

  static VEC_INLINE Unpacked unpack(const char* column, int64_t index) {
    const Q4_0& block = reinterpret_cast<const Q4_0*>(column)[index];
    return {nibbles(block.low), {widened(block.scale)}, {}};
  }
};

struct Q4_1 {
  static constexpr int kBits = 4;
  static constexpr int kOffset = 0;
  static constexpr bool kHalves = false;
  static constexpr bool kMins = true;
  uint16_t scale, min;
  uint8_t low[16];

  static VEC_INLINE Unpacked unpack(const char* column, int64_t index) {
    const Q4_1& block = reinterpret_cast<const Q4_1*>(column)[index];
    return {nibbles(block.low), {widened(block.scale)}, {-widened(block.min)}};
  }
};

struct Q5_0 {
  static constexpr int kBits = 5;
  static constexpr int kOffset = 16;
  static constexpr bool kHalves = false;
  static constexpr bool kMins = false;
  uint16_t scale;
  uint8_t high[4];
  uint8_t low[16];

  static VEC_INLINE Unpacked unpack(const char* column, int64_t index) {
    const Q5_0& block = reinterpret_cast<const Q5_0*>(column)[index];
    uint32_t high = 0;
    std::memcpy(&high, block.high, sizeof(high));
    return {nibbles(block.low) | fifth_bits(high), {widened(block.scale)}, {}};
  }
};

struct Q5_1 {
  static constexpr int kBits = 5;
  static constexpr int kOffset = 0;
  static constexpr bool kHalves = false;
  static constexpr bool kMins = true;
  uint16_t scale, min;
  uint8_t high[4];
  uint8_t low[16];

  static VEC_INLINE Unpacked unpack(const char* column, int64_t index) {
    const Q5_1& block = reinterpret_cast<const Q5_1*>(column)[index];
    uint32_t high = 0;
    std::memcpy(&high, block.high, sizeof(high));
    return {nibbles(block.low) | fifth_bits(high), {widened(block.scale)}, {-widened(block.min)}};
  }
};

// Eight scales and as many mins of 6 bits in 12 bytes.
struct SixBits {
  const uint8_t* bytes;

  VEC_INLINE int scale(int64_t i) const {
    return i < 4 ? bytes[i] & 63 : (bytes[i + 4] & 15) | (bytes[i - 4] >> 6 << 4);
  }
  VEC_INLINE int min(int64_t i) const { return i < 4 ? bytes[i + 4] & 63 : bytes[i + 4] >> 4 | (bytes[i] >> 6 << 4); }
};

struct Q4K : Q4KBlock {
  static constexpr int kBits = 4;
  static constexpr int kOffset = 0;
  static constexpr bool kHalves = false;
  static constexpr bool kMins = true;

  static VEC_INLINE Unpacked unpack(const char* column, int64_t index) {
    const Q4K& block = reinterpret_cast<const Q4K*>(column)[index / 8];
    const int part = static_cast<int>(index % 8);
    return {bits_from(load<Block>(block.low + part / 2 * 32), part % 2 * 4, 15),
            {widened(block.scale) * static_cast<float>(SixBits{block.parts}.scale(part))},
            {widened(block.min) * static_cast<float>(SixBits{block.parts}.min(part))}};
  }
};

struct Q5K {
  static constexpr int kBits = 5;
  static constexpr int kOffset = 0;
  static constexpr bool kHalves = false;
  static constexpr bool kMins = true;
  uint16_t scale, min;
  uint8_t parts[12];
  uint8_t high[32];
  uint8_t low[128];

  static VEC_INLINE Unpacked unpack(const char* column, int64_t index) {
    const Q5K& block = reinterpret_cast<const Q5K*>(column)[index / 8];
    const int part = static_cast<int>(index % 8);
    const Block high = bits_from(load<Block>(block.high), part, 1) << 4;
    return {bits_from(load<Block>(block.low + part / 2 * 32), part % 2 * 4, 15) | high,
            {widened(block.scale) * static_cast<float>(SixBits{block.parts}.scale(part))},
            {widened(block.min) * static_cast<float>(SixBits{block.parts}.min(part))}};
  }
};

struct Q6K : Q6KBlock {
  static constexpr int kBits = 6;
  static constexpr int kOffset = 32;
  static constexpr bool kHalves = true;
  static constexpr bool kMins = false;

  static VEC_INLINE Unpacked unpack(const char* column, int64_t index) {
    const Q6K& block = reinterpret_cast<const Q6K*>(column)[index / 8];
    const int part = static_cast<int>(index % 8);
    const int half = part / 4;
    const int quarter = part % 4;
    const Block low = bits_from(load<Block>(block.low + 64 * half + quarter % 2 * 32), quarter / 2 * 4, 15);
    const Block high = bits_from(load<Block>(block.high + 32 * half), 2 * quarter, 3) << 4;
    const float scale = widened(block.scale);
    return {
        low | high,
        {scale * static_cast<float>(block.scales[2 * part]), scale * static_cast<float>(block.scales[2 * part + 1])},
        {}};
  }
};

static_assert(sizeof(Q8_0) == 34 && sizeof(Q4_0) == 18 && sizeof(Q4_1) == 20 && sizeof(Q5_0) == 22 &&
                  sizeof(Q5_1) == 24 && sizeof(Q4K) == 144 && sizeof(Q5K) == 176 && sizeof(Q6K) == 210,
              "as in ggml");

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
