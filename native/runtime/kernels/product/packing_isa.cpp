#include "kernels/product/packing.h"

#include "kernels/product/row_pairs.h"
#include "kernels/simd/vec.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

// What columns are packed from: its numbers, as floats singly and by four.

struct Floats {
  using Number = float;
  static VEC_INLINE float one(float x) { return x; }
  static VEC_INLINE Quad four(const float* from) { return load<Quad>(from); }
};

struct Bfloats {
  using Number = uint16_t;
  static VEC_INLINE float one(uint16_t x) { return ggml_bf16_to_fp32({x}); }
  static VEC_INLINE Quad four(const uint16_t* from) {
    const auto bits = __builtin_convertvector(load<Vec<uint16_t, 4>>(from), Vec<uint32_t, 4>);
    return reinterpret_cast<Quad>(bits << 16);
  }
};

// Transposes four rows by four columns.
template <class Source>
VEC_INLINE void transpose_quads(const typename Source::Number* const (&from)[4], float* to) {
  Quad x[4];
  for (int i = 0; i < 4; ++i) x[i] = Source::four(from[i]);
  const Quad low01 = __builtin_shufflevector(x[0], x[1], 0, 4, 1, 5);
  const Quad high01 = __builtin_shufflevector(x[0], x[1], 2, 6, 3, 7);
  const Quad low23 = __builtin_shufflevector(x[2], x[3], 0, 4, 1, 5);
  const Quad high23 = __builtin_shufflevector(x[2], x[3], 2, 6, 3, 7);
  store(to, __builtin_shufflevector(low01, low23, 0, 1, 4, 5));
  store(to + kPackedColumns, __builtin_shufflevector(low01, low23, 2, 3, 6, 7));
  store(to + 2 * kPackedColumns, __builtin_shufflevector(high01, high23, 0, 1, 4, 5));
  store(to + 3 * kPackedColumns, __builtin_shufflevector(high01, high23, 2, 3, 6, 7));
}

template <class Source>
VEC_INLINE void pack(RowsOf<typename Source::Number> rows, int64_t count, int64_t width, float* packed) {
  const int64_t whole = width - width % 4;
  for (int64_t first = 0; first < count; first += 4) {
    float* to = packed + first / kPackedColumns * kPackedColumns * width + first % kPackedColumns;
    if (first + 4 <= count) {
      const typename Source::Number* from[4] = {rows.row(first), rows.row(first + 1), rows.row(first + 2),
                                                rows.row(first + 3)};
      for (int64_t k = 0; k < whole; k += 4) {
        transpose_quads<Source>(from, to + k * kPackedColumns);
        for (auto& row : from) row += 4;
      }
    }
    for (int64_t k = first + 4 <= count ? whole : 0; k < width; ++k) {
      for (int64_t i = 0; i < 4; ++i) {
        to[k * kPackedColumns + i] = first + i < count ? Source::one(rows.row(first + i)[k]) : 0.0f;
      }
    }
  }
  for (int64_t i = (count + 3) / 4 * 4; i % kPackedColumns != 0; ++i) {
    float* to = packed + i / kPackedColumns * kPackedColumns * width + i % kPackedColumns;
    for (int64_t k = 0; k < width; ++k) to[k * kPackedColumns] = 0.0f;
  }
}

template <class Pairs>
VEC_INLINE void widen(const uint16_t* pairs, int64_t rows, float* packed) {
  for (int64_t k = 0; k < rows; k += 2, pairs += 2 * kPackedColumns, packed += 2 * kPackedColumns) {
    for (int64_t i = 0; i < kPackedColumns; i += kLanes) {
      const RowPair pair = Pairs::load(pairs + 2 * i);
      store(packed + i, pair.even);
      if (k + 1 < rows) store(packed + kPackedColumns + i, pair.odd);
    }
  }
}

}  // namespace

void pack_columns(FloatRows rows, int64_t count, int64_t width, float* packed) {
  pack<Floats>(rows, count, width, packed);
}

void pack_bfloat_columns(HalfRows rows, int64_t count, int64_t width, float* packed) {
  pack<Bfloats>(rows, count, width, packed);
}

void pack_rows(FloatRows rows, int64_t count, int64_t width, float* packed) {
  for (int64_t first = 0; first < width; first += kPackedColumns) {
    const int64_t columns = width - first < kPackedColumns ? width - first : kPackedColumns;
    for (int64_t k = 0; k < count; ++k) {
      const float* from = rows.row(k) + first;
      if (columns == kPackedColumns) {
        std::memcpy(packed, from, kPackedColumns * sizeof(float));
      } else {
        for (int64_t i = 0; i < kPackedColumns; ++i) packed[i] = i < columns ? from[i] : 0.0f;
      }
      packed += kPackedColumns;
    }
  }
}

void pack_row_pairs(HalfRows rows, int64_t count, int64_t width, uint16_t* packed) {
  static constexpr uint16_t kZeros[kPackedColumns] = {};
  for (int64_t first = 0; first < width; first += kPackedColumns) {
    const int64_t columns = width - first < kPackedColumns ? width - first : kPackedColumns;
    for (int64_t k = 0; k < count; k += 2, packed += 2 * kPackedColumns) {
      const uint16_t* even = rows.row(k) + first;
      const uint16_t* odd = k + 1 < count ? rows.row(k + 1) + first : kZeros;
      if (columns == kPackedColumns) {
        for (int64_t i = 0; i < kPackedColumns; ++i) {
          packed[2 * i] = even[i];
          packed[2 * i + 1] = odd[i];
        }
      } else {
        for (int64_t i = 0; i < kPackedColumns; ++i) {
          packed[2 * i] = i < columns ? even[i] : 0;
          packed[2 * i + 1] = i < columns ? odd[i] : 0;
        }
      }
    }
  }
}

void widen_half_pairs(const uint16_t* pairs, int64_t rows, float* packed) { widen<HalfPairs>(pairs, rows, packed); }

void widen_bfloat_pairs(const uint16_t* pairs, int64_t rows, float* packed) { widen<BfloatPairs>(pairs, rows, packed); }

}  // namespace executorch_ggml::kernels::KERNEL_ISA
