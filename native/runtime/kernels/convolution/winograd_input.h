// The transform of Winograd's inputs. For *_isa.cpp files and folders of instruction sets only.
#pragma once

#include "kernels/convolution/winograd.h"
#include "kernels/simd/vec.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

constexpr float kSqrt2 = 1.41421356f;
constexpr float kSqrtHalf = kSqrt2 / 2;

// The products of B^T with six inputs.
VEC_INLINE void transform_input(const Float (&d)[kWinogradIn], Float (&to)[kWinogradIn]) {
  const Float even_half = d[4] - 2.0f * d[2];
  const Float odd_half = kSqrtHalf * d[3] - kSqrt2 * d[1];
  const Float even_two = d[4] - 0.5f * d[2];
  const Float odd_two = kSqrt2 * d[3] - kSqrtHalf * d[1];
  to[0] = d[0] - 2.5f * d[2] + d[4];
  to[1] = even_half + odd_half;
  to[2] = even_half - odd_half;
  to[3] = even_two + odd_two;
  to[4] = even_two - odd_two;
  to[5] = d[1] - 2.5f * d[3] + d[5];
}

template <class Inputs, class Lanes>
VEC_INLINE void input_vector(const WinogradInput& tile, int64_t channel, const Lanes& lanes) {
  Float columns[kWinogradIn][kWinogradIn];  // by column
  for (int x = 0; x < kWinogradIn; ++x) {
    Float d[kWinogradIn];
    VEC_UNROLL
    for (int y = 0; y < kWinogradIn; ++y) d[y] = Inputs::of(lanes.load(tile.pixels[y * kWinogradIn + x] + channel));
    transform_input(d, columns[x]);
  }
  float* to = tile.to + channel;
  for (int y = 0; y < kWinogradIn; ++y) {
    Float row[kWinogradIn];
    Float points[kWinogradIn];
    VEC_UNROLL
    for (int x = 0; x < kWinogradIn; ++x) row[x] = columns[x][y];
    transform_input(row, points);
    VEC_UNROLL
    for (int x = 0; x < kWinogradIn; ++x) store(to + (y * kWinogradIn + x) * tile.stride, points[x]);
  }
}

// B^T d B of a tile d of inputs. Inputs::of(x) rounds a loaded vector to bf16, or leaves it as it is.
template <class Inputs>
void transform_inputs(const WinogradInput& tile) {
  int64_t channel = 0;
  for (; channel + kLanes <= tile.channels; channel += kLanes) input_vector<Inputs>(tile, channel, AllLanes());
  if (channel < tile.channels) input_vector<Inputs>(tile, channel, FirstLanes{tile.channels - channel});
}

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
