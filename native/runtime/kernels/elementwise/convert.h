// Arrays of numbers from one element type to another, as torch converts them on x86.
#pragma once

#include <cstdint>

#include "ops_generated.h"

namespace executorch_ggml::kernels {

// Dense arrays of n elements. Every type but the floats converts through int64, the floats through double, both exact.
void from_integers(const int64_t* x, int64_t n, DType type, void* y);
void from_reals(const double* x, int64_t n, DType type, void* y);
void to_integers(const void* x, int64_t n, DType type, int64_t* y);  // not from float types
void to_reals(const void* x, int64_t n, DType type, double* y);      // only from float types

// Between f32 and a half type, f16 or bf16.
void to_floats(const void* x, int64_t n, DType half, float* y);
void from_floats(const float* x, int64_t n, DType half, void* y);

inline bool is_half(DType type) { return type == DType::F16 || type == DType::Bf16; }

inline bool is_real(DType type) {
  return type == DType::F32 || type == DType::F16 || type == DType::Bf16 || type == DType::F64;
}

}  // namespace executorch_ggml::kernels
