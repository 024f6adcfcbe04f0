// How a graph's nodes read its values: what decides in which layout a leaf lies on the CPU.
#pragma once

#include <vector>

#include "ggml_ir_generated.h"
#include "storage.h"

namespace executorch_ggml {

struct Readers {
  bool as_matrix = false;             // the first operand of a product of two matrices
  bool as_table = false;              // what rows are taken of
  std::vector<StorageLayout> layers;  // a layer's weight, in the layout that its kernel reads
  bool otherwise = false;

  // In ggml's own layout.
  bool read_plain() const { return as_table || otherwise; }
  // Whether panels are all that is needed, where the CPU has products with them.
  bool read_panels() const { return layers.empty() && !otherwise; }
};

// By value. Numbers of values that the graph does not have are passed over.
std::vector<Readers> readers_of_values(const fb::Graph& graph);

// Whether each node is computed on the CPU before all that a device computes: it says so, or is a view that such a node
// reads.
std::vector<bool> host_nodes(const fb::Graph& graph);

}  // namespace executorch_ggml
