// Calls of ggml that stand for one node of a program: several ops, or those that the device has.
#pragma once

#include "node_builder.h"

namespace executorch_ggml::compositions {

// Sums in f32, on devices that would use less.
ggml_tensor* mul_mat(NodeBuilder& self, ggml_tensor* a, ggml_tensor* b);

// ggml_flash_attn_ext, or where the device lacks it for these types and sizes, the products and the softmax it is of.
ggml_tensor* attention(NodeBuilder& self, ggml_tensor* q, ggml_tensor* k, ggml_tensor* v, ggml_tensor* mask,
                       float scale, float logit_softcap);

// Images and results are W, H, C, N. Of one group or one a channel; without ggml_conv_2d_direct a product with the
// columns of the image's windows.
ggml_tensor* conv_2d(NodeBuilder& self, ggml_tensor* x, ggml_tensor* weight, const Window2d& window, int64_t groups);
ggml_tensor* pool_2d(NodeBuilder& self, ggml_tensor* x, PoolKind kind, const Window2d& window);

// The state, with rows of `src` written to it.
ggml_tensor* set_rows(NodeBuilder& self, ggml_tensor* state, ggml_tensor* index, ggml_tensor* src);

}  // namespace executorch_ggml::compositions
