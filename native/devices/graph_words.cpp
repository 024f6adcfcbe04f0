#include "graph_words.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "custom_nodes.h"
#include "device.h"

namespace executorch_ggml::devices {
namespace {

// Of pointers that are multiples of 16 or more.
size_t hash_of(const ggml_tensor* tensor) {
  const auto number = reinterpret_cast<uintptr_t>(tensor) >> 4;
  return static_cast<size_t>(number * 0x9E3779B97F4A7C15ull >> 20);
}

// Memory that later nodes write to, as ranges that do not touch, each with the tensor that has it.
class Written {
 public:
  // Whether something else than `root` has a part of the range.
  bool by_other(uintptr_t begin, uintptr_t end, int64_t root) const {
    auto at = ranges_.upper_bound(begin);
    if (at != ranges_.begin() && std::prev(at)->second.end > begin) --at;
    for (; at != ranges_.end() && at->first < end; ++at) {
      if (at->second.root != root) return true;
    }
    return false;
  }
  // What is known of the range already is of later nodes and stays.
  void add(uintptr_t begin, uintptr_t end, int64_t root) {
    auto at = ranges_.upper_bound(begin);
    if (at != ranges_.begin() && std::prev(at)->second.end > begin) begin = std::prev(at)->second.end;
    while (begin < end) {
      const uintptr_t stop = at == ranges_.end() ? end : std::min(end, at->first);
      if (begin < stop) ranges_.emplace_hint(at, begin, Range{stop, root});
      if (at == ranges_.end()) return;
      begin = std::max(begin, at->second.end);
      ++at;
    }
  }

 private:
  struct Range {
    uintptr_t end;
    int64_t root;
  };
  std::map<uintptr_t, Range> ranges_;
};

}  // namespace

void GraphWords::clear(size_t nodes) {
  words_.clear();
  tensors_.clear();
  size_t size = 64;
  while (size < 6 * nodes) size *= 2;
  slots_.assign(size, -1);
}

int64_t GraphWords::known(const ggml_tensor* tensor) const {
  for (size_t at = hash_of(tensor);; ++at) {
    const int32_t index = slots_[at & (slots_.size() - 1)];
    if (index < 0 || tensors_[index] == tensor) return index;
  }
}

int64_t GraphWords::add(const ggml_tensor* tensor, Role role) {
  const auto index = static_cast<int32_t>(tensors_.size());
  if (2 * tensors_.size() >= slots_.size()) {
    slots_.assign(2 * slots_.size(), -1);
    for (int32_t i = 0; i < index; ++i) {
      size_t at = hash_of(tensors_[i]);
      while (slots_[at & (slots_.size() - 1)] >= 0) ++at;
      slots_[at & (slots_.size() - 1)] = i;
    }
  }
  size_t at = hash_of(tensor);
  while (slots_[at & (slots_.size() - 1)] >= 0) ++at;
  slots_[at & (slots_.size() - 1)] = index;
  tensors_.push_back(tensor);
  words_.emplace_back();
  TensorWords& words = words_.back();
  words.role = role;
  words.op = role >= kNode ? tensor->op : GGML_OP_NONE;
  words.type = tensor->type;
  for (int i = 0; i < 4; ++i) {
    words.ne[i] = tensor->ne[i];
    words.nb[i] = static_cast<int64_t>(tensor->nb[i]);
  }
  words.root = index;
  std::fill(std::begin(words.src), std::end(words.src), -1);
  return index;
}

int64_t GraphWords::leaf(const ggml_tensor* tensor) {
  const int64_t found = known(tensor);
  if (found >= 0) return found;
  const int64_t root = tensor->view_src != nullptr ? leaf(tensor->view_src) : -1;
  const int64_t index = add(tensor, kInput);
  if (root >= 0) {
    words_[index].root = words_[root].root;
    words_[index].offset = static_cast<int64_t>(tensor->view_offs) + words_[root].offset;
  }
  return index;
}

void GraphWords::add_node(const ggml_tensor* node) {
  int64_t src[GGML_MAX_SRC];
  for (int i = 0; i < GGML_MAX_SRC; ++i) {  // a cast names itself as what it is written to
    src[i] = node->src[i] != nullptr && node->src[i] != node ? leaf(node->src[i]) : -1;
  }
  const int64_t root = node->view_src != nullptr ? leaf(node->view_src) : -1;
  const int64_t index = add(node, host_.only_shows(node) ? kView : kNode);
  TensorWords& words = words_[index];
  std::copy_n(src, GGML_MAX_SRC, words.src);
  if (root >= 0) {
    words.root = words_[root].root;
    words.offset = static_cast<int64_t>(node->view_offs) + words_[root].offset;
  }
  static_assert(sizeof(node->op_params) == sizeof(words.params), "");
  if (host_.is_custom(node)) {
    describe_custom(node, words.params);  // else its parameters are addresses
  } else {
    std::memcpy(words.params, node->op_params, sizeof(words.params));
  }
}

void GraphWords::describe(ggml_cgraph* graph) {
  const int nodes = host_.graph_n_nodes(graph);
  clear(static_cast<size_t>(nodes));
  for (int i = 0; i < nodes; ++i) {
    const ggml_tensor* node = host_.graph_node(graph, i);
    if (host_.only_shows(node) || host_.is_computed(node)) add_node(node);
  }
  find_constants();
}

void GraphWords::describe(const ggml_tensor* node) {
  clear(1);
  add_node(node);
  find_constants();
}

// Leaves with memory of their own that lie among the weights, unless a node writes to them.
void GraphWords::find_constants() {
  for (size_t i = 0; i < words_.size(); ++i) {
    if (words_[i].role >= kNode || words_[i].root != static_cast<int64_t>(i)) continue;
    device_->constant(tensors_[i], &words_[i]);
  }
  for (size_t i = 0; i < words_.size(); ++i) {
    TensorWords& root = words_[words_[i].root];
    if (words_[i].role == kNode && root.role == kConstant) {
      root.role = kInput;
      root.buffer = root.version = root.place = 0;
    }
  }
}

// A result is there for others unless a later node takes its memory. (What uses a graph's intermediate values later is
// not to be seen from the graph; most of them are overwritten, since ggml gives their memory on.)
std::vector<uint8_t> GraphWords::live() const {
  std::vector<uint8_t> live(words_.size(), 0);
  Written written;
  for (size_t i = words_.size(); i-- > 0;) {
    const TensorWords& words = words_[i];
    if (words.role != kNode) continue;
    const ggml_tensor* root = tensors_[words.root];
    const auto begin = reinterpret_cast<uintptr_t>(root->data);
    const uintptr_t end = begin + host_.nbytes(root);
    live[i] = written.by_other(begin, end, words.root) ? 0 : 1;
    written.add(begin, end, words.root);
  }
  return live;
}

std::vector<uint64_t> GraphWords::addresses() const {
  std::vector<uint64_t> addresses;
  addresses.reserve(tensors_.size());
  for (const ggml_tensor* tensor : tensors_) addresses.push_back(reinterpret_cast<uint64_t>(tensor->data));
  return addresses;
}

}  // namespace executorch_ggml::devices
