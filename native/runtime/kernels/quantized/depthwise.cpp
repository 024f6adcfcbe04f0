// Depthwise convolutions of integers: finds the bundles of input rows of each row of output pixels, which are
// interleaved once and serve the rows after it too; depthwise_isa.cpp, or a folder of an instruction set, computes.
#include "kernels/quantized/depthwise.h"

#include <algorithm>
#include <vector>

#include "kernels/convolution/image.h"
#include "kernels/kernels.h"
#include "kernels/quantized/layer.h"
#include "kernels/scratch.h"

namespace executorch_ggml::kernels {

namespace {

constexpr int64_t kBundlesBytes = 160 << 10;  // of as many channels as are computed at once: they stay in L2

struct Scratch {
  Buffer<int8_t> weights;
  Buffer<char> packed;
  Buffer<char> bundles;
  ScratchVector<int64_t> first_rows;  // which input row each of the bundles begins with
  ScratchVector<const char*> rows;    // of a bundle
  ScratchVector<const void*> of_output_row;
};

const QuantizedDepthwiseLoops& best_loops() {
  const Isa isa = active_isa();
  const QuantizedDepthwiseLoops* best = KERNEL_PICK_AVX512VNNI(isa, dot_product_depthwise_loops);
  if (best == nullptr) best = KERNEL_PICK_AVXVNNI(isa, dot_product_depthwise_loops);
  if (best == nullptr) best = KERNEL_PICK_DOTPROD(isa, dot_product_depthwise_loops);
  return best != nullptr ? *best : KERNEL_PICK(quantized_depthwise_loops)();
}

// Plain weights of some channels with channels innermost.
const int8_t* channels_inside(const int8_t* plain, Range channels, int64_t taps, int64_t pitch, Scratch& scratch) {
  int8_t* to = scratch.weights.sized(taps * pitch);
  for (int64_t channel = channels.begin; channel < channels.end; ++channel) {
    for (int64_t tap = 0; tap < taps; ++tap) to[tap * pitch + channel] = plain[channel * taps + tap];
  }
  return to;
}

// How many bundles output rows share.
int64_t shared_bundles(const Window& down, int64_t bundle) {
  return bundles_of(down, bundle) == 1 ? 1 : down.kernel * down.dilation;
}

// How many blocks of channels are computed at once. Where those are not all of a pixel, cache lines are read twice.
int64_t blocks_at_once(QuantizedDepthwise layer, const QuantizedDepthwiseLoops& loops) {
  layer.channels = kQuantizedBlock;
  const int64_t bytes = shared_bundles(layer.window.h, loops.bundle) * loops.bundle_bytes(layer);
  return std::max<int64_t>(1, kBundlesBytes / std::max<int64_t>(1, bytes));
}

// The bundles of input rows that were interleaved last, as many as output rows share.
class InputBundles {
 public:
  InputBundles(const QuantizedDepthwise& layer, const QuantizedDepthwiseLoops& loops, const char* x,
               const ImageShape& in, Scratch& scratch)
      : layer_(layer),
        loops_(loops),
        x_(x),
        in_(in),
        count_(shared_bundles(layer.window.h, loops.bundle)),
        bytes_(loops.bundle_bytes(layer)),
        bundles_(scratch.bundles.sized(count_ * bytes_)),
        first_rows_(scratch.first_rows),
        rows_(scratch.rows) {
    first_rows_.assign(static_cast<size_t>(count_), kNone);
    rows_.resize(static_cast<size_t>(loops.bundle));
  }

  // The bundle whose first row is `y`, which may be outside of the image.
  const void* at(int64_t image, int64_t y) {
    if (image != image_) std::fill(first_rows_.begin(), first_rows_.end(), kNone);
    image_ = image;
    const int64_t place = (y + layer_.window.h.pad) % count_;
    char* bundle = bundles_ + place * bytes_;
    if (first_rows_[place] == y) return bundle;
    first_rows_[place] = y;
    for (int64_t i = 0; i < loops_.bundle; ++i) rows_[i] = row(y + i * layer_.window.h.dilation);
    loops_.interleave(layer_, rows_.data(), bundle);
    return bundle;
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
  char* bundles_;
  ScratchVector<int64_t>& first_rows_;
  ScratchVector<const char*>& rows_;
};

void run_rows(const QuantizedDepthwise& layer, const QuantizedDepthwiseLoops& loops, const char* x,
              const ImageShape& in, char* y, const ImageShape& out, Range rows, Scratch& scratch) {
  const Window& down = layer.window.h;
  const int64_t count = bundles_of(down, loops.bundle);
  char* packed = scratch.packed.sized(loops.packed_bytes(layer));
  loops.pack(layer, packed);
  InputBundles bundles(layer, loops, x, in, scratch);
  scratch.of_output_row.resize(static_cast<size_t>(count));
  const int64_t pitch = out.channels * (layer.output.dtype == DType::F32 ? static_cast<int64_t>(sizeof(float)) : 1);
  for (int64_t r = rows.begin; r < rows.end;) {
    const int64_t line = r % out.height;
    const int64_t some = std::min({rows_at_once(down, loops.bundle), rows.end - r, out.height - line});
    for (int64_t number = 0; number < count; ++number) {
      const int64_t first = line * down.stride - down.pad + first_tap(down, loops.bundle, number) * down.dilation;
      scratch.of_output_row[number] = bundles.at(r / out.height, first);
    }
    loops.run(layer, packed, scratch.of_output_row.data(), some, y + r * out.width * pitch, pitch);
    r += some;
  }
}

void run_share(ggml_tensor* dst, int ith, int nth, const KernelCall<QuantizedLayerParams>& call) {
  auto& scratch = thread_scratch<Scratch>();
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
  QuantizedDepthwise layer = {};
  layer.pitch = out.channels;
  layer.window = p.window;
  layer.is_signed = call.src[0] == DType::I8;
  layer.zero = static_cast<int32_t>(p.zero);
  layer.output = p.output;
  layer.in_width = in.width;
  layer.out_width = out.width;
  const QuantizedDepthwiseLoops& loops = best_loops();
  const auto item = static_cast<int64_t>(ggml_type_size(dst->type));
  const int64_t blocks = ceil_div(share.channels.size(), kQuantizedBlock);
  const int64_t parts = ceil_div(blocks, blocks_at_once(layer, loops));
  for (int64_t part = 0; part < parts; ++part) {
    const Range some = Range::part(blocks, part, parts);
    const int64_t first = share.channels.begin + some.begin * kQuantizedBlock;
    layer.weights = weights + first;
    layer.channels = std::min(some.size() * kQuantizedBlock, share.channels.end - first);
    layer.scale = scale + first;
    layer.bias = bias == nullptr ? nullptr : bias + first;
    run_rows(layer, loops, x + first, in, y + first * item, out, share.rows, scratch);
  }
}

}  // namespace

bool is_quantized_depthwise(const Window2d& window, const ggml_tensor* x, const std::array<int64_t, 4>& out) {
  constexpr int64_t kBeyond = 1024;  // pixels
  const int64_t across = (out[1] - 1) * window.w.stride + (window.w.kernel - 1) * window.w.dilation;
  const int64_t down = window.h.kernel * window.h.dilation;
  return across <= 2 * x->ne[1] + kBeyond && down <= 2 * x->ne[2] + kBeyond;
}

void quantized_depthwise(ggml_tensor* dst, int ith, int nth, void* call) {
  run_share(dst, ith, nth, as_call<QuantizedLayerParams>(call));
}

}  // namespace executorch_ggml::kernels
