// A .pte or .ptd file whose FlatBuffer was read into memory and verified there: what happens to the file afterwards
// cannot change it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "aligned_bytes.h"
#include "file_layout.h"
#include "platform/platform.h"

namespace executorch_ggml {

class ExecutorchFile {
 public:
  ExecutorchFile() = default;
  ~ExecutorchFile();
  ExecutorchFile(const ExecutorchFile&) = delete;
  ExecutorchFile& operator=(const ExecutorchFile&) = delete;

  Status open(const std::string& path, Status (*read_layout)(const uint8_t*, uint64_t, FileLayout*));

  // Make the rest of the file readable through at(): mapped, or read into memory.
  Status map();
  Status read_all();

  const FileLayout& layout() const { return layout_; }
  const uint8_t* flatbuffer() const { return flatbuffer_.data(); }

  // The bytes from `offset` on; they are checked to be in the file. Null where the file was neither mapped nor read.
  const uint8_t* at(uint64_t offset) const;

 private:
  platform::File file_;
  FileLayout layout_;
  AlignedBytes flatbuffer_;
  AlignedBytes contents_;
  void* mapped_ = nullptr;
};

// Open a program and the data file beside it (where there is one), and verify both. Errors name the file.
Status open_verified(const std::string& program_path, const std::string& data_path, ExecutorchFile* program,
                     ExecutorchFile* data);

}  // namespace executorch_ggml
