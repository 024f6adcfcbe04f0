// GEMM of weights and activations in f32. f32 weights are packed in panels. Quantized weights go through int8 GEMM
// where the CPU has it, else blocks of them are dequantized. f16 weights are converted to f32 in registers, or block by
// block where there are many rows of activations. On CPUs with bf16 products (AVX512-BF16, AMX, ARM's) activations are
// converted to bf16 and packed, and bf16 weights are not; on others bf16 weights are converted to f32 block by block.

#include <algorithm>

#include "kernels/convolution/tile_session.h"
#include "kernels/elementwise/convert.h"
#include "kernels/kernels.h"
#include "kernels/partition.h"
#include "kernels/product/bfloat_product.h"
#include "kernels/product/dequantize.h"
#include "kernels/product/half_product.h"
#include "kernels/product/integer_product.h"
#include "kernels/product/packed_product.h"
#include "kernels/product/panels.h"
#include "kernels/scratch.h"

namespace executorch_ggml::kernels {
namespace {

constexpr int64_t kPanelBytes = 256 << 10;     // of packed f32 weights, which stay in L2
constexpr int64_t kPackedBytes = 4 << 20;      // of packed rows, which stay in L3
constexpr int64_t kHalfRowsBytes = 768 << 10;  // of rows that an f16 matrix is multiplied with, which stay in L2 too
constexpr int64_t kIntegerRows = 256;          // that a panel of integers is multiplied with at a time

struct Scratch {
  Buffer<float> floats, panel, products, transposed;
  Buffer<uint16_t> halves, bfloat_panel, spread_columns;
  Buffer<RowBlock> rows;
  Buffer<ColumnBlock> columns;
};

// n must be a multiple of the type's block.
void dequantize(ggml_type type, const char* from, int64_t n, float* to) {
  if (type == GGML_TYPE_F16) return to_floats(from, n, DType::F16, to);
  if (type == GGML_TYPE_BF16) return to_floats(from, n, DType::Bf16, to);
  if (type == GGML_TYPE_Q6_K) return KERNEL_PICK(floats_from_q6_k)(from, n, to);
  ggml_get_type_traits(type)->to_float(from, to, n);
}

// Matrix (i2, i3) of a tensor that is broadcast, in blocks, to the two outer dims of dst.
const char* matrix_of(const ggml_tensor* t, const ggml_tensor* dst, int64_t i2, int64_t i3) {
  const int64_t j2 = i2 / (dst->ne[2] / t->ne[2]);
  const int64_t j3 = i3 / (dst->ne[3] / t->ne[3]);
  return static_cast<const char*>(t->data) + static_cast<size_t>(j2) * t->nb[2] + static_cast<size_t>(j3) * t->nb[3];
}

// Calls work(matrix, columns, rows) for this thread's share. The blocks of columns of all matrices are divided among
// the threads, and the rows as well where there are fewer blocks than threads.
template <class Work>
void divide(const ggml_tensor* dst, int64_t block_columns, int ith, int nth, const Work& work) {
  const int64_t blocks = ceil_div(dst->ne[0], block_columns);
  const int64_t matrices = dst->ne[2] * dst->ne[3];
  if (blocks == 0 || matrices == 0) return;
  const int64_t parts = ceil_div(nth, blocks * matrices);
  const Range units = Range::part(matrices * parts * blocks, ith, nth);
  for (int64_t unit = units.begin; unit < units.end;) {
    const int64_t block = unit % blocks;
    const int64_t count = std::min(blocks - block, units.end - unit);
    const int64_t part = unit / blocks % parts;
    const Range rows = Range::part(dst->ne[1], part, parts);
    work(unit / blocks / parts, {block * block_columns, std::min((block + count) * block_columns, dst->ne[0])}, rows);
    unit += count;
  }
}

// The operands and the output of one product of a batch.
struct Matrices {
  const char* a;
  const char* b;
  char* output;

