// conv_2d as an implicit GEMM. This file cuts it into tiles (some output pixels by some output channels) and finds the
// input runs of each pixel; conv_2d_isa.cpp computes the tiles.
#include "kernels/convolution/conv_2d.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/convolution/bfloats.h"
#include "kernels/convolution/image.h"
#include "kernels/convolution/image_strip.h"
#include "kernels/convolution/plain_weights.h"
#include "kernels/convolution/taps.h"
#include "kernels/convolution/tile_session.h"
#include "kernels/convolution/tiling.h"
#include "kernels/elementwise/convert.h"
#include "kernels/kernels.h"
#include "kernels/product/packing.h"
#include "kernels/product/pair_product.h"
#include "kernels/scratch.h"
#include "selection_generated.h"

namespace executorch_ggml::kernels {

namespace {

constexpr int64_t kWeightsInCache = 256 * 1024;    // bytes of weights for one pass over the pixels, which stay in L2
constexpr int64_t kWeightsOfFewTiles = 32 * 1024;  // likewise, for up to kFewTiles: nothing prefetches the first pass's
constexpr int64_t kFewTiles = 16;
constexpr int64_t kAliasing = 4096;             // pixels a multiple of so many bytes apart map to the same sets of L1
constexpr int64_t kLongestCopy = 1 << 20;       // elements
constexpr int64_t kRoundedInL1 = 16 * 1024;     // bytes of rounded pixels that one pass of weights is multiplied with
constexpr int64_t kRoundedForPasses = 1 << 20;  // of those that are read several times, for passes or for taps
constexpr int64_t kFarResults = 128 * 1024;     // elements; larger outputs are not in L2 when they are stored
constexpr int64_t kMostBlocks = 2;              // that inputs are multiplied with at a time
constexpr int64_t kCopied = 16;                 // elements of a run that are copied at a time, some of them beyond it
constexpr int64_t kShortCopy = 64;              // elements of a run that a call of memcpy would take longer for
// A build of programs whose only layers are linear has no code for windows.
constexpr bool kHasWindows = built::conv_2d_nhwc;

// Whether a kernel's row has so few inputs that its taps one by one take longer than a copy.
bool has_short_runs(int64_t channels, const ConvolutionParams& params) {
  constexpr int64_t kShortRun = 32;
  return params.groups == 1 && channels * params.window.w.kernel <= kShortRun;
}

// Memory that a thread keeps from call to call.
template <class Element>
struct Scratch {
  Taps taps;
  Taps merged;
  ScratchVector<const Element*> inputs;
  ScratchVector<Element> rows;
  ScratchVector<float*> outputs;  // of gathered pixels
  ScratchVector<float> weights;   // packed and in f32, where the node's are not
  ScratchVector<float> row;       // one output channel's, in f32
  Buffer<float> pixels;           // of a row of the image
  ScratchVector<Element> zeros;
  Buffer<Element> strip;     // of the image, rounded or padded
  Buffer<Element> gathered;  // the inputs of each of a tile's pixels, one run after the other
};

// On floats, or on bf16 in uint16_t, to which an image of floats is rounded strip by strip.
template <class Element>
class Convolution {
 public:
  Convolution(ggml_tensor* dst, const ConvolutionParams& params, DType weights_type, const ConvTilesOf<Element>& tiles,
              bool rounds_result = false)
      : params_(params),
        stored_epilogue_(after_registers(params.epilogue, rounds_result)),
        in_(dst->src[0]),
        out_(dst),
        source_(in_),
        source_out_(out_),
        strip_(dst->src[0], scratch_.strip, scratch_.pixels),
        horizontal_(params.window.w),
        vertical_(params.window.h),
        group_in_(in_.channels / params.groups),
        group_out_(out_.channels / params.groups),
        group_blocks_(ceil_div(group_out_, kOcBlock)),
        is_pointwise_(sees_pixels()),
        x_(static_cast<const Element*>(dst->src[0]->data)),
        packed_(dst->src[1]->data),
        packed_type_(weights_type),
        bias_(bias_of(dst, params)),
        addend_(addend_of(dst, params)),
        scale_(scale_of(dst, params)),
        output_begin_(static_cast<const float*>(dst->data)),
        y_(static_cast<float*>(dst->data)),
        tiles_(tiles_of_window(tiles)) {
    const int64_t rows = vertical_.kernel * horizontal_.kernel * group_in_;
    block_stride_ = tiles_.widens_pairs ? rows / 2 * kOcBlock : (kOnFloats ? rows : rows + rows % 2) * kOcBlock;
    find_weights();
    flatten_if_pointwise();
    joins_runs_ = run_is_odd() && !pointwise() && !gathers();
    if (strip_.rounds() && pointwise()) in_.channels = rounded_pitch();
    if (pads()) strip_.pad(horizontal_, vertical_, out_, in_);
    if (!kOnFloats) strip_.scale_by(scale_);
    begin_tiles();
  }

