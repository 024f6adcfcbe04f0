#include "arena.h"

#include <new>

#include "resource_limits.h"
#include "status.h"

namespace executorch_ggml {

Arena::~Arena() {
  if (ctx_) ggml_free(ctx_);
}

Status Arena::open(size_t bytes) {
  const size_t units = bytes / sizeof(std::max_align_t) + 1;
  memory_.reset(new (std::nothrow) std::max_align_t[units]);
  if (memory_ == nullptr || !can_allocate(kGgmlObject)) {
    return Status::error(format("no memory for a graph's descriptors of %zu bytes", bytes));
  }
  ctx_ = ggml_init({units * sizeof(std::max_align_t), memory_.get(), /*no_alloc=*/true});
  return ctx_ ? Status() : Status::error("ggml cannot make a context");
}

}  // namespace executorch_ggml