  Matrices(const ggml_tensor* dst, int64_t matrix) {
    const int64_t i2 = matrix % dst->ne[2];
    const int64_t i3 = matrix / dst->ne[2];
    a = matrix_of(dst->src[0], dst, i2, i3);
    b = matrix_of(dst->src[1], dst, i2, i3);
    output = static_cast<char*>(dst->data) + i2 * dst->nb[2] + i3 * dst->nb[3];
  }
};

// The rows that a bf16 matrix is multiplied with, in bf16: as a node before rounded them, else rounded for this thread.
HalfRows rounded_rows(const ggml_tensor* dst, const Matrices& of, int64_t matrix, Range rows) {
  const ggml_tensor* b = dst->src[1];
  const ggml_tensor* rounded = dst->src[2];
  const int64_t length = b->ne[0];
  if (rounded != nullptr) {
    return {static_cast<const uint16_t*>(rounded->data) + (matrix * dst->ne[1] + rows.begin) * length, length};
  }
  uint16_t* halves = thread_scratch<Scratch>().halves.sized(rows.size() * length);
  for (int64_t i = 0; i < rows.size(); ++i) {
    const auto* row = reinterpret_cast<const float*>(of.b + (rows.begin + i) * b->nb[1]);
    from_floats(row, length, DType::Bf16, halves + i * length);
  }
  return {halves, length};
}

int64_t whole_blocks(int64_t columns) { return ceil_div(columns, kPackedColumns) * kPackedColumns; }

// Rows of a matrix of floats.
FloatRows float_rows(const char* first, const ggml_tensor* matrix) {
  return {reinterpret_cast<const float*>(first), static_cast<int64_t>(matrix->nb[1] / sizeof(float))};
}

// Products of some columns and rows, column by column, to where these columns begin in the output.
void store_transposed(const ggml_tensor* dst, FloatRows products, int64_t columns, Range rows, float* output) {
  const int64_t width = whole_blocks(columns);
  float* blocks = thread_scratch<Scratch>().transposed.sized(width * rows.size());
  KERNEL_PICK(pack_columns)(products, columns, rows.size(), blocks);
  for (int64_t i = 0; i < rows.size(); ++i) {
    float* to = output + (rows.begin + i) * dst->ne[0];
    for (int64_t first = 0; first < columns; first += kPackedColumns) {
      const float* from = blocks + first * rows.size() + i * kPackedColumns;
      std::copy_n(from, std::min(kPackedColumns, columns - first), to + first);
    }
  }
}

// f32: panels of columns, which are multiplied with some rows at a time.
class FloatProduct {
 public:
  explicit FloatProduct(ggml_tensor* dst) : dst_(dst), a_(dst->src[0]), b_(dst->src[1]), length_(a_->ne[0]) {
    const int64_t block_bytes = std::max<int64_t>(1, length_) * kPackedColumns * static_cast<int64_t>(sizeof(float));
    panel_ = std::max<int64_t>(1, kPanelBytes / block_bytes) * kPackedColumns;
  }

  void run(int ith, int nth) const {
    divide(dst_, kPackedColumns, ith, nth, [&](int64_t matrix, Range all, Range rows) {
      const Matrices of(dst_, matrix);
      float* panel = thread_scratch<Scratch>().panel.sized(panel_ * length_);
      for (Range columns = {all.begin, 0}; columns.begin < all.end; columns.begin = columns.end) {
        columns.end = std::min(columns.begin + panel_, all.end);
        const FloatRows numbers = float_rows(of.a + columns.begin * a_->nb[1], a_);
        KERNEL_PICK(pack_columns)(numbers, columns.size(), length_, panel);
        multiply_rows(of, rows, panel, columns);
      }
    });
  }

 private:
  void multiply_rows(const Matrices& of, Range all, const float* panel, Range columns) const {
    auto* output = reinterpret_cast<float*>(of.output) + columns.begin;
    const FloatRows numbers = float_rows(of.b, b_);
    const float* rows[kMaxTileRows];
    for (Range tile = {all.begin, 0}; tile.begin < all.end; tile.begin = tile.end) {
      tile.end = std::min(tile.begin + max_packed_rows(), all.end);
      for (int64_t i = 0; i < tile.size(); ++i) rows[i] = numbers.row(tile.begin + i);
      multiply_packed(rows, tile.size(), length_, panel, columns.size(), output + tile.begin * dst_->ne[0],
                      dst_->ne[0]);
    }
  }

