// How the threads of a kernel share its work. For plain .cpp only (see simd/isa.h).
#pragma once

#include <cstdint>

namespace executorch_ggml::kernels {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Half open.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;

  // The index-th of `parts` even parts of [0, size).
  static Range part(int64_t size, int64_t index, int64_t parts) {
    return {size * index / parts, size * (index + 1) / parts};
  }
  int64_t size() const { return end - begin; }
  bool empty() const { return begin >= end; }
};

// Thread ith's part of `count` elements: of at least `grain` elements, and beginning at a multiple of 64, so that no
// two threads write to one cache line.
Range share(int64_t count, int ith, int nth, int64_t grain = 2048);

}  // namespace executorch_ggml::kernels
