// How tiles of layers of integers end: sums times scales plus biases, rounded or as floats. For *_isa.cpp files and
// folders of instruction sets only.
#pragma once

#include "kernels/quantized/layer.h"
#include "kernels/quantized/rounding.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

// Results of integer sums in the units of the result: bytes are rounded, moved by the zero point and kept in bounds.
struct TileOutput {
  const Requantize& format;

  VEC_INLINE explicit TileOutput(const Requantize& output) : format(output) {}

  bool floats() const { return format.dtype == DType::F32; }

  VEC_INLINE void write_floats(Float y, char* row, int64_t channel, int64_t left) const {
    auto* to = reinterpret_cast<float*>(row) + channel;
    y = clamped(y, splat(format.low), splat(format.high));
    if (left >= kLanes) return store(to, y);
    store_first(to, y, left);
  }

  // kLanes bytes of each of Rows rows; of fewer channels, `left` bytes.
  template <int Rows>
  VEC_INLINE void write_bytes(const Float (&y)[Rows], char* first, int64_t pitch, int64_t left) const {
#if defined(__AVX2__) && !defined(__AVX512F__)
    if (left >= kLanes) {
      VEC_UNROLL
      for (int r = 0; r < Rows; r += 4) write_four(y, r, Rows, first, pitch);
      return;
    }
#endif
    VEC_UNROLL
    for (int r = 0; r < Rows; ++r) {
      const Int steps = in_bounds(y[r]);
      char* to = first + r * pitch;
      if (left >= kLanes) {
        store_bytes(to, steps);
        continue;
      }
      uint8_t bytes[kLanes];
      store_bytes(bytes, steps);
      for (int64_t i = 0; i < left; ++i) to[i] = static_cast<char>(bytes[i]);
    }
  }

 private:
  static constexpr float kLargest = 1e9f;  // of steps, so that they fit in int32

  VEC_INLINE Int in_bounds(Float y) const {
    const Rounding rounding(static_cast<float>(format.zero), format.low, format.high);
    return rounding.steps(y);
  }

#if defined(__AVX2__) && !defined(__AVX512F__)
  static VEC_INLINE __m256i nearest(Float y) {
    return _mm256_cvtps_epi32(_mm256_min_ps(reinterpret_cast<__m256>(y), _mm256_set1_ps(kLargest)));
  }

  // Rows r to r + 3, those that there are.
  template <int Rows>
  VEC_INLINE void write_four(const Float (&y)[Rows], int r, int rows, char* first, int64_t pitch) const {
    const auto at = [&](int row) { return nearest(y[row < rows ? row : rows - 1]); };
    const __m256i zero = _mm256_set1_epi16(static_cast<int16_t>(format.zero));
    const __m256i a = _mm256_adds_epi16(_mm256_packs_epi32(at(r), at(r + 1)), zero);
    const __m256i b = _mm256_adds_epi16(_mm256_packs_epi32(at(r + 2), at(r + 3)), zero);
    const __m256i low = _mm256_set1_epi8(static_cast<char>(static_cast<int>(format.low)));
    const __m256i high = _mm256_set1_epi8(static_cast<char>(static_cast<int>(format.high)));
    __m256i bytes = format.dtype == DType::U8 ? _mm256_min_epu8(_mm256_max_epu8(_mm256_packus_epi16(a, b), low), high)
                                              : _mm256_min_epi8(_mm256_max_epi8(_mm256_packs_epi16(a, b), low), high);
    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    const __m128i halves[2] = {_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1)};
    VEC_UNROLL
    for (int i = 0; i < 4; ++i) {
      if (r + i >= rows) return;
      auto* to = reinterpret_cast<__m128i*>(first + (r + i) * pitch);
      _mm_storel_epi64(to, i % 2 == 0 ? halves[i / 2] : _mm_unpackhi_epi64(halves[i / 2], halves[i / 2]));
    }
  }
#endif
};

VEC_INLINE Float load_channels(const float* from, int64_t left) {
  return left >= kLanes ? load<Float>(from) : load_first(from, left);
}

// Ends Rows rows by Vectors vectors of channels: `sums(row, vector)` gives their int32 sums.
template <int Rows, int Vectors, class Sums>
VEC_INLINE void finish_tile(const QuantizedTile& tile, const Sums& sums) {
  const TileOutput output(*tile.format);
  VEC_UNROLL
  for (int v = 0; v < Vectors; ++v) {
    const int64_t channel = v * kLanes;
    const int64_t left = tile.channels - channel;
    if (left <= 0) return;
    const Float scale = load_channels(tile.scale + channel, left);
    const Float bias = tile.bias == nullptr ? Float{} : load_channels(tile.bias + channel, left);
    Float y[Rows];
    VEC_UNROLL
    for (int r = 0; r < Rows; ++r) y[r] = floats_of(sums(r, v)) * scale + bias;
    if (!output.floats()) {
      output.write_bytes(y, tile.output + channel, tile.output_pitch, left);
      continue;
    }
    VEC_UNROLL
    for (int r = 0; r < Rows; ++r) output.write_floats(y[r], tile.output + r * tile.output_pitch, channel, left);
  }
}

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
