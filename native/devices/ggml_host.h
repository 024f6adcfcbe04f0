// The ggml that loads this library: its functions, found at run time, and its version of the device tables.
#pragma once

#include <string>

#include "ggml_abi.h"

namespace executorch_ggml::devices {

class GgmlHost {
 public:
  // `caller`: an address in what calls ggml_backend_init. On failure `error` says why.
  bool open(const void* caller, std::string* error);

  int api_version() const { return api_version_; }
  __attribute__((format(printf, 3, 4))) void log(ggml_log_level level, const char* format, ...) const;

  // ggml's functions, by their names without the prefix.
#define EXECUTORCH_GGML_HOST_FUNCTIONS(X) \
  X(backend_buffer_get_type)              \
  X(backend_buffer_get_usage)             \
  X(backend_buft_get_device)              \
  X(backend_dev_by_type)                  \
  X(backend_device_register)              \
  X(backend_dev_init)                     \
  X(backend_free)                         \
  X(backend_graph_compute)                \
  X(backend_reg_count)                    \
  X(backend_reg_get)                      \
  X(glu_op_name)                          \
  X(graph_n_nodes)                        \
  X(graph_node)                           \
  X(is_quantized)                         \
  X(log_get)                              \
  X(nbytes)                               \
  X(op_name)                              \
  X(unary_op_name)                        \
  X(version)
#define EXECUTORCH_GGML_DECLARE(name) decltype(&ggml_##name) name = nullptr;
  EXECUTORCH_GGML_HOST_FUNCTIONS(EXECUTORCH_GGML_DECLARE)
#undef EXECUTORCH_GGML_DECLARE
  abi::BufferInit buffer_init = nullptr;

  // Whether a tensor is another's memory, seen otherwise, and nothing is computed.
  bool only_shows(const ggml_tensor* tensor) const;
  bool is_custom(const ggml_tensor* tensor) const { return static_cast<int>(tensor->op) == custom_; }
  // Whether a graph's node is computed: of ggml_build_forward_select's branches, all are there and one is.
  bool is_computed(const ggml_tensor* node) const { return !marks_ || (node->flags & GGML_TENSOR_FLAG_COMPUTE) != 0; }

 private:
  bool find_functions(const void* caller, std::string* error);
  bool find_version(std::string* error);
  bool find_ops(std::string* error);

  void* module_ = nullptr;
  int api_version_ = 0;
  bool marks_ = false;  // whether nodes that are computed have a flag
  // Ops have other numbers in each ggml.
  int shows_[4] = {-1, -1, -1, -1};
  int custom_ = -1;
};

}  // namespace executorch_ggml::devices
