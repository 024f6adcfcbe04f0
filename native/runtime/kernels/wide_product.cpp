// Products of a quantized matrix with many rows of floats: the matrix is dequantized a few columns at a time, and each
// of these multiplied with all rows. For types that ggml multiplies row by row, from some rows on.

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

void widen(const ggml_tensor* a, int64_t row, float* to) {
  const char* from = static_cast<const char*>(a->data) + static_cast<size_t>(row) * a->nb[1];
  if (a->type == GGML_TYPE_Q6_K) return KERNEL_PICK(floats_from_q6_k)(from, a->ne[0], to);
  ggml_get_type_traits(a->type)->to_float(from, to, a->ne[0]);
}

class WideProduct {
 public:
  explicit WideProduct(ggml_tensor* dst) : dst_(dst), a_(dst->src[0]), b_(dst->src[1]), length_(a_->ne[0]) {
    const int64_t block_bytes = std::max<int64_t>(1, length_) * kPackedColumns * static_cast<int64_t>(sizeof(float));
    panel_ = std::max<int64_t>(1, kPanelBytes / block_bytes) * kPackedColumns;
  }

  void run(int ith, int nth) {
    const Interval blocks = Interval::part(ceil_div(dst_->ne[0], kPackedColumns), ith, nth);
    const int64_t end = std::min(blocks.end * kPackedColumns, dst_->ne[0]);
    for (int64_t begin = blocks.begin * kPackedColumns; begin < end; begin += panel_) {
      multiply_panel({begin, std::min(begin + panel_, end)});
    }
  }

 private:
  void multiply_panel(Interval columns) const {
    Scratch& scratch = thread_scratch();
    float* floats = scratch.floats.sized(kPackedColumns * length_);
    float* panel = scratch.panel.sized(panel_ * length_);
    for (int64_t first = columns.begin; first < columns.end; first += kPackedColumns) {
      const int64_t count = std::min(kPackedColumns, columns.end - first);
      for (int64_t i = 0; i < count; ++i) widen(a_, first + i, floats + i * length_);
      KERNEL_PICK(pack_columns)({floats, length_}, count, length_, panel + (first - columns.begin) * length_);
    }
    auto* made = static_cast<float*>(dst_->data) + columns.begin;
    const float* rows[kMaxTileRows];
    const int64_t most = most_packed_rows();
    for (int64_t row = 0; row < b_->ne[1]; row += most) {
      const int64_t count = std::min(most, b_->ne[1] - row);
      for (int64_t i = 0; i < count; ++i) {
        rows[i] = reinterpret_cast<const float*>(static_cast<const char*>(b_->data) + (row + i) * b_->nb[1]);
      }
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