  void run(int ith, int nth) {
    if (out_.pixels() == 0 || out_.channels == 0) return;
    slides_ = slides();
    const int64_t parts = pixel_parts(nth);
    const int64_t part = ith % parts;
    const Range blocks_of_thread = Range::part(blocks(), ith / parts, nth / parts);
    const int64_t phases_y = std::min(vertical_.phases, out_.height);
    const int64_t phases_x = std::min(horizontal_.phases, out_.width);
    for (int64_t py = 0; py < phases_y; ++py) {
      for (int64_t px = 0; px < phases_x; ++px) {
        begin_phase(px, py);
        const int64_t pixels = phase_width_ * phase_height_ * out_.images;
        Range share = Range::part(pixels, part, parts);
        if (kOnFloats && scale_ != nullptr) {
          run_scaled(share, blocks_of_thread);
          continue;
        }
        if (pointwise() && !strip_.rounds()) {
          share = spread_rows(share, blocks_of_thread.size());
        }
        run_phase(share, blocks_of_thread);
      }
    }
  }

  void run_pixels(Range pixels, Range blocks) {
    begin_phase(0, 0);
    run_phase(pixels, blocks);
  }

 private:
  int64_t blocks() const { return params_.groups * group_blocks_; }

  // What all tiles have in common.
  void begin_tiles() {
    tile_.block_stride = block_stride_;
    tile_.addend = addend_;
    tile_.output_begin = output_begin_;
    tile_.results_are_far = out_.pixels() * out_.channels > kFarResults;
    tile_.epilogue = RegisterEpilogue(params_.epilogue);
  }

  static constexpr bool kOnFloats = std::is_same_v<Element, float>;

  // Packed weights that the tiles read directly are used in place, with the zeros that follow them; others are
  // packed, widened or scaled pass by pass.
  bool in_place() const {
    const bool of_floats = packed_type_ == DType::F32 && params_.weights != Storage::Plain;
    return !kOnFloats || tiles_.widens_pairs || (of_floats && scale_ == nullptr);
  }

  int64_t weight_bytes() const { return tiles_.widens_pairs ? sizeof(uint16_t) : sizeof(Element); }

  void find_weights() {
    if (in_place()) weights_ = static_cast<const Element*>(packed_);
    if (in_place() && !run_is_odd() && params_.groups == 1) {
      zeros_ = weights_ + blocks() * block_stride_;
      return;
    }
    const auto zeros = static_cast<size_t>(in_.channels + kCopied);
    if (scratch_.zeros.size() < zeros) scratch_.zeros.resize(zeros);
    zeros_ = scratch_.zeros.data();
  }

  void pack_weights(Range blocks) {
    if constexpr (kOnFloats) {
      if (in_place()) return;
      const int64_t floats = blocks.size() * block_stride_;
      if (scratch_.weights.size() < static_cast<size_t>(floats)) scratch_.weights.resize(static_cast<size_t>(floats));
      weights_ = scratch_.weights.data();
      first_block_ = blocks.begin;
      for (int64_t block = blocks.begin; block < blocks.end; ++block) pack_block(block);
    }
  }

  void pack_block(int64_t block) {
    float* to = scratch_.weights.data() + (block - first_block_) * block_stride_;
    if (scale_ != nullptr) return scale_block(block, to);
    if (!kHasHalves || params_.weights == Storage::Plain) return plain_weights().pack_block(block, to);
    const int64_t rows = block_stride_ / kOcBlock;
    const int64_t stored = (rows + rows % 2) * kOcBlock;  // in pairs of rows
    widen_pairs(static_cast<const uint16_t*>(packed_) + block * stored, rows, packed_type_, to);
  }

  void scale_block(int64_t block, float* to) const {
    const float* from = static_cast<const float*>(packed_) + block * block_stride_;
    for (int64_t row = 0; row < group_in_; ++row, from += kOcBlock, to += kOcBlock) {
      for (int64_t i = 0; i < kOcBlock; ++i) to[i] = from[i] * scale_[row];
    }
  }

  PlainWeights plain_weights() const {
    const int64_t taps = vertical_.kernel * horizontal_.kernel;
    return {packed_, packed_type_, {taps, group_in_, group_out_}, scratch_.row};
  }

  bool pointwise() const { return !kHasWindows || is_pointwise_; }

  bool has_steps() const { return horizontal_.stride > 1 || vertical_.stride > 1; }

  // Without steps pixels are in the same order, though a layer of rows may write them to a tensor of other dims. An
  // image that is rounded may have steps between the pixels: only those that are read are rounded.
  bool sees_pixels() const {
    const auto is_plain = [](const Axis& w) { return w.kernel == 1 && w.pad == 0 && w.up == 1; };
    if (!is_plain(horizontal_) || !is_plain(vertical_)) return false;
    if (!has_steps()) return in_.pixels() == out_.pixels();
    const auto fits = [](const Axis& w, int64_t in, int64_t out) { return out > 0 && (in - 1) / w.stride >= out - 1; };
    return strip_.rounds() && fits(horizontal_, in_.width, out_.width) && fits(vertical_, in_.height, out_.height);
  }

