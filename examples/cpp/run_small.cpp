// The smallest runner: a program in a buffer, all memory in arrays of fixed size, no exceptions and no files but those
// of the command line. `run_small program.pte input.bin expected.bin` runs the method "forward" on its first input,
// which is float32 and of fixed sizes, and compares the first output.
//
// With the runtime spec "static_memory" the delegate takes all that calls need from the method's allocator while it
// loads. From then on nothing is allocated: this program ends with an error where malloc is called.
#include <executorch/extension/data_loader/buffer_data_loader.h>
#include <executorch/runtime/backend/backend_options_map.h>
#include <executorch/runtime/executor/method.h>
#include <executorch/runtime/executor/program.h>
#include <executorch/runtime/platform/runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "allocation_counter.h"

using executorch::runtime::Error;
using executorch::runtime::HierarchicalAllocator;
using executorch::runtime::MemoryAllocator;
using executorch::runtime::MemoryManager;
using executorch::runtime::Method;
using executorch::runtime::Program;
using executorch::runtime::Result;
using executorch::runtime::Span;

namespace {

// What the program may need of each kind; `run_small --arena BYTES` gives the method less.
constexpr size_t kProgramBytes = 64 << 20;
constexpr size_t kMethodBytes = 16 << 20;
constexpr size_t kPlannedBytes = 16 << 20;

alignas(64) uint8_t program_bytes[kProgramBytes];
alignas(64) uint8_t method_bytes[kMethodBytes];
alignas(64) uint8_t planned_bytes[kPlannedBytes];
alignas(64) uint8_t output_bytes[kPlannedBytes];
alignas(64) uint8_t expected_bytes[kPlannedBytes];
alignas(64) uint8_t input_bytes[kPlannedBytes];

class CountingAllocator final : public MemoryAllocator {
 public:
  using MemoryAllocator::MemoryAllocator;

  void* allocate(size_t size, size_t alignment = kDefaultAlignment) override {
    void* memory = MemoryAllocator::allocate(size, alignment);
    if (memory != nullptr) used_ = static_cast<size_t>(static_cast<uint8_t*>(memory) + size - base_address());
    return memory;
  }
  size_t used() const { return used_; }

 private:
  size_t used_ = 0;
};

int fail(const char* what, Error error) {
  std::fprintf(stderr, "run_small: %s: %s\n", what, executorch::runtime::to_string(error));
  return 1;
}

// How many bytes of a file were read; 0 where it cannot be, or is larger than `most`.
size_t read(const char* path, uint8_t* to, size_t most) {
  std::FILE* file = std::fopen(path, "rb");
  if (file == nullptr) return 0;
  const size_t size = std::fread(to, 1, most, file);
  const bool whole = std::fgetc(file) == EOF;
  std::fclose(file);
  return whole ? size : 0;
}

// The largest difference of two arrays of floats by the largest number of the second.
float difference(const float* values, const float* expected, size_t count) {
  float most = 0;
  float largest = 1e-30F;
  for (size_t i = 0; i < count; ++i) {
    const float apart = std::fabs(values[i] - expected[i]);
    if (!(apart <= most)) most = apart;  // NaN too
    largest = std::fmax(largest, std::fabs(expected[i]));
  }
  return most / largest;
}

int compare(const Method& method, size_t expected_size) {
  const auto& output = method.get_output(0).toTensor();
  if (output.nbytes() != expected_size) {
    std::fprintf(stderr, "run_small: %zu bytes of output, expected %zu\n", output.nbytes(), expected_size);
    return 1;
  }
  const float apart = difference(output.const_data_ptr<float>(), reinterpret_cast<const float*>(expected_bytes),
                                 expected_size / sizeof(float));
  std::printf("largest difference: %.3g\n", static_cast<double>(apart));
  return apart <= 1e-4F ? 0 : 1;
}

// The input of a method, in an array.
class Input {
 public:
  explicit Input(const executorch::runtime::TensorInfo& info)
      : tensor_(info.scalar_type(), static_cast<ssize_t>(info.sizes().size()),
                const_cast<int32_t*>(info.sizes().data()), input_bytes, const_cast<uint8_t*>(info.dim_order().data())) {
  }

