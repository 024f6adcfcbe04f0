// conv_2d_dw: finds the input rows of each row of output pixels; conv_2d_dw_isa.cpp computes the row.
#include "kernels/convolution/conv_2d_dw.h"

#include "kernels/convolution/convolution.h"
#include "kernels/convolution/image.h"
#include "kernels/elementwise/convert.h"
#include "kernels/kernels.h"
#include "kernels/scratch.h"
#include "selection_generated.h"

namespace executorch_ggml::kernels {

namespace {

struct Scratch {
  ScratchVector<float> floats;
};

// The weights of some channels as the rows take them, in f32 with channels innermost: in place, or in memory of the
// thread's.
class DepthwiseWeights {
 public:
  DepthwiseWeights(const void* stored, DType type, Storage layout, int64_t channels, int64_t taps)
      : stored_(stored), type_(type), layout_(layout), channels_(channels), taps_(taps) {}

  const float* of(Range channels) const {
    if (layout_ == Storage::Depthwise && is_f32()) return static_cast<const float*>(stored_);
    auto& scratch = thread_scratch<Scratch>().floats;
    const auto size = static_cast<size_t>(channels_ * taps_);
    if (scratch.size() < size) scratch.resize(size);
    if (!is_f32() && layout_ == Storage::Depthwise) {
      widen(channels, scratch.data());
    } else {
      turn(channels, scratch.data());
    }
    return scratch.data();
  }

 private:
  void widen(Range channels, float* to) const {
    for (int64_t tap = 0; tap < taps_; ++tap) {
      const int64_t begin = tap * channels_ + channels.begin;
      to_floats(static_cast<const uint16_t*>(stored_) + begin, channels.size(), type_, to + begin);
    }
  }

  // From plain weights, which have each channel's taps adjacent.
  void turn(Range channels, float* to) const {
    for (int64_t channel = channels.begin; channel < channels.end; ++channel) {
      for (int64_t tap = 0; tap < taps_; ++tap) to[tap * channels_ + channel] = plain(channel * taps_ + tap);
    }
  }

  bool is_f32() const {
    constexpr bool kHasHalves = is_built(DType::F16) || is_built(DType::Bf16);
    return !kHasHalves || type_ == DType::F32;
  }

  float plain(int64_t i) const {
    if (is_f32()) return static_cast<const float*>(stored_)[i];
    float number;
    to_floats(static_cast<const uint16_t*>(stored_) + i, 1, type_, &number);
    return number;
  }

  const void* stored_;
  DType type_;
  Storage layout_;
  int64_t channels_;
  int64_t taps_;
};

void run_rows(ggml_tensor* dst, int ith, int nth, const KernelCall<ConvolutionParams>& call) {
  const ConvolutionParams& p = call.params;
  const ImageShape in(dst->src[0]);
  const ImageShape out(dst);
  const auto* x = static_cast<const float*>(dst->src[0]->data);
  const auto* bias = dst->src[2] == nullptr ? nullptr : static_cast<const float*>(dst->src[2]->data);
  auto* y = static_cast<float*>(dst->data);
  const ImageShare share(out, ith, nth);
  const int64_t first = share.channels.begin;
  if (out.width == 0 || share.channels.size() == 0) {
    return;
  }
  const int64_t all_taps = p.window.w.kernel * p.window.h.kernel;
  const DepthwiseWeights stored(dst->src[1]->data, call.src[1], p.weights, out.channels, all_taps);
  const float* weights = stored.of(share.channels);
  const Window& down = p.window.h;
  DepthwiseRow row = {};
  row.bias = bias == nullptr ? nullptr : bias + first;
  row.channels = share.channels.size();
  row.pitch = out.channels;
  row.input_pitch = down.dilation * in.width * in.channels;
  row.in_width = in.width;
  row.out_width = out.width;
  row.window = p.window.w;
  row.register_epilogue = RegisterEpilogue(p.epilogue);
  row.stored_epilogue = after_registers(p.epilogue, call.rounds_result);
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
  run_rows(dst, ith, nth, as_call<ConvolutionParams>(call));
}

}  // namespace executorch_ggml::kernels
