// Plans convolutions by Winograd's F(4x4, 3x3): the inputs of some tiles are transformed, multiplied point by point
// with transformed weights (by conv_2d's GEMM tiles), and the products are transformed back.
#include "kernels/convolution/winograd.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/convolution/conv_2d.h"
#include "kernels/convolution/image.h"
#include "kernels/convolution/tile_grid.h"
#include "kernels/kernels.h"
#include "kernels/product/packing.h"
#include "kernels/scratch.h"
#include "selection_generated.h"

namespace executorch_ggml::kernels {
namespace {

// Inputs and products at a time, which are to stay in L2; more of them where the weights, which each group of tiles
// reads again, are large.
constexpr int64_t kLeastBytes = 128 * 1024;
constexpr int64_t kMostBytes = 1280 * 1024;
constexpr int64_t kLine = 16;  // floats of a cache line

// Points a multiple of some lines apart would map to the same sets of L1.
int64_t odd_lines(int64_t floats) { return (ceil_div(floats, kLine) | 1) * kLine; }

struct Scratch {
  Buffer<float> inputs;
  Buffer<float> products;
  ScratchVector<float> zeros;

  const float* zeros_for(int64_t channels) {
    if (zeros.size() < static_cast<size_t>(channels)) zeros.resize(static_cast<size_t>(channels));
    return zeros.data();
  }
};

decltype(WinogradTransforms::input) rounded_input_transform() {
  return kIsArm64 ? KERNEL_PICK_NEONBF16(best_isa(), transform_rounded)
                  : KERNEL_PICK_AVX512BF16(best_isa(), transform_rounded);
}

class Winograd {
 public:
  Winograd(ggml_tensor* dst, const KernelCall<WinogradParams>& call)
      : dst_(dst),
        call_(call),
        params_(call.params.convolution),
        in_(dst->src[0]),
        out_(dst),
        grid_(out_, kWinogradOut),
        blocks_(ceil_div(out_.channels, kOcBlock)),
        depth_(ceil_div(in_.channels, kOcBlock) * kOcBlock),
        block_size_(in_.channels * kOcBlock),
        x_(static_cast<const float*>(dst->src[0]->data)),
        zeros_(scratch_.zeros_for(in_.channels)),
        bias_(bias_of(dst, params_)),
        y_(static_cast<float*>(dst->data)) {}

  void run(int ith, int nth) {
    const int64_t parts =
        best_tile_parts(grid_.tiles(), in_.channels, blocks_, kOcBlock, {gemm_.rows, kTransformCost}, nth);
    blocks_of_thread_ = Range::part(blocks_, ith / parts, nth / parts);
    const Range tiles = Range::part(grid_.tiles(), ith % parts, parts);
    if (blocks_of_thread_.empty() || tiles.empty()) return;
    const int64_t groups = ceil_div(tiles.size(), group_size());
    for (int64_t i = 0; i < groups; ++i) {
      const Range part = Range::part(tiles.size(), i, groups);
      run_group({tiles.begin + part.begin, tiles.begin + part.end});
    }
  }

 private:
  // Tiles at a time: whole rows of the GEMM, as many as the caches hold.
  int64_t group_size() const {
    constexpr auto kBytes = static_cast<int64_t>(sizeof(float)) * kWinogradPoints;
    const int64_t columns = blocks_of_thread_.size() * kOcBlock;
    const int64_t at_a_time = std::clamp(in_.channels * columns * kBytes / 4, kLeastBytes, kMostBytes);
    return std::max<int64_t>(1, at_a_time / ((depth_ + columns) * kBytes) / gemm_.rows) * gemm_.rows;
  }

  void run_group(Range tiles) {
    columns_ = blocks_of_thread_.size() * kOcBlock;
    input_stride_ = odd_lines(tiles.size() * depth_);
    product_stride_ = odd_lines(tiles.size() * columns_);
    inputs_ = scratch_.inputs.sized(input_stride_ * kWinogradPoints);
    products_ = scratch_.products.sized(product_stride_ * kWinogradPoints);
    for (int64_t tile = tiles.begin; tile < tiles.end; ++tile) transform_input(tile, tile - tiles.begin);
    multiply(tiles.size());
    for (int64_t tile = tiles.begin; tile < tiles.end; ++tile) transform_output(tile, tile - tiles.begin);
  }

