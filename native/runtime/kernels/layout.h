// Walks several tensors of any strides over one index space, in flat order, run by run.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ggml.h"
#include "kernels/partition.h"

namespace executorch_ggml::kernels {

constexpr int kMaxOperands = 4;

// Tensors seen through the index space ne: a dim of size 1 that the space has larger gets stride 0.
class Walk {
 public:
  explicit Walk(const int64_t* ne);

  void add(const ggml_tensor* tensor);
  void add(const void* data, const int64_t* stride);

  // Drops dims of size 1 and merges dims that are contiguous in all operands. Keeps the flat order.
  void collapse();

  // After collapse(): whether operand i is a dense tensor of the space.
  bool dense(int i, int64_t item) const;

  int dims = 4;
  int operands = 0;
  int64_t count = 0;
  int64_t ne[4];
  int64_t stride[kMaxOperands][4] = {};  // bytes
  char* data[kMaxOperands] = {};
};

// Goes over a range of a walk's flat indices: each next() is a run of n elements along dim 0, with at[i] the beginning
// of operand i's run.
class Runs {
 public:
  Runs(const Walk& walk, Range range);

  bool next() {
    left_ -= n;
    if (left_ <= 0) {
      return false;
    }
    if (started_) {
      advance();
    }
    started_ = true;
    n = std::min(walk_.ne[0] - first_, left_);
    for (int i = 0; i < walk_.operands; ++i) {
      at[i] = row_[i] + first_ * walk_.stride[i][0];
    }
    first_ = 0;
    return true;
  }

  int64_t n = 0;
  char* at[kMaxOperands] = {};

 private:
  void advance();

  const Walk& walk_;
  int64_t left_;
  int64_t first_ = 0;  // the run's first index in dim 0
  int64_t index_[4] = {};
  char* row_[kMaxOperands] = {};
  bool started_ = false;
};

// n elements of `item` bytes (1, 2, 4 or 8), steps in bytes.
void copy_elements(void* to, int64_t to_step, const void* from, int64_t from_step, int64_t n, int64_t item);

// A range of a one-operand walk, as dense elements.
void gather(const Walk& walk, Range range, void* to, int64_t item);

inline int64_t item_size(const ggml_tensor* tensor) { return static_cast<int64_t>(ggml_type_size(tensor->type)); }

}  // namespace executorch_ggml::kernels
