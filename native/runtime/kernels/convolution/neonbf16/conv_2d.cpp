// The arithmetic of conv_2d on bf16: BFMMLA for two rows and more, BFDOT for one. Both add two products at a time to a
// sum of floats. CPUs without EBF16 round the sum of the two, and then the result, to odd instead of to nearest.
#include "kernels/convolution/conv_2d_tiles.h"
#include "kernels/convolution/neonbf16/bfloats.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

using BfloatTile = ConvTileOf<uint16_t>;
using Bfloats = bfloat16x8_t;

VEC_INLINE Float halves_of(Float low, Float high, int half) {
  const auto a = reinterpret_cast<float64x2_t>(low), b = reinterpret_cast<float64x2_t>(high);
  return reinterpret_cast<Float>(half == 0 ? vzip1q_f64(a, b) : vzip2q_f64(a, b));
}

// By dot products.
struct BfloatProducts : UnpackedWeights {
  using Element = uint16_t;
  static constexpr int kAdjacent = 2;
  static constexpr bool kByLane = true;
  static constexpr bool kPrefetches = false;

  template <class V>
  static VEC_INLINE V input(const uint16_t* from) {
    return reinterpret_cast<V>(Uint{} + load<uint32_t>(from));
  }

  static VEC_INLINE Float plus(Float sum, Float x, Float weights) {
    return reinterpret_cast<Float>(vbfdotq_f32(reinterpret_cast<float32x4_t>(sum), reinterpret_cast<Bfloats>(weights),
                                               reinterpret_cast<Bfloats>(x)));
  }

  template <int Lane>
  static VEC_INLINE Float plus_lane(Float sum, Float x, Float weights) {
    return reinterpret_cast<Float>(vbfdotq_laneq_f32(
        reinterpret_cast<float32x4_t>(sum), reinterpret_cast<Bfloats>(weights), reinterpret_cast<Bfloats>(x), Lane));
  }
};

// By products of 2 x 4 by 4 x 2: a vector has the sums of two pixels by two channels. Four inputs of two pixels are one
// operand; four weights of two channels, of two pairs of rows, are the other.
template <int Rows, int Vectors>
class MatrixTile {
 public:
  static VEC_INLINE void run(const BfloatTile& tile, int64_t channel) {
    Sums sums = {};
    const uint16_t* weights = tile.weights + channel / kOcBlock * tile.block_stride;
    for (int64_t tap = 0; tap < tile.taps; ++tap) {
      const uint16_t* input[kRowPairs * 2];
      VEC_UNROLL
      for (int m = 0; m < kRowPairs * 2; ++m) {
        input[m] = tile.inputs[tap * Rows + (m < Rows ? m : Rows - 1)] + tile.input_offset;
      }
      add_tap(sums, input, weights + tile.tap_weights[tap], tile.run, tile.block_stride);
    }
    Float of_rows[Rows][Vectors];
    VEC_UNROLL
    for (int m = 0; m < Rows; ++m) {
      VEC_UNROLL
      for (int v = 0; v < Vectors; ++v) {
        of_rows[m][v] = halves_of(sums[m / 2][2 * v], sums[m / 2][2 * v + 1], m % 2);
      }
    }
    Rowwise::add_bias(tile, channel, of_rows);
    Rowwise::finish(tile, channel, of_rows);
  }

 private:
  static constexpr int kRowPairs = (Rows + 1) / 2;
  static constexpr int64_t kDepth = 4;                   // inputs of a step
  static constexpr int64_t kPairWeights = 2 * kOcBlock;  // of a pair of rows
  static constexpr int kLoaded = Vectors < 2 ? 1 : 2;    // vectors of weights at a time
  using Sums = Float[kRowPairs][2 * Vectors];
  using Rowwise = Tile<BfloatProducts, Rows, kLanes, Vectors>;

