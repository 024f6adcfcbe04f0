// What rounds the operands of products in bf16: the layers that read them, the kernels that write them, or nodes of
// their own.

#include <algorithm>

#include "kernels/convolution/conv_2d.h"
#include "node_builder.h"
#include "run_kernel.h"

namespace executorch_ggml {
namespace {

bool is_round(const fb::Node& node) {
  const auto* unary = attributes<fb::Unary>(node, OpKind::Unary);
  return unary != nullptr && unary->kind() == fb::UnaryKind::RoundBf16;
}

}  // namespace

// What a layer's input was rounded from, where instructions that multiply bf16 compute the layer: its kernel rounds
// while it reads. Null where its operands are not of bf16, or the CPU has none.
ggml_tensor* NodeBuilder::unrounded_input(ggml_tensor* x, const ggml_tensor* weight,
                                          const kernels::ConvolutionParams& params) const {
  const bool in_blocks = params.weights == Storage::KernelBlocks || params.weights == Storage::MatrixBlocks;
  const auto found = rounded_.find(x);
  if (!on_cpu() || kernels::bfloat_conv_tiles() == nullptr || weight->type != GGML_TYPE_BF16 || !in_blocks ||
      found == rounded_.end()) {
    return nullptr;
  }
  ggml_tensor* source = found->second.source;
  const auto before = rounded_.find(source);  // a second rounding changes nothing
  if (before != rounded_.end()) source = before->second.source;
  if (!ggml_is_contiguous(source)) source = x;
  const int64_t inputs = params.weights == Storage::MatrixBlocks ? weight->ne[0] : weight->ne[2];
  const bool up = params.window.w.up > 1 || params.window.h.up > 1;
  constexpr int64_t kLeastOutputs = 16;  // that make up for copying the inputs of a window, to bring them in pairs
  const bool pays = params.weights == Storage::MatrixBlocks || weight->ne[3] >= kLeastOutputs;
  const bool in_pairs = inputs % 2 == 0 || (source->type == GGML_TYPE_F32 && params.groups == 1 && !up && pays);
  return in_pairs ? source : nullptr;
}

// A tensor rounded to bf16, by one node for all that read it; null where each rounds it itself: other devices know the
// program's nodes alone.
ggml_tensor* NodeBuilder::bfloats_of(ggml_tensor* source) {
  if (!on_cpu()) return nullptr;
  ggml_tensor*& bfloats = bfloats_[source];
  if (bfloats == nullptr) {
    auto* call = calls_->add(ConvertParams{});
    call->kernel = kernels::convert;
    call->work = ggml_nelements(source);
    call->status = status_;
    call->src[0] = source->type == GGML_TYPE_BF16 ? DType::Bf16 : DType::F32;
    call->dst = DType::Bf16;
    bfloats = ggml_custom_4d(ctx_, GGML_TYPE_BF16, source->ne[0], source->ne[1], source->ne[2], source->ne[3], &source,
                             1, run_kernel, GGML_N_TASKS_MAX, call);
    calls_->remember(bfloats, call);
  }
  return bfloats;
}

// Whether a node's result has numbers of bf16 alone: those that it rounds or widens, or moves.
void NodeBuilder::remember_bfloats(const fb::Node& node, const OpInfo& spec, ggml_tensor* source, ggml_tensor* result) {
  if (!is_built(DType::Bf16) || source == nullptr || rounded_.count(result) != 0) return;
  if (is_op(node, OpKind::Convert) && source->type == GGML_TYPE_F32 && result->type == GGML_TYPE_BF16) {
    if (on_cpu() && !may_change(source) && source->nb[0] == sizeof(float)) unrounded_[result] = source;
  }
  if (result->type != GGML_TYPE_F32) return;
  const bool widens = is_op(node, OpKind::Convert) && source->type == GGML_TYPE_BF16;
  if (is_round(node) || widens) {
    rounded_[result] = {source, node.inputs()->Get(0)};
  } else if (spec.moves != Moves::No && rounded_.count(source) != 0) {
    rounded_[result] = {result, node.output()};
  }
}

// Our kernel of attention rounds keys and values itself, to the type that its call says: no pass over them before.
void NodeBuilder::read_unrounded(const fb::Node& node, ggml_tensor* result) {
  if (!is_op(node, OpKind::Attention) || call_ == nullptr) return;
  for (const int i : {1, 2}) {
    const auto found = unrounded_.find(result->src[i]);
    if (found != unrounded_.end()) result->src[i] = found->second;
  }
}

// Remembers kernels that can round their output, on CPUs whose layers do not round their input. A reshape may come
// before the rounding.
void NodeBuilder::remember_producer(const fb::Node& node, const ggml_tensor* source, ggml_tensor* result) {
  if (!is_built(DType::Bf16) || !on_cpu() || kernels::bfloat_conv_tiles() != nullptr) return;
  if (is_op(node, OpKind::Reshape)) {
    const auto producer = producers_.find(source);
    if (producer != producers_.end() && is_read_once(node.inputs()->Get(0)))
      producers_[result] = Producer(producer->second);
    return;
  }
  const bool rounds = is_op(node, OpKind::Norm) || is_op(node, OpKind::RmsNorm) || is_op(node, OpKind::Attention) ||
                      is_op(node, OpKind::Linear);
  // The kernel moves to where its result is rounded: a state may have been written before that.
  const auto changes = [this](const ggml_tensor* of) { return of != nullptr && may_change(of); };
  KernelCallBase* call = calls_->of(result);
  if (!rounds || call == nullptr || std::any_of(result->src, result->src + kMaxKernelInputs, changes)) return;
  producers_[result] = {result, call};
}

// Fuses a rounding into the kernel that computes its input, where nothing else reads that; null for other nodes. The
// numbers are the same.
ggml_tensor* NodeBuilder::rounded_by_producer(const fb::Node& node, const ggml_tensor* x) {
  if (!on_cpu() || !uses_kernels()) return nullptr;
  const auto found = producers_.find(x);
  if (found == producers_.end() || !is_round(node) || !is_read_once(node.inputs()->Get(0))) return nullptr;
  const ggml_tensor* before = found->second.node;
  call_ = found->second.call;
  call_->rounds_result = true;
  ggml_tensor* result = replacement(before, dims_of(before), nullptr);
  if (dims_of(result) != ne_) result = ggml_reshape_4d(ctx_, result, ne_[0], ne_[1], ne_[2], ne_[3]);
  rounded_[result] = {result, node.output()};
  return result;
}

}  // namespace executorch_ggml
