#include "prepared_graph.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "interrupt.h"
#include "memory_plan.h"
#include "rpc.h"
#include "run_kernel.h"
#include "status.h"
#include "thread_pool.h"

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

constexpr size_t kMostTensors = INT32_MAX / 2;  // ggml counts them in an int

constexpr char kPrologue[] = "it depends on integer inputs alone";

// Memory that a node writes to which is there before the graph is: a state's.
ggml_backend_buffer_t written_buffer(const ggml_tensor* node) {
  return node->view_src != nullptr ? node->view_src->buffer : nullptr;
}

// What GPU backends cannot compute whatever they say: they know no custom nodes, and int64 only as the rows to write.
// ggml-vulkan says that it copies int64, ggml-rpc that it computes anything.
const char* needs_cpu(const ggml_tensor* node) {
  if (node->op == GGML_OP_CUSTOM) return "it is a kernel of this runtime for the CPU";
  if (node->type == GGML_TYPE_I64) return "it computes int64";
  for (int i = 0; i < GGML_MAX_SRC; ++i) {
    const bool rows = node->op == GGML_OP_SET_ROWS && i == 1;
    if (node->src[i] != nullptr && node->src[i]->type == GGML_TYPE_I64 && !rows) return "it reads int64";
  }
  return nullptr;
}

// An op and the types that it computes with: "MUL_MAT of q4_K and f32 to f32".
std::string describe_op(const ggml_tensor* node) {
  std::string types;
  for (const ggml_tensor* source : node->src) {
    if (source != nullptr) types += (types.empty() ? " of " : " and ") + std::string(ggml_type_name(source->type));
  }
  return ggml_op_desc(node) + types + " to " + ggml_type_name(node->type);
}

// A node and what it reads before the scheduler puts copies there. Backends change the order of a graph's nodes.
struct NodeSources {
  explicit NodeSources(ggml_tensor* of) : node(of) { std::copy_n(of->src, GGML_MAX_SRC, sources); }

  ggml_tensor* node;
  ggml_tensor* sources[GGML_MAX_SRC];
};

// The kernel of the node before the writes to states.
void commit(ggml_tensor*, int thread, int, void*) {
  if (thread == 0) commit_run();
}

// How many tensors ggml gets of one node, at most: a kernel's, or what a composition on a device is made of.
constexpr size_t kKernelTensors = 3;
constexpr size_t kCompositionTensors = 16;

// How many nodes may wait to be put into ggml's graph: it goes back along them by recursion.
constexpr int kMaxDepth = 256;

// A port's sizes, and that its value has as many elements.
Status port_sizes(const Shapes& shapes, const fb::Port& port, const ggml_tensor* value, std::vector<int64_t>* sizes) {
  EXECUTORCH_GGML_TRY(port_shape(shapes, port, sizes));
  int64_t elements = 1;
  for (int64_t size : *sizes) elements = saturating_mul(elements, size);
  if (elements == ggml_nelements(value)) return {};
  return Status::error(
      format("shape %s, but the graph has %s", describe_sizes(*sizes).c_str(), describe(value).c_str()));
}

}  // namespace

void PreparedGraph::Boundary::place(void* data) const {
  if (data == nullptr) data = host_placeholder();  // where there are no elements
  if (tensor->data == data) return;
  tensor->data = data;
  for (ggml_tensor* view : views) view->data = static_cast<char*>(data) + view->view_offs;
}

bool PreparedGraph::takes(const std::vector<int64_t>& key, const Shapes& shapes) {
  if (!shapes_.gave_same(shapes)) return false;
  key_ = key;
  return true;
}

Status PreparedGraph::make(const fb::Graph& graph, const ProgramId& program, std::vector<int64_t> key, Shapes shapes,
                           const Leaves& leaves, const DeviceList& devices, const DevicePlan& plan,
                           std::shared_ptr<Cpu> cpu, const Limits& limits, std::shared_ptr<WorkingMemory> memory,
                           std::unique_ptr<PreparedGraph>* made) {
  std::unique_ptr<PreparedGraph> prepared(new PreparedGraph(graph, program, devices, plan, limits));
  prepared->key_ = std::move(key);
  prepared->cpu_ = std::move(cpu);
  prepared->shapes_ = std::move(shapes);
  prepared->memory_ = std::move(memory);
  EXECUTORCH_GGML_TRY(prepared->build(leaves));
  EXECUTORCH_GGML_TRY(devices.empty() ? prepared->plan_on_cpu() : prepared->schedule());
  *made = std::move(prepared);
  return {};
}

