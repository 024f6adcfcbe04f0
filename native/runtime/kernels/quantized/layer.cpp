// int8 convolutions and linear layers, these as convolutions of one pixel. This file cuts them into tiles that
// layer_isa.cpp, or a folder of an instruction set, computes, and finds where the inputs of a tile's pixels begin: in
// place; in a padded copy of the image's rows, where channels are no multiple of 4 (a first layer's 3), so that a row
// of the kernel is one contiguous run; or in an im2col copy, pixel by pixel in the order of the weights.
#include "kernels/quantized/layer.h"

#include <algorithm>
#include <climits>
#include <cstring>

#include "kernels/amx.h"
#include "kernels/convolution/image.h"
#include "kernels/kernels.h"
#include "kernels/scratch.h"

namespace executorch_ggml::kernels {

namespace {

// These stay in L2 together.
constexpr int64_t kArrangedBytes = 256 * 1024;  // of rows of the image that are arranged at a time
constexpr int64_t kWeightBytes = 256 * 1024;    // for one pass over the pixels

constexpr int64_t kWidenedTiles = 4;  // so many at least read weights that are widened first

constexpr int64_t kLeastQuads = 4;  // of a kernel's row, for tiles of fewer are as slow as to gather the inputs
constexpr int64_t kCopied = 32;     // bytes at a time

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
  Buffer<char> gathered;  // the inputs of pixels, side by side
  Buffer<char> arranged;
  Buffer<char> zeros;          // arranged inputs that stand for 0
  Buffer<const char*> lines;   // of a row of the kernel each
  Buffer<const void*> inputs;  // of a tile
  Buffer<int8_t> weights;      // packed, where the node's are not
  Buffer<int8_t> by_row;       // the same with whole quads for each row of the kernel
  Buffer<int8_t> widened;      // some blocks as WidenedTiles read them
};

// Goes from output pixel to output pixel.
struct PixelWalk {
  int64_t column;
  int64_t line;
  int64_t image;

  PixelWalk(int64_t pixel, const ImageShape& out)
      : column(pixel % out.width), line(pixel / out.width % out.height), image(pixel / out.width / out.height) {}

  void next(const ImageShape& out) {
    if (++column < out.width) return;
    column = 0;
    if (++line < out.height) return;
    line = 0;
    ++image;
  }
};

// Adjacent output pixels of one line, and the first tap of the first of them, which may be outside of the image.
struct PixelRun {
  int64_t rows;  // of a tile
  int64_t x;
  int64_t y;
  int64_t image_row;  // the image's first row among those that were arranged
};

class QuantizedLayer {
 public:
  QuantizedLayer(const QuantizedTiles& tiles, ggml_tensor* dst, const KernelCall<QuantizedLayerParams>& call)
      : params_(call.params),
        format_(params_.output),
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
    taps_ = params_.window.w.kernel * params_.window.h.kernel;
    depth_ = group_in_ * taps_;
    quads_ = ceil_div(depth_, kQuad);
    block_bytes_ = quads_ * kQuadBytes + kSumsBytes;
    pixel_bytes_ = in_.channels * tiles_.element_bytes;
    as_they_are_ = tiles_.element_bytes == 1 && is_signed_ == tiles_.takes_signed;
    // Without instructions for it the zero point is subtracted as inputs are arranged.
    const int32_t moved = as_they_are_ ? 0 : tiles_.takes_signed ? -128 : 128;
    arranged_zero_ = tiles_.element_bytes > 1 ? 0 : zero() + moved;
    image_ = x_;
    image_end_ = x_ + in_.pixels() * in_.channels;
    flatten_if_pointwise();
    // Arranging whole rows of the image for a 1x1 window that skips pixels would cost more than to gather those it
    // sees.
    adjacent_ = params_.groups == 1 && params_.window.w.dilation == 1 && params_.window.w.up == 1;
    row_width_ = in_.width;
    row_pad_ = params_.window.w.pad;
    reads_padded_ = reads_padded_rows();
    if (reads_padded_) {
      row_width_ = padded_width();
      row_pad_ = 0;
    }
    gathers_ = !reads_padded_ && (tiles_.gathers || group_in_ % kQuad != 0 || (taps_ == 1 && !pointwise_));
    // Inputs that several windows see are arranged once, unless they become larger.
    arranges_first_ = gathers_ && taps_ > 1 && tiles_.element_bytes == 1 && !as_they_are_;
  }