  ggml_tensor* dst_;
  const ggml_tensor* a_;
  const ggml_tensor* b_;
  int64_t length_;
  int64_t panel_;  // its columns
};

// Activations are packed in panels, since they are fewer than the weights. A block of weights is multiplied with all
// panels in turn while it is in L2. It computes the transpose of the result.
//
// `Weights` is a kind of weights:
//
//   Element                   the element type of both operands
//   kBlockBytes, kMostTiles   the largest block: in bytes, in tiles
//   tile(), panel_bytes()     columns of a tile; bytes of a panel of activations
//   setup()                   the setup of tile registers, or null
//   pack(of, matrix, rows)    packs rows of activations in panels
//   block(columns, n, most)   n of up to `most` columns of weights, converted to Element
//   multiply(...)             multiplies a tile of columns with a panel
template <class Weights>
class BlockedProduct {
 public:
  BlockedProduct(ggml_tensor* dst, const Weights& weights)
      : dst_(dst), a_(dst->src[0]), weights_(weights), length_(a_->ne[0]) {
    const int64_t row_bytes = std::max<int64_t>(1, length_) * static_cast<int64_t>(sizeof(Element));
    panel_ = std::max<int64_t>(1, weights.panel_bytes() / row_bytes / kPackedColumns) * kPackedColumns;
    packed_rows_ = std::max<int64_t>(1, kPackedBytes / row_bytes / panel_) * panel_;
    block_ =
        std::clamp<int64_t>(Weights::kBlockBytes / row_bytes / weights.tile(), 1, Weights::kMostTiles) * weights.tile();
  }

  void run(int ith, int nth) const {
    divide(dst_, kPackedColumns, ith, nth, [&](int64_t matrix, Range columns, Range all) {
      const Matrices of(dst_, matrix);
      TileSession session(weights_.setup());
      for (Range rows = {all.begin, 0}; rows.begin < all.end; rows.begin = rows.end) {
        rows.end = std::min(rows.begin + packed_rows_, all.end);
        multiply(session, of, columns, weights_.pack(of, matrix, rows), rows);
      }
    });
  }

 private:
  using Element = typename Weights::Element;

  void multiply(TileSession& session, const Matrices& of, Range columns, const Element* packed, Range rows) const {
    for (Range block = {columns.begin, 0}; block.begin < columns.end; block.begin = block.end) {
      block.end = std::min(block.begin + block_, columns.end);
      const auto weights = weights_.block(of.a + block.begin * a_->nb[1], block.size(), block_);
      const char* next = block.end < columns.end ? of.a + block.end * a_->nb[1] : nullptr;
      auto* output = reinterpret_cast<float*>(of.output) + block.begin;
      for (Range panel = {rows.begin, 0}; panel.begin < rows.end; panel.begin = panel.end) {
        panel.end = std::min(panel.begin + panel_, rows.end);
        const Element* of_panel = packed + (panel.begin - rows.begin) * length_;
        multiply_panel(session, weights, block.size(), of_panel, panel, output, next);
        next = nullptr;
      }
    }
  }

  template <class Rows>
  void multiply_panel(TileSession& session, const Rows& weights, int64_t count, const Element* panel, Range rows,
                      float* output, const char* next) const {
    const Element* tile[kMaxTileRows];
    float* products = thread_scratch<Scratch>().products.sized(block_ * rows.size());
    for (int64_t first = 0; first < count; first += weights_.tile()) {
      const int64_t columns = std::min(weights_.tile(), count - first);
      for (int64_t i = 0; i < columns; ++i) tile[i] = weights.row(first + i);
      weights_.multiply(session, tile, columns, panel, rows.size(), products + first * rows.size(),
                        next != nullptr ? next + first * a_->nb[1] : nullptr);
    }
    store_transposed(dst_, {products, rows.size()}, count, rows, output);
  }

  ggml_tensor* dst_;
  const ggml_tensor* a_;
  Weights weights_;
  int64_t length_;
  int64_t panel_;        // its rows
  int64_t packed_rows_;  // that all panels of a pass over the weights hold
  int64_t block_;        // columns
};

// f16, bf16 and quantized weights, converted to f32. Activations for bf16 weights are rounded to bf16, as ggml and the
// CPU's bf16 products round them.
class ConvertedWeights {
 public:
  using Element = float;
  static constexpr int64_t kBlockBytes = 96 << 10;  // which stay in L2 beside a panel
  static constexpr int64_t kMostTiles = 16;         // of a block: its products stay in L2 too

  explicit ConvertedWeights(ggml_tensor* dst)
      : dst_(dst), a_(dst->src[0]), b_(dst->src[1]), length_(a_->ne[0]), tile_(max_packed_rows()) {
    pitch_ = length_ + kPackedColumns;  // of columns that would map to the same sets of L1 otherwise
  }

  int64_t tile() const { return tile_; }
  int64_t panel_bytes() const { return 128 << 10; }
  const TileSetup* setup() const { return nullptr; }

