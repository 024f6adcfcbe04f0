// What the kernels of layers with weights are given: a convolution, or a linear layer as one of one pixel.
#pragma once

#include <cstdint>

#include "ops_generated.h"

struct ggml_tensor;

namespace executorch_ggml::kernels {

struct ConvolutionParams {
  Window2d window;
  int64_t groups = 1;
  Epilogue epilogue;
  Storage weights = Storage::Plain;  // how the weight lies
};

// Convolutions whose channels are their groups.
void conv_2d_dw(ggml_tensor* dst, int ith, int nth, void* call);

}  // namespace executorch_ggml::kernels
