#include "dim_order.h"

#include <array>

#include "strided_copy.h"

namespace executorch_ggml {
namespace {

using ::executorch::aten::Tensor;

constexpr int kMaxRank = 16;  // ExecuTorch's

struct Layout {
  explicit Layout(const Tensor& tensor) : rank(static_cast<int>(tensor.dim())) {
    int64_t step = 1;
    for (int d = rank - 1; d >= 0; --d) {
      sizes[d] = tensor.size(d);
      strides[d] = tensor.strides()[d];
      dense[d] = step;
      step *= sizes[d];
    }
  }

  int rank;
  std::array<int64_t, kMaxRank> sizes;
  std::array<int64_t, kMaxRank> strides;
  std::array<int64_t, kMaxRank> dense;  // strides of a tensor of these sizes that is
};

}  // namespace

bool is_dense(const Tensor& tensor) {
  const Layout layout(tensor);
  for (int d = 0; d < layout.rank; ++d) {
    if (layout.sizes[d] != 1 && layout.strides[d] != layout.dense[d] && tensor.numel() > 0) return false;
  }
  return true;
}

void* DenseCopy::memory_for(const Tensor& tensor) {
  const size_t words = (tensor.nbytes() + sizeof(uint64_t) - 1) / sizeof(uint64_t);
  if (words_.size() < words) words_.resize(words);
  return words_.data();
}

void* DenseCopy::read(const Tensor& tensor) {
  void* to = memory_for(tensor);
  const Layout layout(tensor);
  copy_strided(to, layout.dense.data(), tensor.const_data_ptr(), layout.strides.data(), layout.sizes.data(),
               layout.rank, tensor.element_size());
  return to;
}

void DenseCopy::write(const Tensor& tensor) const {
  const Layout layout(tensor);
  copy_strided(tensor.mutable_data_ptr(), layout.strides.data(), words_.data(), layout.dense.data(),
               layout.sizes.data(), layout.rank, tensor.element_size());
}

}  // namespace executorch_ggml