  const float* pack(const Matrices& of, int64_t matrix, Range rows) const {
    float* packed = thread_scratch<Scratch>().panel.sized(whole_blocks(rows.size()) * length_);
    if (a_->type == GGML_TYPE_BF16) {
      KERNEL_PICK(pack_bfloat_columns)(rounded_rows(dst_, of, matrix, rows), rows.size(), length_, packed);
    } else {
      KERNEL_PICK(pack_columns)(float_rows(of.b + rows.begin * b_->nb[1], b_), rows.size(), length_, packed);
    }
    return packed;
  }

  FloatRows block(const char* columns, int64_t count, int64_t most) const {
    float* floats = thread_scratch<Scratch>().floats.sized(most * pitch_);
    for (int64_t i = 0; i < count; ++i) dequantize(a_->type, columns + i * a_->nb[1], length_, floats + i * pitch_);
    return {floats, pitch_};
  }

  void multiply(TileSession&, const float* const* columns, int64_t count, const float* panel, int64_t rows,
                float* products, const char* next) const {
    multiply_packed(columns, count, length_, panel, rows, products, rows, read_next(next, rows));
  }

 private:
  // A tile's part of the next block's columns, spread over its products.
  ReadNext read_next(const char* columns, int64_t rows) const {
    if (columns == nullptr) return {};
    const int64_t packed = whole_blocks(rows) * length_ * static_cast<int64_t>(sizeof(float));
    const int64_t bytes = tile_ * static_cast<int64_t>(a_->nb[1]);
    int shift = 0;
    while (bytes > 0 && bytes << (shift + 1) <= packed) ++shift;
    return {columns, shift};
  }

  ggml_tensor* dst_;
  const ggml_tensor* a_;
  const ggml_tensor* b_;
  int64_t length_;
  int64_t tile_;   // its columns
  int64_t pitch_;  // floats from a converted column to the next
};

// bf16 GEMM (VDPBF16PS, TDPBF16PS) with unpacked weights. Packing them, mostly the larger operand, cost as much as
// multiplying them with ten rows.
class BfloatWeights {
 public:
  using Element = uint16_t;
  static constexpr int64_t kBlockBytes = 192 << 10;  // which stay in L2 beside a panel and the next block
  static constexpr int64_t kMostTiles = 8;           // of a block: its products stay in L2 too

  BfloatWeights(ggml_tensor* dst, const BfloatTiles& tiles)
      : dst_(dst), a_(dst->src[0]), tiles_(tiles), length_(a_->ne[0]) {}

  int64_t tile() const { return tiles_.rows; }
  int64_t panel_bytes() const { return std::max<int64_t>(512 << 10, tiles_.gathered_bytes); }
  const TileSetup* setup() const { return tiles_.setup; }

  // A pair of a row moves as a float does.
  const uint16_t* pack(const Matrices& of, int64_t matrix, Range rows) const {
    uint16_t* packed = thread_scratch<Scratch>().bfloat_panel.sized(whole_blocks(rows.size()) * length_);
    const HalfRows rounded = rounded_rows(dst_, of, matrix, rows);
    const FloatRows pairs = {reinterpret_cast<const float*>(rounded.row(0)), rounded.stride / 2};
    KERNEL_PICK(pack_columns)(pairs, rows.size(), length_ / 2, reinterpret_cast<float*>(packed));
    return packed;
  }

  // Columns that map to the same sets of L1 are copied with a padded pitch.
  HalfRows block(const char* columns, int64_t count, int64_t most) const {
    constexpr int64_t kAliasing = 4096 / sizeof(uint16_t);
    const HalfRows stored = {reinterpret_cast<const uint16_t*>(columns),
                             static_cast<int64_t>(a_->nb[1] / sizeof(uint16_t))};
    if (stored.stride % kAliasing != 0) return stored;
    const int64_t pitch = length_ + kPackedColumns * 2;
    uint16_t* copy = thread_scratch<Scratch>().spread_columns.sized(most * pitch);
    for (int64_t i = 0; i < count; ++i) std::copy_n(stored.row(i), length_, copy + i * pitch);
    return {copy, pitch};
  }

  void multiply(TileSession& session, const uint16_t* const* columns, int64_t count, const uint16_t* panel,
                int64_t rows, float* products, const char* next) const {
    multiply_packed(tiles_, session, columns, count, length_, panel, rows, products, rows, next);
  }

