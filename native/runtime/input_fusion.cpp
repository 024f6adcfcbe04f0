// Copies and products of an image, fused into the convolution that alone reads them.

#include "kernels/convolution/conv_2d.h"
#include "kernels/convolution/convolution.h"
#include "node_builder.h"

namespace executorch_ggml {

bool NodeBuilder::may_change(const ggml_tensor* source) const {
  return states_.count(source) != 0 || states_.count(source->view_src) != 0;
}

// A dense copy of an image whose pixels are adjacent in each row of its channels.
void NodeBuilder::remember_planes(const fb::Node& node, ggml_tensor* source, const ggml_tensor* result) {
  if (!is_op(node, OpKind::Cont) || !on_cpu() || !uses_kernels() || source->type != GGML_TYPE_F32) return;
  const bool in_planes = source->nb[0] != sizeof(float) && source->nb[1] == sizeof(float);
  if (in_planes && !may_change(source)) planes_[result] = source;
}

// The planes that an image was copied from where this convolution alone reads the copy, and takes planes too; else the
// image.
ggml_tensor* NodeBuilder::planes_of(ggml_tensor* image, const kernels::ConvolutionParams& params) {
  const auto found = planes_.find(image);
  const bool fits = found != planes_.end() && kernels::reads_planes(image, params) &&
                    is_read_here_alone(node_->inputs()->Get(0), image);
  return fits ? found->second : image;
}

// The channels of each image multiplied with a factor each, as squeeze-and-excitation does.
void NodeBuilder::remember_scaled(const fb::Node& node, ggml_tensor* const* inputs, const ggml_tensor* result) {
  if (!is_op(node, OpKind::Mul) || !on_cpu() || !uses_kernels()) return;
  const Dims factors = {ne_[0], 1, 1, ne_[3]};
  const auto is_dense = [this](const ggml_tensor* tensor) {
    return tensor->type == GGML_TYPE_F32 && ggml_is_contiguous(tensor) && !may_change(tensor);
  };
  for (const int i : {0, 1}) {
    ggml_tensor* image = inputs[i];
    ggml_tensor* by = inputs[1 - i];
    const bool fits = dims_of(image) == ne_ && dims_of(by) == factors;
    if (fits && is_dense(image) && is_dense(by)) scaled_[result] = {image, by};
  }
}

// The operands of the product that a 1x1 convolution reads, where no other node reads it, and its kernel rounds the
// image in any case, or an image has enough pixels for scaled weights to be less work than a scaled image; else null.
const NodeBuilder::Scaled* NodeBuilder::scaled_input(const ggml_tensor* x, const ggml_tensor* weight,
                                                     const kernels::ConvolutionParams& params, bool rounds) {
  const auto found = scaled_.find(x);
  const auto is_plain = [](const Window& w) { return w.kernel == 1 && w.stride == 1 && w.pad == 0 && w.up == 1; };
  if (found == scaled_.end() || !is_plain(params.window.w) || !is_plain(params.window.h) || params.groups != 1) {
    return nullptr;
  }
  constexpr int64_t kLeastPixels = 2;  // for each output channel
  const bool in_blocks = (rounds || weight->type == GGML_TYPE_F32) && params.weights == Storage::KernelBlocks;
  const bool pays = rounds || x->ne[1] * x->ne[2] >= kLeastPixels * ne_[0];
  return in_blocks && pays && is_read_here_alone(node_->inputs()->Get(0), x) ? &found->second : nullptr;
}

// The convolution of the image itself, by a kernel that takes the factors too.
ggml_tensor* NodeBuilder::scaled_convolution(const Scaled& scaled, ggml_tensor* weight, ggml_tensor* bias,
                                             const kernels::ConvolutionParams& params, bool rounds) {
  ggml_tensor* sources[kMaxKernelInputs] = {};
  KernelCall<kernels::ConvolutionParams>* call = calls_->add(params);
  int count = describe_call(call, {scaled.image, weight, bias}, sources);
  call->params.scale = count;
  call->src[count] = DType::F32;
  sources[count++] = scaled.by;
  call->kernel = rounds ? kernels::conv_2d_bfloats : kernels::conv_2d;
  chained_work_ = ggml_nelements(scaled.image);
  ggml_tensor* result = node_of(call, GGML_TYPE_F32, ne_, sources, count);
  remember_layer(result, &call->params);
  return result;
}

}  // namespace executorch_ggml
