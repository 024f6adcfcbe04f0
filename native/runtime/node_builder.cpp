#include "node_builder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

#include "compositions.h"
#include "ggml_pieces.h"
#include "kernel_choice.h"
#include "kernels/convolution/chain.h"
#include "kernels/convolution/winograd.h"
#include "kernels/quantized/layer.h"
#include "kernels/quantized/winograd.h"
#include "payload.h"
#include "rpc.h"
#include "run_kernel.h"
#include "status.h"

namespace executorch_ggml {
namespace {

// ggml takes some sizes as int; the checks before have bounded them.
int narrow(int64_t value) { return static_cast<int>(value); }

// A dim of size 1 may come with any stride. ggml looks at strides even so, and aborts where the first is not that of a
// dense tensor.
void tidy_strides(ggml_tensor* view) {
  if (view->ne[0] == 1) view->nb[0] = ggml_type_size(view->type);
  for (int i = 1; i < 4; ++i) {
    if (view->ne[i] == 1) view->nb[i] = view->nb[i - 1] * static_cast<size_t>(view->ne[i - 1]);
  }
}

// The elements of a node's result, or of the largest of its inputs.
int64_t elements_touched(const ggml_tensor* const* inputs, int count, const ggml_tensor* made) {
  int64_t touched = ggml_nelements(made);
  for (int i = 0; i < count; ++i) {
    if (inputs[i] != nullptr) touched = std::max(touched, ggml_nelements(inputs[i]));
  }
  return touched;
}

[[maybe_unused]] uint32_t scale_mode(ScaleMode mode) {
  switch (mode) {
    case ScaleMode::Nearest:
      return GGML_SCALE_MODE_NEAREST;
    case ScaleMode::Bilinear:
      return GGML_SCALE_MODE_BILINEAR;
    default:
      return GGML_SCALE_MODE_BILINEAR | GGML_SCALE_FLAG_ALIGN_CORNERS;
  }
}

// Reads attributes before anything is built, which leaves errors to the build.
struct Lenient {
  static bool missing(const char*) { return false; }
  template <class Enum, class FbEnum>
  static bool choice(FbEnum from, int, const char*, Enum* value) {
    *value = static_cast<Enum>(from);
    return true;
  }
};

// An input as its program declares it, a symbolic dim being negative.
[[maybe_unused]] Operand stored_operand(const fb::Graph& graph, const fb::Node& node, uint32_t input) {
  const int value = node.inputs() != nullptr && input < node.inputs()->size() ? node.inputs()->Get(input) : -1;
  if (value < 0 || graph.values() == nullptr || static_cast<uint32_t>(value) >= graph.values()->size()) return {};
  const fb::Value& of = *graph.values()->Get(static_cast<uint32_t>(value));
  return {static_cast<DType>(of.dtype()), {of.ne().n0(), of.ne().n1(), of.ne().n2(), of.ne().n3()}, nullptr};
}

// "op add" of the ops' names by their numbers; "" for an op of another version.
[[maybe_unused]] std::string op_name(const char* names, int number) {
  if (number > kOpKindMax) return {};
  while (number-- > 0) names += std::strlen(names) + 1;
  return *names != '\0' ? std::string("op ") + names : std::string();
}

}  // namespace

#include "build_generated.inc"

ggml_type storage_type(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  return static_cast<ggml_type>(index < std::size(kGgmlTypes) ? kGgmlTypes[index] : GGML_TYPE_I8);
}

const char* dtype_name(DType dtype) {
  static const char* const kNames[] = {"float32", "float16", "bfloat16", "int8",  "int16",
                                       "int32",   "int64",   "bool",     "uint8", "float64"};
  const auto index = static_cast<size_t>(dtype);
  if (index < std::size(kNames)) return kNames[index];
  return index < std::size(kGgmlTypes) ? ggml_type_name(storage_type(dtype)) : "an unknown element type";
}

std::string describe_sizes(const std::vector<int64_t>& sizes) {
  std::string text = "[";
  for (size_t i = 0; i < sizes.size(); ++i) text += (i ? ", " : "") + std::to_string(sizes[i]);
  return text + "]";
}

std::string describe(const Dims& ne) { return describe_sizes({ne.begin(), ne.end()}); }

std::string describe(const ggml_tensor* tensor) {
  if (tensor == nullptr) return "nothing";
  return ggml_type_name(tensor->type) + describe(dims_of(tensor));
}

std::string describe(const Operand& operand) {
  return operand.tensor == nullptr ? "absent" : dtype_name(operand.dtype) + describe(operand.ne);
}

std::string Attr::value() const {
  if (!words_.empty()) return words_;
  if (count_ == 0) return format("%g", static_cast<double>(real_));
  if (count_ == 1) return std::to_string(at_[0]);
  return describe_sizes({at_, at_ + count_});
}

namespace {

// "float32 or float16" of a bit per type.
std::string dtype_names(uint64_t dtypes) {
  std::string names;
  for (int i = 0; i <= kDTypeMax; ++i) {
    if ((dtypes >> i & 1u) == 0) continue;
    names += (names.empty() ? "" : " or ") + std::string(dtype_name(static_cast<DType>(i)));
  }
  return names;
}

}  // namespace

bool NodeBuilder::fail(std::string message) {
  if (error_.empty()) error_ = std::move(message);
  return false;
}

Status NodeBuilder::error(const fb::Node& node, const std::string& message) const {
  const OpInfo spec = op_info(node.op_type());
  return Status::error(
      format("node %s (%s): %s", node.name() ? node.name()->c_str() : "", spec.op ? spec.op : "?", message.c_str()));
}

ggml_tensor* NodeBuilder::unmet(const char* expected, std::initializer_list<Attr> given) {
  std::string message;
  for (const Attr& attr : given) message += (message.empty() ? "" : ", ") + attr.name_is_value();
  const bool has_symbols = graph_.symbols() != nullptr && graph_.symbols()->size() != 0;
  const char* remedy = has_symbols ? "give inputs of sizes that the model takes, or export it again with this version"
                                   : "export the model again with this version";
  fail(message + "; " + expected + "; " + remedy + " of executorch-ggml");
  return nullptr;
}

ggml_tensor* NodeBuilder::refuse(std::string message) {
  fail(std::move(message));
  return nullptr;
}

ggml_tensor* NodeBuilder::left_by_target() {
  return refuse("nothing computes this call, which the program's target should have replaced; export the model again");
}

bool NodeBuilder::runs(const ggml_tensor* node) const {
  if (device_ == nullptr) return ggml_backend_dev_supports_op(cpu_device(), node);
  const DeviceCall call(device_);
  return ggml_backend_supports_op(device_, node);
}

bool NodeBuilder::fits(const Dims& ne, const char* what) {
  const int64_t bytes = saturating_mul(count(ne), sizeof(float));
  if (bytes != INT64_MAX && static_cast<size_t>(bytes) <= memory_limit_) return true;
  return fail(format("%s need %lld bytes, more than the %zu that a program may use", what,
                     static_cast<long long>(bytes), memory_limit_));
}

bool NodeBuilder::dim(int64_t sdim, const char* attr, int64_t* value) {
  const Status status = shapes_.eval(sdim, value);
  return status.ok() || fail(format("attribute %s: %s", attr, status.message().c_str()));
}

bool NodeBuilder::dims(const fb::Ne* ne, const char* attr, Dims* value) {
  if (ne == nullptr) return fail(format("attribute %s is missing", attr));
  const Status status = shapes_.sizes(*ne, value);
  return status.ok() || fail(format("attribute %s: %s", attr, status.message().c_str()));
}

bool NodeBuilder::ints(const flatbuffers::Vector<int64_t>* from, const char* attr, Ints* value) {
  if (from == nullptr || from->size() > 4 || !is_aligned(from)) {
    return fail(format("attribute %s: expected up to four integers, got %s", attr,
                       from == nullptr ? "nothing" : format("%u, or damaged ones", from->size()).c_str()));
  }
  value->size = static_cast<int>(from->size());
  for (int i = 0; i < value->size; ++i) value->at[i] = from->Get(i);
  return true;
}

bool NodeBuilder::is_below(const Operand& index, int64_t size) const {
  const auto found = bounds_.find(index.tensor);
  return found != bounds_.end() && found->second <= size;
}

// Values stay checked through what only moves them.
void NodeBuilder::remember_bound(const OpInfo& spec, const ggml_tensor* source, const ggml_tensor* made) {
  if (bound_ >= 0) bounds_[made] = bound_;
  if (spec.moves == Moves::No) return;
  const auto found = bounds_.find(source);
  if (found == bounds_.end()) return;
  const int64_t bound = found->second;
  bounds_[made] = bound;
}

ggml_tensor* NodeBuilder::permute(ggml_tensor* a, const Ints& axes) {
  ggml_tensor* made = ggml_permute(ctx_, a, narrow(axes[0]), narrow(axes[1]), narrow(axes[2]), narrow(axes[3]));
  for (int i = 0; i < 4; ++i) made->nb[axes[i]] = a->nb[i];  // ggml keeps them in an int, too short from 2 GiB on
  tidy_strides(made);
  return made;
}

ggml_tensor* NodeBuilder::view(ggml_tensor* a, const Dims& start, const Ints& step, const Dims& ne) {
  size_t offset = 0;
  for (int i = 0; i < 4; ++i) offset += static_cast<size_t>(start[i]) * a->nb[i];
  ggml_tensor* made = ggml_view_4d(ctx_, a, ne[0], ne[1], ne[2], ne[3], 0, 0, 0, offset);
  for (int i = 0; i < 4; ++i) made->nb[i] = a->nb[i] * static_cast<size_t>(step[i]);
  tidy_strides(made);
  return made;
}

Operand NodeBuilder::operand(int input) const {
  const int value = node_->inputs()->Get(static_cast<flatbuffers::uoffset_t>(input));
  if (value < 0) return {};
  return {dtype_of(value), dims_of(values_[value]), values_[value]};
}

bool NodeBuilder::gives(const Operand& result) {
  const DType declared = dtype_of(node_->output());
  if (result.dtype == declared && result.ne == ne_) return true;
  return fail(format("gives %s%s, but %s%s was declared", dtype_name(result.dtype), describe(result.ne).c_str(),
                     dtype_name(declared), describe(ne_).c_str()));
}

// Fills in what a call of the node being built says of its operands; gives the number of sources.
int NodeBuilder::describe_call(KernelCallBase* call, std::initializer_list<ggml_tensor*> inputs,
                               ggml_tensor** sources) {
  call_ = call;
  call->node = node_->name() ? node_->name()->c_str() : "";
  call->status = status_;
  call->dst = dtype_of(node_->output());
  // ggml wants its sources without gaps; an optional one that is absent is always the last.
  int count = 0;
  for (ggml_tensor* input : inputs) {
    if (input == nullptr) continue;
    call->src[count] = dtype_of(node_->inputs()->Get(count));
    sources[count++] = input;
  }
  return count;
}

ggml_tensor* NodeBuilder::custom_node(Kernel kernel, KernelCallBase* call, std::initializer_list<ggml_tensor*> inputs) {
  ggml_tensor* sources[kMaxKernelInputs] = {};
  const int count = describe_call(call, inputs, sources);
  call->kernel = kernel;
  return node_of(call, storage_type(call->dst), ne_, sources, count);
}

ggml_tensor* NodeBuilder::node_of(KernelCallBase* call, ggml_type type, const Dims& ne, ggml_tensor** sources,
                                  int count) {
  return called(
      ggml_custom_4d(ctx_, type, ne[0], ne[1], ne[2], ne[3], sources, count, run_kernel, GGML_N_TASKS_MAX, call), call);
}

// Without ggml's walk over a graph a node's call must be known.
ggml_tensor* NodeBuilder::called(ggml_tensor* node, KernelCallBase* call) {
  calls_->remember(node, call);
  return node;
}

// int8 GEMM may have its rows quantized by a node before it, and GEMM of bf16 rounded.
ggml_tensor* NodeBuilder::custom(Kernel kernel, const MulMatParams& params,
                                 std::initializer_list<ggml_tensor*> inputs) {
  ggml_tensor* sources[kMaxKernelInputs] = {};
  KernelCall<MulMatParams>* call = calls_->add(params);
  int count = describe_call(call, inputs, sources);
  ggml_tensor* rows =
      sources[0]->type == GGML_TYPE_BF16 ? bfloats_of(sources[1]) : quantized_rows(sources[0], sources[1]);
  if (rows != nullptr) sources[count++] = rows;
  call->kernel = kernel;
  return node_of(call, GGML_TYPE_F32, ne_, sources, count);
}

// The rows of b quantized for int8 GEMM with a, by one node for all such products; null where each quantizes them
// itself: for few rows another node costs more, and other devices know the program's nodes alone.
ggml_tensor* NodeBuilder::quantized_rows(const ggml_tensor* a, ggml_tensor* b) {
  const kernels::IntegerProduct* product = on_cpu() ? kernels::integer_product_of(a) : nullptr;
  if (product == nullptr || ggml_nrows(b) <= kernels::kStreamRows) return nullptr;
  ggml_tensor*& quantized = quantized_[{b, product->quantize}];
  if (quantized == nullptr) {
    const int64_t bytes = b->ne[0] / kernels::kIntegerBlock * static_cast<int64_t>(sizeof(kernels::RowBlock));
    auto* call = calls_->add(kernels::QuantizeRowsParams{product->quantize});
    call->kernel = kernels::quantize_rows;
    call->work = ggml_nelements(b);
    call->status = status_;
    quantized = ggml_custom_4d(ctx_, GGML_TYPE_I8, bytes, b->ne[1], b->ne[2], b->ne[3], &b, 1, run_kernel,
                               GGML_N_TASKS_MAX, call);
    calls_->remember(quantized, call);
  }
  return quantized;
}

// What ggml computes, as a custom node whose pieces it computes; the node itself where it is not to be divided.
ggml_tensor* NodeBuilder::in_pieces(ggml_tensor* node) {
  const Cut cut = cut_of(node);
  if (cut.dim < 0) return node;
  KernelCall<GgmlParams>* call = calls_->add(GgmlParams{node, cut});
  ggml_tensor* sources[kMostCutSources] = {};
  int count = 0;
  while (count < kMostCutSources && node->src[count] != nullptr) {
    sources[count] = node->src[count];
    ++count;
  }
  call->kernel = compute_by_ggml;
  call->node = node_->name() ? node_->name()->c_str() : "";
  call->status = status_;
  call_ = call;
  return ggml_custom_4d(ctx_, node->type, node->ne[0], node->ne[1], node->ne[2], node->ne[3], sources, count,
                        run_kernel, GGML_N_TASKS_MAX, call);
}

// On the CPU the rows are written where the state lies; custom nodes cannot write to another device's memory.
ggml_tensor* NodeBuilder::update_state(ggml_tensor* state, ggml_tensor* index, ggml_tensor* src, const Dims& ne,
                                       int64_t axis, bool wrap) {
  const ScatterParams params{ne, axis, ScatterKind::Assign, /*include_self=*/true, wrap};
  if (!use_kernels_ && ggml_is_quantized(state->type)) return refuse("a quantized state can be kept on the CPU alone");
  if (!use_kernels_) {
    if (src->type != state->type) src = ggml_cast(ctx_, src, state->type);
    return ggml_cpy(ctx_, custom(kernels::scatter, params, {state, index, src}), state);
  }
  ggml_tensor* sources[kMaxKernelInputs] = {};
  KernelCall<ScatterParams>* call = calls_->add(params);
  const int count = describe_call(call, {state, index, src}, sources);
  call->kernel = kernels::scatter;
  return called(ggml_custom_inplace(ctx_, state, sources + 1, count - 1, run_kernel, GGML_N_TASKS_MAX, call), call);
}

StorageLayout NodeBuilder::storage_of(const ggml_tensor* tensor) const {
  const auto found = storage_.find(tensor);
  return found == storage_.end() ? StorageLayout() : found->second;
}

// How a layer's weight lies, which becomes its packed form where there is one in the layout that the kernel wants.
StorageLayout NodeBuilder::use_layer(const StorageLayout& wanted, ggml_tensor** weight) const {
  const auto is_packed = [&](const Layer& layer) { return layer.weight == *weight && layer.layout == wanted; };
  const auto found = std::find_if(layers_.begin(), layers_.end(), is_packed);
  if (found == layers_.end()) return storage_of(*weight);
  *weight = found->packed;
  return wanted;
}

// The weight of a convolution, and how it lies. In the blocks of other groups, or of another op, it is no weight of it.
bool NodeBuilder::use_kernel_weight(bool by_channel, int64_t groups, ggml_tensor** weight, Storage* kind) {
  const StorageLayout stored = use_layer({by_channel ? Storage::Depthwise : Storage::KernelBlocks, groups}, weight);
  *kind = stored.kind;
  const bool fits = stored.kind == Storage::Plain ||
                    (stored.groups == groups &&
                     (stored.kind == Storage::KernelBlocks || (stored.kind == Storage::Depthwise && by_channel)));
  return fits || fail(format("weight is stored for another layer (layout #%d, %lld groups); export the model again",
                             static_cast<int>(stored.kind), static_cast<long long>(stored.groups)));
}

bool NodeBuilder::use_matrix(ggml_tensor** weight, Storage* kind) {
  *kind = use_layer({Storage::MatrixBlocks, 1}, weight).kind;
  return *kind == Storage::Plain || *kind == Storage::MatrixBlocks ||
         fail(format("weight is stored for another layer (layout #%d); export the model again",
                     static_cast<int>(*kind)));
}

namespace {

template <class Params>
Params& params_of_call(KernelCallBase* call) {
  return static_cast<KernelCall<Params>*>(call)->params;
}

}  // namespace

ggml_tensor* NodeBuilder::conv_2d_nhwc(ggml_tensor* x, ggml_tensor* weight, ggml_tensor* bias, const Window2d& window,
                                       int64_t groups, const Epilogue& epilogue) {
  const bool by_channel = is_by_channel(x, window, groups);
  Storage kind{};
  if (!use_kernel_weight(by_channel, groups, &weight, &kind)) return nullptr;
  const kernels::ConvolutionParams params{window, groups, epilogue, kind};
  ggml_tensor* unrounded = is_built(DType::Bf16) ? unrounded_input(x, weight, params) : nullptr;
  // Tile registers multiply bf16 sixteen times as fast as floats, of which Winograd's algorithm multiplies a quarter.
  const bool by_tiles = unrounded != nullptr && kernels::bfloat_conv_tiles()->setup != nullptr;
  const float* transformed = by_tiles ? nullptr : winograd_weights(weight, params, unrounded != nullptr);
  if (is_built(Family::Winograd) && transformed != nullptr) {
    const bool rounds = unrounded != nullptr && unrounded->type == GGML_TYPE_F32;
    ggml_tensor* result = custom(kernels::winograd_conv_2d, kernels::WinogradParams{params, transformed, rounds},
                                 {rounds ? unrounded : x, weight, bias});
    remember_layer(result, &params_of_call<kernels::WinogradParams>(call_).convolution);
    return result;
  }
  ggml_tensor* image = unrounded != nullptr ? unrounded : x;
  if (const Scaled* scaled = scaled_input(image, weight, params, unrounded != nullptr)) {
    return scaled_convolution(*scaled, weight, bias, params, unrounded != nullptr);
  }
  const bool depthwise = by_channel && kind != Storage::KernelBlocks;
  kernels::ChainedLayer layer;
  layer.kernel = unrounded != nullptr ? kernels::conv_2d_bfloats : depthwise ? kernels::conv_2d_dw : kernels::conv_2d;
  layer.call.params = params;
  layer.call.src[1] = dtype_of(node_->inputs()->Get(1));
  layer.weight = weight;
  layer.bias = bias;
  layer.ne = ne_;
  return convolution(depthwise ? image : planes_of(image, params), layer);
}

// A convolution, or a chain of it and those that make its input, or what that was rounded from, where nothing else
// reads it.
ggml_tensor* NodeBuilder::convolution(ggml_tensor* x, const kernels::ChainedLayer& layer) {
  const bool constant = is_constant(layer.weight) && (layer.bias == nullptr || is_constant(layer.bias));
  const auto rounded = rounded_.find(x);
  ggml_tensor* unrounded = rounded == rounded_.end() ? x : rounded->second.source;
  const auto before = convolutions_.find(unrounded);
  const bool follows = constant && before != convolutions_.end() &&
                       is_read_here_alone(node_->inputs()->Get(0), unrounded) &&
                       kernels::continues(before->second.chain, layer);
  Convolutions convolutions;
  if (follows) {
    convolutions = before->second;
    convolutions.chain.layers[convolutions.chain.count - 1].call.rounds_result = unrounded != x;
    chained_work_ = convolutions.call->work;
  } else {
    convolutions.x = x;
  }
  convolutions.chain.layers[convolutions.chain.count++] = layer;
  ggml_tensor* made = follows
                          ? custom(kernels::conv_2d_chain, convolutions.chain, {convolutions.x})
                          : custom(layer.kernel, layer.call.params,
                                   {x, const_cast<ggml_tensor*>(layer.weight), const_cast<ggml_tensor*>(layer.bias)});
  convolutions.call = call_;
  if (layer.kernel != kernels::conv_2d_dw) {
    remember_layer(
        made, follows ? &params_of_call<kernels::ChainParams>(call_).layers[convolutions.chain.count - 1].call.params
                      : &params_of_call<kernels::ConvolutionParams>(call_));
  }
  if (constant && convolutions.x->type == GGML_TYPE_F32) convolutions_[made] = convolutions;
  return made;
}

// Whether the node being built is the only reader of a tensor: of its input, or of what its input was rounded from.
bool NodeBuilder::is_read_here_alone(int value, const ggml_tensor* tensor) {
  if (values_[value] == tensor) return is_read_once(value);
  if (!is_built(DType::Bf16)) return false;
  const auto rounded = rounded_.find(values_[value]);
  return rounded != rounded_.end() && rounded->second.source == tensor && is_read_once(value) &&
         is_read_once(rounded->second.value);
}

bool NodeBuilder::is_constant(const ggml_tensor* tensor) const {
  return tensor->op == GGML_OP_NONE && tensor->data != nullptr && (tensor->flags & GGML_TENSOR_FLAG_INPUT) == 0 &&
         states_.count(tensor) == 0;
}

// Whether one node reads a value, once, and no output is it.
bool NodeBuilder::is_read_once(int value) {
  if (reads_.empty()) {
    reads_.resize(values_.size());
    const auto count_read = [this](int read) {
      if (read >= 0 && static_cast<size_t>(read) < reads_.size()) ++reads_[static_cast<size_t>(read)];
    };
    for (const fb::Node* node : *graph_.nodes()) {
      if (node->inputs() == nullptr) continue;  // of a node that has none, or lacks them: it is refused later
      for (const int input : *node->inputs()) count_read(input);
    }
    for (const fb::Port* output : *graph_.outputs()) count_read(output->value());
  }
  return reads_[static_cast<size_t>(value)] == 1;
}

// Under which key the program has this node's weight; null where it is none of its constants.
const flatbuffers::String* NodeBuilder::weight_key() const {
  const int value = node_->inputs()->Get(1);
  const auto& constants = *graph_.constants();
  const auto is_weight = [value](const fb::Constant* constant) { return constant->value() == value; };
  const auto found = std::find_if(constants.begin(), constants.end(), is_weight);
  return found == constants.end() ? nullptr : found->key();
}

// Null where a convolution is not computed so, or its weight is none of the program's constants.
const float* NodeBuilder::winograd_weights(const ggml_tensor* weight, const kernels::ConvolutionParams& params,
                                           bool of_bfloats) const {
  if (!is_built(Family::Winograd) || kept_weights_ == nullptr || !kernels::is_winograd(ne_, weight, params, of_bfloats))
    return nullptr;
  const flatbuffers::String* key = weight_key();
  return key == nullptr ? nullptr : kept_weights_->winograd(key->str(), weight);
}

ggml_tensor* NodeBuilder::quantized_conv_2d(ggml_tensor* x, ggml_tensor* weight, ggml_tensor* scale, ggml_tensor* bias,
                                            const Window2d& window, int64_t groups, int64_t zero,
                                            const Requantize& output) {
  const bool by_channel = is_by_channel(x, window, groups);
  Storage kind{};
  if (!use_kernel_weight(by_channel, groups, &weight, &kind)) return nullptr;
  const kernels::QuantizedLayerParams params{window, groups, zero, output, kind};
  const bool may_use_winograd = kept_weights_ != nullptr;  // null where it is switched off
  const bool is_constant = weight_key() != nullptr;        // the bound of F(4x4, 3x3) depends on its values
  if (is_built(Family::IntegerWinograd) && may_use_winograd && is_constant) {
    const int64_t side = kernels::integer_winograd_side(ne_, weight, params);
    if (side != 0) {
      return custom(kernels::integer_winograd_conv_2d, kernels::IntegerWinogradParams{params, side},
                    {x, weight, scale, bias});
    }
  }
  const bool depthwise = by_channel && kind != Storage::KernelBlocks && kernels::is_quantized_depthwise(window, x, ne_);
  return custom(depthwise ? kernels::quantized_depthwise : kernels::quantized_layer, params, {x, weight, scale, bias});
}

// Whether each channel of a dense image is convolved with its own kernel.
bool NodeBuilder::is_by_channel(const ggml_tensor* x, const Window2d& window, int64_t groups) const {
  return groups == x->ne[0] && groups == ne_[0] && window.w.up == 1 && window.h.up == 1;
}

ggml_tensor* NodeBuilder::linear(ggml_tensor* x, ggml_tensor* weight, ggml_tensor* bias, const Epilogue& epilogue) {
  Storage kind{};
  if (!use_matrix(&weight, &kind)) return nullptr;
  const kernels::ConvolutionParams params{Window2d(), 1, epilogue, kind};
  ggml_tensor* unrounded = is_built(DType::Bf16) ? unrounded_input(x, weight, params) : nullptr;
  ggml_tensor* result = unrounded != nullptr ? custom(kernels::conv_2d_bfloats, params, {unrounded, weight, bias})
                                             : custom(kernels::conv_2d, params, {x, weight, bias});
  remember_layer(result, &params_of_call<kernels::ConvolutionParams>(call_));
  return result;
}

ggml_tensor* NodeBuilder::quantized_linear(ggml_tensor* x, ggml_tensor* weight, ggml_tensor* scale, ggml_tensor* bias,
                                           int64_t zero, const Requantize& output) {
  Storage kind{};
  if (!use_matrix(&weight, &kind)) return nullptr;
  const kernels::QuantizedLayerParams params{Window2d(), 1, zero, output, kind};
  return custom(kernels::quantized_layer, params, {x, weight, scale, bias});
}

ggml_tensor* NodeBuilder::filled(float value) {
  FillParams params{};
  params.ne = ne_;
  params.value = value;
  params.dtype = dtype_of(node_->output());
  return custom(kernels::fill, params, {});
}

Status check_value(const fb::Value& value, const Dims& ne, size_t memory_limit) {
  if (static_cast<int>(value.dtype()) > kDTypeMax) {
    return Status::error(
        format("element type #%d is unknown to this runtime; update executorch-ggml", static_cast<int>(value.dtype())));
  }
  const ggml_type type = storage_type(static_cast<DType>(value.dtype()));
  if (ne[0] % ggml_blck_size(type) != 0) {
    return Status::error(format("%s%s: its rows are no multiple of %lld elements, which are stored as one",
                                ggml_type_name(type), describe(ne).c_str(),
                                static_cast<long long>(ggml_blck_size(type))));
  }
  // Strides must fit even where another dim is 0.
  int64_t bytes = static_cast<int64_t>(ggml_type_size(type));
  bytes = saturating_mul(bytes, std::max<int64_t>(1, ne[0] / ggml_blck_size(type)));
  for (int i = 1; i < 4; ++i) bytes = saturating_mul(bytes, std::max<int64_t>(1, ne[i]));
  if (bytes == INT64_MAX || (count(ne) != 0 && static_cast<size_t>(bytes) > memory_limit)) {
    return Status::error(format("%s%s needs %lld bytes, more than the %zu that a program may use",
                                dtype_name(static_cast<DType>(value.dtype())), describe(ne).c_str(),
                                static_cast<long long>(bytes), memory_limit));
  }
  return {};
}

Status NodeBuilder::declared(const fb::Value& value, Dims* ne) const {
  EXECUTORCH_GGML_TRY(shapes_.sizes(value.ne(), ne));
  return check_value(value, *ne, memory_limit_);
}

Status NodeBuilder::leaf(const fb::Value& value, ggml_tensor** tensor) {
  Dims ne{};
  EXECUTORCH_GGML_TRY(declared(value, &ne));
  *tensor = ggml_new_tensor_4d(ctx_, storage_type(static_cast<DType>(value.dtype())), ne[0], ne[1], ne[2], ne[3]);
  return {};
}

Status NodeBuilder::check_input(const fb::Node& node, const InputSpec& spec, int index, ggml_tensor* tensor) const {
  const auto dtype = static_cast<unsigned>(graph_.values()->Get(index)->dtype());
  if ((spec.dtypes >> dtype & 1u) == 0) {
    return error(node, format("input %s is %s, expected %s", spec.name, dtype_name(static_cast<DType>(dtype)),
                              dtype_names(spec.dtypes).c_str()));
  }
  const bool rows = tensor->nb[0] == ggml_type_size(tensor->type);
  const bool fits = spec.layout == Layout::Any || ggml_is_contiguous(tensor) || (spec.layout == Layout::Rows && rows);
  if (fits) return {};
  return error(node, format("input %s is %s with strides of %zu, %zu, %zu and %zu bytes, expected %s", spec.name,
                            describe(tensor).c_str(), tensor->nb[0], tensor->nb[1], tensor->nb[2], tensor->nb[3],
                            spec.layout == Layout::Cont ? "a dense tensor" : "dense rows"));
}

// What is not stored plain can be read as a layer's weight alone; panels by products and get_rows.
Status NodeBuilder::check_stored(const fb::Node& node, const InputSpec& spec, const ggml_tensor* tensor) const {
  const Storage kind = storage_of(tensor).kind;
  if (kind == Storage::Plain) return {};
  const bool is_layer = is_op(node, OpKind::Conv2dNhwc) || is_op(node, OpKind::Linear) ||
                        is_op(node, OpKind::QuantizedConv2dNhwc) || is_op(node, OpKind::QuantizedLinear);
  const bool reads_panels = (is_op(node, OpKind::MulMat) || is_op(node, OpKind::GetRows)) && is_in_panels(tensor);
  const bool fits = kind == Storage::Panels ? reads_panels && std::string(spec.name) == "a"
                                            : is_layer && std::string(spec.name) == "weight";
  if (fits) return {};
  return error(node, format("input %s is a constant in storage layout #%d, which only the weight of a layer can be",
                            spec.name, static_cast<int>(kind)));
}

Status NodeBuilder::gather_inputs(const fb::Node& node, const OpInfo& spec, ggml_tensor** inputs) {
  const int given = node.inputs() ? static_cast<int>(node.inputs()->size()) : 0;
  if (given != spec.count) return error(node, format("%d inputs, expected %d", given, spec.count));
  for (int i = 0; i < given; ++i) {
    const int index = node.inputs()->Get(i);
    if (index == -1 && spec.inputs[i].optional) {
      inputs[i] = nullptr;
      continue;
    }
    if (index < 0 || static_cast<size_t>(index) >= values_.size() || values_[index] == nullptr) {
      return error(node, format("input %s is value %d, expected one that a leaf or an earlier node has made",
                                spec.inputs[i].name, index));
    }
    inputs[i] = values_[index];
    EXECUTORCH_GGML_TRY(check_input(node, spec.inputs[i], index, inputs[i]));
    EXECUTORCH_GGML_TRY(check_stored(node, spec.inputs[i], inputs[i]));
  }
  use_packed(spec, inputs);
  return {};
}

void NodeBuilder::use_packed(const OpInfo& spec, ggml_tensor** inputs) const {
  if (!kHasQuantizedTypes || !spec.reads_packed || inputs[1]->ne[2] != 1 || inputs[1]->ne[3] != 1) return;
  const auto found = packed_.find(inputs[0]);
  if (found != packed_.end()) inputs[0] = found->second;
}

Status NodeBuilder::check_output(const fb::Node& node, const ggml_tensor* tensor) const {
  const ggml_type type = storage_type(dtype_of(node.output()));
  if (tensor->type == type && dims_of(tensor) == ne_) return {};
  return error(node, format("gives %s, but %s%s was declared", describe(tensor).c_str(), ggml_type_name(type),
                            describe(ne_).c_str()));
}

// A value without elements is computed by nobody.
Status NodeBuilder::empty_output(const fb::Node& node, ggml_tensor** tensor) {
  EXECUTORCH_GGML_TRY(leaf(*graph_.values()->Get(node.output()), tensor));
  (*tensor)->data = host_placeholder();
  (*tensor)->buffer = host_buffer();
  return {};
}

// ggml's own kernels are not made for empty inputs; what has elements all the same is a sum over none of them.
bool NodeBuilder::sums_nothing(const OpInfo& spec, ggml_tensor* const* inputs) const {
  if (spec.empty == Empty::Computed) return false;
  return std::any_of(inputs, inputs + spec.count,
                     [](const ggml_tensor* input) { return input && ggml_nelements(input) == 0; });
}

Status NodeBuilder::build(const fb::Node& node, ggml_backend_t device, bool use_kernels) {
  const OpInfo spec = op_info(node.op_type());
  if (spec.op == nullptr || node.op() == nullptr) {
    return error(node,
                 format("op #%d is unknown to this runtime; update executorch-ggml", static_cast<int>(node.op_type())));
  }
  if (node.output() < 0 || static_cast<size_t>(node.output()) >= values_.size() || values_[node.output()] != nullptr) {
    return error(node, format("its output is value %d, expected one of the %zu values that nothing has made yet",
                              node.output(), values_.size()));
  }
  ggml_tensor* inputs[8] = {};
  EXECUTORCH_GGML_TRY(gather_inputs(node, spec, inputs));
  node_ = &node;
  device_ = device;
  use_kernels_ = use_kernels;
  const Status status = declared(*graph_.values()->Get(node.output()), &ne_);
  if (!status.ok()) return error(node, "its output: " + status.message());
  ggml_tensor* result = nullptr;
  EXECUTORCH_GGML_TRY(make(node, spec, inputs, &result));
  if (node.name()) ggml_set_name(result, node.name()->c_str());
  values_[node.output()] = result;
  return {};
}

Status NodeBuilder::make(const fb::Node& node, const OpInfo& spec, ggml_tensor* const* inputs, ggml_tensor** result) {
  if (count(ne_) == 0) return empty_output(node, result);
  error_.clear();
  as_said_ = true;
  if (sums_nothing(spec, inputs)) {
    if (is_quantized(dtype_of(node.output())))
      return error(node, "a quantized value is made of inputs without elements");
    as_said_ = false;
    *result = filled(spec.empty == Empty::Nan ? NAN : 0.0f);
    return {};
  }
  node_work_ = spec.moves == Moves::View ? 0 : -1;
  chained_work_ = 0;
  bound_ = -1;
  call_ = nullptr;
  *result = in_layer_before(node, inputs);
  if (*result == nullptr) *result = rounded_by_producer(node, inputs[0]);
  if (*result == nullptr) *result = dispatch(*this, node, inputs);
  if (*result == nullptr)
    return error(node, error_.empty() ? "this build has no call for it; build executorch-ggml again" : error_);
  EXECUTORCH_GGML_TRY(check_output(node, *result));
  const int64_t work = node_work_ >= 0 ? node_work_ : elements_touched(inputs, spec.count, *result);
  if (kHasGgmlKernels && call_ == nullptr && on_cpu() && work >= 2 * kPieceWork) *result = in_pieces(*result);
  if (call_ != nullptr) call_->work = saturating_add(work, chained_work_);
  work_ = saturating_add(work_, work);
  remember_bound(spec, inputs[0], *result);
  read_unrounded(node, *result);
  remember_bfloats(node, spec, inputs[0], *result);
  remember_planes(node, inputs[0], *result);
  remember_scaled(node, inputs, *result);
  remember_reshaped_layer(node, inputs[0], *result);
  remember_producer(node, inputs[0], *result);
  return {};
}

}  // namespace executorch_ggml