  // To gather a run takes some ten cycles, in which AVX512-BF16 multiplies half as many pairs of inputs with a block on
  // CPUs with tile registers. Without groups a run is a kernel's row, where that is adjacent.
  const ConvTilesOf<Element>& tiles_of_window(const ConvTilesOf<Element>& tiles) const {
    constexpr int64_t kLeastProducts = 8;
    const int64_t run = merges_taps() ? group_in_ * horizontal_.kernel : group_in_;
    const bool few = tiles.few != nullptr && !pointwise() && ceil_div(run, 2) * group_blocks_ < kLeastProducts;
    return few ? *tiles.few : tiles;
  }

  // Whether the taps of a kernel's row are one run where all are inside of the image.
  bool merges_taps() const { return params_.groups == 1 && horizontal_.dilation == 1 && horizontal_.up == 1; }

  bool gathers() const { return !kOnFloats && tiles_.gathered_bytes > 0 && !pointwise() && !slides_; }

  // Whether tiles slide over the rows of an image without padding, past their ends: each tap's inputs are evenly apart
  // then, and nothing is gathered. What lies between two rows of results is computed for nothing.
  bool slides() const {
    const auto is_plain = [](const Axis& w) { return w.stride == 1 && w.up == 1 && w.pad == 0; };
    const bool few_beside = 2 * in_.width <= 3 * out_.width;
    return gathers() && is_plain(horizontal_) && is_plain(vertical_) && few_beside && !run_is_odd();
  }

  // A 1x1 convolution of adjacent pixels is one GEMM: it is computed as a single row of pixels.
  void flatten_if_pointwise() {
    if (pointwise()) {
      in_.width = out_.width = out_.pixels();
      in_.height = out_.height = 1;
      in_.images = out_.images = 1;
    }
  }

  // Whether the image is copied with zero padding: then all taps are inside it, and those of a kernel's row are one
  // run.
  bool pads() const {
    const bool pays = strip_.rounds() || (kOnFloats && has_short_runs(in_.channels, params_));
    return kHasWindows && !pointwise() && pays && strip_.pays_to_pad(horizontal_, vertical_);
  }

  // Copies the pixels of a pointwise convolution with a padded pitch where a tile of them would map to the same sets of
  // L1, if enough channels are computed from the copy.
  Range spread_rows(Range pixels, int64_t blocks) {
    const int64_t pitch = in_.channels + kOcBlock;
    constexpr auto kAliasingPitch = kAliasing / static_cast<int64_t>(sizeof(Element));
    const bool worth = in_.channels % kAliasingPitch == 0 && params_.groups == 1 && blocks >= 8 && pixels.size() >= 8;
    if (!worth || pixels.size() * pitch > kLongestCopy) return pixels;
    const auto elements = static_cast<size_t>(pixels.size() * pitch);
    if (scratch_.rows.size() < elements) scratch_.rows.resize(elements);
    Element* to = scratch_.rows.data();
    for (int64_t i = 0; i < pixels.size(); ++i) {
      const Element* from = x_ + (pixels.begin + i) * in_.channels;
      std::copy(from, from + in_.channels, to + i * pitch);
    }
    x_ = to;
    y_ += pixels.begin * out_.channels;
    in_.channels = pitch;
    return {0, pixels.size()};
  }

  int64_t pixel_parts(int nth) const {
    LayerWork work;
    work.pixels = out_.pixels();
    work.channels = out_.channels;
    work.blocks = blocks();
    work.weights = horizontal_.kernel * vertical_.kernel * group_in_;
    work.inputs = in_.pixels() * in_.channels;
    work.tile_rows = tiles_.rows;
    return best_pixel_parts(work, nth);
  }

  void begin_phase(int64_t px, int64_t py) {
    phase_x_ = px;
    phase_y_ = py;
    phase_width_ = horizontal_.phase_size(px, out_.width);
    phase_height_ = vertical_.phase_size(py, out_.height);
    scratch_.taps.clear(group_in_);
    if (pointwise()) {
      scratch_.taps.add({0, 0, 0, 0});
      return make_room();
    }
    scratch_.merged.clear(group_in_ * horizontal_.kernel);
    // Where no pixel needs padding, the taps of a kernel's row merge into one longer run.
    const bool merges = merges_taps();
    for (int64_t ky = 0; ky < vertical_.kernel; ++ky) {
      const int64_t y = vertical_.spread(py, ky);
      if (y % vertical_.up != 0) continue;
      for (int64_t kx = 0; kx < horizontal_.kernel; ++kx) {
        const int64_t x = horizontal_.spread(px, kx);
        if (x % horizontal_.up == 0) {
          add_tap(kx, ky, x / horizontal_.up, y / vertical_.up, merges);
        }
      }
    }
    make_room();
    find_interior();
    if (slides_) phase_width_ = in_.width;
  }

  void make_room() {
    const size_t inputs = scratch_.taps.at.size() * static_cast<size_t>(tiles_.rows);
    if (scratch_.inputs.size() < inputs) scratch_.inputs.resize(inputs);
  }

