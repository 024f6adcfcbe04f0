// Loops over some units of one row of a recurrent step.
#pragma once

#include <cstdint>

#include "kernels/simd/isa.h"

namespace executorch_ggml::kernels {

// The gates of a row: one float a unit in each, gate after gate, from the product of the state and that of the input.
struct Gates {
  const float* recurrent;
  const float* projected;
  int64_t width;  // units of the whole row
};

// hidden[i] and next[i] for i < count, from the cell state before.
using LstmFn = void (*)(const Gates& gates, const float* cell, float* hidden, float* next, int64_t count);

// next[i] for i < count, from the hidden state before.
using GruFn = void (*)(const Gates& gates, const float* hidden, float* next, int64_t count);

struct RecurrentTable {
  LstmFn lstm;
  GruFn gru;
};

KERNEL_VARIANTS(const RecurrentTable& recurrent_loops())

}  // namespace executorch_ggml::kernels
