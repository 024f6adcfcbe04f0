// Checks a .ptd file before ExecuTorch reads it, which takes its contents for granted.
#pragma once

#include <string_view>
#include <unordered_map>

#include "file_layout.h"
#include "flat_tensor_generated.h"

namespace executorch_ggml {

// The names in a data file that was verified. Points into the FlatBuffer.
class DataNames {
 public:
  // `flatbuffer` has layout.flatbuffer bytes, aligned to 16.
  static Status verify(const uint8_t* flatbuffer, const FileLayout& layout, DataNames* names);

  // What is known of the tensor under a name; null where there is no such name, or where its data is no tensor.
  const ptd::TensorLayout* tensor(std::string_view name) const;
  bool has(std::string_view name) const { return entries_.count(name) != 0; }

 private:
  std::unordered_map<std::string_view, const ptd::NamedData*> entries_;
};

}  // namespace executorch_ggml
