#include "device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "python_host.h"

namespace executorch_ggml::devices {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kMostPlans = 32;  // a device may keep weights for each
constexpr size_t kMostVerdicts = 1 << 13;
constexpr int kMostChanges = 2;  // weights that change more often are inputs

std::atomic<int64_t> next_buffer{1};

// ------------------------------------------------------------------------------------------------- buffers

abi::Buffer& table_of(ggml_backend_buffer_t buffer) { return *reinterpret_cast<abi::Buffer*>(buffer); }

BufferData& data_of(ggml_backend_buffer_t buffer) { return *static_cast<BufferData*>(table_of(buffer).context); }

void free_buffer(ggml_backend_buffer_t buffer) {
  BufferData* data = &data_of(buffer);
  data->device->forget(data);
  if (data->owned) std::free(data->base);
  delete data;
}

void* get_base(ggml_backend_buffer_t buffer) { return data_of(buffer).base; }

void memset_tensor(ggml_backend_buffer_t buffer, ggml_tensor* tensor, uint8_t value, size_t offset, size_t size) {
  std::memset(static_cast<char*>(tensor->data) + offset, value, size);
  ++data_of(buffer).version;
}

void set_tensor(ggml_backend_buffer_t buffer, ggml_tensor* tensor, const void* data, size_t offset, size_t size) {
  std::memcpy(static_cast<char*>(tensor->data) + offset, data, size);
  ++data_of(buffer).version;
}

void get_tensor(ggml_backend_buffer_t, const ggml_tensor* tensor, void* data, size_t offset, size_t size) {
  std::memcpy(data, static_cast<const char*>(tensor->data) + offset, size);
}

void clear_buffer(ggml_backend_buffer_t buffer, uint8_t value) {
  std::memset(data_of(buffer).base, value, table_of(buffer).size);
  ++data_of(buffer).version;
}

// -------------------------------------------------------------------------------------------- buffer types

template <class Type>
Device& device_of_type(ggml_backend_buffer_type_t type) {
  return *static_cast<Device*>(reinterpret_cast<Type*>(type)->context);
}

template <class Type>
void fill_type(Type* type, Device* device) {
  type->get_name = [](ggml_backend_buffer_type_t self) { return device_of_type<Type>(self).name(); };
  type->alloc_buffer = [](ggml_backend_buffer_type_t self, size_t size) {
    return device_of_type<Type>(self).buffer(nullptr, size);
  };
  type->get_alignment = [](ggml_backend_buffer_type_t) { return kAlignment; };
  type->is_host = [](ggml_backend_buffer_type_t) { return true; };
  type->device = device->ggml();
  type->context = device;
}

// ------------------------------------------------------------------------------------------------- devices

Device& device_of(ggml_backend_dev_t device) {
  return *static_cast<Device*>(reinterpret_cast<abi::Device*>(device)->context);
}

void get_props(ggml_backend_dev_t device, ggml_backend_dev_props* props) {
  const Device& self = device_of(device);
  props->name = self.name();
  props->description = self.description();
  self.memory(&props->memory_free, &props->memory_total);
  props->type = GGML_BACKEND_DEVICE_TYPE_GPU;
  props->device_id = nullptr;
  props->caps = {};
  props->caps.buffer_from_host_ptr = true;
}

// ------------------------------------------------------------------------------------------------- streams

struct GraphPlan {
  ggml_cgraph* graph;
  std::shared_ptr<Plan> plan;
  std::vector<const ggml_tensor*> tensors;
};

Device& device_of(ggml_backend_t backend) {
  return *static_cast<Device*>(reinterpret_cast<abi::Backend*>(backend)->context);
}

void make_graph_plan(Device* device, GraphPlan* plan) {
  GraphWords graph = device->words();
  graph.describe(plan->graph);
  plan->plan = device->plan(graph);
  plan->tensors = graph.tensors();
}

ggml_backend_graph_plan_t create_plan(ggml_backend_t backend, const ggml_cgraph* graph) {
  auto* plan = new GraphPlan{const_cast<ggml_cgraph*>(graph), nullptr, {}};
  make_graph_plan(&device_of(backend), plan);
  return plan;
}

void free_plan(ggml_backend_t, ggml_backend_graph_plan_t plan) { delete static_cast<GraphPlan*>(plan); }

void update_plan(ggml_backend_t backend, ggml_backend_graph_plan_t plan, const ggml_cgraph* graph) {
  static_cast<GraphPlan*>(plan)->graph = const_cast<ggml_cgraph*>(graph);
  make_graph_plan(&device_of(backend), static_cast<GraphPlan*>(plan));
}

ggml_status compute_plan(ggml_backend_t backend, ggml_backend_graph_plan_t of_ggml) {
  Device& device = device_of(backend);
  auto* plan = static_cast<GraphPlan*>(of_ggml);
  if (device.outdated(*plan->plan)) make_graph_plan(&device, plan);
  return device.run(*plan->plan, plan->tensors, plan->graph);
}

ggml_status compute_graph(ggml_backend_t backend, ggml_cgraph* graph) {
  GraphPlan plan{graph, nullptr, {}};
  make_graph_plan(&device_of(backend), &plan);
  return device_of(backend).run(*plan.plan, plan.tensors, graph);
}

ggml_guid* guid() {
  static ggml_guid value = {0x65, 0x67, 0x67, 0x6d, 0x2d, 0x70, 0x79, 0x64,
                            0x65, 0x76, 0x69, 0x63, 0x65, 0x2d, 0x30, 0x31};
  return &value;
}

}  // namespace

