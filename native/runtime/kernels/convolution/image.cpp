#include "kernels/convolution/image.h"

#include <algorithm>

namespace executorch_ggml::kernels {

Range taps_inside(int64_t offset, int64_t kernel, int64_t dilation, int64_t size) {
  const int64_t begin = offset < 0 ? ceil_div(-offset, dilation) : 0;
  const int64_t end = offset < size ? std::min(kernel, ceil_div(size - offset, dilation)) : 0;
  return {std::min(begin, kernel), std::max(end, std::min(begin, kernel))};
}

ImageShare::ImageShare(const ImageShape& out, int ith, int nth)
    : rows{0, out.height * out.images}, channels{0, out.channels} {
  constexpr int64_t kUnit = 16;  // channels: a cache line, so that threads don't write to the same one
  const int64_t units = ceil_div(out.channels, kUnit);
  // Whole rows, unless channels can be shared more evenly.
  const int64_t longest_rows = ceil_div(rows.end, nth) * units;
  const int64_t longest_channels = ceil_div(units, nth) * rows.end;
  if (longest_rows <= longest_channels) {
    rows = Range::part(rows.end, ith, nth);
    return;
  }
  const Range part = Range::part(units, ith, nth);
  channels = {part.begin * kUnit, std::min(part.end * kUnit, out.channels)};
}

}  // namespace executorch_ggml::kernels
