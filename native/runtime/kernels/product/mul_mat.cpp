// Products of matrices with many rows of floats: a matrix is packed a few columns at a time, and each of these
// multiplied with all rows. Quantized matrices are multiplied as whole numbers where the CPU is good at it, else
// dequantized; halves are widened in registers.

#include <algorithm>
#include <new>

#include "kernels/convolution/image.h"
#include "kernels/elementwise/convert.h"
#include "kernels/kernels.h"
#include "kernels/product/dequantize.h"
#include "kernels/product/half_product.h"
#include "kernels/product/integer_product.h"
#include "kernels/product/packed_product.h"

namespace executorch_ggml::kernels {
namespace {

constexpr int64_t kPanelBytes = 256 << 10;     // of dequantized columns, which stay in the second cache
constexpr int64_t kHalfRowsBytes = 768 << 10;  // of rows that halves are multiplied with, which stay there as well
constexpr int64_t kIntegerRows = 256;          // that a panel of whole numbers is multiplied with

struct Scratch {
  Buffer<float> floats, panel;
  Buffer<uint16_t> halves;
  Buffer<RowBlock> rows;
  Buffer<ColumnBlock> columns;
};

Scratch& thread_scratch() {
  static thread_local Scratch scratch;
  return scratch;
}

void widen(const ggml_tensor* a, const char* from, float* to) {
  if (a->type == GGML_TYPE_Q6_K) return KERNEL_PICK(floats_from_q6_k)(from, a->ne[0], to);
  ggml_get_type_traits(a->type)->to_float(from, to, a->ne[0]);
}

// Where matrix (i2, i3) of a tensor begins that is repeated, in blocks, to a result's two outer dims.
const char* matrix_of(const ggml_tensor* t, const ggml_tensor* dst, int64_t i2, int64_t i3) {
  const int64_t j2 = i2 / (dst->ne[2] / t->ne[2]);
  const int64_t j3 = i3 / (dst->ne[3] / t->ne[3]);
  return static_cast<const char*>(t->data) + static_cast<size_t>(j2) * t->nb[2] + static_cast<size_t>(j3) * t->nb[3];
}

// Calls `work` for this thread's share: a matrix, some of its columns, rows. Work is divided by blocks of columns of
// all matrices, and by rows as well where those are too few.
template <class Work>
void divide(const ggml_tensor* dst, int64_t block_columns, int ith, int nth, const Work& work) {
  const int64_t blocks = ceil_div(dst->ne[0], block_columns);
  const int64_t matrices = dst->ne[2] * dst->ne[3];
  if (blocks == 0 || matrices == 0) return;
  const int64_t parts = ceil_div(nth, blocks * matrices);
  const Interval units = Interval::part(matrices * parts * blocks, ith, nth);
  for (int64_t at = units.begin; at < units.end;) {
    const int64_t block = at % blocks;
    const int64_t count = std::min(blocks - block, units.end - at);
    const int64_t part = at / blocks % parts;
    const Interval rows = Interval::part(dst->ne[1], part, parts);
    work(at / blocks / parts, {block * block_columns, std::min((block + count) * block_columns, dst->ne[0])}, rows);
    at += count;
  }
}

// One of a product's matrices.
struct Matrices {
  const char* a;
  const char* b;
  char* made;

  Matrices(const ggml_tensor* dst, int64_t matrix) {
    const int64_t i2 = matrix % dst->ne[2];
    const int64_t i3 = matrix / dst->ne[2];
    a = matrix_of(dst->src[0], dst, i2, i3);
    b = matrix_of(dst->src[1], dst, i2, i3);
    made = static_cast<char*>(dst->data) + i2 * dst->nb[2] + i3 * dst->nb[3];
  }
};

// Panels of floats.
class FloatProduct {
 public:
  explicit FloatProduct(ggml_tensor* dst) : dst_(dst), a_(dst->src[0]), b_(dst->src[1]), length_(a_->ne[0]) {
    const int64_t block_bytes = std::max<int64_t>(1, length_) * kPackedColumns * static_cast<int64_t>(sizeof(float));
    panel_ = std::max<int64_t>(1, kPanelBytes / block_bytes) * kPackedColumns;
  }