  void run(int ith, int nth) {
    const int64_t pixel_parts = best_pixel_parts(nth);
    const Range pixels = Range::part(out_.pixels(), ith % pixel_parts, pixel_parts);
    const Range blocks = Range::part(params_.groups * group_blocks_, ith / pixel_parts, nth / pixel_parts);
    if (pixels.empty() || blocks.empty()) return;
    if (params_.weights == Storage::Plain || params_.weights == Storage::Depthwise) pack(blocks);
    if (reads_padded_ && (kernel_row() % kQuad != 0 || tiles_.arrange_in_order != nullptr)) align_kernel_rows(blocks);
    const TileSetup setup(tiles_, reads_padded_ ? quads_ / params_.window.h.kernel : quads_);
    inputs_ = scratch_.inputs.sized(taps_ * tiles_.rows);
    if (!gathers_) find_zeros();
    const int64_t chunk = pixels_at_once();
    for (int64_t at = pixels.begin; at < pixels.end; at += chunk) {
      run_pixels({at, std::min(at + chunk, pixels.end)}, blocks);
    }
  }

 private:
  // Into how many parts the pixels are divided among the threads; the blocks are divided into nth / parts.
  int64_t best_pixel_parts(int nth) const {
    int64_t best = 1;
    int64_t best_cost = INT64_MAX;
    for (int64_t parts = 1; parts <= nth; ++parts) {
      if (nth % parts != 0) continue;
      const int64_t rows = ceil_div(out_.pixels(), parts);
      const int64_t columns = ceil_div(params_.groups * group_blocks_, nth / parts);
      // A tile loads its weights too, and to find or gather inputs is about as much work as a block.
      const int64_t cost = (rows + ceil_div(rows, tiles_.rows)) * (columns + 1);
      if (cost >= best_cost) continue;
      best = parts;
      best_cost = cost;
    }
    return best;
  }

  // ------------------------------------------------------------------------------------------------------- weights

  // Plain weights (KW, KH, IC and OC from the inside out), or a depthwise layer's, as they are stored in blocks of
  // int8.
  void pack(Range blocks) {
    int8_t* packed = scratch_.weights.sized(blocks.size() * block_bytes_);
    std::memset(packed, 0, static_cast<size_t>(blocks.size() * block_bytes_));
    for (int64_t block = blocks.begin; block < blocks.end; ++block) {
      int8_t* to = packed + (block - blocks.begin) * block_bytes_;
      int32_t sums[kQuantizedBlock] = {};
      const int64_t first = block % group_blocks_ * kQuantizedBlock;
      for (int64_t lane = 0; lane < std::min<int64_t>(kQuantizedBlock, group_out_ - first); ++lane) {
        const int64_t channel = block / group_blocks_ * group_out_ + first + lane;
        for (int64_t k = 0; k < depth_; ++k) {
          const int8_t weight = params_.weights == Storage::Plain
                                    ? weights_[channel * depth_ + k % group_in_ * taps_ + k / group_in_]
                                    : weights_[k * out_.channels + channel];
          to[k / kQuad * kQuadBytes + lane * kQuad + k % kQuad] = weight;
          sums[lane] += weight;
        }
      }
      std::memcpy(to + quads_ * kQuadBytes, sums, sizeof(sums));
    }
    weights_ = packed;
    first_block_ = blocks.begin;
  }