 private:
  ggml_tensor* dst_;
  const ggml_tensor* a_;
  const BfloatTiles& tiles_;
  int64_t length_;
};

// f16: tiles, or column after column where there are few rows, which are rounded to f16 if they are long.
class HalfProduct {
 public:
  explicit HalfProduct(ggml_tensor* dst) : dst_(dst), a_(dst->src[0]), b_(dst->src[1]), length_(a_->ne[0]) {
    const int64_t row_bytes = std::max<int64_t>(1, length_) * static_cast<int64_t>(sizeof(float));
    rows_ = std::max<int64_t>(1, kHalfRowsBytes / row_bytes / kHalfRows) * kHalfRows;
  }

  void run(int ith, int nth) const {
    divide(dst_, kHalfColumns, ith, nth, [&](int64_t matrix, Range columns, Range rows) {
      const Matrices of(dst_, matrix);
      for (int64_t row = rows.begin; row < rows.end; row += rows_) {
        multiply_rows(of, columns, {row, std::min(row + rows_, rows.end)});
      }
    });
  }

 private:
  void multiply_rows(const Matrices& of, Range columns, Range rows) const {
    const auto* weights = reinterpret_cast<const uint16_t*>(of.a + columns.begin * a_->nb[1]);
    auto* output = reinterpret_cast<float*>(of.output) + rows.begin * dst_->ne[0] + columns.begin;
    const FloatRows floats = float_rows(of.b + rows.begin * b_->nb[1], b_);
    const HalfRows halves = {weights, static_cast<int64_t>(a_->nb[1] / sizeof(uint16_t))};
    const auto multiply = [&](auto kernel, auto operands) {
      kernel(operands, rows.size(), halves, columns.size(), length_, output, dst_->ne[0]);
    };
    const bool few = dst_->ne[1] <= kStreamedHalfRows;
    if (few && dst_->ne[1] * length_ <= kStreamedFloats) return multiply(KERNEL_PICK(stream_halves), floats);
    const uint16_t* rounded = few ? round_to_halves(floats, rows.size()) : nullptr;
    if (rounded != nullptr) return multiply(KERNEL_PICK(stream_halves_by_halves), HalfRows{rounded, length_});
    multiply(KERNEL_PICK(multiply_halves), floats);
  }

  // Null where a number is NaN or out of f16's range.
  const uint16_t* round_to_halves(FloatRows rows, int64_t count) const {
    constexpr int kMagnitude = 0x7fff, kInfinity = 0x7c00;
    uint16_t* halves = thread_scratch<Scratch>().halves.sized(count * length_);
    for (int64_t i = 0; i < count; ++i) from_floats(rows.row(i), length_, DType::F16, halves + i * length_);
    int16_t largest = 0;
    for (int64_t i = 0; i < count * length_; ++i)
      largest = std::max(largest, static_cast<int16_t>(halves[i] & kMagnitude));
    return largest < kInfinity ? halves : nullptr;
  }

  ggml_tensor* dst_;
  const ggml_tensor* a_;
  const ggml_tensor* b_;
  int64_t length_;
  int64_t rows_;  // at once
};

// int8 GEMM: panels of integers.
class IntegersProduct {
 public:
  IntegersProduct(ggml_tensor* dst, const IntegerProduct& product)
      : dst_(dst),
        a_(dst->src[0]),
        b_(dst->src[1]),
        product_(product),
        panels_(is_in_panels(a_) ? product.panels : nullptr),
        panel_bytes_(panels_ != nullptr ? panel_bytes(a_->type, a_->ne[0]) : 0),
        blocks_(a_->ne[0] / kIntegerBlock),
        quantized_(dst->src[2]) {}

  void run(int ith, int nth) const {
    divide(dst_, kIntegerColumns, ith, nth, [&](int64_t matrix, Range columns, Range rows) {
      const Matrices of(dst_, matrix);
      for (int64_t row = rows.begin; row < rows.end; row += kIntegerRows) {
        const Range part = {row, std::min(row + kIntegerRows, rows.end)};
        multiply_rows(of, quantized_rows(of, matrix, part), columns, part);
      }
    });
  }

 private:
  const RowBlock* quantized_rows(const Matrices& of, int64_t matrix, Range rows) const {
    if (quantized_ != nullptr) {
      return static_cast<const RowBlock*>(quantized_->data) + (matrix * dst_->ne[1] + rows.begin) * blocks_;
    }
    RowBlock* quantized = thread_scratch<Scratch>().rows.sized(rows.size() * blocks_);
    for (int64_t i = 0; i < rows.size(); ++i) {
      const auto* row = reinterpret_cast<const float*>(of.b + (rows.begin + i) * b_->nb[1]);
      product_.quantize(row, blocks_, quantized + i * blocks_);
    }
    return quantized;
  }

