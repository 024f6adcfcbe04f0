#include "session.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <unordered_set>

#include "kernels/product/integer_product.h"
#include "kernels/product/panels.h"
#include "payload.h"
#include "readers.h"
#include "rpc.h"
#include "status.h"
#include "targets.h"

namespace executorch_ggml {
namespace {

constexpr uintptr_t kAlignment = 32;  // what ggml's CPU buffers ask for

constexpr size_t kMaxRank = 16;  // what ExecuTorch and numpy take

template <class T>
size_t size_of(const T* vector) {
  return vector ? vector->size() : 0;
}

std::string text(const flatbuffers::String* string) { return string ? string->str() : ""; }

Status check_value(const fb::Graph& graph, int value, const char* what, size_t index) {
  if (value >= 0 && static_cast<size_t>(value) < size_of(graph.values())) return {};
  return Status::error(format("%s %zu refers to value %d, expected 0 or more and less than %zu", what, index, value,
                              size_of(graph.values())));
}

template <class T>
Status check_values(const fb::Graph& graph, const T* entries, const char* what, std::vector<bool>* taken) {
  for (size_t i = 0; i < size_of(entries); ++i) {
    const int value = entries->Get(i)->value();
    EXECUTORCH_GGML_TRY(check_value(graph, value, what, i));
    if (taken == nullptr) continue;
    if ((*taken)[value]) {
      return Status::error(
          format("%s %zu: value %d is another input's, constant's or state's already", what, i, value));
    }
    (*taken)[value] = true;
  }
  return {};
}

template <class T>
Status port_infos(const fb::Graph& graph, const T* ports, const char* what, std::vector<PortInfo>* infos) {
  for (size_t i = 0; i < size_of(ports); ++i) {
    const fb::Port& port = *ports->Get(i);
    const auto dtype = graph.values()->Get(port.value())->dtype();
    if (dtype > fb::DType::F64) {
      const char* fault = static_cast<int>(dtype) > kDTypeMax ? "unknown to this runtime; update executorch-ggml"
                                                              : "which no caller can pass";
      return Status::error(format("%s %zu has element type #%d, %s", what, i, static_cast<int>(dtype), fault));
    }
    if (size_of(port.shape()) > kMaxRank) {
      return Status::error(
          format("%s %zu has %zu dims, expected at most %zu", what, i, size_of(port.shape()), kMaxRank));
    }
    infos->push_back({text(port.name()), static_cast<DType>(dtype), static_cast<int>(size_of(port.shape()))});
  }
  return {};
}

// Whether a build of selected ops and types has all that a graph needs.
[[maybe_unused]] Status check_built(const fb::Graph& graph) {
  std::string missing;
  std::string node_name;
  for (size_t i = 0; i < size_of(graph.nodes()) && missing.empty(); ++i) {
    const fb::Node& node = *graph.nodes()->Get(static_cast<flatbuffers::uoffset_t>(i));
    missing = left_out(graph, node);
    if (!missing.empty()) node_name = "node " + text(node.name()) + ": ";
  }
  if (!kHasStates && size_of(graph.states()) > 0) missing = "state " + text(graph.states()->Get(0)->key());
  for (size_t i = 0; i < size_of(graph.values()) && missing.empty(); ++i) {
    const auto type = static_cast<DType>(graph.values()->Get(static_cast<flatbuffers::uoffset_t>(i))->dtype());
    if (static_cast<int>(type) <= kDTypeMax && !is_built(type)) missing = std::string("type ") + dtype_name(type);
  }
  if (missing.empty()) return {};
  return Status::error(node_name + missing +
                       " was left out of this runtime, which was built for other programs; build it for this "
                       "one too: executorch-ggml build-runtime --for PROGRAM.pte");
}

bool is_output(const fb::Graph& graph, int value) {
  for (size_t i = 0; i < size_of(graph.outputs()); ++i) {
    if (graph.outputs()->Get(static_cast<flatbuffers::uoffset_t>(i))->value() == value) return true;
  }
  return false;
}

Status uses_winograd(const SessionOptions& options, bool* uses) {
  constexpr const char* kVariable = "EXECUTORCH_GGML_WINOGRAD";
  const char* variable = std::getenv(kVariable);
  const std::string choice = variable == nullptr ? "" : variable;
  *uses = options.winograd.value_or(choice != "0");
  if (options.winograd || choice.empty() || choice == "0" || choice == "1") return {};
  return Status::error(format("%s is \"%s\", expected 0 or 1", kVariable, choice.c_str()));
}

}  // namespace

Status Session::load(const void* payload, size_t size, ConstantSource* constants, const SessionOptions& options,
                     std::unique_ptr<Session>* session) {
  return without_exceptions([&]() -> Status {
    std::unique_ptr<Session> made(new Session());
    EXECUTORCH_GGML_TRY(made->open(payload, size, constants, options));
    *session = std::move(made);
    return {};
  });
}

Status Session::open(const void* payload, size_t size, ConstantSource* constants, const SessionOptions& options) {
  limits_ = options.limits;
  weights_ = options.weights ? options.weights : std::make_shared<PackedWeights>();
  bool winograd = true;
  EXECUTORCH_GGML_TRY(uses_winograd(options, &winograd));
  if (winograd) leaves_.kept = weights_.get();
  if (kHasStates) states_ = options.states ? options.states : std::make_shared<States>();
  static std::atomic<uint64_t> programs{0};
  const fb::Program* program = nullptr;
  EXECUTORCH_GGML_TRY(open_payload(payload, size, &program));
  program_ = {static_cast<const uint8_t*>(payload) + kHeaderSize, size - kHeaderSize, ++programs};
  EXECUTORCH_GGML_TRY(check(*program));
  EXECUTORCH_GGML_TRY(devices_.open(options.device));
  graph_ = &graph_for(*program, devices_.runs_prologue() ? Target::Ggml : Target::Cpu);
  for (size_t i = 0; program->graphs()->Get(static_cast<flatbuffers::uoffset_t>(i)) != graph_; ++i) {
    nodes_before_ +=
        static_cast<int64_t>(size_of(program->graphs()->Get(static_cast<flatbuffers::uoffset_t>(i))->nodes()));
  }
  if constexpr (kIsSelective) EXECUTORCH_GGML_TRY(check_built(*graph_));
  EXECUTORCH_GGML_TRY(port_infos(*graph_, graph_->inputs(), "input", &inputs_));
  EXECUTORCH_GGML_TRY(port_infos(*graph_, graph_->outputs(), "output", &outputs_));
  if (options.memory != nullptr && options.threads > 1) {
    return Status::error(format("static memory is for one thread, and %d are asked for", options.threads));
  }
  const int threads = options.memory != nullptr ? 1 : options.threads;
  EXECUTORCH_GGML_TRY(Cpu::open(threads, /*beside_device=*/!devices_.empty(), &cpu_));
  EXECUTORCH_GGML_TRY(make_leaves());
  EXECUTORCH_GGML_TRY(plan_devices());
  EXECUTORCH_GGML_TRY(make_constants(constants));
  if constexpr (kHasStates) EXECUTORCH_GGML_TRY(make_states(constants));
  divides_batches_ = devices_.empty() && options.memory == nullptr && state_count() == 0;
  work_ = new_work();
  return options.memory != nullptr ? plan_memory(options.memory) : Status();
}

std::unique_ptr<Session::Work> Session::new_work() const {
  const size_t limit = limits_.memory_limit();
  const size_t memory = limit - std::min(limit, state_memory_);
  auto work = std::make_unique<Work>(PreparedGraphs(*graph_, maker(), memory));
  if (kHasBatches && divides_batches_ && Batch::is_in(*graph_)) {
    work->batch = std::make_unique<Batch>(*graph_, maker(), cpu_, leaf_bytes_[kHost], limits_);
  }
  work->input_data.resize(inputs_.size());
  work->output_data.resize(outputs_.size());
  return work;
}

PreparedGraphs::Make Session::maker() const {
  return [this](std::vector<int64_t> key, Shapes shapes, std::shared_ptr<WorkingMemory> memory,
                std::unique_ptr<PreparedGraph>* made) {
    return PreparedGraph::make(*graph_, program_, std::move(key), std::move(shapes), leaves_, devices_, plan_, cpu_,
                               limits_, std::move(memory), made);
  };
}

// What another thread was changing when the process was forked may be in any condition, and schedulers keep to threads
// that are gone: neither is used again, nor freed.
Status Session::renew_after_fork() {
  const bool interrupted = mutex_.take_interrupted();
  if (generation_ == fork_generation()) return {};
  generation_ = fork_generation();
  if (interrupted || !devices_.empty()) {
    (void)work_.release();
    work_ = new_work();
  }
  return cpu_->renew();
}

size_t Session::prepared_count() {
  std::lock_guard<Mutex> lock(mutex_);
  return work_->prepared.size() + (work_->batch != nullptr ? work_->batch->prepared_count() : 0);
}

Session::~Session() {
  work_.reset();
  for (ggml_backend_buffer_t buffer : buffers_) free_buffer(buffer);
}

Status Session::check(const fb::Program& program) {
  for (size_t i = 0; i < size_of(program.graphs()); ++i) {
    const fb::Graph& graph = *program.graphs()->Get(static_cast<flatbuffers::uoffset_t>(i));
    std::vector<bool> taken(size_of(graph.values()), false);
    EXECUTORCH_GGML_TRY(check_values(graph, graph.inputs(), "input", &taken));
    EXECUTORCH_GGML_TRY(check_values(graph, graph.constants(), "constant", &taken));
    EXECUTORCH_GGML_TRY(check_values(graph, graph.states(), "state", &taken));
    EXECUTORCH_GGML_TRY(check_values(graph, graph.outputs(), "output", nullptr));
    EXECUTORCH_GGML_TRY(Shapes::check(graph));
    if constexpr (!kIsSelective) EXECUTORCH_GGML_TRY(check_traced(graph));
  }
  if (kIsSelective) return {};  // which reads one graph, and no values of the traced program
  EXECUTORCH_GGML_TRY(check_targets(program));
  return check_same_ports(program);
}

Status Session::make_leaf(int value, const std::string& key, ggml_tensor** tensor) {
  Shapes fixed;  // constants and states have no symbolic dims
  Dims ne{};
  const fb::Value& declared = *graph_->values()->Get(value);
  Status status = fixed.sizes(declared.ne(), &ne);
  if (status.ok()) status = check_value(declared, ne, limits_.memory_limit());
  if (!status.ok()) return Status::error(key + ": " + status.message());
  const ggml_type type = storage_type(static_cast<DType>(declared.dtype()));
  *tensor = ggml_new_tensor_4d(arena_.context(), type, ne[0], ne[1], ne[2], ne[3]);
  ggml_set_name(*tensor, key.c_str());
  return {};
}

Status Session::constant_data(ConstantSource* source, const std::string& key, const ggml_tensor* tensor,
                              const StorageLayout& layout, const void** data) {
  size_t size = 0;
  EXECUTORCH_GGML_TRY(source->find(key, tensor, data, &size));
  const size_t expected = stored_bytes(layout, tensor);
  if (size == expected) return {};
  return Status::error(
      format("constant %s: %zu bytes, expected %zu for %s", key.c_str(), size, expected, describe(tensor).c_str()));
}

Status Session::own(ggml_tensor* tensor, ggml_backend_t backend, size_t bytes) {
  const size_t alone = ggml_backend_buft_get_alloc_size(memory_of(backend), tensor);
  const size_t size = std::max(alone, bytes);
  ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(memory_of(backend), std::max<size_t>(size, 1));
  if (buffer == nullptr) return Status::error(format("no memory for %s of %zu bytes", ggml_get_name(tensor), size));
  buffers_.push_back(buffer);
  ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
  const ggml_status status = ggml_backend_tensor_alloc(buffer, tensor, ggml_backend_buffer_get_base(buffer));
  return status == GGML_STATUS_SUCCESS ? Status() : Status::error(format("no memory for %s", ggml_get_name(tensor)));
}

// The CPU reads constants where they are, in their layout; data that is not aligned needs a copy.
Status Session::use_in_place(ggml_tensor* tensor, const void* data, const StorageLayout& layout) {
  if (reinterpret_cast<uintptr_t>(data) % kAlignment == 0) {
    tensor->buffer = host_buffer();
    tensor->data = const_cast<void*>(data);  // no node writes to a constant: only states are written to
    return {};
  }
  const size_t bytes = stored_bytes(layout, tensor);
  EXECUTORCH_GGML_TRY(own(tensor, cpu_->backend(), bytes));
  std::memcpy(tensor->data, data, bytes);
  return {};
}

// A copy, which is plain.
Status Session::upload(ggml_tensor* tensor, ggml_backend_t device, const void* data, const StorageLayout& layout) {
  const DeviceCall call(device);
  EXECUTORCH_GGML_TRY(own(tensor, device, 0));
  if (layout.kind == Storage::Plain) {
    ggml_backend_tensor_set(tensor, data, 0, ggml_nbytes(tensor));
    return {};
  }
  std::vector<uint8_t> plain(ggml_nbytes(tensor));
  unpack(layout, tensor, data, plain.data());
  ggml_backend_tensor_set(tensor, plain.data(), 0, plain.size());
  return {};
}

ggml_tensor* Session::twin_of(const ggml_tensor* tensor) {
  ggml_tensor* twin = ggml_dup_tensor(arena_.context(), tensor);
  ggml_set_name(twin, ggml_get_name(tensor));
  return twin;
}

// Packed forms of a plain constant that the CPU computes with. `*only` says that nodes read nothing else: then the
// tensor itself is packed, in `*layout`, else twins are. Kernels would pack what is plain at each run.
Status Session::pack(const std::string& key, const void* data, const Readers& readers, ggml_tensor* tensor,
                     StorageLayout* layout, bool* only) {
  const bool layers = !readers.layers.empty();
  const bool quantized = ggml_is_quantized(tensor->type);
  const bool matrix = tensor->ne[2] == 1 && tensor->ne[3] == 1;
  const auto packed_tensor = [&](bool others) { return others ? twin_of(tensor) : tensor; };
  if (kHasQuantizedTypes && readers.as_matrix && quantized && matrix) {
    const bool rows_of_panels = kernels::panel_product(tensor->type) != nullptr;
    ggml_tensor* packed = packed_tensor((rows_of_panels ? readers.otherwise : readers.read_plain()) || layers);
    bool done = false;
    EXECUTORCH_GGML_TRY(weights_->pack(key, data, packed, &done));
    if (done && packed != tensor) leaves_.packed.push_back({tensor, {}, packed});
    *only = done && packed == tensor;
  }
  for (const StorageLayout& wanted : readers.layers) {
    if (!check_storage(wanted, tensor).ok()) continue;  // the layer will say so
    ggml_tensor* packed = packed_tensor(readers.read_plain() || readers.as_matrix || readers.layers.size() > 1);
    bool done = false;
    EXECUTORCH_GGML_TRY(weights_->pack_layer(key, wanted, data, packed, &done));
    if (done && packed != tensor) leaves_.packed.push_back({tensor, wanted, packed});
    *only = done && packed == tensor;
    if (*only) *layout = wanted;
  }
  return {};
}

// What the CPU reads is used in place or packed. If a constant is read packed alone, the program's own is freed; if it
// is read otherwise too, as an embedding's that is the head's as well, it stays. Beside other devices the CPU computes
// their graph, whose products read plain weights.
Status Session::place_on_cpu(ConstantSource* source, const std::string& key, const void* data, const Readers& readers,
                             ggml_tensor* tensor, StorageLayout layout) {
  if (!devices_.empty() && layout.kind != Storage::Plain) return upload(tensor, cpu_->backend(), data, layout);
  if (layout.kind == Storage::Panels) return place_panels(source, key, data, readers, tensor, layout);
  bool only_packed = false;
  if (devices_.empty() && layout.kind == Storage::Plain) {
    EXECUTORCH_GGML_TRY(pack(key, data, readers, tensor, &layout, &only_packed));
  }
  if (layout.kind != Storage::Plain) leaves_.storage[tensor] = layout;
  if (!only_packed) return use_in_place(tensor, data, layout);
  source->release_last();
  return {};
}

// Panels are used in place by products and get_rows. Where the CPU has no such products, or something else reads the
// matrix, it is unpacked, and packed as the CPU wants it.
Status Session::place_panels(ConstantSource* source, const std::string& key, const void* data, const Readers& readers,
                             ggml_tensor* tensor, const StorageLayout& layout) {
  if (kernels::panel_product(tensor->type) != nullptr && readers.read_panels()) {
    EXECUTORCH_GGML_TRY(use_in_place(tensor, data, layout));
    kernels::mark_panels(tensor);
    leaves_.storage[tensor] = layout;
    return {};
  }
  std::vector<uint8_t> plain(ggml_nbytes(tensor));
  unpack(layout, tensor, data, plain.data());
  StorageLayout unpacked;
  bool only_packed = false;
  EXECUTORCH_GGML_TRY(pack(key, plain.data(), readers, tensor, &unpacked, &only_packed));
  source->release_last();
  if (only_packed) return {};
  EXECUTORCH_GGML_TRY(own(tensor, cpu_->backend(), plain.size()));
  std::memcpy(tensor->data, plain.data(), plain.size());
  return {};
}

// Each place gets what its nodes read: one tensor for all that the CPU computes, and a copy on each device.
Status Session::place_constant(ConstantSource* source, const std::string& key, size_t index, const Readers& readers,
                               StorageLayout layout) {
  std::vector<ggml_tensor*>& places = leaves_.constants[index];
  ggml_tensor* tensor = places[kHost];
  const void* data = nullptr;
  EXECUTORCH_GGML_TRY(constant_data(source, key, tensor, layout, &data));
  if (ggml_nbytes(tensor) == 0) {
    tensor->buffer = host_buffer();
    tensor->data = host_placeholder();
    std::fill(places.begin(), places.end(), tensor);
    return {};
  }
  places[kHost] = nullptr;
  ggml_tensor* on_cpu = nullptr;
  for (const int place : constant_places(index)) {
    ggml_backend_t device = devices_.backend(place);
    ggml_tensor*& at = places[static_cast<size_t>(place)];
    leaf_bytes_[static_cast<size_t>(place)] += ggml_nbytes(tensor);
    if (device != nullptr) {
      at = twin_of(tensor);
      EXECUTORCH_GGML_TRY(upload(at, device, data, layout));
      continue;
    }
    if (on_cpu == nullptr) EXECUTORCH_GGML_TRY(place_on_cpu(source, key, data, readers, tensor, layout));
    at = on_cpu = tensor;
  }
  return {};
}

// The places of the nodes that read a constant; where none does it is an output, or nothing.
std::vector<int> Session::constant_places(size_t index) const {
  if (kIsSelective) return {kHost};
  const int value = graph_->constants()->Get(static_cast<flatbuffers::uoffset_t>(index))->value();
  const std::vector<int>& readers = plan_.readers[static_cast<size_t>(value)];
  if (!readers.empty()) return readers;
  return {devices_.empty() || devices_.runs_prologue() ? kHost : 1};
}

// Descriptors of all constants and states, which have no memory yet.
Status Session::make_leaves() {
  const auto places = static_cast<size_t>(devices_.size() + 1);
  size_t leaves = (places + 1) * size_of(graph_->constants()) + size_of(graph_->states());
  for (const Readers& of_value : readers_of_values(*graph_)) leaves += of_value.layers.size();
  EXECUTORCH_GGML_TRY(arena_.open(ggml_tensor_overhead() * (leaves + 1)));
  for (size_t i = 0; i < size_of(graph_->constants()); ++i) {
    const fb::Constant& constant = *graph_->constants()->Get(static_cast<flatbuffers::uoffset_t>(i));
    leaves_.constants.emplace_back(places, nullptr);
    EXECUTORCH_GGML_TRY(make_leaf(constant.value(), "constant " + text(constant.key()), &leaves_.constants[i][kHost]));
  }
  for (size_t i = 0; i < size_of(graph_->states()); ++i) {
    const fb::State& state = *graph_->states()->Get(static_cast<flatbuffers::uoffset_t>(i));
    leaves_.states.push_back(nullptr);
    EXECUTORCH_GGML_TRY(make_leaf(state.value(), "state " + text(state.key()), &leaves_.states[i]));
  }
  return {};
}

// States that other methods share are where these have put them.
Status Session::plan_devices() {
  leaf_bytes_.resize(static_cast<size_t>(devices_.size() + 1), 0);
  if (kIsSelective) return {};
  std::vector<size_t> bytes(size_of(graph_->values()), 0);
  for (size_t i = 0; i < leaves_.constants.size(); ++i) {
    const auto at = static_cast<flatbuffers::uoffset_t>(i);
    bytes[static_cast<size_t>(graph_->constants()->Get(at)->value())] = ggml_nbytes(leaves_.constants[i][kHost]);
  }
  std::vector<int> states(leaves_.states.size(), kNowhere);
  for (size_t i = 0; i < states.size(); ++i) {
    const fb::State& state = *graph_->states()->Get(static_cast<flatbuffers::uoffset_t>(i));
    bytes[static_cast<size_t>(state.value())] = ggml_nbytes(leaves_.states[i]);
    const ggml_backend_buffer_type_t memory = states_->memory_of(text(state.key()));
    for (int place = kHost; place <= devices_.size() && memory != nullptr; ++place) {
      if (memory_of(backend_of(place)) == memory) states[i] = place;
    }
  }
  plan_ = executorch_ggml::plan_devices(*graph_, devices_, bytes, states);
  std::vector<size_t> needed = leaf_bytes_;
  for (size_t i = 0; i < leaves_.constants.size(); ++i) {
    for (const int place : constant_places(i)) {
      needed[static_cast<size_t>(place)] += ggml_nbytes(leaves_.constants[i][kHost]);
    }
  }
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i] == kNowhere) needed[static_cast<size_t>(plan_.states[i])] += ggml_nbytes(leaves_.states[i]);
  }
  return devices_.check_memory(needed);
}