  void run(int ith, int nth) const {
    divide(dst_, kPackedColumns, ith, nth, [&](int64_t matrix, Interval columns, Interval rows) {
      multiply_columns(Matrices(dst_, matrix), columns, rows);
    });
  }

 private:
  void multiply_columns(const Matrices& of, Interval all, Interval rows) const {
    float* panel = thread_scratch().panel.sized(panel_ * length_);
    for (int64_t begin = all.begin; begin < all.end; begin += panel_) {
      const Interval columns = {begin, std::min(begin + panel_, all.end)};
      pack(of.a, columns, panel);
      multiply_rows(of.b, rows, panel, columns, reinterpret_cast<float*>(of.made) + begin);
    }
  }

  void pack(const char* a, Interval columns, float* panel) const {
    for (int64_t first = columns.begin; first < columns.end; first += kPackedColumns) {
      const int64_t count = std::min(kPackedColumns, columns.end - first);
      KERNEL_PICK(pack_columns)
      (floats_of(a + first * a_->nb[1], count), count, length_, panel + (first - columns.begin) * length_);
    }
  }

  FloatRows floats_of(const char* rows, int64_t count) const {
    if (a_->type == GGML_TYPE_F32) {
      return {reinterpret_cast<const float*>(rows), static_cast<int64_t>(a_->nb[1] / sizeof(float))};
    }
    float* floats = thread_scratch().floats.sized(kPackedColumns * length_);
    for (int64_t i = 0; i < count; ++i) widen(a_, rows + i * a_->nb[1], floats + i * length_);
    return {floats, length_};
  }

  void multiply_rows(const char* b, Interval part, const float* panel, Interval columns, float* made) const {
    const float* rows[kMaxTileRows];
    const int64_t most = most_packed_rows();
    for (int64_t row = part.begin; row < part.end; row += most) {
      const int64_t count = std::min(most, part.end - row);
      for (int64_t i = 0; i < count; ++i) rows[i] = reinterpret_cast<const float*>(b + (row + i) * b_->nb[1]);
      multiply_packed(rows, count, length_, panel, columns.size(), made + row * dst_->ne[0], dst_->ne[0]);
    }
  }

  ggml_tensor* dst_;
  const ggml_tensor* a_;
  const ggml_tensor* b_;
  int64_t length_;
  int64_t panel_;  // columns that are multiplied at once
};

// Tiles of halves, as they are; or few rows with one column after the other, rounded to halves where they are long.
class HalfProduct {
 public:
  explicit HalfProduct(ggml_tensor* dst) : dst_(dst), a_(dst->src[0]), b_(dst->src[1]), length_(a_->ne[0]) {
    const int64_t row_bytes = std::max<int64_t>(1, length_) * static_cast<int64_t>(sizeof(float));
    rows_ = std::max<int64_t>(1, kHalfRowsBytes / row_bytes / kHalfRows) * kHalfRows;
  }

  void run(int ith, int nth) const {
    divide(dst_, kHalfColumns, ith, nth, [&](int64_t matrix, Interval columns, Interval rows) {
      const Matrices of(dst_, matrix);
      for (int64_t row = rows.begin; row < rows.end; row += rows_) {
        multiply_rows(of, columns, {row, std::min(row + rows_, rows.end)});
      }
    });
  }

