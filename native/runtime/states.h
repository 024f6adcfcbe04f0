// What programs keep from run to run.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "fork.h"
#include "ggml-backend.h"
#include "node_builder.h"
#include "result.h"

namespace executorch_ggml {

// Tensors by name that outlive a run. Sessions that are given the same States share what they call by the same name.
class States {
 public:
  States() = default;
  ~States();
  States(const States&) = delete;
  States& operator=(const States&) = delete;

  // Give a session's tensor the memory of a state. The first session to name it makes it, in its backend's memory and
  // with `first` in it (null: zeros), which is copied; for later ones it must be of the same type and shape.
  Status attach(const std::string& name, DType dtype, const void* first, ggml_backend_t backend, ggml_tensor* tensor);

  // The memory that a state lies in; null where no session has named it yet.
  ggml_backend_buffer_type_t memory_of(const std::string& name);

  // Put all of them back to their first contents.
  void reset();

  // Held while a session runs that has states.
  Mutex& mutex() { return mutex_; }

  // An error where a run on another thread was changing them when the process was forked, until they are put back. For
  // who holds the mutex.
  Status check_whole();

 private:
  struct State {
    DType dtype;
    ggml_tensor tensor;          // a descriptor of its own: sessions come and go
    std::vector<uint8_t> first;  // empty: zeros
  };

  static Status make(const void* first, ggml_backend_t backend, ggml_tensor* tensor, State* state);
  static void start(State* state);

  std::unordered_map<std::string, State> states_;
  Mutex mutex_;
  bool whole_ = true;
};

}  // namespace executorch_ggml
