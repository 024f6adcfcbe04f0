// Where the intermediate values of a graph lie in one buffer, each for as long as something still reads it.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "ggml-backend.h"
#include "ggml.h"

namespace executorch_ggml {

// Blocks of an address space that grows as needed: each is taken from the smallest gap that it fits.
class Space {
 public:
  size_t take(size_t size);
  void give_back(size_t offset, size_t size);

  // How far the space has grown.
  size_t size() const { return size_; }

 private:
  using Gaps = std::map<size_t, size_t>;  // offset to size
  void add(size_t offset, size_t size);
  void drop(Gaps::iterator gap);

  Gaps gaps_;
  std::set<std::pair<size_t, size_t>> by_size_;  // (size, offset) of the same
  size_t size_ = 0;
};

// A tensor's offset in a buffer and its lifetime: the first and the last of the graph's nodes that need it.
struct PlacedTensor {
  ggml_tensor* tensor;
  size_t offset;
  size_t size;
  int first;
  int last;
};

// ggml's own planner (ggml_gallocr) aborts where a graph leaves it with more than 256 gaps; this one has no such end.
// Offsets are assigned greedily by size, largest first (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural
// Net Inference", 2020), which mostly reaches the lower bound: the largest sum of tensors that are live at one node.
class MemoryPlan {
 public:
  // Plans for every node's tensor that has no memory yet and is not a view.
  explicit MemoryPlan(ggml_cgraph* graph);

  size_t size() const { return size_; }

  // Assigns the tensors their memory in a buffer of at least size() bytes.
  void apply(ggml_backend_buffer_t buffer) const;

 private:
  size_t size_ = 0;
  std::vector<PlacedTensor> placed_;
};

// What a graph computes into a buffer, in the order of its nodes.
std::vector<PlacedTensor> placed_tensors(ggml_cgraph* graph, ggml_backend_buffer_t buffer);

}  // namespace executorch_ggml
