// Element types of ExecuTorch and of the IR.
#pragma once

#include <executorch/runtime/core/exec_aten/exec_aten.h>

#include "ops_generated.h"

namespace executorch_ggml {

struct ElementType {
  ::executorch::aten::ScalarType scalar;
  DType dtype;
};

constexpr ElementType kElementTypes[] = {
    {::executorch::aten::ScalarType::Float, DType::F32},     {::executorch::aten::ScalarType::Half, DType::F16},
    {::executorch::aten::ScalarType::BFloat16, DType::Bf16}, {::executorch::aten::ScalarType::Char, DType::I8},
    {::executorch::aten::ScalarType::Short, DType::I16},     {::executorch::aten::ScalarType::Int, DType::I32},
    {::executorch::aten::ScalarType::Long, DType::I64},      {::executorch::aten::ScalarType::Bool, DType::Bool},
    {::executorch::aten::ScalarType::Byte, DType::U8},       {::executorch::aten::ScalarType::Double, DType::F64},
};

// False where a type has no counterpart.
inline bool to_dtype(::executorch::aten::ScalarType scalar, DType* dtype) {
  for (const ElementType& type : kElementTypes) {
    if (type.scalar != scalar) continue;
    *dtype = type.dtype;
    return true;
  }
  return false;
}

inline bool to_scalar_type(DType dtype, ::executorch::aten::ScalarType* scalar) {
  for (const ElementType& type : kElementTypes) {
    if (type.dtype != dtype) continue;
    *scalar = type.scalar;
    return true;
  }
  return false;
}

}  // namespace executorch_ggml
