// What is said of a tensor in a .pte or .ptd file: its type, sizes and order of dims.
#pragma once

#include <cstdint>

#include "program_generated.h"
#include "result.h"

namespace executorch_ggml {

struct TensorText {
  pte::ScalarType type;
  const flatbuffers::Vector<int32_t>* sizes;
  const flatbuffers::Vector<uint8_t>* dim_order;
};

// Check them, and give the bytes that they ask for: UINT64_MAX where that is beyond 64 bits.
Status check_tensor(const TensorText& tensor, uint64_t* bytes);

}  // namespace executorch_ggml
