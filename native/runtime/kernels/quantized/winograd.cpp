// Plans int8 convolutions by Winograd's F(2x2, 3x3): the inputs of some tiles are transformed; then, for each block of
// output channels, multiplied point by point with transformed weights, and the sums transformed back.
#include "kernels/quantized/winograd.h"

#include <algorithm>
#include <cstring>

#include "kernels/convolution/tile_grid.h"
#include "kernels/kernels.h"
#include "kernels/scratch.h"

namespace executorch_ggml::kernels {

namespace {

// Transformed inputs at a time, which are to stay in L2; more of them where the weights, which each group of tiles
// reads again, are large.
constexpr int64_t kLeastBytes = 192 * 1024;
constexpr int64_t kMostBytes = 768 * 1024;

struct Scratch {
  Buffer<int16_t> inputs;
  Buffer<int32_t> sums;
  Buffer<char> zeros;  // a pixel outside of the image
  Buffer<char*> pixels;
};

int64_t quads_of(int64_t channels) { return ceil_div(channels, kQuad); }

class IntegerWinogradLayer {
 public:
  IntegerWinogradLayer(ggml_tensor* dst, const KernelCall<IntegerWinogradParams>& call)
      : params_(call.params.layer),
        format_(params_.output),
        in_(dst->src[0]),
        out_(dst),
        grid_(out_, kIntegerTileOut),
        blocks_(ceil_div(out_.channels, kQuantizedBlock)),
        quads_(quads_of(in_.channels)),
        pitch_(ceil_div(in_.channels, kPaddedWords) * kPaddedWords),
        item_(static_cast<int64_t>(ggml_type_size(dst->type))),
        is_signed_(call.src[0] == DType::I8),
        x_(static_cast<const char*>(dst->src[0]->data)),
        weights_(call.params.weights),
        scale_(static_cast<const float*>(dst->src[2]->data)),
        bias_(dst->src[3] == nullptr ? nullptr : static_cast<const float*>(dst->src[3]->data)),
        y_(static_cast<char*>(dst->data)) {}

  void run(int ith, int nth) {
    const WinogradCost cost = {arithmetic_.rows, kTransformCost};
    const int64_t parts = best_tile_parts(grid_.tiles(), in_.channels, blocks_, kQuantizedBlock, cost, nth);
    const Range blocks = Range::part(blocks_, ith / parts, nth / parts);
    const Range tiles = Range::part(grid_.tiles(), ith % parts, parts);
    if (blocks.empty() || tiles.empty()) return;
    zeros_ = scratch_.zeros.sized(in_.channels);
    std::memset(zeros_, static_cast<int>(params_.zero), static_cast<size_t>(in_.channels));
    const int64_t groups = ceil_div(tiles.size(), group_size(blocks.size()));
    for (int64_t i = 0; i < groups; ++i) {
      const Range part = Range::part(tiles.size(), i, groups);
      run_group({tiles.begin + part.begin, tiles.begin + part.end}, blocks);
    }
  }

 private:
  // Tiles at a time: whole rows of the GEMM, as many as the caches hold.
  int64_t group_size(int64_t blocks) const {
    constexpr auto kWordBytes = static_cast<int64_t>(sizeof(int16_t));
    const int64_t weight_bytes = blocks * block_words() * kWordBytes;
    const int64_t bytes = std::clamp(weight_bytes / 4, kLeastBytes, kMostBytes);
    return std::max<int64_t>(1, bytes / (kIntegerPoints * pitch_ * kWordBytes) / arithmetic_.rows) * arithmetic_.rows;
  }

  int64_t block_words() const { return kIntegerPoints * quads_ * kQuadBytes; }

  void run_group(Range tiles, Range blocks) {
    const int64_t stride = tiles.size() * pitch_;
    int16_t* inputs = scratch_.inputs.sized(kIntegerPoints * stride);
    char** pixels = scratch_.pixels.sized(kIntegerOutputs * tiles.size());
    for (int64_t tile = tiles.begin; tile < tiles.end; ++tile) {
      const TilePlace at = grid_.place(tile);
      transform_input(at, inputs + (tile - tiles.begin) * pitch_, stride);
      find_outputs(at, pixels + (tile - tiles.begin) * kIntegerOutputs);
    }
    IntegerTileBlock block{};
    block.inputs = inputs;
    block.input_pitch = pitch_;
    block.input_stride = stride;
    block.tiles = tiles.size();
    block.quads = quads_;
    block.weight_stride = quads_ * kQuadBytes;
    block.sums = scratch_.sums.sized(kIntegerPoints * tiles.size() * kQuantizedBlock);
    block.format = &format_;
    block.pixels = pixels;
    block.pixel_bytes = out_.channels * item_;
    for (int64_t i = blocks.begin; i < blocks.end; ++i) {
      const int64_t channel = i * kQuantizedBlock;
      block.weights = weights_ + i * block_words();
      block.scale = scale_ + channel;
      block.bias = bias_ == nullptr ? nullptr : bias_ + channel;
      block.channels = std::min<int64_t>(kQuantizedBlock, out_.channels - channel);
      block.offset = channel * item_;
      arithmetic_.block(block);
    }
  }

  void transform_input(const TilePlace& at, int16_t* to, int64_t stride) const {
    IntegerTileInput input;
    const char* zeros = zeros_;
    find_pixels<kIntegerTileIn>(x_, in_, at.x - params_.window.w.pad, at.y - params_.window.h.pad, at.image, zeros,
                                input.pixels);
    input.channels = in_.channels;
    input.zero = static_cast<int32_t>(params_.zero);
    input.is_signed = is_signed_;
    input.to = to;
    input.stride = stride;
    arithmetic_.input(input);
  }