PreparedGraph::~PreparedGraph() {
  if (kHasGgmlKernels && plan_ != nullptr) ggml_backend_graph_plan_free(cpu_->backend(), plan_);
  if (!kIsSelective && sched_) {
    free_scheduler(sched_, devices_.backends());
    explain_custom_nodes(false);
  }
}

Status PreparedGraph::open_arena(const Leaves& leaves) {
  // ggml aborts where its arena or its graph overflows: an output makes one tensor, and one comes before the writes to
  // states.
  const size_t of_node = devices_.empty() ? kKernelTensors : kCompositionTensors;
  const size_t tensors = of_node * count(graph_.nodes()) + size_of(graph_.inputs()) + size_of(graph_.outputs()) + 2;
  const size_t constants = leaves.constants.size() * static_cast<size_t>(devices_.size() + 1);
  const size_t in_graph = tensors + constants + leaves.packed.size() + leaves.states.size();
  if (in_graph > kMostTensors) {
    return Status::error(
        format("a graph of %zu tensors, expected at most %zu; split the model", in_graph, kMostTensors));
  }
  EXECUTORCH_GGML_TRY(arena_.open(ggml_tensor_overhead() * tensors + ggml_graph_overhead_custom(in_graph, false)));
  cgraph_ = ggml_new_graph_custom(arena_.context(), in_graph, false);
  return {};
}

Status PreparedGraph::build(const Leaves& leaves) {
  EXECUTORCH_GGML_TRY(open_arena(leaves));
  std::vector<ggml_tensor*> values(size_of(graph_.values()), nullptr);
  NodeBuilder builder(arena_.context(), graph_, shapes_, limits_.memory_limit(), &status_, &calls_, &values);
  set_leaves(&builder, leaves, &values);
  made_.resize(count(graph_.nodes()), nullptr);
  outputs_.resize(size_of(graph_.outputs()));
  output_sizes_.resize(outputs_.size());
  EXECUTORCH_GGML_TRY(make_inputs(&builder, &values));
  if (!devices_.empty()) EXECUTORCH_GGML_TRY(make_prologue(&builder, &values));
  EXECUTORCH_GGML_TRY(make_nodes(&builder, &values));
  EXECUTORCH_GGML_TRY(make_outputs(values));
  add_state_changes(values);
  work_ = builder.work();
  if (work_ <= limits_.work) return {};
  return Status::error(format("this input's sizes need %lld multiplications, more than the %lld that a run may take",
                              static_cast<long long>(work_), static_cast<long long>(limits_.work)));
}

void PreparedGraph::set_leaves(NodeBuilder* builder, const Leaves& leaves, std::vector<ggml_tensor*>* values) {
  for (size_t i = 0; i < leaves.constants.size(); ++i) {
    const int value = graph_.constants()->Get(static_cast<flatbuffers::uoffset_t>(i))->value();
    int places = 0;
    for (int place = devices_.size(); place >= 0; --place) {
      ggml_tensor* tensor = leaves.constants[i][static_cast<size_t>(place)];
      if (tensor == nullptr) continue;
      if (!devices_.empty()) positions_[tensor] = {place, place};
      (*values)[value] = tensor;
      ++places;
    }
    if (!devices_.empty() && places > 1) copied_[value] = &leaves.constants[i];
  }
  for (const auto& [tensor, layout] : leaves.storage) builder->remember_storage(tensor, layout);
  for (const Leaves::Packed& packed : leaves.packed) {
    if (packed.layout.kind == Storage::Plain) {
      builder->remember_packed(packed.constant, packed.tensor);
    } else {
      builder->remember_packed(packed.constant, packed.layout, packed.tensor);
    }
  }
  builder->keep_weights(leaves.kept);
  for (size_t i = 0; i < leaves.states.size(); ++i) {
    (*values)[graph_.states()->Get(static_cast<flatbuffers::uoffset_t>(i))->value()] = leaves.states[i];
    builder->remember_state(leaves.states[i]);
    if (!devices_.empty()) positions_[leaves.states[i]] = {device_plan_.state(i), device_plan_.state(i)};
  }
}

