// How a range of pixels is cut into tiles. For conv_2d.cpp.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/partition.h"

namespace executorch_ggml::kernels {

// Pixels in tiles of even size, a small last one would waste more; or in full ones: in tile registers any number up
// to 16 takes as long.
struct Tiling {
  Tiling(Range pixels, int64_t rows, bool full)
      : all(pixels),
        count(ceil_div(pixels.size(), rows)),
        even(full ? rows : pixels.size() / count),
        larger(full ? 0 : pixels.size() % count) {}

  Range tile(int64_t index) const {
    const int64_t first = all.begin + index * even + std::min(index, larger);
    return {first, std::min(first + even + (index < larger ? 1 : 0), all.end)};
  }

  Range all;
  int64_t count;
  int64_t even;
  int64_t larger;  // so many tiles have one pixel more
};

}  // namespace executorch_ggml::kernels
