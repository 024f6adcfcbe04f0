// The loops of depthwise layers of integers, by an `Arithmetic` of interleaved rows. For *_isa.cpp files and folders of
// instruction sets only.
//
//   kRows                               of a bundle
//   interleave<Byte>(rows, zero, to)    a vector of channels of a pixel of each row
//   outside(layer)                      the bytes that stand for pixels outside of the image
//   pack(rows, to)                      a vector of channels of a tap of each row
//   zero(layer)                         which times the sum of a channel's weights is more than its sum
//   plus_products(sum, x, weights)
#pragma once

#include "kernels/quantized/depthwise.h"
#include "kernels/quantized/tile.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

constexpr int kChannels = kQuantizedBlock;  // of a vector of bytes
constexpr int kColumnBytes = kQuadBytes;    // of a column of a bundle, or of packed weights, for such a vector
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

template <class Vector>
VEC_INLINE Vector interleave_low(Vector a, Vector b) {
  if constexpr (kLanesOf<Vector> == 16) {
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  } else {
    return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
  }
}

template <class Vector>
VEC_INLINE Vector interleave_high(Vector a, Vector b) {
  if constexpr (kLanesOf<Vector> == 16) {
    return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  } else {
    return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
  }
}

inline int64_t vectors_of(const QuantizedDepthwise& layer) { return (layer.channels + kChannels - 1) / kChannels; }

// Vectors cover the channels; where there is more than one, the last one overlaps the one before it.
inline int64_t first_of(const QuantizedDepthwise& layer, int64_t vector) {
  const int64_t first = vector * kChannels;
  const int64_t last = layer.channels - kChannels;
  return last >= 0 && first > last ? last : first;
}

// Input columns that a row of output pixels sees, those outside of the image included.
inline int64_t columns_of(const QuantizedDepthwise& layer) {
  const Window& across = layer.window.w;
  return (layer.out_width - 1) * across.stride + (across.kernel - 1) * across.dilation + 1;
}

// `n` where it is from 0 to `most`, else the nearer of the two.
inline int64_t bounded(int64_t n, int64_t most) { return n < 0 ? 0 : n < most ? n : most; }

template <class Arithmetic>
struct Depthwise {
  static constexpr int kRows = Arithmetic::kRows;

  static int64_t bundles(const QuantizedDepthwise& layer) { return bundles_of(layer.window.h, kRows); }

  // Of a vector of channels: the weights of each row of output pixels that is computed at once, and their sums.
  static int64_t row_bytes(const QuantizedDepthwise& layer) {
    return bundles(layer) * layer.window.w.kernel * kColumnBytes;
  }
  static int64_t vector_bytes(const QuantizedDepthwise& layer) {
    return rows_at_once(layer.window.h, kRows) * row_bytes(layer) + kColumnBytes;
  }

  static int64_t packed_bytes(const QuantizedDepthwise& layer) { return vectors_of(layer) * vector_bytes(layer); }

  static void pack(const QuantizedDepthwise& layer, void* weights) {
    auto* to = static_cast<char*>(weights);
    const Window& down = layer.window.h;
    for (int64_t v = 0; v < vectors_of(layer); ++v) {
      for (int64_t row = 0; row < rows_at_once(down, kRows); ++row) {
        for (int64_t number = 0; number < bundles(layer); ++number) {
          for (int64_t kx = 0; kx < layer.window.w.kernel; ++kx, to += kColumnBytes) {
            pack_column(layer, first_of(layer, v), row, number, kx, to);
          }
        }
      }
      pack_sums(layer, first_of(layer, v), to);
      to += kColumnBytes;
    }
  }

  // A column of the taps of a bundle, for the output row that is `row` after the one that the bundle begins with.
  static void pack_column(const QuantizedDepthwise& layer, int64_t channel, int64_t row, int64_t number, int64_t kx,
                          char* to) {
    const Window& down = layer.window.h;
    Bytes<int8_t> taps[kRows] = {};
    for (int i = 0; i < kRows; ++i) {
      const int64_t input_row = first_tap(down, kRows, number) + i;
      const int64_t tap = input_row - row * down.stride;
      const bool is_in_one_before = input_row < number * kRows;
      if (is_in_one_before || tap < 0 || tap >= down.kernel) continue;
      const int8_t* from = layer.weights + (tap * layer.window.w.kernel + kx) * layer.pitch + channel;
      taps[i] = load_channels<int8_t>(from, layer.channels - channel);
    }
    Arithmetic::pack(taps, to);
  }

  static void pack_sums(const QuantizedDepthwise& layer, int64_t channel, char* to) {
    const int32_t zero = Arithmetic::zero(layer);
    Int sums[kBlockVectors] = {};
    const int64_t taps = layer.window.h.kernel * layer.window.w.kernel;
    for (int64_t tap = 0; tap < taps; ++tap) {
      const auto weights = load_channels<int8_t>(layer.weights + tap * layer.pitch + channel, layer.channels - channel);
      VEC_UNROLL
      for (int part = 0; part < kBlockVectors; ++part) {
        sums[part] += load_narrow(reinterpret_cast<const int8_t*>(&weights) + part * kLanes);
      }
    }
    VEC_UNROLL
    for (int part = 0; part < kBlockVectors; ++part) store(to + part * kVectorBytes, sums[part] * -zero);
  }

