// The arithmetic of int8 GEMM, for the vectors of an instruction set (integer_lanes.h): packing, quantized rows, tiles
// and matrices in panels. For folders of instruction sets only.
#pragma once

#include <cstring>
#include <limits>

#include "kernels/product/integer_blocks.h"
#include "kernels/product/integer_lanes.h"
#include "kernels/product/integer_product.h"
#include "kernels/product/panels.h"
#include "kernels/simd/prefetch.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

static_assert(kIntegerLanes == kPanelColumns && kIntegerBlock == kPanelBlock,
              "a panel has the columns of a ColumnBlock");

constexpr int kBlockLanes = static_cast<int>(kIntegerLanes);
constexpr int kBlockVectors = kBlockLanes / kLanes;  // of a ColumnBlock's lanes
constexpr int kBlockQuads = static_cast<int>(kIntegerBlock) / 4;
constexpr int kTileVectors = 2;
constexpr int kTileColumns = kTileVectors * kLanes;
constexpr int64_t kNextBytes = 9 * kCacheLineBytes;  // a block: two tiles then prefetch the next columns of any type

// --------------------------------------------------------------------------------------------------------- packing

// 16 rows of 32 bytes to 8 rows of 16 times 4 bytes.
VEC_INLINE void transpose(const uint8_t (&from)[kIntegerLanes][kIntegerBlock],
                          uint8_t (&to)[kIntegerBlock / 4][kIntegerLanes][4]) {
  for (int lane = 0; lane < kBlockLanes; lane += kLanes) {
    for (int half = 0; half < 2; ++half) {
      const auto row = [&](int i) { return every_fourth(from[lane + i] + 16 * half, kIntegerBlock); };
      const auto low01 = low_words(row(0), row(1));
      const auto high01 = high_words(row(0), row(1));
      const auto low23 = low_words(row(2), row(3));
      const auto high23 = high_words(row(2), row(3));
      store(to[4 * half][lane], low_pairs(low01, low23));
      store(to[4 * half + 1][lane], high_pairs(low01, low23));
      store(to[4 * half + 2][lane], low_pairs(high01, high23));
      store(to[4 * half + 3][lane], high_pairs(high01, high23));
    }
  }
}

// The index-th block of each of a vector's columns.
template <class Type>
VEC_INLINE void pack_block(const char* columns, size_t stride, int64_t count, int64_t index, ColumnBlock* to) {
  alignas(64) uint8_t rows[kIntegerLanes][kIntegerBlock];
  for (int64_t i = 0; i < kIntegerLanes; ++i) {
    Unpacked block = {};  // zeros where there is no such column
    if (i < count) block = Type::unpack(columns + static_cast<size_t>(i) * stride, index);
    store(rows[i], block.weights);
    for (int half = 0; half < 2; ++half) {
      to->scales[half][i] = block.scales[half];
      to->mins[half][i] = block.mins[half];
    }
  }
  transpose(rows, to->weights);
}

template <class Type>
void pack(const char* columns, size_t stride, int64_t count, int64_t blocks, ColumnBlock* panel) {
  for (int64_t block = 0; block < blocks; ++block) {
    for (int64_t first = 0; first < kIntegerColumns; first += kIntegerLanes, ++panel) {
      pack_block<Type>(columns + static_cast<size_t>(first) * stride, stride, count - first, block, panel);
    }
  }
}

template <int Offset, bool Halves>
void quantize(const float* row, int64_t blocks, RowBlock* to) {
  constexpr float kLeast = 1e-30f;  // below it, the inverse of the scale may be infinite
  constexpr int32_t kMagnitude = 0x7fffffff, kInfinity = 0x7f800000;
  constexpr int kVectors = static_cast<int>(kIntegerBlock) / kLanes;
  for (int64_t i = 0; i < blocks; ++i, row += kIntegerBlock, ++to) {
    Int magnitudes = {};  // of floats, which are ordered as their bits are
    VEC_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const Int magnitude = bits(load<Float>(row + v * kLanes)) & kMagnitude;
      magnitudes = magnitude > magnitudes ? magnitude : magnitudes;
    }
    const int32_t most = largest(magnitudes);
    const bool finite = most < kInfinity;
    float highest;
    std::memcpy(&highest, &most, sizeof(most));
    const float inverse = finite && highest > kLeast ? 127.0f / highest : 0.0f;
    to->scale = finite ? highest / 127.0f : std::numeric_limits<float>::quiet_NaN();
    Int sums[2] = {};
    VEC_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const Int integers = finite ? nearest(load<Float>(row + v * kLanes) * inverse) : Int{};
      store_bytes(to->values + v * kLanes, integers);
      sums[Halves ? v * 2 / kVectors : 0] += integers;
    }
    for (int half = 0; half < 2; ++half) {
      const int32_t sum = total(sums[half]);
      to->start[half] = -Offset * sum;
      to->sum[half] = to->scale * static_cast<float>(sum);
    }
  }
}

