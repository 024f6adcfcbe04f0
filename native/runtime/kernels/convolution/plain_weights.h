// Weights as they come, which convolutions pack block by block as they run. For conv_2d.cpp.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/convolution/conv_2d.h"
#include "kernels/elementwise/convert.h"
#include "kernels/scratch.h"
#include "selection_generated.h"

namespace executorch_ggml::kernels {

constexpr bool kHasHalves = is_built(DType::F16) || is_built(DType::Bf16);

// KW, KH, IC and OC from the inside out.
class PlainWeights {
 public:
  struct Shape {
    int64_t taps;
    int64_t group_in;
    int64_t group_out;
  };

  // `row` is memory for an output channel's weights in f32.
  PlainWeights(const void* weights, DType type, const Shape& shape, ScratchVector<float>& row)
      : weights_(weights), type_(type), shape_(shape), row_(row) {}

  // One block in f32: taps, input channels, 16 output channels.
  void pack_block(int64_t block, float* to) const {
    const int64_t blocks = ceil_div(shape_.group_out, kOcBlock);
    const int64_t first = block % blocks * kOcBlock;
    std::fill(to, to + row_size() * kOcBlock, 0.0f);
    for (int64_t lane = 0; lane < std::min<int64_t>(kOcBlock, shape_.group_out - first); ++lane) {
      const float* from = row(block / blocks * shape_.group_out + first + lane);
      for (int64_t channel = 0; channel < shape_.group_in; ++channel) {
        for (int64_t tap = 0; tap < shape_.taps; ++tap) {
          to[(tap * shape_.group_in + channel) * kOcBlock + lane] = from[channel * shape_.taps + tap];
        }
      }
    }
  }

 private:
  int64_t row_size() const { return shape_.taps * shape_.group_in; }

  // The weights of an output channel, in f32.
  const float* row(int64_t channel) const {
    const int64_t size = row_size();
    if (!kHasHalves || type_ == DType::F32) return static_cast<const float*>(weights_) + channel * size;
    if (row_.size() < static_cast<size_t>(size)) row_.resize(static_cast<size_t>(size));
    to_floats(static_cast<const uint16_t*>(weights_) + channel * size, size, type_, row_.data());
    return row_.data();
  }

  const void* weights_;
  DType type_;
  Shape shape_;
  ScratchVector<float>& row_;
};

}  // namespace executorch_ggml::kernels
