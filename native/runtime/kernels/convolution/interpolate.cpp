// interpolate: finds the input pixels of each output pixel as torch does; interpolate_isa.cpp computes the rows.
#include "kernels/convolution/interpolate.h"

#include <algorithm>

#include "kernels/convolution/image.h"
#include "kernels/kernels.h"
#include "kernels/scratch.h"

namespace executorch_ggml::kernels {

namespace {

// The input pixels along one axis, counted in f32.
class Axis {
 public:
  Axis(ScaleMode mode, int64_t size, int64_t out) : mode_(mode), size_(size), same_(size == out) {
    const bool corners = mode == ScaleMode::BilinearAlignCorners;
    const int64_t steps = corners ? out - 1 : out;
    if (steps > 0) scale_ = static_cast<float>(corners ? size - 1 : size) / static_cast<float>(steps);
  }

  Between at(int64_t pixel) const {
    if (same_) return {pixel, pixel, 1.0f, 0.0f};
    const float place = place_of(static_cast<float>(pixel));
    const int64_t first = std::min(static_cast<int64_t>(place), size_ - 1);
    const float share = std::clamp(place - static_cast<float>(first), 0.0f, 1.0f);
    return {first, std::min(first + 1, size_ - 1), 1.0f - share, share};
  }

 private:
  float place_of(float pixel) const {
    if (mode_ == ScaleMode::Bilinear) return std::max(scale_ * (pixel + 0.5f) - 0.5f, 0.0f);
    return scale_ * pixel;
  }

  ScaleMode mode_;
  int64_t size_;
  bool same_;
  float scale_ = 0.0f;  // input pixels from an output pixel to the next
};

}  // namespace

void interpolate(ggml_tensor* dst, int ith, int nth, void* call) {
  const ScaleMode mode = as_call<InterpolateNhwcParams>(call).params.mode;
  const ImageShape in(dst->src[0]);
  const ImageShape out(dst);
  const ImageShare share(out, ith, nth);
  if (share.rows.empty() || share.channels.empty()) return;
  auto& columns = thread_scratch<Buffer<Between>>();
  const Axis across(mode, in.width, out.width);
  const Axis down(mode, in.height, out.height);
  Between* between = columns.sized(out.width);
  for (int64_t x = 0; x < out.width; ++x) between[x] = across.at(x);
  const auto run = mode == ScaleMode::Nearest ? KERNEL_PICK(nearest_row) : KERNEL_PICK(bilinear_row);
  InterpolatedRow row = {};
  row.columns = between;
  row.width = out.width;
  row.channels = share.channels.size();
  row.pitch = out.channels;
  for (int64_t r = share.rows.begin; r < share.rows.end; ++r) {
    const auto* image = static_cast<const float*>(dst->src[0]->data) + share.channels.begin +
                        r / out.height * in.height * in.width * in.channels;
    const Between rows = down.at(r % out.height);
    row.upper = image + rows.first * in.width * in.channels;
    row.lower = image + rows.second * in.width * in.channels;
    row.upper_weight = rows.first_weight;
    row.lower_weight = rows.second_weight;
    row.output = static_cast<float*>(dst->data) + share.channels.begin + r * out.width * out.channels;
    run(row);
  }
}

}  // namespace executorch_ggml::kernels