  void add_tap(int64_t kx, int64_t ky, int64_t x, int64_t y, bool merges) {
    const int64_t delta = (y * in_.width + x) * in_.channels;
    const Tap tap = {x, y, delta, (ky * horizontal_.kernel + kx) * group_in_ * kOcBlock};
    scratch_.taps.add(tap);
    if (merges && kx == 0) scratch_.merged.add(tap);
  }

  // The output pixels of the phase whose taps are all inside the image.
  void find_interior() {
    Range xs = {0, phase_width_};
    Range ys = {0, phase_height_};
    const auto narrow = [](Range& range, int64_t offset, int64_t step, int64_t size) {
      // 0 <= offset + i * step < size
      if (offset < 0) range.begin = std::max(range.begin, ceil_div(-offset, step));
      range.end = offset >= size ? 0 : std::min(range.end, (size - 1 - offset) / step + 1);
    };
    for (const Tap& tap : scratch_.taps.at) {
      narrow(xs, tap.x, horizontal_.step, in_.width);
      narrow(ys, tap.y, vertical_.step, in_.height);
    }
    interior_x_ = xs;
    interior_y_ = ys;
  }

  void run_phase(Range pixels, Range blocks) {
    if (pixels.size() == 0 || blocks.size() == 0) return;
    if (slides_) return run_images(pixels, blocks);
    if (!gathers()) return run_passes(pixels, blocks);
    const int64_t row_bytes = std::max<int64_t>(1, gathered_pitch() * params_.groups) * int64_t{sizeof(Element)};
    const int64_t most = std::max<int64_t>(1, tiles_.gathered_bytes / row_bytes / tiles_.rows) * tiles_.rows;
    for (int64_t begin = pixels.begin; begin < pixels.end; begin += most) {
      const Range part = {begin, std::min(begin + most, pixels.end)};
      if (strip_.copies()) copy_inputs(part);
      gather(part, blocks);
      run_passes(part, blocks);
    }
  }

  // Tiles do not slide on to the next image.
  void run_images(Range pixels, Range blocks) {
    const int64_t image = phase_width_ * phase_height_;
    const int64_t results = image - (phase_width_ - out_.width);
    while (!pixels.empty()) {
      const int64_t first = pixels.begin / image * image;
      const Range part = {pixels.begin, std::min(pixels.end, first + results)};
      if (!part.empty()) run_passes(part, blocks);
      pixels.begin = std::min(pixels.end, first + image);
    }
  }

  // Each image has factors of its own.
  void run_scaled(Range pixels, Range blocks) {
    const float* const factors = scale_;
    const int64_t image_pixels = source_out_.width * source_out_.height;
    while (!pixels.empty()) {
      const int64_t image = pixels.begin / image_pixels;
      const Range part = {pixels.begin, std::min(pixels.end, (image + 1) * image_pixels)};
      scale_ = factors + image * group_in_;
      run_phase(part, blocks);
      pixels.begin = part.end;
    }
    scale_ = factors;
  }

  int64_t gathered_run() const { return static_cast<int64_t>(scratch_.taps.at.size()) * group_in_; }

  // Of an odd number of inputs a zero makes pairs.
  int64_t gathered_pitch() const { return gathered_run() + (kOnFloats ? 0 : gathered_run() % 2); }

  // Copies what some pixels see: group by group, a pixel's runs of all taps one right after the other.
  void gather(Range pixels, Range blocks) {
    const Range groups = {blocks.begin / group_blocks_, (blocks.end - 1) / group_blocks_ + 1};
    gathered_ = pixels;
    first_group_ = groups.begin;
    group_offset_ = pixels.size() * gathered_pitch();
    const auto elements = static_cast<size_t>(groups.size() * group_offset_ + kCopied);
    if (scratch_.rows.size() < elements) scratch_.rows.resize(elements);
    const auto outputs = static_cast<size_t>(pixels.size());
    if (scratch_.outputs.size() < outputs) scratch_.outputs.resize(outputs);
    for (int64_t at = 0; at < pixels.size(); at += tiles_.rows) {
      const int64_t rows = std::min<int64_t>(tiles_.rows, pixels.size() - at);
      ConvTileOf<Element> tile = {};
      find_pixels({pixels.begin + at, pixels.begin + at + rows}, scratch_.outputs.data() + at, tile);
      for (int64_t group = groups.begin; group < groups.end; ++group) {
        Element* to = scratch_.rows.data() + (group - groups.begin) * group_offset_ + at * gathered_pitch();
        copy_runs(tile, rows, group * group_in_, to);
      }
    }
  }

  void copy_runs(const ConvTileOf<Element>& tile, int64_t rows, int64_t offset, Element* to) const {
    const bool is_short = strip_.copies() && params_.groups == 1 && tile.run <= kShortCopy;
    for (int64_t m = 0; m < rows; ++m) {
      for (int64_t tap = 0; tap < tile.taps; ++tap, to += tile.run) {
        const Element* from = scratch_.inputs[static_cast<size_t>(tap * rows + m)];
        if (is_short) {  // copies past the end of a run, where the next one overwrites it
          for (int64_t i = 0; i < tile.run; i += kCopied) std::memcpy(to + i, from + i, kCopied * sizeof(Element));
        } else {
          std::copy_n(from + offset, tile.run, to);
        }
      }
      if (gathered_pitch() > gathered_run()) *to++ = 0;
    }
  }

