#include "batch.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "status.h"
#include "thread_pool.h"

namespace executorch_ggml {
namespace {

// The measurements behind these are `benchmarks.models --rows sizes`.

// Bytes of a part's intermediate values that fit in the caches a core has to itself, and its share of the others.
constexpr int64_t kPartMemory = 6 << 20;

// Multiply-adds of a part that amortize the overhead of starting it.
constexpr int64_t kPartWork = 1 << 21;

// Arithmetic intensity of a part, in multiply-adds for each byte of weights: from the first on it is compute-bound
// though each part reads the weights again, below the second it is memory-bound.
constexpr int64_t kWorkOfByte = 64;
constexpr int64_t kLeastWorkOfByte = 8;

// The least utilization of the threads, in percent, where each has parts of its own.
constexpr int64_t kLeastUtilization = 80;

constexpr int kNoSymbol = -1;

template <class T>
size_t size_of(const T* vector) {
  return vector ? vector->size() : 0;
}

int batch_symbol(const fb::Graph& graph) {
  for (flatbuffers::uoffset_t i = 0; i < size_of(graph.symbols()); ++i) {
    const fb::Symbol& symbol = *graph.symbols()->Get(i);
    if (symbol.batch() && symbol.dim() == 0 && symbol.scale() > 0 && symbol.offset() == 0) return static_cast<int>(i);
  }
  return kNoSymbol;
}

int64_t parts_of(int64_t total, int64_t each) { return kernels::ceil_div(total, std::max<int64_t>(1, each)); }

// As many samples as fit in caches, or so many more that there is work enough.
int64_t best_part(const SampleCost& cost) {
  const int64_t in_caches = kPartMemory / std::max<int64_t>(1, static_cast<int64_t>(cost.memory));
  const int64_t for_weights = saturating_mul(kWorkOfByte, static_cast<int64_t>(cost.weights));
  return std::max({int64_t{1}, in_caches, parts_of(std::max(kPartWork, for_weights), cost.work)});
}

bool has_work(int64_t part, const SampleCost& cost) {
  const int64_t for_weights = saturating_mul(kLeastWorkOfByte, static_cast<int64_t>(cost.weights));
  return saturating_mul(part, cost.work) >= std::max(kPartWork / 2, for_weights);
}

Status not_apart() { return Status::error("its samples are not in equal parts of its inputs and outputs"); }

}  // namespace

BatchParts divide_batch(int64_t samples, const SampleCost& cost, int threads) {
  const int64_t share = kernels::ceil_div(samples, threads);
  const int64_t part = std::min(share, best_part(cost));
  if (!has_work(part, cost)) return {samples, 1};
  const int64_t rounds = kernels::ceil_div(share, part);
  const BatchParts parts = {samples, std::min(samples, rounds * threads)};
  const int64_t time = rounds * parts.largest() * threads;
  return samples * 100 >= kLeastUtilization * time ? parts : BatchParts{samples, 1};
}

bool Batch::is_in(const fb::Graph& graph) { return batch_symbol(graph) != kNoSymbol; }

Batch::Batch(const fb::Graph& graph, const PreparedGraphs::Make& make, std::shared_ptr<Cpu> cpu, size_t weights,
             const Limits& limits)
    : graph_(&graph),
      make_(make),
      cpu_(std::move(cpu)),
      weights_(weights),
      memory_limit_(limits.memory_limit()),
      work_limit_(limits.work),
      symbol_(static_cast<size_t>(batch_symbol(graph))),
      least_(std::max<int64_t>(1, graph.symbols()->Get(static_cast<flatbuffers::uoffset_t>(symbol_))->min())),
      inputs_(size_of(graph.inputs())),
      outputs_(size_of(graph.outputs())) {}

// The graphs of a lane for each piece.
struct Batch::Making {
  Batch* batch;
  const std::vector<int64_t>& key;