// ----------------------------------------------------------------------------------------------------- GEMM: tiles of
// rows by columns

// The parts of a block whose products are summed before they are scaled.
template <bool Halves, bool Mins, class Dot>
struct Parts {
  static constexpr int kMost = Halves ? kBlockQuads / 2 : kBlockQuads;  // quads that share a scale
  static constexpr int kQuads = Dot::kQuads < kMost ? Dot::kQuads : kMost;
  static constexpr int kCount = kBlockQuads / kQuads;

  // Of the halves' scales and minimums.
  static constexpr int scale(int part) { return Halves ? part * kQuads / kMost : 0; }
  static constexpr bool is_last(int part) { return (part + 1) * kQuads % kMost == 0; }

  // Minimums are for types without an offset.
  static VEC_INLINE int32_t start(const RowBlock& row, int part) {
    return !Mins && part * kQuads % kMost == 0 ? row.start[scale(part)] : 0;
  }
};

template <bool Halves, bool Mins, class Dot, int Rows>
struct Tile {
  using Part = Parts<Halves, Mins, Dot>;

  // Whether the r-th row is one of `count`, as all are of tiles that are compiled for each number of rows.
  static VEC_INLINE bool is_row(int r, int64_t count) { return kTileRowStep == 1 || r < count; }

  // The sums of a part's products.
  static VEC_INLINE void multiply_part(const RowBlock* const (&rows)[Rows], const ColumnBlock* columns, int lane,
                                       int part, Int (&to)[Rows][kTileVectors]) {
#if defined(__ARM_FEATURE_MATMUL_INT8)
    if constexpr (Rows % 2 == 0) return multiply_pairs(rows, columns, lane, part, to);
#endif
    typename Dot::Sum products[Rows][kTileVectors];
    VEC_UNROLL
    for (int r = 0; r < Rows; ++r) {
      VEC_UNROLL
      for (int v = 0; v < kTileVectors; ++v) products[r][v] = Dot::begin(Part::start(*rows[r], part));
    }
    VEC_UNROLL
    for (int q = part * Part::kQuads; q < (part + 1) * Part::kQuads; q += Dot::kStep) {
      Bytes weights[kTileVectors][Dot::kStep];
      VEC_UNROLL
      for (int v = 0; v < kTileVectors; ++v) {
        VEC_UNROLL
        for (int i = 0; i < Dot::kStep; ++i) {
          weights[v][i] = load<Bytes>(columns[v / kBlockVectors].weights[q + i][lane + v % kBlockVectors * kLanes]);
        }
      }
      VEC_UNROLL
      for (int r = 0; r < Rows; ++r) {
        const typename Dot::Values values(rows[r]->values + 4 * q);
        VEC_UNROLL
        for (int v = 0; v < kTileVectors; ++v) products[r][v] = Dot::plus(products[r][v], weights[v], values);
      }
    }
    VEC_UNROLL
    for (int r = 0; r < Rows; ++r) {
      VEC_UNROLL
      for (int v = 0; v < kTileVectors; ++v) to[r][v] = Dot::end(products[r][v], Part::start(*rows[r], part));
    }
  }

#if defined(__ARM_FEATURE_MATMUL_INT8)
  static VEC_INLINE void multiply_pairs(const RowBlock* const (&rows)[Rows], const ColumnBlock* columns, int lane,
                                        int part, Int (&to)[Rows][kTileVectors]) {
    PairDot products[Rows / 2][kTileVectors];
    VEC_UNROLL
    for (int q = part * Part::kQuads; q < (part + 1) * Part::kQuads; q += 2) {
      int8x16_t values[Rows / 2];
      VEC_UNROLL
      for (int r = 0; r < Rows / 2; ++r) {
        values[r] = PairDot::values(rows[2 * r]->values + 4 * q, rows[2 * r + 1]->values + 4 * q);
      }
      VEC_UNROLL
      for (int v = 0; v < kTileVectors; ++v) {
        const Bytes weights[2] = {load<Bytes>(columns->weights[q][lane + v * kLanes]),
                                  load<Bytes>(columns->weights[q + 1][lane + v * kLanes])};
        VEC_UNROLL
        for (int half = 0; half < 2; ++half) {
          const int8x16_t two_columns = PairDot::columns(weights, half);
          VEC_UNROLL
          for (int r = 0; r < Rows / 2; ++r) products[r][v].add(values[r], two_columns, half);
        }
      }
    }
    VEC_UNROLL
    for (int r = 0; r < Rows; ++r) {
      VEC_UNROLL
      for (int v = 0; v < kTileVectors; ++v) {
        to[r][v] = products[r / 2][v].of_row(r % 2, Part::start(*rows[r], part));
      }
    }
  }
#endif

