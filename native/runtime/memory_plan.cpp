#include "memory_plan.h"

#include <algorithm>
#include <cstdint>
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

// Orders tensors, which are given by index, by offset.
struct ByOffset {
  const std::vector<PlacedTensor>& tensors;

  bool operator()(size_t a, size_t b) const { return tensors[a].offset < tensors[b].offset; }
};

// Whether two tensors are live at the same node.
bool overlap(const PlacedTensor& a, const PlacedTensor& b) { return a.first <= b.last && b.first <= a.last; }

// The tensors that have an offset, by lifetime.
class Timeline {
 public:
  Timeline(const std::vector<PlacedTensor>& tensors, int nodes)
      : tensors_(tensors), spans_(static_cast<size_t>(nodes / kSpan) + 1) {}

  void add(size_t tensor) {
    const PlacedTensor& added = tensors_[tensor];
    for (size_t i = span_of(added.first); i <= span_of(added.last); ++i) spans_[i].push_back(tensor);
    by_offset_.insert(std::upper_bound(by_offset_.begin(), by_offset_.end(), tensor, ByOffset{tensors_}), tensor);
  }

  // Those whose lifetimes overlap with a tensor's, by offset.
  std::vector<size_t> overlapping(const PlacedTensor& tensor) const {
    const size_t first = span_of(tensor.first);
    const size_t last = span_of(tensor.last);
    size_t near = 0;
    for (size_t i = first; i <= last; ++i) near += spans_[i].size();
    std::vector<size_t> found;
    if (near >= by_offset_.size()) {  // as where many have long lifetimes
      std::copy_if(by_offset_.begin(), by_offset_.end(), std::back_inserter(found),
                   [&](size_t other) { return overlap(tensors_[other], tensor); });
      return found;
    }
    for (size_t i = first; i <= last; ++i) {
      for (const size_t other : spans_[i]) {
        const bool is_new = i == first || i == span_of(tensors_[other].first);
        if (is_new && overlap(tensors_[other], tensor)) found.push_back(other);
      }
    }
    std::sort(found.begin(), found.end(), ByOffset{tensors_});
    return found;
  }

 private:
  static constexpr int kSpan = 32;  // nodes, more than most lifetimes

  static size_t span_of(int node) { return static_cast<size_t>(node / kSpan); }

  const std::vector<PlacedTensor>& tensors_;
  std::vector<std::vector<size_t>> spans_;
  std::vector<size_t> by_offset_;
};

// The offset of the smallest gap that a tensor fits into, or of the end of all whose lifetimes overlap with its own.
size_t offset_for(const PlacedTensor& tensor, const std::vector<PlacedTensor>& tensors, const Timeline& timeline) {
  size_t smallest = SIZE_MAX;
  size_t begin = 0;
  size_t end = 0;  // of those before
  for (const size_t index : timeline.overlapping(tensor)) {
    const PlacedTensor& other = tensors[index];
    const size_t gap = other.offset > end ? other.offset - end : 0;
    if (gap >= tensor.size && gap < smallest) {
      smallest = gap;
      begin = end;
    }
    end = std::max(end, other.offset + other.size);
  }
  return smallest == SIZE_MAX ? end : begin;
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
  const int nodes = ggml_graph_n_nodes(graph);
  for (int i = 0; i < nodes; ++i) {
    ggml_tensor* node = ggml_graph_node(graph, i);
    const bool is_planned = node->view_src == nullptr && wants_memory(node) && ggml_nbytes(node) > 0;
    if (is_planned) placed_.push_back({node, 0, rounded_size(node), i, last.at(node)});
  }
  std::stable_sort(placed_.begin(), placed_.end(),
                   [](const PlacedTensor& a, const PlacedTensor& b) { return a.size > b.size; });
  Timeline timeline(placed_, nodes);
  for (size_t i = 0; i < placed_.size(); ++i) {
    placed_[i].offset = offset_for(placed_[i], placed_, timeline);
    timeline.add(i);
    size_ = std::max(size_, placed_[i].offset + placed_[i].size);
  }
}

void MemoryPlan::apply(ggml_backend_buffer_t buffer) const {
  char* base = static_cast<char*>(ggml_backend_buffer_get_base(buffer));
  for (const PlacedTensor& placed : placed_) ggml_backend_tensor_alloc(buffer, placed.tensor, base + placed.offset);
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
