// conv_2d_dw: finds the input rows of each row of output pixels; conv_2d_dw_isa.cpp computes the row.
#include "kernels/convolution/conv_2d_dw.h"

#include <vector>

#include "kernels/convolution/convolution.h"
#include "kernels/convolution/image.h"
#include "kernels/kernels.h"

namespace executorch_ggml::kernels {

namespace {

// Plain weights of some channels as the rows take them, channels innermost, in memory of the thread's.
const float* channels_inside(const float* plain, Range channels, int64_t all_channels, int64_t taps) {
  static thread_local std::vector<float> scratch;
  const auto size = static_cast<size_t>(all_channels * taps);
  if (scratch.size() < size) scratch.resize(size);
  for (int64_t channel = channels.begin; channel < channels.end; ++channel) {
    for (int64_t tap = 0; tap < taps; ++tap) scratch[tap * all_channels + channel] = plain[channel * taps + tap];
  }
  return scratch.data();
}

void run_rows(ggml_tensor* dst, int ith, int nth, const ConvolutionParams& p) {
  const ImageShape in(dst->src[0]);
  const ImageShape out(dst);
  const auto* x = static_cast<const float*>(dst->src[0]->data);
  const auto* weights = static_cast<const float*>(dst->src[1]->data);
  const auto* bias = dst->src[2] == nullptr ? nullptr : static_cast<const float*>(dst->src[2]->data);
  auto* y = static_cast<float*>(dst->data);
  const ImageShare share(out, ith, nth);
  const int64_t first = share.channels.begin;
  if (out.width == 0 || share.channels.size() == 0) {
    return;
  }
  if (p.weights == Storage::Plain) {
    weights = channels_inside(weights, share.channels, out.channels, p.window.w.kernel * p.window.h.kernel);
  }
  const Window& down = p.window.h;
  DepthwiseRow row = {};
  row.bias = bias == nullptr ? nullptr : bias + first;
  row.channels = share.channels.size();
  row.pitch = out.channels;
  row.input_pitch = down.dilation * in.width * in.channels;
  row.in_width = in.width;
  row.out_width = out.width;
  row.window = p.window.w;
  row.epilogue = p.epilogue;
  const auto run = KERNEL_PICK(conv_dw_row);
  for (int64_t r = share.rows.begin; r < share.rows.end; ++r) {
    const int64_t top = r % out.height * down.stride - down.pad;
    const Range taps = taps_inside(top, down.kernel, down.dilation, in.height);
    const int64_t in_row = taps.size() == 0 ? 0 : r / out.height * in.height + top + taps.begin * down.dilation;
    row.tap_rows = taps.size();
    row.input = x + in_row * in.width * in.channels + first;
    row.weights = weights + taps.begin * p.window.w.kernel * out.channels + first;
    row.output = y + r * out.width * out.channels + first;
    run(row);
  }
}

}  // namespace

void conv_2d_dw(ggml_tensor* dst, int ith, int nth, void* call) {
  const auto& c = as_call<ConvolutionParams>(call);
  run_rows(dst, ith, nth, c.params);
}

}  // namespace executorch_ggml::kernels