Status PreparedGraph::make_inputs(NodeBuilder* builder, std::vector<ggml_tensor*>* values) {
  inputs_.resize(size_of(graph_.inputs()));
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const fb::Port& port = *graph_.inputs()->Get(i);
    ggml_tensor* tensor = nullptr;
    std::vector<int64_t> sizes;
    Status status = builder->leaf(*graph_.values()->Get(port.value()), &tensor);
    if (status.ok()) status = port_sizes(shapes_, port, tensor, &sizes);
    if (!status.ok())
      return Status::error(format("input %zu (%s): %s", i, text(port.name()), status.message().c_str()));
    ggml_set_input(tensor);
    inputs_[i].tensor = tensor;
    (*values)[port.value()] = tensor;
    if (devices_.empty()) {
      put_on_host(&inputs_[i]);
      continue;
    }
    const std::vector<int>& readers = device_plan_.readers[static_cast<size_t>(port.value())];
    const auto by_cpu = [&](int place) { return devices_.backend(place) == nullptr; };
    const bool unread = readers.empty() && devices_.runs_prologue();
    if (unread || std::any_of(readers.begin(), readers.end(), by_cpu)) {
      put_on_host(&inputs_[i]);
    } else {
      const int place = readers.empty() ? 1 : readers.front();
      positions_[tensor] = {place, place};
    }
  }
  return {};
}

// Where a tensor is computed, or lies; on the host where nothing else is said.
PreparedGraph::Position PreparedGraph::position_of(const ggml_tensor* tensor) const {
  if (devices_.empty()) return {};
  const auto found = positions_.find(tensor);
  return found != positions_.end() ? found->second : Position();
}

// What the CPU computes first goes into ggml's graph first, in one piece: the devices have all of the rest.
Status PreparedGraph::make_prologue(NodeBuilder* builder, std::vector<ggml_tensor*>* values) {
  std::vector<ggml_tensor*> writes;
  for (size_t i = 0; i < made_.size(); ++i) {
    if (!is_prologue(i)) continue;
    const fb::Node& node = *graph_.nodes()->Get(static_cast<flatbuffers::uoffset_t>(i));
    EXECUTORCH_GGML_TRY(make_node(builder, i, values));
    const bool is_write = op_info(node.op_type()).writes != Writes::No;
    if (is_write) writes.push_back(made_[i]);
    if (!is_write) ggml_build_forward_expand(cgraph_, made_[i]);
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    ggml_tensor* value = (*values)[graph_.outputs()->Get(static_cast<flatbuffers::uoffset_t>(i))->value()];
    const bool computed = value != nullptr && positions_.count(value) != 0 && position_of(value).stage == 0;
    if (computed && devices_.runs_prologue()) EXECUTORCH_GGML_TRY(make_output(i, value));
  }
  for (ggml_tensor* write : writes) ggml_build_forward_expand(cgraph_, write);
  return {};
}

// A node reads the constants that lie at its place. All tensors that it is made of are at its position.
Status PreparedGraph::make_node(NodeBuilder* builder, size_t index, std::vector<ggml_tensor*>* values) {
  const fb::Node& node = *graph_.nodes()->Get(static_cast<flatbuffers::uoffset_t>(index));
  const Position position{device_plan_.stage(index), device_plan_.place(index)};
  for (size_t k = 0; k < size_of(node.inputs()) && !devices_.empty(); ++k) {
    const auto found = copied_.find(node.inputs()->Get(static_cast<flatbuffers::uoffset_t>(k)));
    if (found != copied_.end()) (*values)[found->first] = (*found->second)[static_cast<size_t>(position.place)];
  }
  if constexpr (!kIsSelective) {
    while (next_tensor()) continue;
    last_tensors_.emplace_back(kNoNode, last_tensor_);
  }
  EXECUTORCH_GGML_TRY(builder->build(node, devices_.backend(position.place), devices_.uses_kernels(position.place)));
  made_[index] = (*values)[node.output()];
  const bool writes = op_info(node.op_type()).writes == Writes::Whole && ggml_nelements(made_[index]) > 0;
  if (writes) EXECUTORCH_GGML_TRY(make_state_write(made_[index]));
  if constexpr (!kIsSelective) {
    while (next_tensor()) {
      if (devices_.empty()) continue;
      const bool empty = devices_.runs_prologue() && last_tensor_->buffer == host_buffer();
      positions_[last_tensor_] = empty ? Position() : position;
    }
    last_tensors_.emplace_back(static_cast<int>(index), last_tensor_);
  }
  return {};
}

