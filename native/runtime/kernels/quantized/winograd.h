// Winograd's F(2x2, 3x3) for int8 convolutions of 3x3 with stride 1 (Lavin & Gray, "Fast Algorithms for Convolutional
// Neural Networks", 2015), in integers: tiles of 2x2 output pixels take 16 multiplications a pair of channels, not 36.
// Nothing is rounded, so the sums are those of the direct convolution. Planned in winograd.cpp, compiled once; the
// arithmetic is in winograd_isa.cpp, compiled per instruction set.
//
// It multiplies int16, which pays where the direct convolution has to as well: without dot products of bytes.
#pragma once

#include <array>
#include <cstdint>

#include "ggml.h"
#include "kernels/quantized/layer.h"

namespace executorch_ggml::kernels {

constexpr int kIntegerTileOut = 2;  // output pixels of a tile, along an axis
constexpr int kIntegerTileIn = 4;   // input pixels of a tile, along an axis
constexpr int kIntegerPoints = kIntegerTileIn * kIntegerTileIn;
constexpr int kIntegerOutputs = kIntegerTileOut * kIntegerTileOut;

// Transformed inputs of a tile at a point are padded to whole vectors of int16, their weights to quads.
constexpr int64_t kPaddedWords = 32;

// The input of one tile.
struct IntegerTileInput {
  const char* pixels[kIntegerPoints];  // row by row
  int64_t channels;
  int32_t zero;
  bool is_signed;
  int16_t* to;     // of the first point; whole vectors are written
  int64_t stride;  // words from a point to the next
};

// Some tiles by a block of output channels.
struct IntegerTileBlock {
  const int16_t* inputs;  // transformed, of the first tile at the first point
  int64_t input_pitch;    // words from a tile to the next
  int64_t input_stride;   // words from a point to the next
  int64_t tiles;
  int64_t quads;           // of inputs
  const int16_t* weights;  // transformed, of the first point
  int64_t weight_stride;   // words from a point to the next
  int32_t* sums;           // scratch: kQuantizedBlock for each tile at each point
  const float* scale;      // of the block's first channel
  const float* bias;       // or nullptr
  int64_t channels;        // to store
  const ResultFormat* format;
  char* const* pixels;  // where each tile's output pixels begin, row by row; nullptr for those past the image
  int64_t pixel_bytes;  // from a pixel to the next
  int64_t offset;       // bytes from there to the block's first channel
};

struct IntegerWinograd {
  int rows;  // tiles that are multiplied at a time
  void (*input)(const IntegerTileInput& tile);
  void (*block)(const IntegerTileBlock& block);
};

KERNEL_VARIANTS(const IntegerWinograd& integer_winograd())

struct IntegerWinogradParams {
  QuantizedLayerParams layer;
  const int16_t* weights;  // transformed, block by block, in the points of each
};

// Whether a convolution with a result of these dims can be computed so on this CPU, and is faster then.
bool is_integer_winograd(const std::array<int64_t, 4>& out, const ggml_tensor* weight,
                         const QuantizedLayerParams& params);

// A weight in blocks, transformed: what integer_winograd_conv_2d() multiplies with.
int64_t integer_winograd_words(const ggml_tensor* weight);
void transform_integer_weights(const ggml_tensor* weight, int16_t* to);

void integer_winograd_conv_2d(ggml_tensor* dst, int ith, int nth, void* call);

}  // namespace executorch_ggml::kernels
