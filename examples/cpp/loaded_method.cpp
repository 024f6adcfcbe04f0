#include "loaded_method.h"

#include <executorch/extension/data_loader/file_data_loader.h>
#include <executorch/extension/data_loader/mmap_data_loader.h>

#include <cstdio>
#include <utility>

using executorch::extension::FileDataLoader;
using executorch::extension::FlatTensorDataMap;
using executorch::extension::MmapDataLoader;
using executorch::runtime::Error;
using executorch::runtime::HierarchicalAllocator;
using executorch::runtime::MemoryManager;
using executorch::runtime::Method;
using executorch::runtime::MethodMeta;
using executorch::runtime::Program;
using executorch::runtime::Result;
using executorch::runtime::Span;
using executorch::runtime::internal::MergedDataMap;

namespace {

bool report(const char* what, const std::string& name, Error error) {
  std::fprintf(stderr, "run_pte: cannot %s '%s': %s\n", what, name.c_str(), executorch::runtime::to_string(error));
  return false;
}

// Moves the value of a result to the heap, as a (base class of the) type that the caller wants.
template <class Wanted, class Value>
std::unique_ptr<Wanted> take(Result<Value>& result) {
  return std::make_unique<Value>(std::move(result.get()));
}

std::unique_ptr<executorch::runtime::DataLoader> open_file(const std::string& path, bool mmap) {
  if (mmap) {
    Result<MmapDataLoader> loader = MmapDataLoader::from(path.c_str(), MmapDataLoader::MlockConfig::NoMlock);
    if (loader.ok()) {
      return take<executorch::runtime::DataLoader>(loader);
    }
    report("map", path, loader.error());
    return nullptr;
  }
  Result<FileDataLoader> loader = FileDataLoader::from(path.c_str());
  if (loader.ok()) {
    return take<executorch::runtime::DataLoader>(loader);
  }
  report("read", path, loader.error());
  return nullptr;
}

}  // namespace

std::unique_ptr<LoadedMethod> LoadedMethod::load(const std::string& program, const std::vector<std::string>& data,
                                                 const std::string& method, bool mmap) {
  std::unique_ptr<LoadedMethod> loaded(new LoadedMethod());
  if (!loaded->load_program(program, mmap) || !loaded->load_data(data, mmap) || !loaded->load_method(method)) {
    return nullptr;
  }
  return loaded;
}

bool LoadedMethod::load_program(const std::string& path, bool mmap) {
  loaders_.push_back(open_file(path, mmap));
  if (loaders_.back() == nullptr) {
    return false;
  }
  Result<Program> program = Program::load(loaders_.back().get());
  if (!program.ok()) {
    return report("load", path, program.error());
  }
  program_ = take<Program>(program);
  return true;
}

bool LoadedMethod::load_data(const std::vector<std::string>& paths, bool mmap) {
  for (const std::string& path : paths) {
    loaders_.push_back(open_file(path, mmap));
    if (loaders_.back() == nullptr) {
      return false;
    }
    Result<FlatTensorDataMap> map = FlatTensorDataMap::load(loaders_.back().get());
    if (!map.ok()) {
      return report("load", path, map.error());
    }
    data_maps_.push_back(take<NamedDataMap>(map));
    const NamedDataMap* added = data_maps_.back().get();
    if (data_ != nullptr) {
      Result<MergedDataMap> merged = MergedDataMap::load(data_, added);
      if (!merged.ok()) {
        return report("merge", path, merged.error());
      }
      data_maps_.push_back(take<NamedDataMap>(merged));
      added = data_maps_.back().get();
    }
    data_ = added;
  }
  return true;
}

bool LoadedMethod::load_method(const std::string& name) {
  Result<MethodMeta> meta = program_->method_meta(name.c_str());
  if (!meta.ok()) {
    return report("find the method", name, meta.error());
  }
  meta_ = take<MethodMeta>(meta);
  if (!plan_memory()) {
    return false;
  }
  memory_manager_ = std::make_unique<MemoryManager>(&method_allocator_, planned_memory_.get(), &temp_allocator_);
  Result<Method> method = program_->load_method(name.c_str(), memory_manager_.get(), nullptr, data_);
  if (!method.ok()) {
    return report("load the method", name, method.error());
  }
  method_ = take<Method>(method);
  return give_outputs_memory();
}

bool LoadedMethod::plan_memory() {
  for (size_t i = 0; i < meta_->num_memory_planned_buffers(); ++i) {
    const Result<int64_t> size = meta_->memory_planned_buffer_size(i);
    if (!size.ok()) {
      return report("plan the memory of", meta_->name(), size.error());
    }
    planned_buffers_.emplace_back(static_cast<size_t>(size.get()));
    planned_spans_.emplace_back(planned_buffers_.back().data(), planned_buffers_.back().size());
  }
  planned_memory_ =
      std::make_unique<HierarchicalAllocator>(Span<Span<uint8_t>>(planned_spans_.data(), planned_spans_.size()));
  return true;
}

// Outputs that the program left out of its memory plan are the caller's to provide.
bool LoadedMethod::give_outputs_memory() {
  for (size_t i = 0; i < method_->outputs_size(); ++i) {
    const auto& output = method_->get_output(i);
    if (!output.isTensor() || output.toTensor().const_data_ptr() != nullptr || output.toTensor().nbytes() == 0) {
      continue;
    }
    outputs_.emplace_back(output.toTensor().nbytes());
    const Error error = method_->set_output_data_ptr(outputs_.back().data(), outputs_.back().size(), i);
    if (error != Error::Ok) {
      return report("place the outputs of", meta_->name(), error);
    }
  }
  return true;
}
