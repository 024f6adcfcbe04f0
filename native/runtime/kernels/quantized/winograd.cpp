// Plans int8 convolutions by Winograd's algorithm: the inputs of some tiles are transformed; then, for each block of
// output channels, multiplied point by point with its transformed weights, and the sums transformed back.
#include "kernels/quantized/winograd.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/convolution/tile_grid.h"
#include "kernels/kernels.h"
#include "kernels/scratch.h"

namespace executorch_ggml::kernels {

namespace {

constexpr int64_t kInputBytes = 480 * 1024;  // transformed inputs at a time, which are to stay in L2

struct Scratch {
  Buffer<int16_t> inputs;
  Buffer<int16_t> weights;
  Buffer<int32_t> sums;
  Buffer<char> zeros;  // a pixel outside of the image
  Buffer<char*> pixels;
};

int64_t quads_of(int64_t channels) { return ceil_div(9 * channels, kQuad); }

// Of a block of weights, after which the sums of its channels lie.
int64_t block_bytes(int64_t channels) { return quads_of(channels) * kQuadBytes + kSumsBytes; }

template <int Out>
class IntegerWinogradLayer {
  using Tile = IntegerTile<Out>;

 public:
  IntegerWinogradLayer(ggml_tensor* dst, const KernelCall<IntegerWinogradParams>& call)
      : params_(call.params.layer),
        format_(params_.output),
        in_(dst->src[0]),
        out_(dst),
        grid_(out_, Out),
        blocks_(ceil_div(out_.channels, kQuantizedBlock)),
        pitch_(ceil_div(in_.channels, kPaddedWords) * kPaddedWords),
        item_(static_cast<int64_t>(ggml_type_size(dst->type))),
        is_signed_(call.src[0] == DType::I8),
        x_(static_cast<const char*>(dst->src[0]->data)),
        weights_(static_cast<const int8_t*>(dst->src[1]->data)),
        scale_(static_cast<const float*>(dst->src[2]->data)),
        bias_(dst->src[3] == nullptr ? nullptr : static_cast<const float*>(dst->src[3]->data)),
        y_(static_cast<char*>(dst->data)) {}

  void run(int ith, int nth) {
    const WinogradCost cost = {rows_, kTransformCost};
    const int64_t parts = best_tile_parts(grid_.tiles(), in_.channels, blocks_, kQuantizedBlock, cost, nth);
    const Range blocks = Range::part(blocks_, ith / parts, nth / parts);
    const Range tiles = Range::part(grid_.tiles(), ith % parts, parts);
    if (blocks.empty() || tiles.empty()) return;
    zeros_ = scratch_.zeros.sized(in_.channels);
    std::memset(zeros_, static_cast<int>(params_.zero), static_cast<size_t>(in_.channels));
    const int64_t groups = ceil_div(tiles.size(), group_size());
    for (int64_t i = 0; i < groups; ++i) {
      const Range part = Range::part(tiles.size(), i, groups);
      run_group({tiles.begin + part.begin, tiles.begin + part.end}, blocks);
    }
  }

 private:
  // Tiles at a time: whole rows of the GEMM, as many as the cache holds.
  int64_t group_size() const {
    const int64_t tile_bytes = Tile::kPoints * pitch_ * static_cast<int64_t>(sizeof(int16_t));
    return std::max<int64_t>(1, kInputBytes / tile_bytes / rows_) * rows_;
  }

