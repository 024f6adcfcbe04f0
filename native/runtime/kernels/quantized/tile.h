// How tiles of layers of integers end: sums times scales plus biases, rounded or as floats. For *_isa.cpp files and
// folders of instruction sets only.
#pragma once

#include "kernels/quantized/layer.h"
#include "kernels/quantized/rounding.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

constexpr int kRowsAtOnce = 4;

// kLanes channels of some rows, or the first `left` of them, of the sums in the units of the result: bytes are rounded,
// moved by the zero point and kept in bounds.
class TileOutput {
 public:
  VEC_INLINE explicit TileOutput(const Requantize& output)
      : dtype_(output.dtype), rounding_(static_cast<float>(output.zero), output.low, output.high) {
#if defined(__AVX2__) && !defined(__AVX512F__)
    zero_ = _mm256_set1_epi16(static_cast<int16_t>(output.zero));
    low_ = _mm256_set1_epi8(static_cast<char>(static_cast<int>(output.low)));
    high_ = _mm256_set1_epi8(static_cast<char>(static_cast<int>(output.high)));
#endif
  }

  VEC_INLINE void write(const Float (&y)[kRowsAtOnce], int rows, char* first, int64_t pitch, int64_t channel,
                        int64_t left) const {
    if (dtype_ == DType::F32) return write_floats(y, rows, first + channel * 4, pitch, left);
    first += channel;
#if defined(__AVX2__) && !defined(__AVX512F__)
    if (left >= kLanes) return write_four(y, rows, first, pitch);
#endif
    for (int r = 0; r < rows; ++r) {
      uint8_t bytes[kLanes];
      store_bytes(bytes, rounding_.steps(y[r]));
      std::memcpy(first + r * pitch, bytes, static_cast<size_t>(left < kLanes ? left : kLanes));
    }
  }

 private:
  VEC_INLINE void write_floats(const Float (&y)[kRowsAtOnce], int rows, char* first, int64_t pitch,
                               int64_t left) const {
    for (int r = 0; r < rows; ++r) {
      auto* to = reinterpret_cast<float*>(first + r * pitch);
      const Float value = clamped(y[r], rounding_.low, rounding_.high);
      if (left >= kLanes) {
        store(to, value);
      } else {
        store_first(to, value, left);
      }
    }
  }

#if defined(__AVX2__) && !defined(__AVX512F__)
  static VEC_INLINE __m256i nearest(Float y) {
    const __m256 largest = _mm256_set1_ps(1e9f);  // so that steps fit in int32
    return _mm256_cvtps_epi32(_mm256_min_ps(reinterpret_cast<__m256>(y), largest));
  }

  // All rows of whole vectors at once, by instructions that narrow two vectors to one.
  VEC_INLINE void write_four(const Float (&y)[kRowsAtOnce], int rows, char* first, int64_t pitch) const {
    const __m256i a = _mm256_adds_epi16(_mm256_packs_epi32(nearest(y[0]), nearest(y[1])), zero_);
    const __m256i b = _mm256_adds_epi16(_mm256_packs_epi32(nearest(y[2]), nearest(y[3])), zero_);
    __m256i bytes = dtype_ == DType::U8 ? _mm256_min_epu8(_mm256_max_epu8(_mm256_packus_epi16(a, b), low_), high_)
                                        : _mm256_min_epi8(_mm256_max_epi8(_mm256_packs_epi16(a, b), low_), high_);
    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    const __m128i halves[2] = {_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1)};
    VEC_UNROLL
    for (int r = 0; r < kRowsAtOnce; ++r) {
      if (r == rows) return;
      const __m128i half = halves[r / 2];
      _mm_storel_epi64(reinterpret_cast<__m128i*>(first + r * pitch),
                       r % 2 == 0 ? half : _mm_unpackhi_epi64(half, half));
    }
  }

  __m256i zero_;
  __m256i low_;
  __m256i high_;
#endif

  const DType dtype_;
  const Rounding rounding_;
};

VEC_INLINE Float load_channels(const float* from, int64_t left) {
  return left >= kLanes ? load<Float>(from) : load_first(from, left);
}

// Ends a tile of some rows by `channels` channels, a multiple of kLanes that is at least those to store.
// sums[row * channels + channel] are its int32 sums.
__attribute__((noinline, unused)) void finish_tile(const QuantizedTile& tile, const int32_t* sums, int rows,
                                                   int channels) {
  const TileOutput output(*tile.format);
  for (int64_t channel = 0; channel < tile.channels; channel += kLanes) {
    const int64_t left = tile.channels - channel;
    const Float scale = load_channels(tile.scale + channel, left);
    const Float bias = tile.bias == nullptr ? Float{} : load_channels(tile.bias + channel, left);
    for (int row = 0; row < rows; row += kRowsAtOnce) {
      const int count = rows - row < kRowsAtOnce ? rows - row : kRowsAtOnce;
      Float y[kRowsAtOnce];
      VEC_UNROLL
      for (int r = 0; r < kRowsAtOnce; ++r) {
        const int32_t* of_row = sums + (row + (r < count ? r : 0)) * channels + channel;
        y[r] = floats_of(load<Int>(of_row)) * scale + bias;
      }
      output.write(y, count, tile.output + row * tile.output_pitch, tile.output_pitch, channel, left);
    }
  }
}

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