  // Of columns from `lane` of a block on, which is 0 where a tile has a block or more.
  static VEC_INLINE void accumulate(const RowBlock* const (&rows)[Rows], const ColumnBlock* columns, int lane, int part,
                                    Float (&sums)[Rows][kTileVectors]) {
    Int products[Rows][kTileVectors];
    multiply_part(rows, columns, lane, part, products);
    VEC_UNROLL
    for (int v = 0; v < kTileVectors; ++v) {
      const ColumnBlock& block = columns[v / kBlockVectors];
      const int first = lane + v % kBlockVectors * kLanes;
      const Float scales = load<Float>(block.scales[Part::scale(part)] + first);
      const Float mins = load<Float>(block.mins[Part::scale(part)] + first);
      VEC_UNROLL
      for (int r = 0; r < Rows; ++r) {
        sums[r][v] += floats_of(products[r][v]) * (scales * rows[r]->scale);
        if (Mins && Part::is_last(part)) sums[r][v] -= mins * rows[r]->sum[Part::scale(part)];
      }
    }
  }

  static VEC_INLINE void store_row(const Float (&row)[kTileVectors], int64_t columns, float* output) {
    VEC_UNROLL
    for (int v = 0; v < kTileVectors; ++v) store_lanes(output + v * kLanes, row[v], columns - v * kLanes);
  }

  // `count` rows; a partial tile repeats the last one. Each block prefetches kNextBytes of `next`, unless it is null.
  static void run(const RowBlock* first, int64_t count, int64_t blocks, const ColumnBlock* panel, int first_lane,
                  int64_t columns, float* output, int64_t stride, const char* next) {
    const int lane = kTileColumns < kBlockLanes ? first_lane : 0;
    Float sums[Rows][kTileVectors] = {};
    const RowBlock* rows[Rows];
    VEC_UNROLL
    for (int r = 0; r < Rows; ++r) rows[r] = first + (is_row(r, count) ? r : count - 1) * blocks;
    for (int64_t block = 0; block < blocks; ++block, panel += kIntegerColumns / kIntegerLanes) {
      VEC_UNROLL
      for (int part = 0; part < Part::kCount; ++part) accumulate(rows, panel, lane, part, sums);
      if (next != nullptr) {
        prefetch(next, kNextBytes);
        next += kNextBytes;
      }
      VEC_UNROLL
      for (int r = 0; r < Rows; ++r) ++rows[r];
    }
    VEC_UNROLL
    for (int r = 0; r < Rows; ++r) {
      if (is_row(r, count)) store_row(sums[r], columns, output + r * stride);
    }
  }
};

constexpr int rounded_up(int n, int step) { return (n + step - 1) / step * step; }

// Tiles by their number of rows.
template <bool Halves, bool Mins, class Dot>
struct Tiles {
  using Run = decltype(&Tile<Halves, Mins, Dot, 1>::run);
  Run run[Dot::kRows];

  template <int Rows = 1>
  constexpr void fill() {
    run[Rows - 1] = Tile<Halves, Mins, Dot, rounded_up(Rows, kTileRowStep)>::run;
    if constexpr (Rows < Dot::kRows) fill<Rows + 1>();
  }
  constexpr Tiles() : run{} { fill(); }
};

template <bool Halves, bool Mins, class Dot>
void multiply(const RowBlock* rows, int64_t count, int64_t blocks, const ColumnBlock* panel, int64_t columns,
              float* output, int64_t stride, NextRead next) {
  static constexpr Tiles<Halves, Mins, Dot> kTiles;
  int64_t prefetched = 0;
  for (int64_t first = 0; first < columns; first += kTileColumns) {
    for (int64_t row = 0; row < count; row += Dot::kRows) {
      const int64_t left = count - row < Dot::kRows ? count - row : Dot::kRows;
      kTiles.run[left - 1](rows + row * blocks, left, blocks, panel + first / kIntegerLanes,
                           static_cast<int>(first % kIntegerLanes), columns - first, output + row * stride + first,
                           stride, prefetched < next.bytes ? next.data + prefetched : nullptr);
      prefetched += blocks * kNextBytes;
    }
  }
}

