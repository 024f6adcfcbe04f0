// Between the planning of a convolution (conv_2d.cpp, compiled once) and its arithmetic (conv_2d_isa.cpp, compiled per
// instruction set).
#pragma once

#include <cstdint>

#include "kernels/convolution/convolution.h"
#include "kernels/partition.h"
#include "kernels/simd/isa.h"
#include "kernels/simd/tile_state.h"
#include "ops_generated.h"
#include "selection_generated.h"

namespace executorch_ggml::kernels {

constexpr int kOcBlock = 16;      // output channels of a block of packed weights
constexpr int kMaxTileRows = 32;  // output pixels of a tile, at most

// One tile: some output pixels by some adjacent output channels. Each tap multiplies a run of n inputs of each pixel
// with n rows of kOcBlock weights, which lie in pairs of rows where elements are of bf16.
template <class Element>
struct ConvTileOf {
  const Element* const* inputs;  // [tap * rows + pixel]: where the pixel's run begins
  int64_t input_offset;          // added to each of `inputs`
  const int64_t* tap_weights;    // [tap]: where the tap's weights begin in a block
  int64_t taps;
  int64_t run;             // inputs per pixel and tap; of bf16 an even number
  const Element* weights;  // the first block
  int64_t block_stride;    // elements from a block to the next
  const float* bias;       // of the first channel, or nullptr
  float* const* outputs;   // [pixel]; in tile registers null for pixels that are not stored
  int64_t output_offset;   // of the first channel, added to each of `outputs`
  int64_t channels;        // to store, from the first block's first on
  RegisterEpilogue epilogue;
  const float* addend = nullptr;        // added to the results before that: one element for each of the image
  const float* output_begin = nullptr;  // that `addend` has the same dims as
  bool results_are_far = false;         // beyond L2, when the tile is begun
  const void* next = nullptr;           // to prefetch while the sums are computed, or null
  int next_shift = 0;                   // of as many bytes as there are weights, shifted right by this
};

constexpr int64_t kAnyChannels = int64_t{1} << 40;

// How tiles set up a thread's tile registers, which are shaped for so many pixels, and taps with runs of so many
// inputs.
struct TileSetup {
  void (*save)(TileState* before);
  void (*shape)(int64_t rows, int64_t run);
  void (*restore)(const TileState& before);
};

// The tiles of one instruction set.
template <class Element>
struct ConvTilesOf {
  int rows;          // pixels of a full tile
  int64_t channels;  // output channels that are summed at a time: whole blocks, or kAnyChannels
  void (*by_rows[kMaxTileRows])(const ConvTileOf<Element>& tile);  // [pixels - 1]
  // Of tiles in tile registers: each tap's runs are evenly apart, so those of most windows are gathered.
  const TileSetup* setup = nullptr;  // null where nothing is to be set up
  int64_t gathered_bytes = 0;        // of inputs that are gathered at a time: they stay in L2
  bool widens_pairs = false;         // weights are pairs of bf16, runs of an even number of floats
  const ConvTilesOf* few = nullptr;  // for windows of so few inputs that to gather them would take longer
};

using ConvTile = ConvTileOf<float>;
using ConvTiles = ConvTilesOf<float>;
using BfloatTiles = ConvTilesOf<uint16_t>;

KERNEL_VARIANTS(const ConvTiles& conv_tiles())

// Tiles of floats that widen weights of bf16 in registers; null but on AVX2.
KERNEL_VARIANTS(const ConvTiles* widening_conv_tiles())

KERNEL_VARIANT(neonbf16, const BfloatTiles& bfloat_tiles())
KERNEL_VARIANT(avx512bf16, const BfloatTiles& bfloat_tiles())
KERNEL_VARIANT(amx, const BfloatTiles& bfloat_tiles())

// Rounds half to even. Numbers under 1.2e-38 become zeros, which products of bf16 take them as.
KERNEL_VARIANT(neonbf16, void round_to_bfloats(const float* x, int64_t n, uint16_t* y))
KERNEL_VARIANT(avx512bf16, void round_to_bfloats(const float* x, int64_t n, uint16_t* y))
KERNEL_VARIANT(neonbf16, void round_scaled_to_bfloats(const float* x, const float* factors, int64_t n, uint16_t* y))
KERNEL_VARIANT(avx512bf16, void round_scaled_to_bfloats(const float* x, const float* factors, int64_t n, uint16_t* y))

// Whether layers end in what tiles do not apply by themselves.
constexpr bool kHasStoredEpilogues =
    is_built(Activation::Silu) || is_built(Activation::GeluErf) || is_built(DType::Bf16);

KERNEL_VARIANTS(void apply_stored_epilogue(float* y, int64_t n, const StoredEpilogue& epilogue))

// The same for some pixels' channels, after tiles that do not apply it by themselves. Pixels may be null; adjacent ones
// are one array.
void apply_to_pixels(float* const* pixels, int64_t count, int64_t channels, const StoredEpilogue& epilogue);

// The tiles of an instruction set, or of the best below it that has some; null where none has products of bf16.
const BfloatTiles* bfloat_tiles_for(Isa isa);

// Likewise, of what the CPU runs: its AMX may be for int8 alone.
const BfloatTiles* bfloat_conv_tiles(Isa isa = active_isa());

// The same for a node that was made for such tiles, where kernels run on less by now (limit_isa): the CPU's best.
const BfloatTiles& bfloat_tiles_of_node();

// Some pixels of a convolution with strides of 1, its weights in blocks, and of some blocks of output channels.
void conv_2d_pixels(ggml_tensor* dst, const ConvolutionParams& params, DType weights, Range pixels, Range blocks);

// The same by conv_2d_bfloats.
void conv_2d_bfloat_pixels(ggml_tensor* dst, const ConvolutionParams& params, Range pixels, Range blocks);

// conv_2d with weights of bf16 in blocks, of an image of bf16, or of one of floats that it rounds. Without groups its
// input channels may be of an odd number where the image is of floats, and nothing is strided up.
void conv_2d_bfloats(ggml_tensor* dst, int ith, int nth, void* call);

}  // namespace executorch_ggml::kernels
