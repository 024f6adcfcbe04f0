// Convolutions one after another, computed strip by strip: some rows of the last one's result at a time, and of the
// others' the rows that these need, in buffers that stay in L2. A large image between two layers is then never written
// to memory.
#pragma once

#include <array>
#include <cstdint>

#include "ggml.h"
#include "kernels/convolution/convolution.h"
#include "kernels/kernels.h"

namespace executorch_ggml::kernels {

constexpr int kMostChained = 3;  // a block of MobileNet: to more channels, depthwise, to fewer

struct ChainedLayer {
  Kernel kernel = nullptr;
  KernelCall<ConvolutionParams> call;
  const ggml_tensor* weight = nullptr;  // both are constants
  const ggml_tensor* bias = nullptr;    // or null
  std::array<int64_t, 4> ne{};          // of its result
};

struct ChainParams {
  int count = 0;
  ChainedLayer layers[kMostChained];
};

// Whether a layer is faster when it is computed in one chain with those before it.
bool continues(const ChainParams& chain, const ChainedLayer& layer);

void conv_2d_chain(ggml_tensor* dst, int ith, int nth, void* call);

}  // namespace executorch_ggml::kernels
