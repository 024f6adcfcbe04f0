// Layers of integers: convolutions and linear layers, these as convolutions of one pixel. This file gathers the inputs
// of some output pixels in rows, in the order of the weights, and cuts the products into tiles that layer_isa.cpp, or a
// folder of an instruction set, computes.
#include "kernels/quantized/layer.h"

#include <algorithm>
#include <cstring>

#include "kernels/convolution/image.h"
#include "kernels/kernels.h"
#include "kernels/scratch.h"

namespace executorch_ggml::kernels {

namespace {

// While it lives, this thread can run tiles.
class TileSetup {
 public:
  TileSetup(const QuantizedTiles& tiles, int64_t quads) : tiles_(tiles) {
    if (tiles_.begin != nullptr) tiles_.begin(quads, &before_);
  }
  ~TileSetup() {
    if (tiles_.end != nullptr) tiles_.end(before_);
  }
  TileSetup(const TileSetup&) = delete;
  TileSetup& operator=(const TileSetup&) = delete;

 private:
  const QuantizedTiles& tiles_;
  TileState before_;
};

struct Scratch {
  Buffer<char> taps;  // of a pixel
  Buffer<char> rows;
  Buffer<int8_t> weights;  // packed, where the node's are not
};

class QuantizedLayer {
 public:
  QuantizedLayer(const QuantizedTiles& tiles, ggml_tensor* dst, const KernelCall<QuantizedLayerParams>& call)
      : params_(call.params),
        in_(dst->src[0]),
        out_(dst),
        is_signed_(call.src[0] == DType::I8),
        x_(static_cast<const char*>(dst->src[0]->data)),
        weights_(static_cast<const int8_t*>(dst->src[1]->data)),
        scale_(static_cast<const float*>(dst->src[2]->data)),
        bias_(dst->src[3] == nullptr ? nullptr : static_cast<const float*>(dst->src[3]->data)),
        y_(static_cast<char*>(dst->data)),
        item_(static_cast<int64_t>(ggml_type_size(dst->type))),
        tiles_(tiles) {
    group_in_ = in_.channels / params_.groups;
    group_out_ = out_.channels / params_.groups;
    group_blocks_ = ceil_div(group_out_, kQuantizedBlock);
    depth_ = group_in_ * params_.window.w.kernel * params_.window.h.kernel;
    quads_ = ceil_div(depth_, kQuad);
    block_bytes_ = quads_ * kQuadBytes + kQuantizedBlock * static_cast<int64_t>(sizeof(int32_t));
    row_bytes_ = quads_ * kQuad * tiles_.element_bytes;
    // Without instructions for it the zero point is subtracted as inputs are arranged.
    arranged_zero_ = tiles_.element_bytes > 1 ? 0 : static_cast<int32_t>(params_.zero) + (is_signed_ ? 128 : 0);
  }

  void run(int ith, int nth) {
    const int64_t pixel_parts = best_pixel_parts(nth);
    const Range pixels = Range::part(out_.pixels(), ith % pixel_parts, pixel_parts);
    const Range blocks = Range::part(params_.groups * group_blocks_, ith / pixel_parts, nth / pixel_parts);
    if (pixels.empty() || blocks.empty()) return;
    if (params_.weights == Storage::Plain) pack(blocks);
    const int64_t tiles = std::max<int64_t>(1, tiles_.gathered_bytes / row_bytes_ / tiles_.rows);
    const int64_t chunk = std::min(pixels.size(), tiles * tiles_.rows);
    rows_ = scratch_.rows.sized(ceil_div(chunk, tiles_.row_step) * tiles_.row_step * row_bytes_);
    const TileSetup setup(tiles_, quads_);
    for (int64_t group = blocks.begin / group_blocks_; group * group_blocks_ < blocks.end; ++group) {
      const int64_t first = std::max(blocks.begin, group * group_blocks_);
      const int64_t end = std::min(blocks.end, (group + 1) * group_blocks_);
      for (int64_t at = pixels.begin; at < pixels.end; at += chunk) {
        const Range some = {at, std::min(at + chunk, pixels.end)};
        gather(some, group);
        for (int64_t block = first; block < end;) block += run_blocks(some, group, block, end);
      }
    }
  }

