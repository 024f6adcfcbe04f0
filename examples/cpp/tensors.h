// Inputs and outputs of a method: made from files or ones, printed, compared.
#pragma once

#include <executorch/extension/tensor/tensor_ptr.h>
#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/executor/method_meta.h>

#include <string>
#include <vector>

#include "options.h"

// The inputs of a call, with the memory behind them.
class Inputs {
 public:
  // False if an input cannot be made; the reason has been printed.
  bool make(const executorch::runtime::MethodMeta& meta, const Options& options);

  const std::vector<executorch::runtime::EValue>& values() const { return values_; }

 private:
  bool make_tensor(const executorch::runtime::TensorInfo& info, size_t index, const Options& options);

  std::vector<std::vector<uint8_t>> memory_;
  std::vector<executorch::extension::TensorPtr> tensors_;
  std::vector<executorch::runtime::EValue> values_;
};

// "float [1, 8]: 0.5 0.25 ..."
std::string describe(const executorch::runtime::EValue& value);

// Whether a tensor holds the numbers of a raw file, up to tolerance times the file's largest magnitude. Prints the
// largest difference.
bool matches(const executorch::runtime::EValue& value, const std::string& path, double tolerance);
