// The tiles of conv_2d, whose sums stay in registers while inputs are broadcast, or multiplied by lane, and weights
// streamed. For *_isa.cpp files and folders of instruction sets only.
#pragma once

#include <utility>

#include "kernels/convolution/activation.h"
#include "kernels/convolution/conv_2d.h"
#include "kernels/simd/prefetch.h"
#include "kernels/simd/vec.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

// For products with one row of weights in an element, which needs no conversion.
struct UnpackedWeights {
  static constexpr int kRowsPerElement = 1;

  template <int Row, class V>
  static VEC_INLINE V weights(V stored) {
    return stored;
  }
};

// Registers for the sums of a tile: the others hold weights, an input value and, without FMA, products.
constexpr int kSumRegisters = kHasFma ? kVectorRegisters * 3 / 4 : kVectorRegisters / 2;
constexpr int kWidestVectors = kLanes == 4 ? 4 : 2;
constexpr int kWidestChannels = kWidestVectors * kLanes;
constexpr int kRows = kSumRegisters / kWidestVectors;
static_assert(kRows <= kMaxTileRows, "ConvTilesOf::by_rows is too short");

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
//   kRowsPerElement   rows of weights packed into one element; weights<Row>(vector) unpacks one of them
//   input<V>(from)    the next elements of an input's run in all lanes
//   plus(sum, x, w)   a sum with the products of each lane
//   kByLane           whether a vector of inputs is loaded, and weights are multiplied by one of its lanes at a time:
//   plus_lane<Lane>(sum, x, w)
//   kPrefetches       whether tiles with one sum per output prefetch ConvTileOf::next
template <class Products, int Rows, int Lanes, int Vectors>
struct Tile {
  using V = Vec<float, Lanes>;
  using Element = typename Products::Element;
  static constexpr int kRowElements = kOcBlock * Products::kAdjacent;  // of weights
  static constexpr int kInputs =
      Products::kAdjacent * Products::kRowsPerElement;  // that a row of weights is multiplied by
  static constexpr int kSums = sums_of(Rows * Vectors);
  static constexpr bool kPrefetches = Products::kPrefetches && kSums == 1;
  static constexpr int kStep = Products::kByLane ? Lanes : kSums > 2 ? kSums : 2;  // products a round of the inner loop

  // The offset of vector v's weights: vectors fill one block before the next.
  static VEC_INLINE int64_t weights_offset(int v, int64_t block_stride) {
    return v * Lanes / kOcBlock * block_stride + v * Lanes % kOcBlock * Products::kAdjacent;
  }

  static VEC_INLINE void accumulate(V (&sum)[Rows][Vectors], const Element* const (&input)[Rows], int64_t k,
                                    const Element* weights, int64_t block_stride) {
    accumulate_row<0>(sum, input, k, weights, block_stride);
    if constexpr (Products::kRowsPerElement == 2) accumulate_row<1>(sum, input, k, weights, block_stride);
  }