  static void run(const void* context, int piece, int) {
    const auto& making = *static_cast<const Making*>(context);
    Lane* lane = making.batch->lanes_[static_cast<size_t>(piece)].get();
    lane->status = without_exceptions([&] { return making.batch->make_graphs(lane, making.key); });
  }
};

bool Batch::divide(const std::vector<int64_t>& key) {
  if (key == key_) return divided_;
  key_ = key;
  divided_ = false;
  const Status status = make_ready(key, &divided_);
  divided_ = divided_ && status.ok();
  return divided_;
}

Status Batch::make_ready(const std::vector<int64_t>& key, bool* divided) {
  const int64_t samples = symbol_value(*graph_, key, symbol_);
  if (samples < 2 * least_) return {};
  parts_ = {samples, 1};
  SampleCost cost;
  EXECUTORCH_GGML_TRY(bind(key, samples));
  EXECUTORCH_GGML_TRY(measure(key, &cost));
  if (!by_ggml_) {
    if (!choose_parts(cost, cpu_->threads(/*parallel=*/true))) return {};
    EXECUTORCH_GGML_TRY(make_graphs(lanes_[0].get(), key));
    by_ggml_ = lanes_[0]->is_computed_by_ggml();
  }
  if (by_ggml_ && !choose_parts(cost, 1)) return {};
  EXECUTORCH_GGML_TRY(make_lanes(key));
  *divided = true;
  return {};
}

bool Batch::choose_parts(const SampleCost& cost, int threads) {
  parts_ = divide_batch(parts_.samples, cost, threads);
  return parts_.count > 1 && parts_.smallest() >= least_ && is_within_limits(cost);
}

// How many parts are computed at a time, at most.
int Batch::lanes() const {
  return by_ggml_ ? 1 : static_cast<int>(std::min<int64_t>(parts_.count, cpu_->threads(/*parallel=*/true)));
}

// Each lane builds its own graphs, in parallel: the latency of new sizes does not grow with the number of threads.
Status Batch::make_lanes(const std::vector<int64_t>& key) {
  const int count = lanes();
  while (lanes_.size() < static_cast<size_t>(count)) add_lane();
  const Making making{this, key};
  {
    const Lease lease(count);
    const Crew crew(lease.threads() - 1);
    run_pieces({Making::run, &making, count});
  }
  for (int i = 0; i < count; ++i) EXECUTORCH_GGML_TRY(lanes_[static_cast<size_t>(i)]->status);
  return {};
}

void Batch::add_lane() { lanes_.push_back(std::make_unique<Lane>(PreparedGraphs(*graph_, make_, memory_limit_))); }

bool Batch::Lane::is_computed_by_ggml() const {
  return smallest->computed_by_ggml() != nullptr || largest->computed_by_ggml() != nullptr;
}

Status Batch::make_graphs(Lane* lane, const std::vector<int64_t>& key) const {
  EXECUTORCH_GGML_TRY(find(lane, key, parts_.smallest(), &lane->smallest));
  EXECUTORCH_GGML_TRY(find(lane, key, parts_.largest(), &lane->largest));
  if (lane->smallest != lane->largest && lane->ready.size() < 2) return Status::error("no memory for both");
  if (!fits(*lane->smallest, parts_.smallest()) || !fits(*lane->largest, parts_.largest())) return not_apart();
  lane->inputs.resize(inputs_.size());
  lane->outputs.resize(outputs_.size());
  return {};
}

// The sizes of all samples' inputs and outputs.
Status Batch::bind(const std::vector<int64_t>& key, int64_t samples) {
  Shapes shapes;
  EXECUTORCH_GGML_TRY(bind_sizes(*graph_, key, &shapes));
  if (symbol_value(*graph_, key, symbol_) != samples) return not_apart();
  const auto set = [&](const auto* ports, std::vector<Tensor>* tensors) -> Status {
    for (size_t i = 0; i < tensors->size(); ++i) {
      const fb::Port& port = *ports->Get(static_cast<flatbuffers::uoffset_t>(i));
      Tensor& tensor = (*tensors)[i];
      tensor.sizes.clear();
      EXECUTORCH_GGML_TRY(port_shape(shapes, port, &tensor.sizes));
      int64_t elements = 1;
      for (const int64_t size : tensor.sizes) elements = saturating_mul(elements, size);
      const auto dtype = graph_->values()->Get(static_cast<flatbuffers::uoffset_t>(port.value()))->dtype();
      const auto item = static_cast<int64_t>(ggml_type_size(storage_type(static_cast<DType>(dtype))));
      tensor.bytes = static_cast<size_t>(saturating_mul(elements, item));
    }
    return {};
  };
  EXECUTORCH_GGML_TRY(set(graph_->inputs(), &inputs_));
  return set(graph_->outputs(), &outputs_);
}

Status Batch::measure(const std::vector<int64_t>& key, SampleCost* cost) {
  if (lanes_.empty()) add_lane();
  PreparedGraph* of_least = nullptr;
  std::vector<int64_t> key_of_least;
  EXECUTORCH_GGML_TRY(key_with_symbol(*graph_, key, symbol_, least_, &key_of_least));
  EXECUTORCH_GGML_TRY(lanes_[0]->ready.find(key_of_least, &of_least));
  EXECUTORCH_GGML_TRY(set_sample_bytes(*of_least));
  by_ggml_ = of_least->computed_by_ggml() != nullptr;
  *cost = {of_least->work() / least_, of_least->needed_memory() / static_cast<size_t>(least_), weights_};
  return {};
}

// An input has as many bytes for a few samples as for all, or it is in equal parts as outputs are.
Status Batch::set_sample_bytes(const PreparedGraph& of_least) {
  const auto least = static_cast<size_t>(least_);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const size_t bytes = of_least.input_bytes(i);
    inputs_[i].of_sample = bytes == inputs_[i].bytes ? 0 : bytes / least;
  }
  for (size_t i = 0; i < outputs_.size(); ++i) outputs_[i].of_sample = of_least.output_bytes(i) / least;
  return fits(of_least, least_) ? Status() : not_apart();
}