 private:
  // Into how many parts the pixels are divided among the threads; the blocks are divided into nth / parts.
  int64_t best_pixel_parts(int nth) const {
    int64_t best = 1;
    int64_t best_cost = INT64_MAX;
    for (int64_t parts = 1; parts <= nth; ++parts) {
      if (nth % parts != 0) continue;
      const int64_t tiles = ceil_div(ceil_div(out_.pixels(), parts), tiles_.rows);
      const int64_t columns = ceil_div(params_.groups * group_blocks_, nth / parts);
      const int64_t cost = tiles * (columns + 1);  // gathering is about as much work as a block
      if (cost >= best_cost) continue;
      best = parts;
      best_cost = cost;
    }
    return best;
  }

  // ------------------------------------------------------------------------------------------------------- weights

  // Plain weights (KW, KH, IC and OC from the inside out) as they are stored in blocks of int8.
  void pack(Range blocks) {
    const int64_t taps = params_.window.w.kernel * params_.window.h.kernel;
    int8_t* packed = scratch_.weights.sized(blocks.size() * block_bytes_);
    std::memset(packed, 0, static_cast<size_t>(blocks.size() * block_bytes_));
    for (int64_t block = blocks.begin; block < blocks.end; ++block) {
      int8_t* to = packed + (block - blocks.begin) * block_bytes_;
      int32_t sums[kQuantizedBlock] = {};
      const int64_t first = block % group_blocks_ * kQuantizedBlock;
      for (int64_t lane = 0; lane < std::min<int64_t>(kQuantizedBlock, group_out_ - first); ++lane) {
        const int8_t* from = weights_ + (block / group_blocks_ * group_out_ + first + lane) * depth_;
        for (int64_t k = 0; k < depth_; ++k) {
          const int8_t weight = from[k % group_in_ * taps + k / group_in_];
          to[k / kQuad * kQuadBytes + lane * kQuad + k % kQuad] = weight;
          sums[lane] += weight;
        }
      }
      std::memcpy(to + quads_ * kQuadBytes, sums, sizeof(sums));
    }
    weights_ = packed;
    first_block_ = blocks.begin;
  }

  // -------------------------------------------------------------------------------------------------------- inputs

  void gather(Range pixels, int64_t group) {
    const Window& across = params_.window.w;
    const Window& down = params_.window.h;
    const auto plain = [](const Window& w) { return w.kernel == 1 && w.stride == 1 && w.pad == 0 && w.up == 1; };
    const bool same_image = in_.width == out_.width && in_.height == out_.height;
    if (plain(across) && plain(down) && same_image && depth_ == in_.channels && depth_ % kQuad == 0) {
      return arrange(x_ + pixels.begin * depth_, pixels.size() * depth_, rows_);
    }
    char* taps = scratch_.taps.sized(quads_ * kQuad);
    std::memset(taps + depth_, 0, static_cast<size_t>(quads_ * kQuad - depth_));
    int64_t column = pixels.begin % out_.width;
    int64_t line = pixels.begin / out_.width % out_.height;
    int64_t image = pixels.begin / out_.width / out_.height;
    char* row = rows_;
    for (int64_t pixel = pixels.begin; pixel < pixels.end; ++pixel, row += row_bytes_) {
      const int64_t x = column * across.stride - across.pad;
      const int64_t y = line * down.stride - down.pad;
      char* to = taps;
      for (int64_t ky = 0; ky < down.kernel; ++ky) to = gather_taps(to, image, group, x, y + ky * down.dilation);
      arrange(taps, quads_ * kQuad, row);
      if (++column < out_.width) continue;
      column = 0;
      if (++line < out_.height) continue;
      line = 0;
      ++image;
    }
  }

  // The taps of one row of the kernel from (x, y) on, in the image as it is spread by `up`.
  char* gather_taps(char* to, int64_t image, int64_t group, int64_t x, int64_t y) {
    const Window& across = params_.window.w;
    const Window& down = params_.window.h;
    const int64_t run = across.kernel * group_in_;
    if (y % down.up != 0 || y < 0 || y / down.up >= in_.height) return fill(to, run);
    const char* from = x_ + (image * in_.height + y / down.up) * in_.width * in_.channels + group * group_in_;
    const bool adjacent = params_.groups == 1 && across.dilation == 1 && across.up == 1;
    if (adjacent && x >= 0 && x + across.kernel <= in_.width) return copy(to, from + x * in_.channels, run);
    for (int64_t kx = 0; kx < across.kernel; ++kx, x += across.dilation) {
      const bool inside = x >= 0 && x % across.up == 0 && x / across.up < in_.width;
      to = inside ? copy(to, from + x / across.up * in_.channels, group_in_) : fill(to, group_in_);
    }
    return to;
  }

