// The tiles of conv_2d, whose sums stay in registers while inputs are broadcast, or multiplied by lane, and weights
// streamed. For *_isa.cpp files and folders of instruction sets only.
#pragma once

#include "kernels/convolution/conv_2d.h"
#include "kernels/simd/prefetch.h"
#include "kernels/simd/vec.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

// Registers for the sums of a tile: the others hold weights, an input value and, without FMA, products.
constexpr int kSumRegisters = kHasFma ? kVectorRegisters * 3 / 4 : kVectorRegisters / 2;
constexpr int kWidestVectors = kLanes == 4 ? 4 : 2;
constexpr int kRows = kSumRegisters / kWidestVectors;
static_assert(kRows <= kMaxTileRows, "ConvTileShape::by_rows is too short");

// Independent sums per output, so that small tiles do not wait for the latency of each addition.
constexpr int sums_of(int vectors) {
  constexpr int kEnough = 8;
  const int most = kVectorRegisters / 2;
  return vectors * 2 > kEnough ? 1 : vectors * 4 > most ? 2 : 4;
}

// Rows pixels by Vectors vectors of Lanes output channels, for the products of a type of element:
//
//   Element           what inputs and weights are
//   kAdjacent         elements of a run that one product takes, and rows of weights that lie in pairs, fours ...
//   input<V>(from)    the next elements of an input's run in all lanes
//   plus(sum, x, w)   a sum with the products of each lane
//   kByLane           whether a vector of inputs is loaded, and weights are multiplied by one of its lanes at a time:
//   plus_lane<Lane>(sum, x, w)
//   kPrefetches       whether tiles with one sum per output prefetch ConvTileOf::next into L2
template <class Products, int Rows, int Lanes, int Vectors>
struct Tile {
  using V = Vec<float, Lanes>;
  using Element = typename Products::Element;
  static constexpr int kRowElements = kOcBlock * Products::kAdjacent;  // of weights
  static constexpr int kSums = sums_of(Rows * Vectors);
  static constexpr bool kPrefetches = Products::kPrefetches && kSums == 1;
  static constexpr int kStep = Products::kByLane ? Lanes : kSums > 2 ? kSums : 2;  // products a round of the inner loop

  // The offset of vector v's weights: vectors fill one block before the next.
  static VEC_INLINE int64_t weights_offset(int v, int64_t block_stride) {
    return v * Lanes / kOcBlock * block_stride + v * Lanes % kOcBlock * Products::kAdjacent;
  }

  static VEC_INLINE void accumulate(V (&sum)[Rows][Vectors], const Element* const (&input)[Rows], int64_t k,
                                    const Element* weights, int64_t block_stride) {
    V w[Vectors];
    VEC_UNROLL
    for (int v = 0; v < Vectors; ++v) {
      w[v] = load<V>(weights + weights_offset(v, block_stride));
    }
    VEC_UNROLL
    for (int m = 0; m < Rows; ++m) {
      const V x = Products::template input<V>(input[m] + k * Products::kAdjacent);
      VEC_UNROLL
      for (int v = 0; v < Vectors; ++v) {
        sum[m][v] = Products::plus(sum[m][v], x, w[v]);
      }
    }
  }

  // The products of one lane of each row's vector. Weights are loaded two by two, one instruction on ARM64: with more
  // than that a tile of six rows would spill.
  template <int Lane>
  static VEC_INLINE void accumulate_lane(V (&sum)[Rows][Vectors], const V (&x)[Rows], const Element* weights,
                                         int64_t block_stride) {
    constexpr int kLoaded = Vectors < 2 ? 1 : 2;
    VEC_UNROLL
    for (int v = 0; v < Vectors; v += kLoaded) {
      V w[kLoaded];
      VEC_UNROLL
      for (int u = 0; u < kLoaded; ++u) w[u] = load<V>(weights + weights_offset(v + u, block_stride));
      VEC_UNROLL
      for (int u = 0; u < kLoaded; ++u) {
        VEC_UNROLL
        for (int m = 0; m < Rows; ++m) sum[m][v + u] = Products::template plus_lane<Lane>(sum[m][v + u], x[m], w[u]);
      }
    }
  }

  template <int Lane = 0>
  static VEC_INLINE void accumulate_lanes(V (&sum)[kSums][Rows][Vectors], const V (&x)[Rows], const Element* weights,
                                          int64_t block_stride) {
    accumulate_lane<Lane>(sum[Lane % kSums], x, weights + Lane * kRowElements, block_stride);
    if constexpr (Lane + 1 < Lanes) accumulate_lanes<Lane + 1>(sum, x, weights, block_stride);
  }

  // kStep products of each input.
  static VEC_INLINE void accumulate_step(V (&sum)[kSums][Rows][Vectors], const Element* const (&input)[Rows], int64_t k,
                                         const Element* weights, int64_t block_stride) {
    if constexpr (Products::kByLane) {
      V x[Rows];
      VEC_UNROLL
      for (int m = 0; m < Rows; ++m) x[m] = load<V>(input[m] + k * Products::kAdjacent);
      accumulate_lanes(sum, x, weights, block_stride);
    } else {
      VEC_UNROLL
      for (int s = 0; s < kStep; ++s) {
        accumulate(sum[s % kSums], input, k + s, weights + s * kRowElements, block_stride);
      }
    }
  }