  void transform_input(int64_t tile, int64_t row) {
    const TilePlace at = grid_.place(tile);
    WinogradInput input;
    find_pixels<kWinogradIn>(x_, in_, at.x - params_.window.w.pad, at.y - params_.window.h.pad, at.image, zeros_,
                             input.pixels);
    input.channels = in_.channels;
    input.to = inputs_ + row * depth_;
    input.stride = input_stride_;
    transform_input_(input);
  }

  // What the GEMM's tiles have in common.
  ConvTile gemm_tile(const float** inputs, float** outputs) const {
    static constexpr int64_t kFirstTap = 0;
    ConvTile tile{};
    tile.inputs = inputs;
    tile.outputs = outputs;
    tile.tap_weights = &kFirstTap;
    tile.results_are_far = true;
    tile.taps = 1;
    tile.run = in_.channels;
    tile.block_stride = block_size_;
    return tile;
  }

  // The products of all tiles at each point.
  void multiply(int64_t rows) {
    const float* inputs[kMaxTileRows];
    float* outputs[kMaxTileRows];
    ConvTile tile = gemm_tile(inputs, outputs);
    for (int64_t point = 0; point < kWinogradPoints; ++point) {
      tile.weights = call_.params.weights + (point * blocks_ + blocks_of_thread_.begin) * block_size_;
      for (int64_t first = 0; first < columns_;) {
        tile.output_offset = first;
        tile.channels = std::min(gemm_.channels, columns_ - first);
        for (int64_t row = 0; row < rows; row += gemm_.rows) {
          const int64_t count = std::min<int64_t>(gemm_.rows, rows - row);
          for (int64_t i = 0; i < count; ++i) {
            inputs[i] = inputs_ + point * input_stride_ + (row + i) * depth_;
            outputs[i] = products_ + point * product_stride_ + (row + i) * columns_;
          }
          gemm_.by_rows[count - 1](tile);
        }
        first += tile.channels;
        tile.weights += tile.channels / kOcBlock * block_size_;
      }
    }
  }

  void transform_output(int64_t tile, int64_t row) {
    const TilePlace at = grid_.place(tile);
    const int64_t first = blocks_of_thread_.begin * kOcBlock;
    WinogradOutput output;
    output.from = products_ + row * columns_;
    output.stride = product_stride_;
    output.bias = bias_ == nullptr ? nullptr : bias_ + first;
    output.channels = std::min(columns_, out_.channels - first);
    output.addend = addend_of(dst_, params_);
    output.output_begin = y_;
    const bool clamps = params_.epilogue.activation == Activation::Clamp;
    output.low = clamps ? params_.epilogue.low : -std::numeric_limits<float>::infinity();
    output.high = clamps ? params_.epilogue.high : std::numeric_limits<float>::infinity();
    float* const outside = nullptr;
    find_pixels<kWinogradOut>(y_ + first, out_, at.x, at.y, at.image, outside, output.pixels);
    if (!transforms_.output(output)) return compute_directly(at);
    if (clamps || params_.epilogue.activation == Activation::None) return;
    apply_to_pixels(output.pixels, kWinogradOut * kWinogradOut, output.channels, {params_.epilogue.activation, false});
  }

  int64_t pixel(int64_t x, int64_t y, int64_t image) const { return (image * out_.height + y) * out_.width + x; }

  void compute_directly(const TilePlace& at) {
    const int64_t end = std::min(at.x + kWinogradOut, out_.width);
    for (int64_t y = at.y; y < std::min(at.y + kWinogradOut, out_.height); ++y) {
      const Range pixels = {pixel(at.x, y, at.image), pixel(end, y, at.image)};
      if (is_built(DType::Bf16) && call_.params.rounds) {
        conv_2d_bfloat_pixels(dst_, params_, pixels, blocks_of_thread_);
      } else {
        conv_2d_pixels(dst_, params_, call_.src[1], pixels, blocks_of_thread_);
      }
    }
  }

