// The arithmetic of depthwise layers of integers. Two input rows at a time are interleaved as int16, so that one
// instruction multiplies and sums a channel's pixels of both; each such pair serves all taps that see it.
#include "kernels/quantized/depthwise.h"
#include "kernels/quantized/tile.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

constexpr int kColumns = kRowsAtOnce;  // output pixels of a strip

#if defined(__AVX2__)

#if defined(__AVX512BW__)
using Words = __m512i;
using Bytes = __m256i;
VEC_INLINE Words words_of(Bytes bytes) { return _mm512_maskz_cvtepi8_epi16(~0u, bytes); }
VEC_INLINE Words interleaved_low(Words a, Words b) { return _mm512_maskz_unpacklo_epi16(~0u, a, b); }
VEC_INLINE Words interleaved_high(Words a, Words b) { return _mm512_maskz_unpackhi_epi16(~0u, a, b); }
VEC_INLINE Int products(Words a, Words b) { return reinterpret_cast<Int>(_mm512_madd_epi16(a, b)); }
VEC_INLINE Int first_channels(Int low, Int high) {
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
}
VEC_INLINE Int last_channels(Int low, Int high) {
  return __builtin_shufflevector(low, high, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
}
#else
using Words = __m256i;
using Bytes = __m128i;
VEC_INLINE Words words_of(Bytes bytes) { return _mm256_cvtepi8_epi16(bytes); }
VEC_INLINE Words interleaved_low(Words a, Words b) { return _mm256_unpacklo_epi16(a, b); }
VEC_INLINE Words interleaved_high(Words a, Words b) { return _mm256_unpackhi_epi16(a, b); }
VEC_INLINE Int products(Words a, Words b) { return reinterpret_cast<Int>(_mm256_madd_epi16(a, b)); }
VEC_INLINE Int first_channels(Int low, Int high) {
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 8, 9, 10, 11);
}
VEC_INLINE Int last_channels(Int low, Int high) {
  return __builtin_shufflevector(low, high, 4, 5, 6, 7, 12, 13, 14, 15);
}
#endif

constexpr int kChannels = static_cast<int>(sizeof(Bytes));

// A channel's weights of two tap rows, in the order in which interleaving puts channels.
struct Pair {
  Words low;
  Words high;
};

struct Sums {
  Int low;
  Int high;
};

// `left` channels from `from` on, then zeros.
VEC_INLINE Bytes load_channels_of(const void* from, int64_t left) {
  if (left >= kChannels) return load<Bytes>(static_cast<const char*>(from));
  char some[kChannels] = {};
  for (int64_t i = 0; i < left; ++i) some[i] = static_cast<const char*>(from)[i];
  return load<Bytes>(some);
}

VEC_INLINE Pair interleaved(Words a, Words b) { return {interleaved_low(a, b), interleaved_high(a, b)}; }

VEC_INLINE void add_products(Sums& sums, const Pair& a, const Pair& b) {
  sums.low += products(a.low, b.low);
  sums.high += products(a.high, b.high);
}

int64_t vectors_of(const QuantizedDepthwise& layer) { return (layer.channels + kChannels - 1) / kChannels; }

int64_t pairs_of(const QuantizedDepthwise& layer) { return (layer.window.h.kernel + 1) / 2; }

// Vectors cover the channels; where there is more than one, the last one overlaps the one before it.
int64_t first_of(const QuantizedDepthwise& layer, int64_t vector) {
  const int64_t first = vector * kChannels;
  const int64_t last = layer.channels - kChannels;
  return last >= 0 && first > last ? last : first;
}

// What is prepared of a vector: the sums to begin with, then the weights of each pair of tap rows and tap column.
struct Prepared {
  const Sums* start;
  const Pair* weights;

