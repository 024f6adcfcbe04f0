// Element types of ExecuTorch, DLPack and torch.
#pragma once

#include <executorch/runtime/core/exec_aten/exec_aten.h>

#include "dlpack_exchange.h"

namespace executorch_ggml {

struct ScalarTypeInfo {
  ::executorch::aten::ScalarType type;
  dlpack::DataType dlpack;
  const char* name;  // torch's
};

// Null where a type has no counterpart.
const ScalarTypeInfo* find_scalar_type(::executorch::aten::ScalarType type);
const ScalarTypeInfo* find_scalar_type(const dlpack::DataType& type);

// For messages.
const char* scalar_type_name(::executorch::aten::ScalarType type);

}  // namespace executorch_ggml
