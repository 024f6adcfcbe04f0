// pool_2d: finds each output pixel's window; pool_2d_isa.cpp reduces it.
#include "pool_2d.h"

#include "image.h"
#include "kernels.h"

namespace executorch_ggml::kernels {

namespace {

// A window along one axis, of one output pixel.
struct Span {
  int64_t begin;    // the first input pixel inside the image
  int64_t taps;     // those inside the image
  int64_t counted;  // those that an average divides by

  Span(int64_t place, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation, int64_t size, bool count_pad) {
    const int64_t offset = place * stride - pad;
    const Interval inside = taps_inside(offset, kernel, dilation, size);
    begin = inside.size() == 0 ? 0 : offset + inside.begin * dilation;
    taps = inside.size();
    counted = count_pad ? taps_inside(offset + pad, kernel, dilation, size + 2 * pad).size() : taps;
  }
};

}  // namespace

void pool_2d(ggml_tensor* dst, int ith, int nth, void* call) {
  const Pool2dParams& p = as_call<Pool2dParams>(call).params;
  const ImageShape in(dst->src[0]);
  const ImageShape out(dst);
  const auto* x = static_cast<const float*>(dst->src[0]->data);
  auto* y = static_cast<float*>(dst->data);
  const ImageShare share(out, ith, nth);
  const bool count_pad = p.kind == PoolKind::AvgPad;
  const auto run = p.kind == PoolKind::Max ? KERNEL_PICK(pool_max) : KERNEL_PICK(pool_average);

  PoolPixel pixel = {};
  pixel.row_pitch = p.dilation_h * in.width * in.channels;
  pixel.tap_pitch = p.dilation_w * in.channels;
  pixel.channels = share.channels.size();
  for (int64_t r = share.rows.begin; r < share.rows.end; ++r) {
    const Span down(r % out.height, p.kernel_h, p.stride_h, p.pad_h, p.dilation_h, in.height, count_pad);
    const int64_t in_row = r / out.height * in.height + down.begin;
    for (int64_t column = 0; column < out.width; ++column) {
      const Span across(column, p.kernel_w, p.stride_w, p.pad_w, p.dilation_w, in.width, count_pad);
      pixel.tap_rows = down.taps;
      pixel.taps = across.taps;
      pixel.input = x + (in_row * in.width + across.begin) * in.channels + share.channels.begin;
      pixel.divisor = static_cast<float>(p.divisor == 0 ? down.counted * across.counted : p.divisor);
      pixel.output = y + (r * out.width + column) * out.channels + share.channels.begin;
      run(pixel);
    }
  }
}

}  // namespace executorch_ggml::kernels
