// Index tensors as kernels read them: every index is checked before it is used.
#pragma once

#include "kernels/kernels.h"

namespace executorch_ggml::kernels {

class IndexReader {
 public:
  IndexReader(const KernelCallBase& call, const ggml_tensor* index, int64_t size, bool wrap)
      : call_(call), wide_(index->type == GGML_TYPE_I64), size_(size), wrap_(wrap) {}

  // The index stored at `element`, wrapped to [0, size). Out of range: -1, and the run fails.
  int64_t at(const char* element) const {
    const int64_t value =
        wide_ ? *reinterpret_cast<const int64_t*>(element) : *reinterpret_cast<const int32_t*>(element);
    const int64_t index = wrap_ && value < 0 ? value + size_ : value;
    if (index >= 0 && index < size_) {
      return index;
    }
    call_.status->fail("%s: index %lld is out of range for size %lld", call_.node, static_cast<long long>(value),
                       static_cast<long long>(size_));
    return -1;
  }

 private:
  const KernelCallBase& call_;
  bool wide_;
  int64_t size_;
  bool wrap_;
};

}  // namespace executorch_ggml::kernels
