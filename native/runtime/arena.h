// Memory for tensors' descriptors.
#pragma once

#include <cstddef>
#include <memory>

#include "ggml.h"
#include "result.h"

namespace executorch_ggml {

// A ggml context for descriptors, in memory of ours: ggml aborts where it gets none.
class Arena {
 public:
  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  Status open(size_t bytes);
  ggml_context* context() const { return ctx_; }

 private:
  std::unique_ptr<std::max_align_t[]> memory_;
  ggml_context* ctx_ = nullptr;
};

}  // namespace executorch_ggml