  static VEC_INLINE void add_tap(Sums& sums, const uint16_t* const (&input)[kRowPairs * 2], const uint16_t* weights,
                                 int64_t run, int64_t block_stride) {
    int64_t k = 0;
    for (; k + kDepth <= run; k += kDepth, weights += 2 * kPairWeights) {
      Float x[kRowPairs];
      VEC_UNROLL
      for (int p = 0; p < kRowPairs; ++p)
        x[p] = two_rows(load<float32x2_t>(input[2 * p] + k), load<float32x2_t>(input[2 * p + 1] + k));
      VEC_UNROLL
      for (int v = 0; v < Vectors; v += kLoaded) {
        Float first[kLoaded], second[kLoaded];
        VEC_UNROLL
        for (int u = 0; u < kLoaded; ++u)
          first[u] = load<Float>(weights + Rowwise::weights_offset(v + u, block_stride));
        VEC_UNROLL
        for (int u = 0; u < kLoaded; ++u)
          second[u] = load<Float>(weights + kPairWeights + Rowwise::weights_offset(v + u, block_stride));
        VEC_UNROLL
        for (int u = 0; u < kLoaded; ++u) add_products(sums, x, v + u, first[u], second[u]);
      }
    }
    if (k == run) return;
    Float x[kRowPairs];  // the last pair, and zeros as inputs and as weights: zero times an infinite one would be NaN
    VEC_UNROLL
    for (int p = 0; p < kRowPairs; ++p) x[p] = two_rows(pair_of(input[2 * p] + k), pair_of(input[2 * p + 1] + k));
    VEC_UNROLL
    for (int v = 0; v < Vectors; ++v) {
      add_products(sums, x, v, load<Float>(weights + Rowwise::weights_offset(v, block_stride)), Float{});
    }
  }

  static VEC_INLINE Float two_rows(float32x2_t first, float32x2_t second) {
    return reinterpret_cast<Float>(vcombine_f32(first, second));
  }

  static VEC_INLINE float32x2_t pair_of(const uint16_t* from) { return float32x2_t{load<float>(from), 0.0f}; }

  // The products of a vector's four channels; `first` and `second` are pairs of rows of weights.
  static VEC_INLINE void add_products(Sums& sums, const Float (&x)[kRowPairs], int v, Float first, Float second) {
    const auto a = reinterpret_cast<float32x4_t>(first), b = reinterpret_cast<float32x4_t>(second);
    const float32x4_t low = vzip1q_f32(a, b), high = vzip2q_f32(a, b);
    VEC_UNROLL
    for (int p = 0; p < kRowPairs; ++p) sums[p][2 * v] = multiplied(sums[p][2 * v], x[p], low);
    VEC_UNROLL
    for (int p = 0; p < kRowPairs; ++p) sums[p][2 * v + 1] = multiplied(sums[p][2 * v + 1], x[p], high);
  }

  static VEC_INLINE Float multiplied(Float sum, Float x, float32x4_t weights) {
    return reinterpret_cast<Float>(vbfmmlaq_f32(reinterpret_cast<float32x4_t>(sum), reinterpret_cast<Bfloats>(x),
                                                reinterpret_cast<Bfloats>(weights)));
  }
};

template <int Rows, int Lanes, int Vectors>
struct BfloatTileOf : MatrixTile<Rows, Vectors> {};
template <int Lanes, int Vectors>
struct BfloatTileOf<1, Lanes, Vectors> : Tile<BfloatProducts, 1, Lanes, Vectors> {};

}  // namespace

const BfloatTiles& bfloat_tiles() {
  static constexpr BfloatTiles tiles = make_tiles<BfloatTileOf>();
  return tiles;
}

void round_to_bfloats(const float* x, int64_t n, uint16_t* y) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(y + i, rounded_bfloats(load<Float>(x + i)));
  if (i == n) return;
  const bfloat16x4_t last = rounded_bfloats(load_first(x + i, n - i));
  std::memcpy(y + i, &last, static_cast<size_t>(n - i) * sizeof(uint16_t));
}

void round_scaled_to_bfloats(const float* x, const float* factors, int64_t n, uint16_t* y) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(y + i, rounded_bfloats(load<Float>(x + i) * load<Float>(factors + i)));
  if (i == n) return;
  const bfloat16x4_t last = rounded_bfloats(load_first(x + i, n - i) * load_first(factors + i, n - i));
  std::memcpy(y + i, &last, static_cast<size_t>(n - i) * sizeof(uint16_t));
}

}  // namespace executorch_ggml::kernels::KERNEL_ISA