// Goes on to the tensor that was made after the last one; false where there is none.
bool PreparedGraph::next_tensor() {
  ggml_context* ctx = arena_.context();
  ggml_tensor* next = last_tensor_ == nullptr ? ggml_get_first_tensor(ctx) : ggml_get_next_tensor(ctx, last_tensor_);
  if (next != nullptr) last_tensor_ = next;
  return next != nullptr;
}

Status PreparedGraph::make_nodes(NodeBuilder* builder, std::vector<ggml_tensor*>* values) {
  std::vector<int> depth(values->size(), 0);
  for (size_t i = 0; i < made_.size(); ++i) {
    if (is_prologue(i)) continue;
    const fb::Node& node = *graph_.nodes()->Get(static_cast<flatbuffers::uoffset_t>(i));
    EXECUTORCH_GGML_TRY(make_node(builder, i, values));
    ggml_tensor* made = made_[i];
    if (!devices_.empty() && made->op == GGML_OP_CUSTOM && builder->made_as_said()) {
      custom_.push_back({made, program_.number, program_.bytes, program_.size, static_cast<int64_t>(i),
                         shapes_.exprs().data(), shapes_.exprs().size()});
    }
    int& deep = depth[node.output()];
    for (size_t k = 0; k < size_of(node.inputs()); ++k) {
      const int input = node.inputs()->Get(k);
      if (input >= 0) deep = std::max(deep, depth[input] + 1);
    }
    if (deep > kMaxDepth) {
      ggml_build_forward_expand(cgraph_, made);
      builder->finish_nodes();
      deep = 0;
    }
  }
  return {};
}

// What is written must be ready before the first write, or a later write could read an earlier one's result.
Status PreparedGraph::make_state_write(ggml_tensor* write) {
  ggml_tensor* source = write->src[0];
  if (source->view_src != nullptr || source->op == GGML_OP_NONE) {
    source = write->src[0] = ggml_cont(arena_.context(), source);
  }
  ggml_build_forward_expand(cgraph_, source);
  return {};
}

// States are written when everything that reads them has run, and then all of them: the run is not interrupted any
// more.
void PreparedGraph::add_state_changes(const std::vector<ggml_tensor*>& values) {
  bool commits = !devices_.empty();  // custom nodes may be another device's
  for (size_t i = 0; i < count(graph_.nodes()); ++i) {
    const fb::Node& node = *graph_.nodes()->Get(i);
    const Writes writes = op_info(node.op_type()).writes;
    if (writes == Writes::No) continue;
    if (!commits && writes == Writes::Whole) {
      ggml_tensor* first = ggml_custom_4d(arena_.context(), GGML_TYPE_I8, 1, 1, 1, 1, nullptr, 0, commit, 1, nullptr);
      first->buffer = host_buffer();
      first->data = host_placeholder();
      ggml_build_forward_expand(cgraph_, first);
      commit_ = first;
      commits = true;
    }
    ggml_build_forward_expand(cgraph_, values[node.output()]);
  }
}

// The tensor that can be computed straight into the caller's memory, or null where a copy is needed.
ggml_tensor* PreparedGraph::output_tensor(ggml_tensor* value) const {
  ggml_tensor* root = value->view_src ? value->view_src : value;
  const bool whole = value->view_offs == 0 && ggml_is_contiguous(value) && ggml_is_contiguous(root) &&
                     ggml_nbytes(root) == ggml_nbytes(value);
  const bool computed = root->op != GGML_OP_NONE && root->data == nullptr;
  return whole && computed && devices_.empty() ? root : nullptr;
}

Status PreparedGraph::make_outputs(const std::vector<ggml_tensor*>& values) {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].tensor != nullptr) continue;  // the prologue's
    EXECUTORCH_GGML_TRY(make_output(i, values[graph_.outputs()->Get(i)->value()]));
  }
  return {};
}