// --------------------------------------------------------------------------------------------------- plans

Plan::Plan(const Callbacks& callbacks, const GraphWords& graph, std::vector<uint64_t> addresses,
           std::vector<uint8_t> live)
    : callbacks_(callbacks), words_(graph.words()), addresses_(std::move(addresses)), live_(std::move(live)) {
  for (size_t i = 0; i < words_.size(); ++i) {
    const TensorWords& words = words_[i];
    const std::pair<int64_t, int64_t> version(words.buffer, words.version);
    const bool is_new = std::find(constants_.begin(), constants_.end(), version) == constants_.end();
    if (words.role == kConstant && is_new) constants_.push_back(version);
    if (words.role == kNode && words_[words.root].role < kNode) written_.push_back(words.root);
  }
}

Plan::~Plan() {
  const auto forget = callbacks_.forget;
  if (number_ > 0 && forget != nullptr && python_is_alive()) forget(number_);
}

void Plan::make(int64_t device) {
  const auto make = callbacks_.plan;
  if (make == nullptr || !python_is_alive()) return;
  std::vector<TensorWords> words = words_;
  for (size_t i = 0; i < words.size(); ++i) words[i].live = live_[i];
  needed_.resize(words.size());
  auto count = static_cast<int64_t>(needed_.size());
  number_ = make(device, reinterpret_cast<const int64_t*>(words.data()),
                 static_cast<int64_t>(words.size() * kWordsPerTensor), addresses_.data(), needed_.data(), &count);
  needed_.resize(static_cast<size_t>(count));
}

bool Plan::is_of(const GraphWords& graph) const {
  const std::vector<TensorWords>& words = graph.words();
  return words.size() == words_.size() &&
         std::memcmp(words.data(), words_.data(), words.size() * sizeof(TensorWords)) == 0;
}

int Plan::run(const std::vector<const ggml_tensor*>& tensors) const {
  const auto run = callbacks_.run;
  if (interrupted()) return kInterrupted;
  if (number_ == 0 || run == nullptr || !python_is_alive()) return 0;
  std::vector<uint64_t> addresses(needed_.size());
  for (size_t i = 0; i < needed_.size(); ++i) addresses[i] = reinterpret_cast<uint64_t>(tensors[needed_[i]]->data);
  return run(number_, addresses.data());
}

// -------------------------------------------------------------------------------------------------- device

Device::Device(const GgmlHost& host, const Callbacks& callbacks, int64_t number, std::string name,
               std::string description, ggml_backend_reg_t reg)
    : host_(host),
      callbacks_(callbacks),
      number_(number),
      name_(std::move(name)),
      description_(std::move(description)) {
  fill_type(&type_v2_, this);
  fill_type(&type_v3_, this);
  buffer_type_ = host.api_version() == 2 ? reinterpret_cast<ggml_backend_buffer_type_t>(&type_v2_)
                                         : reinterpret_cast<ggml_backend_buffer_type_t>(&type_v3_);
  table_.get_name = [](ggml_backend_dev_t self) { return device_of(self).name(); };
  table_.get_description = [](ggml_backend_dev_t self) { return device_of(self).description(); };
  table_.get_memory = [](ggml_backend_dev_t self, size_t* free, size_t* total) { device_of(self).memory(free, total); };
  table_.get_type = [](ggml_backend_dev_t) { return GGML_BACKEND_DEVICE_TYPE_GPU; };
  table_.get_props = get_props;
  table_.init_backend = [](ggml_backend_dev_t self, const char*) { return device_of(self).open(); };
  table_.get_buffer_type = [](ggml_backend_dev_t self) { return device_of(self).buffer_type(); };
  table_.buffer_from_host_ptr = [](ggml_backend_dev_t self, void* base, size_t size, size_t) {
    return device_of(self).buffer(base, size);
  };
  table_.supports_op = [](ggml_backend_dev_t self, const ggml_tensor* node) { return device_of(self).supports(node); };
  table_.supports_buft = [](ggml_backend_dev_t self, ggml_backend_buffer_type_t type) {
    return type == device_of(self).buffer_type();
  };
  table_.reg = reg;
  table_.context = this;
}

