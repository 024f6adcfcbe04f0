// Depthwise convolutions of integers: finds the pairs of input rows of each row of output pixels, which are interleaved
// once and serve the rows after it too; depthwise_isa.cpp computes.
#include "kernels/quantized/depthwise.h"

#include <algorithm>
#include <vector>

#include "kernels/convolution/image.h"
#include "kernels/kernels.h"
#include "kernels/quantized/layer.h"
#include "kernels/scratch.h"

namespace executorch_ggml::kernels {

namespace {

constexpr int64_t kBlocksAtOnce = 64 / kQuantizedBlock;  // a cache line of a pixel; their pairs of rows stay in L2

struct Scratch {
  Buffer<int8_t> weights;
  Buffer<char> packed;
  Buffer<char> pairs;
  std::vector<int64_t> rows;  // which input row each of the pairs begins with
  std::vector<const void*> of_output_row;
};

// Plain weights of some channels with channels innermost.
const int8_t* channels_inside(const int8_t* plain, Range channels, int64_t taps, int64_t pitch, Scratch& scratch) {
  int8_t* to = scratch.weights.sized(taps * pitch);
  for (int64_t channel = channels.begin; channel < channels.end; ++channel) {
    for (int64_t tap = 0; tap < taps; ++tap) to[tap * pitch + channel] = plain[channel * taps + tap];
  }
  return to;
}

// The pairs of input rows that were interleaved last, as many as output rows share.
class InputPairs {
 public:
  InputPairs(const QuantizedDepthwise& layer, const QuantizedDepthwiseLoops& loops, const char* x, const ImageShape& in,
             Scratch& scratch)
      : layer_(layer),
        loops_(loops),
        x_(x),
        in_(in),
        count_(layer.window.h.kernel * layer.window.h.dilation),
        bytes_(loops.pair_bytes(layer)),
        pairs_(scratch.pairs.sized(count_ * bytes_)),
        rows_(scratch.rows) {
    rows_.assign(static_cast<size_t>(count_), kNone);
  }

  // The pair whose upper row is `y`, which may be outside of the image.
  const void* at(int64_t image, int64_t y) {
    if (image != image_) std::fill(rows_.begin(), rows_.end(), kNone);
    image_ = image;
    const int64_t place = (y + layer_.window.h.pad) % count_;
    char* pair = pairs_ + place * bytes_;
    if (rows_[place] == y) return pair;
    rows_[place] = y;
    loops_.interleave(layer_, row(y), row(y + layer_.window.h.dilation), pair);
    return pair;
  }

 private:
  static constexpr int64_t kNone = INT64_MIN;

  const char* row(int64_t y) const {
    if (y < 0 || y >= in_.height) return nullptr;
    return x_ + (image_ * in_.height + y) * in_.width * in_.channels;
  }

  const QuantizedDepthwise& layer_;
  const QuantizedDepthwiseLoops& loops_;
  const char* x_;
  const ImageShape& in_;
  int64_t image_ = -1;
  int64_t count_;
  int64_t bytes_;
  char* pairs_;
  std::vector<int64_t>& rows_;
};

void run_rows(const QuantizedDepthwise& layer, const char* x, const ImageShape& in, char* y, const ImageShape& out,
              Range rows, Scratch& scratch) {
  const QuantizedDepthwiseLoops& loops = KERNEL_PICK(quantized_depthwise_loops)();
  const Window& down = layer.window.h;
  char* packed = scratch.packed.sized(loops.packed_bytes(layer));
  loops.pack(layer, packed);
  InputPairs pairs(layer, loops, x, in, scratch);
  scratch.of_output_row.resize(static_cast<size_t>(tap_pairs(down)));
  const int64_t pitch = out.channels * (layer.output.dtype == DType::F32 ? static_cast<int64_t>(sizeof(float)) : 1);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const int64_t first = r % out.height * down.stride - down.pad;
    for (int64_t pair = 0; pair < tap_pairs(down); ++pair) {
      scratch.of_output_row[pair] = pairs.at(r / out.height, first + upper_tap(down, pair) * down.dilation);
    }
    loops.run(layer, packed, scratch.of_output_row.data(), y + r * out.width * pitch, pitch);
  }
}

void run_share(ggml_tensor* dst, int ith, int nth, const KernelCall<QuantizedLayerParams>& call) {
  static thread_local Scratch scratch;
  const QuantizedLayerParams& p = call.params;
  const ImageShape in(dst->src[0]);
  const ImageShape out(dst);
  const ImageShare share(out, ith, nth);
  if (out.width == 0 || share.channels.empty() || share.rows.empty()) return;
  const auto* weights = static_cast<const int8_t*>(dst->src[1]->data);
  if (p.weights == Storage::Plain) {
    weights = channels_inside(weights, share.channels, p.window.h.kernel * p.window.w.kernel, out.channels, scratch);
  }
  const auto* x = static_cast<const char*>(dst->src[0]->data);
  auto* y = static_cast<char*>(dst->data);
  const auto* scale = static_cast<const float*>(dst->src[2]->data);
  const auto* bias = dst->src[3] == nullptr ? nullptr : static_cast<const float*>(dst->src[3]->data);
  const int64_t blocks = ceil_div(share.channels.size(), kQuantizedBlock);
  const int64_t parts = ceil_div(blocks, kBlocksAtOnce);
  for (int64_t part = 0; part < parts; ++part) {
    const Range some = Range::part(blocks, part, parts);
    const int64_t first = share.channels.begin + some.begin * kQuantizedBlock;
    QuantizedDepthwise layer = {};
    layer.weights = weights + first;
    layer.pitch = out.channels;
    layer.channels = std::min(some.size() * kQuantizedBlock, share.channels.end - first);
    layer.window = p.window;
    layer.is_signed = call.src[0] == DType::I8;
    layer.zero = static_cast<int32_t>(p.zero);
    layer.scale = scale + first;
    layer.bias = bias == nullptr ? nullptr : bias + first;
    layer.output = p.output;
    layer.in_width = in.width;
    layer.out_width = out.width;
    const auto item = static_cast<int64_t>(ggml_type_size(dst->type));
    run_rows(layer, x + first, in, y + first * item, out, share.rows, scratch);
  }
}

}  // namespace

void quantized_depthwise(ggml_tensor* dst, int ith, int nth, void* call) {
  run_share(dst, ith, nth, as_call<QuantizedLayerParams>(call));
}

}  // namespace executorch_ggml::kernels
