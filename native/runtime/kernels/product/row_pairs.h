// Weights of a half type whose rows lie in pairs, as floats. For *_isa.cpp files only.
#pragma once

#include "kernels/product/packing.h"
#include "kernels/simd/vec.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

// Two rows of kLanes columns.
struct RowPair {
  Float even, odd;
};

struct BfloatPairs {
  static VEC_INLINE RowPair load(const uint16_t* pairs) {
    const auto bits = KERNEL_ISA::load<Uint>(pairs);
    return {reinterpret_cast<Float>(bits << 16), reinterpret_cast<Float>(bits & 0xffff0000u)};
  }
};

struct HalfPairs {
  static VEC_INLINE RowPair load(const uint16_t* pairs) {
    using Halves = Vec<uint16_t, kLanes>;
    const auto bits = KERNEL_ISA::load<Uint>(pairs);
    return {floats_of_halves(__builtin_convertvector(bits & 0xffffu, Halves)),
            floats_of_halves(__builtin_convertvector(bits >> 16, Halves))};
  }
};

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