  void run_passes(Range pixels, Range blocks) {
    const int64_t block_bytes =
        std::max<int64_t>(1, static_cast<int64_t>(scratch_.taps.at.size()) * group_in_) * kOcBlock * weight_bytes();
    const int64_t most = std::min(tiles_.channels / kOcBlock, kMostBlocks);
    const Tiling tiling(pixels, tiles_.rows, /*full=*/tiles_.setup != nullptr);
    const bool are_few = kOnFloats && pointwise() && in_place() && tiling.count > 1 && tiling.count <= kFewTiles;
    const int64_t pass_bytes = are_few ? kWeightsOfFewTiles : kWeightsInCache;
    const int64_t pass = std::max<int64_t>(1, pass_bytes / block_bytes / most) * most;
    const bool copies_strips = strip_.copies() && !gathers();
    const int64_t strip = copies_strips ? tiles_of_strip(tiling, blocks.size() <= pass) : tiling.count;
    for (int64_t first = 0; first < tiling.count; first += strip) {
      const Range tiles = {first, std::min(first + strip, tiling.count)};
      if (copies_strips) copy_inputs({tiling.tile(tiles.begin).begin, tiling.tile(tiles.end - 1).end});
      for (int64_t begin = blocks.begin; begin < blocks.end; begin += pass) {
        const Range of_pass = {begin, std::min(begin + pass, blocks.end)};
        pack_weights(of_pass);
        for (int64_t tile = tiles.begin; tile < tiles.end; ++tile) {
          prefetch_next(tile, tiles, of_pass, blocks);
          run_tile(tiling.tile(tile), of_pass);
        }
      }
    }
  }

  // Elements from a rounded pixel to the next: an even number, and none that maps a tile's pixels to few sets of L1.
  int64_t rounded_pitch() const {
    const int64_t even = in_.channels + in_.channels % 2;
    constexpr int64_t kElements = kAliasing / static_cast<int64_t>(2 * sizeof(Element));
    return even % kElements == 0 ? even + kCopied : even;
  }

  // How many tiles' inputs are copied at a time.
  int64_t tiles_of_strip(const Tiling& tiling, bool one_pass) const {
    const int64_t pixel = in_.channels * static_cast<int64_t>(sizeof(Element));
    constexpr int64_t kLongest = 64;  // a strip of so long steps has one tile in any case
    const int64_t step_x = std::clamp<int64_t>(horizontal_.step, 1, kLongest);
    const int64_t step_y = std::clamp<int64_t>(vertical_.step, 1, kLongest);
    const int64_t area = pointwise() ? 1 : step_x * step_y;
    const int64_t bytes = pointwise() && one_pass ? kRoundedInL1 : kRoundedForPasses;
    return std::max<int64_t>(1, bytes / std::max<int64_t>(1, pixel * area * tiling.even));
  }

  // The inputs of some output pixels, rounded or padded, which x_ has from element x_begin_ of the image on.
  void copy_inputs(Range pixels) {
    if (pointwise()) {
      x_begin_ = pixels.begin * in_.channels;
      const bool is_dense = !has_steps() && in_.channels == source_.channels && scale_ == nullptr;
      const auto source_of = [this](int64_t pixel) { return source_pixel(pixel); };
      x_ = is_dense ? strip_.copy_pixels(pixels) : strip_.copy_pixels(pixels, in_.channels, source_of);
      return;
    }
    const Range rows = input_rows(pixels);
    // Tiles that slide read on after the last row.
    const int64_t beyond = (horizontal_.kernel - 1) * horizontal_.dilation * in_.channels;
    x_begin_ = rows.begin * in_.width * in_.channels;
    x_ = strip_.copy_rows(rows, in_, std::max(kCopied, beyond));
  }

  // The pixel of the image that an output pixel of a pointwise convolution reads.
  int64_t source_pixel(int64_t pixel) const {
    if (!has_steps()) return pixel;
    const int64_t row = pixel / source_out_.width;
    const int64_t image = row / source_out_.height;
    const int64_t y = row % source_out_.height * vertical_.stride;
    return (image * source_.height + y) * source_.width + pixel % source_out_.width * horizontal_.stride;
  }

  // The image's rows, of all images one after the other, that some output pixels need.
  Range input_rows(Range pixels) const {
    const auto row_of = [&](int64_t pixel, int64_t tap_y) {
      const int64_t row = pixel / phase_width_;
      const int64_t y = row % phase_height_ * vertical_.step + tap_y;
      return row / phase_height_ * in_.height + std::clamp<int64_t>(y, 0, in_.height - 1);
    };
    if (scratch_.taps.at.empty() || in_.height == 0) return {0, 0};
    const int64_t begin = row_of(pixels.begin, scratch_.taps.at.front().y);
    return {begin, std::max(begin, row_of(pixels.end - 1, scratch_.taps.at.back().y)) + 1};
  }

