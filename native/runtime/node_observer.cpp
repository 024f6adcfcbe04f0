#include "node_observer.h"

#include <unordered_map>

namespace executorch_ggml {

bool is_view(const ggml_tensor* tensor) {
  switch (tensor->op) {
    case GGML_OP_NONE:
    case GGML_OP_RESHAPE:
    case GGML_OP_VIEW:
    case GGML_OP_PERMUTE:
    case GGML_OP_TRANSPOSE:
      return true;
    default:
      return false;
  }
}

NodeSteps::NodeSteps(ggml_context* context, ggml_cgraph* cgraph,
                     const std::vector<std::pair<size_t, const ggml_tensor*>>& last_tensors) {
  std::unordered_map<const ggml_tensor*, int64_t> nodes;
  ggml_tensor* tensor = nullptr;
  for (const auto& [node, last] : last_tensors) {
    while (tensor != last) {
      tensor = tensor == nullptr ? ggml_get_first_tensor(context) : ggml_get_next_tensor(context, tensor);
      nodes[tensor] = static_cast<int64_t>(node);  // SIZE_MAX is -1
    }
  }
  for (int i = 0; i < ggml_graph_n_nodes(cgraph); ++i) {
    const ggml_tensor* computed = ggml_graph_node(cgraph, i);
    if (is_view(computed)) continue;
    const auto found = nodes.find(computed);
    steps_.push_back({computed, found != nodes.end() ? found->second : -1});
  }
}

void NodeSteps::begin(NodeObserver* observer) {
  at_ = 0;
  observer_ = observer;
  observer->begin();
}

void NodeSteps::next() {
  if (at_ == steps_.size()) return;
  const Step& step = steps_[at_++];
  observer_->computed(step.node, step.tensor);
}

bool NodeSteps::on_eval(ggml_tensor* tensor, bool ask, void* steps) {
  if (!ask && !is_view(tensor)) static_cast<NodeSteps*>(steps)->next();
  return true;
}

}  // namespace executorch_ggml
