// The arithmetic of interpolate: vectors of channels, pixel after pixel.
#include "kernels/convolution/interpolate.h"
#include "kernels/simd/vec.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
void nearest_row(const InterpolatedRow& row) {
  float* to = row.output;
  for (int64_t x = 0; x < row.width; ++x, to += row.pitch) {
    const float* from = row.upper + row.columns[x].first * row.pitch;
    each_vector(0, row.channels, [=](int64_t c, auto lanes) { lanes.store(to + c, lanes.load(from + c)); });
  }
}

void bilinear_row(const InterpolatedRow& row) {
  const Float upper_weight = splat(row.upper_weight);
  const Float lower_weight = splat(row.lower_weight);
  float* to = row.output;
  for (int64_t x = 0; x < row.width; ++x, to += row.pitch) {
    const Between& between = row.columns[x];
    const int64_t left = between.first * row.pitch;
    const int64_t right = between.second * row.pitch;
    const Float left_weight = splat(between.first_weight);
    const Float right_weight = splat(between.second_weight);
    each_vector(0, row.channels, [=](int64_t c, auto lanes) {
      const auto across = [=](const float* pixels) {
        return lanes.load(pixels + left + c) * left_weight + lanes.load(pixels + right + c) * right_weight;
      };
      lanes.store(to + c, across(row.upper) * upper_weight + across(row.lower) * lower_weight);
    });
  }
}

}  // namespace executorch_ggml::kernels::KERNEL_ISA