  // Has a tile prefetch a part of the next pass's weights. They are spread over the last tiles of a pass, to stay below
  // the memory's bandwidth. The first pass, a pass of one tile and grouped convolutions are not prefetched for.
  void prefetch_next(int64_t tile, Range tiles, Range of_pass, Range blocks) {
    constexpr int kMostShift = 4;
    int shift = 0;
    while (shift < kMostShift && (int64_t{2} << shift) <= tiles.size()) ++shift;
    const int64_t part = tiles.end - 1 - tile;
    tile_.next = nullptr;
    if (shift == 0 || part >= int64_t{1} << shift || !in_place()) return;
    if (params_.groups > 1 || of_pass.end + of_pass.size() > blocks.end) return;
    const int64_t bytes = of_pass.size() * block_stride_ * static_cast<int64_t>(sizeof(Element));
    const Element* of_next = weights_ + (of_pass.end - first_block_) * block_stride_;
    tile_.next = reinterpret_cast<const char*>(of_next) + part * (bytes >> shift);
    tile_.next_shift = shift;
  }

  void run_tile(Range pixels, Range blocks) {
    const auto rows = static_cast<int>(pixels.size());
    float* outputs[kMaxTileRows];
    ConvTileOf<Element>& tile = tile_;
    tile.outputs = outputs;
    if (pointwise()) {
      find_adjacent_pixels(pixels, outputs, tile);
    } else if (slides_) {
      if (!find_sliding_pixels(pixels, outputs, tile)) return;
    } else if (gathers()) {
      find_gathered_pixels(pixels, outputs, tile);
    } else {
      find_pixels(pixels, outputs, tile);
    }
    session_.shape(rows, tile.run);
    tile.inputs = scratch_.inputs.data();
    int64_t group = params_.groups == 1 ? 0 : blocks.begin / group_blocks_;
    int64_t first = blocks.begin - group * group_blocks_;
    const auto sum_channels = tiles_.by_rows[rows - 1];
    for (int64_t block = blocks.begin; block < blocks.end;) {
      const int64_t last = std::min(group_blocks_, first + blocks.end - block);
      tile.channels = std::min(last * kOcBlock, group_out_) - first * kOcBlock;
      tile.input_offset = (group - first_group_) * group_offset_;
      tile.output_offset = group * group_out_ + first * kOcBlock;
      tile.weights = weights_ + (block - first_block_) * block_stride_;
      tile.bias = bias_ == nullptr ? nullptr : bias_ + tile.output_offset;
      sum_channels(tile);
      block += last - first;
      first = 0;
      ++group;
    }
    if (!kHasStoredEpilogues || stored_epilogue_.is_empty()) return;
    // All channels of a pixel at once: those of a tile are too few for a loop.
    const int64_t begin = first_channel(blocks.begin);
    const int64_t end = first_channel(blocks.end);
    for (int64_t m = 0; m < rows; ++m) {
      if (outputs[m] != nullptr) outputs[m] += begin;
    }
    apply_to_pixels(outputs, rows, end - begin, stored_epilogue_);
  }

  int64_t first_channel(int64_t block) const {
    return block / group_blocks_ * group_out_ + block % group_blocks_ * kOcBlock;
  }

  // Of a pointwise convolution, whose pixels are one row with one tap: small tiles spend as much on the rest as on
  // sums.
  void find_adjacent_pixels(Range pixels, float** outputs, ConvTileOf<Element>& tile) {
    tile.taps = 1;
    tile.tap_weights = scratch_.taps.weights.data();
    tile.run = scratch_.taps.run;
    if (run_is_odd()) ++tile.run;
    const Element* from = x_ + (pixels.begin * in_.channels - x_begin_);
    float* to = y_ + pixels.begin * out_.channels;
    for (int64_t m = 0; m < pixels.size(); ++m) {
      scratch_.inputs[static_cast<size_t>(m)] = from + m * in_.channels;
      outputs[m] = to + m * out_.channels;
    }
  }

  void use_taps(const Taps& taps, ConvTileOf<Element>& tile) const {
    tile.taps = static_cast<int64_t>(taps.at.size());
    tile.tap_weights = taps.weights.data();
    tile.run = taps.run;
  }

  // Pixels between two rows of results have no output. False where none has one.
  bool find_sliding_pixels(Range pixels, float** outputs, ConvTileOf<Element>& tile) {
    const Taps& taps = scratch_.merged.at.empty() ? scratch_.taps : scratch_.merged;
    use_taps(taps, tile);
    const int64_t image = pixels.begin / (phase_width_ * phase_height_);
    const int64_t skipped = image * (in_.height - phase_height_) * in_.width;  // rows that only taps see
    const Element* from = x_ + ((pixels.begin + skipped) * in_.channels - x_begin_);
    const Element** to = scratch_.inputs.data();
    for (const Tap& tap : taps.at) {
      for (int64_t m = 0; m < pixels.size(); ++m) *to++ = from + tap.delta + m * in_.channels;
    }
    bool has_output = false;
    for (int64_t m = 0; m < pixels.size(); ++m) {
      const int64_t row = (pixels.begin + m) / phase_width_;
      const int64_t column = (pixels.begin + m) % phase_width_;
      outputs[m] = column < out_.width ? y_ + (row * out_.width + column) * out_.channels : nullptr;
      has_output = has_output || outputs[m] != nullptr;
    }
    return has_output;
  }

