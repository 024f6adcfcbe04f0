// Index tensors as kernels read them: every index is checked before it is used.
#pragma once

#include "kernels/kernels.h"

namespace executorch_ggml::kernels {

class IndexReader {
 public:
  IndexReader(const KernelCallBase& call, const ggml_tensor* index, int64_t size, bool wrap)
      : call_(call), wide_(index->type == GGML_TYPE_I64), size_(size), wrap_(wrap) {}

  // The index that lies there, counted from the front. One that is out of range fails the run and gives -1.
  int64_t at(const char* place) const {
    const int64_t given = wide_ ? *reinterpret_cast<const int64_t*>(place) : *reinterpret_cast<const int32_t*>(place);
    const int64_t index = wrap_ && given < 0 ? given + size_ : given;
    if (index >= 0 && index < size_) {
      return index;
    }
    call_.status->fail("%s: index %lld is out of range for size %lld", call_.node, static_cast<long long>(given),
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
