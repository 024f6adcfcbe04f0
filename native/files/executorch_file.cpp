#include "executorch_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdlib>
#include <cstring>

#include "status.h"
#include "verify_data.h"
#include "verify_program.h"

namespace executorch_ggml {
namespace {

constexpr size_t kAlignment = 64;

Status system_error(const char* what) { return Status::error(format("%s: %s", what, std::strerror(errno))); }

}  // namespace

void AlignedBytes::Free::operator()(uint8_t* data) const { std::free(data); }

Status AlignedBytes::allocate(uint64_t size) {
  const size_t rounded = (std::max<size_t>(size, 1) + kAlignment - 1) / kAlignment * kAlignment;
  data_.reset(static_cast<uint8_t*>(std::aligned_alloc(kAlignment, rounded)));
  return data_ != nullptr ? Status() : Status::error(format("no memory for its %" PRIu64 " bytes", size));
}

ExecutorchFile::~ExecutorchFile() {
  if (mapped_ != nullptr) munmap(mapped_, layout_.size);
  if (descriptor_ >= 0) close(descriptor_);
}

Status ExecutorchFile::open(const std::string& path, Status (*read_layout)(const uint8_t*, uint64_t, FileLayout*)) {
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe would make it wait
  if (descriptor_ < 0) return system_error("cannot open it");
  struct stat info{};
  if (fstat(descriptor_, &info) != 0 || !S_ISREG(info.st_mode)) return Status::error("not a file");
  const auto size = static_cast<uint64_t>(info.st_size);
  uint8_t head[kFileHead] = {};
  EXECUTORCH_GGML_TRY(read(0, std::min<uint64_t>(size, kFileHead), head));
  EXECUTORCH_GGML_TRY(read_layout(head, size, &layout_));
  EXECUTORCH_GGML_TRY(flatbuffer_.allocate(layout_.flatbuffer));
  return read(0, layout_.flatbuffer, flatbuffer_.data());
}

Status ExecutorchFile::read(uint64_t offset, uint64_t size, uint8_t* to) const {
  while (size > 0) {
    const ssize_t count = pread(descriptor_, to, size, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error("cannot read it");
    if (count == 0) return Status::error("it became shorter while it was read");
    to += count;
    offset += static_cast<uint64_t>(count);
    size -= static_cast<uint64_t>(count);
  }
  return {};
}

Status ExecutorchFile::map() {
  // Private and writable: a program that writes to a constant gets a page of its own instead of a signal.
  void* mapped = mmap(nullptr, layout_.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, descriptor_, 0);
  if (mapped == MAP_FAILED) return system_error("cannot map it");
  mapped_ = mapped;
  return {};
}

Status ExecutorchFile::read_all() {
  EXECUTORCH_GGML_TRY(contents_.allocate(layout_.size));
  return read(0, layout_.size, contents_.data());
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
