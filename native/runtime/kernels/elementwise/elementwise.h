// The driver of all elementwise kernels: it cuts operands of any strides into dense runs, so that a kernel is only a
// loop over dense arrays.
#pragma once

#include <cstdint>

#include "kernels/layout.h"

namespace executorch_ggml::kernels {

// dst[i] = f(src[0][i], ...) for i < n. `context` is whatever the kernel passed to run_elementwise.
using MapFn = void (*)(void* dst, const void* const* src, int64_t n, const void* context);

// A function of one or more arrays. The variants in which one source is a single element are optional: without them
// such a source is spread into a buffer.
struct Forms {
  MapFn dense = nullptr;
  MapFn scalar_a = nullptr;
  MapFn scalar_b = nullptr;
};

// Thread ith's share of dst = f(dst->src[0..sources)), the sources broadcast to dst.
void run_elementwise(ggml_tensor* dst, int sources, const Forms& forms, const void* context, int ith, int nth);

}  // namespace executorch_ggml::kernels
