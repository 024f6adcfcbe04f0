// The bytes of a program: header, checksum, FlatBuffer verification. See python/executorch_ggml/ir/serialize.py.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ggml_ir_generated.h"
#include "ops_generated.h"
#include "result.h"

namespace executorch_ggml {

constexpr size_t kHeaderSize = 16;  // before the FlatBuffer

// Whether a vector's numbers lie where numbers of 8 bytes may: FlatBuffers verifies this of its length alone.
template <class T>
bool is_aligned(const flatbuffers::Vector<T>* vector) {
  return vector == nullptr || reinterpret_cast<uintptr_t>(vector->Data()) % sizeof(int64_t) == 0;
}

// Check untrusted bytes and give the program inside, which points into them and has a graph.
Status open_payload(const void* data, size_t size, const fb::Program** program);

}  // namespace executorch_ggml
