// The predicates that rows of the op table name; python/executorch_ggml/ir/checks.py has the same ones over IR values.
// Each says whether ggml (or a kernel) can take the call without aborting, with the sizes at hand.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>

#include "ggml.h"
#include "kernels/product/half_product.h"
#include "kernels/product/integer_product.h"
#include "kernels/simd/isa.h"
#include "ops_generated.h"
#include "resource_limits.h"
#include "results.h"

namespace executorch_ggml {

// How many elements; the largest number where that is beyond 64 bits.
inline int64_t element_count(const Dims& ne) {
  if (ne[0] == 0 || ne[1] == 0 || ne[2] == 0 || ne[3] == 0) return 0;
  return saturating_mul(saturating_mul(ne[0], ne[1]), saturating_mul(ne[2], ne[3]));
}

inline bool divides(int64_t a, int64_t b) { return a == 0 ? b == 0 : b % a == 0; }

inline bool same_type(const ggml_tensor* a, const ggml_tensor* b) { return a->type == b->type; }

inline bool stores(const ggml_tensor* state, const ggml_tensor* src, int64_t axis) {
  const bool rounds = ggml_is_quantized(state->type) || state->type == GGML_TYPE_F16;
  return state->type == src->type || (rounds && src->type == GGML_TYPE_F32 && axis > 0);
}

inline bool keeps_rows(const ggml_tensor* a, const Ints& axes) { return !ggml_is_quantized(a->type) || axes[0] == 0; }

inline bool whole_rows(const ggml_tensor* a, const Dims& start, const Ints& step, const Dims& ne) {
  return !ggml_is_quantized(a->type) || (start[0] == 0 && step[0] == 1 && ne[0] == a->ne[0]);
}

inline bool f32_or_same_type(const ggml_tensor* a, const ggml_tensor* b) {
  return a->type == GGML_TYPE_F32 || a->type == b->type;
}

inline bool same_dims(const ggml_tensor* a, const ggml_tensor* b) { return ggml_are_same_shape(a, b); }

inline bool same_count(const ggml_tensor* a, const Dims& ne) { return ggml_nelements(a) == element_count(ne); }

inline bool same_dims_but(const ggml_tensor* a, const ggml_tensor* b, int64_t dim) {
  bool same = dim >= 0 && dim < 4;
  for (int i = 0; i < 4; ++i) same = same && (i == dim || a->ne[i] == b->ne[i]);
  return same;
}

inline bool permutation(const Ints& axes) {
  unsigned seen = 0;
  for (int i = 0; i < axes.size; ++i) seen |= axes[i] >= 0 && axes[i] < 4 ? 1u << axes[i] : 0u;
  return axes.size == 4 && seen == 15u;
}

inline bool view_inside(const ggml_tensor* a, const Dims& start, const Ints& step, const Dims& ne) {
  if (step.size != 4) return false;
  for (int i = 0; i < 4; ++i) {
    if (step[i] < 1 || step[i] > INT32_MAX || start[i] < 0 || ne[i] < 0) return false;
    if (ne[i] > 0 && start[i] + step[i] * (ne[i] - 1) >= a->ne[i]) return false;
  }
  return true;
}

inline bool broadcasts_to(const ggml_tensor* a, const Dims& ne) {
  bool fits = true;
  for (int i = 0; i < 4; ++i) fits = fits && (a->ne[i] == 1 || a->ne[i] == ne[i]);
  return fits;
}

inline bool broadcasts_to(const ggml_tensor* a, const ggml_tensor* b) {
  return broadcasts_to(a, Dims{b->ne[0], b->ne[1], b->ne[2], b->ne[3]});
}

inline Dims dims_of(const ggml_tensor* a) { return {a->ne[0], a->ne[1], a->ne[2], a->ne[3]}; }

template <class... Tensors>
bool broadcast_together(const Tensors*... tensors) {
  const Dims ne = broadcast_dims({dims_of(tensors)...});
  return (broadcasts_to(tensors, ne) && ...);
}

inline bool not_negative(float value) { return value >= 0.0f; }

inline bool is_zero(float value) { return value == 0.0f; }

inline bool not_negative(const Dims& values) {
  return values[0] >= 0 && values[1] >= 0 && values[2] >= 0 && values[3] >= 0;
}

inline bool small(int64_t value) { return value >= 0 && value <= INT32_MAX; }

inline bool indexable(int64_t size) { return size > 0 && size <= INT32_MAX; }

inline bool is_table(const ggml_tensor* a, const ggml_tensor* rows) {
  return a->ne[2] == 1 && a->ne[3] == 1 && rows->ne[3] == 1;
}

inline bool is_axis(int64_t axis) { return axis >= 0 && axis < 4; }

inline bool takes_along(const ggml_tensor* a, const ggml_tensor* index, int64_t axis) {
  bool fits = is_axis(axis);
  for (int i = 0; i < 4; ++i) fits = fits && (i == axis || index->ne[i] == 1 || index->ne[i] == a->ne[i]);
  return fits;
}

inline bool scatters_into(const ggml_tensor* a, const ggml_tensor* index, const ggml_tensor* src, const Dims& ne,
                          int64_t axis) {
  bool fits = is_axis(axis);
  for (int i = 0; i < 4; ++i) fits = fits && ne[i] >= 0 && (i == axis || ne[i] == a->ne[i]);
  return fits && broadcasts_to(index, ne) && broadcasts_to(src, ne);
}

inline bool sorts(const ggml_tensor* a, int64_t count) {
  return count >= 0 && count <= a->ne[0] && a->ne[0] <= INT32_MAX;
}

inline bool masks_rows(const ggml_tensor* a, const ggml_tensor* mask) {
  return mask == nullptr || (mask->ne[0] == a->ne[0] && mask->ne[1] >= a->ne[1] && divides(mask->ne[2], a->ne[2]) &&
                             divides(mask->ne[3], a->ne[3]));
}

inline bool multiplies(const ggml_tensor* a, const ggml_tensor* b) {
  return a->ne[0] == b->ne[0] && divides(a->ne[2], b->ne[2]) && divides(a->ne[3], b->ne[3]);
}

// Rows from which on it costs less to pack a matrix and multiply floats than to multiply as ggml does, row by row for
// most types (tests/native/kernels_product_test --bench). What is streamed needs no packing: it pays from the first
// row.
inline int64_t rows_of_wide_product(ggml_type type) {
  const kernels::IntegerProduct* integers = kernels::integer_product(type);
  if (integers != nullptr) return integers->stream != nullptr ? 1 : 8;
  switch (type) {
    case GGML_TYPE_Q4_0:  // ggml has tiles for these
    case GGML_TYPE_Q5_0:
    case GGML_TYPE_Q8_0:
    case GGML_TYPE_IQ4_NL:
    case GGML_TYPE_TQ2_0:
      return INT64_MAX;
    case GGML_TYPE_F32:
      return 64;
    case GGML_TYPE_Q2_K:
      return 256;
    case GGML_TYPE_Q5_1:
    case GGML_TYPE_Q3_K:
    case GGML_TYPE_IQ2_XXS:
    case GGML_TYPE_IQ2_XS:
    case GGML_TYPE_IQ2_S:
      return 64;
    default:
      return ggml_is_quantized(type) ? 32 : INT64_MAX;
  }
}

// As above, of halves: few rows are streamed and many multiplied in tiles; between them ggml is faster.
inline bool is_wide_half_product(int64_t rows) {
  return kernels::active_isa() >= kernels::Isa::Avx512 &&
         (rows <= kernels::kHalfRows || rows >= 2 * kernels::kHalfRows);
}

// Not where ggml has packed the matrix: then it has tiles. For floats it has some too, but for rows that are adjacent.
inline bool is_wide_product(const ggml_tensor* a, const ggml_tensor* b) {
  if (a->extra != nullptr) return kernels::prepacked_product(a) != nullptr;
  if (b->type != GGML_TYPE_F32) return false;
  if (a->type == GGML_TYPE_F16) return is_wide_half_product(b->ne[1]);
  const int64_t least = a->type == GGML_TYPE_F32 && !ggml_is_contiguous(b) ? 4 : rows_of_wide_product(a->type);
  return b->ne[1] >= least;
}

inline bool multiplies_chosen(const ggml_tensor* a, const ggml_tensor* b, const ggml_tensor* ids) {
  const bool outer = a->ne[3] == 1 && b->ne[3] == 1 && ids->ne[2] == 1 && ids->ne[3] == 1;
  return outer && a->ne[0] == b->ne[0] && b->ne[2] == ids->ne[1] && (b->ne[1] == 1 || b->ne[1] == ids->ne[0]);
}

inline bool attends(const ggml_tensor* q, const ggml_tensor* k, const ggml_tensor* v, const ggml_tensor* mask) {
  const bool inner = q->ne[0] == k->ne[0] && k->ne[1] == v->ne[1] && k->ne[2] == v->ne[2] && k->type == v->type;
  const bool batch = divides(k->ne[2], q->ne[2]) && k->ne[3] == q->ne[3] && v->ne[3] == q->ne[3];
  const bool masked = mask == nullptr || (mask->ne[0] == k->ne[1] && mask->ne[1] >= q->ne[1] &&
                                          divides(mask->ne[2], q->ne[2]) && divides(mask->ne[3], q->ne[3]));
  // ggml's scratch memory grows with the head's size, and it counts query rows in an int.
  const bool sizes =
      q->ne[0] <= (1 << 16) && v->ne[0] <= (1 << 16) && element_count({q->ne[1], q->ne[2], q->ne[3], 1}) <= INT32_MAX;
  return inner && batch && masked && sizes;
}

inline bool slides(const Window& window) {
  constexpr int64_t kLimit = 1 << 24;
  for (int64_t n : {window.kernel, window.stride, window.dilation, window.up}) {
    if (n < 1 || n >= kLimit) return false;
  }
  return window.pad > -kLimit && window.pad < kLimit;
}

inline bool slides(const Window2d& window) { return slides(window.w) && slides(window.h); }

inline bool is_dense(const Window2d& window) { return window.w.up == 1 && window.h.up == 1; }

// Places that windows touch, inside the image or out of it, are few enough to be counted in 64 bits.
inline bool reaches(const ggml_tensor* x, const Dims& ne, const Window2d& window) {
  constexpr int64_t kLimit = int64_t{1} << 59;
  const auto reach = [](int64_t out, const Window& along) {
    return out * along.stride + along.kernel * along.dilation + std::abs(along.pad);
  };
  const int64_t rows = saturating_add(reach(ne[2], window.h), saturating_mul(x->ne[2], x->ne[3]));
  return saturating_mul(rows, x->ne[0] * x->ne[1]) < kLimit &&
         saturating_mul(reach(ne[1], window.w), x->ne[0]) < kLimit;
}

// What a convolution keeps for each of a window's taps fits in little memory.
inline bool few_taps(const Window2d& window) {
  const int64_t kernel_w = window.w.kernel;
  const int64_t kernel_h = window.h.kernel;
  return kernel_w >= 1 && kernel_h >= 1 && saturating_mul(kernel_w, kernel_h) <= (1 << 16);
}

inline bool convolves(const ggml_tensor* x, const ggml_tensor* weight, const ggml_tensor* bias, const Dims& ne,
                      const Window2d& window, int64_t groups) {
  constexpr int64_t kBlock = 16;  // output channels of a block of packed weights
  const int64_t ic = x->ne[0];
  const int64_t oc = ne[0];
  if (groups < 1 || groups > oc || ic % groups != 0 || oc % groups != 0) return false;
  if (!few_taps(window) || oc > (1 << 26)) return false;
  const int64_t blocks = groups * ((oc / groups + kBlock - 1) / kBlock);
  const int64_t packed = saturating_mul(blocks * kBlock * window.w.kernel, window.h.kernel * (ic / groups));
  return ggml_nelements(weight) == saturating_add(packed, ic / groups) &&
         (bias == nullptr || ggml_nelements(bias) == oc) && x->ne[3] == ne[3];
}

inline bool convolves_depthwise(const ggml_tensor* x, const ggml_tensor* weight, const ggml_tensor* bias,
                                const Dims& ne, const Window2d& window) {
  if (!few_taps(window)) return false;
  return x->ne[0] == ne[0] && x->ne[3] == ne[3] &&
         ggml_nelements(weight) == ne[0] * window.w.kernel * window.h.kernel &&
         (bias == nullptr || ggml_nelements(bias) == ne[0]);
}

inline bool pools(const ggml_tensor* x, const Dims& ne) { return x->ne[0] == ne[0] && x->ne[3] == ne[3]; }

// A kernel of 0 is adaptive: it has no gaps.
inline bool pool_slides(Window window) {
  if (window.kernel == 0 && window.dilation == 1) window.kernel = 1;
  return slides(window) && window.up == 1;
}

inline bool pool_slides(const Window2d& window) { return pool_slides(window.w) && pool_slides(window.h); }

inline bool pool_slides(const Window3d& window) {
  return pool_slides(window.w) && pool_slides(window.h) && pool_slides(window.d);
}

inline bool pools_volumes(const ggml_tensor* x, const Dims& ne, int64_t depth, int64_t out_depth) {
  if (depth < 1 || out_depth < 1 || x->ne[3] % depth != 0 || ne[3] % out_depth != 0) return false;
  return x->ne[0] == ne[0] && x->ne[3] / depth == ne[3] / out_depth;
}

inline bool samples(const ggml_tensor* x, const ggml_tensor* grid) {
  constexpr int64_t kCounts = 1 << 24;  // as far as f32 does
  return x->ne[1] <= kCounts && x->ne[2] <= kCounts && grid->ne[0] == 2 && grid->ne[3] == x->ne[3];
}

inline bool interpolates(const ggml_tensor* a, const Dims& ne) {
  // ggml finds places in f32, which counts no further than this.
  for (int64_t n : {a->ne[0], a->ne[1], ne[0], ne[1]}) {
    if (n < 1 || n > (1 << 20)) return false;
  }
  return a->ne[2] == ne[2] && a->ne[3] == ne[3];
}

inline bool is_float(const ggml_tensor* a) {
  return a->type == GGML_TYPE_F32 || a->type == GGML_TYPE_F16 || a->type == GGML_TYPE_BF16 || a->type == GGML_TYPE_F64;
}

inline bool is_wide_integer(const ggml_tensor* a) { return a->type == GGML_TYPE_I32 || a->type == GGML_TYPE_I64; }

inline bool unary_takes(UnaryKind kind, const ggml_tensor* a) {
  switch (kind) {
    case UnaryKind::Neg:
    case UnaryKind::Abs:
    case UnaryKind::Sign:
      return a->type == GGML_TYPE_F32 || is_wide_integer(a);
    case UnaryKind::BitwiseNot:
      return !is_float(a);
    case UnaryKind::LogicalNot:
      return true;
    default:
      return a->type == GGML_TYPE_F32;
  }
}

inline bool binary_takes(BinaryKind kind, const ggml_tensor* a) {
  if (compares(kind) || kind == BinaryKind::Maximum || kind == BinaryKind::Minimum) return true;
  if (kind >= BinaryKind::BitwiseAnd && kind <= BinaryKind::BitwiseXor) return !is_float(a);
  if (kind >= BinaryKind::ShiftLeft && kind <= BinaryKind::TruncDivide) return is_wide_integer(a);
  const bool float_only = kind == BinaryKind::Div || kind == BinaryKind::Atan2 || kind == BinaryKind::Hypot;
  return a->type == GGML_TYPE_F32 || (is_wide_integer(a) && !float_only);
}

inline bool reduces(ReduceKind kind, const ggml_tensor* a, const Ints& axes) {
  unsigned seen = 0;
  for (int i = 0; i < axes.size; ++i) {
    if (axes[i] < 0 || axes[i] > 3 || (seen & (1u << axes[i]))) return false;
    seen |= 1u << axes[i];
  }
  if (seen == 0) return false;
  if (kind == ReduceKind::Any || kind == ReduceKind::All) return true;
  const bool number = is_float(a) || is_wide_integer(a);
  if (kind == ReduceKind::Argmax || kind == ReduceKind::Argmin) return axes.size == 1 && number;
  return number && (kind != ReduceKind::Mean || is_float(a));
}

inline bool scatter_takes(ScatterKind kind, const ggml_tensor* a) {
  return kind == ScatterKind::Assign || a->type == GGML_TYPE_F32 || is_wide_integer(a);
}

inline bool scans(ScanKind kind, const ggml_tensor* a, int64_t axis) {
  return is_axis(axis) && (kind != ScanKind::Logsumexp || a->type == GGML_TYPE_F32);
}

inline bool plain_type(DType dtype) { return dtype <= DType::F64; }

inline bool number_type(DType dtype) { return dtype == DType::F32 || dtype == DType::I32 || dtype == DType::I64; }

inline bool turns(const ggml_tensor* x, const ggml_tensor* table) {
  return x->ne[0] % 2 == 0 && x->ne[0] == table->ne[0] && broadcasts_to(table, x);
}

}  // namespace executorch_ggml
