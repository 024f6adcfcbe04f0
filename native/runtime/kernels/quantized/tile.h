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

// The scales and biases of a block of channels, of which the first `left` count. Products are rounded before biases are
// added: instruction sets with and without FMA give the same numbers.
class BlockScaling {
 public:
  VEC_INLINE BlockScaling(const float* scale, const float* bias, int64_t left) {
    VEC_UNROLL
    for (int v = 0; v < kBlockVectors; ++v) {
      scale_[v] = load_channels(scale, left, v);
      bias_[v] = bias == nullptr ? Float{} : load_channels(bias, left, v);
    }
  }

  VEC_INLINE PixelBlock operator()(const Int (&sums)[kBlockVectors]) const {
    PixelBlock y;
    VEC_UNROLL
    for (int v = 0; v < kBlockVectors; ++v) y.parts[v] = rounded(floats_of(sums[v]) * scale_[v]) + bias_[v];
    return y;
  }

  VEC_INLINE PixelBlock operator()(const int32_t* sums) const {
    Int of_block[kBlockVectors];
    VEC_UNROLL
    for (int v = 0; v < kBlockVectors; ++v) of_block[v] = load<Int>(sums + v * kLanes);
    return (*this)(of_block);
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
  // Pixels that are rounded together, by instructions that narrow two vectors to one.
#if defined(__AVX512BW__)
  static constexpr int kAtOnce = 4;
#elif defined(__AVX2__)
  static constexpr int kAtOnce = 2;
#else
  static constexpr int kAtOnce = 1;
#endif

  VEC_INLINE explicit TileOutput(const ResultFormat& format)
      : dtype_(format.dtype), rounding_(format.zero, format.low, format.high) {
#if defined(__AVX512BW__)
    highest_ = _mm512_set1_ps(format.highest_step);
    zero_ = _mm512_set1_epi32(format.zero_words);
    lowest_ = _mm512_set1_epi32(format.lowest_bytes);
#elif defined(__AVX2__)
    highest_ = _mm256_set1_ps(format.highest_step);
    zero_ = _mm256_set1_epi32(format.zero_words);
    lowest_ = _mm256_set1_epi32(format.lowest_bytes);
#endif
  }

  // The first `left` channels of Pixels pixels that are `pitch` bytes apart.
  template <int Pixels>
  VEC_INLINE void write(const PixelBlock (&y)[Pixels], char* to, int64_t pitch, int64_t left) const {
    if (dtype_ == DType::F32) {
      VEC_UNROLL
      for (int i = 0; i < Pixels; ++i) write_floats(y[i], to + i * pitch, left);
      return;
    }
    VEC_UNROLL
    for (int i = 0; i < Pixels; i += kAtOnce) {
      PixelBlock some[kAtOnce];
      Bytes bytes[kAtOnce];
      VEC_UNROLL
      for (int k = 0; k < kAtOnce; ++k) some[k] = y[i + k < Pixels ? i + k : Pixels - 1];
      round(some, bytes);
      VEC_UNROLL
      for (int k = 0; k < kAtOnce; ++k) {
        if (i + k < Pixels) write_bytes(bytes[k], to + (i + k) * pitch, left);
      }
    }
  }

 private:
  using Bytes = Vec<uint8_t, kQuantizedBlock>;

  static VEC_INLINE void write_bytes(Bytes bytes, char* to, int64_t left) {
    if (left >= kQuantizedBlock) {
      store(to, bytes);
    } else {
#if defined(__AVX512BW__)
      _mm_mask_storeu_epi8(to, static_cast<__mmask16>((1u << left) - 1), reinterpret_cast<__m128i>(bytes));
#else
      write_some(bytes, to, left);
#endif
    }
  }

  // Not inlined: whole blocks would be stored for it, too.
  static __attribute__((noinline)) void write_some(Bytes bytes, char* to, int64_t left) {
    std::memcpy(to, &bytes, static_cast<size_t>(left));
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

  // Steps are kept below the highest; what is under the lowest int16 stays there.
#if defined(__AVX512BW__)
  VEC_INLINE __m512i steps(const PixelBlock& y) const {
    return _mm512_maskz_cvtps_epi32(0xffff,
                                    _mm512_maskz_min_ps(0xffff, reinterpret_cast<__m512>(y.parts[0]), highest_));
  }

  VEC_INLINE __m512i words(const PixelBlock& a, const PixelBlock& b) const {
    return _mm512_adds_epi16(_mm512_packs_epi32(steps(a), steps(b)), zero_);
  }

  VEC_INLINE void round(const PixelBlock (&y)[kAtOnce], Bytes (&to)[kAtOnce]) const {
    const __m512i a = words(y[0], y[1]);
    const __m512i b = words(y[2], y[3]);
    const __m512i narrow = dtype_ == DType::U8 ? _mm512_max_epu8(_mm512_packus_epi16(a, b), lowest_)
                                               : _mm512_max_epi8(_mm512_packs_epi16(a, b), lowest_);
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i pixels = _mm512_maskz_permutexvar_epi32(0xffff, order, narrow);
    std::memcpy(to, &pixels, sizeof(to));
  }

  __m512 highest_;
  __m512i zero_;
  __m512i lowest_;
#elif defined(__AVX2__)
  VEC_INLINE __m256i steps(const PixelBlock& y, int part) const {
    return _mm256_cvtps_epi32(_mm256_min_ps(reinterpret_cast<__m256>(y.parts[part]), highest_));
  }

  VEC_INLINE __m256i words(const PixelBlock& y) const {
    return _mm256_adds_epi16(_mm256_packs_epi32(steps(y, 0), steps(y, 1)), zero_);
  }

  VEC_INLINE void round(const PixelBlock (&y)[kAtOnce], Bytes (&to)[kAtOnce]) const {
    const __m256i a = words(y[0]);
    const __m256i b = words(y[1]);
    const __m256i narrow = dtype_ == DType::U8 ? _mm256_max_epu8(_mm256_packus_epi16(a, b), lowest_)
                                               : _mm256_max_epi8(_mm256_packs_epi16(a, b), lowest_);
    const __m256i pixels = _mm256_permutevar8x32_epi32(narrow, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    std::memcpy(to, &pixels, sizeof(to));
  }

  __m256 highest_;
  __m256i zero_;
  __m256i lowest_;
#else
  VEC_INLINE void round(const PixelBlock (&y)[kAtOnce], Bytes (&to)[kAtOnce]) const {
    uint8_t bytes[kQuantizedBlock];
    VEC_UNROLL
    for (int v = 0; v < kBlockVectors; ++v) store_bytes(bytes + v * kLanes, rounding_.steps(y[0].parts[v]));
    to[0] = load<Bytes>(bytes);
  }
#endif

  const DType dtype_;
  const Rounding rounding_;
};

// The int32 sums of a tile.
template <int Rows, int Blocks>
struct TileSums {
  Int at[Rows][Blocks][kBlockVectors];
};

inline int64_t output_bytes(const QuantizedTile& tile) { return tile.format->dtype == DType::F32 ? sizeof(float) : 1; }

inline const float* bias_from(const QuantizedTile& tile, int64_t channel) {
  return tile.bias == nullptr ? nullptr : tile.bias + channel;
}

// The weights of the block that a channel is the first of.
inline const int8_t* weights_from(const QuantizedTile& tile, int64_t channel) {
  return tile.weights + channel / kQuantizedBlock * tile.block_bytes;
}

// The zero point's share of the sums of a vector of its channels, to be added.
VEC_INLINE Int zero_share(const QuantizedTile& tile, int64_t channel, int vector) {
  const auto* sums = reinterpret_cast<const char*>(tile.sums) + channel / kQuantizedBlock * tile.block_bytes;
  return load<Int>(sums + vector * kVectorBytes) * -tile.zero;
}

// Ends blocks, from the one on that `channel` is the first of, whose sums are in registers. Each has channels to store.
template <int Rows, int Blocks>
VEC_INLINE void finish_blocks(const QuantizedTile& tile, int64_t channel, const TileSums<Rows, Blocks>& sums) {
  const TileOutput output(*tile.format);
  VEC_UNROLL
  for (int b = 0; b < Blocks; ++b, channel += kQuantizedBlock) {
    const int64_t left = tile.channels - channel;
    const BlockScaling scaled(tile.scale + channel, bias_from(tile, channel), left);
    PixelBlock y[Rows];
    VEC_UNROLL
    for (int r = 0; r < Rows; ++r) y[r] = scaled(sums.at[r][b]);
    output.write(y, tile.output + channel * output_bytes(tile), tile.output_pitch, left);
  }
}

// Ends rows `row` to `end` of the block of a tile's channels that `channel` is the first of.
// sums[row * channels + channel] are their int32 sums.
VEC_INLINE void finish_rows(const QuantizedTile& tile, const int32_t* sums, int channels, int64_t channel, int64_t row,
                            int64_t end) {
  constexpr int kAtOnce = TileOutput::kAtOnce;
  const TileOutput output(*tile.format);
  const int64_t left = tile.channels - channel;
  const BlockScaling scaled(tile.scale + channel, bias_from(tile, channel), left);
  char* to = tile.output + channel * output_bytes(tile);
  for (; row + kAtOnce <= end; row += kAtOnce) {
    PixelBlock y[kAtOnce];
    VEC_UNROLL
    for (int k = 0; k < kAtOnce; ++k) y[k] = scaled(sums + (row + k) * channels + channel);
    output.write(y, to + row * tile.output_pitch, tile.output_pitch, left);
  }
  for (; row < end; ++row) {
    const PixelBlock y[1] = {scaled(sums + row * channels + channel)};
    output.write(y, to + row * tile.output_pitch, tile.output_pitch, left);
  }
}

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
