#include "compositions.h"

#include "status.h"

namespace executorch_ggml::compositions {
namespace {

// The memory that ggml's CPU kernel for convolutions has for the windows of a pixel and its results; it aborts where
// they take more.
constexpr int64_t kConvolutionMemory = int64_t{16} << 20;

// ggml takes some sizes as int; the checks before have bounded them.
int narrow(int64_t value) { return static_cast<int>(value); }

// A row of attention's mask for each query, as ggml reads it; null where that is too large.
ggml_tensor* mask_of_queries(NodeBuilder& self, ggml_tensor* mask, int64_t queries) {
  if (mask->ne[1] >= queries) return mask;
  ggml_context* ctx = self.context();
  if (!self.fits({mask->ne[0], queries, mask->ne[2], mask->ne[3]}, "the mask of attention")) return nullptr;
  ggml_tensor* row = ggml_cast(ctx, mask, GGML_TYPE_F32);  // few devices repeat f16
  return ggml_cast(ctx, ggml_repeat_4d(ctx, row, row->ne[0], queries, row->ne[2], row->ne[3]), GGML_TYPE_F16);
}

// Attention as products: scores, their softmax, and the sum of the values that it weights.
ggml_tensor* attention_products(NodeBuilder& self, ggml_tensor* q, ggml_tensor* k, ggml_tensor* v, ggml_tensor* mask,
                                float scale, float logit_softcap) {
  ggml_context* ctx = self.context();
  if (!self.fits({k->ne[1], q->ne[1], q->ne[2], q->ne[3]}, "the scores of attention")) return nullptr;
  ggml_tensor* scores = mul_mat(self, k, q);
  if (logit_softcap != 0.0f) {
    scores = ggml_tanh(ctx, ggml_scale(ctx, scores, scale / logit_softcap));
    scores = ggml_scale(ctx, scores, logit_softcap);
    scale = 1.0f;
  }
  ggml_tensor* weights = ggml_soft_max_ext(ctx, scores, mask, scale, /*max_bias=*/0.0f);
  if (ggml_is_quantized(v->type)) v = ggml_cast(ctx, v, GGML_TYPE_F32);
  ggml_tensor* columns = ggml_cont(ctx, self.permute(v, Ints{{1, 0, 2, 3}, 4}));
  ggml_tensor* made = mul_mat(self, columns, weights);
  return ggml_cont(ctx, self.permute(made, Ints{{0, 2, 1, 3}, 4}));
}

// A convolution as the product of the weight with the columns of x's windows, both in f32 where ggml_conv_2d has f16.
ggml_tensor* conv_2d_columns(NodeBuilder& self, ggml_tensor* x, ggml_tensor* weight, const Window2d& window) {
  ggml_context* ctx = self.context();
  const int64_t taps = weight->ne[0] * weight->ne[1] * weight->ne[2];
  const Dims ne = self.result().ne;
  if (!self.fits({taps, ne[0], ne[1], ne[3]}, "the columns of a convolution's windows")) return nullptr;
  ggml_tensor* columns =
      ggml_im2col(ctx, weight, x, narrow(window.w.stride), narrow(window.h.stride), narrow(window.w.pad),
                  narrow(window.h.pad), narrow(window.w.dilation), narrow(window.h.dilation), true, GGML_TYPE_F32);
  ggml_tensor* rows = ggml_reshape_2d(ctx, columns, taps, ne[0] * ne[1] * ne[3]);
  ggml_tensor* pixels = mul_mat(self, ggml_reshape_2d(ctx, weight, taps, ne[2]), rows);
  pixels = ggml_reshape_4d(ctx, pixels, ne[2], ne[0], ne[1], ne[3]);
  return ggml_cont(ctx, self.permute(pixels, Ints{{2, 0, 1, 3}, 4}));
}

}  // namespace

ggml_tensor* mul_mat(NodeBuilder& self, ggml_tensor* a, ggml_tensor* b) {
  ggml_tensor* made = ggml_mul_mat(self.context(), a, b);
  if (!self.on_cpu()) ggml_mul_mat_set_prec(made, GGML_PREC_F32);
  return made;
}

ggml_tensor* attention(NodeBuilder& self, ggml_tensor* q, ggml_tensor* k, ggml_tensor* v, ggml_tensor* mask,
                       float scale, float logit_softcap) {
  if (mask != nullptr) {
    mask = mask_of_queries(self, mask, q->ne[1]);
    if (mask == nullptr) return nullptr;
  }
  ggml_tensor* made = ggml_flash_attn_ext(self.context(), q, k, v, mask, scale, /*max_bias=*/0.0f, logit_softcap);
  ggml_flash_attn_ext_set_prec(made, GGML_PREC_F32);
  return self.runs(made) ? made : attention_products(self, q, k, v, mask, scale, logit_softcap);
}

ggml_tensor* conv_2d(NodeBuilder& self, ggml_tensor* x, ggml_tensor* weight, const Window2d& window, int64_t groups) {
  const auto call = [&](auto* builder) {
    return builder(self.context(), weight, x, narrow(window.w.stride), narrow(window.h.stride), narrow(window.w.pad),
                   narrow(window.h.pad), narrow(window.w.dilation), narrow(window.h.dilation));
  };
  if (weight->ne[2] == 1 && groups == x->ne[2] && groups == weight->ne[3]) return call(ggml_conv_2d_dw_direct);
  const int64_t taps = weight->ne[0] * weight->ne[1] * weight->ne[2];
  const int64_t pixel = taps * static_cast<int64_t>(ggml_type_size(weight->type)) + weight->ne[3] * 4;
  if (self.on_cpu() && pixel > kConvolutionMemory) return conv_2d_columns(self, x, weight, window);
  ggml_tensor* direct = call(ggml_conv_2d_direct);
  return self.runs(direct) ? direct : conv_2d_columns(self, x, weight, window);
}

ggml_tensor* pool_2d(NodeBuilder& self, ggml_tensor* x, PoolKind kind, const Window2d& window) {
  const ggml_op_pool op = kind == PoolKind::Max ? GGML_OP_POOL_MAX : GGML_OP_POOL_AVG;
  return ggml_pool_2d(self.context(), x, op, narrow(window.w.kernel), narrow(window.h.kernel), narrow(window.w.stride),
                      narrow(window.h.stride), static_cast<float>(window.w.pad), static_cast<float>(window.h.pad));
}

ggml_tensor* set_rows(NodeBuilder& self, ggml_tensor* state, ggml_tensor* index, ggml_tensor* src) {
  ggml_tensor* made = ggml_set_rows(self.context(), state, src, index);
  if (self.runs(made)) return made;
  return self.refuse(format("no device here writes rows of %s", ggml_type_name(state->type)));
}

}  // namespace executorch_ggml::compositions