Status PreparedGraph::make_output(size_t index, ggml_tensor* value) {
  const fb::Port& port = *graph_.outputs()->Get(static_cast<flatbuffers::uoffset_t>(index));
  Status status = Status::error("its value is made by no node");
  if (value != nullptr) status = port_sizes(shapes_, port, value, &output_sizes_[index]);
  if (!status.ok())
    return Status::error(format("output %zu (%s): %s", index, text(port.name()), status.message().c_str()));
  ggml_tensor* tensor = output_tensor(value);
  if (tensor == nullptr) tensor = ggml_cont(arena_.context(), value);
  ggml_set_output(tensor);
  outputs_[index].tensor = tensor;
  const Position position = position_of(value);
  if (!devices_.empty()) positions_[tensor] = position;
  if (devices_.backend(position.place) == nullptr) put_on_host(&outputs_[index]);
  ggml_build_forward_expand(cgraph_, value);
  ggml_build_forward_expand(cgraph_, tensor);
  return {};
}

// On the CPU the caller's memory is used in place; other devices get and give copies.
void PreparedGraph::put_on_host(Boundary* boundary) {
  boundary->in_place = true;
  boundary->tensor->buffer = host_buffer();
  boundary->tensor->data = host_placeholder();
}

// Views lie where what they show lies; those of the boundary's tensors move with them from run to run.
void PreparedGraph::place_views() {
  std::unordered_map<const ggml_tensor*, Boundary*> boundaries;
  for (std::vector<Boundary>* group : {&inputs_, &outputs_}) {
    for (Boundary& boundary : *group) boundaries.emplace(boundary.tensor, &boundary);
  }
  for (ggml_tensor* t = ggml_get_first_tensor(arena_.context()); t; t = ggml_get_next_tensor(arena_.context(), t)) {
    if (t->view_src == nullptr || t->view_src->data == nullptr) continue;
    if (!devices_.empty() && t->view_src->buffer != host_buffer()) continue;  // the scheduler's to place
    t->buffer = t->view_src->buffer;
    t->data = static_cast<char*>(t->view_src->data) + t->view_offs;
    const auto found = boundaries.find(t->view_src);
    if (found != boundaries.end()) found->second->views.push_back(t);
  }
}

Status PreparedGraph::check_memory(size_t bytes) const {
  if (bytes <= limits_.memory_limit()) return {};
  return Status::error(
      format("this input's sizes need %zu bytes of working memory, more than the %zu that a program may use", bytes,
             limits_.memory_limit()));
}

Status PreparedGraph::plan_on_cpu() {
  const MemoryPlan memory(cgraph_);
  needed_memory_ = memory.size();
  size_t needed = memory.size();
  for (const Boundary& output : outputs_) needed += ggml_nbytes(output.tensor);
  EXECUTORCH_GGML_TRY(check_memory(needed));
  if (memory.size() == 0) {
    memory_.reset();
  } else if (memory_ == nullptr || memory_->size() < memory.size()) {
    ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(memory_of(cpu_->backend()), memory.size());
    if (buffer == nullptr)
      return Status::error(format("no memory for intermediate values of %zu bytes; run smaller inputs", memory.size()));
    memory_ = std::make_shared<WorkingMemory>(buffer);
  }
  if (memory_ != nullptr) memory.apply(memory_->buffer());
  place_views();
  find_own_steps();
  if (kHasGgmlKernels || by_ggml_ == nullptr) return {};
  return Status::error(
      format("node %s (%s) is computed by ggml, whose kernels were left out of this runtime, which was built for other "
             "programs; build it for this one too: executorch-ggml build-runtime --for PROGRAM.pte",
             ggml_get_name(by_ggml_), ggml_op_desc(by_ggml_)));
}

// ggml's walk over a graph sets up threads and memory that kernels of ours do not use.
void PreparedGraph::find_own_steps() {
  for (int i = 0; i < ggml_graph_n_nodes(cgraph_) && by_ggml_ == nullptr; ++i) {
    ggml_tensor* node = ggml_graph_node(cgraph_, i);
    if (is_view(node)) continue;
    KernelCallBase* call = calls_.of(node);
    if (call == nullptr && node != commit_) by_ggml_ = node;
    own_steps_.emplace_back(node, call);
  }
  if (by_ggml_ != nullptr) own_steps_.clear();
}

