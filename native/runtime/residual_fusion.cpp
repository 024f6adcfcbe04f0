// Residual adds in the epilogue of the layer before them.

#include <algorithm>
#include <cmath>

#include "node_builder.h"

namespace executorch_ggml {
namespace {

int sources_of(const ggml_tensor* node) {
  return static_cast<int>(std::find(node->src, node->src + kMaxKernelInputs, nullptr) - node->src);
}

}  // namespace

void NodeBuilder::remember_layer(ggml_tensor* result, kernels::ConvolutionParams* params) {
  const auto changes = [this](const ggml_tensor* source) { return source != nullptr && may_change(source); };
  // A layer moves to where its result is added to something: a state may have been written before that.
  if (!kernels::kHasSums || !on_cpu() || std::any_of(result->src, result->src + kMaxKernelInputs, changes)) return;
  layer_calls_[result] = {result, call_, params, is_op(*node_, OpKind::Linear)};
}

void NodeBuilder::finish_nodes() {
  layer_calls_.clear();
  convolutions_.clear();
  producers_.clear();
}

// A linear layer's result is a matrix: its rows may get back the dims of a batch before they are added to something.
void NodeBuilder::remember_reshaped_layer(const fb::Node& node, const ggml_tensor* source, const ggml_tensor* result) {
  if (!is_op(node, OpKind::Reshape)) return;
  const auto layer = layer_calls_.find(source);
  if (layer == layer_calls_.end() || !layer->second.is_linear || source->ne[0] != result->ne[0]) return;
  if (is_read_once(node.inputs()->Get(0))) layer_calls_[result] = LayerCall(layer->second);
}

// Fuses a residual add, or a ReLU or clamp after it, into the epilogue of the layer before, where nothing else reads
// the layer's output; null for other nodes. The numbers are the same.
ggml_tensor* NodeBuilder::in_layer_before(const fb::Node& node, ggml_tensor* const* inputs) {
  if (!kernels::kHasSums || !on_cpu() || !uses_kernels()) return nullptr;
  const auto is_layer = [&](flatbuffers::uoffset_t i) {
    return layer_calls_.count(inputs[i]) != 0 && is_read_once(node.inputs()->Get(i));
  };
  if (is_op(node, OpKind::Add)) {
    for (flatbuffers::uoffset_t i = 0; i < 2; ++i) {
      ggml_tensor* sum = is_layer(i) ? sum_in_layer(inputs[i], inputs[1 - i]) : nullptr;
      if (sum != nullptr) return sum;
    }
    return nullptr;
  }
  if (is_op(node, OpKind::Relu) && is_layer(0)) return bounds_in_layer(inputs[0], 0.0f, INFINITY);
  const auto* clamp = attributes<fb::Clamp>(node, OpKind::Clamp);
  return clamp != nullptr && is_layer(0) ? bounds_in_layer(inputs[0], clamp->min(), clamp->max()) : nullptr;
}

ggml_tensor* NodeBuilder::sum_in_layer(ggml_tensor* layer, ggml_tensor* addend) {
  const LayerCall& before = layer_calls_[layer];
  const bool fits = dims_of(layer) == ne_ && dims_of(addend) == ne_ && addend->type == GGML_TYPE_F32 &&
                    ggml_is_contiguous(addend) && addend != layer;
  const bool is_last = before.params->addend == 0 && before.params->epilogue.activation == Activation::None;
  return fits && is_last ? fused(layer, addend) : nullptr;
}

ggml_tensor* NodeBuilder::bounds_in_layer(ggml_tensor* layer, float low, float high) {
  const LayerCall& before = layer_calls_[layer];
  const bool follows_sum = before.params->addend != 0 && before.params->epilogue.activation == Activation::None;
  if (!follows_sum || dims_of(layer) != ne_ || std::isnan(low) || std::isnan(high)) return nullptr;
  before.params->epilogue = {Activation::Clamp, low, high};
  return fused(layer, nullptr);
}

// The fused layer's node, which replaces the layer's; with the addend as a source, or null.
ggml_tensor* NodeBuilder::fused(const ggml_tensor* result, ggml_tensor* addend) {
  LayerCall layer = layer_calls_[result];
  call_ = layer.call;
  if (addend != nullptr) {
    layer.params->addend = sources_of(layer.node);
    call_->src[layer.params->addend] = DType::F32;
  }
  layer.node = replacement(layer.node, ne_, addend);
  layer_calls_[layer.node] = layer;
  return layer.node;
}

// A node that replaces an earlier one, whose call_ now computes the node being built too: with the same sources, and
// another one or null.
ggml_tensor* NodeBuilder::replacement(const ggml_tensor* node, const Dims& ne, ggml_tensor* added) {
  ggml_tensor* sources[kMaxKernelInputs] = {};
  int count = sources_of(node);
  std::copy_n(node->src, count, sources);
  if (added != nullptr) sources[count++] = added;
  call_->node = node_->name() ? node_->name()->c_str() : "";
  chained_work_ = call_->work;
  return node_of(call_, node->type, ne, sources, count);
}

}  // namespace executorch_ggml