  static int64_t bundle_bytes(const QuantizedDepthwise& layer) {
    return vectors_of(layer) * columns_of(layer) * kColumnBytes;
  }

  // Columns of a vector of channels, which `count` pixels of each row are.
  template <class Byte>
  static VEC_INLINE char* interleave_columns(const QuantizedDepthwise& layer, const char* const (&rows)[kRows],
                                             const int64_t (&pitches)[kRows], int64_t count, int64_t left, char* to) {
    for (int64_t x = 0; x < count; ++x, to += kColumnBytes) {
      Bytes<Byte> pixels[kRows];
      VEC_UNROLL
      for (int i = 0; i < kRows; ++i) pixels[i] = load_channels<Byte>(rows[i] + x * pitches[i], left);
      Arithmetic::template interleave<Byte>(pixels, layer.zero, to);
    }
    return to;
  }

  static char* fill_outside(const QuantizedDepthwise& layer, int64_t columns, char* to) {
    std::memset(to, Arithmetic::outside(layer), static_cast<size_t>(columns * kColumnBytes));
    return to + columns * kColumnBytes;
  }

  template <class Byte>
  static void interleave_rows(const QuantizedDepthwise& layer, const char* const* rows, char* to) {
    const Bytes<Byte> outside = Bytes<Byte>{} + static_cast<Byte>(layer.zero);
    const int64_t columns = columns_of(layer);
    const int64_t pad = bounded(layer.window.w.pad, columns);
    const int64_t skipped = bounded(-layer.window.w.pad, layer.in_width);  // a window may begin inside the image
    const int64_t inside = bounded(layer.in_width - skipped, columns - pad);
    for (int64_t v = 0; v < vectors_of(layer); ++v) {
      const int64_t channel = first_of(layer, v);
      const char* of_channels[kRows];
      int64_t pitches[kRows];
      for (int i = 0; i < kRows; ++i) {
        of_channels[i] =
            rows[i] == nullptr ? reinterpret_cast<const char*>(&outside) : rows[i] + skipped * layer.pitch + channel;
        pitches[i] = rows[i] == nullptr ? 0 : layer.pitch;
      }
      to = fill_outside(layer, pad, to);
      const int64_t left = layer.channels - channel;
      if (left >= kChannels) {
        to = interleave_columns<Byte>(layer, of_channels, pitches, inside, kChannels, to);
      } else {
        to = interleave_columns<Byte>(layer, of_channels, pitches, inside, left, to);
      }
      to = fill_outside(layer, columns - pad - inside, to);
    }
  }

  static void interleave(const QuantizedDepthwise& layer, const char* const* rows, void* to) {
    if (layer.is_signed) return interleave_rows<int8_t>(layer, rows, static_cast<char*>(to));
    interleave_rows<uint8_t>(layer, rows, static_cast<char*>(to));
  }

  // What a vector of channels of some rows of output pixels is computed from.
  struct Operands {
    const char* weights;
    int64_t row_bytes;   // from the weights of an output row to those of the next one
    const char* starts;  // what their sums begin with
    const void* const* bundles;
    int64_t first;  // bytes of a bundle before these channels
    int64_t bundle_count;

    VEC_INLINE const char* inputs(int64_t bundle, int64_t column, int part) const {
      return static_cast<const char*>(bundles[bundle]) + first + column * kColumnBytes + part * kVectorBytes;
    }
  };

  // Where rows of output pixels go, and how.
  struct Output {
    const TileOutput& rounded;
    const BlockScaling& scaled;
    char* first;
    int64_t pitch;
    int64_t width;
    int64_t left;  // channels

    template <int Pixels>
    VEC_INLINE void write(const Int (&sums)[Pixels][kBlockVectors], int64_t row, int64_t column) const {
      PixelBlock y[Pixels];
      VEC_UNROLL
      for (int i = 0; i < Pixels; ++i) y[i] = scaled(sums[i]);
      rounded.write(y, first + (row * width + column) * pitch, pitch, left);
    }
  };

