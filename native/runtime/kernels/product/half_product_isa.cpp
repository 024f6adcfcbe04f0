// The arithmetic of half_product.h.
#include "kernels/product/half_product.h"

#include "kernels/simd/prefetch.h"
#include "kernels/simd/vec.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

static_assert(kHalfRows == 4, "`totals` sums four vectors");

// Columns whose sums are in registers at once, beside their weights and an input.
constexpr int kHeldColumns = kHalfRows * kHalfColumns < kVectorRegisters ? kHalfColumns : kHalfColumns / 2;

// sums[column][row] = the dot products of a tile's rows and kHeldColumns columns.
VEC_INLINE void multiply_columns(const float* const* rows, const uint16_t* const* columns, int64_t length, Quad* sums) {
  const int64_t whole = length - length % kLanes;
  Float sum[kHalfRows][kHeldColumns] = {};
  for (int64_t k = 0; k < whole; k += kLanes) {
    Float weights[kHeldColumns];
    VEC_UNROLL
    for (int c = 0; c < kHeldColumns; ++c) weights[c] = load_halves(columns[c] + k);
    VEC_UNROLL
    for (int r = 0; r < kHalfRows; ++r) {
      const Float x = load<Float>(rows[r] + k);
      VEC_UNROLL
      for (int c = 0; c < kHeldColumns; ++c) sum[r][c] += x * weights[c];
    }
  }
  VEC_UNROLL
  for (int c = 0; c < kHeldColumns; ++c) {
    sums[c] = totals(folded(sum[0][c]), folded(sum[1][c]), folded(sum[2][c]), folded(sum[3][c]));
  }
  for (int64_t k = whole; k < length; ++k) {
    for (int c = 0; c < kHeldColumns; ++c) {
      const float weight = ggml_fp16_to_fp32(columns[c][k]);
      for (int r = 0; r < kHalfRows; ++r) sums[c][r] += rows[r][k] * weight;
    }
  }
}

void multiply_tile(const float* const* rows, const uint16_t* const* columns, int64_t length, Quad* sums) {
  for (int c = 0; c < kHalfColumns; c += kHeldColumns) multiply_columns(rows, columns + c, length, sums + c);
}

// Prefetches a part of the next tile's columns.
VEC_INLINE void prefetch_part(HalfRows columns, int64_t first, int64_t count, int64_t length, int64_t part,
                              int64_t parts) {
  constexpr int64_t kLine = kCacheLineBytes / sizeof(uint16_t);
  const int64_t begin = length * part / parts / kLine * kLine;
  const int64_t bytes = (length * (part + 1) / parts - begin) * static_cast<int64_t>(sizeof(uint16_t));
  for (int64_t c = first; c < first + kHalfColumns && c < count; ++c) prefetch(columns.row(c) + begin, bytes);
}

// output[r * stride] = rows[r] . column
template <int Rows, class Number>
VEC_INLINE void multiply_column(const Number* const* rows, const uint16_t* column, int64_t length, float* output,
                                int64_t stride) {
  constexpr int kVectors = Rows == 1 ? 8 : 4;  // independent sums: an addition does not wait for the one before
  constexpr int64_t kStep = kVectors * kLanes;
  Float sums[Rows][kVectors] = {};
  int64_t k = 0;
  for (; k + kStep <= length; k += kStep) {
    prefetch_stream(column + k, kStep * static_cast<int64_t>(sizeof(uint16_t)));
    VEC_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const Float weights = load_halves(column + k + v * kLanes);
      VEC_UNROLL
      for (int r = 0; r < Rows; ++r) sums[r][v] += load_floats(rows[r] + k + v * kLanes) * weights;
    }
  }
  for (; k + kLanes <= length; k += kLanes) {
    const Float weights = load_halves(column + k);
    VEC_UNROLL
    for (int r = 0; r < Rows; ++r) sums[r][0] += load_floats(rows[r] + k) * weights;
  }
  VEC_UNROLL
  for (int r = 0; r < Rows; ++r) {
    VEC_UNROLL
    for (int v = 1; v < kVectors; ++v) sums[r][0] += sums[r][v];
    float sum = total(sums[r][0]);
    for (int64_t rest = k; rest < length; ++rest) sum += to_float(rows[r][rest]) * to_float(column[rest]);
    output[r * stride] = sum;
  }
}

template <int Rows, class Number>
void stream_columns(RowsOf<Number> rows, HalfRows columns, int64_t column_count, int64_t length, float* output,
                    int64_t stride) {
  const Number* row_data[Rows];
  for (int r = 0; r < Rows; ++r) row_data[r] = rows.row(r);
  for (int64_t c = 0; c < column_count; ++c)
    multiply_column<Rows>(row_data, columns.row(c), length, output + c, stride);
}

template <class Number>
void stream(RowsOf<Number> rows, int64_t row_count, HalfRows columns, int64_t column_count, int64_t length,
            float* output, int64_t stride) {
  static constexpr decltype(&stream_columns<1, Number>) kStreams[kStreamedHalfRows] = {
      stream_columns<1, Number>, stream_columns<2, Number>, stream_columns<3, Number>};
  kStreams[row_count - 1](rows, columns, column_count, length, output, stride);
}

}  // namespace

void stream_halves(FloatRows rows, int64_t row_count, HalfRows columns, int64_t column_count, int64_t length,
                   float* output, int64_t stride) {
  stream(rows, row_count, columns, column_count, length, output, stride);
}

void stream_halves_by_halves(HalfRows rows, int64_t row_count, HalfRows columns, int64_t column_count, int64_t length,
                             float* output, int64_t stride) {
  stream(rows, row_count, columns, column_count, length, output, stride);
}

// Tiles at the edges repeat the last row or column.
void multiply_halves(FloatRows rows, int64_t row_count, HalfRows columns, int64_t column_count, int64_t length,
                     float* output, int64_t stride) {
  const int64_t tiles = (row_count + kHalfRows - 1) / kHalfRows;
  for (int64_t column = 0; column < column_count; column += kHalfColumns) {
    const int64_t width = column_count - column < kHalfColumns ? column_count - column : kHalfColumns;
    const uint16_t* column_data[kHalfColumns];
    for (int64_t c = 0; c < kHalfColumns; ++c) column_data[c] = columns.row(column + (c < width ? c : width - 1));
    for (int64_t row = 0; row < row_count; row += kHalfRows) {
      const int64_t height = row_count - row < kHalfRows ? row_count - row : kHalfRows;
      const float* row_data[kHalfRows];
      for (int64_t r = 0; r < kHalfRows; ++r) row_data[r] = rows.row(row + (r < height ? r : height - 1));
      prefetch_part(columns, column + kHalfColumns, column_count, length, row / kHalfRows, tiles);
      Quad sums[kHalfColumns];
      multiply_tile(row_data, column_data, length, sums);
      for (int64_t r = 0; r < height; ++r) {
        float* to = output + (row + r) * stride + column;
        for (int64_t c = 0; c < width; ++c) to[c] = sums[c][r];
      }
    }
  }
}

}  // namespace executorch_ggml::kernels::KERNEL_ISA