  static char* copy(char* to, const char* from, int64_t n) {
    std::memcpy(to, from, static_cast<size_t>(n));
    return to + n;
  }

  // Inputs that stand for 0.
  char* fill(char* to, int64_t n) {
    std::memset(to, zero(), static_cast<size_t>(n));
    return to + n;
  }

  void arrange(const char* bytes, int64_t n, char* row) { tiles_.arrange(bytes, n, zero(), is_signed_, row); }

  int32_t zero() const { return static_cast<int32_t>(params_.zero); }

  // ------------------------------------------------------------------------------------------------------ products

  // The tiles of some pixels by as many blocks as a tile has; gives how many.
  int64_t run_blocks(Range pixels, int64_t group, int64_t block, int64_t end) {
    const int64_t blocks = std::min<int64_t>(tiles_.channels / kQuantizedBlock, end - block);
    const int64_t first = (block - group * group_blocks_) * kQuantizedBlock;
    const int64_t last = std::min(first + blocks * kQuantizedBlock, group_out_);
    const int64_t channel = group * group_out_ + first;
    QuantizedTile tile = {};
    tile.quads = quads_;
    tile.row_bytes = row_bytes_;
    tile.weights = weights_ + (block - first_block_) * block_bytes_;
    tile.sums = reinterpret_cast<const int32_t*>(tile.weights + quads_ * kQuadBytes);
    tile.block_bytes = block_bytes_;
    tile.scale = scale_ + channel;
    tile.bias = bias_ == nullptr ? nullptr : bias_ + channel;
    tile.output_pitch = out_.channels * item_;
    tile.channels = last - first;
    tile.zero = arranged_zero_;
    tile.format = &params_.output;
    run_rows(tile, pixels, channel);
    return blocks;
  }

  void run_rows(QuantizedTile& tile, Range pixels, int64_t channel) {
    const int64_t tiles = ceil_div(pixels.size(), tiles_.rows);
    int64_t at = 0;
    for (int64_t left = tiles; left > 0; --left) {
      const int64_t steps = ceil_div(pixels.size() - at, tiles_.row_step);
      const int64_t even = ceil_div(steps, left) * tiles_.row_step;  // a small last tile would waste more
      const int64_t rows = std::min(even, pixels.size() - at);
      tile.rows = rows_ + at * row_bytes_;
      tile.output = y_ + ((pixels.begin + at) * out_.channels + channel) * item_;
      tiles_.run[rows - 1](tile);
      at += rows;
    }
  }

  static Scratch& thread_scratch() {
    static thread_local Scratch scratch;
    return scratch;
  }

  const QuantizedLayerParams& params_;
  ImageShape in_;
  ImageShape out_;
  bool is_signed_;
  const char* x_;
  const int8_t* weights_;  // of first_block_ and those after it
  const float* scale_;
  const float* bias_;
  char* y_;
  int64_t item_;
  const QuantizedTiles& tiles_;
  Scratch& scratch_ = thread_scratch();
  char* rows_ = nullptr;
  int64_t first_block_ = 0;
  int64_t group_in_ = 0;
  int64_t group_out_ = 0;
  int64_t group_blocks_ = 0;
  int64_t depth_ = 0;  // products in a sum
  int64_t quads_ = 0;
  int64_t block_bytes_ = 0;
  int64_t row_bytes_ = 0;
  int32_t arranged_zero_ = 0;
};

}  // namespace

const QuantizedTiles& tiles_for(Isa isa) {
  const QuantizedTiles* tiles = KERNEL_PICK_AMX(isa, matrix_tiles);
  if (tiles == nullptr) tiles = KERNEL_PICK_AVX512VNNI(isa, dot_product_tiles);
  if (tiles == nullptr) tiles = KERNEL_PICK_AVXVNNI(isa, dot_product_tiles);
  return tiles != nullptr ? *tiles : KERNEL_PICK(quantized_tiles)();
}

void quantized_layer_by(const QuantizedTiles& tiles, ggml_tensor* dst, int ith, int nth, const void* call) {
  QuantizedLayer(tiles, dst, as_call<QuantizedLayerParams>(call)).run(ith, nth);
}

void quantized_layer(ggml_tensor* dst, int ith, int nth, void* call) {
  quantized_layer_by(tiles_for(active_isa()), dst, ith, nth, call);
}

}  // namespace executorch_ggml::kernels