// False where the run was interrupted.
bool PreparedGraph::run_own_steps() {
  for (const auto& [node, call] : own_steps_) {
    if (call == nullptr) {
      commit_run();
    } else if (!ggml_is_empty(node)) {
      run_kernel(node, 0, 1, call);
    }
    if (run_is_interrupted(nullptr)) return false;
  }
  return true;
}

void PreparedGraph::move_to(const std::shared_ptr<WorkingMemory>& memory) {
  if (memory_ == nullptr || memory_ == memory) return;
  const auto* from = static_cast<const char*>(ggml_backend_buffer_get_base(memory_->buffer()));
  auto* to = static_cast<char*>(ggml_backend_buffer_get_base(memory->buffer()));
  for (ggml_tensor* t = ggml_get_first_tensor(arena_.context()); t; t = ggml_get_next_tensor(arena_.context(), t)) {
    if (t->buffer != memory_->buffer()) continue;
    t->data = to + (static_cast<const char*>(t->data) - from);
    t->buffer = memory->buffer();
  }
  memory_ = memory;
}

// Made again in a forked process, whose backend is another.
Status PreparedGraph::make_plan() {
  if (planned_ == cpu_->backend()) return {};
  if (plan_ != nullptr) ggml_backend_graph_plan_free(cpu_->backend(), std::exchange(plan_, nullptr));
  planned_ = nullptr;
  const auto create = [this] {
    plan_ = ggml_backend_graph_plan_create(cpu_->backend(), cgraph_);
    return true;
  };
  const bool fits = call_guarded(create, [](const char*) { return false; });
  if (!fits) {  // ggml does not tell of how much
    const size_t bytes = memory_ == nullptr ? 0 : memory_->size();
    return Status::error(format(
        "no memory for what ggml's kernels need beside intermediate values of %zu bytes; run smaller inputs", bytes));
  }
  if (plan_ == nullptr) return Status::error("ggml cannot make a plan of this graph");
  planned_ = cpu_->backend();
  return {};
}

Status PreparedGraph::schedule() {
  std::vector<ggml_backend_t> backends = devices_.backends();
  const DeviceCall call(backends);
  backends.push_back(cpu_->scheduled(/*parallel=*/work_ >= kParallelWork));
  const auto graph_size = static_cast<size_t>(ggml_graph_size(cgraph_));
  device_memory_ = MemoryPlan(cgraph_).size();
  EXECUTORCH_GGML_TRY(check_memory(device_memory_));
  sched_ = ggml_backend_sched_new(backends.data(), nullptr, static_cast<int>(backends.size()), graph_size,
                                  /*parallel=*/false, /*op_offload=*/false);
  if (sched_ == nullptr) return Status::error("ggml cannot make a scheduler");
  explain_custom_nodes(true);
  order_views();
  place_views();
  EXECUTORCH_GGML_TRY(place_nodes(backends.back()));
  const std::vector<NodeSources> sources(ggml_graph_nodes(cgraph_),
                                         ggml_graph_nodes(cgraph_) + ggml_graph_n_nodes(cgraph_));
  if (!ggml_backend_sched_alloc_graph(sched_, cgraph_)) {
    return Status::error(format("no memory on the device for intermediate values of %zu bytes", device_memory_));
  }
  for (int place = 1; place <= devices_.size(); ++place) {
    ggml_backend_t backend = devices_.backend(place);
    uses_.push_back({device_name(backend != nullptr ? backend : backends.back()), 0, 0, 0, 0});
  }
  for (const NodeSources& of : sources) count_copies(of.node, of.sources);
  count_splits();
  return {};
}

// Puts stage behind stage, and each view right behind the node that it shows. A view elsewhere can lie among another
// device's nodes, and is handed to it with all that it was computed from: ggml-rpc would send the addresses of custom
// nodes' functions.
void PreparedGraph::order_views() {
  std::unordered_map<const ggml_tensor*, std::vector<ggml_tensor*>> views;  // null: of leaves
  std::vector<ggml_tensor*> computed;
  for (int i = 0; i < ggml_graph_n_nodes(cgraph_); ++i) {
    ggml_tensor* node = ggml_graph_node(cgraph_, i);
    const ggml_tensor* shown = node;
    while (shown != nullptr && is_view(shown)) shown = shown->src[0];
    (shown == node ? computed : views[shown]).push_back(node);
  }
  std::stable_sort(computed.begin(), computed.end(), [&](const ggml_tensor* a, const ggml_tensor* b) {
    return position_of(a).stage < position_of(b).stage;
  });
  ggml_tensor** nodes = ggml_graph_nodes(cgraph_);
  const auto append = [&](const std::vector<ggml_tensor*>& group) {
    nodes = std::copy(group.begin(), group.end(), nodes);
  };
  append(views[nullptr]);
  for (ggml_tensor* node : computed) {
    append({node});
    append(views[node]);
  }
}

