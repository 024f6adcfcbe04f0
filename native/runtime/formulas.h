// What the op table's formulas are made of; python/executorch_ggml/ir/formulas.py has the same functions in Python.
// Sums and products stop at the largest number, and nothing is read outside of dims: attributes are a file's.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>

#include "ggml.h"
#include "ops_generated.h"
#include "resource_limits.h"

namespace executorch_ggml {

using Dims = std::array<int64_t, 4>;

// A tensor as formulas know it, with the element type that the IR has: ggml stores bool and u8 as I8.
struct Operand {
  DType dtype = DType::F32;
  Dims ne{};
  const ggml_tensor* tensor = nullptr;  // null: an optional input that is absent, or a result that is not there yet
};

inline Dims dims_of(const ggml_tensor* a) { return {a->ne[0], a->ne[1], a->ne[2], a->ne[3]}; }

inline int64_t at(const Dims& ne, int64_t i) { return i >= 0 && i < 4 ? ne[static_cast<size_t>(i)] : 0; }
inline int64_t at(const Ints& numbers, int64_t i) {
  return i >= 0 && i < numbers.size ? numbers[static_cast<int>(i)] : 0;
}

inline bool contains(const Ints& numbers, int64_t n) {
  return std::find(numbers.begin(), numbers.end(), n) != numbers.end();
}

inline int64_t place_of(int64_t n, const Ints& numbers) {
  return std::find(numbers.begin(), numbers.end(), n) - numbers.begin();
}

inline int64_t saturating_sub(int64_t a, int64_t b) {
  int64_t difference = 0;
  if (!__builtin_sub_overflow(a, b, &difference)) return difference;
  return b < 0 ? INT64_MAX : INT64_MIN;
}

// As Python divides, towards the lower number; 0 where `b` is 0.
inline int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return b == 0 ? 0 : saturating_sub(0, a);
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}
inline int64_t modulo(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return 0;
  return a % b != 0 && (a < 0) != (b < 0) ? a % b + b : a % b;
}
inline int64_t ceil_div(int64_t a, int64_t b) { return saturating_sub(0, floor_div(saturating_sub(0, a), b)); }

inline bool known(int64_t) { return true; }
inline bool is_one(int64_t n) { return n == 1; }
inline bool divides(int64_t a, int64_t b) { return a == 0 ? b == 0 : modulo(b, a) == 0; }
inline bool is_quantized(DType dtype) { return dtype > DType::F64; }

// How many elements; the largest number where that is beyond 64 bits.
inline int64_t count(const Dims& ne) {
  if (ne[0] == 0 || ne[1] == 0 || ne[2] == 0 || ne[3] == 0) return 0;
  return saturating_mul(saturating_mul(ne[0], ne[1]), saturating_mul(ne[2], ne[3]));
}

inline Dims broadcast_dims(std::initializer_list<Dims> shapes) {
  Dims ne = {1, 1, 1, 1};
  for (const Dims& shape : shapes) {
    for (size_t i = 0; i < 4; ++i) ne[i] = shape[i] != 1 ? shape[i] : ne[i];
  }
  return ne;
}

}  // namespace executorch_ggml
