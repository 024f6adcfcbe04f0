// The arithmetic of Winograd's F(2x2, 3x3) and F(4x4, 3x3) in integers: each transform is applied to the columns of a
// tile and then to its rows, for a vector of channels at a time.
#include "kernels/quantized/winograd.h"

#include <utility>

#include "kernels/quantized/tile.h"
#include "kernels/quantized/word_inputs.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

constexpr int kWords = kLanesOf<Words>;

template <int Out>
struct Transforms;

template <>
struct Transforms<2> : IntegerTile<2> {
  static constexpr int kInputSum = 4;  // of the coefficients at point (1, 1), the only one where it is not 0

  // The products of B^T with four inputs.
  static VEC_INLINE void input(const Words (&d)[kIn], Words (&to)[kIn]) {
    to[0] = d[0] - d[2];
    to[1] = d[1] + d[2];
    to[2] = d[2] - d[1];
    to[3] = d[1] - d[3];
  }

  // The products of 2 G with three weights: those of both axes make four times the sums.
  static VEC_INLINE void weights(const Words (&g)[3], Words (&to)[kIn]) {
    const Words outer = g[0] + g[2];
    to[0] = 2 * g[0];
    to[1] = outer + g[1];
    to[2] = outer - g[1];
    to[3] = 2 * g[2];
  }

  // The products of A^T with four sums, which wrap.
  static VEC_INLINE void output(const Uint (&m)[kIn], Uint (&to)[2]) {
    to[0] = m[0] + m[1] + m[2];
    to[1] = m[1] - m[2] - m[3];
  }

  static VEC_INLINE Int result(Uint sum) { return reinterpret_cast<Int>(sum) >> 2; }
};

template <>
struct Transforms<4> : IntegerTile<4> {
  static constexpr int kInputSum = 36;

  // The products of B^T with six inputs of at most 255: those of both axes are at most 25500.
  static VEC_INLINE void input(const Words (&d)[kIn], Words (&to)[kIn]) {
    const Words even = d[4] - 4 * d[2];
    const Words odd = d[3] - 4 * d[1];
    const Words outer = d[4] - d[2];
    const Words inner = 2 * (d[3] - d[1]);
    to[0] = 4 * (d[0] - d[2]) + outer;
    to[1] = even + odd;
    to[2] = even - odd;
    to[3] = outer + inner;
    to[4] = outer - inner;
    to[5] = d[5] - d[3] - 2 * inner;
  }

  // The products of G with three weights, its rows times 4, -6, -6, 24, 24 and 1.
  static VEC_INLINE void weights(const Words (&g)[3], Words (&to)[kIn]) {
    const Words outer = g[0] + g[2];
    const Words outer_twos = g[0] + 4 * g[2];
    const Words inner_twos = 2 * g[1];
    to[0] = g[0];
    to[1] = outer + g[1];
    to[2] = outer - g[1];
    to[3] = outer_twos + inner_twos;
    to[4] = outer_twos - inner_twos;
    to[5] = g[2];
  }

  // 24 times the products of A^T with six sums, of such weights.
  static VEC_INLINE void output(const Uint (&m)[kIn], Uint (&to)[4]) {
    const Uint even = m[1] + m[2];
    const Uint odd = m[1] - m[2];
    const Uint even_twos = m[3] + m[4];
    const Uint odd_twos = m[3] - m[4];
    to[0] = 6 * m[0] - 4 * even + even_twos;
    to[1] = 2 * odd_twos - 4 * odd;
    to[2] = 4 * (even_twos - even);
    to[3] = 8 * odd_twos - 4 * odd + 24 * m[5];
  }

  // A sum by 576: by the inverse of 9 modulo 2^32, and by 64.
  static VEC_INLINE Int result(Uint sum) {
    static_assert(9 * 0x38e38e39u == 1);
    return reinterpret_cast<Int>(sum * 0x38e38e39u) >> 6;
  }
};

template <class Byte>
VEC_INLINE Words load_words(const char* from, int64_t left) {
  using Bytes = Vec<Byte, kWords>;
  Bytes bytes = {};
  if (left >= kWords) {
    bytes = load<Bytes>(from);
  } else {
    std::memcpy(&bytes, from, static_cast<size_t>(left));
  }
  return __builtin_convertvector(bytes, Words);
}

