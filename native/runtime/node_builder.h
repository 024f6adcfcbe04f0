// Turns the nodes of an IR graph into ggml tensors, one builder call a node, for one set of sizes.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "devices.h"
#include "formulas.h"
#include "ggml_ir_generated.h"
#include "kernels/convolution/chain.h"
#include "kernels/kernels.h"
#include "kernels/product/integer_product.h"
#include "kernels/quantized/layer.h"
#include "packed_weights.h"
#include "result.h"
#include "selection_generated.h"
#include "shapes.h"
#include "storage.h"

namespace executorch_ggml {

enum class Layout : uint8_t { Any, Rows, Cont };

// What the op table says of one input.
struct InputSpec {
  const char* name;
  uint64_t dtypes;  // bit per DType
  Layout layout;
  bool optional;
};

enum class Moves : uint8_t { No, View, Copy };
enum class Writes : uint8_t { No, Whole, Rows };
enum class Empty : uint8_t { Zero, Nan, Computed };

// Columns of an op's row (python/executorch_ggml/ir/op.py says what they mean).
struct OpInfo {
  const char* op = nullptr;  // null: an op this build does not know
  const InputSpec* inputs = nullptr;
  int count = 0;
  Moves moves = Moves::No;
  Writes writes = Writes::No;
  Empty empty = Empty::Zero;
  bool reads_packed = false;
};

OpInfo op_info(fb::Op op);

// Programs are compared by number: a build of selected ops has no other names of them.
inline bool is_op(const fb::Node& node, OpKind op) {
  return static_cast<uint8_t>(node.op_type()) == static_cast<uint8_t>(op);
}

// A node's attributes if it is of an op, whose table this is; else null.
template <class Table>
const Table* attributes(const fb::Node& node, OpKind op) {
  return is_op(node, op) ? static_cast<const Table*>(node.op()) : nullptr;
}

// What a node needs that was left out of a build for given programs: an op, a kind of it or a kernel; "" where it has
// all.
std::string left_out(const fb::Graph& graph, const fb::Node& node);

// The ggml type that stores an IR type.
ggml_type storage_type(DType dtype);

// For messages: an element type as torch calls it, dims, and a tensor's type and dims.
const char* dtype_name(DType dtype);
std::string describe(const Dims& ne);
std::string describe_sizes(const std::vector<int64_t>& sizes);
std::string describe(const ggml_tensor* tensor);
std::string describe(const Operand& operand);

// An attribute's name and value, for messages.
class Attr {
 public:
  Attr(const char* name, int64_t value) : name_(name), at_{value} {}
  Attr(const char* name, float value) : name_(name), real_(value), count_(0) {}
  Attr(const char* name, const Dims& value) : name_(name), count_(4) { std::copy(value.begin(), value.end(), at_); }
  Attr(const char* name, const Operand& value) : name_(name), words_(describe(value)) {}
  Attr(const char* name, std::string value) : name_(name), words_(std::move(value)) {}
  Attr(const char* name, const Ints& value) : name_(name), count_(value.size) { std::copy_n(value.at, 4, at_); }
  std::string text() const { return name_ + ("=" + value()); }
  std::string name_is_value() const { return name_ + (" is " + value()); }

 private:
  std::string value() const;

  const char* name_;
  int64_t at_[4] = {};
  float real_ = 0.0f;
  int count_ = 1;      // of at_; 0: a float
  std::string words_;  // or this
};

// Whether a value's element type is known, and its memory within the limit.
Status check_value(const fb::Value& value, const Dims& ne, size_t memory_limit);

// The parameters of the custom nodes, which must live as long as the graph.
class KernelCalls {
 public:
  template <class Params>
  KernelCall<Params>* add(const Params& params) {
    static_assert(std::is_trivially_destructible_v<KernelCall<Params>>, "its memory is freed, nothing is destroyed");
    calls_.push_back(std::make_unique<std::byte[]>(sizeof(KernelCall<Params>)));
    auto* call = new (calls_.back().get()) KernelCall<Params>();
    call->params = params;
    return call;
  }

  // Which call computes a custom node: null for what ggml computes, as a whole or in pieces.
  void remember(const ggml_tensor* node, KernelCallBase* call) { nodes_[node] = call; }
  KernelCallBase* of(const ggml_tensor* node) const {
    const auto found = nodes_.find(node);
    return found != nodes_.end() ? found->second : nullptr;
  }

