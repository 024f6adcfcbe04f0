// How tiles of layers of integers end: sums times scales plus biases, rounded or as floats. For *_isa.cpp files and
// folders of instruction sets only.
#pragma once

#include "kernels/quantized/layer.h"
#include "kernels/quantized/rounding.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

constexpr int kBlockVectors = kQuantizedBlock / kLanes;  // of 32-bit numbers

// A block of channels of one pixel, in the units of the result.
struct PixelBlock {
  Float parts[kBlockVectors];
};

// The scales and biases of a block of channels, of which the first `left` count.
class BlockScaling {
 public:
  VEC_INLINE BlockScaling(const float* scale, const float* bias, int64_t left) {
    VEC_UNROLL
    for (int v = 0; v < kBlockVectors; ++v) {
      scale_[v] = load_channels(scale, left, v);
      bias_[v] = bias == nullptr ? Float{} : load_channels(bias, left, v);
    }
  }

  VEC_INLINE PixelBlock operator()(const int32_t* sums) const {
    PixelBlock y;
    VEC_UNROLL
    for (int v = 0; v < kBlockVectors; ++v) {
      y.parts[v] = floats_of(load<Int>(sums + v * kLanes)) * scale_[v] + bias_[v];
    }
    return y;
  }

 private:
  static VEC_INLINE Float load_channels(const float* from, int64_t left, int vector) {
    left -= vector * kLanes;
    if (left >= kLanes) return load<Float>(from + vector * kLanes);
    return left > 0 ? load_first(from + vector * kLanes, left) : Float{};
  }

  Float scale_[kBlockVectors];
  Float bias_[kBlockVectors];
};

// Writes pixels' blocks: bytes are rounded, moved by the zero point and kept in bounds.
class TileOutput {
 public:
  VEC_INLINE explicit TileOutput(const Requantize& output)
      : dtype_(output.dtype), rounding_(static_cast<float>(output.zero), output.low, output.high) {
#if defined(__AVX2__) && !defined(__AVX512F__)
    highest_ = _mm256_set1_ps(output.high - static_cast<float>(output.zero));
    zero_ = _mm256_set1_epi16(static_cast<int16_t>(output.zero));
    lowest_ = _mm256_set1_epi8(static_cast<char>(static_cast<int>(output.low)));
#endif
  }

  // The first `left` channels of the pixel at `upper`, and of the one at `lower` where `both`.
  VEC_INLINE void write(const PixelBlock& a, const PixelBlock& b, char* upper, char* lower, bool both,
                        int64_t left) const {
    if (dtype_ == DType::F32) {
      write_floats(a, upper, left);
      if (both) write_floats(b, lower, left);
      return;
    }
    uint8_t bytes[2][kQuantizedBlock];
    round_both(a, b, bytes);
    copy_bytes(bytes[0], upper, left);
    if (both) copy_bytes(bytes[1], lower, left);
  }

 private:
  using Bytes = Vec<uint8_t, kQuantizedBlock>;

  static VEC_INLINE void copy_bytes(const uint8_t* bytes, char* to, int64_t left) {
    if (left >= kQuantizedBlock) {
      store(to, load<Bytes>(bytes));
    } else {
      std::memcpy(to, bytes, static_cast<size_t>(left));
    }
  }

  VEC_INLINE void write_floats(const PixelBlock& y, char* to, int64_t left) const {
    auto* floats = reinterpret_cast<float*>(to);
    for (int v = 0; v < kBlockVectors && left > 0; ++v, floats += kLanes, left -= kLanes) {
      const Float value = clamped(y.parts[v], rounding_.low, rounding_.high);
      if (left >= kLanes) {
        store(floats, value);
      } else {
        store_first(floats, value, left);
      }
    }
  }

#if defined(__AVX2__) && !defined(__AVX512F__)
  // Eight channels' steps, below the highest: what is under the lowest int16 stays there.
  VEC_INLINE __m256i steps(const PixelBlock& y, int part) const {
    return _mm256_cvtps_epi32(_mm256_min_ps(reinterpret_cast<__m256>(y.parts[part]), highest_));
  }

  VEC_INLINE __m256i words(const PixelBlock& y) const {
    return _mm256_adds_epi16(_mm256_packs_epi32(steps(y, 0), steps(y, 1)), zero_);
  }

  // By instructions that narrow two vectors to one.
  VEC_INLINE void round_both(const PixelBlock& a, const PixelBlock& b, uint8_t (&to)[2][kQuantizedBlock]) const {
    const __m256i narrow = dtype_ == DType::U8 ? _mm256_max_epu8(_mm256_packus_epi16(words(a), words(b)), lowest_)
                                               : _mm256_max_epi8(_mm256_packs_epi16(words(a), words(b)), lowest_);
    store(to[0], _mm256_permutevar8x32_epi32(narrow, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
  }

  __m256 highest_;
  __m256i zero_;
  __m256i lowest_;
#else
  VEC_INLINE void round_both(const PixelBlock& a, const PixelBlock& b, uint8_t (&to)[2][kQuantizedBlock]) const {
    VEC_UNROLL
    for (int v = 0; v < kBlockVectors; ++v) {
      store_bytes(to[0] + v * kLanes, rounding_.steps(a.parts[v]));
      store_bytes(to[1] + v * kLanes, rounding_.steps(b.parts[v]));
    }
  }
#endif

  const DType dtype_;
  const Rounding rounding_;
};

// Ends a tile of some rows by `channels` channels, whole blocks that hold those to store.
// sums[row * channels + channel] are its int32 sums.
__attribute__((noinline, unused)) void finish_tile(const QuantizedTile& tile, const int32_t* sums, int rows,
                                                   int channels) {
  const TileOutput output(*tile.format);
  const int64_t item = tile.format->dtype == DType::F32 ? sizeof(float) : 1;
  for (int64_t channel = 0; channel < tile.channels; channel += kQuantizedBlock) {
    const int64_t left = tile.channels - channel;
    const BlockScaling scaled(tile.scale + channel, tile.bias == nullptr ? nullptr : tile.bias + channel, left);
    char* to = tile.output + channel * item;
    for (int row = 0; row < rows; row += 2, to += 2 * tile.output_pitch) {
      const bool both = row + 1 < rows;
      const int32_t* of_row = sums + row * channels + channel;
      output.write(scaled(of_row), scaled(both ? of_row + channels : of_row), to, to + tile.output_pitch, both, left);
    }
  }
}

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