  // Moves the weights of each row of the kernel to whole quads of their own, the last filled with 0, in the order that
  // padded rows are multiplied in.
  void align_kernel_rows(Range blocks) {
    const int64_t run = kernel_row();
    const int64_t row_quads = ceil_div(run, kQuad);
    const int64_t quads = params_.window.h.kernel * row_quads;
    const int64_t bytes = quads * kQuadBytes + kSumsBytes;
    int8_t* to = scratch_.by_row.sized(blocks.size() * bytes);
    for (int64_t block = blocks.begin; block < blocks.end; ++block) {
      const int8_t* from = weights_ + (block - first_block_) * block_bytes_;
      for (int64_t row = 0; row < params_.window.h.kernel; ++row) {
        for (int64_t input = 0; input < run; input += kQuad, to += kQuadBytes) {
          align_quad(from, row * run + input, std::min<int64_t>(kQuad, run - input), to);
        }
      }
      std::memcpy(to, from + quads_ * kQuadBytes, kSumsBytes);
      to += kSumsBytes;
    }
    weights_ = to - blocks.size() * bytes;
    first_block_ = blocks.begin;
    quads_ = quads;
    block_bytes_ = bytes;
  }

  // The weights of `count` inputs from the first on, in each channel of a block, as a quad.
  void align_quad(const int8_t* block, int64_t first, int64_t count, int8_t* to) const {
    const int8_t* low = block + first / kQuad * kQuadBytes;
    const bool is_last = first / kQuad + 1 == quads_;
    const int8_t* high = is_last ? low : low + kQuadBytes;  // of the last quad nothing past it counts
    const int64_t shift = first % kQuad * CHAR_BIT;
    const uint32_t mask = count == kQuad ? UINT32_MAX : (1u << count * CHAR_BIT) - 1;
    for (int64_t lane = 0; lane < kQuadBytes; lane += kQuad) {
      uint32_t halves[2];
      std::memcpy(&halves[0], low + lane, sizeof(halves[0]));
      std::memcpy(&halves[1], high + lane, sizeof(halves[1]));
      const uint64_t both = halves[0] | static_cast<uint64_t>(halves[1]) << 32;
      uint32_t quad = static_cast<uint32_t>(both >> shift) & mask;
      if (tiles_.arrange_in_order != nullptr) quad = swapped_middle(quad);
      std::memcpy(to + lane, &quad, sizeof(quad));
    }
  }

  // Bytes 0, 2, 1 and 3 of four.
  static uint32_t swapped_middle(uint32_t quad) {
    return (quad & 0xff0000ffu) | (quad & 0xff00u) << 8 | (quad >> 8 & 0xff00u);
  }

  // Whether the weights of some pixels' products are widened first.
  bool widens(Range pixels) const { return tiles_.widened != nullptr && pixels.size() >= kWidenedTiles * tiles_.rows; }

  int64_t widened_bytes() const { return 2 * quads_ * kQuadBytes + kSumsBytes; }

  const int8_t* widen(Range blocks) {
    int8_t* widened = scratch_.widened.sized(blocks.size() * widened_bytes());
    const int8_t* from = weights_ + (blocks.begin - first_block_) * block_bytes_;
    for (int8_t* to = widened; to < widened + blocks.size() * widened_bytes(); to += widened_bytes()) {
      tiles_.widened->widen(from, quads_, to);
      std::memcpy(to + widened_bytes() - kSumsBytes, from + block_bytes_ - kSumsBytes, kSumsBytes);
      from += block_bytes_;
    }
    return widened;
  }

  // -------------------------------------------------------------------------------------------------------- inputs

  // Whether the inputs of each row of the kernel are read as one run from padded rows of the image: the bytes after it
  // that fill its last quad are multiplied with 0. For tiles that may begin at any byte, and little padding.
  bool reads_padded_rows() const {
    const Window& across = params_.window.w;
    const bool plain = adjacent_ && params_.window.h.up == 1 && in_.pixels() > 0;
    const bool fits = across.pad >= 0 && across.pad <= padded_width() && padded_width() <= 2 * in_.width + kCopied;
    return plain && fits && (tiles_.gathers ? fills_lines() : group_in_ % kQuad != 0);
  }

