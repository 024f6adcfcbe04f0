// The arithmetic of Winograd's F(2x2, 3x3) in integers: each transform is applied to the columns of a tile and then to
// its rows, for a vector of channels at a time.
#include "kernels/quantized/winograd.h"

#include <utility>

#include "kernels/quantized/tile.h"
#include "kernels/quantized/word_inputs.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

constexpr int kWords = kLanesOf<Words>;

// The products of B^T with four inputs.
VEC_INLINE void transform_input(const Words (&d)[kIntegerTileIn], Words (&to)[kIntegerTileIn]) {
  to[0] = d[0] - d[2];
  to[1] = d[1] + d[2];
  to[2] = d[2] - d[1];
  to[3] = d[1] - d[3];
}

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

template <class Byte>
VEC_INLINE void input_vector(const IntegerTileInput& tile, int64_t channel, int64_t left) {
  Words columns[kIntegerTileIn][kIntegerTileIn];  // by column
  VEC_UNROLL
  for (int x = 0; x < kIntegerTileIn; ++x) {
    Words d[kIntegerTileIn];
    VEC_UNROLL
    for (int y = 0; y < kIntegerTileIn; ++y) {
      d[y] = load_words<Byte>(tile.pixels[y * kIntegerTileIn + x] + channel, left);
    }
    transform_input(d, columns[x]);
  }
  int16_t* to = tile.to + channel;
  VEC_UNROLL
  for (int y = 0; y < kIntegerTileIn; ++y) {
    Words row[kIntegerTileIn];
    Words points[kIntegerTileIn];
    VEC_UNROLL
    for (int x = 0; x < kIntegerTileIn; ++x) row[x] = columns[x][y];
    transform_input(row, points);
    // The zero point cancels in differences: but one point is the sum of four inputs.
    if (y == 1) points[1] -= static_cast<int16_t>(4 * tile.zero);
    VEC_UNROLL
    for (int x = 0; x < kIntegerTileIn; ++x) store(to + (y * kIntegerTileIn + x) * tile.stride, points[x]);
  }
}

template <class Byte>
void input_of(const IntegerTileInput& tile) {
  int64_t channel = 0;
  for (; channel + kWords <= tile.channels; channel += kWords) input_vector<Byte>(tile, channel, kWords);
  if (channel < tile.channels) input_vector<Byte>(tile, channel, tile.channels - channel);
}

void input(const IntegerTileInput& tile) {
  if (tile.is_signed) return input_of<int8_t>(tile);
  input_of<uint8_t>(tile);
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
};

#if defined(__aarch64__)
template <int Rows>
void multiply(const PointProduct& product, int32_t* to) {
  int32x4_t sums[Rows][kBlockVectors] = {};
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
  Int sums[Rows][kBlockVectors] = {};
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

// The products of A^T with four sums, which wrap: the results fit.
VEC_INLINE void transform_output(const Uint (&m)[kIntegerTileIn], Uint (&to)[kIntegerTileOut]) {
  to[0] = m[0] + m[1] + m[2];
  to[1] = m[1] - m[2] - m[3];
}

// The sums of a tile's output pixels, row by row.
VEC_INLINE void sum_outputs(const int32_t* sums, int64_t stride, Int (&to)[kIntegerOutputs][kBlockVectors]) {
  VEC_UNROLL
  for (int v = 0; v < kBlockVectors; ++v) {
    Uint columns[kIntegerTileIn][kIntegerTileOut];
    VEC_UNROLL
    for (int x = 0; x < kIntegerTileIn; ++x) {
      Uint m[kIntegerTileIn];
      VEC_UNROLL
      for (int y = 0; y < kIntegerTileIn; ++y) {
        m[y] = load<Uint>(sums + (y * kIntegerTileIn + x) * stride + v * kLanes);
      }
      transform_output(m, columns[x]);
    }
    VEC_UNROLL
    for (int y = 0; y < kIntegerTileOut; ++y) {
      Uint row[kIntegerTileIn];
      Uint results[kIntegerTileOut];
      VEC_UNROLL
      for (int x = 0; x < kIntegerTileIn; ++x) row[x] = columns[x][y];
      transform_output(row, results);
      VEC_UNROLL
      for (int x = 0; x < kIntegerTileOut; ++x) {
        to[y * kIntegerTileOut + x][v] = reinterpret_cast<Int>(results[x]) >> 2;  // of weights by 2 on both axes
      }
    }
  }
}

void transform_back(const IntegerTileBlock& block) {
  const TileOutput output(*block.format);
  const BlockScaling scaled(block.scale, block.bias, block.channels);
  const int64_t stride = block.tiles * kQuantizedBlock;
  for (int64_t tile = 0; tile < block.tiles; ++tile) {
    Int sums[kIntegerOutputs][kBlockVectors];
    sum_outputs(block.sums + tile * kQuantizedBlock, stride, sums);
    char* const* pixels = block.pixels + tile * kIntegerOutputs;
    VEC_UNROLL
    for (int y = 0; y < kIntegerTileOut; ++y) {
      char* const* line = pixels + y * kIntegerTileOut;
      if (line[0] == nullptr) break;
      const PixelBlock both[kIntegerTileOut] = {scaled(sums[y * kIntegerTileOut]),
                                                scaled(sums[y * kIntegerTileOut + 1])};
      if (line[1] != nullptr) {
        output.write(both, line[0] + block.offset, block.pixel_bytes, block.channels);
      } else {
        const PixelBlock first[1] = {both[0]};
        output.write(first, line[0] + block.offset, block.pixel_bytes, block.channels);
      }
    }
  }
}

void run_block(const IntegerTileBlock& block) {
  const int64_t stride = block.tiles * kQuantizedBlock;
  for (int64_t point = 0; point < kIntegerPoints; ++point) {
    for (int64_t tile = 0; tile < block.tiles; tile += kRows) {
      const int64_t left = block.tiles - tile;
      const int64_t rows = left < kRows ? left : kRows;
      const PointProduct product = {block.inputs + point * block.input_stride + tile * block.input_pitch,
                                    block.input_pitch, block.weights + point * block.weight_stride, block.quads};
      kMultiply.by_rows[rows - 1](product, block.sums + point * stride + tile * kQuantizedBlock);
    }
  }
  transform_back(block);
}

}  // namespace

const IntegerWinograd& integer_winograd() {
  static constexpr IntegerWinograd arithmetic = {kRows, input, run_block};
  return arithmetic;
}

}  // namespace executorch_ggml::kernels::KERNEL_ISA
