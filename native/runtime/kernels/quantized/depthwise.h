// Between depthwise.cpp (compiled once) and depthwise_isa.cpp (compiled per instruction set).
#pragma once

#include <cstdint>

#include "kernels/simd/isa.h"
#include "ops_generated.h"

namespace executorch_ggml::kernels {

// A depthwise layer, some adjacent channels of it. Pointers are to the first of these channels.
struct QuantizedDepthwise {
  const int8_t* weights;  // taps of all channels
  int64_t pitch;          // bytes from a tap, or an input pixel, to the next
  int64_t channels;       // to compute
  Window2d window;
  bool is_signed;  // the inputs
  int32_t zero;
  const float* scale;
  const float* bias;  // or nullptr
  Requantize output;
  int64_t in_width;
  int64_t out_width;
};

// Tap rows are multiplied two at a time: 0 and 1, 2 and 3, and so on. The last two of an odd number are a pair of which
// only the lower counts, so that the pairs of input rows are those of other output rows too.
inline int64_t tap_pairs(const Window& down) { return (down.kernel + 1) / 2; }

inline int64_t upper_tap(const Window& down, int64_t pair) {
  return 2 * pair + 1 < down.kernel || down.kernel == 1 ? 2 * pair : down.kernel - 2;
}

struct QuantizedDepthwiseLoops {
  int64_t (*packed_bytes)(const QuantizedDepthwise& layer);
  void (*pack)(const QuantizedDepthwise& layer, void* weights);
  int64_t (*pair_bytes)(const QuantizedDepthwise& layer);
  // Interleaves two rows of input pixels, null where they are outside of the image.
  void (*interleave)(const QuantizedDepthwise& layer, const char* upper, const char* lower, void* pair);
  // One row of output pixels, `output_pitch` bytes apart, of packed weights and the pairs of its input rows.
  void (*run)(const QuantizedDepthwise& layer, const void* weights, const void* const* pairs, char* output,
              int64_t output_pitch);
};

KERNEL_VARIANTS(const QuantizedDepthwiseLoops& quantized_depthwise_loops())

}  // namespace executorch_ggml::kernels
