// How the image kernels see a tensor, and how their threads share its work. For plain .cpp only (see isa.h).
#pragma once

#include <cstdint>

#include "ggml.h"

namespace executorch_ggml::kernels {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// A tensor's four extents, channels innermost.
struct ImageShape {
  int64_t channels;
  int64_t width;
  int64_t height;
  int64_t images;

  explicit ImageShape(const ggml_tensor* t) : channels(t->ne[0]), width(t->ne[1]), height(t->ne[2]), images(t->ne[3]) {}

  int64_t pixels() const { return width * height * images; }
};

struct Interval {
  int64_t begin;
  int64_t end;

  // The index-th of `parts` even parts of [0, size).
  static Interval part(int64_t size, int64_t index, int64_t parts) {
    return {size * index / parts, size * (index + 1) / parts};
  }
  int64_t size() const { return end - begin; }
};

// The taps of a window at `offset` (the first tap's place) that are inside [0, size).
Interval taps_inside(int64_t offset, int64_t kernel, int64_t dilation, int64_t size);

// A thread's share of an output: rows of pixels (of all images) by channels.
struct ImageShare {
  Interval rows;
  Interval channels;

  ImageShare(const ImageShape& out, int ith, int nth);
};

}  // namespace executorch_ggml::kernels
