#include "verified_loader.h"

#include <cstring>
#include <utility>

#include "status.h"

namespace executorch_ggml {
namespace {

namespace et = ::executorch::runtime;

Status make_readable(const std::string& path, bool map, ExecutorchFile* file) {
  const Status status = map ? file->map() : file->read_all();
  return status.ok() ? status : Status::error(path + ": " + status.message());
}

}  // namespace

et::Result<const uint8_t*> VerifiedLoader::find(size_t offset, size_t size) const {
  const FileLayout& layout = file_->layout();
  if (offset > layout.size || size > layout.size - offset) return et::Error::InvalidArgument;
  const bool verified = offset + size <= layout.flatbuffer;
  return verified ? file_->flatbuffer() + offset : file_->at(offset);
}

et::Result<et::FreeableBuffer> VerifiedLoader::load(size_t offset, size_t size, const SegmentInfo&) const {
  auto data = find(offset, size);
  if (!data.ok()) return data.error();
  return et::FreeableBuffer(data.get(), size, /*free_fn=*/nullptr);
}

et::Error VerifiedLoader::load_into(size_t offset, size_t size, const SegmentInfo&, void* buffer) const {
  auto data = find(offset, size);
  if (!data.ok()) return data.error();
  if (size > 0) std::memcpy(buffer, data.get(), size);
  return et::Error::Ok;
}

Status open_loaders(const std::string& program_path, const std::string& data_path, bool map,
                    std::unique_ptr<VerifiedLoader>* program, std::unique_ptr<VerifiedLoader>* data) {
  auto program_file = std::make_unique<ExecutorchFile>();
  auto data_file = std::make_unique<ExecutorchFile>();
  EXECUTORCH_GGML_TRY(open_verified(program_path, data_path, program_file.get(), data_file.get()));
  EXECUTORCH_GGML_TRY(make_readable(program_path, map, program_file.get()));
  if (!data_path.empty()) {
    EXECUTORCH_GGML_TRY(make_readable(data_path, map, data_file.get()));
    *data = std::make_unique<VerifiedLoader>(std::move(data_file));
  }
  *program = std::make_unique<VerifiedLoader>(std::move(program_file));
  return {};
}

}  // namespace executorch_ggml