// Why the CPU computes a node that the program's devices might have; "" where its device does.
std::string PreparedGraph::reason_for_cpu(const ggml_tensor* node, const Position& position) const {
  if (position.place == kHost) return position.stage == 0 ? kPrologue : "it writes to a state in the host's memory";
  ggml_backend_t device = devices_.backend(position.place);
  if (device == nullptr) return "";
  const char* needs = devices_.custom_nodes() == nullptr ? needs_cpu(node) : nullptr;
  if (needs != nullptr) return needs;
  return ggml_backend_supports_op(device, node) ? "" : "the device does not support " + describe_op(node);
}

// What a device of the list is used for; null for the CPU's memory.
DeviceUse* PreparedGraph::use_of(ggml_backend_dev_t device) {
  for (int place = 1; place <= devices_.size(); ++place) {
    ggml_backend_t backend = devices_.backend(place);
    if (backend != nullptr && ggml_backend_get_device(backend) == device) return &uses_[static_cast<size_t>(place - 1)];
  }
  return nullptr;
}

DeviceUse* PreparedGraph::use_of(const ggml_tensor* tensor) {
  if (tensor->buffer == nullptr) return nullptr;
  return use_of(ggml_backend_buft_get_device(ggml_backend_buffer_get_type(tensor->buffer)));
}

// ggml's scheduler puts a copy in the place of a source that is in memory which the node's device cannot read.
void PreparedGraph::count_copies(ggml_tensor* node, ggml_tensor* const* sources) {
  for (int k = 0; k < GGML_MAX_SRC; ++k) {
    if (node->src[k] == sources[k] || !copies_.insert(node->src[k]).second) continue;
    if (DeviceUse* to = use_of(node->src[k])) to->bytes_to += ggml_nbytes(node->src[k]);
    if (DeviceUse* from = use_of(sources[k])) from->bytes_from += ggml_nbytes(node->src[k]);
  }
}

// The runs of nodes that each place has.
void PreparedGraph::count_splits() {
  ggml_backend_t last = nullptr;
  for (int i = 0; i < ggml_graph_n_nodes(cgraph_); ++i) {
    ggml_tensor* node = ggml_graph_node(cgraph_, i);
    if (is_view(node)) continue;
    ggml_backend_t backend = ggml_backend_sched_get_tensor_backend(sched_, node);
    const int place = position_of(node).place;
    const bool at_home = place != kHost && (devices_.backend(place) == nullptr || devices_.backend(place) == backend);
    if (backend != last && at_home) ++uses_[static_cast<size_t>(place - 1)].splits;
    last = backend;
  }
}

// ggml's scheduler would keep what reads no weights on the CPU, where it puts inputs.
Status PreparedGraph::place_nodes(ggml_backend_t cpu) {
  for (int i = 0; i < ggml_graph_n_nodes(cgraph_); ++i) {
    ggml_tensor* node = ggml_graph_node(cgraph_, i);
    if (is_view(node)) continue;
    const Position position = position_of(node);
    ggml_backend_t device = devices_.backend(position.place);
    std::string reason = reason_for_cpu(node, position);
    const bool takes = device != nullptr && reason.empty();
    if (!reason.empty()) reasons_.emplace(node, std::move(reason));
    const ggml_backend_buffer_t written = written_buffer(node);
    if (!takes && device != nullptr && !devices_.uses_kernels(position.place) && written != nullptr &&
        !ggml_backend_buffer_is_host(written)) {
      return Status::error(format("%s: device %s keeps the state that it writes, but does not support %s to %s",
                                  ggml_get_name(node), device_name(device).c_str(), ggml_op_name(node->op),
                                  describe(node).c_str()));
    }
    ggml_backend_sched_set_tensor_backend(sched_, node, takes ? device : cpu);
    for (ggml_tensor* source : node->src) {
      if (source == nullptr || !takes) continue;
      ggml_tensor* root = source->view_src != nullptr ? source->view_src : source;
      const bool is_input = (root->flags & GGML_TENSOR_FLAG_INPUT) != 0 && root->buffer == nullptr;
      if (is_input && ggml_backend_sched_get_tensor_backend(sched_, root) == nullptr)
        ggml_backend_sched_set_tensor_backend(sched_, root, device);
    }
  }
  return {};
}

