// Between the planning of layers of integers (layer.cpp, compiled once) and their arithmetic (layer_isa.cpp and folders
// of instruction sets).
#pragma once

#include <cstdint>

#include "kernels/simd/isa.h"
#include "ops_generated.h"

struct ggml_tensor;

namespace executorch_ggml::kernels {

constexpr int kQuantizedBlock = 16;    // output channels of a block of weights
constexpr int kQuad = 4;               // inputs of a channel that lie side by side
constexpr int kMaxQuantizedRows = 12;  // output pixels of a tile, at most
constexpr int kQuadBytes = kQuantizedBlock * kQuad;

struct QuantizedLayerParams {
  Window2d window;
  int64_t groups = 1;
  int64_t zero = 0;  // of the input
  Requantize output;
  Storage weights = Storage::Plain;  // how the weight lies
};

// Convolutions whose channels are their groups, of dense images.
void quantized_depthwise(ggml_tensor* dst, int ith, int nth, void* call);

// One tile: some rows of arranged inputs by some adjacent output channels.
struct QuantizedTile {
  const void* rows;
  int64_t row_bytes;
  int64_t quads;          // of inputs
  const int8_t* weights;  // the first channel's in its block
  const int32_t* sums;    // of each channel's weights
  int64_t block_bytes;    // from a block's weights, and sums, to the next one's
  const float* scale;     // of the first channel
  const float* bias;      // or nullptr
  char* output;           // the first row's first channel
  int64_t output_pitch;   // bytes
  int64_t channels;       // to store
  int32_t zero;           // the zero point of the arranged inputs
  const Requantize* format;
};

using QuantizedTileRun = void (*)(const QuantizedTile& tile);

// The tiles of one instruction set.
struct QuantizedTiles {
  int rows;           // pixels of a full tile
  int channels;       // of a full tile, which is of whole blocks
  int element_bytes;  // of arranged inputs: int16 without the zero point, or uint8 with it
  // Makes n inputs, whole quads, what tiles take; `zero` is their zero point.
  void (*arrange)(const void* from, int64_t n, int32_t zero, bool is_signed, void* to);
  QuantizedTileRun run[kMaxQuantizedRows];  // run[n - 1] is for n rows
};

KERNEL_VARIANTS(const QuantizedTiles& quantized_tiles())
KERNEL_VARIANT(avxvnni, extern const QuantizedTiles dot_product_tiles)
KERNEL_VARIANT(avx512vnni, extern const QuantizedTiles dot_product_tiles)

}  // namespace executorch_ggml::kernels
