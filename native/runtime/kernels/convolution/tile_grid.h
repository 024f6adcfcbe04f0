// Square tiles of output pixels that Winograd's algorithms compute at once. For plain .cpp only (see simd/isa.h).
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/convolution/image.h"
#include "kernels/partition.h"

namespace executorch_ggml::kernels {

// The first output pixel of a tile.
struct TilePlace {
  int64_t x, y, image;
};

// The tiles that cover some images, which they may exceed on the right and below.
class TileGrid {
 public:
  TileGrid(const ImageShape& out, int64_t side)
      : side_(side), across_(ceil_div(out.width, side)), down_(ceil_div(out.height, side)), images_(out.images) {}

  int64_t tiles() const { return across_ * down_ * images_; }

  TilePlace place(int64_t tile) const {
    return {tile % across_ * side_, tile / across_ % down_ * side_, tile / across_ / down_};
  }

 private:
  int64_t side_;
  int64_t across_;
  int64_t down_;
  int64_t images_;
};

// Pointers to Side x Side pixels from (left, top) on, row by row; `outside` for those past the image.
template <int Side, class T>
void find_pixels(T* images, const ImageShape& in, int64_t left, int64_t top, int64_t image, T* outside, T** to) {
  if (left >= 0 && top >= 0 && left + Side <= in.width && top + Side <= in.height) {
    T* line = images + ((image * in.height + top) * in.width + left) * in.channels;
    for (int y = 0; y < Side; ++y, line += in.width * in.channels) {
      T* pixel = line;
      for (int x = 0; x < Side; ++x, pixel += in.channels) *to++ = pixel;
    }
    return;
  }
  for (int64_t y = top; y < top + Side; ++y) {
    const bool in_image = y >= 0 && y < in.height;
    const int64_t from = ((image * in.height + y) * in.width + left) * in.channels;
    for (int64_t x = 0; x < Side; ++x) {
      const bool inside = in_image && left + x >= 0 && left + x < in.width;
      *to++ = inside ? images + from + x * in.channels : outside;
    }
  }
}

// Rows of a GEMM tile, and the cost of an input transform in multiply-adds at all points.
struct WinogradCost {
  int64_t rows;
  int64_t transform;
};

// Into how many parts the tiles are divided among nth threads: the blocks of channels are divided for the rest of the
// threads, which then transform the same inputs.
inline int64_t best_tile_parts(int64_t tiles, int64_t inputs, int64_t blocks, int64_t block, const WinogradCost& cost,
                               int nth) {
  int64_t best = 1;
  int64_t best_cost = std::numeric_limits<int64_t>::max();
  for (int64_t parts = 1; parts <= nth; ++parts) {
    if (nth % parts != 0) continue;
    const int64_t rows = ceil_div(tiles, parts);
    const int64_t columns = ceil_div(blocks, nth / parts) * block;
    const int64_t padded = ceil_div(rows, cost.rows) * cost.rows;
    const int64_t of_parts = (padded + 2) * columns * inputs + rows * inputs * cost.transform;
    if (of_parts >= best_cost) continue;
    best = parts;
    best_cost = of_parts;
  }
  return best;
}

// Whether an axis of a window has 3 taps and stride 1.
inline bool slides_by_one(const Window& w) { return w.kernel == 3 && w.stride == 1 && w.dilation == 1 && w.up == 1; }

}  // namespace executorch_ggml::kernels