// Whether a graph of some samples reads and writes their parts of the caller's memory, and these make up all of it.
bool Batch::fits(const PreparedGraph& graph, int64_t samples) const {
  const auto is_part = [&](const Tensor& tensor, size_t bytes) {
    const auto of_sample = static_cast<int64_t>(tensor.of_sample);
    return saturating_mul(of_sample, samples) == static_cast<int64_t>(bytes) &&
           saturating_mul(of_sample, parts_.samples) == static_cast<int64_t>(tensor.bytes);
  };
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const size_t bytes = graph.input_bytes(i);
    const bool shared = inputs_[i].of_sample == 0 && bytes == inputs_[i].bytes;
    if (!shared && !is_part(inputs_[i], bytes)) return false;
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (!is_part(outputs_[i], graph.output_bytes(i))) return false;
  }
  return true;
}

bool Batch::is_within_limits(const SampleCost& cost) const {
  const int64_t at_once = lanes() * parts_.largest();
  int64_t bytes = saturating_mul(at_once, static_cast<int64_t>(cost.memory));
  for (const Tensor& output : outputs_) bytes = saturating_add(bytes, static_cast<int64_t>(output.bytes));
  return static_cast<size_t>(bytes) <= memory_limit_ && saturating_mul(parts_.samples, cost.work) <= work_limit_;
}

Status Batch::find(Lane* lane, const std::vector<int64_t>& key, int64_t samples, PreparedGraph** graph) const {
  std::vector<int64_t> key_of_part;
  EXECUTORCH_GGML_TRY(key_with_symbol(*graph_, key, symbol_, samples, &key_of_part));
  return lane->ready.find(key_of_part, graph);
}

// Parts are taken by lanes as these are free.
struct Batch::Turns {
  const Batch& batch;
  void* const* inputs;
  void* const* outputs;
  mutable std::atomic<int64_t> next{0};
  mutable std::atomic<bool> failed{false};

  void take(Lane* lane) const {
    lane->status = {};
    while (!failed.load()) {
      const int64_t index = next.fetch_add(1);
      if (index >= batch.parts_.count) return;
      lane->status = without_exceptions([&] { return batch.run_part(lane, index, inputs, outputs); });
      if (!lane->status.ok()) failed.store(true);
    }
  }

  static void run(const void* context, int piece, int) {
    const auto& turns = *static_cast<const Turns*>(context);
    turns.take(turns.batch.lanes_[static_cast<size_t>(piece)].get());
  }
};

Status Batch::run_part(Lane* lane, int64_t index, void* const* inputs, void* const* outputs) const {
  const kernels::Range part = parts_.part(index);
  const auto place = [&](const std::vector<Tensor>& tensors, void* const* data, std::vector<void*>* at) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      const size_t offset = tensors[i].of_sample * static_cast<size_t>(part.begin);
      (*at)[i] = offset == 0 ? data[i] : static_cast<char*>(data[i]) + offset;
    }
  };
  place(inputs_, inputs, &lane->inputs);
  place(outputs_, outputs, &lane->outputs);
  PreparedGraph* graph = part.size() == parts_.largest() ? lane->largest : lane->smallest;
  if (by_ggml_) return graph->run(lane->inputs.data(), lane->outputs.data(), nullptr);
  return graph->run_alone(lane->inputs.data(), lane->outputs.data());
}

Status Batch::run(void* const* inputs, void* const* outputs) {
  const Turns turns{*this, inputs, outputs};
  int count = 1;
  if (by_ggml_) {
    turns.take(lanes_[0].get());
  } else {
    const Lease lease(lanes());
    const Crew crew(lease.threads() - 1);
    count = Crew::threads();
    run_pieces({Turns::run, &turns, count});
  }
  for (int i = 0; i < count; ++i) EXECUTORCH_GGML_TRY(lanes_[static_cast<size_t>(i)]->status);
  return {};
}

}  // namespace executorch_ggml
