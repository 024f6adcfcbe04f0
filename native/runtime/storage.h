// How constants lie in a program (python/executorch_ggml/ir/storage.py): the CPU's kernels read weights in blocks where
// they lie; whatever else reads a constant has it plain.
#pragma once

#include <cstdint>
#include <string>

#include "ggml.h"
#include "ops_generated.h"
#include "result.h"

namespace executorch_ggml {

struct StorageLayout {
  Storage kind = Storage::Plain;
  int64_t groups = 1;  // of the convolution that a weight is of, where the layout depends on them

  bool operator==(const StorageLayout& other) const { return kind == other.kind && groups == other.groups; }
};

// Whether a constant of the tensor's type and dims can lie so.
Status check_storage(const StorageLayout& layout, const ggml_tensor* tensor);

// The bytes that it takes then.
size_t stored_bytes(const StorageLayout& layout, const ggml_tensor* tensor);

// Its elements in the order of the dims, into as many bytes as the tensor has.
void unpack(const StorageLayout& layout, const ggml_tensor* tensor, const void* stored, void* plain);

// The inverse: from the order of the dims into stored_bytes().
void pack(const StorageLayout& layout, const ggml_tensor* tensor, const void* plain, void* stored);

}  // namespace executorch_ggml
