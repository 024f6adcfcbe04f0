// Products of matrices with many rows of floats: a matrix is packed, and dequantized before where it is quantized, a
// few columns at a time, and each of these multiplied with all rows. For types that ggml multiplies row by row.

#include <algorithm>
#include <new>

#include "dequantize.h"
#include "image.h"
#include "kernels.h"
#include "packed_product.h"

namespace executorch_ggml::kernels {
namespace {

constexpr int64_t kPanelBytes = 256 << 10;  // of dequantized columns, which stay in the second cache

struct Scratch {
  Buffer<float> floats, panel;
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

class WideProduct {
 public:
  explicit WideProduct(ggml_tensor* dst) : dst_(dst), a_(dst->src[0]), b_(dst->src[1]), length_(a_->ne[0]) {
    const int64_t block_bytes = std::max<int64_t>(1, length_) * kPackedColumns * static_cast<int64_t>(sizeof(float));
    panel_ = std::max<int64_t>(1, kPanelBytes / block_bytes) * kPackedColumns;
  }

  // Work is divided by blocks of columns of all matrices, and by rows as well where those are too few.
  void run(int ith, int nth) {
    const int64_t blocks = ceil_div(dst_->ne[0], kPackedColumns);
    const int64_t matrices = dst_->ne[2] * dst_->ne[3];
    if (blocks == 0 || matrices == 0) return;
    const int64_t parts = ceil_div(nth, blocks * matrices);
    const Interval units = Interval::part(matrices * parts * blocks, ith, nth);
    for (int64_t at = units.begin; at < units.end;) {
      const int64_t block = at % blocks;
      const int64_t count = std::min(blocks - block, units.end - at);
      const int64_t part = at / blocks % parts;
      const Interval rows = Interval::part(dst_->ne[1], static_cast<int>(part), static_cast<int>(parts));
      multiply_columns(at / blocks / parts, {block, block + count}, rows);
      at += count;
    }
  }

 private:
  void multiply_columns(int64_t matrix, Interval blocks, Interval rows) const {
    const int64_t i2 = matrix % dst_->ne[2];
    const int64_t i3 = matrix / dst_->ne[2];
    const char* a = matrix_of(a_, dst_, i2, i3);
    const char* b = matrix_of(b_, dst_, i2, i3);
    char* made = static_cast<char*>(dst_->data) + i2 * dst_->nb[2] + i3 * dst_->nb[3];
    float* panel = thread_scratch().panel.sized(panel_ * length_);
    const int64_t end = std::min(blocks.end * kPackedColumns, dst_->ne[0]);
    for (int64_t begin = blocks.begin * kPackedColumns; begin < end; begin += panel_) {
      const Interval columns = {begin, std::min(begin + panel_, end)};
      pack(a, columns, panel);
      multiply_rows(b, rows, panel, columns, reinterpret_cast<float*>(made) + begin);
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

}  // namespace

void wide_product(ggml_tensor* dst, int ith, int nth, void* call) {
  const auto& c = as_call<MulMatParams>(call);
  try {
    WideProduct(dst).run(ith, nth);
  } catch (const std::bad_alloc&) {  // of the thread's scratch memory; no exception may leave a thread of ggml's
    c.status->fail("%s: out of memory", c.node);
  }
}

}  // namespace executorch_ggml::kernels
