// The GGUF files that programs of this process may take constants from.
#pragma once

#include <memory>
#include <string>

#include "gguf.h"

namespace executorch_ggml {

// Opens a file for the programs that are loaded until it is closed by its number; those that use it keep it.
Status open_gguf(const std::string& path, uint64_t* number);
bool close_gguf(uint64_t number);

// As GgufFiles::find.
Status find_in_gguf(const std::string& key, const ggml_tensor* expected, const void** data, size_t* size,
                    std::shared_ptr<const GgufFile>* file);

}  // namespace executorch_ggml