  // A product reads as many bytes of weights as it prefetches: one offset says where.
  static VEC_INLINE void accumulate_steps(V (&sum)[kSums][Rows][Vectors], const Element* const (&input)[Rows],
                                          int64_t products, const ConvTileOf<Element>& tile, const Element* weights) {
    const void* next = tile.next != nullptr ? tile.next : tile.weights;
    const intptr_t ahead = reinterpret_cast<intptr_t>(next) - reinterpret_cast<intptr_t>(tile.weights);
    int64_t k = 0;
    for (; k + kStep <= products; k += kStep) {
      accumulate_step(sum, input, k, weights, tile.block_stride);
      if constexpr (kPrefetches) prefetch(reinterpret_cast<const char*>(weights) + ahead, kStep * kCacheLineBytes);
      weights += kStep * kRowElements;
    }
    for (; k < products; ++k) {
      accumulate(sum[0], input, k, weights, tile.block_stride);
      weights += kRowElements;
    }
  }

  // The results' cache lines come while the sums are computed: rows of pixels are too far apart for the CPU to guess.
  static VEC_INLINE void prefetch_results(const ConvTileOf<Element>& tile) {
    constexpr int kLineFloats = 16;
    VEC_UNROLL
    for (int m = 0; m < Rows; ++m) {
      const float* to = tile.outputs[m] + tile.output_offset;
      VEC_UNROLL
      for (int i = 0; i < Vectors * Lanes; i += kLineFloats) __builtin_prefetch(to + i, 1);
    }
  }

  // Adds the bias and the addend, clamps and stores the sums.
  static VEC_INLINE void finish(const ConvTileOf<Element>& tile, V (&sum)[Rows][Vectors]) {
    return !kHasSums || tile.addend == nullptr ? store_results<false>(tile, sum) : store_results<true>(tile, sum);
  }

  template <bool Adds>
  static VEC_INLINE void store_results(const ConvTileOf<Element>& tile, V (&sum)[Rows][Vectors]) {
    const V low = splat<V>(tile.low);
    const V high = splat<V>(tile.high);
    VEC_UNROLL
    for (int v = 0; v < Vectors; ++v) {
      const int64_t left = tile.channels - v * Lanes;
      if (left <= 0) {
        return;
      }
      const bool whole = left >= Lanes;
      V bias = {};
      if (tile.bias != nullptr) {
        const float* from = tile.bias + v * Lanes;
        bias = whole ? load<V>(from) : load_first<V>(from, left);
      }
      VEC_UNROLL
      for (int m = 0; m < Rows; ++m) {
        float* to = tile.outputs[m] + tile.output_offset + v * Lanes;
        V y = sum[m][v] + bias;
        if constexpr (Adds) {
          const float* from = tile.addend + (to - tile.output_begin);
          y += whole ? load<V>(from) : load_first<V>(from, left);
        }
        y = clamped(y, low, high);
        if (whole) {
          store(to, y);
        } else {
          store_first(to, y, left);
        }
      }
    }
  }

  static void run(const ConvTileOf<Element>& tile) {
    if (tile.results_are_far) prefetch_results(tile);
    V sum[kSums][Rows][Vectors] = {};
    const int64_t products = tile.run / Products::kAdjacent;
    for (int64_t t = 0; t < tile.taps; ++t) {
      const Element* input[Rows];
      VEC_UNROLL
      for (int m = 0; m < Rows; ++m) {
        const Element* from = tile.inputs[t * Rows + m];
        input[m] = from == tile.zeros ? from : from + tile.input_offset;
      }
      accumulate_steps(sum, input, products, tile, tile.weights + tile.tap_weights[t]);
    }
    VEC_UNROLL
    for (int s = 1; s < kSums; ++s) {
      VEC_UNROLL
      for (int m = 0; m < Rows; ++m) {
        VEC_UNROLL
        for (int v = 0; v < Vectors; ++v) {
          sum[0][m][v] += sum[s][m][v];
        }
      }
    }
    finish(tile, sum[0]);
  }
};

// The tiles of 1 to kRows pixels of one shape.
template <class Products, int Lanes, int Vectors, int Rows = 1>
void fill_rows(ConvTileShapeOf<typename Products::Element>& shape) {
  shape.by_rows[Rows - 1] = Tile<Products, Rows, Lanes, Vectors>::run;
  if constexpr (Rows < kRows) {
    fill_rows<Products, Lanes, Vectors, Rows + 1>(shape);
  }
}

template <class Products, int Lanes, int Vectors>
ConvTileShapeOf<typename Products::Element> shape_of() {
  ConvTileShapeOf<typename Products::Element> shape = {Lanes * Vectors, {}};
  fill_rows<Products, Lanes, Vectors>(shape);
  return shape;
}

template <class Element, int Count>
ConvTilesOf<Element> tiles_of(const ConvTileShapeOf<Element> (&shapes)[Count]) {
  return {kRows, Count, shapes};
}

// Of 8 to 32 channels for vectors of 16 lanes, of 8 and 16 for 8 lanes, of 4 to 16 for 4 lanes.
template <class Products, int Lanes>
ConvTilesOf<typename Products::Element> make_tiles() {
  using Shape = ConvTileShapeOf<typename Products::Element>;
  if constexpr (Lanes == 16) {
    static const Shape shapes[] = {shape_of<Products, Lanes / 2, 1>(), shape_of<Products, Lanes, 1>(),
                                   shape_of<Products, Lanes, 2>()};
    return tiles_of(shapes);
  } else if constexpr (Lanes == 8) {
    static const Shape shapes[] = {shape_of<Products, Lanes, 1>(), shape_of<Products, Lanes, 2>()};
    return tiles_of(shapes);
  } else {
    static const Shape shapes[] = {shape_of<Products, Lanes, 1>(), shape_of<Products, Lanes, 2>(),
                                   shape_of<Products, Lanes, 4>()};
    return tiles_of(shapes);
  }
}

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
