// Weights in the layouts that are computed with fastest, our own or those of ggml's CPU backend, made from those that
// programs store.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "devices.h"
#include "fork.h"
#include "ggml-backend.h"
#include "result.h"
#include "storage.h"

namespace executorch_ggml {

// What the sessions of one program share, so that each weight is packed once.
class PackedWeights {
 public:
  PackedWeights() = default;
  ~PackedWeights();
  PackedWeights(const PackedWeights&) = delete;
  PackedWeights& operator=(const PackedWeights&) = delete;

  // Make `tensor` the packed form of the matrix of its type and dims at `data`, which is not needed afterwards.
  // `*packed` is false, and nothing is done, where the CPU has no layout of its own for it.
  Status pack(const std::string& key, const void* data, ggml_tensor* tensor, bool* packed);

  // Make `tensor` the plain weight at `data` in the layout that a layer's kernel reads, which must fit it.
  Status pack_layer(const std::string& key, const StorageLayout& layout, const void* data, ggml_tensor* tensor,
                    bool* packed);

  // What a convolution in blocks is multiplied with by Winograd's algorithm; null where there is no memory for it.
  const float* winograd(const std::string& key, const ggml_tensor* weight);

 private:
  struct Matrix {
    ggml_context* ctx = nullptr;
    ggml_tensor* tensor = nullptr;
    ggml_backend_buffer_t buffer = nullptr;
  };
  static Status pack_in_panels(const void* data, const ggml_tensor* like, Matrix* made);
  static Status make(ggml_backend_buffer_type_t type, const void* data, const ggml_tensor* like, Matrix* made);
  static Status allocate(size_t bytes, const ggml_tensor* like, Matrix* made);
  static void free(Matrix* matrix);
  static bool use(const Matrix& matrix, ggml_tensor* tensor);

  Mutex mutex_;
  std::map<std::string, Matrix> matrices_;
};

}  // namespace executorch_ggml