  void run_group(Range tiles, Range blocks) {
    const int64_t stride = tiles.size() * pitch_;
    int16_t* inputs = scratch_.inputs.sized(Tile::kPoints * stride);
    char** pixels = scratch_.pixels.sized(Tile::kOutputs * tiles.size());
    for (int64_t tile = tiles.begin; tile < tiles.end; ++tile) {
      const TilePlace at = grid_.place(tile);
      transform_input(at, inputs + (tile - tiles.begin) * pitch_, stride);
      find_outputs(at, pixels + (tile - tiles.begin) * Tile::kOutputs);
    }
    IntegerTileBlock block{};
    block.inputs = inputs;
    block.input_pitch = pitch_;
    block.input_stride = stride;
    block.tiles = tiles.size();
    block.in_channels = in_.channels;
    block.transformed = scratch_.weights.sized(Tile::kPoints * kTransformedWords);
    block.sums = scratch_.sums.sized(Tile::kPoints * tiles.size() * kQuantizedBlock);
    block.format = &format_;
    block.pixels = pixels;
    block.pixel_bytes = out_.channels * item_;
    for (int64_t i = blocks.begin; i < blocks.end; ++i) {
      const int64_t channel = i * kQuantizedBlock;
      block.weights = weights_ + i * block_bytes(in_.channels);
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
    find_pixels<Tile::kIn>(x_, in_, at.x - params_.window.w.pad, at.y - params_.window.h.pad, at.image, zeros,
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
    find_pixels<Out>(y_, bytes, at.x, at.y, at.image, outside, to);
  }

  static constexpr int64_t kTransformCost = 2;  // in multiplications at all points, a tile and channel

  Scratch& scratch_ = thread_scratch<Scratch>();
  const QuantizedLayerParams& params_;
  const ResultFormat format_;
  ImageShape in_;
  ImageShape out_;
  TileGrid grid_;
  int64_t blocks_;  // of output channels
  int64_t pitch_;   // words of a tile's transformed input at a point
  int64_t item_;
  bool is_signed_;
  const char* x_;
  const int8_t* weights_;
  const float* scale_;
  const float* bias_;
  char* y_;
  char* zeros_ = nullptr;
  const int64_t rows_ = KERNEL_PICK(integer_winograd)().rows;
  const IntegerTileArithmetic& arithmetic_ =
      Out == 2 ? KERNEL_PICK(integer_winograd)().by_twos : KERNEL_PICK(integer_winograd)().by_fours;
};

// Of a block's weights, in each channel.
struct WeightSums {
  WeightSums(const int8_t* block, int64_t quads) {
    int32_t positives[kQuadBytes] = {};
    int32_t negatives[kQuadBytes] = {};
    for (int64_t quad = 0; quad < quads; ++quad, block += kQuadBytes) {
      for (int i = 0; i < kQuadBytes; ++i) {
        positives[i] += std::max<int>(block[i], 0);
        negatives[i] += std::max<int>(-block[i], 0);
      }
    }
    for (int i = 0; i < kQuadBytes; ++i) {
      positive[i / kQuad] += positives[i];
      negative[i / kQuad] += negatives[i];
    }
  }

  int64_t positive[kQuantizedBlock] = {};
  int64_t negative[kQuantizedBlock] = {};  // without the sign
};

// The largest magnitude of a sum of products with bytes from `first` on, less their zero point.
int64_t most_of_bytes(int64_t first, int64_t zero, int64_t positive, int64_t negative) {
  const int64_t below = zero - first;
  const int64_t above = first + UINT8_MAX - zero;
  return std::max(above * positive + below * negative, above * negative + below * positive);
}

// The same with bytes that may be signed or not, as far as the zero point is one of them.
int64_t most_result(int64_t zero, int64_t positive, int64_t negative) {
  const int64_t of_signed = zero > INT8_MAX ? 0 : most_of_bytes(INT8_MIN, zero, positive, negative);
  const int64_t of_unsigned = zero < 0 ? 0 : most_of_bytes(0, zero, positive, negative);
  return std::max(of_signed, of_unsigned);
}

}  // namespace

bool fits_tiles_of_four(const ggml_tensor* weight, int64_t zero) {
  constexpr int64_t kMostResult = (1 << 25) - 1;
  const auto* block = static_cast<const int8_t*>(weight->data);
  for (int64_t i = 0; i < ceil_div(weight->ne[3], kQuantizedBlock); ++i, block += block_bytes(weight->ne[2])) {
    const WeightSums sums(block, quads_of(weight->ne[2]));
    for (int lane = 0; lane < kQuantizedBlock; ++lane) {
      if (most_result(zero, sums.positive[lane], sums.negative[lane]) > kMostResult) return false;
    }
  }
  return true;
}

int64_t integer_winograd_side(const std::array<int64_t, 4>& out, const ggml_tensor* weight,
                              const QuantizedLayerParams& params) {
  constexpr int64_t kLeastChannels = 16;   // as the families of the op table say
  constexpr int64_t kMostChannels = 1024;  // whose sums of 4 * 9 products of 8 bits fit in int32
  if (tiles_for(active_isa()).element_bytes != sizeof(int16_t) || params.weights != Storage::KernelBlocks ||
      params.groups != 1 || !slides_by_one(params.window.w) || !slides_by_one(params.window.h) ||
      weight->ne[2] < kLeastChannels || weight->ne[2] > kMostChannels || weight->ne[3] < kLeastChannels) {
    return 0;
  }
  // In products of a pair of channels; weights are transformed beside.
  const auto cost = [&](int64_t side, int64_t points) {
    constexpr int64_t kWeightTiles = 2;
    return points * (ceil_div(out[1], side) * ceil_div(out[2], side) * out[3] + kWeightTiles);
  };
  const int64_t direct = 9 * out[1] * out[2] * out[3];
  const int64_t by_twos = cost(2, IntegerTile<2>::kPoints);
  const int64_t by_fours = cost(4, IntegerTile<4>::kPoints);
  if (by_fours < std::min(by_twos, direct) && fits_tiles_of_four(weight, params.zero)) return 4;
  return by_twos < direct ? 2 : 0;
}

void integer_winograd_conv_2d(ggml_tensor* dst, int ith, int nth, void* call) {
  const auto& winograd = as_call<IntegerWinogradParams>(call);
  if (winograd.params.side == 4) return IntegerWinogradLayer<4>(dst, winograd).run(ith, nth);
  IntegerWinogradLayer<2>(dst, winograd).run(ith, nth);
}

}  // namespace executorch_ggml::kernels
