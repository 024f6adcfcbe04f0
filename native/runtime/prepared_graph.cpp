#include "prepared_graph.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "ggml-alloc.h"
#include "status.h"

namespace executorch_ggml {
namespace {

// Graphs of less work than this run on the calling thread: waking another costs as much (a few microseconds).
constexpr int64_t kParallelWork = 1 << 17;

size_t count(const flatbuffers::Vector<flatbuffers::Offset<fb::Node>>* nodes) { return nodes ? nodes->size() : 0; }

template <class T>
size_t size_of(const T* vector) {
  return vector ? vector->size() : 0;
}

const char* text(const flatbuffers::String* string) { return string ? string->c_str() : ""; }

bool writes_state(const fb::Node& node) { return node.op_type() == fb::Op::WriteState; }

// Multiply-adds, or elements touched: only its order of magnitude matters.
int64_t work_of(const ggml_tensor* node) {
  const int64_t elements = ggml_nelements(node);
  if (node->op == GGML_OP_MUL_MAT) return elements * node->src[0]->ne[0];
  if (node->op == GGML_OP_CUSTOM && node->src[1] != nullptr && node->src[1]->ne[1] == 1) {
    return std::max(elements, ggml_nelements(node->src[1]));  // packed weights are one long row
  }
  return node->op == GGML_OP_VIEW || node->op == GGML_OP_RESHAPE || node->op == GGML_OP_PERMUTE ? 0 : elements;
}

size_t physical_memory() { return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGE_SIZE)); }

// Bytes that a graph's intermediate values need: all of them if that is little, else with their memory reused.
size_t working_memory(ggml_cgraph* graph, ggml_backend_buffer_type_t type) {
  size_t total = 0;
  for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
    const size_t bytes = ggml_nbytes(ggml_graph_node(graph, i));
    if (__builtin_add_overflow(total, bytes, &total)) return SIZE_MAX;
  }
  if (total <= physical_memory() / 2) return total;
  ggml_gallocr_t allocator = ggml_gallocr_new(type);
  ggml_gallocr_reserve_n_size(allocator, graph, nullptr, nullptr, &total);
  ggml_gallocr_free(allocator);
  return total;
}

std::string sizes_text(const int64_t* sizes, int rank) {
  std::string made = "[";
  for (int i = 0; i < rank; ++i) made += format("%s%lld", i ? ", " : "", static_cast<long long>(sizes[i]));
  return made + "]";
}

const char* const kDTypeNames[] = {"float32", "float16", "bfloat16", "int8", "int16", "int32", "int64", "bool", "uint8", "float64"};

Status check_port(const fb::Graph& graph, size_t index, const TensorView& given) {
  const fb::Port& port = *graph.inputs()->Get(index);
  const auto wanted = static_cast<int>(graph.values()->Get(port.value())->dtype());
  if (static_cast<int>(given.dtype) != wanted) {
    return Status::error(format("input %zu (%s): dtype %s, expected %s; convert it with .to(torch.%s)", index, text(port.name()),
                                kDTypeNames[static_cast<int>(given.dtype)], kDTypeNames[wanted], kDTypeNames[wanted]));
  }
  if (given.rank != static_cast<int>(size_of(port.shape()))) {
    return Status::error(format("input %zu (%s): shape %s has %d dims, expected %zu", index, text(port.name()),
                                sizes_text(given.sizes, given.rank).c_str(), given.rank, size_of(port.shape())));
  }
  return {};
}

// The sizes that the inputs came with are those that the ports' expressions give.
Status check_sizes(const fb::Graph& graph, const Shapes& shapes, const std::vector<int64_t>& key) {
  size_t at = 0;
  for (size_t i = 0; i < size_of(graph.inputs()); ++i) {
    const fb::Port& port = *graph.inputs()->Get(i);
    const int rank = static_cast<int>(size_of(port.shape()));
    if (rank == 0) ++at;
    for (int d = 0; d < rank; ++d, ++at) {
      int64_t expected = 0;
      EXECUTORCH_GGML_TRY(shapes.size(port.shape()->Get(d), &expected));
      if (key[at] != expected) {
        return Status::error(format("input %zu (%s): size %lld in dim %d, expected %lld", i, text(port.name()),
                                    static_cast<long long>(key[at]), d, static_cast<long long>(expected)));
      }
    }
  }
  return {};
}

// Where each symbol's source lies in the key.
std::vector<int64_t> symbol_sources(const fb::Graph& graph, const std::vector<int64_t>& key) {
  std::vector<size_t> first;
  size_t at = 0;
  for (size_t i = 0; i < size_of(graph.inputs()); ++i) {
    first.push_back(at);
    at += std::max<size_t>(1, size_of(graph.inputs()->Get(i)->shape()));
  }
  std::vector<int64_t> sources;
  for (size_t i = 0; i < size_of(graph.symbols()); ++i) {
    const fb::Symbol& symbol = *graph.symbols()->Get(i);
    sources.push_back(key[first[symbol.input()] + std::max(0, symbol.dim())]);
  }
  return sources;
}

}  // namespace

