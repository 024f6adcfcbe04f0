// Who is told of each node of a run when it has been computed.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ggml.h"
#include "traced_values.h"

namespace executorch_ggml {

constexpr int kNoNode = -1;

// A tensor of ggml's graph that is computed, and what of the program that is.
struct NodeStep {
  const ggml_tensor* tensor = nullptr;
  int node = kNoNode;                  // whose part it is; kNoNode: of none, as a copy to an output is
  std::vector<int> joined;             // nodes before it that its kernel computes too, in their order
  const TracedValue* value = nullptr;  // that is there now, which the next step may overwrite; or null
};

class NodeObserver {
 public:
  virtual ~NodeObserver() = default;
  // The first node begins: inputs are there, threads are started.
  virtual void begin() = 0;
  virtual void computed(const NodeStep& step) = 0;
};

// Each node that was built, and the last tensor of the context at that time.
using LastTensors = std::vector<std::pair<int, const ggml_tensor*>>;

// The program's node that each of a graph's is a part of; kNoNode for those that are made between nodes.
std::vector<int> program_nodes(ggml_context* context, ggml_cgraph* cgraph, const LastTensors& last_tensors);

// The tensors of a ggml graph that are computed, in order, and the program's nodes that they are part of.
class NodeSteps {
 public:
  // `outputs` has the tensor of each of the program's nodes, `values` those of them to tell of.
  NodeSteps(ggml_context* context, ggml_cgraph* cgraph, const LastTensors& last_tensors, const fb::Graph& graph,
            const std::vector<ggml_tensor*>& outputs, std::vector<TracedValue> values);

  void begin(NodeObserver* observer);

  // The next tensor in order has been computed.
  void next();

  // ggml_backend_sched's eval callback; `steps` is a NodeSteps.
  static bool on_eval(ggml_tensor* tensor, bool ask, void* steps);

 private:
  void find_values();
  void find_joined(const fb::Graph& graph, const std::vector<ggml_tensor*>& outputs);

  std::vector<NodeStep> steps_;
  std::vector<TracedValue> values_;
  size_t at_ = 0;
  NodeObserver* observer_ = nullptr;
};

// Whether a tensor is another's memory, seen otherwise, and nothing is computed.
bool is_view(const ggml_tensor* tensor);

}  // namespace executorch_ggml
