// Tensors whose dims lie in memory in another order than their sizes say (channels last), and dense copies of them.
#pragma once

#include <executorch/runtime/core/exec_aten/exec_aten.h>

#include <cstdint>
#include <vector>

namespace executorch_ggml {

// Whether the elements lie in the order of the sizes, without gaps. Dims of size 1 may have any stride.
bool is_dense(const ::executorch::aten::Tensor& tensor);

// Memory for a tensor's elements in the order of its sizes. It is kept from run to run, and grows as needed.
class DenseCopy {
 public:
  // Memory for the elements, not initialized.
  void* memory_for(const ::executorch::aten::Tensor& tensor);

  // The tensor's elements.
  void* read(const ::executorch::aten::Tensor& tensor);

  // Writes what is in memory_for(tensor) to the tensor.
  void write(const ::executorch::aten::Tensor& tensor) const;

 private:
  std::vector<uint64_t> words_;
};

}  // namespace executorch_ggml
