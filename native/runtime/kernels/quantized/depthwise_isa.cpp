// The arithmetic of depthwise layers of integers. Two input rows at a time are interleaved as int16 less the zero
// point, so that one instruction multiplies and sums a channel's pixels of both.
#include "kernels/quantized/depthwise.h"
#include "kernels/quantized/tile.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

constexpr int kChannels = kQuantizedBlock;  // of a vector of bytes
constexpr int kPair = 2 * kChannels;        // int16 of two such vectors
constexpr int kColumns = 4;                 // output pixels of a strip

template <class Byte>
using Bytes = Vec<Byte, kChannels>;

// `left` channels from `from` on, then zeros.
template <class Byte>
VEC_INLINE Bytes<Byte> load_channels(const void* from, int64_t left) {
  if (left >= kChannels) return load<Bytes<Byte>>(static_cast<const char*>(from));
  Bytes<Byte> some = {};
  std::memcpy(&some, from, static_cast<size_t>(left));
  return some;
}

template <class Byte>
VEC_INLINE void store_pair(Bytes<Byte> upper, Bytes<Byte> lower, int16_t zero, int16_t* to) {
  const auto low = __builtin_shufflevector(upper, lower, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const auto high = __builtin_shufflevector(upper, lower, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  store(to, __builtin_convertvector(low, Vec<int16_t, kChannels>) - zero);
  store(to + kChannels, __builtin_convertvector(high, Vec<int16_t, kChannels>) - zero);
}

int64_t vectors_of(const QuantizedDepthwise& layer) { return (layer.channels + kChannels - 1) / kChannels; }

// Vectors cover the channels; where there is more than one, the last one overlaps the one before it.
int64_t first_of(const QuantizedDepthwise& layer, int64_t vector) {
  const int64_t first = vector * kChannels;
  const int64_t last = layer.channels - kChannels;
  return last >= 0 && first > last ? last : first;
}

// Input columns that a row of output pixels sees, those outside of the image included.
int64_t columns_of(const QuantizedDepthwise& layer) {
  const Window& across = layer.window.w;
  return (layer.out_width - 1) * across.stride + (across.kernel - 1) * across.dilation + 1;
}

int64_t packed_words(const QuantizedDepthwise& layer) {  // of a vector of channels
  return tap_pairs(layer.window.h) * layer.window.w.kernel * kPair;
}

int64_t packed_bytes(const QuantizedDepthwise& layer) {
  return vectors_of(layer) * packed_words(layer) * static_cast<int64_t>(sizeof(int16_t));
}

// For each vector of channels, pair of tap rows and tap column.
void pack(const QuantizedDepthwise& layer, void* weights) {
  auto* to = static_cast<int16_t*>(weights);
  const Window& down = layer.window.h;
  const int64_t across = layer.window.w.kernel;
  for (int64_t v = 0; v < vectors_of(layer); ++v) {
    const int64_t channel = first_of(layer, v);
    for (int64_t pair = 0; pair < tap_pairs(down); ++pair) {
      const int64_t tap = upper_tap(down, pair);
      const int8_t* upper = layer.weights + tap * across * layer.pitch + channel;
      for (int64_t kx = 0; kx < across; ++kx, upper += layer.pitch, to += kPair) {
        const auto taps_of = [&](bool counts, const int8_t* from) {
          return counts ? load_channels<int8_t>(from, layer.channels - channel) : Bytes<int8_t>{};
        };
        const bool has_lower = tap + 1 < down.kernel;
        store_pair<int8_t>(taps_of(tap == 2 * pair, upper), taps_of(has_lower, upper + across * layer.pitch), 0, to);
      }
    }
  }
}

int64_t pair_bytes(const QuantizedDepthwise& layer) {
  return vectors_of(layer) * columns_of(layer) * kPair * static_cast<int64_t>(sizeof(int16_t));
}

template <class Byte>
void interleave_rows(const QuantizedDepthwise& layer, const char* upper, const char* lower, int16_t* to) {
  const auto zero = static_cast<int16_t>(layer.zero);
  const Bytes<Byte> outside = Bytes<Byte>{} + static_cast<Byte>(layer.zero);
  const int64_t columns = columns_of(layer);
  const int64_t pad = layer.window.w.pad;
  const int64_t end = layer.in_width + pad < columns ? layer.in_width + pad : columns;
  for (int64_t v = 0; v < vectors_of(layer); ++v) {
    const int64_t channel = first_of(layer, v);
    const int64_t left = layer.channels - channel;
    const auto pixel = [&](const char* row, int64_t x) {
      return row == nullptr ? outside : load_channels<Byte>(row + x * layer.pitch + channel, left);
    };
    for (int64_t column = 0; column < columns; ++column, to += kPair) {
      const int64_t x = column - pad;
      if (x < 0 || column >= end) {
        std::memset(to, 0, kPair * sizeof(int16_t));
      } else {
        store_pair<Byte>(pixel(upper, x), pixel(lower, x), zero, to);
      }
    }
  }
}

void interleave(const QuantizedDepthwise& layer, const char* upper, const char* lower, void* pair) {
  auto* to = static_cast<int16_t*>(pair);
  if (layer.is_signed) return interleave_rows<int8_t>(layer, upper, lower, to);
  interleave_rows<uint8_t>(layer, upper, lower, to);
}

// What a vector of channels of a row of output pixels is computed from.
struct Operands {
  const int16_t* weights;
  const void* const* pairs;
  int64_t first;  // int16 of a pair before these channels
  int64_t pair_count;

  VEC_INLINE const int16_t* inputs(int64_t pair, int64_t column, int part) const {
    return static_cast<const int16_t*>(pairs[pair]) + first + column * kPair + part * 2 * kLanes;
  }
};

// Sums of kColumns output pixels from a column on, with a kernel of Kernel undilated taps across.
template <int Kernel, int Stride>
VEC_INLINE void sum_strip(const Operands& of, int64_t column, Int (&sums)[kColumns][kBlockVectors]) {
  constexpr int kInputs = (kColumns - 1) * Stride + Kernel;
  VEC_UNROLL
  for (int part = 0; part < kBlockVectors; ++part) {
    Int of_part[kColumns] = {};
    const int16_t* weights = of.weights + part * 2 * kLanes;
    for (int64_t pair = 0; pair < of.pair_count; ++pair, weights += Kernel * kPair) {
      const int16_t* inputs = of.inputs(pair, column * Stride, part);
      Words w[Kernel];
      VEC_UNROLL
      for (int kx = 0; kx < Kernel; ++kx) w[kx] = load<Words>(weights + kx * kPair);
      VEC_UNROLL
      for (int j = 0; j < kInputs; ++j) {
        const auto x = load<Words>(inputs + j * kPair);
        VEC_UNROLL
        for (int i = 0; i < kColumns; ++i) {
          const int kx = j - i * Stride;
          if (kx >= 0 && kx < Kernel) of_part[i] += pair_products(x, w[kx]);
        }
      }
    }
    VEC_UNROLL
    for (int i = 0; i < kColumns; ++i) sums[i][part] = of_part[i];
  }
}

// The same of one pixel, with any window.
VEC_INLINE void sum_pixel(const QuantizedDepthwise& layer, const Operands& of, int64_t column,
                          Int (&sums)[kBlockVectors]) {
  const Window& across = layer.window.w;
  VEC_UNROLL
  for (int part = 0; part < kBlockVectors; ++part) {
    Int of_part = {};
    const int16_t* weights = of.weights + part * 2 * kLanes;
    for (int64_t pair = 0; pair < of.pair_count; ++pair) {
      for (int64_t kx = 0; kx < across.kernel; ++kx, weights += kPair) {
        const int16_t* inputs = of.inputs(pair, column * across.stride + kx * across.dilation, part);
        of_part += pair_products(load<Words>(inputs), load<Words>(weights));
      }
    }
    sums[part] = of_part;
  }
}

// Where a row of output pixels goes, and how.
struct OutputRow {
  const TileOutput& output;
  const BlockScaling& scaled;
  char* first;
  int64_t pitch;
  int64_t left;  // channels

  template <int Pixels>
  VEC_INLINE void write(const Int (&sums)[Pixels][kBlockVectors], int64_t column) const {
    PixelBlock y[Pixels];
    VEC_UNROLL
    for (int i = 0; i < Pixels; ++i) y[i] = scaled(sums[i]);
    output.write(y, first + column * pitch, pitch, left);
  }
};

template <int Kernel, int Stride>
void run_strips(const QuantizedDepthwise& layer, const Operands& of, const OutputRow& row) {
  for (int64_t done = 0; done < layer.out_width; done += kColumns) {
    // The last strip may overlap the one before it.
    const int64_t column = done + kColumns > layer.out_width ? layer.out_width - kColumns : done;
    Int sums[kColumns][kBlockVectors];
    sum_strip<Kernel, Stride>(of, column, sums);
    row.write(sums, column);
  }
}

void run_pixels(const QuantizedDepthwise& layer, const Operands& of, const OutputRow& row) {
  for (int64_t column = 0; column < layer.out_width; ++column) {
    Int sums[1][kBlockVectors];
    sum_pixel(layer, of, column, sums[0]);
    row.write(sums, column);
  }
}

using RowRun = decltype(&run_pixels);

template <int Kernel>
RowRun strips_of_stride(int64_t stride) {
  return stride == 1 ? run_strips<Kernel, 1> : stride == 2 ? run_strips<Kernel, 2> : run_pixels;
}

RowRun find_run(const QuantizedDepthwise& layer) {
  const Window& across = layer.window.w;
  if (across.dilation != 1 || layer.out_width < kColumns) return run_pixels;
  return across.kernel == 3   ? strips_of_stride<3>(across.stride)
         : across.kernel == 5 ? strips_of_stride<5>(across.stride)
                              : run_pixels;
}

void run(const QuantizedDepthwise& layer, const void* weights, const void* const* pairs, char* output,
         int64_t output_pitch) {
  const RowRun run_row = find_run(layer);
  const TileOutput rounded(layer.output);
  const int64_t item = layer.output.dtype == DType::F32 ? sizeof(float) : 1;
  const auto* packed = static_cast<const int16_t*>(weights);
  for (int64_t v = 0; v < vectors_of(layer); ++v) {
    const int64_t channel = first_of(layer, v);
    const int64_t left = layer.channels - channel;
    const BlockScaling scaled(layer.scale + channel, layer.bias == nullptr ? nullptr : layer.bias + channel, left);
    run_row(layer, {packed + v * packed_words(layer), pairs, v * columns_of(layer) * kPair, tap_pairs(layer.window.h)},
            {rounded, scaled, output + channel * item, output_pitch, left});
  }
}

}  // namespace

const QuantizedDepthwiseLoops& quantized_depthwise_loops() {
  static constexpr QuantizedDepthwiseLoops kLoops = {packed_bytes, pack, pair_bytes, interleave, run};
  return kLoops;
}

}  // namespace executorch_ggml::kernels::KERNEL_ISA