  Prepared(const QuantizedDepthwise& layer, const void* all, int64_t vector) {
    const int64_t size = pairs_of(layer) * layer.window.w.kernel * static_cast<int64_t>(sizeof(Pair)) + sizeof(Sums);
    start = reinterpret_cast<const Sums*>(static_cast<const char*>(all) + vector * size);
    weights = reinterpret_cast<const Pair*>(start + 1);
  }
};

int64_t prepared_bytes(const QuantizedDepthwise& layer) {
  const int64_t pairs = pairs_of(layer) * layer.window.w.kernel * static_cast<int64_t>(sizeof(Pair));
  return vectors_of(layer) * (pairs + static_cast<int64_t>(sizeof(Sums)));
}

void prepare(const QuantizedDepthwise& layer, void* prepared) {
  const int64_t across = layer.window.w.kernel;
  const Words ones = reinterpret_cast<Words>(Vec<int16_t, kChannels>{} + static_cast<int16_t>(1));
  for (int64_t v = 0; v < vectors_of(layer); ++v) {
    const Prepared of_vector(layer, prepared, v);
    auto* weights = const_cast<Pair*>(of_vector.weights);
    const int64_t first = first_of(layer, v);
    const int64_t left = layer.channels - first;
    Sums sums = {};
    for (int64_t pair = 0; pair < pairs_of(layer); ++pair) {
      for (int64_t kx = 0; kx < across; ++kx) {
        const int8_t* upper = layer.weights + (2 * pair * across + kx) * layer.pitch + first;
        const bool has_lower = 2 * pair + 1 < layer.window.h.kernel;
        const Words a = words_of(load_channels_of(upper, left));
        const Words b = has_lower ? words_of(load_channels_of(upper + across * layer.pitch, left)) : Words{};
        const Pair w = interleaved(a, b);
        *weights++ = w;
        add_products(sums, w, {ones, ones});
      }
    }
    const int32_t zero = layer.zero - (layer.is_signed ? 0 : 128);
    *const_cast<Sums*>(of_vector.start) = {sums.low * -zero, sums.high * -zero};
  }
}

// Turns unsigned bytes into signed ones that are 128 less.
VEC_INLINE Bytes flip_of(const QuantizedDepthwise& layer) {
  const uint8_t flipped = layer.is_signed ? 0 : 0x80;
  return reinterpret_cast<Bytes>(Vec<uint8_t, kChannels>{} + flipped);
}

VEC_INLINE Pair load_pixels(const char* upper, const char* lower, Bytes flip) {
  return interleaved(words_of(load<Bytes>(upper) ^ flip), words_of(load<Bytes>(lower) ^ flip));
}

// Where the inputs of two tap rows begin, and bytes from a pixel to the next (0 outside of the image).
struct RowPair {
  const char* begin[2];
  int64_t pitch[2];

  VEC_INLINE const char* at(int row, int64_t column) const { return begin[row] + column * pitch[row]; }
};

RowPair rows_of(const QuantizedDepthwise& layer, const QuantizedDepthwiseRow& row, int64_t pair, int64_t channel) {
  RowPair rows;
  for (int i = 0; i < 2; ++i) {
    const int64_t tap = 2 * pair + i;
    const bool inside = tap < layer.window.h.kernel && row.rows[tap] != nullptr;
    rows.pitch[i] = inside ? layer.pitch : 0;
    rows.begin[i] = (inside ? row.rows[tap] : row.outside) + channel;
  }
  return rows;
}

// Some pixels of a pair of rows, `left` channels of each; those outside of the image are zero points.
struct Pixels {
  static constexpr int kMost = (kColumns - 1) * 2 + 5;
  char bytes[2][kMost][kChannels];

  __attribute__((noinline)) RowPair copy(const QuantizedDepthwise& layer, const QuantizedDepthwiseRow& row,
                                         const RowPair& from, int64_t column, int count, int64_t channel,
                                         int64_t left) {
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < count; ++j) {
        const bool inside = column + j >= 0 && column + j < layer.in_width;
        const char* pixel = inside ? from.at(i, column + j) : row.outside + channel;
        if (left >= kChannels) {
          store(bytes[i][j], load<Bytes>(pixel));
        } else {
          std::memcpy(bytes[i][j], pixel, static_cast<size_t>(left));
        }
      }
    }
    return {{bytes[0][0], bytes[1][0]}, {kChannels, kChannels}};
  }
};

