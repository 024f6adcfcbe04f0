// The inputs of a run: checked against the program's ports, and as the sizes that prepared graphs are found by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops_generated.h"
#include "result.h"
#include "shapes.h"

namespace executorch_ggml {

// A tensor of the caller's: dense, outermost dim first.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::F32;
  const int64_t* sizes = nullptr;
  int rank = 0;
};

// Checks inputs against the program's ports, and writes the key that prepared graphs are cached under: the sizes of all
// inputs in order, and the values of scalars.
Status input_key(const fb::Graph& graph, const TensorView* inputs, size_t count, std::vector<int64_t>* key);

// Evaluates the program's symbolic shapes for a key; an error where a port's shape expressions contradict it.
Status bind_sizes(const fb::Graph& graph, const std::vector<int64_t>& key, Shapes* shapes);

// Appends a port's sizes, outermost first.
Status port_shape(const Shapes& shapes, const fb::Port& port, std::vector<int64_t>* sizes);

// The value of a symbol for inputs of a key, where its offset is 0; rounded down if their sizes are wrong.
int64_t symbol_value(const fb::Graph& graph, const std::vector<int64_t>& key, size_t symbol);

// The key of inputs that differ from those of a key in a symbol's value, whose offset is 0.
Status key_with_symbol(const fb::Graph& graph, const std::vector<int64_t>& key, size_t symbol, int64_t value,
                       std::vector<int64_t>* changed);

}  // namespace executorch_ggml