template <int Out, class Byte>
VEC_INLINE void input_vector(const IntegerTileInput& tile, int64_t channel, int64_t left) {
  using Transform = Transforms<Out>;
  constexpr int kIn = Transform::kIn;
  Words columns[kIn][kIn];  // by column
  VEC_UNROLL
  for (int x = 0; x < kIn; ++x) {
    Words d[kIn];
    VEC_UNROLL
    for (int y = 0; y < kIn; ++y) d[y] = load_words<Byte>(tile.pixels[y * kIn + x] + channel, left);
    Transform::input(d, columns[x]);
  }
  int16_t* to = tile.to + channel;
  VEC_UNROLL
  for (int y = 0; y < kIn; ++y) {
    Words row[kIn];
    Words points[kIn];
    VEC_UNROLL
    for (int x = 0; x < kIn; ++x) row[x] = columns[x][y];
    Transform::input(row, points);
    // The zero point cancels in differences of inputs.
    if (y == 1) points[1] -= static_cast<int16_t>(Transform::kInputSum * tile.zero);
    VEC_UNROLL
    for (int x = 0; x < kIn; ++x) store(to + (y * kIn + x) * tile.stride, points[x]);
  }
}

template <int Out, class Byte>
void input_of(const IntegerTileInput& tile) {
  int64_t channel = 0;
  for (; channel + kWords <= tile.channels; channel += kWords) input_vector<Out, Byte>(tile, channel, kWords);
  if (channel < tile.channels) input_vector<Out, Byte>(tile, channel, tile.channels - channel);
}

template <int Out>
void input(const IntegerTileInput& tile) {
  if (tile.is_signed) return input_of<Out, int8_t>(tile);
  input_of<Out, uint8_t>(tile);
}

// Some quads of inputs.
struct QuadRun {
  int64_t first;
  int64_t size;
};

constexpr int kQuadVectors = kQuadBytes / kWords;

using Quads = Uint[kBlockVectors];  // of a block: four weights in each lane

// The weights of a tap, for the inputs of a quad; none for those past the last one.
VEC_INLINE void load_quads(const IntegerTileBlock& block, int tap, int64_t quad, Quads& to) {
  const int64_t input = tap * block.in_channels + quad * kQuad;
  const int8_t* from = block.weights + input / kQuad * kQuadBytes;
  const auto shift = static_cast<uint32_t>(input % kQuad * 8);
  const int64_t left = block.in_channels - quad * kQuad;
  const uint32_t mask = left < kQuad ? (1u << left * 8) - 1 : UINT32_MAX;
  VEC_UNROLL
  for (int v = 0; v < kBlockVectors; ++v) {
    to[v] = load<Uint>(from + v * kVectorBytes);
    if (shift != 0) to[v] = to[v] >> shift | load<Uint>(from + kQuadBytes + v * kVectorBytes) << (32 - shift);
    to[v] &= mask;
  }
}

#if defined(__aarch64__)
// As they are multiplied: input by input.
VEC_INLINE void spread_quads(const Quads& quads, Words (&to)[kQuadVectors]) {
  VEC_UNROLL
  for (int k = 0; k < kQuad; ++k) {
    VEC_UNROLL
    for (int half = 0; half < 2; ++half) {
      const auto input = [&](Uint x) { return vreinterpretq_s16_u32(x >> (8 * k)); };
      const int16x8_t bytes = vuzp1q_s16(input(quads[2 * half]), input(quads[2 * half + 1]));
      to[2 * k + half] = reinterpret_cast<Words>(vshrq_n_s16(vshlq_n_s16(bytes, 8), 8));
    }
  }
}
#else
// As they are multiplied: two inputs of each channel, and then the other two.
VEC_INLINE void spread_quads(const Quads& quads, Words (&to)[kQuadVectors]) {
  VEC_UNROLL
  for (int v = 0; v < kBlockVectors; ++v) {
    const Words bytes = reinterpret_cast<Words>(quads[v]);
    const Uint even = reinterpret_cast<Uint>(bytes << 8 >> 8);
    const Uint odd = reinterpret_cast<Uint>(bytes >> 8);
    to[v] = reinterpret_cast<Words>((even & 0xffffu) | odd << 16);
    to[kBlockVectors + v] = reinterpret_cast<Words>(even >> 16 | (odd & 0xffff0000u));
  }
}
#endif

