// The windows of poolings, and the loop over the pixels of their results. For plain .cpp only (see isa.h).
#pragma once

#include <cstdint>

#include "kernels/convolution/image.h"
#include "kernels/convolution/pool_2d.h"
#include "kernels/kernels.h"

namespace executorch_ggml::kernels {

// A window along one axis, of one output pixel.
struct Span {
  int64_t begin;    // the first input pixel inside the image
  int64_t taps;     // those inside the image
  int64_t counted;  // those that an average divides by

  Span(int64_t pixel, const Window& window, int64_t size, int64_t out, bool count_pad) {
    if (window.kernel == 0) {  // adaptive
      begin = pixel * size / out;
      taps = counted = ceil_div((pixel + 1) * size, out) - begin;
      return;
    }
    const int64_t offset = pixel * window.stride - window.pad;
    const Range inside = taps_inside(offset, window.kernel, window.dilation, size);
    begin = inside.size() == 0 ? 0 : offset + inside.begin * window.dilation;
    taps = inside.size();
    counted = taps;
    if (count_pad) {
      counted = taps_inside(offset + window.pad, window.kernel, window.dilation, size + 2 * window.pad).size();
    }
  }
};

// Calls run(pixel, taps) for each pixel of a thread's share; `taps` of its window are inside the image. Results are of
// the size of T.
template <class T, class Params, class Run>
void pool_pixels(ggml_tensor* dst, int ith, int nth, const Params& p, const Run& run) {
  const ImageShape in(dst->src[0]);
  const ImageShape out(dst);
  const auto* x = static_cast<const T*>(dst->src[0]->data);
  auto* y = static_cast<T*>(dst->data);
  const ImageShare share(out, ith, nth);
  const bool count_pad = p.kind == PoolKind::AvgPad;

  PoolPixel<T> pixel = {};
  pixel.row_pitch = p.window.h.dilation * in.width * in.channels;
  pixel.tap_pitch = p.window.w.dilation * in.channels;
  pixel.channels = share.channels.size();
  for (int64_t r = share.rows.begin; r < share.rows.end; ++r) {
    const Span down(r % out.height, p.window.h, in.height, out.height, count_pad);
    const int64_t in_row = r / out.height * in.height + down.begin;
    for (int64_t column = 0; column < out.width; ++column) {
      const Span across(column, p.window.w, in.width, out.width, count_pad);
      pixel.tap_rows = down.taps;
      pixel.taps = across.taps;
      pixel.input = x + (in_row * in.width + across.begin) * in.channels + share.channels.begin;
      pixel.divisor = static_cast<float>(p.divisor == 0 ? down.counted * across.counted : p.divisor);
      pixel.output = y + (r * out.width + column) * out.channels + share.channels.begin;
      run(pixel, down.taps * across.taps);
    }
  }
}

}  // namespace executorch_ggml::kernels
