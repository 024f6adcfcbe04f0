// A .pte program and its methods, run through ExecuTorch's C++ interface: calls are safe from any thread, and results
// lie in memory of their own.
#pragma once

#include <executorch/extension/flat_tensor/flat_tensor_data_map.h>
#include <executorch/runtime/executor/program.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "fork.h"
#include "result.h"
#include "verified_loader.h"

namespace executorch_ggml {

using ScalarType = ::executorch::aten::ScalarType;

constexpr int kMaxRank = 16;  // ExecuTorch's

// A tensor of the caller's, which stays where it is for the time of a call.
struct InputTensor {
  void* data;
  ScalarType dtype;
  int rank;
  int64_t sizes[kMaxRank];
  int64_t strides[kMaxRank];  // in elements
};

using Input = std::variant<std::monostate, bool, int64_t, double, InputTensor>;

// Memory that belongs to nobody else.
struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};
using OwnMemory = std::unique_ptr<void, FreeMemory>;

struct OutputTensor {
  OwnMemory data;
  ScalarType dtype;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
};

using Output = std::variant<std::monostate, bool, int64_t, double, std::string, OutputTensor>;

// What a method says of an input that is a tensor.
struct TensorInfo {
  ScalarType dtype;
  std::vector<int64_t> sizes;  // at most
  std::vector<int64_t> dim_order;
};

class LoadedMethod;
class Recorder;
struct Arena;
struct Recording;

struct LoadOptions {
  std::string data_path;  // the .ptd file with the weights, or ""
  bool map = true;        // both files, or read them into memory
  std::string device;     // the runtime spec of that name; "": the default one
  bool record = false;    // runs, for take_recording()
  bool values = false;    // and the values of nodes
};

class LoadedProgram {
 public:
  // The files are verified. Errors name the file.
  static Status load(const std::string& path, const LoadOptions& options, std::unique_ptr<LoadedProgram>* program);
  ~LoadedProgram();
  LoadedProgram(const LoadedProgram&) = delete;
  LoadedProgram& operator=(const LoadedProgram&) = delete;

  const std::vector<std::string>& method_names() const { return names_; }

  // What each input of a method must be; nothing for those that are no tensors.
  Status inputs(const std::string& method, std::vector<std::optional<TensorInfo>>* infos) const;

  // Make a method ready to run: ahead of its first run, which otherwise does it.
  Status load_method(const std::string& name);

  // Run a method. Calls of one method take turns, and so do those of methods that share memory.
  Status run(const std::string& name, std::vector<Input>& inputs, std::vector<Output>* outputs);

  // What was recorded since the last time.
  Status take_recording(Recording* recording);

  // Put the states that ggml keeps back to their first contents.
  Status reset_states();

 private:
  LoadedProgram() = default;
  Status open(const std::string& path, const std::string& data_path, bool map);
  Status find(const std::string& name, LoadedMethod** method);
  void forget_interrupted();

  std::unique_ptr<Recorder> recorder_;  // null: nothing is recorded
  std::unique_ptr<VerifiedLoader> file_;
  std::unique_ptr<VerifiedLoader> data_file_;
  std::unique_ptr<::executorch::extension::FlatTensorDataMap> data_;
  std::unique_ptr<::executorch::runtime::Program> program_;
  std::vector<std::string> names_;
  std::string states_;  // their name, which no other program's have
  std::string device_;

  Mutex loading_;
  uint64_t generation_ = fork_generation();
  std::shared_ptr<Arena> shared_;  // the memory that methods share
  std::map<std::string, std::unique_ptr<LoadedMethod>> methods_;
};

}  // namespace executorch_ggml
