// Depthwise convolutions of integers: finds the input rows of each row of output pixels; depthwise_isa.cpp computes it.
#include "kernels/quantized/depthwise.h"

#include <cstring>
#include <vector>

#include "kernels/convolution/image.h"
#include "kernels/kernels.h"
#include "kernels/quantized/layer.h"
#include "kernels/scratch.h"

namespace executorch_ggml::kernels {

namespace {

struct Scratch {
  Buffer<char> prepared;
  Buffer<int8_t> weights;
  Buffer<char> outside;
  std::vector<const char*> rows;
};

// Plain weights of some channels with channels innermost.
const int8_t* channels_inside(const int8_t* plain, Range channels, int64_t taps, int64_t pitch, Scratch& scratch) {
  int8_t* to = scratch.weights.sized(taps * pitch);
  for (int64_t channel = channels.begin; channel < channels.end; ++channel) {
    for (int64_t tap = 0; tap < taps; ++tap) to[tap * pitch + channel] = plain[channel * taps + tap];
  }
  return to;
}

void run_rows(ggml_tensor* dst, int ith, int nth, const KernelCall<QuantizedLayerParams>& call) {
  static thread_local Scratch scratch;
  const QuantizedLayerParams& p = call.params;
  const ImageShape in(dst->src[0]);
  const ImageShape out(dst);
  const ImageShare share(out, ith, nth);
  if (out.width == 0 || share.channels.empty() || share.rows.empty()) return;
  const int64_t first = share.channels.begin;
  const Window& down = p.window.h;
  const auto* weights = static_cast<const int8_t*>(dst->src[1]->data);
  if (p.weights == Storage::Plain) {
    weights = channels_inside(weights, share.channels, down.kernel * p.window.w.kernel, out.channels, scratch);
  }
  QuantizedDepthwise layer = {};
  layer.weights = weights + first;
  layer.pitch = out.channels;
  layer.channels = share.channels.size();
  layer.window = p.window;
  layer.is_signed = call.src[0] == DType::I8;
  layer.zero = static_cast<int32_t>(p.zero);
  layer.scale = static_cast<const float*>(dst->src[2]->data) + first;
  layer.bias = dst->src[3] == nullptr ? nullptr : static_cast<const float*>(dst->src[3]->data) + first;
  layer.output = p.output;
  layer.in_width = in.width;
  layer.out_width = out.width;
  const QuantizedDepthwiseLoops& loops = KERNEL_PICK(quantized_depthwise_loops)();
  char* prepared = scratch.prepared.sized(loops.prepared_bytes(layer));
  loops.prepare(layer, prepared);
  char* outside = scratch.outside.sized(layer.channels);
  std::memset(outside, layer.zero, static_cast<size_t>(layer.channels));
  scratch.rows.resize(static_cast<size_t>(down.kernel));
  const auto* x = static_cast<const char*>(dst->src[0]->data) + first;
  const auto item = static_cast<int64_t>(ggml_type_size(dst->type));
  QuantizedDepthwiseRow row = {scratch.rows.data(), outside, nullptr, out.channels * item};
  for (int64_t r = share.rows.begin; r < share.rows.end; ++r) {
    for (int64_t tap = 0; tap < down.kernel; ++tap) {
      const int64_t y = r % out.height * down.stride - down.pad + tap * down.dilation;
      const bool inside = y >= 0 && y < in.height;
      scratch.rows[tap] = inside ? x + (r / out.height * in.height + y) * in.width * in.channels : nullptr;
    }
    row.output = static_cast<char*>(dst->data) + (r * out.width * out.channels + first) * item;
    loops.run(layer, prepared, row);
  }
}

}  // namespace

void quantized_depthwise(ggml_tensor* dst, int ith, int nth, void* call) {
  run_rows(dst, ith, nth, as_call<QuantizedLayerParams>(call));
}

}  // namespace executorch_ggml::kernels