 private:
  void multiply_rows(const Matrices& of, Interval columns, Interval rows) const {
    const auto* x = reinterpret_cast<const float*>(of.b + rows.begin * b_->nb[1]);
    const auto* weights = reinterpret_cast<const uint16_t*>(of.a + columns.begin * a_->nb[1]);
    auto* made = reinterpret_cast<float*>(of.made) + rows.begin * dst_->ne[0] + columns.begin;
    const FloatRows floats = {x, static_cast<int64_t>(b_->nb[1] / sizeof(float))};
    const HalfRows halves = {weights, static_cast<int64_t>(a_->nb[1] / sizeof(uint16_t))};
    const auto multiply = [&](auto kernel, auto its_rows) {
      kernel(its_rows, rows.size(), halves, columns.size(), length_, made, dst_->ne[0]);
    };
    const bool few = dst_->ne[1] <= kStreamedHalfRows;
    if (few && dst_->ne[1] * length_ <= kStreamedFloats) return multiply(KERNEL_PICK(stream_halves), floats);
    const uint16_t* rounded = few ? rounded_to_halves(floats, rows.size()) : nullptr;
    if (rounded != nullptr) return multiply(KERNEL_PICK(stream_halves_by_halves), HalfRows{rounded, length_});
    multiply(KERNEL_PICK(multiply_halves), floats);
  }

  // Null where a number is too large for a half, or is none.
  const uint16_t* rounded_to_halves(FloatRows rows, int64_t count) const {
    constexpr int kMagnitude = 0x7fff, kInfinity = 0x7c00;
    uint16_t* made = thread_scratch().halves.sized(count * length_);
    for (int64_t i = 0; i < count; ++i) from_floats(rows.row(i), length_, DType::F16, made + i * length_);
    int16_t most = 0;
    for (int64_t i = 0; i < count * length_; ++i) most = std::max(most, static_cast<int16_t>(made[i] & kMagnitude));
    return most < kInfinity ? made : nullptr;
  }

  ggml_tensor* dst_;
  const ggml_tensor* a_;
  const ggml_tensor* b_;
  int64_t length_;
  int64_t rows_;  // at once
};

// Panels of whole numbers.
class IntegersProduct {
 public:
  IntegersProduct(ggml_tensor* dst, const IntegerProduct& product)
      : dst_(dst),
        a_(dst->src[0]),
        b_(dst->src[1]),
        product_(product),
        arranged_(arranged_product(a_) ? product.arranged : nullptr),
        blocks_(a_->ne[0] / kIntegerBlock),
        rounded_(dst->src[2]) {}

  void run(int ith, int nth) const {
    divide(dst_, kIntegerColumns, ith, nth, [&](int64_t matrix, Interval columns, Interval rows) {
      const Matrices of(dst_, matrix);
      for (int64_t row = rows.begin; row < rows.end; row += kIntegerRows) {
        const Interval some = {row, std::min(row + kIntegerRows, rows.end)};
        multiply_rows(of, rounded(of, matrix, some), columns, some);
      }
    });
  }

 private:
  const RowBlock* rounded(const Matrices& of, int64_t matrix, Interval rows) const {
    if (rounded_ != nullptr) {
      return static_cast<const RowBlock*>(rounded_->data) + (matrix * dst_->ne[1] + rows.begin) * blocks_;
    }
    RowBlock* made = thread_scratch().rows.sized(rows.size() * blocks_);
    for (int64_t i = 0; i < rows.size(); ++i) {
      const auto* row = reinterpret_cast<const float*>(of.b + (rows.begin + i) * b_->nb[1]);
      product_.quantize(row, blocks_, made + i * blocks_);
    }
    return made;
  }

  void multiply_rows(const Matrices& of, const RowBlock* quantized, Interval columns, Interval rows) const {
    auto* made = reinterpret_cast<float*>(of.made) + rows.begin * dst_->ne[0];
    if (rows.size() <= kStreamRows && arranged_ != nullptr) return stream(of.a, quantized, rows.size(), columns, made);
    if (rows.size() <= kStreamRows && product_.stream != nullptr) {
      return product_.stream(quantized, rows.size(), blocks_, of.a + columns.begin * a_->nb[1], a_->nb[1],
                             columns.size(), made + columns.begin, dst_->ne[0]);
    }
    ColumnBlock* panel = thread_scratch().columns.sized(blocks_ * kIntegerColumns / kIntegerLanes);
    for (int64_t first = columns.begin; first < columns.end; first += kIntegerColumns) {
      const int64_t count = std::min(kIntegerColumns, columns.end - first);
      pack(of.a, first, count, panel);
      product_.multiply(quantized, rows.size(), blocks_, panel, count, made + first, dst_->ne[0]);
    }
  }

