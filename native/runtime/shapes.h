// Sizes of a run: symbols read off the inputs, and the expressions over them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ggml_ir_generated.h"
#include "result.h"

namespace executorch_ggml {

// The largest size of a dim; ggml's kernels index rows with int.
constexpr int64_t kMaxDim = INT32_MAX;

// Evaluates the sdims of one graph for one set of input sizes.
class Shapes {
 public:
  // The graph's symbols and expressions refer to what exists: done once, at load.
  static Status check(const fb::Graph& graph);

  // `sizes(input, dim)` of each symbol's source, in the order of graph.symbols().
  Status bind(const fb::Graph& graph, const std::vector<int64_t>& sources);

  // Each symbol at the size next to `size` that it may have.
  Status bind_near(const fb::Graph& graph, int64_t size);

  // The values of the graph's expressions.
  const std::vector<int64_t>& exprs() const { return exprs_; }

  // The value of an sdim; an error where it refers to no expression. What was asked for is remembered.
  Status eval(int64_t sdim, int64_t* value) const;

  // Whether these sizes are the same in all that was asked for.
  bool gave_same(const Shapes& other) const;

  // The same as a size: 0 to kMaxDim.
  Status size(int64_t sdim, int64_t* value) const;
  Status sizes(const fb::Ne& ne, std::array<int64_t, 4>* value) const;

 private:
  Status evaluate(const fb::Graph& graph, const std::vector<int64_t>& symbols);
  Status value_of(int64_t sdim, int64_t* value) const;

  std::vector<int64_t> exprs_;
  mutable std::vector<bool> asked_;
};

}  // namespace executorch_ggml