 private:
  std::vector<std::unique_ptr<std::byte[]>> calls_;
  std::unordered_map<const ggml_tensor*, KernelCallBase*> nodes_;
};

class NodeBuilder {
 public:
  // `values` has the leaves' tensors already and gets the nodes'.
  NodeBuilder(ggml_context* ctx, const fb::Graph& graph, const Shapes& shapes, size_t memory_limit, RunStatus* status,
              KernelCalls* calls, std::vector<ggml_tensor*>* values)
      : ctx_(ctx),
        graph_(graph),
        shapes_(shapes),
        memory_limit_(memory_limit),
        status_(status),
        calls_(calls),
        values_(*values) {}

  // Build one node for a device (null: the CPU), with this runtime's own kernels or without; its tensor goes to
  // values[node.output()].
  Status build(const fb::Node& node, ggml_backend_t device, bool use_kernels);

  // A value's dims, with the sizes at hand.
  Status declared(const fb::Value& value, Dims* ne) const;

  // A dense tensor without data, for leaves.
  Status leaf(const fb::Value& value, ggml_tensor** tensor);

  // Only these may be written to.
  void remember_state(const ggml_tensor* tensor) { states_.insert(tensor); }

  // How a constant lies where its tensor points.
  void remember_storage(const ggml_tensor* constant, const StorageLayout& layout) {
    if (layout.kind != Storage::Plain) storage_[constant] = layout;
  }

  // Products of two matrices read the packed form of the first.
  void remember_packed(const ggml_tensor* matrix, ggml_tensor* packed) { packed_[matrix] = packed; }

  // Layers whose kernel reads weights in a layout read the packed form of a constant that is stored plain.
  void remember_packed(const ggml_tensor* weight, const StorageLayout& layout, ggml_tensor* packed) {
    layers_.push_back({weight, layout, packed});
  }

  // Layers may keep there what they make of constants to be faster; null: they make nothing.
  void keep_weights(PackedWeights* weights) { kept_weights_ = weights; }

  // Nodes so far may be in ggml's graph from now on: nothing more is fused into them.
  void finish_nodes();

  // Multiply-adds, or elements touched, of the nodes so far.
  int64_t work() const { return work_; }

  ggml_context* context() const { return ctx_; }
  // Whether what build() made last does what the node says (or is only known to give the same here).
  bool made_as_said() const { return as_said_; }

  // What generated code uses. False and null mean that error_ has the message.
  bool uses_kernels() const { return kIsSelective || use_kernels_; }
  ggml_tensor* unmet(const char* expected, std::initializer_list<Attr> given);
  bool missing(const char* attr) { return fail(format("attribute %s is missing; export the model again", attr)); }
  ggml_tensor* refuse(std::string message);
  // For calls that targets replace by those of other ops.
  ggml_tensor* left_by_target();
  bool on_cpu() const { return kIsSelective || device_ == nullptr; }
  // Whether the device computes a node, by what it says of itself.
  bool runs(const ggml_tensor* node) const;
  // Whether an f32 tensor of these dims, `what`, is within the memory limit.
  bool fits(const Dims& ne, const char* what);
  bool dim(int64_t sdim, const char* attr, int64_t* value);
  bool dims(const fb::Ne* ne, const char* attr, Dims* value);
  bool ints(const flatbuffers::Vector<int64_t>* from, const char* attr, Ints* value);
  template <class Enum>
  bool choice(Enum from, int max, const char* attr, Enum* value) {
    *value = from;
    return static_cast<int>(from) <= max || fail(format("attribute %s: no choice %d", attr, static_cast<int>(from)));
  }
  template <class Enum, class FbEnum>
  bool choice(FbEnum from, int max, const char* attr, Enum* value) {
    return choice(static_cast<Enum>(from), max, attr, value);
  }
  ggml_tensor* permute(ggml_tensor* a, const Ints& axes);
  ggml_tensor* view(ggml_tensor* a, const Dims& start, const Ints& step, const Dims& ne);
  Operand operand(int input) const;
  Operand result() const { return {dtype_of(node_->output()), ne_}; }
  bool gives(const Operand& result);
  void set_work(int64_t work) { node_work_ = work; }
  void set_bound(int64_t bound) { bound_ = bound; }
  template <class Params>
  ggml_tensor* custom(Kernel kernel, const Params& params, std::initializer_list<ggml_tensor*> inputs) {
    return custom_node(kernel, calls_->add(params), inputs);
  }
  ggml_tensor* custom(Kernel kernel, const MulMatParams& params, std::initializer_list<ggml_tensor*> inputs);
  // get_rows and mul_mat_id take only what to_index has checked: ggml aborts on any other number.
  bool is_below(const Operand& index, int64_t size) const;
  bool is_state(const Operand& state) const { return states_.count(state.tensor) != 0; }
  bool shows_state(const Operand& state) const {
    return is_state(state) || (state.tensor->view_src != nullptr && states_.count(state.tensor->view_src) != 0);
  }
  ggml_tensor* conv_2d_nhwc(ggml_tensor* x, ggml_tensor* weight, ggml_tensor* bias, const Window2d& window,
                            int64_t groups, const Epilogue& epilogue);
  ggml_tensor* linear(ggml_tensor* x, ggml_tensor* weight, ggml_tensor* bias, const Epilogue& epilogue);
  ggml_tensor* quantized_conv_2d(ggml_tensor* x, ggml_tensor* weight, ggml_tensor* scale, ggml_tensor* bias,
                                 const Window2d& window, int64_t groups, int64_t zero, const Requantize& output);
  ggml_tensor* quantized_linear(ggml_tensor* x, ggml_tensor* weight, ggml_tensor* scale, ggml_tensor* bias,
                                int64_t zero, const Requantize& output);
  ggml_tensor* update_state(ggml_tensor* state, ggml_tensor* index, ggml_tensor* src, const Dims& ne, int64_t axis,
                            bool wrap);

