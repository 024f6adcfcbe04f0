// One program made ready for one set of input sizes: built, scheduled and allocated once, then run many times.
#pragma once

#include <memory>
#include <vector>

#include "devices.h"
#include "node_builder.h"

namespace executorch_ggml {

// A tensor of the caller's: dense, outermost dim first.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::F32;
  const int64_t* sizes = nullptr;
  int rank = 0;
};

// What a program keeps from run to run, as tensors: by index in Graph.constants and Graph.states.
struct Leaves {
  std::vector<ggml_tensor*> constants;
  std::vector<ggml_tensor*> states;
};

class PreparedGraph {
 public:
  // `key` is what input_key gave for the inputs.
  static Status make(const fb::Graph& graph, std::vector<int64_t> key, const Leaves& leaves, ggml_backend_t device,
                     std::shared_ptr<Cpu> cpu, std::unique_ptr<PreparedGraph>* made);
  ~PreparedGraph();
  PreparedGraph(const PreparedGraph&) = delete;
  PreparedGraph& operator=(const PreparedGraph&) = delete;

  const std::vector<int64_t>& key() const { return key_; }
  const std::vector<int64_t>& output_sizes(size_t index) const { return output_sizes_[index]; }

  // Run with inputs read from, and outputs written to, these addresses. Allocates nothing.
  Status run(void* const* inputs, void* const* outputs);

 private:
  // A tensor at the boundary and the views whose data moves with it.
  struct Boundary {
    ggml_tensor* tensor = nullptr;
    std::vector<ggml_tensor*> views;
    void place(void* data) const;
  };

  explicit PreparedGraph(const fb::Graph& graph) : graph_(graph) {}
  Status build(const Leaves& leaves);
  Status make_inputs(NodeBuilder* builder, std::vector<ggml_tensor*>* values);
  Status make_nodes(NodeBuilder* builder, const std::vector<ggml_tensor*>& values);
  Status make_outputs(const std::vector<ggml_tensor*>& values);
  ggml_tensor* output_tensor(ggml_tensor* value) const;
  void put_on_host(ggml_tensor* tensor, Boundary* boundary);
  void collect_views();
  Status schedule();
  bool worth_threads() const;

  const fb::Graph& graph_;
  std::vector<int64_t> key_;
  Shapes shapes_;
  KernelCalls calls_;
  RunStatus status_;
  std::shared_ptr<Cpu> cpu_;
  ggml_backend_t device_ = nullptr;  // null: the CPU alone
  ggml_context* ctx_ = nullptr;
  ggml_cgraph* cgraph_ = nullptr;
  ggml_backend_sched_t sched_ = nullptr;
  std::vector<Boundary> inputs_;
  std::vector<Boundary> outputs_;
  std::vector<std::vector<int64_t>> output_sizes_;
};

// Check inputs against the program's ports, and write their sizes one after the other: what a prepared graph is
// found by. Scalars give their value.
Status input_key(const fb::Graph& graph, const TensorView* inputs, size_t count, std::vector<int64_t>* key);

}  // namespace executorch_ggml
