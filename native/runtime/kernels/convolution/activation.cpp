#include <algorithm>

#include "kernels/convolution/conv_2d.h"

namespace executorch_ggml::kernels {

void finish_pixels(float* const* pixels, int64_t count, int64_t channels, const StoredEpilogue& epilogue) {
  const auto finish_floats = KERNEL_PICK(finish);
  for (int64_t first = 0, last = 0; first < count; first = last) {
    last = first + 1;
    if (pixels[first] == nullptr) continue;
    while (last < count && pixels[last] == pixels[last - 1] + channels) ++last;
    finish_floats(pixels[first], (last - first) * channels, epilogue);
  }
}

}  // namespace executorch_ggml::kernels
