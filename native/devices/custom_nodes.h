// Custom nodes whose meaning is known. A program hands them over through the function that the registration gives under
// the name kCustomNodes; native/runtime does so with those of its own graphs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ggml.h"

namespace executorch_ggml::devices {

constexpr const char* kCustomNodes = "executorch_ggml_custom_nodes";

// A node of a serialized IR program, with the values of its expressions.
struct CustomNode {
  const ggml_tensor* tensor;
  uint64_t session;  // which of its library's; its bytes must stay until the last of its nodes is taken back
  const uint8_t* program;
  uint64_t program_size;
  int64_t node;
  const int64_t* exprs;
  uint64_t exprs_count;
};

// Add nodes, or (`add` false) take them back before their tensors are gone.
using CustomNodesFunction = void (*)(const CustomNode* nodes, uint64_t count, bool add);

void custom_nodes(const CustomNode* nodes, uint64_t count, bool add);

// Stands for a custom node in a graph's words: known or not, its program's number, its place in there, and a number of
// its expressions' values.
void describe_custom(const ggml_tensor* tensor, int64_t* params);

// The bytes of a program, and the values of its expressions, by the numbers that stand for them; null: not there.
const uint8_t* custom_program(int64_t number, uint64_t* size);
const int64_t* custom_exprs(int64_t program, int64_t number, uint64_t* count);

}  // namespace executorch_ggml::devices