// ----------------------------------------------------------------------------------------------- matrices in panels

// A block of a vector's columns in registers.
struct Columns {
  Bytes weights[kBlockQuads];
  Float scales[2];
  Float mins;
};

constexpr uint16_t kLowNibbles = 0x0f0f;

VEC_INLINE void split_nibbles(const PanelNibbles& from, int v, Columns* to) {
  VEC_UNROLL
  for (int q = 0; q < kBlockQuads / 2; ++q) {
    const Bytes x = load<Bytes>(from[q] + v * kVectorBytes);
    to->weights[q] = x & kLowNibbles;
    to->weights[q + kBlockQuads / 2] = x >> 4 & kLowNibbles;
  }
}

VEC_INLINE Float widened(const uint16_t (&from)[kPanelColumns], int v) { return load_halves(from + v * kLanes); }

template <class Byte>
VEC_INLINE Float widened(const Byte (&from)[kPanelColumns], int v) {
  return floats_of(load_narrow(from + v * kLanes));
}

// Unpack a part of a group for the v-th vector of columns into registers.

VEC_INLINE void load_columns(const Q4_0Group& group, int64_t, int v, Columns* to) {
  split_nibbles(group.low, v, to);
  to->scales[0] = to->scales[1] = widened(group.scale, v);
  to->mins = Float{};
}

VEC_INLINE void load_columns(const Q4KGroup& group, int64_t part, int v, Columns* to) {
  split_nibbles(group.parts[part].low, v, to);
  to->scales[0] = to->scales[1] = widened(group.scale, v) * widened(group.parts[part].scale, v);
  to->mins = widened(group.min, v) * widened(group.parts[part].min, v);
}

VEC_INLINE void load_columns(const Q6KGroup& group, int64_t part, int v, Columns* to) {
  const Q6KGroup::Part& from = group.parts[part];
  split_nibbles(from.low, v, to);
  VEC_UNROLL
  for (int q = 0; q < kBlockQuads; ++q) {
    const Bytes high = load<Bytes>(from.high[q % 2] + v * kVectorBytes);
    const int up = 4 - q / 2 * 2;
    to->weights[q] |= (up > 0 ? high << up : high >> -up) & static_cast<uint16_t>(0x3030);
  }
  for (int i = 0; i < 2; ++i) to->scales[i] = widened(group.scale, v) * widened(from.scale[i], v);
  to->mins = Float{};
}

template <class Type, class Group>
struct Panels {
  using Dot = typename DotOf<Type::kBits>::type;
  using Part = Parts<Type::kHalves, Type::kMins, Dot>;

  static void unpack(const char* panel, int64_t blocks, ColumnBlock* to) {
    const auto* group = reinterpret_cast<const Group*>(panel);
    Columns columns;
    for (int64_t block = 0; block < blocks; block += Group::kBlocks, ++group) {
      for (int64_t part = 0; part < Group::kBlocks; ++part, to += kIntegerColumns / kIntegerLanes) {
        for (int v = 0; v < kBlockVectors; ++v) {
          load_columns(*group, part, v, &columns);
          VEC_UNROLL
          for (int q = 0; q < kBlockQuads; ++q) store(to->weights[q][v * kLanes], columns.weights[q]);
          for (int i = 0; i < 2; ++i) store(to->scales[i] + v * kLanes, columns.scales[i]);
          store(to->mins[0] + v * kLanes, columns.mins);
        }
      }
    }
  }

  // The products of one vector of a block's columns with a row.
  static VEC_INLINE void accumulate(const Columns& columns, const RowBlock& row, Float* sum) {
    VEC_UNROLL
    for (int part = 0; part < Part::kCount; ++part) {
      typename Dot::Sum products = Dot::begin(Part::start(row, part));
      VEC_UNROLL
      for (int q = part * Part::kQuads; q < (part + 1) * Part::kQuads; q += Dot::kStep) {
        Bytes weights[Dot::kStep];
        VEC_UNROLL
        for (int i = 0; i < Dot::kStep; ++i) weights[i] = columns.weights[q + i];
        products = Dot::plus(products, weights, typename Dot::Values(row.values + 4 * q));
      }
      const Int product = Dot::end(products, Part::start(row, part));
      *sum += floats_of(product) * (columns.scales[Part::scale(part)] * row.scale);
    }
    if (Type::kMins) *sum -= columns.mins * row.sum[0];
  }