  // Whether tiles of pixels of one line each leave little of their last rows unused.
  bool fills_lines() const {
    const int64_t rows = ceil_div(out_.width, tiles_.row_step) * tiles_.row_step;
    return taps_ > 1 && ceil_div(kernel_row(), kQuad) >= kLeastQuads && 4 * rows <= 5 * out_.width;
  }

  // Inputs that a window sees in one row of the image.
  int64_t kernel_row() const { return params_.window.w.kernel * group_in_; }

  // Of the image, with what windows see beside it.
  int64_t padded_width() const { return (out_.width - 1) * params_.window.w.stride + params_.window.w.kernel; }

  // A 1x1 convolution of adjacent pixels is one GEMM: each pixel is a row of the image by itself.
  void flatten_if_pointwise() {
    const auto plain = [](const Window& w) { return w.kernel == 1 && w.stride == 1 && w.pad == 0 && w.up == 1; };
    pointwise_ =
        plain(params_.window.w) && plain(params_.window.h) && in_.width == out_.width && in_.height == out_.height;
    if (!pointwise_) return;
    in_.height = out_.height = in_.pixels();
    in_.width = out_.width = 1;
    in_.images = out_.images = 1;
  }

  // How many output pixels' inputs are gathered or arranged before their products are computed.
  int64_t pixels_at_once() const {
    if (gathers_) {
      const int64_t rows = tiles_.gathered_bytes / std::max<int64_t>(1, quads_ * kQuad * tiles_.element_bytes);
      return std::max<int64_t>(1, rows / tiles_.rows) * tiles_.rows;
    }
    if (as_they_are_ && !reads_padded_) return out_.pixels();
    const int64_t down = std::max<int64_t>(1, params_.window.h.stride / params_.window.h.up);
    const int64_t row_bytes = std::max<int64_t>(1, down * row_width_ * pixel_bytes_);
    return std::max<int64_t>(1, kArrangedBytes / row_bytes) * out_.width;
  }

  void find_zeros() {
    const int64_t run = ceil_div(params_.window.w.kernel * group_in_, kQuad) * kQuad;
    const int64_t bytes = run * tiles_.element_bytes;
    char* zeros = scratch_.zeros.sized(bytes + run);
    fill(zeros + bytes, run);
    arrange(zeros + bytes, run, zeros);
    zeros_ = zeros;
  }

  // Rows of images are numbered through all images.
  int64_t input_row(int64_t output_row, int64_t tap) const {
    const Window& down = params_.window.h;
    const int64_t spread = output_row % out_.height * down.stride - down.pad + tap * down.dilation;
    return output_row / out_.height * in_.height + std::clamp<int64_t>(spread / down.up, 0, in_.height - 1);
  }

  // Finds the rows of the image that some output pixels see, arranged.
  void arrange_rows(Range pixels) {
    source_ = image_ = x_;
    image_end_ = x_ + in_.pixels() * in_.channels;
    first_row_ = 0;
    if (as_they_are_ || in_.pixels() == 0) return;
    first_row_ = input_row(pixels.begin / out_.width, 0);
    const int64_t end = input_row((pixels.end - 1) / out_.width, params_.window.h.kernel - 1) + 1;
    const int64_t row = in_.width * in_.channels;
    const int64_t bytes = (end - first_row_) * row * tiles_.element_bytes;
    char* arranged = scratch_.arranged.sized(bytes + kCopied);
    arrange(x_ + first_row_ * row, (end - first_row_) * row, arranged);
    source_ = image_ = arranged;
    image_end_ = arranged + bytes + kCopied;
  }