// Ends `count` output pixels from a column on.
__attribute__((noinline)) void finish(const QuantizedDepthwise& layer, const Sums (&sums)[kColumns], int count,
                                      const QuantizedDepthwiseRow& row, int64_t column, int64_t channel, int64_t left) {
  const TileOutput output(layer.output);
  for (int half = 0; half < 2; ++half) {
    const int64_t at = channel + half * kLanes;
    const int64_t of_half = left - half * kLanes;
    if (of_half <= 0) return;
    const Float scale = load_channels(layer.scale + at, of_half);
    const Float bias = layer.bias == nullptr ? Float{} : load_channels(layer.bias + at, of_half);
    Float y[kColumns];
    VEC_UNROLL
    for (int i = 0; i < kColumns; ++i) {
      const Int total =
          half == 0 ? first_channels(sums[i].low, sums[i].high) : last_channels(sums[i].low, sums[i].high);
      y[i] = floats_of(total) * scale + bias;
    }
    output.write(y, count, row.output + column * row.output_pitch, row.output_pitch, at, of_half);
  }
}

constexpr int kMostPairs = 4;  // of tap rows, where pixels are computed in strips

// A row of output pixels by strips of kColumns, with a kernel of Kernel undilated taps across; some channels of it.
template <int Kernel, int Stride>
void run_strips(const QuantizedDepthwise& layer, const Prepared& prepared, const QuantizedDepthwiseRow& row,
                int64_t channel, int64_t left) {
  constexpr int kInputs = (kColumns - 1) * Stride + Kernel;
  const Bytes flip = flip_of(layer);
  const auto pairs = static_cast<int>(pairs_of(layer));
  RowPair rows[kMostPairs];
  for (int pair = 0; pair < pairs; ++pair) rows[pair] = rows_of(layer, row, pair, channel);
  for (int64_t done = 0; done < layer.out_width; done += kColumns) {
    // The last strip may overlap the one before it.
    const int64_t column = done + kColumns > layer.out_width ? layer.out_width - kColumns : done;
    const int64_t first = column * Stride - layer.window.w.pad;
    const bool direct = first >= 0 && first + kInputs <= layer.in_width && left >= kChannels;
    const Pair* weights = prepared.weights;
    Sums sums[kColumns];
    VEC_UNROLL
    for (int i = 0; i < kColumns; ++i) sums[i] = *prepared.start;
    for (int pair = 0; pair < pairs; ++pair, weights += Kernel) {
      Pixels pixels;
      const RowPair copied = direct ? rows[pair] : pixels.copy(layer, row, rows[pair], first, kInputs, channel, left);
      const char* upper = copied.at(0, direct ? first : 0);
      const char* lower = copied.at(1, direct ? first : 0);
      VEC_UNROLL
      for (int j = 0; j < kInputs; ++j) {
        const Pair x = load_pixels(upper, lower, flip);
        upper += copied.pitch[0];
        lower += copied.pitch[1];
        VEC_UNROLL
        for (int i = 0; i < kColumns; ++i) {
          const int kx = j - i * Stride;
          if (kx >= 0 && kx < Kernel) add_products(sums[i], x, weights[kx]);
        }
      }
    }
    finish(layer, sums, kColumns, row, column, channel, left);
  }
}