void Device::memory(size_t* free, size_t* total) const {
  uint64_t bytes[2] = {0, 0};
  const auto ask = callbacks_.memory;
  if (ask != nullptr && python_is_alive()) ask(number_, &bytes[0], &bytes[1]);
  *free = static_cast<size_t>(bytes[0]);
  *total = static_cast<size_t>(bytes[1]);
}

ggml_backend_t Device::open() {
  auto* backend = new abi::Backend{};
  backend->guid = guid();
  backend->get_name = [](ggml_backend_t self) { return device_of(self).name(); };
  backend->free = [](ggml_backend_t self) { delete reinterpret_cast<abi::Backend*>(self); };
  backend->graph_plan_create = create_plan;
  backend->graph_plan_free = free_plan;
  backend->graph_plan_update = update_plan;
  backend->graph_plan_compute = compute_plan;
  backend->graph_compute = compute_graph;
  backend->device = ggml();
  backend->context = this;
  return reinterpret_cast<ggml_backend_t>(backend);
}

ggml_backend_buffer_t Device::buffer(void* base, size_t size) {
  const bool owned = base == nullptr;
  if (owned && posix_memalign(&base, kAlignment, std::max(size, kAlignment)) != 0) {
    host_.log(GGML_LOG_LEVEL_ERROR, "%s: no memory for a buffer of %zu bytes", name(), size);
    return nullptr;
  }
  auto* data = new BufferData();
  data->device = this;
  data->base = static_cast<char*>(base);
  data->owned = owned;
  data->number = next_buffer++;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    buffers_[data->number] = data;
  }
  abi::BufferTable table{};
  table.free_buffer = free_buffer;
  table.get_base = get_base;
  table.memset_tensor = memset_tensor;
  table.set_tensor = set_tensor;
  table.get_tensor = get_tensor;
  table.clear = clear_buffer;
  return host_.buffer_init(buffer_type_, table, data, size);
}

// Plans with constants in a buffer go before its memory does.
void Device::forget(BufferData* data) {
  std::list<std::shared_ptr<Plan>> gone;  // let go of when the lock is
  std::lock_guard<std::mutex> lock(mutex_);
  buffers_.erase(data->number);
  for (auto at = plans_.begin(); at != plans_.end();) {
    const auto next = std::next(at);
    if (is_outdated(**at)) gone.splice(gone.end(), plans_, at);
    at = next;
  }
}

BufferData* Device::own_buffer(const ggml_tensor* tensor) const {
  const bool own = tensor->buffer != nullptr && host_.backend_buffer_get_type(tensor->buffer) == buffer_type_;
  return own ? &data_of(tensor->buffer) : nullptr;
}

void Device::constant(const ggml_tensor* tensor, TensorWords* words) const {
  const bool quantized = host_.is_quantized(tensor->type);
  if (tensor->buffer == nullptr) {  // a question about a graph without memory: a quantized leaf will be a weight
    if (quantized && tensor->data == nullptr) words->role = kConstant;
    return;
  }
  BufferData* data = own_buffer(tensor);
  if (data == nullptr) return;
  const abi::Buffer& table = table_of(tensor->buffer);
  if (table.usage != GGML_BACKEND_BUFFER_USAGE_WEIGHTS && table.size != 0) return;
  if (data->changes >= kMostChanges && !quantized) return;
  words->role = kConstant;
  words->buffer = data->number;
  words->version = data->version;
  words->place = static_cast<char*>(tensor->data) - data->base;
}