  // Finds the same rows in an arranged copy with the padding that windows see on both sides.
  void pad_rows(Range pixels) {
    const int64_t bytes = tiles_.element_bytes;
    const auto arrange_row = tiles_.arrange_in_order != nullptr ? tiles_.arrange_in_order : tiles_.arrange;
    first_row_ = input_row(pixels.begin / out_.width, 0);
    const int64_t end = input_row((pixels.end - 1) / out_.width, params_.window.h.kernel - 1) + 1;
    const int64_t left = params_.window.w.pad * in_.channels;
    const int64_t pitch = row_width_ * in_.channels;
    const int64_t inside = std::clamp<int64_t>(pitch - left, 0, in_.width * in_.channels);
    // Tiles read whole steps of rows, also after the last pixel.
    const int64_t beyond = tiles_.row_step * params_.window.w.stride * in_.channels + kernel_row();
    char* to = scratch_.arranged.sized(((end - first_row_) * pitch + kQuad + beyond) * bytes);
    source_ = to;
    const char* from = x_ + first_row_ * in_.width * in_.channels;
    for (int64_t row = first_row_; row < end; ++row, from += in_.width * in_.channels, to += pitch * bytes) {
      std::memset(to, arranged_zero_, static_cast<size_t>(left * bytes));
      arrange_row(from, inside, zero(), is_signed_, to + left * bytes);
      std::memset(to + (left + inside) * bytes, arranged_zero_, static_cast<size_t>((pitch - left - inside) * bytes));
    }
    std::memset(to, 0, static_cast<size_t>(kQuad * bytes));  // is read with the last run
  }

  void gather(Range pixels, int64_t group) {
    const int64_t pitch = quads_ * kQuad;
    const int64_t rows = ceil_div(pixels.size(), tiles_.row_step) * tiles_.row_step;  // tiles read so many
    // Pixels that lie side by side are arranged where they are.
    const bool is_dense = pointwise_ && params_.groups == 1 && pitch == in_.channels && !as_they_are_;
    source_ = is_dense ? x_ + pixels.begin * pitch : copy_windows(pixels, group, rows);
    if (as_they_are_ || arranges_first_) return;
    char* arranged = scratch_.arranged.sized(rows * pitch * tiles_.element_bytes);
    arrange(source_, pixels.size() * pitch, arranged);
    source_ = arranged;
  }

  // What some pixels see, in memory for so many rows.
  const char* copy_windows(Range pixels, int64_t group, int64_t rows) {
    const Window& across = params_.window.w;
    const Window& down = params_.window.h;
    const int64_t run = across.kernel * group_in_;
    const int64_t pitch = quads_ * kQuad;
    char* gathered = scratch_.gathered.sized(rows * pitch + kCopied);
    const char** lines = scratch_.lines.sized(down.kernel);
    PixelWalk at(pixels.begin, out_);
    char* row = gathered;
    for (int64_t pixel = pixels.begin; pixel < pixels.end; ++pixel, row += pitch, at.next(out_)) {
      if (pixel == pixels.begin || at.column == 0) find_lines(at, group, lines);
      const int64_t x = at.column * across.stride - across.pad;
      const bool whole = adjacent_ && x >= 0 && x + across.kernel <= in_.width;
      char* to = row;
      for (int64_t ky = 0; ky < down.kernel; ++ky) {
        if (lines[ky] == nullptr) {
          to = fill(to, run);
        } else {
          to = whole ? copy(to, lines[ky] + x * in_.channels, run) : gather_taps(to, lines[ky], x);
        }
      }
    }
    return gathered;
  }

  // The line of the image, from a group's first channel on, that each row of the kernel sees; null outside of it.
  void find_lines(const PixelWalk& at, int64_t group, const char** lines) const {
    const Window& down = params_.window.h;
    for (int64_t ky = 0; ky < down.kernel; ++ky) {
      const int64_t y = inside(at.line * down.stride - down.pad + ky * down.dilation, down.up, in_.height);
      const int64_t row = at.image * in_.height + y - first_row_;
      lines[ky] = y < 0 ? nullptr : image_ + row * in_.width * in_.channels + group * group_in_;
    }
  }

