// The arithmetic of conv_2d_dw: vectors of channels, and for the usual kernel sizes several output columns at a time,
// so that each input vector is loaded once for all its taps.
#include "kernels/convolution/activation.h"
#include "kernels/convolution/conv_2d_dw.h"
#include "kernels/convolution/convolution.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

using V = Float;

// Output columns of a strip. Wide strips are for large kernels: with 3 taps they save no loads.
constexpr int kWideColumns = kVectorRegisters == 32 ? 8 : 4;
constexpr int kColumns = 4;

// What is applied to a row's results in registers.
struct RowEpilogue {
  V low;
  V high;
  bool hardswish;

  explicit RowEpilogue(const RegisterEpilogue& of)
      : low(splat(of.low)), high(splat(of.high)), hardswish(is_built(Activation::Hardswish) && of.hardswish) {}

  VEC_INLINE V of(V x) const { return hardswish ? hardswish_of(x) : clamped(x, low, high); }
};

// A single output column, any window.
void run_column(const DepthwiseRow& row, const RowEpilogue& epilogue, int64_t column) {
  const int64_t left = column * row.window.stride - row.window.pad;
  float* output = row.output + column * row.pitch;
  each_vector(0, row.channels, [&](int64_t c, auto lanes) {
    V sum = row.bias == nullptr ? V{} : lanes.load(row.bias + c);
    for (int64_t ky = 0; ky < row.tap_rows; ++ky) {
      const float* input = row.input + ky * row.input_pitch + c;
      const float* weights = row.weights + ky * row.window.kernel * row.pitch + c;
      for (int64_t kx = 0; kx < row.window.kernel; ++kx) {
        const int64_t x = left + kx * row.window.dilation;
        if (x >= 0 && x < row.in_width) {
          sum += lanes.load(input + x * row.pitch) * lanes.load(weights + kx * row.pitch);
        }
      }
    }
    lanes.store(output + c, epilogue.of(sum));
  });
}

// Columns output columns from `column` on, with a kernel of Kernel undilated taps.
template <int Kernel, int Stride, int Columns>
class Strip {
 public:
  static void run(const DepthwiseRow& row, const RowEpilogue& epilogue, int64_t column) {
    const int64_t left = left_of(row, column);
    const bool inside = left >= 0 && left + kInputs <= row.in_width;
    inside ? run_channels<false>(row, epilogue, column) : run_channels<true>(row, epilogue, column);
  }

 private:
  static constexpr int kInputs = (Columns - 1) * Stride + Kernel;
  // Of channels at a time. The sums of one vector are too few to hide the latency of additions, unless those of several
  // fit into the reorder buffer, as with small kernels.
  static constexpr int kVectors = Kernel > 3 && Columns < 8 ? 2 : 1;

  static int64_t left_of(const DepthwiseRow& row, int64_t column) { return column * Stride - row.window.pad; }

  // Edge: some of the input columns are outside the image.
  template <bool Edge>
  static void run_channels(const DepthwiseRow& of_row, const RowEpilogue& of_results, int64_t column) {
    const DepthwiseRow row = of_row;  // copies stay in registers: stores of results can't change them
    const RowEpilogue epilogue = of_results;
    int64_t begin = 0;
    if constexpr (kVectors > 1) {
      for (; begin + kVectors * kLanes <= row.channels; begin += kVectors * kLanes) {
        run_vectors<Edge>(row, epilogue, column, begin);
      }
    }
    each_vector(begin, row.channels, [=](int64_t c, auto lanes) { run_vector<Edge>(row, epilogue, column, c, lanes); });
  }

  // Inputs stay in registers: each is loaded once for all its taps.
  template <bool Edge, class Lanes>
  static VEC_INLINE void run_vector(const DepthwiseRow& row, const RowEpilogue& epilogue, int64_t column, int64_t c,
                                    Lanes lanes) {
    const int64_t left = left_of(row, column);
    const int64_t pitch = row.pitch;
    V sum[Columns];
    const V bias = row.bias == nullptr ? V{} : lanes.load(row.bias + c);
    VEC_UNROLL
    for (int i = 0; i < Columns; ++i) sum[i] = bias;
    const float* from = row.input + c;
    const float* weights = row.weights + c;
    for (int64_t ky = 0; ky < row.tap_rows; ++ky) {
      V input[kInputs];
      VEC_UNROLL
      for (int i = 0; i < kInputs; ++i) {
        const bool inside = !Edge || (left + i >= 0 && left + i < row.in_width);
        input[i] = inside ? lanes.load(from + (left + i) * pitch) : V{};
      }
      VEC_UNROLL
      for (int kx = 0; kx < Kernel; ++kx) {
        const V w = lanes.load(weights + kx * pitch);
        VEC_UNROLL
        for (int i = 0; i < Columns; ++i) sum[i] += input[i * Stride + kx] * w;
      }
      from += row.input_pitch;
      weights += Kernel * pitch;
    }
    float* output = row.output + column * pitch + c;
    VEC_UNROLL
    for (int i = 0; i < Columns; ++i) lanes.store(output + i * pitch, epilogue.of(sum[i]));
  }

