// FlatBuffers' own check of untrusted bytes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "flatbuffers/flatbuffers.h"
#include "result.h"
#include "status.h"

namespace executorch_ggml {

// Afterwards offsets, vectors and strings lie within the bytes; tables' optional fields may still be missing.
template <class Root>
Status verify_flatbuffer(const uint8_t* data, uint64_t size, const char* identifier) {
  flatbuffers::Verifier::Options options;
  constexpr uint64_t kLeastTable = 4;  // bytes
  options.max_tables = std::max(
      options.max_tables, static_cast<flatbuffers::uoffset_t>(std::min<uint64_t>(size / kLeastTable, UINT32_MAX)));
  if (size < options.max_size) {  // a larger one fails an assertion
    flatbuffers::Verifier verifier(data, static_cast<size_t>(size), options);
    if (verifier.VerifyBuffer<Root>(identifier)) return {};
  }
  return Status::error("its FlatBuffer is not valid");
}

// Whether a name is there and is text: hosts may end the process where ExecuTorch logs one that is not.
inline bool is_name(const flatbuffers::String* name) { return name != nullptr && readable(name->str()) == name->str(); }

}  // namespace executorch_ggml