Status input_key(const fb::Graph& graph, const TensorView* inputs, size_t given, std::vector<int64_t>* key) {
  if (given != size_of(graph.inputs())) {
    return Status::error(format("%zu inputs, expected %zu", given, size_of(graph.inputs())));
  }
  key->clear();
  for (size_t i = 0; i < given; ++i) {
    EXECUTORCH_GGML_TRY(check_port(graph, i, inputs[i]));
    const bool is_index = inputs[i].rank == 0 && inputs[i].dtype == DType::I64;
    int64_t scalar = 0;
    if (is_index) std::memcpy(&scalar, inputs[i].data, sizeof(scalar));
    if (inputs[i].rank == 0) key->push_back(scalar);
    key->insert(key->end(), inputs[i].sizes, inputs[i].sizes + inputs[i].rank);
  }
  return {};
}

void PreparedGraph::Boundary::place(void* data) const {
  if (tensor->data == data) return;
  tensor->data = data;
  for (ggml_tensor* view : views) view->data = static_cast<char*>(data) + view->view_offs;
}

Status PreparedGraph::make(const fb::Graph& graph, std::vector<int64_t> key, const Leaves& leaves,
                           ggml_backend_t device, std::shared_ptr<Cpu> cpu, std::unique_ptr<PreparedGraph>* made) {
  std::unique_ptr<PreparedGraph> prepared(new PreparedGraph(graph));
  prepared->key_ = std::move(key);
  prepared->device_ = device;
  prepared->cpu_ = std::move(cpu);
  EXECUTORCH_GGML_TRY(prepared->shapes_.bind(graph, symbol_sources(graph, prepared->key_)));
  EXECUTORCH_GGML_TRY(check_sizes(graph, prepared->shapes_, prepared->key_));
  EXECUTORCH_GGML_TRY(prepared->build(leaves));
  EXECUTORCH_GGML_TRY(prepared->schedule());
  *made = std::move(prepared);
  return {};
}

PreparedGraph::~PreparedGraph() {
  if (sched_) ggml_backend_sched_free(sched_);
  if (ctx_) ggml_free(ctx_);
}

Status PreparedGraph::build(const Leaves& leaves) {
  const size_t nodes = count(graph_.nodes());
  // ggml aborts where its arena overflows: a node makes three tensors at most, an output one.
  const size_t tensors = 3 * nodes + size_of(graph_.inputs()) + size_of(graph_.outputs()) + 1;
  const size_t arena = ggml_tensor_overhead() * tensors + ggml_graph_overhead_custom(tensors, false);
  ctx_ = ggml_init({arena, nullptr, /*no_alloc=*/true});
  if (ctx_ == nullptr) return Status::error("ggml cannot allocate a graph");
  cgraph_ = ggml_new_graph_custom(ctx_, tensors, false);

  std::vector<ggml_tensor*> values(size_of(graph_.values()), nullptr);
  NodeBuilder builder(ctx_, graph_, shapes_, device_ == nullptr, &status_, &calls_, &values);
  for (size_t i = 0; i < leaves.constants.size(); ++i) values[graph_.constants()->Get(i)->value()] = leaves.constants[i];
  for (size_t i = 0; i < leaves.states.size(); ++i) values[graph_.states()->Get(i)->value()] = leaves.states[i];
  EXECUTORCH_GGML_TRY(make_inputs(&builder, &values));
  EXECUTORCH_GGML_TRY(make_nodes(&builder, values));
  EXECUTORCH_GGML_TRY(make_outputs(values));
  // States are written when everything that reads them has run.
  for (size_t i = 0; i < nodes; ++i) {
    const fb::Node& node = *graph_.nodes()->Get(i);
    if (writes_state(node)) ggml_build_forward_expand(cgraph_, values[node.output()]);
  }
  collect_views();
  return {};
}

Status PreparedGraph::make_inputs(NodeBuilder* builder, std::vector<ggml_tensor*>* values) {
  inputs_.resize(size_of(graph_.inputs()));
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const fb::Port& port = *graph_.inputs()->Get(i);
    ggml_tensor* tensor = nullptr;
    EXECUTORCH_GGML_TRY(builder->leaf(*graph_.values()->Get(port.value()), &tensor));
    ggml_set_input(tensor);
    put_on_host(tensor, &inputs_[i]);
    (*values)[port.value()] = tensor;
  }
  return {};
}

Status PreparedGraph::make_nodes(NodeBuilder* builder, const std::vector<ggml_tensor*>& values) {
  for (size_t i = 0; i < count(graph_.nodes()); ++i) {
    const fb::Node& node = *graph_.nodes()->Get(i);
    EXECUTORCH_GGML_TRY(builder->build(node));
    if (!writes_state(node)) continue;
    // What is written must be ready before the first write, or a later write could read an earlier one's result.
    ggml_tensor* source = values[node.output()]->src[0];
    if (source->view_src != nullptr || source->op == GGML_OP_NONE) source = values[node.output()]->src[0] = ggml_cont(ctx_, source);
    ggml_build_forward_expand(cgraph_, source);
  }
  return {};
}

