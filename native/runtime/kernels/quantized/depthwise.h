// Between depthwise.cpp (compiled once) and its loops (depthwise_isa.cpp, and folders of instruction sets).
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

// Input rows are interleaved a bundle at a time, so that one instruction multiplies and sums a channel's pixels of all.
struct QuantizedDepthwiseLoops {
  int bundle;  // rows of one
  int64_t (*packed_bytes)(const QuantizedDepthwise& layer);
  void (*pack)(const QuantizedDepthwise& layer, void* weights);
  int64_t (*bundle_bytes)(const QuantizedDepthwise& layer);
  // Interleaves `bundle` rows of input pixels, null where they are outside of the image.
  void (*interleave)(const QuantizedDepthwise& layer, const char* const* rows, void* to);
  // `rows` rows of output pixels, at most rows_at_once(), of packed weights and the bundles of their input rows. Pixels
  // are `pitch` bytes apart.
  void (*run)(const QuantizedDepthwise& layer, const void* weights, const void* const* bundles, int64_t rows,
              char* output, int64_t pitch);
};

inline int64_t bundles_of(const Window& down, int64_t bundle) { return (down.kernel + bundle - 1) / bundle; }

// Two output rows are computed at once where one bundle holds the input rows of both; or two bundles do, of which the
// next two output rows share one.
inline int64_t rows_at_once(const Window& down, int64_t bundle) {
  const int64_t bundles = bundles_of(down, bundle);
  constexpr int64_t kMostTaps = 3;  // whose weights for both fit in registers
  const bool next_share = bundles == 2 && 2 * down.stride == bundle && down.kernel <= kMostTaps;
  const bool holds_both = down.kernel + down.stride <= bundles * bundle;
  return down.dilation == 1 && holds_both && (bundles == 1 || next_share) ? 2 : 1;
}

// The first tap of a bundle. The last bundle may begin among the taps of the one before it, which then don't count in
// it: where this is the first bundle of another output row, it is interleaved once.
inline int64_t first_tap(const Window& down, int64_t bundle, int64_t number) {
  const int64_t first = number * bundle;
  if (first + bundle <= down.kernel || number == 0 || rows_at_once(down, bundle) > 1) return first;
  const int64_t least = down.kernel > bundle ? down.kernel - bundle : 0;
  const int64_t shared = (least + down.stride - 1) / down.stride * down.stride;
  return shared < first ? shared : first;
}

KERNEL_VARIANTS(const QuantizedDepthwiseLoops& quantized_depthwise_loops())
KERNEL_VARIANT(dotprod, extern const QuantizedDepthwiseLoops dot_product_depthwise_loops)
KERNEL_VARIANT(avxvnni, extern const QuantizedDepthwiseLoops dot_product_depthwise_loops)
KERNEL_VARIANT(avx512vnni, extern const QuantizedDepthwiseLoops dot_product_depthwise_loops)

}  // namespace executorch_ggml::kernels