bool Device::supports(const ggml_tensor* node) {
  if (host_.only_shows(node)) return true;
  GraphWords graph = words();
  graph.describe(node);
  std::vector<TensorWords> words = graph.words();
  for (TensorWords& of_tensor : words) of_tensor.buffer = of_tensor.version = of_tensor.place = 0;
  words.back().live = 1;
  const std::string key(reinterpret_cast<const char*>(words.data()), words.size() * sizeof(TensorWords));
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = verdicts_.find(key);
    if (found != verdicts_.end()) return found->second;
  }
  const auto ask = callbacks_.supports;
  if (ask == nullptr || !python_is_alive()) return false;
  const int verdict = ask(number_, reinterpret_cast<const int64_t*>(words.data()),
                          static_cast<int64_t>(words.size() * kWordsPerTensor));
  if (verdict == kInterrupted) {
    interrupt_python();
    return false;
  }
  const bool yes = verdict == 1;
  std::lock_guard<std::mutex> lock(mutex_);
  if (verdicts_.size() >= kMostVerdicts) verdicts_.clear();
  verdicts_[key] = yes;
  return yes;
}

bool Device::is_outdated(const Plan& plan) const {
  for (const auto& [number, version] : plan.constants()) {
    const auto found = buffers_.find(number);
    if (found == buffers_.end() || found->second->version != version) return true;
  }
  return false;
}

bool Device::outdated(const Plan& plan) {
  std::lock_guard<std::mutex> lock(mutex_);
  return is_outdated(plan);
}

std::shared_ptr<Plan> Device::plan(const GraphWords& graph) {
  std::vector<uint64_t> addresses = graph.addresses();
  std::vector<uint8_t> live;
  std::shared_ptr<Plan> found = known_plan(graph, &addresses, &live);
  if (found) return found;
  auto made = std::make_shared<Plan>(callbacks_, graph, std::move(addresses), std::move(live));
  made->make(number_);
  if (!made->interrupted()) remember(made);
  return made;
}

std::shared_ptr<Plan> Device::known_plan(const GraphWords& graph, std::vector<uint64_t>* addresses,
                                         std::vector<uint8_t>* live) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto at = plans_.begin(); at != plans_.end(); ++at) {
    if (!(*at)->is_of(graph)) continue;
    if (!(*at)->is_at(*addresses)) {
      if (live->empty()) *live = graph.live();
      if (!(*at)->has_live(*live)) continue;
      (*at)->move_to(*addresses);
    }
    plans_.splice(plans_.begin(), plans_, at);
    return plans_.front();
  }
  if (live->empty()) *live = graph.live();
  return nullptr;
}

void Device::remember(const std::shared_ptr<Plan>& plan) {
  std::list<std::shared_ptr<Plan>> gone;  // let go of when the lock is
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [number, version] : plan->constants()) {
    const auto found = buffers_.find(number);
    if (found == buffers_.end()) continue;
    BufferData& data = *found->second;
    if (data.planned >= 0 && data.planned != version) ++data.changes;
    data.planned = version;
  }
  for (auto at = plans_.begin(); at != plans_.end();) {
    const auto next = std::next(at);
    if (is_outdated(**at)) gone.splice(gone.end(), plans_, at);
    at = next;
  }
  plans_.push_front(plan);
  while (plans_.size() > kMostPlans) gone.splice(gone.end(), plans_, std::prev(plans_.end()));
}

ggml_status Device::run(const Plan& plan, const std::vector<const ggml_tensor*>& tensors, ggml_cgraph* graph) {
  const int done = plan.run(tensors);
  if (done == kInterrupted) {
    interrupt_python();
    return GGML_STATUS_ABORTED;
  }
  const ggml_status status = done == 1 ? GGML_STATUS_SUCCESS : run_on_cpu(graph);
  for (int64_t index : plan.written()) {
    if (BufferData* data = own_buffer(tensors[index])) ++data->version;
  }
  return status;
}

ggml_status Device::run_on_cpu(ggml_cgraph* graph) {
  std::lock_guard<std::mutex> lock(cpu_mutex_);
  if (cpu_ == nullptr) {
    ggml_backend_dev_t device = host_.backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    cpu_ = device == nullptr ? nullptr : host_.backend_dev_init(device, nullptr);
    host_.log(GGML_LOG_LEVEL_WARN,
              cpu_ == nullptr ? "%s: a graph failed, and ggml has no CPU backend loaded to compute it"
                              : "%s: a graph failed and is computed on the CPU; so are others, without more of this",
              name());
  }
  return cpu_ == nullptr ? GGML_STATUS_FAILED : host_.backend_graph_compute(cpu_, graph);
}

}  // namespace executorch_ggml::devices
