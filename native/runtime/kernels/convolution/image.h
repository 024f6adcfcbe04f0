// How the image kernels see a tensor, and how their threads share its work. For plain .cpp only (see isa.h).
#pragma once

#include <cstdint>

#include "ggml.h"
#include "kernels/partition.h"

namespace executorch_ggml::kernels {

// A tensor's four extents, channels innermost.
struct ImageShape {
  int64_t channels;
  int64_t width;
  int64_t height;
  int64_t images;

  explicit ImageShape(const ggml_tensor* t) : channels(t->ne[0]), width(t->ne[1]), height(t->ne[2]), images(t->ne[3]) {}

  int64_t pixels() const { return width * height * images; }
};

// The taps of a window at `offset` (the first tap's position) that are inside [0, size).
Range taps_inside(int64_t offset, int64_t kernel, int64_t dilation, int64_t size);

// A thread's share of an output: rows of pixels (of all images) by channels.
struct ImageShare {
  Range rows;
  Range channels;

  ImageShare(const ImageShape& out, int ith, int nth);
};

}  // namespace executorch_ggml::kernels
