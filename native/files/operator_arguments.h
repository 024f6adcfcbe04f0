// What the kernels of ExecuTorch's own operators expect as arguments. They take the types for granted, or abort.
#pragma once

#include <cstdint>
#include <string_view>

namespace executorch_ggml {

// One letter an argument, the value that is returned last, as in a KernelCall's list (tools/operator_arguments.py):
//   T tensor         L list of tensors             W tensor that is written       M list of tensors that are written
//   I int  D double  B bool  S any of these        N list of ints                 F list of doubles
//   Q list of bools  X text  P list of tensors or none                            V scalar that is written
//   O scalar that is written as a boolean
// A small letter: or none. Null for an operator that is not in the table.
const char* operator_arguments(std::string_view name);

// Whether an argument may be a value of a type, a number of executorch_ggml::pte::KernelTypes.
bool is_argument(char letter, uint8_t type);

constexpr bool writes_tensor(char letter) { return letter == 'W' || letter == 'w' || letter == 'M' || letter == 'm'; }

constexpr bool writes_scalar(char letter) { return letter == 'V' || letter == 'O'; }

}  // namespace executorch_ggml
