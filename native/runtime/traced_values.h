// What nodes compute, as the traced program has it: its dims in their order, dense.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ggml.h"
#include "ops_generated.h"
#include "result.h"
#include "shapes.h"

namespace executorch_ggml {

constexpr size_t kMaxTracedRank = 16;  // ExecuTorch's

// A node's output, and the form in which it is what the traced program has.
struct TracedValue {
  int node = 0;
  const ggml_tensor* tensor = nullptr;    // the output, which may be a view
  const ggml_tensor* computed = nullptr;  // after which it is there
  DType dtype = DType::F32;
  std::array<int64_t, 4> ne{};  // of its elements in their order
  std::array<int, 4> axes{};    // where each of these dims goes
  std::vector<int64_t> sizes;   // of the result, outermost first
};

// The tensor after which a view is there; null where it shows a leaf.
const ggml_tensor* computed_before(const ggml_tensor* tensor);

// Checks the forms of a graph's nodes, as far as they depend on no sizes: done once, at load.
Status check_traced(const fb::Graph& graph);

// The outputs that have a form which is right for these sizes; `outputs` has the tensor of each node, or null.
std::vector<TracedValue> traced_values(const fb::Graph& graph, const Shapes& shapes,
                                       const std::vector<ggml_tensor*>& outputs);

// Its elements as the traced program has them, wherever they lie. Empty where they cannot be read.
std::vector<char> read_traced(const TracedValue& value);

}  // namespace executorch_ggml
