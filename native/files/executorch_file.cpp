#include "executorch_file.h"

#include <algorithm>
#include <cinttypes>

#include "status.h"
#include "verify_data.h"
#include "verify_program.h"

namespace executorch_ggml {

ExecutorchFile::~ExecutorchFile() {
  if (mapped_ != nullptr) platform::unmap(mapped_, file_.size());
}

Status ExecutorchFile::open(const std::string& path, Status (*read_layout)(const uint8_t*, uint64_t, FileLayout*)) {
  EXECUTORCH_GGML_TRY(file_.open(path));
  const uint64_t size = file_.size();
  uint8_t head[kFileHead] = {};
  EXECUTORCH_GGML_TRY(file_.read(0, std::min<uint64_t>(size, kFileHead), head));
  EXECUTORCH_GGML_TRY(read_layout(head, size, &layout_));
  EXECUTORCH_GGML_TRY(flatbuffer_.allocate(layout_.flatbuffer));
  return file_.read(0, layout_.flatbuffer, flatbuffer_.data());
}

Status ExecutorchFile::map() {
  // Private and writable: a program that writes to a constant gets a page of its own instead of a signal.
  return file_.map(platform::Mapping::CopyOnWrite, &mapped_);
}

Status ExecutorchFile::read_all() {
  EXECUTORCH_GGML_TRY(contents_.allocate(layout_.size));
  return file_.read(0, layout_.size, contents_.data());
}

const uint8_t* ExecutorchFile::at(uint64_t offset) const {
  const auto* begin = mapped_ != nullptr ? static_cast<const uint8_t*>(mapped_) : contents_.data();
  return begin == nullptr ? nullptr : begin + offset;
}

namespace {

Status named(const std::string& path, const Status& status) {
  return status.ok() ? status : Status::error(path + ": " + status.message());
}

}  // namespace

Status open_verified(const std::string& program_path, const std::string& data_path, ExecutorchFile* program,
                     ExecutorchFile* data) {
  return without_exceptions([&]() -> Status {
    DataNames names;
    if (!data_path.empty()) {
      EXECUTORCH_GGML_TRY(named(data_path, data->open(data_path, read_data_layout)));
      EXECUTORCH_GGML_TRY(named(data_path, DataNames::verify(data->flatbuffer(), data->layout(), &names)));
    }
    EXECUTORCH_GGML_TRY(named(program_path, program->open(program_path, read_program_layout)));
    const DataNames* beside = data_path.empty() ? nullptr : &names;
    return named(program_path, verify_program(program->flatbuffer(), program->layout(), beside));
  });
}

}  // namespace executorch_ggml
