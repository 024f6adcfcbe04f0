// Functions of two arguments on every element type: those that are not vectorized by hand.
#pragma once

#include "kernels/elementwise/elementwise.h"
#include "kernels/kernels.h"

namespace executorch_ggml::kernels {

// The context of these functions is the node's KernelCallBase. No dense form: there is no such function on this type.
Forms generic_binary(BinaryKind kind, DType type);

}  // namespace executorch_ggml::kernels