 private:
  bool fail(std::string message);
  StorageLayout storage_of(const ggml_tensor* tensor) const;
  StorageLayout use_layer(const StorageLayout& wanted, ggml_tensor** weight) const;
  bool use_kernel_weight(bool by_channel, int64_t groups, ggml_tensor** weight, Storage* kind);
  bool is_by_channel(const ggml_tensor* x, const Window2d& window, int64_t groups) const;
  ggml_tensor* convolution(ggml_tensor* x, const kernels::ChainedLayer& layer);
  ggml_tensor* in_layer_before(const fb::Node& node, ggml_tensor* const* inputs);
  ggml_tensor* sum_in_layer(ggml_tensor* layer, ggml_tensor* addend);
  ggml_tensor* bounds_in_layer(ggml_tensor* layer, float low, float high);
  ggml_tensor* fused(const ggml_tensor* result, ggml_tensor* addend);
  ggml_tensor* replacement(const ggml_tensor* node, const Dims& ne, ggml_tensor* added);
  void remember_layer(ggml_tensor* result, kernels::ConvolutionParams* params);
  void remember_reshaped_layer(const fb::Node& node, const ggml_tensor* source, const ggml_tensor* result);
  bool is_constant(const ggml_tensor* tensor) const;
  bool is_read_once(int value);
  bool is_read_here_alone(int value, const ggml_tensor* tensor);
  bool use_matrix(ggml_tensor** weight, Storage* kind);
  void read_unrounded(const fb::Node& node, ggml_tensor* result);
  void remember_bfloats(const fb::Node& node, const OpInfo& spec, ggml_tensor* source, ggml_tensor* result);
  void remember_producer(const fb::Node& node, const ggml_tensor* source, ggml_tensor* result);
  ggml_tensor* rounded_by_producer(const fb::Node& node, const ggml_tensor* x);
  struct Scaled {
    ggml_tensor* image;
    ggml_tensor* by;  // a factor for each channel of each image
  };
  bool may_change(const ggml_tensor* source) const;
  void remember_planes(const fb::Node& node, ggml_tensor* source, const ggml_tensor* result);
  ggml_tensor* planes_of(ggml_tensor* image, const kernels::ConvolutionParams& params);
  void remember_scaled(const fb::Node& node, ggml_tensor* const* inputs, const ggml_tensor* result);
  const Scaled* scaled_input(const ggml_tensor* x, const ggml_tensor* weight, const kernels::ConvolutionParams& params,
                             bool rounds);
  ggml_tensor* scaled_convolution(const Scaled& scaled, ggml_tensor* weight, ggml_tensor* bias,
                                  const kernels::ConvolutionParams& params, bool rounds);
  ggml_tensor* unrounded_input(ggml_tensor* x, const ggml_tensor* weight,
                               const kernels::ConvolutionParams& params) const;
  ggml_tensor* bfloats_of(ggml_tensor* source);
  const flatbuffers::String* weight_key() const;
  const float* winograd_weights(const ggml_tensor* weight, const kernels::ConvolutionParams& params,
                                bool of_bfloats) const;
  Status check_stored(const fb::Node& node, const InputSpec& spec, const ggml_tensor* tensor) const;
  Status error(const fb::Node& node, const std::string& message) const;
  void use_packed(const OpInfo& spec, ggml_tensor** inputs) const;
  Status gather_inputs(const fb::Node& node, const OpInfo& spec, ggml_tensor** inputs);
  Status check_input(const fb::Node& node, const InputSpec& spec, int index, ggml_tensor* tensor) const;
  Status check_output(const fb::Node& node, const ggml_tensor* tensor) const;
  bool sums_nothing(const OpInfo& spec, ggml_tensor* const* inputs) const;
  Status empty_output(const fb::Node& node, ggml_tensor** tensor);
  Status make(const fb::Node& node, const OpInfo& spec, ggml_tensor* const* inputs, ggml_tensor** result);
  void remember_bound(const OpInfo& spec, const ggml_tensor* source, const ggml_tensor* made);
  int describe_call(KernelCallBase* call, std::initializer_list<ggml_tensor*> inputs, ggml_tensor** sources);
  ggml_tensor* custom_node(Kernel kernel, KernelCallBase* call, std::initializer_list<ggml_tensor*> inputs);
  ggml_tensor* called(ggml_tensor* node, KernelCallBase* call);
  ggml_tensor* node_of(KernelCallBase* call, ggml_type type, const Dims& ne, ggml_tensor** sources, int count);
  ggml_tensor* in_pieces(ggml_tensor* node);
  ggml_tensor* quantized_rows(const ggml_tensor* a, ggml_tensor* b);
  ggml_tensor* filled(float value);
  DType dtype_of(int value) const { return static_cast<DType>(graph_.values()->Get(value)->dtype()); }

