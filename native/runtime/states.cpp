#include "states.h"

#include <algorithm>
#include <new>

#include "devices.h"
#include "formulas.h"
#include "rpc.h"
#include "status.h"

namespace executorch_ggml {
namespace {

Status place(ggml_backend_buffer_t buffer, ggml_tensor* tensor) {
  const ggml_status status = ggml_backend_tensor_alloc(buffer, tensor, ggml_backend_buffer_get_base(buffer));
  return status == GGML_STATUS_SUCCESS ? Status() : Status::error(format("no memory for %s", ggml_get_name(tensor)));
}

}  // namespace

States::~States() {
  for (const auto& [name, state] : states_) free_buffer(state.tensor.buffer);
}

Status States::attach(const std::string& name, DType dtype, const void* first, ggml_backend_t backend,
                      ggml_tensor* tensor) {
  std::lock_guard<Mutex> lock(mutex_);
  const DeviceCall call(backend);
  const auto found = states_.find(name);
  if (found == states_.end()) {
    State state{dtype, {}, {}};
    EXECUTORCH_GGML_TRY(make(first, backend, tensor, &state));
    states_.emplace(name, std::move(state));
    return {};
  }
  const State& known = found->second;
  if (known.dtype != dtype || !ggml_are_same_shape(&known.tensor, tensor)) {
    return Status::error(
        format("state %s: %s%s here, but %s%s where it was loaded first; what shares a state must "
               "agree on it",
               name.c_str(), dtype_name(dtype), describe(dims_of(tensor)).c_str(), dtype_name(known.dtype),
               describe(dims_of(&known.tensor)).c_str()));
  }
  if (ggml_backend_buffer_get_type(known.tensor.buffer) != executorch_ggml::memory_of(backend)) {
    return Status::error(format("state %s is in the memory of %s already; load all that share it for the same devices",
                                name.c_str(), ggml_backend_buffer_name(known.tensor.buffer)));
  }
  return place(known.tensor.buffer, tensor);
}

ggml_backend_buffer_type_t States::memory_of(const std::string& name) {
  std::lock_guard<Mutex> lock(mutex_);
  const auto found = states_.find(name);
  return found == states_.end() ? nullptr : ggml_backend_buffer_get_type(found->second.tensor.buffer);
}

Status States::make(const void* first, ggml_backend_t backend, ggml_tensor* tensor, State* state) {
  const auto* bytes = static_cast<const uint8_t*>(first);
  const auto remember = [&] {
    if (bytes != nullptr) state->first.assign(bytes, bytes + ggml_nbytes(tensor));
    return Status();
  };
  EXECUTORCH_GGML_TRY(call_guarded(remember, [&](const char*) {
    return Status::error(
        format("no memory to remember %s of %zu bytes as it begins", ggml_get_name(tensor), ggml_nbytes(tensor)));
  }));
  const size_t size = ggml_backend_buft_get_alloc_size(executorch_ggml::memory_of(backend), tensor);
  ggml_backend_buffer_t buffer =
      ggml_backend_buft_alloc_buffer(executorch_ggml::memory_of(backend), std::max<size_t>(size, 1));
  if (buffer == nullptr) return Status::error(format("no memory for %s of %zu bytes", ggml_get_name(tensor), size));
  ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
  const Status placed = place(buffer, tensor);
  if (!placed.ok()) {
    free_buffer(buffer);
    return placed;
  }
  state->tensor = *tensor;
  start(state);
  return {};
}

void States::start(State* state) {
  const size_t size = ggml_nbytes(&state->tensor);
  if (size == 0) return;
  const DeviceCall call(ggml_backend_buft_get_device(ggml_backend_buffer_get_type(state->tensor.buffer)));
  if (state->first.empty()) {
    ggml_backend_tensor_memset(&state->tensor, 0, 0, size);
  } else {
    ggml_backend_tensor_set(&state->tensor, state->first.data(), 0, size);
  }
}

void States::reset() {
  std::lock_guard<Mutex> lock(mutex_);
  mutex_.take_interrupted();
  whole_ = true;
  // A server that is lost is the next run's error.
  (void)without_exceptions([&]() -> Status {
    for (auto& [name, state] : states_) start(&state);
    return {};
  });
}

Status States::check_whole() {
  if (mutex_.take_interrupted()) whole_ = false;
  if (whole_) return {};
  return Status::error(
      "another thread was changing the states when this process was forked; put them back to their first contents, or "
      "load the program in this process");
}

}  // namespace executorch_ggml