template <int Out>
void transform_weights(const IntegerTileBlock& block, QuadRun quads) {
  using Transform = Transforms<Out>;
  constexpr int kIn = Transform::kIn;
  int16_t* to = block.transformed;
  for (int64_t quad = quads.first; quad < quads.first + quads.size; ++quad, to += kQuadBytes) {
    Words taps[9][kQuadVectors];
    VEC_UNROLL
    for (int tap = 0; tap < 9; ++tap) {
      Quads of_tap;
      load_quads(block, tap, quad, of_tap);
      spread_quads(of_tap, taps[tap]);
    }
    for (int v = 0; v < kQuadVectors; ++v) {
      Words rows[3][kIn];
      VEC_UNROLL
      for (int y = 0; y < 3; ++y) Transform::weights({taps[3 * y][v], taps[3 * y + 1][v], taps[3 * y + 2][v]}, rows[y]);
      VEC_UNROLL
      for (int x = 0; x < kIn; ++x) {
        Words points[kIn];
        Transform::weights({rows[0][x], rows[1][x], rows[2][x]}, points);
        VEC_UNROLL
        for (int y = 0; y < kIn; ++y) store(to + (y * kIn + x) * kTransformedWords + v * kWords, points[y]);
      }
    }
  }
}

#if defined(__aarch64__)
constexpr int kRows = 4;  // 4 x 4 sums, beside the weights of an input
#else
// As many as the registers hold sums of, beside a block's weights and an input.
constexpr int kMostRows = 12;
constexpr int kHeldRows = (kVectorRegisters - kBlockVectors - 2) / kBlockVectors;
constexpr int kRows = kHeldRows < kMostRows ? kHeldRows : kMostRows;
#endif

// Rows of transformed inputs by a block of weights at one point.
struct PointProduct {
  const int16_t* inputs;
  int64_t pitch;
  const int16_t* weights;
  int64_t quads;
  bool adds;  // to the sums
};

template <int Rows, class Sum>
VEC_INLINE void load_sums(const PointProduct& product, const int32_t* from, Sum (&sums)[Rows][kBlockVectors]) {
  VEC_UNROLL
  for (int r = 0; r < Rows; ++r) {
    VEC_UNROLL
    for (int v = 0; v < kBlockVectors; ++v) {
      sums[r][v] = product.adds ? load<Sum>(from + r * kQuantizedBlock + v * kLanes) : Sum{};
    }
  }
}

#if defined(__aarch64__)
template <int Rows>
void multiply(const PointProduct& product, int32_t* to) {
  int32x4_t sums[Rows][kBlockVectors];
  load_sums(product, to, sums);
  const int16_t* weights = product.weights;
  for (int64_t q = 0; q < product.quads; ++q, weights += kQuadBytes) {
    int16x4_t x[Rows];
    VEC_UNROLL
    for (int r = 0; r < Rows; ++r) x[r] = load<int16x4_t>(product.inputs + r * product.pitch + q * kQuad);
    const auto of_quad = [&](int k, int half) {
      return load<int16x8_t>(weights + k * kQuantizedBlock + half * kWords);
    };
    add_lane_products<0>(x, of_quad(0, 0), of_quad(0, 1), sums);
    add_lane_products<1>(x, of_quad(1, 0), of_quad(1, 1), sums);
    add_lane_products<2>(x, of_quad(2, 0), of_quad(2, 1), sums);
    add_lane_products<3>(x, of_quad(3, 0), of_quad(3, 1), sums);
  }
  VEC_UNROLL
  for (int r = 0; r < Rows; ++r) {
    VEC_UNROLL
    for (int v = 0; v < kBlockVectors; ++v) store(to + r * kQuantizedBlock + v * kLanes, sums[r][v]);
  }
}
#else
template <int Rows>
void multiply(const PointProduct& product, int32_t* to) {
  Int sums[Rows][kBlockVectors];
  load_sums(product, to, sums);
  const int16_t* weights = product.weights;
  const int16_t* inputs = product.inputs;
  for (int64_t pair = 0; pair < 2 * product.quads; ++pair, inputs += 2, weights += 2 * kQuantizedBlock) {
    Words w[kBlockVectors];
    VEC_UNROLL
    for (int v = 0; v < kBlockVectors; ++v) w[v] = load<Words>(weights + v * kWords);
    VEC_UNROLL
    for (int r = 0; r < Rows; ++r) {
      const Words x = in_order(splat_pair(inputs + r * product.pitch));
      VEC_UNROLL
      for (int v = 0; v < kBlockVectors; ++v) add_in_order(&sums[r][v], pair_products(x, w[v]));
    }
  }
  VEC_UNROLL
  for (int r = 0; r < Rows; ++r) {
    VEC_UNROLL
    for (int v = 0; v < kBlockVectors; ++v) store(to + r * kQuantizedBlock + v * kLanes, sums[r][v]);
  }
}
#endif