  // Calls step(r) for each row, unrolled where Rows is their number.
  template <int Rows, class Step>
  static VEC_INLINE void each_row(int64_t count, const Step& step) {
    if constexpr (Rows == 1 || kStreamRowStep == 1) {
      VEC_UNROLL
      for (int r = 0; r < Rows; ++r) step(r);
    } else {
      for (int64_t r = 0; r < count; ++r) step(r);
    }
  }

  template <int Rows>
  static void stream_rows(const RowBlock* row, int64_t count, int64_t blocks, const char* panel, int64_t columns,
                          float* output, int64_t stride) {
    constexpr int64_t kPartBytes = sizeof(Group) / Group::kBlocks;
    const auto* group = reinterpret_cast<const Group*>(panel);
    Float sums[Rows][kBlockVectors] = {};
    Columns block_columns;
    for (int64_t block = 0; block < blocks; block += Group::kBlocks, ++group) {
      for (int64_t part = 0; part < Group::kBlocks; ++part, ++row) {
        prefetch_stream(reinterpret_cast<const char*>(group) + part * kPartBytes, kPartBytes);
        VEC_UNROLL
        for (int v = 0; v < kBlockVectors; ++v) {
          load_columns(*group, part, v, &block_columns);
          each_row<Rows>(count, [&](int64_t r) { accumulate(block_columns, row[r * blocks], &sums[r][v]); });
        }
      }
    }
    each_row<Rows>(count, [&](int64_t r) {
      VEC_UNROLL
      for (int v = 0; v < kBlockVectors; ++v) {
        store_lanes(output + r * stride + v * kLanes, sums[r][v], columns - v * kLanes);
      }
    });
  }

  static void stream(const RowBlock* rows, int64_t count, int64_t blocks, const char* panel, int64_t columns,
                     float* output, int64_t stride) {
    static constexpr Streams kStreams;
    kStreams.run[count - 1](rows, count, blocks, panel, columns, output, stride);
  }

  // By their number of rows; one row has a function of its own everywhere.
  struct Streams {
    decltype(&stream_rows<1>) run[kStreamRows];

    template <int Rows = 1>
    constexpr void fill() {
      run[Rows - 1] = stream_rows < Rows == 1 ? 1 : rounded_up(Rows, kStreamRowStep) > ;
      if constexpr (Rows < kStreamRows) fill<Rows + 1>();
    }
    constexpr Streams() : run{} { fill(); }
  };

  static constexpr PanelProduct kProduct = {unpack, stream};
};

template <class Type>
constexpr const PanelProduct* kPanels = nullptr;
template <>
constexpr const PanelProduct* kPanels<Q4_0> = &Panels<Q4_0, Q4_0Group>::kProduct;
template <>
constexpr const PanelProduct* kPanels<Q4K> = &Panels<Q4K, Q4KGroup>::kProduct;
template <>
constexpr const PanelProduct* kPanels<Q6K> = &Panels<Q6K, Q6KGroup>::kProduct;

template <class Type>
constexpr IntegerProduct product_of(ggml_type type, decltype(IntegerProduct::stream) stream = nullptr) {
  using Dot = typename DotOf<Type::kBits>::type;
  static_assert(!Type::kMins || Type::kOffset == 0, "see Parts");
  return {type,       quantize<Type::kOffset, Type::kHalves>,
          pack<Type>, multiply<Type::kHalves, Type::kMins, Dot>,
          stream,     kPanels<Type>};
}

// Of all types. q8_0 is as fast in ggml's own layout where StreamQ8_0 streams it.
template <decltype(IntegerProduct::stream) StreamQ8_0 = nullptr>
constexpr IntegerProduct kProducts[] = {
    product_of<Q4_0>(GGML_TYPE_Q4_0),
    product_of<Q4_1>(GGML_TYPE_Q4_1),
    product_of<Q5_0>(GGML_TYPE_Q5_0),
    product_of<Q5_1>(GGML_TYPE_Q5_1),
    product_of<Q8_0>(GGML_TYPE_Q8_0, StreamQ8_0),
    product_of<Q4K>(GGML_TYPE_Q4_K),
    product_of<Q5K>(GGML_TYPE_Q5_K),
    product_of<Q6K>(GGML_TYPE_Q6_K),
};

template <size_t Count>
constexpr IntegerProducts all_of(const IntegerProduct (&products)[Count]) {
  return {products, Count};
}

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
