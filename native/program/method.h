// One method of a loaded program, with memory of its own.
#pragma once

#include <executorch/extension/memory_allocator/malloc_memory_allocator.h>
#include <executorch/runtime/core/hierarchical_allocator.h>
#include <executorch/runtime/executor/memory_manager.h>
#include <executorch/runtime/executor/method.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "program.h"
#include "recorder.h"

namespace executorch_ggml {

// Zeroed memory for what ExecuTorch planned under one number, and the lock of those who use it.
struct Arena {
  OwnMemory memory;
  void* data = nullptr;  // in it, aligned
  size_t size = 0;
  Mutex in_use;

  Status open(size_t bytes);
};

// An error of ExecuTorch's in words: the delegate's, where it was the one to fail on this thread.
std::string describe(::executorch::runtime::Error error);

// What a method's metadata says of its inputs.
Status input_infos(const ::executorch::runtime::MethodMeta& meta, std::vector<std::optional<TensorInfo>>* infos);

// What GgmlBackend is told of a method that it loads: the name of its states, and its device ("": the default one).
struct RuntimeSpecs {
  std::string states;
  std::string device;
};

class LoadedMethod {
 public:
  // `shared` is the arena of what ExecuTorch planned under the number 2, or null. `data` may be null, and so may
  // `recorder`, which records runs and outlives the method.
  static Status load(const ::executorch::runtime::Program& program, const std::string& name, const RuntimeSpecs& specs,
                     const ::executorch::runtime::NamedDataMap* data, std::shared_ptr<Arena> shared, Recorder* recorder,
                     std::unique_ptr<LoadedMethod>* method);

  Status run(std::vector<Input>& inputs, std::vector<Output>* outputs);

  bool uses_ggml() const;

  // Held during a run, with the methods that it shares memory with.
  Mutex& in_use() { return shared_ != nullptr ? shared_->in_use : running_; }

 private:
  Status plan_memory(const ::executorch::runtime::MethodMeta& meta);
  Status set_inputs(std::vector<Input>& inputs);
  Status check_tensor(size_t index, const InputTensor& tensor) const;
  Status set_tensor(size_t index, const InputTensor& tensor);
  Status place_outputs();
  Status take_outputs(std::vector<Output>* outputs);
  Status take_tensor(size_t index, const ::executorch::aten::Tensor& tensor, std::vector<Output>* outputs);
  std::string shapes_fault(const std::vector<Input>& inputs) const;

  std::shared_ptr<Arena> shared_;
  Recorder* recorder_ = nullptr;
  Mutex running_;
  std::vector<std::unique_ptr<Arena>> arenas_;
  std::vector<::executorch::runtime::Span<uint8_t>> spans_;
  ::executorch::extension::MallocMemoryAllocator for_loading_;
  ::executorch::extension::MallocMemoryAllocator for_running_;
  std::unique_ptr<::executorch::runtime::HierarchicalAllocator> planned_;
  std::unique_ptr<::executorch::runtime::MemoryManager> memory_;
  std::unique_ptr<::executorch::runtime::Method> method_;
  std::vector<std::optional<TensorInfo>> infos_;
  std::vector<OwnMemory> copies_;   // of inputs that lie in another order than the method's, until the next call
  std::vector<OwnMemory> outputs_;  // those that were not planned are written here, straight for the caller
};

}  // namespace executorch_ggml