ggml_backend_t Session::backend_of(int place) const {
  ggml_backend_t device = devices_.backend(place);
  return device != nullptr ? device : cpu_->backend();
}

Status Session::make_constants(ConstantSource* source) {
  const std::vector<Readers> readers = readers_of_values(*graph_);
  for (size_t i = 0; i < leaves_.constants.size(); ++i) {
    const fb::Constant& constant = *graph_->constants()->Get(static_cast<flatbuffers::uoffset_t>(i));
    const std::string key = text(constant.key());
    const StorageLayout layout{static_cast<Storage>(constant.storage()), constant.groups()};
    const Status fits = check_storage(layout, leaves_.constants[i][kHost]);
    if (!fits.ok()) return Status::error("constant " + key + ": " + fits.message());
    if (layout.kind != Storage::Plain && is_output(*graph_, constant.value())) {
      return Status::error("constant " + key + ": an output, which must be stored plain");
    }
    EXECUTORCH_GGML_TRY(place_constant(source, key, i, readers[constant.value()], layout));
  }
  return {};
}

Status Session::make_states(ConstantSource* source) {
  std::unordered_set<std::string> names;
  for (size_t i = 0; i < size_of(graph_->states()); ++i) {
    const fb::State& state = *graph_->states()->Get(static_cast<flatbuffers::uoffset_t>(i));
    const std::string name = text(state.key());
    if (!names.insert(name).second) return Status::error("state " + name + " is declared twice");
    ggml_tensor* tensor = leaves_.states[i];
    const void* data = nullptr;
    if (state.initial() && state.initial()->size() > 0) {
      EXECUTORCH_GGML_TRY(constant_data(source, state.initial()->str(), tensor, StorageLayout(), &data));
    }
    state_memory_ += ggml_nbytes(tensor);  // each is within the limit, so this does not wrap
    if (state_memory_ > limits_.memory_limit()) {
      return Status::error(format("the states up to %s need %zu bytes, more than the %zu that a program may use",
                                  name.c_str(), state_memory_, limits_.memory_limit()));
    }
    const auto dtype = static_cast<DType>(graph_->values()->Get(state.value())->dtype());
    const int place = plan_.state(i);
    EXECUTORCH_GGML_TRY(states_->attach(name, dtype, data, backend_of(place), tensor));
    leaf_bytes_[static_cast<size_t>(place)] += ggml_nbytes(tensor);
  }
  return {};
}

