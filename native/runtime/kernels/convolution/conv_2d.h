// Between the planning of a convolution (conv_2d.cpp, compiled once) and its arithmetic (conv_2d_isa.cpp, compiled per
// instruction set).
#pragma once

#include <cstdint>

#include "kernels/convolution/convolution.h"
#include "kernels/partition.h"
#include "kernels/simd/isa.h"
#include "ops_generated.h"

namespace executorch_ggml::kernels {

constexpr int kOcBlock = 16;      // output channels of a block of packed weights
constexpr int kMaxTileRows = 12;  // output pixels of a tile, at most

// One tile: some output pixels by some adjacent output channels. Each tap multiplies a run of n input floats of each
// pixel with n rows of kOcBlock weights.
struct ConvTile {
  const float* const* inputs;  // [tap * rows + pixel]: where the pixel's run begins
  const float* zeros;          // the run in `inputs` that is padding
  int64_t input_offset;        // added to every run but `zeros`
  const int64_t* tap_weights;  // [tap]: where the tap's weights begin in a block
  int64_t taps;
  int64_t run;            // input floats per pixel and tap
  const float* weights;   // the first block
  int64_t block_stride;   // floats from a block to the next
  const float* bias;      // of the first channel, or nullptr
  float* const* outputs;  // [pixel]
  int64_t output_offset;  // of the first channel, added to each of `outputs`
  int64_t channels;       // to store, from the first block's first on
  float low;              // bounds of the results
  float high;
};

using ConvTileRun = void (*)(const ConvTile& tile);

// Tiles of so many output channels (a part of a block, or whole blocks); by_rows[n - 1] is for n pixels.
struct ConvTileShape {
  int64_t channels;
  ConvTileRun by_rows[kMaxTileRows];
};

// The tiles of one instruction set; shapes ascend in channels.
struct ConvTiles {
  int rows;  // pixels of a full tile
  int shapes;
  const ConvTileShape* shape;
  void (*activate)(float* y, int64_t n, Activation activation);  // in place; tiles clamp by themselves

  // The shape for the next tile where so many channels are left.
  const ConvTileShape& shape_for(int64_t channels) const {
    // At most half of a second block: one block, then a tile of its own for the rest.
    if (channels > kOcBlock && channels <= kOcBlock + kOcBlock / 2) {
      channels = kOcBlock;
    }
    const ConvTileShape* found = shape;
    while (found != shape + shapes - 1 && found->channels < channels) {
      ++found;
    }
    return *found;
  }
};

KERNEL_VARIANTS(const ConvTiles& conv_tiles())

// Some pixels of a convolution with strides of 1, of f32 in blocks, and of some blocks of output channels.
void conv_2d_pixels(ggml_tensor* dst, const ConvolutionParams& params, Range pixels, Range blocks);

}  // namespace executorch_ggml::kernels
