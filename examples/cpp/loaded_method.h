// A method of a program with everything that must live as long as it does. This is what ExecuTorch's Module does too;
// written out, because a call of Module allocates and the calls here are to be measured.
#pragma once

#include <executorch/extension/flat_tensor/flat_tensor_data_map.h>
#include <executorch/extension/memory_allocator/malloc_memory_allocator.h>
#include <executorch/runtime/core/data_loader.h>
#include <executorch/runtime/executor/merged_data_map.h>
#include <executorch/runtime/executor/method.h>
#include <executorch/runtime/executor/program.h>

#include <memory>
#include <string>
#include <vector>

class LoadedMethod {
 public:
  // Null if something failed; what it was has been printed.
  static std::unique_ptr<LoadedMethod> load(const std::string& program, const std::vector<std::string>& data,
                                            const std::string& method, bool mmap);

  executorch::runtime::Method& method() { return *method_; }
  const executorch::runtime::MethodMeta& meta() const { return *meta_; }

 private:
  LoadedMethod() = default;

  bool load_program(const std::string& path, bool mmap);
  bool load_data(const std::vector<std::string>& paths, bool mmap);
  bool load_method(const std::string& name);
  bool plan_memory();
  bool give_outputs_memory();

  using DataLoader = executorch::runtime::DataLoader;
  using NamedDataMap = executorch::runtime::NamedDataMap;

  // In the order of use: what comes later points into what comes before, and is destroyed first.
  std::vector<std::unique_ptr<DataLoader>> loaders_;
  std::unique_ptr<executorch::runtime::Program> program_;
  std::vector<std::unique_ptr<NamedDataMap>> data_maps_;
  const NamedDataMap* data_ = nullptr;
  std::unique_ptr<executorch::runtime::MethodMeta> meta_;
  std::vector<std::vector<uint8_t>> planned_buffers_;
  std::vector<executorch::runtime::Span<uint8_t>> planned_spans_;
  std::unique_ptr<executorch::runtime::HierarchicalAllocator> planned_memory_;
  executorch::extension::MallocMemoryAllocator method_allocator_;
  executorch::extension::MallocMemoryAllocator temp_allocator_;
  std::unique_ptr<executorch::runtime::MemoryManager> memory_manager_;
  std::vector<std::vector<uint8_t>> outputs_;
  std::unique_ptr<executorch::runtime::Method> method_;
};
