// What the kernels of layers with weights are given: a convolution, or a linear layer as one of one pixel.
#pragma once

#include <cstdint>
#include <limits>

#include "ggml.h"
#include "ops_generated.h"
#include "selection_generated.h"

namespace executorch_ggml::kernels {

struct ConvolutionParams {
  Window2d window;
  int64_t groups = 1;
  Epilogue epilogue;
  Storage weights = Storage::Plain;  // how the weight lies
  int addend = 0;                    // the source that is added to the result before the activation; 0: none
  int scale = 0;                     // the source with a factor for each input channel of each image; 0: none
};

// What of an epilogue is applied to results in registers, before they are stored.
struct RegisterEpilogue {
  float low = -std::numeric_limits<float>::infinity();  // bounds of the results
  float high = std::numeric_limits<float>::infinity();
  bool hardswish = false;

  RegisterEpilogue() = default;
  explicit RegisterEpilogue(const Epilogue& epilogue) {
    if (epilogue.activation == Activation::Clamp) {
      low = epilogue.low;
      high = epilogue.high;
    }
    hardswish = is_built(Activation::Hardswish) && epilogue.activation == Activation::Hardswish;
  }
};

// Whether a RegisterEpilogue applies all of an activation. Others take too many operations: they are applied to the
// stored results.
constexpr bool ends_in_registers(Activation activation) {
  return activation == Activation::None || activation == Activation::Clamp || activation == Activation::Hardswish;
}

// What of an epilogue is applied to results in memory: an activation, and rounding to bf16 after it.
struct StoredEpilogue {
  Activation activation = Activation::None;  // Clamp does nothing either
  bool rounds = false;

  bool is_empty() const { return (activation == Activation::None || activation == Activation::Clamp) && !rounds; }
};

// The part of an epilogue that a RegisterEpilogue leaves.
constexpr StoredEpilogue after_registers(const Epilogue& epilogue, bool rounds) {
  return {ends_in_registers(epilogue.activation) ? Activation::None : epilogue.activation, rounds};
}

// Whether sums may be joined to layers.
constexpr bool kHasSums = built::add;

// The bias of the output channels, or null. ggml's sources have no gaps: without a bias src[2] may be another.
inline const float* bias_of(const ggml_tensor* dst, const ConvolutionParams& params) {
  const ggml_tensor* bias = params.addend == 2 || params.scale == 2 ? nullptr : dst->src[2];
  return bias == nullptr ? nullptr : static_cast<const float*>(bias->data);
}

// What is added to the result, dense and of its dims, or null.
inline const float* addend_of(const ggml_tensor* dst, const ConvolutionParams& params) {
  return !kHasSums || params.addend == 0 ? nullptr : static_cast<const float*>(dst->src[params.addend]->data);
}

// The input channels' factors, image by image; or null. For 1x1 kernels with weights in blocks: conv_2d folds them into
// the weights, which are of f32; conv_2d_bfloats of floats multiplies those with them before it rounds.
inline const float* scale_of(const ggml_tensor* dst, const ConvolutionParams& params) {
  return params.scale == 0 ? nullptr : static_cast<const float*>(dst->src[params.scale]->data);
}

// Whether conv_2d, or conv_2d_bfloats of floats, copies an image row by row, so that it may lie in planes: with its
// channels outermost, and the pixels of a row adjacent.
bool reads_planes(const ggml_tensor* x, const ConvolutionParams& params);

// Convolutions whose channels are their groups.
void conv_2d_dw(ggml_tensor* dst, int ith, int nth, void* call);

}  // namespace executorch_ggml::kernels
