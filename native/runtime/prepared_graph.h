// One program made ready for one set of input sizes: built, scheduled and allocated once, then run many times.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "arena.h"
#include "cpu.h"
#include "device_list.h"
#include "device_plan.h"
#include "input_key.h"
#include "node_builder.h"
#include "node_observer.h"
#include "resource_limits.h"

namespace executorch_ggml {

// What a program keeps from run to run, as tensors: by index in Graph.constants and Graph.states.
struct Leaves {
  // By index, then by place: where nodes read it. Elsewhere null.
  std::vector<std::vector<ggml_tensor*>> constants;
  std::unordered_map<const ggml_tensor*, StorageLayout> storage;  // of constants that do not lie plain
  // What products (of plain layout) or layers read instead of a constant.
  struct Packed {
    ggml_tensor* constant;
    StorageLayout layout;
    ggml_tensor* tensor;
  };
  std::vector<Packed> packed;
  PackedWeights* kept = nullptr;  // where layers keep what they make of constants to be faster, if they are to
  std::vector<ggml_tensor*> states;
};

// A node of a program and the device that computes it, by ggml's names.
struct NodePlacement {
  std::string node;
  int op = 0;  // its number in the op table
  std::string device;
  std::string reason;  // why it is not on the program's device; "" where it is
};

// What a program's device has, and what crosses in a call.
struct DeviceUse {
  std::string device;
  int splits = 0;         // runs of nodes on it
  size_t leaf_bytes = 0;  // of weights and states in its memory
  size_t bytes_to = 0;    // inputs, and what other devices computed; 0 where the CPU shares its memory
  size_t bytes_from = 0;
};

// Where a program is computed, and what that costs a call.
struct Placement {
  std::vector<DeviceUse> devices;  // the program's
  std::vector<NodePlacement> nodes;
  int splits = 1;  // runs of nodes on one device, with copies between them
};

// A block of the working memory on the CPU: whose result it holds, and from which step to which of a run.
struct MemoryBlock {
  int node = 0;  // of the program
  size_t offset = 0;
  size_t size = 0;
  int first = 0;
  int last = 0;
};

// Where a run's intermediate values lie. Steps are ggml's nodes, each a part of one of the program's.
struct MemoryUse {
  size_t bytes = 0;
  std::vector<int> steps;  // the program's node of each step
  std::vector<MemoryBlock> blocks;
};

// The program that a graph is of: its FlatBuffer, and a number that no other of this library's has.
struct ProgramId {
  const uint8_t* bytes = nullptr;
  size_t size = 0;
  uint64_t number = 0;
};

// Where intermediate values lie. All graphs of a session share one, which grows with them; one of them runs at a time.
class WorkingMemory {
 public:
  explicit WorkingMemory(ggml_backend_buffer_t buffer) : buffer_(buffer) {}
  ~WorkingMemory() { ggml_backend_buffer_free(buffer_); }
  WorkingMemory(const WorkingMemory&) = delete;
  WorkingMemory& operator=(const WorkingMemory&) = delete;

  ggml_backend_buffer_t buffer() const { return buffer_; }
  size_t size() const { return ggml_backend_buffer_get_size(buffer_); }

 private:
  ggml_backend_buffer_t buffer_;
};

class PreparedGraph {
 public:
  // `key` is what input_key gave for the inputs, `shapes` what bind_sizes made of it. `memory`, which may be null, is
  // used if it is large enough.
  static Status make(const fb::Graph& graph, const ProgramId& program, std::vector<int64_t> key, Shapes shapes,
                     const Leaves& leaves, const DeviceList& devices, const DevicePlan& plan, std::shared_ptr<Cpu> cpu,
                     const Limits& limits, std::shared_ptr<WorkingMemory> memory, std::unique_ptr<PreparedGraph>* made);
  ~PreparedGraph();
  PreparedGraph(const PreparedGraph&) = delete;
  PreparedGraph& operator=(const PreparedGraph&) = delete;

  // The last inputs' that it was used for.
  const std::vector<int64_t>& key() const { return key_; }

  // Whether it is right for other inputs too: where their numbers differ in none of the sizes that it is made of, as a
  // position does that matters only rounded. They are its key from then on.
  bool takes(const std::vector<int64_t>& key, const Shapes& shapes);

  const std::vector<int64_t>& output_sizes(size_t index) const { return output_sizes_[index]; }

  // Of the caller's memory, in bytes.
  size_t input_bytes(size_t index) const { return ggml_nbytes(inputs_[index].tensor); }
  size_t output_bytes(size_t index) const { return ggml_nbytes(outputs_[index].tensor); }

  // Multiply-adds of a run.
  int64_t work() const { return work_; }

  // On the CPU alone; null also where there are no intermediate values.
  const std::shared_ptr<WorkingMemory>& memory() const { return memory_; }

  // Lets go of its own for other memory, at least as large. Not while it runs.
  void move_to(const std::shared_ptr<WorkingMemory>& memory);

  // Bytes that intermediate values take on the CPU.
  size_t needed_memory() const { return needed_memory_; }

  // Bytes that intermediate values take on a device, which does not share them.
  size_t device_memory() const { return device_memory_; }

  // A node that ggml computes, whose CPU backend allocates in each run; null where all are this runtime's.
  const ggml_tensor* computed_by_ggml() const { return by_ggml_; }

