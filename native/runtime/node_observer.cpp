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

std::vector<int> program_nodes(ggml_context* context, ggml_cgraph* cgraph, const LastTensors& last_tensors) {
  std::unordered_map<const ggml_tensor*, int> nodes;
  ggml_tensor* tensor = nullptr;
  for (const auto& [node, last] : last_tensors) {
    while (tensor != last) {
      tensor = tensor == nullptr ? ggml_get_first_tensor(context) : ggml_get_next_tensor(context, tensor);
      nodes[tensor] = node;
    }
  }
  std::vector<int> found(static_cast<size_t>(ggml_graph_n_nodes(cgraph)), kNoNode);
  for (size_t i = 0; i < found.size(); ++i) {
    const auto node = nodes.find(ggml_graph_node(cgraph, static_cast<int>(i)));
    if (node != nodes.end()) found[i] = node->second;
  }
  return found;
}

NodeSteps::NodeSteps(ggml_context* context, ggml_cgraph* cgraph, const LastTensors& last_tensors) {
  const std::vector<int> nodes = program_nodes(context, cgraph, last_tensors);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const ggml_tensor* computed = ggml_graph_node(cgraph, static_cast<int>(i));
    if (!is_view(computed)) steps_.push_back({computed, nodes[i]});
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
