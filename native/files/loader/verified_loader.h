// ExecuTorch's way to a file that was verified.
#pragma once

#include <executorch/runtime/core/data_loader.h>

#include <memory>
#include <string>

#include "executorch_file.h"

namespace executorch_ggml {

// Gives ExecuTorch the FlatBuffer that was verified, from memory, and the segments from the map (or from memory too).
class VerifiedLoader final : public ::executorch::runtime::DataLoader {
 public:
  explicit VerifiedLoader(std::unique_ptr<ExecutorchFile> file) : file_(std::move(file)) {}

  ::executorch::runtime::Result<::executorch::runtime::FreeableBuffer> load(size_t offset, size_t size,
                                                                            const SegmentInfo& info) const override;
  ::executorch::runtime::Error load_into(size_t offset, size_t size, const SegmentInfo& info,
                                         void* buffer) const override;
  ::executorch::runtime::Result<size_t> size() const override { return static_cast<size_t>(file_->layout().size); }

 private:
  ::executorch::runtime::Result<const uint8_t*> find(size_t offset, size_t size) const;

  std::unique_ptr<ExecutorchFile> file_;
};

// Verify a program and the data file beside it ("": there is none, and no loader for it), and open them: mapped, or
// read into memory. Errors name the file.
Status open_loaders(const std::string& program_path, const std::string& data_path, bool map,
                    std::unique_ptr<VerifiedLoader>* program, std::unique_ptr<VerifiedLoader>* data);

}  // namespace executorch_ggml