  void pack(const char* a, int64_t first, int64_t count, ColumnBlock* panel) const {
    if (arranged_ == nullptr) return product_.pack(a + first * a_->nb[1], a_->nb[1], count, blocks_, panel);
    for (int64_t at = 0; at < count; at += kIntegerLanes) {
      arranged_->unpack(arranged_panel(a, first + at), blocks_, panel + at / kIntegerLanes);
    }
  }

  void stream(const char* a, const RowBlock* rows, int64_t count, Interval columns, float* made) const {
    for (int64_t first = columns.begin; first < columns.end; first += kIntegerLanes) {
      const int64_t width = std::min(kIntegerLanes, columns.end - first);
      arranged_->stream(rows, count, blocks_, arranged_panel(a, first), width, made + first, dst_->ne[0]);
    }
  }

  const char* arranged_panel(const char* a, int64_t first) const {
    return a + static_cast<size_t>(first / kIntegerLanes) * arranged_->panel_bytes(blocks_);
  }

  ggml_tensor* dst_;
  const ggml_tensor* a_;
  const ggml_tensor* b_;
  const IntegerProduct& product_;
  const ArrangedColumns* arranged_;
  int64_t blocks_;
  const ggml_tensor* rounded_;  // null where few rows are rounded by each thread for itself
};

}  // namespace

size_t arranged_bytes(const ArrangedColumns& arranged, const ggml_tensor* matrix) {
  const auto panels = static_cast<size_t>(ceil_div(matrix->ne[1], kIntegerLanes));
  return panels * arranged.panel_bytes(matrix->ne[0] / kIntegerBlock);
}

void arrange(const ArrangedColumns& arranged, const ggml_tensor* matrix, const void* data, void* to) {
  const int64_t blocks = matrix->ne[0] / kIntegerBlock;
  const auto* from = static_cast<const char*>(data);
  auto* panel = static_cast<char*>(to);
  for (int64_t first = 0; first < matrix->ne[1]; first += kIntegerLanes) {
    const int64_t count = std::min(kIntegerLanes, matrix->ne[1] - first);
    arranged.arrange(from + static_cast<size_t>(first) * matrix->nb[1], matrix->nb[1], count, blocks, panel);
    panel += arranged.panel_bytes(blocks);
  }
}

const IntegerProduct* integer_product_with(const ggml_tensor* matrix) {
  return matrix->extra != nullptr ? arranged_product(matrix) : integer_product(matrix->type);
}

void round_rows(ggml_tensor* dst, int ith, int nth, void* call) {
  const ggml_tensor* from = dst->src[0];
  const auto quantize = as_call<RoundRowsParams>(call).params.quantize;
  const int64_t blocks = from->ne[0] / kIntegerBlock;
  const Interval rows = Interval::part(ggml_nrows(from), ith, nth);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    int64_t i[4];
    ggml_unravel_index(dst, row * dst->ne[0], nullptr, &i[1], &i[2], &i[3]);
    const char* at =
        static_cast<const char*>(from->data) + i[1] * from->nb[1] + i[2] * from->nb[2] + i[3] * from->nb[3];
    quantize(reinterpret_cast<const float*>(at), blocks, static_cast<RowBlock*>(dst->data) + row * blocks);
  }
}

void wide_product(ggml_tensor* dst, int ith, int nth, void* call) {
  const auto& c = as_call<MulMatParams>(call);
  try {
    const ggml_tensor* a = dst->src[0];
    const IntegerProduct* integers = integer_product_with(a);
    if (integers != nullptr) {
      IntegersProduct(dst, *integers).run(ith, nth);
    } else if (a->type == GGML_TYPE_F16) {
      HalfProduct(dst).run(ith, nth);
    } else {
      FloatProduct(dst).run(ith, nth);
    }
  } catch (const std::bad_alloc&) {  // of the thread's scratch memory; no exception may leave a thread of ggml's
    c.status->fail("%s: out of memory", c.node);
  }
}

}  // namespace executorch_ggml::kernels