  // The taps of one row of the kernel from x on, in the image as it is spread by `up`.
  char* gather_taps(char* to, const char* from, int64_t x) const {
    const Window& across = params_.window.w;
    const int64_t run = across.kernel * group_in_;
    if (adjacent_) {
      const int64_t before = std::clamp<int64_t>(-x, 0, across.kernel) * in_.channels;
      const int64_t after = std::clamp<int64_t>(x + across.kernel - in_.width, 0, across.kernel) * in_.channels;
      if (before > 0) to = fill(to, before);
      if (before + after < run) to = copy(to, from + x * in_.channels + before, run - before - after);
      return after > 0 ? fill(to, after) : to;
    }
    for (int64_t kx = 0; kx < across.kernel; ++kx, x += across.dilation) {
      const int64_t column = inside(x, across.up, in_.width);
      to = column < 0 ? fill(to, group_in_) : copy(to, from + column * in_.channels, group_in_);
    }
    return to;
  }

  // Fast for short runs: copies whole vectors where the input goes on for so long. What that writes after the run is
  // overwritten by the next one, or is weighted with 0.
  char* copy(char* to, const char* from, int64_t n) const {
    if (from + n + kCopied <= image_end_) {
      for (int64_t i = 0; i < n; i += kCopied) std::memcpy(to + i, from + i, kCopied);
    } else {
      std::memcpy(to, from, static_cast<size_t>(n));
    }
    return to + n;
  }

  // Inputs that stand for 0.
  char* fill(char* to, int64_t n) const {
    std::memset(to, arranges_first_ ? arranged_zero_ : zero(), static_cast<size_t>(n));
    return to + n;
  }

  void arrange(const char* bytes, int64_t n, char* to) const { tiles_.arrange(bytes, n, zero(), is_signed_, to); }

  int32_t zero() const { return static_cast<int32_t>(params_.zero); }

  // ------------------------------------------------------------------------------------------------------ products

  void run_pixels(Range pixels, Range blocks) {
    if (reads_padded_) {
      pad_rows(pixels);
    } else if (!gathers_ || arranges_first_) {
      arrange_rows(pixels);
    }
    for (int64_t group = blocks.begin / group_blocks_; group * group_blocks_ < blocks.end; ++group) {
      const Range of_group = {std::max(blocks.begin, group * group_blocks_),
                              std::min(blocks.end, (group + 1) * group_blocks_)};
      if (gathers_) gather(pixels, group);
      const int64_t blocks_of_tile = tiles_.channels / kQuantizedBlock;
      const int64_t bytes = widens(pixels) ? widened_bytes() : block_bytes_;
      const int64_t pass = std::max<int64_t>(1, kWeightBytes / bytes / blocks_of_tile) * blocks_of_tile;
      for (int64_t at = of_group.begin; at < of_group.end; at += pass) {
        run_pass(pixels, group, {at, std::min(at + pass, of_group.end)});
      }
    }
  }

  void run_pass(Range pixels, int64_t group, Range blocks) {
    QuantizedTile tile = {};
    tile.inputs = inputs_;
    const bool are_widened = widens(pixels);
    tile.block_bytes = are_widened ? widened_bytes() : block_bytes_;
    tile.weights = are_widened ? widen(blocks) : weights_ + (blocks.begin - first_block_) * block_bytes_;
    tile.sums = reinterpret_cast<const int32_t*>(tile.weights + tile.block_bytes - kSumsBytes);
    const QuantizedTileRun* run = are_widened ? tiles_.widened->run : tiles_.run;
    const int64_t first = (blocks.begin - group * group_blocks_) * kQuantizedBlock;
    const int64_t end = std::min((blocks.end - group * group_blocks_) * kQuantizedBlock, group_out_);
    const int64_t channel = group * group_out_ + first;
    tile.channels = end - first;
    tile.scale = scale_ + channel;
    tile.bias = bias_ == nullptr ? nullptr : bias_ + channel;
    tile.output_pitch = out_.channels * item_;
    tile.zero = arranged_zero_;
    tile.format = &format_;
    const bool by_line = tiles_.gathers && reads_padded_;
    for (Range line = {pixels.begin, 0}; line.begin < pixels.end; line.begin = line.end) {
      line.end = by_line ? std::min(pixels.end, (line.begin / out_.width + 1) * out_.width) : pixels.end;
      int64_t at = line.begin;
      for (int64_t left = ceil_div(line.size(), tiles_.rows); left > 0; --left) {
        const int64_t steps = ceil_div(line.end - at, tiles_.row_step);
        const int64_t even = ceil_div(steps, left) * tiles_.row_step;  // a small last tile would waste more
        const int64_t rows = std::min(even, line.end - at);
        find_inputs(tile, {at, at + rows}, at - pixels.begin, group);
        tile.output = y_ + (at * out_.channels + channel) * item_;
        run[rows - 1](tile);
        at += rows;
      }
    }
  }