// The same pixel by pixel, with any window.
void run_pixels(const QuantizedDepthwise& layer, const Prepared& prepared, const QuantizedDepthwiseRow& row,
                int64_t channel, int64_t left) {
  const Window& across = layer.window.w;
  const Bytes flip = flip_of(layer);
  for (int64_t column = 0; column < layer.out_width; ++column) {
    Sums sums[kColumns] = {*prepared.start};
    for (int64_t pair = 0; pair < pairs_of(layer); ++pair) {
      const RowPair rows = rows_of(layer, row, pair, channel);
      for (int64_t kx = 0; kx < across.kernel; ++kx) {
        Pixels pixels;
        const int64_t x = column * across.stride - across.pad + kx * across.dilation;
        const RowPair copied = pixels.copy(layer, row, rows, x, 1, channel, left);
        const Pair both = load_pixels(copied.begin[0], copied.begin[1], flip);
        add_products(sums[0], both, prepared.weights[pair * across.kernel + kx]);
      }
    }
    finish(layer, sums, 1, row, column, channel, left);
  }
}

using RowRun = decltype(&run_pixels);

template <int Kernel>
RowRun strips_of_stride(int64_t stride) {
  return stride == 1 ? run_strips<Kernel, 1> : stride == 2 ? run_strips<Kernel, 2> : run_pixels;
}

RowRun find_run(const QuantizedDepthwise& layer) {
  const Window& across = layer.window.w;
  if (across.dilation != 1 || layer.out_width < kColumns || pairs_of(layer) > kMostPairs) return run_pixels;
  return across.kernel == 3   ? strips_of_stride<3>(across.stride)
         : across.kernel == 5 ? strips_of_stride<5>(across.stride)
                              : run_pixels;
}

void run(const QuantizedDepthwise& layer, const void* prepared, const QuantizedDepthwiseRow& row) {
  const RowRun run_row = find_run(layer);
  for (int64_t v = 0; v < vectors_of(layer); ++v) {
    const int64_t channel = first_of(layer, v);
    run_row(layer, Prepared(layer, prepared, v), row, channel, layer.channels - channel);
  }
}

#else

int64_t prepared_bytes(const QuantizedDepthwise&) { return 0; }

void prepare(const QuantizedDepthwise&, void*) {}

int32_t sum_of(const QuantizedDepthwise& layer, const QuantizedDepthwiseRow& row, int64_t column, int64_t channel) {
  const Window& across = layer.window.w;
  int32_t sum = 0;
  for (int64_t ky = 0; ky < layer.window.h.kernel; ++ky) {
    if (row.rows[ky] == nullptr) continue;
    for (int64_t kx = 0; kx < across.kernel; ++kx) {
      const int64_t x = column * across.stride - across.pad + kx * across.dilation;
      if (x < 0 || x >= layer.in_width) continue;
      const char byte = row.rows[ky][x * layer.pitch + channel];
      const int32_t input = layer.is_signed ? static_cast<int8_t>(byte) : static_cast<uint8_t>(byte);
      sum += (input - layer.zero) * layer.weights[(ky * across.kernel + kx) * layer.pitch + channel];
    }
  }
  return sum;
}

void run(const QuantizedDepthwise& layer, const void*, const QuantizedDepthwiseRow& row) {
  const TileOutput output(layer.output);
  for (int64_t column = 0; column < layer.out_width; ++column) {
    for (int64_t channel = 0; channel < layer.channels; channel += kLanes) {
      const int64_t left = layer.channels - channel;
      Int sums = {};
      for (int64_t i = 0; i < (left < kLanes ? left : kLanes); ++i) sums[i] = sum_of(layer, row, column, channel + i);
      const Float scale = load_channels(layer.scale + channel, left);
      const Float bias = layer.bias == nullptr ? Float{} : load_channels(layer.bias + channel, left);
      const Float y[kRowsAtOnce] = {floats_of(sums) * scale + bias};
      output.write(y, 1, row.output + column * row.output_pitch, row.output_pitch, channel, left);
    }
  }
}

#endif

}  // namespace

const QuantizedDepthwiseLoops& quantized_depthwise_loops() {
  static constexpr QuantizedDepthwiseLoops kLoops = {prepared_bytes, prepare, run};
  return kLoops;
}

}  // namespace executorch_ggml::kernels::KERNEL_ISA