struct MultiplyTable {
  decltype(&multiply<1>) by_rows[kRows];
};

template <int... Number>
constexpr MultiplyTable multiply_table(std::integer_sequence<int, Number...>) {
  return {{multiply<Number + 1>...}};
}

constexpr MultiplyTable kMultiply = multiply_table(std::make_integer_sequence<int, kRows>());

// The sums of a tile's output pixels, row by row.
template <int Out>
VEC_INLINE void sum_outputs(const int32_t* sums, int64_t stride, Int (&to)[Out * Out][kBlockVectors]) {
  using Transform = Transforms<Out>;
  constexpr int kIn = Transform::kIn;
  VEC_UNROLL
  for (int v = 0; v < kBlockVectors; ++v) {
    Uint columns[kIn][Out];
    VEC_UNROLL
    for (int x = 0; x < kIn; ++x) {
      Uint m[kIn];
      VEC_UNROLL
      for (int y = 0; y < kIn; ++y) m[y] = load<Uint>(sums + (y * kIn + x) * stride + v * kLanes);
      Transform::output(m, columns[x]);
    }
    VEC_UNROLL
    for (int y = 0; y < Out; ++y) {
      Uint row[kIn];
      Uint results[Out];
      VEC_UNROLL
      for (int x = 0; x < kIn; ++x) row[x] = columns[x][y];
      Transform::output(row, results);
      VEC_UNROLL
      for (int x = 0; x < Out; ++x) to[y * Out + x][v] = Transform::result(results[x]);
    }
  }
}

template <int Out>
void transform_back(const IntegerTileBlock& block) {
  const TileOutput output(*block.format);
  const BlockScaling scaled(block.scale, block.bias, block.channels);
  const int64_t stride = block.tiles * kQuantizedBlock;
  for (int64_t tile = 0; tile < block.tiles; ++tile) {
    Int sums[Out * Out][kBlockVectors];
    sum_outputs<Out>(block.sums + tile * kQuantizedBlock, stride, sums);
    char* const* pixels = block.pixels + tile * Out * Out;
    VEC_UNROLL
    for (int pair = 0; pair < Out * Out; pair += 2) {
      char* const* line = pixels + pair;
      if (line[0] == nullptr) continue;
      const PixelBlock both[2] = {scaled(sums[pair]), scaled(sums[pair + 1])};
      if (line[1] != nullptr) {
        output.write(both, line[0] + block.offset, block.pixel_bytes, block.channels);
      } else {
        const PixelBlock first[1] = {both[0]};
        output.write(first, line[0] + block.offset, block.pixel_bytes, block.channels);
      }
    }
  }
}

template <int Out>
void multiply_points(const IntegerTileBlock& block, QuadRun quads) {
  const int64_t stride = block.tiles * kQuantizedBlock;
  for (int64_t point = 0; point < IntegerTile<Out>::kPoints; ++point) {
    const int16_t* inputs = block.inputs + point * block.input_stride + quads.first * kQuad;
    for (int64_t tile = 0; tile < block.tiles; tile += kRows) {
      const int64_t left = block.tiles - tile;
      const int64_t rows = left < kRows ? left : kRows;
      const PointProduct product = {inputs + tile * block.input_pitch, block.input_pitch,
                                    block.transformed + point * kTransformedWords, quads.size, quads.first > 0};
      kMultiply.by_rows[rows - 1](product, block.sums + point * stride + tile * kQuantizedBlock);
    }
  }
}

template <int Out>
void run_block(const IntegerTileBlock& block) {
  const int64_t quads = (block.in_channels + kQuad - 1) / kQuad;
  for (int64_t first = 0; first < quads; first += kQuadsAtOnce) {
    const QuadRun run = {first, quads - first < kQuadsAtOnce ? quads - first : kQuadsAtOnce};
    transform_weights<Out>(block, run);
    multiply_points<Out>(block, run);
  }
  transform_back<Out>(block);
}

}  // namespace

const IntegerWinograd& integer_winograd() {
  static constexpr IntegerWinograd arithmetic = {kRows, {input<2>, run_block<2>}, {input<4>, run_block<4>}};
  return arithmetic;
}

}  // namespace executorch_ggml::kernels::KERNEL_ISA
