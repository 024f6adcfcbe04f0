// Winograd's F(4x4, 3x3) for convolutions of 3x3 with stride 1 (Lavin & Gray, "Fast Algorithms for Convolutional Neural
// Networks", 2015): tiles of 4x4 output pixels take 36 multiplications a pair of channels, not 144. Planned in
// winograd.cpp, compiled once; the transforms are in winograd_isa.cpp, compiled per instruction set.
//
// The points are 0, +-sqrt(1/2), +-sqrt(2) and infinity: with them an error is about twice the direct sum's, where the
// usual 0, +-1, +-2 make it ten times that. It is bounded by the largest input of a tile's 6x6 pixels, not by those
// under one window. What is not finite would spread in a tile: such tiles are computed directly.
#pragma once

#include <array>
#include <cstdint>

#include "ggml.h"
#include "kernels/convolution/convolution.h"
#include "kernels/simd/isa.h"

namespace executorch_ggml::kernels {

constexpr int kWinogradOut = 4;  // output pixels of a tile, along an axis
constexpr int kWinogradIn = 6;   // input pixels of a tile, along an axis
constexpr int kWinogradPoints = kWinogradIn * kWinogradIn;

// The input of one tile.
struct WinogradInput {
  const float* pixels[kWinogradPoints];  // row by row
  int64_t channels;
  float* to;       // of the first point; whole vectors are written
  int64_t stride;  // floats from a point to the next
};

// The results of one tile.
struct WinogradOutput {
  const float* from;  // of the first point
  int64_t stride;     // floats from a point to the next
  const float* bias;  // or nullptr
  int64_t channels;
  float low;  // bounds of the results
  float high;
  float* pixels[kWinogradOut * kWinogradOut];  // row by row; nullptr where the tile exceeds the image
  const float* addend;                         // added before the bounds, an element for each of the image; or nullptr
  const float* output_begin;                   // of the image
};

struct WinogradTransforms {
  // A block of weights, `run` floats for each of 9 taps, to as many at each point, `stride` floats apart.
  void (*weights)(const float* block, int64_t run, float* to, int64_t stride);
  void (*input)(const WinogradInput& tile);
  bool (*output)(const WinogradOutput& tile);  // whether all results are finite
};

KERNEL_VARIANTS(const WinogradTransforms& winograd_transforms())

// The transform of an input that is rounded to bf16 first; numbers under 1.2e-38 become zeros.
KERNEL_VARIANT(neonbf16, void transform_rounded(const WinogradInput& tile))
KERNEL_VARIANT(avx512bf16, void transform_rounded(const WinogradInput& tile))

struct WinogradParams {
  ConvolutionParams convolution;
  const float* weights;  // transformed, in the blocks of each point
  bool rounds = false;   // the input to bf16: where conv_2d_bfloats can compute the layer too
};

// Whether a convolution with a result of these dims can be computed so, and is faster then than by products of floats,
// or of bf16 two at a time.
bool is_winograd(const std::array<int64_t, 4>& out, const ggml_tensor* weight, const ConvolutionParams& params,
                 bool of_bfloats);

// A weight in blocks, transformed: what winograd_conv_2d() multiplies with.
int64_t winograd_floats(const ggml_tensor* weight);
void transform_weights(const ggml_tensor* weight, float* to);

void winograd_conv_2d(ggml_tensor* dst, int ith, int nth, void* call);

}  // namespace executorch_ggml::kernels