Status Session::prepare(const TensorView* inputs, size_t count, PreparedGraph** prepared) {
  EXECUTORCH_GGML_TRY(input_key(*graph_, inputs, count, &work_->key));
  return work_->prepared.find(work_->key, prepared);
}

Status Session::run(const TensorView* inputs, size_t count, OutputSink* sink, NodeObserver* observer) {
  std::lock_guard<Mutex> lock(mutex_);
  return without_exceptions([&]() -> Status {
    EXECUTORCH_GGML_TRY(renew_after_fork());
    const kernels::ScratchSet::Use use(scratch_.get());
    return run_prepared(inputs, count, sink, observer);
  });
}

Status Session::placement(const TensorView* inputs, size_t count, Placement* placement) {
  std::lock_guard<Mutex> lock(mutex_);
  return without_exceptions([&]() -> Status {
    EXECUTORCH_GGML_TRY(renew_after_fork());
    PreparedGraph* prepared = nullptr;
    EXECUTORCH_GGML_TRY(prepare(inputs, count, &prepared));
    *placement = prepared->placement();
    for (size_t i = 0; i < placement->devices.size(); ++i) {
      placement->devices[i].leaf_bytes = leaf_bytes_[devices_.empty() ? kHost : i + 1];
    }
    return {};
  });
}