void PreparedGraph::explain_custom_nodes(bool add) {
  const devices::CustomNodesFunction explain = devices_.custom_nodes();
  if (explain != nullptr) explain(custom_.data(), custom_.size(), add);
}

// Made for the first run that is observed.
NodeSteps* PreparedGraph::steps_for(NodeObserver* observer) {
  if (kIsSelective || observer == nullptr) return nullptr;
  if (steps_ == nullptr) {
    steps_ = std::make_unique<NodeSteps>(arena_.context(), cgraph_, last_tensors_, graph_, made_,
                                         traced_values(graph_, shapes_, made_));
  }
  return steps_.get();
}

Status PreparedGraph::compute(NodeObserver* observer) {
  const bool scheduled = !kIsSelective && sched_ != nullptr;
  const bool by_steps = !kHasGgmlKernels || (!scheduled && by_ggml_ == nullptr);
  if (!scheduled && !by_steps) EXECUTORCH_GGML_TRY(make_plan());
  NodeSteps* steps = steps_for(observer);
  if (steps != nullptr) steps->begin(observer);
  begin_run(/*is_short=*/work_ < kParallelWork, devices_.runs_prologue() ? &status_ : nullptr,
            scheduled ? nullptr : steps);
  ggml_status result = GGML_STATUS_SUCCESS;
  if (scheduled) {
    if (steps != nullptr) ggml_backend_sched_set_eval_callback(sched_, NodeSteps::on_eval, steps);
    result = ggml_backend_sched_graph_compute(sched_, cgraph_);
    if (steps != nullptr) ggml_backend_sched_set_eval_callback(sched_, nullptr, nullptr);
  } else {
    const Lease lease(cpu_->threads(/*parallel=*/work_ >= kParallelWork));
    const Crew crew(lease.threads() - 1);
    if (by_steps) {
      result = run_own_steps() ? GGML_STATUS_SUCCESS : GGML_STATUS_ABORTED;
    } else {
      result = ggml_backend_graph_plan_compute(planned_, plan_);
    }
  }
  end_run();
  return outcome(result);
}

Status PreparedGraph::outcome(ggml_status result) const {
  if (!status_.ok()) return Status::error(status_.message());
  if (result == GGML_STATUS_ABORTED) return Status::error("the run was interrupted");
  return result == GGML_STATUS_SUCCESS ? Status() : Status::error(format("ggml: %s", ggml_status_to_string(result)));
}

void PreparedGraph::place(void* const* inputs, void* const* outputs) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].in_place) {
      inputs_[i].place(inputs[i]);
    } else if (inputs_[i].tensor->buffer != nullptr) {  // null where nothing reads the input
      ggml_backend_tensor_set(inputs_[i].tensor, inputs[i], 0, ggml_nbytes(inputs_[i].tensor));
    }
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].in_place) outputs_[i].place(outputs[i]);
  }
}

Status PreparedGraph::run(void* const* inputs, void* const* outputs, NodeObserver* observer) {
  const DeviceCall call(devices_.backends());
  status_.clear();
  place(inputs, outputs);
  EXECUTORCH_GGML_TRY(compute(observer));
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].in_place) continue;
    ggml_backend_tensor_get(outputs_[i].tensor, outputs[i], 0, ggml_nbytes(outputs_[i].tensor));
  }
  return {};
}

Status PreparedGraph::run_alone(void* const* inputs, void* const* outputs) {
  if (by_ggml_ != nullptr) return Status::error("ggml's kernels cannot run on this thread alone");
  status_.clear();
  place(inputs, outputs);
  begin_run(/*is_short=*/work_ < kParallelWork);
  const bool whole = run_own_steps();
  end_run();
  return outcome(whole ? GGML_STATUS_SUCCESS : GGML_STATUS_ABORTED);
}

}  // namespace executorch_ggml
