// Between the planning of layers of integers (layer.cpp, compiled once) and their arithmetic (layer_isa.cpp and folders
// of instruction sets).
#pragma once

#include <array>
#include <cstdint>

#include "kernels/simd/isa.h"
#include "kernels/simd/tile_state.h"
#include "ops_generated.h"

struct ggml_tensor;

namespace executorch_ggml::kernels {

constexpr int kQuantizedBlock = 16;    // output channels of a block of weights
constexpr int kQuad = 4;               // inputs of a channel that lie side by side
constexpr int kMaxQuantizedRows = 32;  // output pixels of a tile, at most
constexpr int kQuadBytes = kQuantizedBlock * kQuad;
constexpr int64_t kSumsBytes = kQuantizedBlock * sizeof(int32_t);  // of its channels' weights, at a block's end
constexpr int64_t kGatheredBytes = 64 * 1024;  // of inputs that are arranged at a time, by most QuantizedTiles

struct QuantizedLayerParams {
  Window2d window;
  int64_t groups = 1;
  int64_t zero = 0;  // of the input
  Requantize output;
  Storage weights = Storage::Plain;  // how the weight lies
};

// Convolutions whose channels are their groups, of dense images, and of windows that span little more than these: what
// a row of output pixels sees is kept interleaved.
bool is_quantized_depthwise(const Window2d& window, const ggml_tensor* x, const std::array<int64_t, 4>& out);
void quantized_depthwise(ggml_tensor* dst, int ith, int nth, void* call);

// How results are written, as vectors at a tile's end take it: words and bytes are repeated to 32 bits, which are
// loaded into all lanes by one instruction.
struct ResultFormat {
  explicit ResultFormat(const Requantize& output)
      : dtype(output.dtype), zero(static_cast<float>(output.zero)), low(output.low), high(output.high) {
    if (dtype == DType::F32) return;
    highest_step = high - zero;
    zero_words = static_cast<int32_t>(0x10001u * static_cast<uint16_t>(output.zero));
    lowest_bytes = static_cast<int32_t>(0x1010101u * static_cast<uint8_t>(static_cast<int>(low)));
  }

  DType dtype;
  float zero;
  float low;
  float high;
  float highest_step = 0.0f;  // before the zero point is added
  int32_t zero_words = 0;
  int32_t lowest_bytes = 0;
};

// One tile: some rows (output pixels) by some adjacent output channels.
struct QuantizedTile {
  const void* const* inputs;  // arranged ones: inputs[tap * rows + row] is where a row's inputs of a tap begin
  int64_t taps;
  int64_t tap_quads;      // of inputs that lie side by side
  const int8_t* weights;  // the first channel's in its block, tap after tap; for WidenedTiles as they widen them
  const int32_t* sums;    // of each channel's weights
  int64_t block_bytes;    // from a block's weights, and sums, to the next one's
  const float* scale;     // of the first channel
  const float* bias;      // or nullptr
  char* output;           // the first row's first channel
  int64_t output_pitch;   // bytes
  int64_t channels;       // to store
  int32_t zero;           // the zero point of the arranged inputs
  const ResultFormat* format;
};

using QuantizedTileRun = void (*)(const QuantizedTile& tile);

// Tiles that take weights as int16, which pay for those that many pixels are multiplied with.
struct WidenedTiles {
  void (*widen)(const int8_t* weights, int64_t quads, void* to);  // which takes twice the bytes
  QuantizedTileRun run[kMaxQuantizedRows];
};

// The tiles of one instruction set.
struct QuantizedTiles {
  int rows;                // pixels of a full tile
  int row_step;            // rows are computed so many at a time: memory after a tile's last one is read up to there
  int channels;            // that are summed at a time: whole blocks
  int element_bytes;       // of arranged inputs: int16 without the zero point, or uint8 with it
  int64_t gathered_bytes;  // of inputs that are arranged at a time: they stay in L2, beside a block of weights
  bool gathers;  // takes rows of a tap that are evenly apart: those of other windows than a line's are gathered
  // Makes n inputs, whole quads, what tiles take; `zero` is their zero point.
  void (*arrange)(const void* from, int64_t n, int32_t zero, bool is_signed, void* to);
  // Set a thread up for tiles of so many quads, and end that; null where nothing is to be set up.
  void (*begin)(int64_t quads, TileState* before);
  void (*end)(const TileState& before);
  QuantizedTileRun run[kMaxQuantizedRows];  // run[n - 1] is for n rows
  bool takes_signed = false;                // arranged bytes are signed instead: unsigned inputs become 128 smaller
  // Where arrange() puts the inputs of a quad in the order 0, 2, 1, 3: the same in theirs, for weights in the other
  // one.
  void (*arrange_in_order)(const void* from, int64_t n, int32_t zero, bool is_signed, void* to) = nullptr;
  const WidenedTiles* widened = nullptr;
};

KERNEL_VARIANTS(const QuantizedTiles& quantized_tiles())
KERNEL_VARIANT(neon, extern const QuantizedTiles word_tiles)
KERNEL_VARIANT(dotprod, extern const QuantizedTiles dot_product_tiles)
KERNEL_VARIANT(i8mm, extern const QuantizedTiles dot_product_tiles)
KERNEL_VARIANT(avxvnni, extern const QuantizedTiles dot_product_tiles)
KERNEL_VARIANT(avx512vnni, extern const QuantizedTiles dot_product_tiles)
KERNEL_VARIANT(amx, extern const QuantizedTiles matrix_tiles)

// The tiles of an instruction set, or of the best below it that has some.
const QuantizedTiles& tiles_for(Isa isa);

// A layer by some tiles; `call` is of QuantizedLayerParams.
void quantized_layer_by(const QuantizedTiles& tiles, ggml_tensor* dst, int ith, int nth, const void* call);

}  // namespace executorch_ggml::kernels
