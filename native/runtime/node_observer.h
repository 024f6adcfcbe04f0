// Who is told of each node of a run when it has been computed.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ggml.h"

namespace executorch_ggml {

constexpr int kNoNode = -1;

class NodeObserver {
 public:
  virtual ~NodeObserver() = default;
  // The first node begins: inputs are there, threads are started.
  virtual void begin() = 0;
  // `tensor` has been computed, for a node of the program by its number; kNoNode: for none, as a copy to an output is.
  virtual void computed(int node, const ggml_tensor* tensor) = 0;
};

// Each node that was built, and the last tensor of the context at that time.
using LastTensors = std::vector<std::pair<int, const ggml_tensor*>>;

// The program's node that each of a graph's is a part of; kNoNode for those that are made between nodes.
std::vector<int> program_nodes(ggml_context* context, ggml_cgraph* cgraph, const LastTensors& last_tensors);

// The tensors of a ggml graph that are computed, in order, and the program's nodes that they are part of.
class NodeSteps {
 public:
  NodeSteps(ggml_context* context, ggml_cgraph* cgraph, const LastTensors& last_tensors);

  void begin(NodeObserver* observer);

  // The next tensor in order has been computed.
  void next();

  // ggml_backend_sched's eval callback; `steps` is a NodeSteps.
  static bool on_eval(ggml_tensor* tensor, bool ask, void* steps);

 private:
  struct Step {
    const ggml_tensor* tensor;
    int node;
  };

  std::vector<Step> steps_;
  size_t at_ = 0;
  NodeObserver* observer_ = nullptr;
};

// Whether a tensor is another's memory, seen otherwise, and nothing is computed.
bool is_view(const ggml_tensor* tensor);

}  // namespace executorch_ggml