  // Where a phase has all taps, their weights lie one right after the other as the inputs do: all are one run.
  void find_gathered_pixels(Range pixels, float** outputs, ConvTileOf<Element>& tile) {
    const bool one_run = horizontal_.up == 1 && vertical_.up == 1;
    tile.taps = one_run ? 1 : static_cast<int64_t>(scratch_.taps.at.size());
    tile.run = one_run ? gathered_pitch() : group_in_;
    tile.tap_weights = scratch_.taps.weights.data();
    const int64_t first = pixels.begin - gathered_.begin;
    const Element** to = scratch_.inputs.data();
    for (int64_t tap = 0; tap < tile.taps; ++tap) {
      const Element* from = scratch_.rows.data() + first * gathered_pitch() + tap * tile.run;
      for (int64_t m = 0; m < pixels.size(); ++m) *to++ = from + m * gathered_pitch();
    }
    std::copy_n(scratch_.outputs.data() + first, pixels.size(), outputs);
  }

  // Column i and row j of the phase of an image.
  struct Place {
    int64_t i;
    int64_t j;
    int64_t image;
  };

  Place place_of(int64_t pixel) const {
    const int64_t row = pixel / phase_width_;
    return {pixel % phase_width_, row % phase_height_, row / phase_height_};
  }

  // Whether so many pixels are of one row, and see pixels of the image alone.
  bool are_inside_a_row(const Place& first, int64_t count) const {
    const bool of_columns = first.i >= interior_x_.begin && first.i + count <= interior_x_.end;
    return of_columns && first.j >= interior_y_.begin && first.j < interior_y_.end;
  }

  // Their inputs and outputs are evenly apart.
  void find_pixels_inside_a_row(const Place& first, int64_t rows, float** outputs, ConvTileOf<Element>& tile) {
    const auto [i, j, image] = first;
    const Taps& taps = scratch_.merged.at.empty() ? scratch_.taps : scratch_.merged;
    use_taps(taps, tile);
    const int64_t y = image * in_.height + j * vertical_.step;
    const Element* const begin = x_ + ((y * in_.width + i * horizontal_.step) * in_.channels - x_begin_);
    const int64_t step = horizontal_.step * in_.channels;
    const Element** to = scratch_.inputs.data();
    for (const Tap& tap : taps.at) {
      const Element* from = begin + tap.delta;
      for (int64_t m = 0; m < rows; ++m, from += step) *to++ = from;
    }
    const int64_t oy = image * out_.height + phase_y_ + j * vertical_.phases;
    float* output = y_ + (oy * out_.width + phase_x_ + i * horizontal_.phases) * out_.channels;
    for (int64_t m = 0; m < rows; ++m, output += horizontal_.phases * out_.channels) outputs[m] = output;
    if (joins_runs_) join_runs(tile, rows);
  }

  // Fills in the output and input pointers of the tile's pixels.
  void find_pixels(Range pixels, float** outputs, ConvTileOf<Element>& tile) {
    const int64_t rows = pixels.size();
    const Place first = place_of(pixels.begin);
    if (are_inside_a_row(first, rows)) return find_pixels_inside_a_row(first, rows, outputs, tile);
    auto [i, j, image] = first;
    int64_t xs[kMaxTileRows];
    int64_t ys[kMaxTileRows];
    int64_t begins[kMaxTileRows];
    bool interior = true;
    for (int64_t m = 0; m < rows;) {
      const int64_t of_row = std::min(rows - m, phase_width_ - i);
      const int64_t y = j * vertical_.step;
      const int64_t oy = phase_y_ + j * vertical_.phases;
      int64_t begin = ((image * in_.height + y) * in_.width + i * horizontal_.step) * in_.channels;
      float* output =
          y_ + ((image * out_.height + oy) * out_.width + phase_x_ + i * horizontal_.phases) * out_.channels;
      interior = interior && i >= interior_x_.begin && i + of_row <= interior_x_.end && j >= interior_y_.begin &&
                 j < interior_y_.end;
      for (const int64_t end = m + of_row; m < end; ++m, ++i) {
        xs[m] = i * horizontal_.step;
        ys[m] = y;
        begins[m] = begin;
        outputs[m] = output;
        begin += horizontal_.step * in_.channels;
        output += horizontal_.phases * out_.channels;
      }
      i = 0;
      if (++j == phase_height_) {
        j = 0;
        ++image;
      }
    }
    const bool merged = interior && !scratch_.merged.at.empty();
    const Taps& taps = merged ? scratch_.merged : scratch_.taps;
    use_taps(taps, tile);
    const Element** to = scratch_.inputs.data();
    for (const Tap& tap : taps.at) {
      const int64_t delta = tap.delta - x_begin_;
      for (int64_t m = 0; m < rows; ++m, ++to) {
        const bool inside = interior || (in_range(xs[m] + tap.x, in_.width) && in_range(ys[m] + tap.y, in_.height));
        *to = inside ? x_ + (begins[m] + delta) : zeros_;
      }
    }
    if (joins_runs_) join_runs(tile, rows);
  }