  static constexpr int64_t kTransformCost = 16;  // in multiplications of the GEMM at all points, a tile and channel

  Scratch& scratch_ = thread_scratch<Scratch>();
  ggml_tensor* dst_;
  const KernelCall<WinogradParams>& call_;
  const ConvolutionParams& params_;
  ImageShape in_;
  ImageShape out_;
  TileGrid grid_;
  int64_t blocks_;      // of output channels
  int64_t depth_;       // floats from a tile's transformed input to the next tile's
  int64_t block_size_;  // floats of a block of weights at one point
  const float* x_;
  const float* zeros_;  // a pixel outside the image
  const float* bias_;
  float* y_;
  Range blocks_of_thread_;
  int64_t columns_ = 0;  // output channels of the thread's blocks
  int64_t input_stride_ = 0;
  int64_t product_stride_ = 0;
  float* inputs_ = nullptr;
  float* products_ = nullptr;
  const ConvTiles& gemm_ = KERNEL_PICK(conv_tiles)();
  const WinogradTransforms& transforms_ = KERNEL_PICK(winograd_transforms)();
  decltype(WinogradTransforms::input) transform_input_ =
      call_.params.rounds ? rounded_input_transform() : transforms_.input;
};

}  // namespace

bool is_winograd(const std::array<int64_t, 4>& out, const ggml_tensor* weight, const ConvolutionParams& params,
                 bool of_bfloats) {
  constexpr int64_t kLeastChannels = 16;  // as the families of the op table say
  // Fewer read more weights than they save multiplications, and products of bf16 read an eighth of the bytes.
  constexpr int64_t kFewFloats = 1 << 20;  // stay in L3 from call to call
  const int64_t least_tiles = of_bfloats && winograd_floats(weight) > kFewFloats ? 32 : 12;
  constexpr int64_t kMostFloats = 256 * 256 * kWinogradPoints;  // what larger weights gain is not worth their memory
  const int64_t tiles = ceil_div(out[1], kWinogradOut) * ceil_div(out[2], kWinogradOut) * out[3];
  return params.weights == Storage::KernelBlocks && params.groups == 1 && slides_by_one(params.window.w) &&
         slides_by_one(params.window.h) && weight->ne[2] >= kLeastChannels && weight->ne[3] >= kLeastChannels &&
         tiles >= least_tiles && winograd_floats(weight) <= kMostFloats;
}

namespace {

// A block of weights in f32: where it lies, or widened.
const float* floats_of_block(const ggml_tensor* weight, int64_t block, std::vector<float>* widened) {
  const int64_t rows = weight->ne[0] * weight->ne[1] * weight->ne[2];
  if (weight->type == GGML_TYPE_F32) return static_cast<const float*>(weight->data) + block * rows * kOcBlock;
  widened->resize(static_cast<size_t>(rows * kOcBlock));
  const auto* pairs = static_cast<const uint16_t*>(weight->data) + block * (rows + rows % 2) * kOcBlock;
  widen_pairs(pairs, rows, weight->type == GGML_TYPE_F16 ? DType::F16 : DType::Bf16, widened->data());
  return widened->data();
}

}  // namespace

int64_t winograd_floats(const ggml_tensor* weight) {
  return ceil_div(weight->ne[3], kOcBlock) * kOcBlock * weight->ne[2] * kWinogradPoints;
}

void transform_weights(const ggml_tensor* weight, float* to) {
  const int64_t run = weight->ne[2] * kOcBlock;
  const int64_t count = ceil_div(weight->ne[3], kOcBlock);
  const WinogradTransforms& transforms = KERNEL_PICK(winograd_transforms)();
  std::vector<float> widened;
  for (int64_t i = 0; i < count; ++i)
    transforms.weights(floats_of_block(weight, i, &widened), run, to + i * run, count * run);
}

void winograd_conv_2d(ggml_tensor* dst, int ith, int nth, void* call) {
  Winograd(dst, as_call<WinogradParams>(call)).run(ith, nth);
}

}  // namespace executorch_ggml::kernels