Status Session::memory_use(const TensorView* inputs, size_t count, MemoryUse* use) {
  std::lock_guard<Mutex> lock(mutex_);
  return without_exceptions([&]() -> Status {
    EXECUTORCH_GGML_TRY(renew_after_fork());
    PreparedGraph* prepared = nullptr;
    EXECUTORCH_GGML_TRY(prepare(inputs, count, &prepared));
    return prepared->memory_use(use);
  });
}

// An observer is told of the nodes of the whole batch.
Status Session::run_prepared(const TensorView* inputs, size_t count, OutputSink* sink, NodeObserver* observer) {
  EXECUTORCH_GGML_TRY(input_key(*graph_, inputs, count, &work_->key));
  Batch* batch = kHasBatches && observer == nullptr ? work_->batch.get() : nullptr;
  const bool by_parts = batch != nullptr && batch->divide(work_->key);
  PreparedGraph* whole = nullptr;
  if (!by_parts) EXECUTORCH_GGML_TRY(work_->prepared.find(work_->key, &whole));
  for (size_t i = 0; i < count; ++i) work_->input_data[i] = inputs[i].data;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const std::vector<int64_t>& sizes = by_parts ? batch->output_sizes(i) : whole->output_sizes(i);
    EXECUTORCH_GGML_TRY(sink->place(i, outputs_[i].dtype, sizes, &work_->output_data[i]));
  }
  if (by_parts) return batch->run(work_->input_data.data(), work_->output_data.data());
  std::unique_lock<Mutex> states;
  if (kHasStates && state_count() > 0) {
    states = std::unique_lock<Mutex>(states_->mutex());
    EXECUTORCH_GGML_TRY(states_->check_whole());
  }
  return whole->run(work_->input_data.data(), work_->output_data.data(), observer);
}

}  // namespace executorch_ggml