  // Where each node is computed that computes something.
  Placement placement();

  // Where intermediate values lie, on the CPU alone.
  Status memory_use(MemoryUse* use) const;

  // Run with inputs read from, and outputs written to, these addresses. Allocates nothing. `observer` is told of each
  // node; null: nobody is.
  Status run(void* const* inputs, void* const* outputs, NodeObserver* observer);

  // The same on the calling thread alone, where ggml computes no node.
  Status run_alone(void* const* inputs, void* const* outputs);

 private:
  // A tensor at the boundary and the views whose data moves with it, where it is the caller's memory.
  struct Boundary {
    ggml_tensor* tensor = nullptr;
    bool in_place = false;
    std::vector<ggml_tensor*> views;
    void place(void* data) const;
  };

  // What a tensor runs after, and where: see DevicePlan.
  struct Position {
    int stage = 0;
    int place = kHost;
  };

  PreparedGraph(const fb::Graph& graph, const ProgramId& program, const DeviceList& devices, const DevicePlan& plan,
                const Limits& limits)
      : graph_(graph), program_(program), devices_(devices), device_plan_(plan), limits_(limits) {}
  Status build(const Leaves& leaves);
  Status open_arena(const Leaves& leaves);
  Status make_inputs(NodeBuilder* builder, std::vector<ggml_tensor*>* values);
  void set_leaves(NodeBuilder* builder, const Leaves& leaves, std::vector<ggml_tensor*>* values);
  Status make_prologue(NodeBuilder* builder, std::vector<ggml_tensor*>* values);
  Status make_nodes(NodeBuilder* builder, std::vector<ggml_tensor*>* values);
  Status make_node(NodeBuilder* builder, size_t index, std::vector<ggml_tensor*>* values);
  bool is_prologue(size_t node) const { return !devices_.empty() && device_plan_.stage(node) == 0; }
  Position position_of(const ggml_tensor* tensor) const;
  bool next_tensor();
  Status make_state_write(ggml_tensor* write);
  void add_state_changes(const std::vector<ggml_tensor*>& values);
  Status make_outputs(const std::vector<ggml_tensor*>& values);
  Status make_output(size_t index, ggml_tensor* value);
  ggml_tensor* output_tensor(ggml_tensor* value) const;
  static void put_on_host(Boundary* boundary);
  void place_views();
  Status check_memory(size_t bytes) const;
  Status plan_on_cpu();
  Status compute(NodeObserver* observer);
  NodeSteps* steps_for(NodeObserver* observer);
  Status make_plan();
  void find_own_steps();
  bool run_own_steps();
  void place(void* const* inputs, void* const* outputs);
  Status outcome(ggml_status result) const;
  Status schedule();
  Status place_nodes(ggml_backend_t cpu);
  void order_views();
  std::string reason_for_cpu(const ggml_tensor* node, const Position& position) const;
  void count_copies(ggml_tensor* node, ggml_tensor* const* sources);
  void count_splits();
  DeviceUse* use_of(ggml_backend_dev_t device);
  DeviceUse* use_of(const ggml_tensor* tensor);
  void explain_custom_nodes(bool add);

  const fb::Graph& graph_;
  const ProgramId program_;
  const DeviceList& devices_;
  const DevicePlan& device_plan_;
  const Limits limits_;
  std::vector<int64_t> key_;
  Shapes shapes_;
  KernelCalls calls_;
  RunStatus status_;
  std::shared_ptr<Cpu> cpu_;
  Arena arena_;
  ggml_cgraph* cgraph_ = nullptr;
  const ggml_tensor* commit_ = nullptr;  // the node from which on the run is not interrupted
  // Where kernels of ours compute all nodes they are walked here; a step without a call is the commit.
  std::vector<std::pair<ggml_tensor*, KernelCallBase*>> own_steps_;
  const ggml_tensor* by_ggml_ = nullptr;
  std::vector<ggml_tensor*> made_;                                    // by each of the program's nodes
  std::unordered_map<int, const std::vector<ggml_tensor*>*> copied_;  // values of constants that lie at several places
  std::unordered_map<const ggml_tensor*, Position> positions_;        // of tensors, where there are devices
  ggml_tensor* last_tensor_ = nullptr;                                // of the arena, that next_tensor() has come to
  int64_t work_ = 0;
  size_t needed_memory_ = 0;
  size_t device_memory_ = 0;
  // The CPU alone: memory, and ggml's plan for the backend that it was made with. Else the scheduler, which has both.
  std::shared_ptr<WorkingMemory> memory_;
  ggml_backend_graph_plan_t plan_ = nullptr;
  ggml_backend_t planned_ = nullptr;
  ggml_backend_sched_t sched_ = nullptr;
  std::unordered_map<const ggml_tensor*, std::string> reasons_;  // of nodes that their device does not compute
  std::unordered_set<const ggml_tensor*> copies_;                // between splits
  std::vector<DeviceUse> uses_;                                  // of the list's devices, in its order
  LastTensors last_tensors_;                                     // of the nodes, in the order in which they were built
  std::unique_ptr<NodeSteps> steps_;                             // once a run is observed
  std::vector<devices::CustomNode> custom_;                      // for a device that asks what they mean
  std::vector<Boundary> inputs_;
  std::vector<Boundary> outputs_;
  std::vector<std::vector<int64_t>> output_sizes_;
};

}  // namespace executorch_ggml
