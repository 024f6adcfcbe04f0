// The C functions that open files: GGUF files, and programs that are checked before ExecuTorch reads them.

#include <memory>

#include "executorch_ggml.h"
#include "open_gguf.h"
#include "report.h"
#include "result.h"
#include "verified_loader.h"

extern "C" {

uint64_t executorch_ggml_open_gguf(const char* path) {
  uint64_t number = 0;
  const auto open = [&] { return executorch_ggml::open_gguf(path, &number); };
  const executorch_ggml::Status status = executorch_ggml::without_exceptions(open);
  if (!status.ok()) executorch_ggml::report(executorch::runtime::Error::AccessFailed, status.message());
  return number;
}

int executorch_ggml_close_gguf(uint64_t file) { return executorch_ggml::close_gguf(file) ? 1 : 0; }

int executorch_ggml_verify_files(const char* program, const char* data) {
  executorch_ggml::ExecutorchFile program_file;
  executorch_ggml::ExecutorchFile data_file;
  const auto verify = [&] {
    return executorch_ggml::open_verified(program, data == nullptr ? "" : data, &program_file, &data_file);
  };
  const executorch_ggml::Status status = executorch_ggml::without_exceptions(verify);
  if (!status.ok()) executorch_ggml::report(executorch::runtime::Error::InvalidProgram, status.message());
  return status.ok() ? 1 : 0;
}

int executorch_ggml_open_files(const char* program, const char* data, int map, void** program_loader,
                               void** data_loader) {
  std::unique_ptr<executorch_ggml::VerifiedLoader> program_file;
  std::unique_ptr<executorch_ggml::VerifiedLoader> data_file;
  const auto open = [&] {
    return executorch_ggml::open_loaders(program, data == nullptr ? "" : data, map != 0, &program_file, &data_file);
  };
  const executorch_ggml::Status status = executorch_ggml::without_exceptions(open);
  if (!status.ok()) executorch_ggml::report(executorch::runtime::Error::InvalidProgram, status.message());
  // As pointers to the base class, which is what the caller takes them for.
  *program_loader = static_cast<executorch::runtime::DataLoader*>(program_file.release());
  *data_loader = static_cast<executorch::runtime::DataLoader*>(data_file.release());
  return status.ok() ? 1 : 0;
}

}  // extern "C"
