// grid_sample: for each point of the grid, the weighted sum of the pixels around it.
#include <algorithm>
#include <cmath>

#include "kernels/convolution/image.h"
#include "kernels/kernels.h"

namespace executorch_ggml::kernels {

namespace {

constexpr int kMaxTaps = 4;  // along an axis

// The pixels around a coordinate along one axis (-1: outside the image) and their weights.
struct AxisTaps {
  int count = 0;
  int64_t pixel[kMaxTaps];
  float weight[kMaxTaps];

  void add(int64_t at, float share) {
    pixel[count] = at;
    weight[count++] = share;
  }
};

class Axis {
 public:
  Axis(int64_t size, const GridSampleNhwcParams& params)
      : kind_(params.kind),
        border_(params.border),
        align_corners_(params.align_corners),
        size_(size),
        last_(static_cast<float>(size - 1)) {}

  AxisTaps taps(float coordinate) const {
    const auto size = static_cast<float>(size_);
    const float x = align_corners_ ? (coordinate + 1) / 2 * last_ : ((coordinate + 1) * size - 1) / 2;
    AxisTaps taps;
    if (kind_ == SampleKind::Bicubic) {
      const float first = std::floor(x);
      const float t = x - first;
      const float weights[kMaxTaps] = {far(t + 1), near(t), near(1 - t), far(2 - t)};
      for (int i = 0; i < kMaxTaps; ++i) taps.add(pixel(inside(first + static_cast<float>(i - 1))), weights[i]);
      return taps;
    }
    const float at = inside(x);
    if (kind_ == SampleKind::Nearest) {
      taps.add(pixel(std::nearbyint(at)), 1.0f);
      return taps;
    }
    const float first = std::floor(at);
    taps.add(pixel(first), first + 1 - at);
    taps.add(pixel(first + 1), at - first);
    return taps;
  }

 private:
  // Cubic convolution with a = -0.75, for distances below 1 and up to 2.
  static float near(float d) { return (1.25f * d - 2.25f) * d * d + 1; }
  static float far(float d) { return ((-0.75f * d + 3.75f) * d - 6) * d + 3; }

  // The coordinate that replaces one outside the image; NaN becomes the first pixel's.
  float inside(float x) const {
    if (border_ == SampleBorder::Zeros) return x;
    if (border_ == SampleBorder::Reflection) x = reflected(x);
    return x > 0 ? std::min(x, last_) : 0.0f;
  }

  float reflected(float x) const {
    const float low = align_corners_ ? 0.0f : -0.5f;
    const float span = align_corners_ ? last_ : last_ + 1;
    if (span == 0) return 0.0f;
    const float rest = std::fmod(std::fabs(x - low), 2 * span);
    return std::min(rest, 2 * span - rest) + low;
  }

  int64_t pixel(float x) const { return x >= 0 && x <= last_ ? static_cast<int64_t>(x) : -1; }

  SampleKind kind_;
  SampleBorder border_;
  bool align_corners_;
  int64_t size_;
  float last_;
};

void add_scaled(float* y, const float* x, float weight, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += weight * x[i];
}

}  // namespace

void grid_sample(ggml_tensor* dst, int ith, int nth, void* call) {
  const GridSampleNhwcParams& params = as_call<GridSampleNhwcParams>(call).params;
  const ImageShape in(dst->src[0]);
  const ImageShape out(dst);
  const auto* x = static_cast<const float*>(dst->src[0]->data);
  const auto* grid = static_cast<const float*>(dst->src[1]->data);
  const ImageShare share(out, ith, nth);
  const Axis across(in.width, params);
  const Axis down(in.height, params);
  for (int64_t r = share.rows.begin; r < share.rows.end; ++r) {
    const float* image = x + r / out.height * in.height * in.width * in.channels + share.channels.begin;
    for (int64_t column = 0; column < out.width; ++column) {
      const int64_t point = r * out.width + column;
      const AxisTaps columns = across.taps(grid[2 * point]);
      const AxisTaps rows = down.taps(grid[2 * point + 1]);
      float* y = static_cast<float*>(dst->data) + point * out.channels + share.channels.begin;
      std::fill_n(y, share.channels.size(), 0.0f);
      for (int i = 0; i < rows.count; ++i) {
        for (int j = 0; j < columns.count; ++j) {
          const float weight = rows.weight[i] * columns.weight[j];
          if (rows.pixel[i] >= 0 && columns.pixel[j] >= 0) {
            const float* tap = image + (rows.pixel[i] * in.width + columns.pixel[j]) * in.channels;
            add_scaled(y, tap, weight, share.channels.size());
          } else if (weight != weight) {  // NaN in the grid gives NaN
            std::fill_n(y, share.channels.size(), weight);
          }
        }
      }
    }
  }
}

}  // namespace executorch_ggml::kernels