  // kColumns output pixels of each of Rows rows from a column on, with a kernel of Kernel undilated taps across.
  template <int Kernel, int Stride, int Rows>
  static VEC_INLINE void run_strip(const Operands& of, const Output& output, int64_t column) {
    constexpr int kInputs = (kColumns - 1) * Stride + Kernel;
    Int sums[Rows][kColumns][kBlockVectors];
    VEC_UNROLL
    for (int part = 0; part < kBlockVectors; ++part) {
      const Int start = load<Int>(of.starts + part * kVectorBytes);
      Int of_part[Rows][kColumns];
      VEC_UNROLL
      for (int row = 0; row < Rows; ++row) {
        VEC_UNROLL
        for (int i = 0; i < kColumns; ++i) of_part[row][i] = start;
      }
      const char* weights = of.weights + part * kVectorBytes;
      for (int64_t bundle = 0; bundle < of.bundle_count; ++bundle, weights += Kernel * kColumnBytes) {
        const char* inputs = of.inputs(bundle, column * Stride, part);
        Int w[Rows][Kernel];
        VEC_UNROLL
        for (int row = 0; row < Rows; ++row) {
          VEC_UNROLL
          for (int kx = 0; kx < Kernel; ++kx) {
            w[row][kx] = load<Int>(weights + row * of.row_bytes + kx * kColumnBytes);
          }
        }
        VEC_UNROLL
        for (int j = 0; j < kInputs; ++j) {
          const auto x = load<Int>(inputs + j * kColumnBytes);
          VEC_UNROLL
          for (int i = 0; i < kColumns; ++i) {
            const int kx = j - i * Stride;
            if (kx < 0 || kx >= Kernel) continue;
            VEC_UNROLL
            for (int row = 0; row < Rows; ++row) {
              of_part[row][i] = Arithmetic::plus_products(of_part[row][i], x, w[row][kx]);
            }
          }
        }
      }
      VEC_UNROLL
      for (int row = 0; row < Rows; ++row) {
        VEC_UNROLL
        for (int i = 0; i < kColumns; ++i) sums[row][i][part] = of_part[row][i];
      }
    }
    VEC_UNROLL
    for (int row = 0; row < Rows; ++row) output.write(sums[row], row, column);
  }

  template <int Kernel, int Stride, int Rows>
  static void run_strips(const QuantizedDepthwise& layer, const Operands& of, int64_t, const Output& output) {
    for (int64_t done = 0; done < layer.out_width; done += kColumns) {
      // The last strip may overlap the one before it.
      const int64_t column = done + kColumns > layer.out_width ? layer.out_width - kColumns : done;
      run_strip<Kernel, Stride, Rows>(of, output, column);
    }
  }

  // One pixel after the other, with any window.
  static void run_pixels(const QuantizedDepthwise& layer, const Operands& of, int64_t rows, const Output& output) {
    const Window& across = layer.window.w;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < layer.out_width; ++column) {
        Int sums[1][kBlockVectors];
        VEC_UNROLL
        for (int part = 0; part < kBlockVectors; ++part) {
          Int sum = load<Int>(of.starts + part * kVectorBytes);
          const char* weights = of.weights + row * of.row_bytes + part * kVectorBytes;
          for (int64_t bundle = 0; bundle < of.bundle_count; ++bundle) {
            for (int64_t kx = 0; kx < across.kernel; ++kx, weights += kColumnBytes) {
              const char* inputs = of.inputs(bundle, column * across.stride + kx * across.dilation, part);
              sum = Arithmetic::plus_products(sum, load<Int>(inputs), load<Int>(weights));
            }
          }
          sums[0][part] = sum;
        }
        output.write(sums, row, column);
      }
    }
  }

  using Run = decltype(&run_pixels);

  template <int Kernel, int Stride>
  static Run strips(int64_t rows) {
    return rows == 1 ? run_strips<Kernel, Stride, 1> : run_strips<Kernel, Stride, 2>;
  }

  template <int Kernel>
  static Run strips_of_stride(int64_t stride, int64_t rows) {
    return stride == 1 ? strips<Kernel, 1>(rows) : stride == 2 ? strips<Kernel, 2>(rows) : run_pixels;
  }

  static Run find_run(const QuantizedDepthwise& layer, int64_t rows) {
    const Window& across = layer.window.w;
    if (across.dilation != 1 || layer.out_width < kColumns) return run_pixels;
    return across.kernel == 3   ? strips_of_stride<3>(across.stride, rows)
           : across.kernel == 5 ? strips_of_stride<5>(across.stride, rows)
                                : run_pixels;
  }

  static void run(const QuantizedDepthwise& layer, const void* weights, const void* const* bundles, int64_t rows,
                  char* output, int64_t pitch) {
    const Run run_vector = find_run(layer, rows);
    const TileOutput rounded{ResultFormat(layer.output)};
    const int64_t item = layer.output.dtype == DType::F32 ? sizeof(float) : 1;
    for (int64_t v = 0; v < vectors_of(layer); ++v) {
      const int64_t channel = first_of(layer, v);
      const int64_t left = layer.channels - channel;
      const BlockScaling scaled(layer.scale + channel, layer.bias == nullptr ? nullptr : layer.bias + channel, left);
      const char* packed = static_cast<const char*>(weights) + v * vector_bytes(layer);
      const char* starts = packed + vector_bytes(layer) - kColumnBytes;
      const int64_t first = v * columns_of(layer) * kColumnBytes;
      run_vector(layer, {packed, row_bytes(layer), starts, bundles, first, Depthwise::bundles(layer)}, rows,
                 {rounded, scaled, output + channel * item, pitch, layer.out_width, left});
    }
  }

  static constexpr QuantizedDepthwiseLoops kLoops = {kRows, packed_bytes, pack, bundle_bytes, interleave, run};
};

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