// The tensor that can be computed straight into the caller's memory, or null where a copy is needed.
ggml_tensor* PreparedGraph::output_tensor(ggml_tensor* value) const {
  ggml_tensor* root = value->view_src ? value->view_src : value;
  const bool whole = value->view_offs == 0 && ggml_is_contiguous(value) && ggml_is_contiguous(root) &&
                     ggml_nbytes(root) == ggml_nbytes(value);
  const bool computed = root->op != GGML_OP_NONE && root->data == nullptr;
  return whole && computed && device_ == nullptr ? root : nullptr;
}

Status PreparedGraph::make_outputs(const std::vector<ggml_tensor*>& values) {
  outputs_.resize(size_of(graph_.outputs()));
  output_sizes_.resize(outputs_.size());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const fb::Port& port = *graph_.outputs()->Get(i);
    ggml_tensor* value = values[port.value()];
    if (value == nullptr) return Status::error(format("output %zu: nothing makes its value", i));
    int64_t elements = 1;
    for (size_t d = 0; d < size_of(port.shape()); ++d) {
      int64_t size = 0;
      EXECUTORCH_GGML_TRY(shapes_.size(port.shape()->Get(d), &size));
      output_sizes_[i].push_back(size);
      if (__builtin_mul_overflow(elements, size, &elements)) elements = -1;
    }
    if (elements != ggml_nelements(value)) {
      return Status::error(format("output %zu: %s does not fit its shape of %lld elements", i, describe(value).c_str(),
                                  static_cast<long long>(elements)));
    }
    ggml_tensor* tensor = output_tensor(value);
    if (tensor == nullptr) tensor = ggml_cont(ctx_, value);
    ggml_set_output(tensor);
    put_on_host(tensor, &outputs_[i]);
    ggml_build_forward_expand(cgraph_, value);
    ggml_build_forward_expand(cgraph_, tensor);
  }
  return {};
}

// On the CPU the caller's memory is used in place; another device gets and gives copies.
void PreparedGraph::put_on_host(ggml_tensor* tensor, Boundary* boundary) {
  boundary->tensor = tensor;
  if (device_ != nullptr) return;
  tensor->buffer = host_buffer();
  tensor->data = host_placeholder();
}

void PreparedGraph::collect_views() {
  if (device_ != nullptr) return;
  for (ggml_tensor* t = ggml_get_first_tensor(ctx_); t != nullptr; t = ggml_get_next_tensor(ctx_, t)) {
    if (t->view_src == nullptr) continue;
    for (std::vector<Boundary>* group : {&inputs_, &outputs_}) {
      for (Boundary& boundary : *group) {
        if (t->view_src != boundary.tensor) continue;
        boundary.views.push_back(t);
        t->buffer = host_buffer();
        t->data = static_cast<char*>(host_placeholder()) + t->view_offs;
      }
    }
  }
}

bool PreparedGraph::worth_threads() const {
  int64_t work = 0;
  for (int i = 0; i < ggml_graph_n_nodes(cgraph_); ++i) work += work_of(ggml_graph_node(cgraph_, i));
  return work >= kParallelWork;
}

Status PreparedGraph::schedule() {
  std::vector<ggml_backend_t> backends;
  if (device_) backends.push_back(device_);
  backends.push_back(worth_threads() ? cpu_->parallel() : cpu_->serial());
  const int n = static_cast<int>(backends.size());
  const size_t graph_size = static_cast<size_t>(ggml_graph_size(cgraph_));
  sched_ = ggml_backend_sched_new(backends.data(), nullptr, n, graph_size, /*parallel=*/false, /*op_offload=*/false);
  if (sched_ == nullptr) return Status::error("ggml cannot make a scheduler");
  const size_t needed = working_memory(cgraph_, ggml_backend_get_default_buffer_type(backends.front()));
  if (needed > physical_memory()) {
    return Status::error(format("this input's sizes need %zu bytes of working memory, more than the machine has", needed));
  }
  if (!ggml_backend_sched_alloc_graph(sched_, cgraph_)) {
    return Status::error(format("ggml cannot allocate %zu bytes of working memory", needed));
  }
  return {};
}

Status PreparedGraph::run(void* const* inputs, void* const* outputs) {
  status_.clear();
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (device_ == nullptr) {
      inputs_[i].place(inputs[i]);
    } else if (inputs_[i].tensor->buffer != nullptr) {  // null where nothing reads the input
      ggml_backend_tensor_set(inputs_[i].tensor, inputs[i], 0, ggml_nbytes(inputs_[i].tensor));
    }
  }
  if (device_ == nullptr) {
    for (size_t i = 0; i < outputs_.size(); ++i) outputs_[i].place(outputs[i]);
  }
  const ggml_status result = ggml_backend_sched_graph_compute(sched_, cgraph_);
  if (result != GGML_STATUS_SUCCESS) return Status::error(format("ggml: %s", ggml_status_to_string(result)));
  if (!status_.ok()) return Status::error(status_.message());
  for (size_t i = 0; device_ != nullptr && i < outputs_.size(); ++i) {
    ggml_backend_tensor_get(outputs_[i].tensor, outputs[i], 0, ggml_nbytes(outputs_[i].tensor));
  }
  return {};
}

}  // namespace executorch_ggml
