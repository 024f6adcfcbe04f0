// The bytes of a program: header, checksum, FlatBuffer verification. See python/executorch_ggml/ir/serialize.py.
#pragma once

#include <cstddef>

#include "ggml_ir_generated.h"
#include "result.h"

namespace executorch_ggml {

constexpr uint32_t kIrVersion = 1;

// Check untrusted bytes and give the graph inside, which points into them.
Status open_payload(const void* data, size_t size, const fb::Graph** graph);

}  // namespace executorch_ggml
