// The native runtime's front: load a program once, run it on any sizes that it allows.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "batch.h"
#include "device_list.h"
#include "device_plan.h"
#include "kernels/scratch.h"
#include "packed_weights.h"
#include "prepared_graphs.h"
#include "readers.h"
#include "states.h"

namespace executorch_ggml {

// Where a program's constants are: the host's named data, a file, arrays.
class ConstantSource {
 public:
  virtual ~ConstantSource() = default;
  // The bytes under a key, for a constant of the type and sizes of `expected`. They must stay where they are as long as
  // the session lives.
  virtual Status find(const std::string& key, const ggml_tensor* expected, const void** data, size_t* size) = 0;
  // The session has no more use for what it found last.
  virtual void release_last() {}
};

// Where outputs go, once their sizes are known.
class OutputSink {
 public:
  virtual ~OutputSink() = default;
  virtual Status place(size_t index, DType dtype, const std::vector<int64_t>& sizes, void** data) = 0;
};

// Where a session with static memory gets it.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // Bytes that begin at a multiple of 64, and stay as long as the session lives; null: there are not so many.
  virtual void* allocate(size_t bytes) = 0;
};

struct SessionOptions {
  std::string device;  // "" and "cpu": the CPU; else ggml's name of a device, or several: see DeviceList
  int threads = 0;     // 0: default_threads()
  // Whether convolutions of 3x3 may be computed by Winograd's algorithm; none: EXECUTORCH_GGML_WINOGRAD, or true.
  std::optional<bool> winograd;
  Limits limits;
  std::shared_ptr<States> states;          // those that it shares with others; null: it keeps its own
  std::shared_ptr<PackedWeights> weights;  // likewise
  // All that runs need is taken from there once, at load, and runs allocate nothing: for programs of fixed sizes on one
  // thread of the CPU. Null: what runs need is allocated as they come.
  MemorySource* memory = nullptr;
};

struct PortInfo {
  std::string name;
  DType dtype;
  int rank;
};

class Session {
 public:
  // `payload` must stay where it is as long as the session lives.
  static Status load(const void* payload, size_t size, ConstantSource* constants, const SessionOptions& options,
                     std::unique_ptr<Session>* session);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const std::vector<PortInfo>& inputs() const { return inputs_; }
  const std::vector<PortInfo>& outputs() const { return outputs_; }

  // One run. Calls from several threads take turns. `observer` is told of each node; null: nobody is.
  Status run(const TensorView* inputs, size_t count, OutputSink* sink, NodeObserver* observer = nullptr);

  // Of the graph that runs, by number.
  const fb::Node& node(int64_t number) const {
    return *graph_->nodes()->Get(static_cast<flatbuffers::uoffset_t>(number));
  }

  // How many nodes the payload's graphs before the one that runs have.
  int64_t nodes_before() const { return nodes_before_; }

  // Where each node is computed for inputs like these; nothing is run.
  Status placement(const TensorView* inputs, size_t count, Placement* placement);

  // Where the intermediate values lie for inputs like these, on the CPU; nothing is run.
  Status memory_use(const TensorView* inputs, size_t count, MemoryUse* use);

  // Put the states back to their first contents, for all sessions that share them.
  void reset() {
    if (kHasStates) states_->reset();
  }

  // How many of them the program names.
  size_t state_count() const { return leaves_.states.size(); }

  // How many sets of sizes are kept ready.
  size_t prepared_count();

 private:
  Session() = default;
  Status open(const void* payload, size_t size, ConstantSource* constants, const SessionOptions& options);
  static Status check(const fb::Program& program);
  Status make_leaves();
  Status plan_devices();
  Status make_constants(ConstantSource* source);
  Status make_states(ConstantSource* source);
  Status make_leaf(int value, const std::string& key, ggml_tensor** tensor);
  Status constant_data(ConstantSource* source, const std::string& key, const ggml_tensor* tensor,
                       const StorageLayout& layout, const void** data);
  Status place_constant(ConstantSource* source, const std::string& key, size_t index, const Readers& readers,
                        StorageLayout layout);
  Status place_on_cpu(ConstantSource* source, const std::string& key, const void* data, const Readers& readers,
                      ggml_tensor* tensor, StorageLayout layout);
  Status place_panels(ConstantSource* source, const std::string& key, const void* data, const Readers& readers,
                      ggml_tensor* tensor, const StorageLayout& layout);
  Status pack(const std::string& key, const void* data, const Readers& readers, ggml_tensor* tensor,
              StorageLayout* layout, bool* only);
  Status use_in_place(ggml_tensor* tensor, const void* data, const StorageLayout& layout);
  std::vector<int> constant_places(size_t index) const;
  ggml_backend_t backend_of(int place) const;
  Status upload(ggml_tensor* tensor, ggml_backend_t device, const void* data, const StorageLayout& layout);
  Status own(ggml_tensor* tensor, ggml_backend_t backend, size_t bytes);
  ggml_tensor* twin_of(const ggml_tensor* tensor);

  // What runs change. A forked process leaves it alone where another thread was about to.
  struct Work {
    explicit Work(PreparedGraphs graphs) : prepared(std::move(graphs)) {}
    PreparedGraphs prepared;
    std::unique_ptr<Batch> batch;  // null where the program's samples are not apart
    std::vector<int64_t> key;
    std::vector<void*> input_data;
    std::vector<void*> output_data;
  };

  Status renew_after_fork();
  std::unique_ptr<Work> new_work() const;
  PreparedGraphs::Make maker() const;
  Status prepare(const TensorView* inputs, size_t count, PreparedGraph** prepared);
  Status plan_memory(MemorySource* memory);
  Status check_static() const;
  Status run_on_zeros(kernels::ScratchSet* scratch);
  Status run_prepared(const TensorView* inputs, size_t count, OutputSink* sink, NodeObserver* observer);

  const fb::Graph* graph_ = nullptr;
  int64_t nodes_before_ = 0;
  ProgramId program_;
  std::shared_ptr<Cpu> cpu_;
  DeviceList devices_;
  DevicePlan plan_;
  std::vector<size_t> leaf_bytes_;  // of weights and states, by place
  Limits limits_;
  Arena arena_;
  size_t state_memory_ = 0;
  bool divides_batches_ = false;
  std::vector<ggml_backend_buffer_t> buffers_;
  Leaves leaves_;
  std::shared_ptr<States> states_;
  std::shared_ptr<PackedWeights> weights_;
  std::vector<PortInfo> inputs_;
  std::vector<PortInfo> outputs_;
  Mutex mutex_;
  uint64_t generation_ = fork_generation();
  std::unique_ptr<Work> work_;
  std::unique_ptr<kernels::ScratchSet> scratch_;  // in static memory; null: that of the threads
};

}  // namespace executorch_ggml