  Error give(Method& method) { return method.set_input(executorch::aten::Tensor(&tensor_), 0); }

 private:
  executorch::aten::TensorImpl tensor_;
};

Error call(Method& method, Input& input) {
  Error error = input.give(method);
  if (error == Error::Ok && method.get_output(0).toTensor().const_data_ptr() == nullptr) {
    error = method.set_output_data_ptr(output_bytes, sizeof(output_bytes), 0);
  }
  return error == Error::Ok ? method.execute() : error;
}

int run(const char* input_path, const char* expected_path, size_t program_size, size_t arena) {
  const executorch::extension::BufferDataLoader loader(program_bytes, program_size);
  Result<Program> program = Program::load(const_cast<executorch::extension::BufferDataLoader*>(&loader));
  if (!program.ok()) return fail("cannot load the program", program.error());
  const auto meta = program->method_meta("forward");
  if (!meta.ok()) return fail("no method forward", meta.error());
  Span<uint8_t> planned[4];
  size_t used = 0;
  const size_t buffers = meta->num_memory_planned_buffers();
  if (buffers > 4) return fail("too many planned buffers", Error::NotSupported);
  for (size_t i = 0; i < buffers; ++i) {
    const auto size = static_cast<size_t>(meta->memory_planned_buffer_size(i).get());
    if (used + size > kPlannedBytes) return fail("the planned buffers do not fit", Error::MemoryAllocationFailed);
    planned[i] = {planned_bytes + used, size};
    used += (size + 63) / 64 * 64;
  }
  HierarchicalAllocator planned_memory({planned, buffers});
  CountingAllocator method_memory(static_cast<uint32_t>(arena), method_bytes);
  MemoryManager memory(&method_memory, &planned_memory);

  executorch::runtime::BackendOptions<1> options;
  options.set_option("static_memory", true);
  executorch::runtime::LoadBackendOptionsMap by_backend;
  by_backend.set_options("GgmlBackend", options.view());
  Result<Method> method = program->load_method("forward", &memory, nullptr, nullptr, &by_backend);
  if (!method.ok()) return fail("cannot load the method", method.error());
  std::printf("memory of the method: %zu bytes\n", method_memory.used());

  const size_t expected_size = read(expected_path, expected_bytes, sizeof(expected_bytes));
  const size_t input_size = read(input_path, input_bytes, sizeof(input_bytes));
  if (expected_size == 0 || input_size == 0)
    return fail("cannot read the input or what is expected", Error::AccessFailed);
  const auto info = meta->input_tensor_meta(0);
  if (!info.ok()) return fail("the first input is no tensor", info.error());
  if (info->nbytes() != input_size) return fail("the input file has another size", Error::InvalidArgument);
  Input input(*info);
  forbid_allocations();
  for (int i = 0; i < 3; ++i) {
    const Error error = call(*method, input);
    if (error != Error::Ok) return fail("the call failed", error);
  }
  allow_allocations();
  return compare(*method, expected_size);
}

}  // namespace

int main(int argc, char** argv) {
  size_t arena = kMethodBytes;
  if (argc == 6 && std::strcmp(argv[4], "--arena") == 0) arena = static_cast<size_t>(std::atoll(argv[5]));
  if ((argc != 4 && argc != 6) || arena > kMethodBytes) {
    std::fprintf(stderr, "usage: run_small PROGRAM.pte INPUT.bin EXPECTED.bin [--arena BYTES, at most %zu]\n",
                 kMethodBytes);
    return 2;
  }
  executorch::runtime::runtime_init();
  const size_t size = read(argv[1], program_bytes, sizeof(program_bytes));
  if (size == 0) return fail("cannot read the program", Error::AccessFailed);
  return run(argv[2], argv[3], size, arena);
}