  // Each pixel's runs one after the other, as one of an even number of inputs: pairs of weights go on from tap to tap.
  void join_runs(ConvTileOf<Element>& tile, int64_t rows) {
    const int64_t inputs = tile.taps * tile.run;
    const int64_t pitch = inputs + kCopied;
    Element* to = scratch_.gathered.sized(rows * pitch + kCopied);
    for (int64_t m = 0; m < rows; ++m, to += pitch) {
      for (int64_t t = 0; t < tile.taps; ++t) {
        const Element* from = scratch_.inputs[static_cast<size_t>(t * rows + m)];
        for (int64_t i = 0; i < tile.run; i += kCopied) {
          std::memcpy(to + t * tile.run + i, from + i, kCopied * sizeof(Element));
        }
      }
      to[inputs] = 0;
    }
    to -= rows * pitch;
    for (int64_t m = 0; m < rows; ++m) scratch_.inputs[static_cast<size_t>(m)] = to + m * pitch;
    tile.taps = 1;
    tile.run = inputs + inputs % 2;
  }

  bool run_is_odd() const { return !kOnFloats && group_in_ % 2 != 0; }

  static bool in_range(int64_t i, int64_t size) { return static_cast<uint64_t>(i) < static_cast<uint64_t>(size); }

  const ConvolutionParams& params_;
  const StoredEpilogue stored_epilogue_;
  Scratch<Element>& scratch_ = thread_scratch<Scratch<Element>>();
  ImageShape in_;
  ImageShape out_;
  ImageShape source_;  // both as they lie in memory
  ImageShape source_out_;
  ImageStrip<Element> strip_;  // the input rows of the next tiles, rounded or zero-padded
  Axis horizontal_;
  Axis vertical_;
  int64_t group_in_;
  int64_t group_out_;
  int64_t group_blocks_;
  bool is_pointwise_;
  const Element* x_;
  int64_t x_begin_ = 0;  // the element of the image that x_ begins with
  bool joins_runs_ = false;
  bool slides_ = false;
  const void* packed_;
  DType packed_type_;
  const Element* weights_ = nullptr;  // of first_block_ and those after it
  int64_t first_block_ = 0;
  const float* bias_;
  const float* addend_;
  const float* scale_;  // the image's
  const float* output_begin_;
  float* y_;
  int64_t block_stride_;
  const Element* zeros_ = nullptr;  // a pixel of padding
  const ConvTilesOf<Element>& tiles_;
  ConvTileOf<Element> tile_{};  // the next one's; clearing it for each takes as long as a small one
  TileSession session_{tiles_.setup};

  int64_t phase_x_ = 0;
  int64_t phase_y_ = 0;
  int64_t phase_width_ = 0;
  int64_t phase_height_ = 0;
  Range interior_x_ = {0, 0};
  Range interior_y_ = {0, 0};

  Range gathered_ = {0, 0};           // pixels
  int64_t first_group_ = 0;           // of those that are gathered
  int64_t group_offset_ = group_in_;  // elements from a group's inputs to the next one's
};

}  // namespace

bool reads_planes(const ggml_tensor* x, const ConvolutionParams& params) {
  const bool is_pixelwise = params.window.w.kernel == 1 && params.window.h.kernel == 1;
  return kHasWindows && !is_pixelwise && has_short_runs(x->ne[0], params) &&
         can_pad(Axis(params.window.w), Axis(params.window.h));
}

void conv_2d_pixels(ggml_tensor* dst, const ConvolutionParams& params, DType weights, Range pixels, Range blocks) {
  Convolution<float>(dst, params, weights, KERNEL_PICK(conv_tiles)()).run_pixels(pixels, blocks);
}

void conv_2d_bfloat_pixels(ggml_tensor* dst, const ConvolutionParams& params, Range pixels, Range blocks) {
  Convolution<uint16_t>(dst, params, DType::Bf16, bfloat_tiles_of_node()).run_pixels(pixels, blocks);
}

void conv_2d(ggml_tensor* dst, int ith, int nth, void* call) {
  const auto& c = as_call<ConvolutionParams>(call);
  if (is_pair_product(dst, c)) return pair_product(dst, c, ith, nth);
  Convolution<float>(dst, c.params, c.src[1], float_tiles(dst, c), c.rounds_result).run(ith, nth);
}

void conv_2d_bfloats(ggml_tensor* dst, int ith, int nth, void* call) {
  conv_2d_by_tiles(dst, as_call<ConvolutionParams>(call), bfloat_tiles_of_node(), ith, nth);
}

void conv_2d_by_tiles(ggml_tensor* dst, const KernelCall<ConvolutionParams>& call, const BfloatTiles& tiles, int ith,
                      int nth) {
  Convolution<uint16_t>(dst, call.params, DType::Bf16, tiles, call.rounds_result).run(ith, nth);
}

}  // namespace executorch_ggml::kernels
