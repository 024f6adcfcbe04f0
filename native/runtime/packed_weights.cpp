#include "packed_weights.h"

#include "kernels/convolution/winograd.h"
#include "kernels/product/integer_product.h"
#include "kernels/product/panels.h"
#include "resource_limits.h"
#include "selection_generated.h"
#include "status.h"

namespace executorch_ggml {
namespace {

// Rows of the other operand in the question whether a layout is supported; the answer is the same for all counts.
constexpr int64_t kRows = 512;

ggml_context* open_context(size_t tensors) {
  if (!can_allocate(kGgmlObject)) return nullptr;
  return ggml_init({ggml_tensor_overhead() * tensors, nullptr, /*no_alloc=*/true});
}

ggml_tensor* tensor_like(ggml_context* ctx, const ggml_tensor* like) {
  return ggml_new_tensor_4d(ctx, like->type, like->ne[0], like->ne[1], like->ne[2], like->ne[3]);
}

// Whether a product with a matrix like this one in a buffer of the type runs on the CPU.
bool multiplies_from(ggml_backend_dev_t cpu, ggml_backend_buffer_type_t type, const ggml_tensor* like) {
  ggml_context* ctx = open_context(3);
  ggml_backend_buffer_t empty = ggml_backend_buft_alloc_buffer(type, 0);
  bool supported = false;
  if (ctx != nullptr && empty != nullptr) {
    ggml_tensor* matrix = tensor_like(ctx, like);
    ggml_tensor* product = ggml_mul_mat(ctx, matrix, ggml_new_tensor_2d(ctx, GGML_TYPE_F32, like->ne[0], kRows));
    matrix->buffer = empty;
    supported = ggml_backend_dev_supports_op(cpu, product);
  }
  if (empty != nullptr) ggml_backend_buffer_free(empty);
  ggml_free(ctx);
  return supported;
}

// The first of the CPU's own layouts that takes the matrix, or null.
ggml_backend_buffer_type_t layout_for(const ggml_tensor* like) {
  ggml_backend_dev_t cpu = cpu_device();
  if (cpu == nullptr) return nullptr;
  const auto extra_types = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(
      ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(cpu), "ggml_backend_dev_get_extra_bufts"));
  if (extra_types == nullptr) return nullptr;
  for (ggml_backend_buffer_type_t* type = extra_types(cpu); type != nullptr && *type != nullptr; ++type) {
    if (multiplies_from(cpu, *type, like)) return *type;
  }
  return nullptr;
}

Status no_memory(const ggml_tensor* matrix) {
  return Status::error(format("no memory for %s of %zu bytes, packed", ggml_get_name(matrix), ggml_nbytes(matrix)));
}

bool same_matrix(const ggml_tensor* a, const ggml_tensor* b) { return a->type == b->type && ggml_are_same_shape(a, b); }

}  // namespace

PackedWeights::~PackedWeights() {
  for (auto& [key, matrix] : matrices_) free(&matrix);
}

void PackedWeights::free(Matrix* matrix) {
  if (matrix->buffer != nullptr) ggml_backend_buffer_free(matrix->buffer);
  if (matrix->ctx != nullptr) ggml_free(matrix->ctx);
}

Status PackedWeights::make(ggml_backend_buffer_type_t type, const void* data, const ggml_tensor* like, Matrix* made) {
  made->ctx = open_context(1);
  if (made->ctx == nullptr) return no_memory(like);
  made->tensor = tensor_like(made->ctx, like);
  made->buffer = ggml_backend_buft_alloc_buffer(type, ggml_backend_buft_get_alloc_size(type, made->tensor));
  if (made->buffer == nullptr ||
      ggml_backend_tensor_alloc(made->buffer, made->tensor, ggml_backend_buffer_get_base(made->buffer)) !=
          GGML_STATUS_SUCCESS) {
    return no_memory(like);
  }
  ggml_backend_buffer_set_usage(made->buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
  const QuietLog quiet;  // it tells of every matrix
  ggml_backend_tensor_set(made->tensor, data, 0, ggml_nbytes(like));
  return {};
}

// In memory of ours, which no backend looks into.
Status PackedWeights::allocate(size_t bytes, const ggml_tensor* like, Matrix* made) {
  made->ctx = open_context(1);
  if (made->ctx == nullptr) return no_memory(like);
  made->tensor = tensor_like(made->ctx, like);
  made->buffer = ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), bytes);
  if (made->buffer == nullptr) return no_memory(like);
  made->tensor->buffer = made->buffer;
  made->tensor->data = ggml_backend_buffer_get_base(made->buffer);
  return {};
}