  // Where the inputs of a tile's pixels begin, `before` pixels after those that were gathered or arranged last.
  void find_inputs(QuantizedTile& tile, Range pixels, int64_t before, int64_t group) {
    tile.taps = 1;
    if (gathers_) {
      tile.tap_quads = quads_;
      return find_adjacent(source_, before, quads_ * kQuad * tiles_.element_bytes, pixels.size());
    }
    const char* of_group = source_ + group * group_in_ * tiles_.element_bytes;
    if (pointwise_) {
      tile.tap_quads = quads_;
      return find_adjacent(of_group, pixels.begin - first_row_, pixel_bytes_, pixels.size());
    }
    find_taps(tile, pixels, of_group);
  }

  void find_adjacent(const char* from, int64_t first, int64_t pitch, int64_t rows) {
    from += first * pitch;
    for (int64_t row = 0; row < rows; ++row) inputs_[row] = from + row * pitch;
  }

  // Cuts output pixels into those of a line each; returns how many there are.
  int64_t split_by_line(Range pixels, PixelRun (&runs)[kMaxQuantizedRows]) const {
    const Window& down = params_.window.h;
    PixelWalk at(pixels.begin, out_);
    int64_t count = 0;
    for (int64_t row = 0; row < pixels.size(); ++count) {
      const int64_t rows = std::min(pixels.size() - row, out_.width - at.column);
      const int64_t x = at.column * params_.window.w.stride - row_pad_;
      runs[count] = {rows, x, at.line * down.stride - down.pad, at.image * in_.height - first_row_};
      row += rows;
      at.column += rows - 1;
      at.next(out_);
    }
    return count;
  }

  void find_taps(QuantizedTile& tile, Range pixels, const char* of_group) {
    const Window& across = params_.window.w;
    const Window& down = params_.window.h;
    PixelRun runs[kMaxQuantizedRows];
    const int64_t run_count = split_by_line(pixels, runs);
    bool merges = adjacent_;  // the taps of a row of the kernel, into one
    for (const PixelRun* run = runs; run != runs + run_count; ++run) {
      const int64_t end = run->x + (run->rows - 1) * across.stride + across.kernel;
      merges = merges && run->x >= 0 && end <= row_width_;
    }
    const int64_t taps_across = merges ? 1 : across.kernel;
    tile.taps = down.kernel * taps_across;
    tile.tap_quads = ceil_div(group_in_ * (merges ? across.kernel : 1), kQuad);
    const void** to = inputs_;
    for (int64_t ky = 0; ky < down.kernel; ++ky) {
      for (int64_t kx = 0; kx < taps_across; ++kx) {
        for (const PixelRun* run = runs; run != runs + run_count; ++run) {
          const int64_t y = inside(run->y + ky * down.dilation, down.up, in_.height);
          const char* line = of_group + (run->image_row + y) * row_width_ * pixel_bytes_;
          to =
              y < 0 ? std::fill_n(to, run->rows, zeros_) : find_run(to, line, run->x + kx * across.dilation, run->rows);
        }
      }
    }
  }