  void multiply_rows(const Matrices& of, const RowBlock* quantized, Range columns, Range rows) const {
    auto* output = reinterpret_cast<float*>(of.output) + rows.begin * dst_->ne[0];
    // By all rows of the node, not those of this part: the result does not depend on how threads share them.
    const bool few = dst_->ne[1] <= kStreamRows;
    if (few && panels_ != nullptr) {
      return stream(of.a, quantized, rows.size(), columns, output);
    }
    if (few && product_.stream != nullptr) {
      return product_.stream(quantized, rows.size(), blocks_, of.a + columns.begin * a_->nb[1], a_->nb[1],
                             columns.size(), output + columns.begin, dst_->ne[0]);
    }
    const auto multiply = rows.size() > kStreamRows ? multiply_of_many_rows(product_) : product_.multiply;
    ColumnBlock* panel = thread_scratch<Scratch>().columns.sized(blocks_ * kIntegerColumns / kIntegerLanes);
    for (int64_t first = columns.begin; first < columns.end; first += kIntegerColumns) {
      const int64_t count = std::min(kIntegerColumns, columns.end - first);
      pack(of.a, first, count, panel);
      const int64_t next = std::min(first + kIntegerColumns, columns.end);
      multiply(quantized, rows.size(), blocks_, panel, count, output + first, dst_->ne[0],
               read_of(of.a, {next, std::min(next + kIntegerColumns, columns.end)}));
    }
  }

  NextRead read_of(const char* a, Range columns) const {
    if (panels_ == nullptr) return {a + columns.begin * a_->nb[1], columns.size() * static_cast<int64_t>(a_->nb[1])};
    const int64_t panels = ceil_div(columns.size(), kPanelColumns);
    return {panel_at(a, columns.begin), panels * static_cast<int64_t>(panel_bytes_)};
  }

  void pack(const char* a, int64_t first, int64_t count, ColumnBlock* panel) const {
    if (panels_ == nullptr) return product_.pack(a + first * a_->nb[1], a_->nb[1], count, blocks_, panel);
    for (int64_t i = 0; i < count; i += kIntegerLanes) {
      panels_->unpack(panel_at(a, first + i), blocks_, panel + i / kIntegerLanes);
    }
  }

  void stream(const char* a, const RowBlock* rows, int64_t count, Range columns, float* output) const {
    for (int64_t first = columns.begin; first < columns.end; first += kIntegerLanes) {
      const int64_t width = std::min(kIntegerLanes, columns.end - first);
      panels_->stream(rows, count, blocks_, panel_at(a, first), width, output + first, dst_->ne[0]);
    }
  }

  const char* panel_at(const char* a, int64_t first) const {
    return a + static_cast<size_t>(first / kPanelColumns) * panel_bytes_;
  }

  ggml_tensor* dst_;
  const ggml_tensor* a_;
  const ggml_tensor* b_;
  const IntegerProduct& product_;
  const PanelProduct* panels_;  // null for a matrix in ggml's own layout
  size_t panel_bytes_;
  int64_t blocks_;
  const ggml_tensor* quantized_;  // the rows; null where they are few and each thread quantizes them for itself
};

}  // namespace

void bfloat_product_by(const BfloatTiles& tiles, ggml_tensor* dst, int ith, int nth) {
  BlockedProduct(dst, BfloatWeights(dst, tiles)).run(ith, nth);
}

void wide_product(ggml_tensor* dst, int ith, int nth, void*) {
  const ggml_tensor* a = dst->src[0];
  const IntegerProduct* integers = integer_product_of(a);
  if (integers != nullptr) {
    IntegersProduct(dst, *integers).run(ith, nth);
  } else if (a->type == GGML_TYPE_F16 && !converts_halves(dst->ne[1])) {
    HalfProduct(dst).run(ith, nth);
  } else if (a->type == GGML_TYPE_BF16 && bfloat_conv_tiles() != nullptr) {
    bfloat_product_by(bfloat_tiles_of_node(), dst, ith, nth);
  } else if (a->type == GGML_TYPE_F32) {
    FloatProduct(dst).run(ith, nth);
  } else {
    BlockedProduct(dst, ConvertedWeights(dst)).run(ith, nth);
  }
}

}  // namespace executorch_ggml::kernels