  ggml_context* ctx_;
  const fb::Graph& graph_;
  const Shapes& shapes_;
  ggml_backend_t device_ = nullptr;  // of the node being built; null: the CPU
  bool use_kernels_ = true;
  size_t memory_limit_;
  RunStatus* status_;
  KernelCalls* calls_;
  std::vector<ggml_tensor*>& values_;
  std::unordered_map<const ggml_tensor*, int64_t> bounds_;  // of what to_index gave, and what only moves it
  std::unordered_set<const ggml_tensor*> states_;
  std::unordered_map<const ggml_tensor*, ggml_tensor*> packed_;
  struct Layer {
    const ggml_tensor* weight;
    StorageLayout layout;
    ggml_tensor* packed;
  };
  std::vector<Layer> layers_;
  PackedWeights* kept_weights_ = nullptr;
  struct Convolutions {
    kernels::ChainParams chain;
    ggml_tensor* x = nullptr;
    const KernelCallBase* call = nullptr;
  };
  std::unordered_map<const ggml_tensor*, Convolutions> convolutions_;  // by their result
  struct LayerCall {
    ggml_tensor* node;  // ggml's, which has the layer's operands
    KernelCallBase* call;
    kernels::ConvolutionParams* params;  // of the call, of a chain's last layer
    bool is_linear;
  };
  std::unordered_map<const ggml_tensor*, LayerCall> layer_calls_;  // by the result, which more may be done to
  std::vector<int> reads_;                                         // how often each value is read, once it is asked
  std::map<std::pair<const ggml_tensor*, decltype(kernels::IntegerProduct::quantize)>, ggml_tensor*> quantized_;
  struct Producer {
    const ggml_tensor* node;
    KernelCallBase* call;
  };
  std::unordered_map<const ggml_tensor*, Producer> producers_;  // kernels that can round their output, by that output
  struct Rounded {
    ggml_tensor* source;
    int value;
  };
  // Of f32 whose numbers bf16 has: what they were rounded or widened from, or they themselves.
  std::unordered_map<const ggml_tensor*, Rounded> rounded_;
  std::unordered_map<const ggml_tensor*, ggml_tensor*> bfloats_;    // bf16 copies, by source
  std::unordered_map<const ggml_tensor*, ggml_tensor*> unrounded_;  // f32 sources, by bf16 copy
  std::unordered_map<const ggml_tensor*, ggml_tensor*> planes_;     // of images, by their dense copies
  std::unordered_map<const ggml_tensor*, Scaled> scaled_;           // by the product
  std::unordered_map<const ggml_tensor*, StorageLayout> storage_;   // of constants that are not plain
  KernelCallBase* call_ = nullptr;  // of the node being built, where a kernel computes it
  int64_t work_ = 0;
  int64_t chained_work_ = 0;  // of the nodes before it that its kernel computes too
  int64_t node_work_ = -1;    // of the node being built; -1: the elements that it touches
  int64_t bound_ = -1;        // that its values are below; -1: none is known
  bool as_said_ = true;
  const fb::Node* node_ = nullptr;  // the one being built
  Dims ne_{};                       // its output's dims
  std::string error_;
};

}  // namespace executorch_ggml