  // Where the inputs of one tap begin, of some adjacent output pixels whose first one sees x.
  const void** find_run(const void** to, const char* line, int64_t x, int64_t rows) const {
    const Window& across = params_.window.w;
    if (across.up == 1 && x >= 0 && x + (rows - 1) * across.stride < row_width_) {
      const char* from = line + x * pixel_bytes_;
      for (int64_t row = 0; row < rows; ++row, from += across.stride * pixel_bytes_) to[row] = from;
      return to + rows;
    }
    for (int64_t row = 0; row < rows; ++row, x += across.stride) {
      const int64_t column = inside(x, across.up, row_width_);
      to[row] = column < 0 ? zeros_ : line + column * pixel_bytes_;
    }
    return to + rows;
  }

  // Of a position in the image as it is spread by `up` the one in the image, or -1 outside of it.
  static int64_t inside(int64_t spread, int64_t up, int64_t size) {
    if (up == 1) return static_cast<uint64_t>(spread) < static_cast<uint64_t>(size) ? spread : -1;
    return spread >= 0 && spread % up == 0 && spread / up < size ? spread / up : -1;
  }

  const QuantizedLayerParams& params_;
  const ResultFormat format_;
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
  Scratch& scratch_ = thread_scratch<Scratch>();
  const char* image_ = nullptr;  // its rows from first_row_ on, which windows are copied from
  const char* image_end_ = nullptr;
  const char* source_ = nullptr;  // the first of the inputs that were gathered or arranged, or all in place
  int64_t first_row_ = 0;         // of the image, in an arranged source
  const char* zeros_ = nullptr;
  const void** inputs_ = nullptr;
  int64_t first_block_ = 0;
  int64_t group_in_ = 0;
  int64_t group_out_ = 0;
  int64_t group_blocks_ = 0;
  int64_t taps_ = 0;
  int64_t depth_ = 0;  // products in a sum
  int64_t quads_ = 0;
  int64_t block_bytes_ = 0;
  int64_t pixel_bytes_ = 0;  // of arranged inputs
  int32_t arranged_zero_ = 0;
  bool as_they_are_ = false;  // inputs are arranged already
  bool pointwise_ = false;
  bool adjacent_ = false;  // the taps of a row of the kernel are
  int64_t row_width_ = 0;  // of the image, or of its padded copy
  int64_t row_pad_ = 0;    // that these rows lack
  bool reads_padded_ = false;
  bool gathers_ = false;
  bool arranges_first_ = false;
};

}  // namespace

const QuantizedTiles& tiles_for(Isa isa) {
  const QuantizedTiles* tiles = KERNEL_PICK_AMX(isa, matrix_tiles);
  if (tiles == nullptr) tiles = KERNEL_PICK_AVX512VNNI(isa, dot_product_tiles);
  if (tiles == nullptr) tiles = KERNEL_PICK_AVXVNNI(isa, dot_product_tiles);
  if (tiles == nullptr) tiles = KERNEL_PICK_I8MM(isa, dot_product_tiles);
  if (tiles == nullptr) tiles = KERNEL_PICK_DOTPROD(isa, dot_product_tiles);
  if (tiles == nullptr) tiles = KERNEL_PICK_NEON(isa, word_tiles);
  return tiles != nullptr ? *tiles : KERNEL_PICK(quantized_tiles)();
}

void quantized_layer_by(const QuantizedTiles& tiles, ggml_tensor* dst, int ith, int nth, const void* call) {
  QuantizedLayer(tiles, dst, as_call<QuantizedLayerParams>(call)).run(ith, nth);
}

void quantized_layer(ggml_tensor* dst, int ith, int nth, void* call) {
  quantized_layer_by(tiles_for(amx_or_below(AmxType::Int8, active_isa())), dst, ith, nth, call);
}

}  // namespace executorch_ggml::kernels