  // Sums stay in registers, and inputs are memory operands; columns outside the image are read from kZeros.
  template <bool Edge>
  static VEC_INLINE void run_vectors(const DepthwiseRow& row, const RowEpilogue& epilogue, int64_t column, int64_t c) {
    static constexpr float kZeros[kVectors * kLanes] = {};
    const int64_t left = left_of(row, column);
    const int64_t pitch = row.pitch;
    const float* first = row.input + left * pitch + c;
    const float* inputs[kInputs];
    int64_t steps[kInputs];  // to the next row of taps
    if (Edge) {
      VEC_UNROLL
      for (int i = 0; i < kInputs; ++i) {
        const bool inside = left + i >= 0 && left + i < row.in_width;
        inputs[i] = inside ? first + i * pitch : kZeros;
        steps[i] = inside ? row.input_pitch : 0;
      }
    }
    V sum[Columns][kVectors];
    VEC_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const V bias = row.bias == nullptr ? V{} : load<V>(row.bias + c + v * kLanes);
      VEC_UNROLL
      for (int i = 0; i < Columns; ++i) sum[i][v] = bias;
    }
    const float* weights = row.weights + c;
    for (int64_t ky = 0; ky < row.tap_rows; ++ky) {
      VEC_UNROLL
      for (int kx = 0; kx < Kernel; ++kx, weights += pitch) {
        V w[kVectors];
        VEC_UNROLL
        for (int v = 0; v < kVectors; ++v) w[v] = load<V>(weights + v * kLanes);
        VEC_UNROLL
        for (int i = 0; i < Columns; ++i) {
          const float* input = Edge ? inputs[i * Stride + kx] : first + (i * Stride + kx) * pitch;
          VEC_UNROLL
          for (int v = 0; v < kVectors; ++v) sum[i][v] += load<V>(input + v * kLanes) * w[v];
        }
      }
      first += row.input_pitch;
      if (Edge) {
        VEC_UNROLL
        for (int i = 0; i < kInputs; ++i) inputs[i] += steps[i];
      }
    }
    float* output = row.output + column * pitch + c;
    VEC_UNROLL
    for (int i = 0; i < Columns; ++i) {
      VEC_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        store(output + i * pitch + v * kLanes, epilogue.of(sum[i][v]));
      }
    }
  }
};

using StripRun = void (*)(const DepthwiseRow& row, const RowEpilogue& epilogue, int64_t column);

// The kernel sizes that strips are compiled for.
constexpr bool has_strips(int kernel) {
  return kernel == 3 ? is_built(Family::Depthwise3) : is_built(kernel == 5 ? Family::Depthwise5 : Family::Depthwise7);
}

template <int Kernel, int Stride, int Columns>
constexpr StripRun strip() {
  if constexpr (has_strips(Kernel)) return Strip<Kernel, Stride, Columns>::run;
  return nullptr;
}

template <int Kernel>
StripRun strip_of_stride(int64_t stride) {
  return stride == 1 ? strip<Kernel, 1, kColumns>() : stride == 2 ? strip<Kernel, 2, kColumns>() : nullptr;
}

// Strips of kColumns columns; without one, columns go singly.
StripRun find_narrow(const DepthwiseRow& row) {
  if (row.window.dilation != 1 || row.out_width < kColumns) {
    return nullptr;
  }
  switch (row.window.kernel) {
    case 3:
      return strip_of_stride<3>(row.window.stride);
    case 5:
      return strip_of_stride<5>(row.window.stride);
    case 7:
      return row.window.stride == 1 ? strip<7, 1, kColumns>() : nullptr;
    default:
      return nullptr;
  }
}

// Strips of kWideColumns columns, where neighbours share most of their inputs.
StripRun find_wide(const DepthwiseRow& row) {
  if (row.window.dilation != 1 || row.window.stride != 1 || row.out_width < kWideColumns || kWideColumns == kColumns) {
    return nullptr;
  }
  return row.window.kernel == 5   ? strip<5, 1, kWideColumns>()
         : row.window.kernel == 7 ? strip<7, 1, kWideColumns>()
                                  : nullptr;
}

void finish_columns(const DepthwiseRow& row, int64_t column, int64_t columns) {
  for (int64_t i = column; i < column + columns; ++i) {
    apply_in_place(row.output + i * row.pitch, row.channels, row.stored_epilogue);
  }
}

}  // namespace

void conv_dw_row(const DepthwiseRow& row) {
  const RowEpilogue epilogue{row.register_epilogue};
  const StripRun wide = find_wide(row);
  const StripRun narrow = find_narrow(row);
  for (int64_t done = 0; done < row.out_width;) {
    const int64_t left = row.out_width - done;
    const bool takes_wide = wide != nullptr && left > kColumns;
    const int64_t columns = takes_wide ? kWideColumns : narrow != nullptr ? kColumns : 1;
    // The last strip may overlap the one before it: it computes those columns again, from the input.
    const int64_t column = left < columns ? row.out_width - columns : done;
    if (takes_wide) {
      wide(row, epilogue, column);
    } else if (narrow != nullptr) {
      narrow(row, epilogue, column);
    } else {
      run_column(row, epilogue, column);
    }
    if (!row.stored_epilogue.is_empty()) finish_columns(row, column, columns);
    done = column + columns;
  }
}

}  // namespace executorch_ggml::kernels::KERNEL_ISA
