#include "memory_plan.h"

#include <iterator>
#include <unordered_map>

namespace executorch_ggml {
namespace {

constexpr size_t kLine = 64;  // tensors begin at cache lines, so that threads don't share one of two tensors

size_t rounded_size(const ggml_tensor* tensor) { return (ggml_nbytes(tensor) + kLine - 1) / kLine * kLine; }

ggml_tensor* root_of(ggml_tensor* tensor) { return tensor->view_src != nullptr ? tensor->view_src : tensor; }

bool wants_memory(const ggml_tensor* tensor) {
  return tensor->op != GGML_OP_NONE && tensor->data == nullptr && tensor->buffer == nullptr;
}

// The last node to touch each tensor of those that are meant.
template <typename Predicate>
std::unordered_map<ggml_tensor*, int> last_uses(ggml_cgraph* graph, Predicate is_meant) {
  std::unordered_map<ggml_tensor*, int> last;
  for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
    ggml_tensor* node = ggml_graph_node(graph, i);
    if (is_meant(root_of(node))) last[root_of(node)] = i;
    for (ggml_tensor* source : node->src) {
      if (source != nullptr && is_meant(root_of(source))) last[root_of(source)] = i;
    }
  }
  return last;
}

}  // namespace

void Space::add(size_t offset, size_t size) {
  gaps_.emplace(offset, size);
  by_size_.emplace(size, offset);
}

void Space::drop(Gaps::iterator gap) {
  by_size_.erase({gap->second, gap->first});
  gaps_.erase(gap);
}

size_t Space::take(size_t size) {
  const auto fitting = by_size_.lower_bound({size, 0});
  if (fitting != by_size_.end()) {
    const auto [gap, offset] = *fitting;
    drop(gaps_.find(offset));
    if (gap > size) add(offset + size, gap - size);
    return offset;
  }
  size_t offset = size_;
  if (!gaps_.empty()) {  // a gap at the end is grown
    const auto last = std::prev(gaps_.end());
    if (last->first + last->second == size_) {
      offset = last->first;
      drop(last);
    }
  }
  size_ = offset + size;
  return offset;
}

void Space::give_back(size_t offset, size_t size) {
  auto next = gaps_.lower_bound(offset);
  if (next != gaps_.end() && offset + size == next->first) {
    size += next->second;
    drop(next);
    next = gaps_.lower_bound(offset);
  }
  if (next != gaps_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      offset = before->first;
      size += before->second;
      drop(before);
    }
  }
  add(offset, size);
}

MemoryPlan::MemoryPlan(ggml_cgraph* graph) {
  const auto last = last_uses(graph, wants_memory);
  std::unordered_map<ggml_tensor*, size_t> live;
  const auto release = [&](ggml_tensor* tensor, int i) {
    const auto place = live.find(tensor);
    if (place == live.end() || last.at(tensor) != i) return;
    space_.give_back(place->second, rounded_size(tensor));
    live.erase(place);
  };
  for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
    ggml_tensor* node = ggml_graph_node(graph, i);
    if (node->view_src == nullptr && wants_memory(node) && ggml_nbytes(node) > 0) {
      const size_t offset = space_.take(rounded_size(node));
      live.emplace(node, offset);
      places_.push_back({node, offset});
    }
    for (ggml_tensor* source : node->src) {
      if (source != nullptr) release(root_of(source), i);
    }
    release(root_of(node), i);
  }
}

void MemoryPlan::apply(ggml_backend_buffer_t buffer) const {
  char* base = static_cast<char*>(ggml_backend_buffer_get_base(buffer));
  for (const Place& place : places_) ggml_backend_tensor_alloc(buffer, place.tensor, base + place.offset);
}

std::vector<PlacedTensor> placed_tensors(ggml_cgraph* graph, ggml_backend_buffer_t buffer) {
  const auto is_placed = [buffer](const ggml_tensor* tensor) { return tensor->buffer == buffer; };
  const auto last = last_uses(graph, is_placed);
  const char* base = static_cast<const char*>(ggml_backend_buffer_get_base(buffer));
  std::vector<PlacedTensor> placed;
  for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
    ggml_tensor* node = ggml_graph_node(graph, i);
    if (node->view_src != nullptr || !is_placed(node)) continue;
    const auto offset = static_cast<size_t>(static_cast<const char*>(node->data) - base);
    placed.push_back({node, offset, rounded_size(node), i, last.at(node)});
  }
  return placed;
}

}  // namespace executorch_ggml