  void find_outputs(const TilePlace& at, char** to) const {
    ImageShape bytes = out_;
    bytes.channels *= item_;
    char* const outside = nullptr;
    find_pixels<kIntegerTileOut>(y_, bytes, at.x, at.y, at.image, outside, to);
  }

  static constexpr int64_t kTransformCost = 2;  // in multiplications at all points, a tile and channel

  Scratch& scratch_ = thread_scratch<Scratch>();
  const QuantizedLayerParams& params_;
  const ResultFormat format_;
  ImageShape in_;
  ImageShape out_;
  TileGrid grid_;
  int64_t blocks_;  // of output channels
  int64_t quads_;
  int64_t pitch_;  // words of a tile's transformed input at a point
  int64_t item_;
  bool is_signed_;
  const char* x_;
  const int16_t* weights_;
  const float* scale_;
  const float* bias_;
  char* y_;
  char* zeros_ = nullptr;
  const IntegerWinograd& arithmetic_ = KERNEL_PICK(integer_winograd)();
};

// The weights of one input, in the channels of a block.
using Lanes = int16_t[kQuantizedBlock];

// The products of 2 G with three weights: of both axes they make four times the sums.
void transform_kernel(const Lanes& a, const Lanes& b, const Lanes& c, Lanes (&to)[kIntegerTileIn]) {
  for (int i = 0; i < kQuantizedBlock; ++i) {
    to[0][i] = static_cast<int16_t>(2 * a[i]);
    to[1][i] = static_cast<int16_t>(a[i] + b[i] + c[i]);
    to[2][i] = static_cast<int16_t>(a[i] - b[i] + c[i]);
    to[3][i] = static_cast<int16_t>(2 * c[i]);
  }
}

// The inputs of a quad lie as the arithmetic multiplies them: one after the other, or in pairs for each channel.
void store_lanes(const Lanes& weights, int64_t input, int16_t* to) {
  constexpr int64_t kAtOnce = kIsArm64 ? 1 : 2;
  to += input / kAtOnce * kAtOnce * kQuantizedBlock + input % kAtOnce;
  for (int i = 0; i < kQuantizedBlock; ++i) to[i * kAtOnce] = weights[i];
}

// Of a block as programs store them: input by input of each tap, in quads.
void load_lanes(const int8_t* block, int64_t input, Lanes& weights) {
  const int8_t* from = block + input / kQuad * kQuadBytes + input % kQuad;
  for (int i = 0; i < kQuantizedBlock; ++i) weights[i] = from[i * kQuad];
}

void transform_block(const int8_t* block, int64_t channels, int16_t* to) {
  const int64_t stride = quads_of(channels) * kQuadBytes;
  std::memset(to, 0, static_cast<size_t>(kIntegerPoints * stride) * sizeof(int16_t));
  for (int64_t channel = 0; channel < channels; ++channel) {
    Lanes rows[3][kIntegerTileIn];
    for (int64_t ky = 0; ky < 3; ++ky) {
      Lanes taps[3];
      for (int64_t kx = 0; kx < 3; ++kx) load_lanes(block, (ky * 3 + kx) * channels + channel, taps[kx]);
      transform_kernel(taps[0], taps[1], taps[2], rows[ky]);
    }
    for (int x = 0; x < kIntegerTileIn; ++x) {
      Lanes points[kIntegerTileIn];
      transform_kernel(rows[0][x], rows[1][x], rows[2][x], points);
      for (int y = 0; y < kIntegerTileIn; ++y) {
        store_lanes(points[y], channel, to + (y * kIntegerTileIn + x) * stride);
      }
    }
  }
}

}  // namespace

bool is_integer_winograd(const std::array<int64_t, 4>& out, const ggml_tensor* weight,
                         const QuantizedLayerParams& params) {
  constexpr int64_t kLeastChannels = 16;   // as the families of the op table say
  constexpr int64_t kMostChannels = 1024;  // whose sums of 4 * 9 products of 8 bits fit in int32
  // Fewer tiles read more weights than they save multiplications.
  constexpr int64_t kFewWords = 1 << 20;  // stay in L3 from call to call
  const int64_t least_tiles = integer_winograd_words(weight) > kFewWords ? 12 : 4;
  const int64_t tiles = ceil_div(out[1], kIntegerTileOut) * ceil_div(out[2], kIntegerTileOut) * out[3];
  return tiles_for(active_isa()).element_bytes == sizeof(int16_t) && params.weights == Storage::KernelBlocks &&
         params.groups == 1 && slides_by_one(params.window.w) && slides_by_one(params.window.h) &&
         weight->ne[2] >= kLeastChannels && weight->ne[2] <= kMostChannels && weight->ne[3] >= kLeastChannels &&
         tiles >= least_tiles;
}

int64_t integer_winograd_words(const ggml_tensor* weight) {
  return ceil_div(weight->ne[3], kQuantizedBlock) * kIntegerPoints * quads_of(weight->ne[2]) * kQuadBytes;
}

void transform_integer_weights(const ggml_tensor* weight, int16_t* to) {
  const int64_t blocks = ceil_div(weight->ne[3], kQuantizedBlock);
  const int64_t block_bytes = quads_of(9 * weight->ne[2]) * kQuadBytes + kQuantizedBlock * sizeof(int32_t);
  const int64_t words = integer_winograd_words(weight) / blocks;
  for (int64_t i = 0; i < blocks; ++i) {
    transform_block(static_cast<const int8_t*>(weight->data) + i * block_bytes, weight->ne[2], to + i * words);
  }
}

void integer_winograd_conv_2d(ggml_tensor* dst, int ith, int nth, void* call) {
  IntegerWinogradLayer(dst, as_call<IntegerWinogradParams>(call)).run(ith, nth);
}

}  // namespace executorch_ggml::kernels
