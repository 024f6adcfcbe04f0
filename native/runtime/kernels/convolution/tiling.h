// How a layer's pixels are divided among threads, and a range of them cut into tiles. For conv_2d.cpp.
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

// What the time of a layer is estimated from.
struct LayerWork {
  int64_t pixels;     // of the output
  int64_t channels;   // of them
  int64_t blocks;     // of channels
  int64_t weights;    // of a channel
  int64_t inputs;     // elements of the image
  int64_t tile_rows;  // pixels
};

// Into how many parts the pixels are divided among the threads; the output channels are divided into nth / parts.
// Picks the lowest estimate of the slowest thread's time, in multiplications of a block.
inline int64_t best_pixel_parts(const LayerWork& work, int nth) {
  constexpr double kExchangeCost = 4.0;  // cycles a result, where channels are divided
  int64_t best = 1;
  double best_cost = -1.0;
  for (int64_t parts = 1; parts <= nth; ++parts) {
    if (nth % parts != 0) continue;
    const int64_t of_part = ceil_div(work.pixels, parts);
    const auto rows = static_cast<double>(of_part);
    const auto tiles = static_cast<double>(ceil_div(of_part, work.tile_rows));
    const auto columns = static_cast<double>(ceil_div(work.blocks, nth / parts));
    const double weights = columns * static_cast<double>(work.weights);
    // Other layers divide rows: results of divided channels are read, and their memory was written, on other cores.
    const double of_others = 1.0 - static_cast<double>(parts) / nth;
    const double exchanged = kExchangeCost * of_others * static_cast<double>(work.pixels * work.channels) / nth;
    // A tile loads its weights too; inputs come from memory, at some 6 bytes a cycle.
    const double read = 0.6 * static_cast<double>(work.inputs) / static_cast<double>(parts);
    const double cost = (rows + 2.0 * tiles + 10.0) * weights + read + exchanged;
    if (best_cost < 0.0 || cost < best_cost) {
      best = parts;
      best_cost = cost;
    }
  }
  return best;
}

}  // namespace executorch_ggml::kernels
