// How a graph's nodes read its values: what decides in which layout a leaf lies on the CPU.
#pragma once

#include <vector>

#include "ggml_ir_generated.h"
#include "storage.h"

namespace executorch_ggml {

struct Readers {
  bool as_matrix = false;             // the first operand of a product of two matrices
  std::vector<StorageLayout> layers;  // a layer's weight, in the layout that its kernel reads
  bool otherwise = false;
};

// By value. Numbers of values that the graph does not have are passed over.
std::vector<Readers> readers_of_values(const fb::Graph& graph);

// Whether each node is computed on the CPU before all that a device computes: it says so, or is a view that such a node
// reads.
std::vector<bool> host_nodes(const fb::Graph& graph);

}  // namespace executorch_ggml