Status PackedWeights::pack_in_panels(const void* data, const ggml_tensor* like, Matrix* made) {
  EXECUTORCH_GGML_TRY(allocate(kernels::panels_bytes(like->type, like->ne[0], like->ne[1]), like, made));
  kernels::mark_panels(made->tensor);
  kernels::pack_panels(like->type, like->ne[0], like->ne[1], data, made->tensor->data);
  return {};
}

Status PackedWeights::pack(const std::string& key, const void* data, ggml_tensor* tensor, bool* packed) {
  std::lock_guard<Mutex> lock(mutex_);
  *packed = false;
  auto found = matrices_.find(key);
  if (found == matrices_.end()) {
    const bool panels = kernels::panel_product(tensor->type) != nullptr;
    ggml_backend_buffer_type_t type = panels || !kHasGgmlKernels ? nullptr : layout_for(tensor);
    if (!panels && type == nullptr) return {};
    Matrix made;
    const Status status = panels ? pack_in_panels(data, tensor, &made) : make(type, data, tensor, &made);
    if (!status.ok()) {
      free(&made);
      return status;
    }
    found = matrices_.emplace(key, made).first;
  }
  *packed = use(found->second, tensor);
  return {};
}

Status PackedWeights::pack_layer(const std::string& key, const StorageLayout& layout, const void* data,
                                 ggml_tensor* tensor, bool* packed) {
  std::lock_guard<Mutex> lock(mutex_);
  const std::string name =
      format("%s\n%d %lld", key.c_str(), static_cast<int>(layout.kind), static_cast<long long>(layout.groups));
  auto found = matrices_.find(name);
  if (found == matrices_.end()) {
    Matrix made;
    const Status status = allocate(stored_bytes(layout, tensor), tensor, &made);
    if (!status.ok()) {
      free(&made);
      return status;
    }
    executorch_ggml::pack(layout, tensor, data, made.tensor->data);
    found = matrices_.emplace(name, made).first;
  }
  *packed = use(found->second, tensor);
  return {};
}

const float* PackedWeights::winograd(const std::string& key, const ggml_tensor* weight) {
  std::lock_guard<Mutex> lock(mutex_);
  const std::string name = key + "\nwinograd";
  auto found = matrices_.find(name);
  if (found == matrices_.end()) {
    Matrix made;
    if (allocate(static_cast<size_t>(kernels::winograd_floats(weight)) * sizeof(float), weight, &made).ok()) {
      kernels::transform_weights(weight, static_cast<float*>(made.tensor->data));
    } else {
      free(&made);
      made = {};
    }
    found = matrices_.emplace(name, made).first;
  }
  const ggml_tensor* kept = found->second.tensor;
  return kept != nullptr && same_matrix(kept, weight) ? static_cast<const float*>(kept->data) : nullptr;
}

// Point a tensor of the same type and dims to the packed weight; false for another.
bool PackedWeights::use(const Matrix& matrix, ggml_tensor* tensor) {
  const ggml_tensor* made = matrix.tensor;
  if (!same_matrix(made, tensor)) return false;
  tensor->buffer = made->buffer;
  tensor->data = made->data;
  tensor->extra = made->extra;
  return true;
}

}  // namespace executorch_ggml