  template <int Row>
  static VEC_INLINE void accumulate_row(V (&sum)[Rows][Vectors], const Element* const (&input)[Rows], int64_t k,
                                        const Element* weights, int64_t block_stride) {
    V w[Vectors];
    VEC_UNROLL
    for (int v = 0; v < Vectors; ++v) {
      w[v] = Products::template weights<Row>(load<V>(weights + weights_offset(v, block_stride)));
    }
    VEC_UNROLL
    for (int m = 0; m < Rows; ++m) {
      const V x = Products::template input<V>(input[m] + k * kInputs + Row * Products::kAdjacent);
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

  static VEC_INLINE void accumulate_steps(V (&sum)[kSums][Rows][Vectors], const Element* const (&input)[Rows],
                                          int64_t products, const ConvTileOf<Element>& tile, const Element* weights) {
    constexpr int64_t kStepBytes =
        kStep * ((Vectors * Lanes + kOcBlock - 1) / kOcBlock) * kCacheLineBytes;  // of weights
    const auto offset = static_cast<int64_t>(sizeof(Element)) * (weights - tile.weights);
    const void* next = tile.next != nullptr ? tile.next : tile.weights;
    const char* ahead = static_cast<const char*>(next) + (offset >> tile.next_shift);
    const int64_t ahead_step = kStepBytes >> tile.next_shift;
    int64_t k = 0;
    for (; k + kStep <= products; k += kStep) {
      accumulate_step(sum, input, k, weights, tile.block_stride);
      if constexpr (kPrefetches) {
        prefetch(ahead, kStepBytes);  // the same lines in some steps, which is faster than to find out
        ahead += ahead_step;
      }
      weights += kStep * kRowElements;
    }
    for (; k < products; ++k) {
      accumulate(sum[0], input, k, weights, tile.block_stride);
      weights += kRowElements;
    }
  }

  // The cache lines of results and addends come while the sums are computed: rows of pixels are too far apart for the
  // CPU to guess.
  static VEC_INLINE void prefetch_results(const ConvTileOf<Element>& tile, int64_t channel) {
    constexpr int kLineFloats = 16;
    VEC_UNROLL
    for (int m = 0; m < Rows; ++m) {
      const float* to = tile.outputs[m] + tile.output_offset + channel;
      VEC_UNROLL
      for (int i = 0; i < Vectors * Lanes; i += kLineFloats) __builtin_prefetch(to + i, 1);
      if (!kHasSums || tile.addend == nullptr) continue;
      const float* from = tile.addend + (to - tile.output_begin);
      VEC_UNROLL
      for (int i = 0; i < Vectors * Lanes; i += kLineFloats) __builtin_prefetch(from + i);
    }
  }

  static VEC_INLINE bool is_whole(const ConvTileOf<Element>& tile, int64_t channel) {
    return tile.channels - channel >= Vectors * Lanes;
  }

  // Calls use(v, the bias of vector v) for the vectors that have channels.
  template <class Use>
  static VEC_INLINE void each_bias(const ConvTileOf<Element>& tile, int64_t channel, const Use& use) {
    if (tile.bias == nullptr) return;
    const bool whole = is_whole(tile, channel);
    VEC_UNROLL
    for (int v = 0; v < Vectors; ++v, channel += Lanes) {
      const int64_t left = tile.channels - channel;
      if (!whole && left <= 0) return;
      const float* from = tile.bias + channel;
      use(v, whole || left >= Lanes ? load<V>(from) : load_first<V>(from, left));
    }
  }

  // For sums that do not begin with it.
  static VEC_INLINE void add_bias(const ConvTileOf<Element>& tile, int64_t channel, V (&sum)[Rows][Vectors]) {
    each_bias(tile, channel, [&](int v, V bias) {
      VEC_UNROLL
      for (int m = 0; m < Rows; ++m) sum[m][v] += bias;
    });
  }

  // Adds the addend to, applies the epilogue to and stores the sums of the channels from this one on.
  static VEC_INLINE void finish(const ConvTileOf<Element>& tile, int64_t channel, V (&sum)[Rows][Vectors]) {
    const bool whole = is_whole(tile, channel);
    if (kHasSums && tile.addend != nullptr) {
      whole ? add_addend<true>(tile, channel, sum) : add_addend<false>(tile, channel, sum);
    }
    if (is_built(Activation::Hardswish) && tile.epilogue.hardswish) apply_hardswish(sum);
    whole ? store_results<true>(tile, channel, sum) : store_results<false>(tile, channel, sum);
  }

  // Whole: all vectors are. Else the last ones may have a part of their channels, or none.
  template <bool Whole>
  static VEC_INLINE void add_addend(const ConvTileOf<Element>& tile, int64_t first, V (&sum)[Rows][Vectors]) {
    VEC_UNROLL
    for (int m = 0; m < Rows; ++m) {
      const float* from = tile.addend + (tile.outputs[m] + tile.output_offset + first - tile.output_begin);
      VEC_UNROLL
      for (int v = 0; v < Vectors; ++v) {
        const int64_t left = tile.channels - first - v * Lanes;
        if (!Whole && left <= 0) break;
        sum[m][v] += Whole || left >= Lanes ? load<V>(from + v * Lanes) : load_first<V>(from + v * Lanes, left);
      }
    }
  }

  static VEC_INLINE void apply_hardswish(V (&sum)[Rows][Vectors]) {
    VEC_UNROLL
    for (int m = 0; m < Rows; ++m) {
      VEC_UNROLL
      for (int v = 0; v < Vectors; ++v) sum[m][v] = hardswish_of(sum[m][v]);
    }
  }

  template <bool Whole>
  static VEC_INLINE void store_results(const ConvTileOf<Element>& tile, int64_t first, const V (&sum)[Rows][Vectors]) {
    const V low = splat<V>(tile.epilogue.low);
    const V high = splat<V>(tile.epilogue.high);
    VEC_UNROLL
    for (int m = 0; m < Rows; ++m) {
      float* to = tile.outputs[m] + tile.output_offset + first;
      VEC_UNROLL
      for (int v = 0; v < Vectors; ++v) {
        const int64_t left = tile.channels - first - v * Lanes;
        if (!Whole && left <= 0) break;
        const V y = clamped(sum[m][v], low, high);
        if (Whole || left >= Lanes) {
          store(to + v * Lanes, y);
        } else {
          store_first(to + v * Lanes, y, left);
        }
      }
    }
  }

  // The channels from the first of a block on.
  static VEC_INLINE void run(const ConvTileOf<Element>& tile, int64_t channel) {
    if (tile.results_are_far) prefetch_results(tile, channel);
    const Element* weights = tile.weights + channel / kOcBlock * tile.block_stride;
    V sum[kSums][Rows][Vectors] = {};
    each_bias(tile, channel, [&](int v, V bias) {  // sums begin with it, which saves an addition for each
      VEC_UNROLL
      for (int m = 0; m < Rows; ++m) sum[0][m][v] = bias;
    });
    const int64_t products = tile.run / kInputs;
    for (int64_t t = 0; t < tile.taps; ++t) {
      const Element* input[Rows];
      VEC_UNROLL
      for (int m = 0; m < Rows; ++m) input[m] = tile.inputs[t * Rows + m];
      if (tile.input_offset != 0) {
        VEC_UNROLL
        for (int m = 0; m < Rows; ++m) input[m] += tile.input_offset;
      }
      accumulate_steps(sum, input, products, tile, weights + tile.tap_weights[t]);
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
    finish(tile, channel, sum[0]);
  }
};

// All channels of a tile of Rows pixels. Where at most half of a block is left after whole ones, it is a tile of its
// own.
template <template <int Rows, int Lanes, int Vectors> class TileOf, int Rows, class Element>
void run_channels(const ConvTileOf<Element>& tile) {
  constexpr int kHalfBlock = kOcBlock / 2;
  constexpr int kLeast = kWidestChannels > kOcBlock ? kOcBlock + kHalfBlock : kHalfBlock;
  int64_t channel = 0;
  for (; tile.channels - channel > kLeast; channel += kWidestChannels) {
    TileOf<Rows, kLanes, kWidestVectors>::run(tile, channel);
  }
  if constexpr (kWidestChannels > kOcBlock) {
    if (tile.channels - channel > kHalfBlock) {
      TileOf<Rows, kLanes, kOcBlock / kLanes>::run(tile, channel);
      channel += kOcBlock;
    }
  }
  if (tile.channels <= channel) return;
  if constexpr (kLanes < kHalfBlock) {
    if (tile.channels - channel <= kLanes) return TileOf<Rows, kLanes, 1>::run(tile, channel);
  }
  constexpr int kHalfLanes = kLanes < kHalfBlock ? kLanes : kHalfBlock;
  TileOf<Rows, kHalfLanes, kHalfBlock / kHalfLanes>::run(tile, channel);
}

template <template <int Rows, int Lanes, int Vectors> class TileOf, int... Number>
constexpr auto tiles_by_rows(std::integer_sequence<int, Number...>) {
  using Element = typename TileOf<1, kLanes, 1>::Element;
  return ConvTilesOf<Element>{kRows, kWidestChannels, {run_channels<TileOf, Number + 1, Element>...}};
}

// Tiles of up to kRows pixels by TileOf<Rows, Lanes, Vectors>::run(tile, channel), which sums Vectors vectors of Lanes
// channels.
template <template <int Rows, int Lanes, int Vectors> class TileOf>
constexpr auto make_tiles() {
  return tiles_by_rows<TileOf>(std::make_integer_sequence<int, kRows>());
}

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
