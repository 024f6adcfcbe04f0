// Averages of bytes: sums in int32 of some adjacent channels at a time.
#include "kernels/quantized/pool.h"

#include "kernels/quantized/rounding.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

constexpr int kVectors = 4;
constexpr int kChannels = kVectors * kLanes;

// Adds the bytes of each tap to the sums of `channels` channels; all of them where these are kChannels.
template <class T>
VEC_INLINE void add_taps(const PoolPixel<T>& pixel, const T* first, int64_t channels, int32_t* sums) {
  for (int64_t ky = 0; ky < pixel.tap_rows; ++ky) {
    for (int64_t kx = 0; kx < pixel.taps; ++kx) {
      const T* input = first + ky * pixel.row_pitch + kx * pixel.tap_pitch;
      if (channels == kChannels) {
        for (int i = 0; i < kChannels; ++i) sums[i] += input[i];
      } else {
        for (int64_t i = 0; i < channels; ++i) sums[i] += input[i];
      }
    }
  }
}

template <class T>
void average(const PoolPixel<T>& pixel, const Averaging& averaging) {
  const Requantize& output = averaging.output;
  const Rounding rounding(static_cast<float>(output.zero), output.low, output.high);
  const Float divisor = splat(pixel.divisor);
  for (int64_t c = 0; c < pixel.channels; c += kChannels) {
    const int64_t channels = pixel.channels - c < kChannels ? pixel.channels - c : kChannels;
    int32_t sums[kChannels] = {};
    add_taps(pixel, pixel.input + c, channels, sums);
    uint8_t bytes[kChannels];
    for (int i = 0; i < kVectors; ++i) {
      const Float sum = floats_of(load<Int>(sums + i * kLanes) - averaging.below);
      store_bytes(bytes + i * kLanes, rounding.steps(rounded(sum / divisor) * averaging.factor));
    }
    std::memcpy(pixel.output + c, bytes, static_cast<size_t>(channels));
  }
}

}  // namespace

void pool_average_int8(const PoolPixel<int8_t>& pixel, const Averaging& averaging) { average(pixel, averaging); }

void pool_average_uint8(const PoolPixel<uint8_t>& pixel, const Averaging& averaging) { average(pixel, averaging); }

}  // namespace executorch_ggml::kernels::KERNEL_ISA
