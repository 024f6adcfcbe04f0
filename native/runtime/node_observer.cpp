#include "node_observer.h"

#include <unordered_map>
#include <utility>

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

NodeSteps::NodeSteps(ggml_context* context, ggml_cgraph* cgraph, const LastTensors& last_tensors,
                     const fb::Graph& graph, const std::vector<ggml_tensor*>& outputs, std::vector<TracedValue> values)
    : values_(std::move(values)) {
  const std::vector<int> nodes = program_nodes(context, cgraph, last_tensors);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const ggml_tensor* computed = ggml_graph_node(cgraph, static_cast<int>(i));
    if (!is_view(computed)) steps_.push_back({computed, nodes[i], {}, nullptr});
  }
  find_values();
  find_joined(graph, outputs);
}

void NodeSteps::find_values() {
  std::unordered_map<const ggml_tensor*, const TracedValue*> found;
  for (const TracedValue& value : values_) found.emplace(value.computed, &value);
  for (NodeStep& step : steps_) {
    const auto value = found.find(step.tensor);
    if (value != found.end() && value->second->node == step.node) step.value = value->second;
  }
}

// A node that ggml's graph lacks is computed by the first one that reads it, or by what computes that.
void NodeSteps::find_joined(const fb::Graph& graph, const std::vector<ggml_tensor*>& outputs) {
  std::unordered_map<const ggml_tensor*, size_t> computed;
  for (size_t i = 0; i < steps_.size(); ++i) computed.emplace(steps_[i].tensor, i);
  constexpr size_t kNowhere = SIZE_MAX;
  std::unordered_map<int, size_t> readers;  // the step that reads a value
  for (size_t i = outputs.size(); i-- > 0;) {
    const fb::Node& node = *graph.nodes()->Get(static_cast<flatbuffers::uoffset_t>(i));
    const ggml_tensor* result = computed_before(outputs[i]);
    const auto step = computed.find(result);
    const auto reader = readers.find(node.output());
    const bool is_joined = step == computed.end() && result != nullptr && reader != readers.end();
    if (is_joined && result == outputs[i] && steps_[reader->second].node != kNoNode)
      steps_[reader->second].joined.insert(steps_[reader->second].joined.begin(), static_cast<int>(i));
    const size_t by = step != computed.end() ? step->second : is_joined ? reader->second : kNowhere;
    for (flatbuffers::uoffset_t k = 0; by != kNowhere && node.inputs() != nullptr && k < node.inputs()->size(); ++k)
      readers[node.inputs()->Get(k)] = by;
  }
}

void NodeSteps::begin(NodeObserver* observer) {
  at_ = 0;
  observer_ = observer;
  observer->begin();
}

void NodeSteps::next() {
  if (at_ == steps_.size()) return;
  observer_->computed(steps_[at_++]);
}

bool NodeSteps::on_eval(ggml_tensor* tensor, bool ask, void* steps) {
  if (!ask && !is_view(tensor)) static_cast<NodeSteps*>(steps)->next();
  return true;
}

}  // namespace executorch_ggml
