// The transforms of Winograd's F(4x4, 3x3): each is applied to the columns of a tile and then to its rows, for a vector
// of channels at a time.
#include "kernels/convolution/winograd_input.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

// The products of A^T with six sums.
VEC_INLINE void transform_output(const Float (&m)[kWinogradIn], Float (&to)[kWinogradOut]) {
  const Float even_half = m[1] + m[2];
  const Float odd_half = m[1] - m[2];
  const Float even_two = m[3] + m[4];
  const Float odd_two = m[3] - m[4];
  to[0] = m[0] + even_half + even_two;
  to[1] = kSqrtHalf * odd_half + kSqrt2 * odd_two;
  to[2] = 0.5f * even_half + 2.0f * even_two;
  to[3] = 0.5f * kSqrtHalf * odd_half + 2.0f * kSqrt2 * odd_two + m[5];
}

// The products of G with three weights, in double: they are computed once, and all errors of the results follow.
VEC_INLINE void transform_kernel(const Double (&g)[3], Double (&to)[kWinogradIn]) {
  constexpr double kSqrt2 = 1.4142135623730950488;
  const Double even_half = (g[0] + 0.5 * g[2]) * (-2.0 / 3.0);
  const Double odd_half = g[1] * (-kSqrt2 / 3.0);
  const Double even_two = (g[0] + 2.0 * g[2]) * (1.0 / 6.0);
  const Double odd_two = g[1] * (kSqrt2 / 6.0);
  to[0] = g[0];
  to[1] = even_half + odd_half;
  to[2] = even_half - odd_half;
  to[3] = even_two + odd_two;
  to[4] = even_two - odd_two;
  to[5] = g[2];
}

void weights(const float* block, int64_t run, float* to, int64_t stride) {
  for (int64_t i = 0; i < run; i += kWideLanes) {
    Double rows[3][kWinogradIn];
    for (int ky = 0; ky < 3; ++ky) {
      Double taps[3];
      VEC_UNROLL
      for (int kx = 0; kx < 3; ++kx) {
        taps[kx] = __builtin_convertvector(load<HalfFloat>(block + (3 * ky + kx) * run + i), Double);
      }
      transform_kernel(taps, rows[ky]);
    }
    for (int x = 0; x < kWinogradIn; ++x) {
      Double points[kWinogradIn];
      transform_kernel({rows[0][x], rows[1][x], rows[2][x]}, points);
      VEC_UNROLL
      for (int y = 0; y < kWinogradIn; ++y) {
        store(to + (y * kWinogradIn + x) * stride + i, __builtin_convertvector(points[y], HalfFloat));
      }
    }
  }
}

struct Plain {
  static VEC_INLINE Float of(Float x) { return x; }
};

// NaN in the lanes that have a number that is not finite, else zeros.
template <class Lanes>
VEC_INLINE Float output_vector(const WinogradOutput& tile, int64_t channel, const Lanes& lanes) {
  Float columns[kWinogradIn][kWinogradOut];
  for (int x = 0; x < kWinogradIn; ++x) {
    Float m[kWinogradIn];
    VEC_UNROLL
    for (int y = 0; y < kWinogradIn; ++y) m[y] = load<Float>(tile.from + (y * kWinogradIn + x) * tile.stride + channel);
    transform_output(m, columns[x]);
  }
  const Float bias = tile.bias == nullptr ? Float{} : lanes.load(tile.bias + channel);
  Float not_finite = {};
  for (int y = 0; y < kWinogradOut; ++y) {
    Float row[kWinogradIn];
    Float results[kWinogradOut];
    VEC_UNROLL
    for (int x = 0; x < kWinogradIn; ++x) row[x] = columns[x][y];
    transform_output(row, results);
    VEC_UNROLL
    for (int x = 0; x < kWinogradOut; ++x) {
      not_finite += results[x] * 0.0f;
      float* to = tile.pixels[y * kWinogradOut + x];
      if (to == nullptr) continue;
      Float result = results[x] + bias;
      if (tile.addend != nullptr) result += lanes.load(tile.addend + (to - tile.output_begin) + channel);
      lanes.store(to + channel, clamped(result, splat(tile.low), splat(tile.high)));
    }
  }
  return not_finite;
}

bool output(const WinogradOutput& tile) {
  Float not_finite = {};
  int64_t channel = 0;
  for (; channel + kLanes <= tile.channels; channel += kLanes) not_finite += output_vector(tile, channel, AllLanes());
  if (channel < tile.channels) not_finite += output_vector(tile, channel, FirstLanes{tile.channels - channel});
  bool finite = true;
  for (int i = 0; i < kLanes; ++i) finite = finite && not_finite[i] == 0.0f;
  return finite;
}

}  // namespace

const WinogradTransforms& winograd_transforms() {
  static constexpr WinogradTransforms transforms = {weights, transform_inputs<Plain>, output};
  return transforms;
}

}  // namespace executorch_ggml::kernels::KERNEL_ISA
