// The reductions' loops. An accumulator has 8 bytes: a double for floats, an int64 for the other types.
#pragma once

#include <cstdint>

#include "kernels/simd/isa.h"
#include "selection_generated.h"

namespace executorch_ggml::kernels {

// acc[0] = f(acc[0], x[i]) for all i < n
using ReduceRowFn = void (*)(const void* x, int64_t n, void* acc);
// acc[i] = f(acc[i], row[i]) for i < n, for `rows` rows that are `stride` bytes apart
using ReduceLanesFn = void (*)(const void* x, int64_t n, int64_t rows, int64_t stride, void* acc);

// Loops that several kinds share.
constexpr bool kReducesBySum = is_built(ReduceKind::Sum) || is_built(ReduceKind::Mean);
constexpr bool kReducesByMax = is_built(ReduceKind::Max) || is_built(ReduceKind::Argmax);
constexpr bool kReducesByMin = is_built(ReduceKind::Min) || is_built(ReduceKind::Argmin);

struct Reducer {
  ReduceRowFn row;
  ReduceLanesFn lanes;
};

// x are floats or int64.
struct ReduceTable {
  Reducer sum;
  Reducer prod;
  Reducer max;
  Reducer min;
  Reducer any;
  Reducer all;
};

KERNEL_VARIANTS(const ReduceTable& float_reducers())

}  // namespace executorch_ggml::kernels
