#include <algorithm>

#include "kernels/convolution/conv_2d.h"

namespace executorch_ggml::kernels {

void apply_to_pixels(float* const* pixels, int64_t count, int64_t channels, const StoredEpilogue& epilogue) {
  const auto apply = KERNEL_PICK(apply_stored_epilogue);
  for (int64_t first = 0, last = 0; first < count; first = last) {
    last = first + 1;
    if (pixels[first] == nullptr) continue;
    while (last < count && pixels[last] == pixels[last - 1] + channels) ++last;
    apply(pixels[first], (last - first) * channels, epilogue);
  }
}

}  // namespace executorch_ggml::kernels
