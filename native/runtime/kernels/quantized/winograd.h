// Winograd's F(2x2, 3x3) and F(4x4, 3x3) for int8 convolutions of 3x3 with stride 1 (Lavin & Gray, "Fast Algorithms for
// Convolutional Neural Networks", 2015), in integers: tiles of 2x2 output pixels take 16 multiplications a pair of
// channels, not 36, and tiles of 4x4 take 36, not 144. Nothing is rounded, so the sums are those of the direct
// convolution. Planned in winograd.cpp, compiled once; the arithmetic is in winograd_isa.cpp, compiled per instruction
// set.
//
// The rows of G are scaled to integers. F(2x2, 3x3) then computes 4 times each output, in int32 without overflow;
// F(4x4, 3x3) computes 576 times each, modulo 2^32: 9 is invertible there, and a shift divides by 64, so outputs of up
// to 26 bits are exact. Layers whose weights could exceed that use F(2x2, 3x3).
//
// Weights are transformed in each call: that costs as much as two or three tiles' products, and less than to read them
// from memory, where they would take 3.6 to 8 times the bytes.
//
// It multiplies int16, which pays where the direct convolution has to as well: without dot products of bytes.
#pragma once

#include <array>
#include <cstdint>

#include "ggml.h"
#include "kernels/quantized/layer.h"

namespace executorch_ggml::kernels {

// Tiles of Out x Out output pixels.
template <int Out>
struct IntegerTile {
  static constexpr int kIn = Out + 2;  // input pixels, along an axis
  static constexpr int kPoints = kIn * kIn;
  static constexpr int kOutputs = Out * Out;
};

constexpr int kMostIntegerPoints = IntegerTile<4>::kPoints;

// Transformed inputs of a tile at a point are padded to whole vectors of int16.
constexpr int64_t kPaddedWords = 32;

constexpr int64_t kQuadsAtOnce = 32;  // of inputs whose weights are transformed and multiplied

// From a point's transformed weights to the next one's: points that are a power of 2 apart would share a few sets of
// L1.
constexpr int64_t kTransformedWords = kQuadsAtOnce * kQuadBytes + 32;

// The input of one tile.
struct IntegerTileInput {
  const char* pixels[kMostIntegerPoints];  // row by row
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
  int64_t in_channels;
  const int8_t* weights;  // as programs store them
  int16_t* transformed;   // scratch: kTransformedWords for each point
  int32_t* sums;          // scratch: kQuantizedBlock for each tile at each point
  const float* scale;     // of the block's first channel
  const float* bias;      // or nullptr
  int64_t channels;       // to store
  const ResultFormat* format;
  char* const* pixels;  // where each tile's output pixels begin, row by row; nullptr for those past the image
  int64_t pixel_bytes;  // from a pixel to the next
  int64_t offset;       // bytes from there to the block's first channel
};

struct IntegerTileArithmetic {
  void (*input)(const IntegerTileInput& tile);
  void (*block)(const IntegerTileBlock& block);
};

struct IntegerWinograd {
  int rows;  // tiles that are multiplied at a time
  IntegerTileArithmetic by_twos;
  IntegerTileArithmetic by_fours;
};

KERNEL_VARIANTS(const IntegerWinograd& integer_winograd())

struct IntegerWinogradParams {
  QuantizedLayerParams layer;
  int64_t side;  // output pixels of a tile, along an axis: 2 or 4
};

// The side of the tiles that compute a convolution with a result of these dims; 0 where it can't be computed so on this
// CPU, or the direct one is faster.
int64_t integer_winograd_side(const std::array<int64_t, 4>& out, const ggml_tensor* weight,
                              const QuantizedLayerParams& params);

// Whether no input of bytes with this zero point makes a result too large for tiles of 4x4.
bool fits_tiles_of_four(const ggml_tensor* weight, int64_t zero);

void integer_winograd_conv_2d(ggml_tensor* dst, int ith, int nth, void* call);

}  // namespace executorch_ggml::kernels
