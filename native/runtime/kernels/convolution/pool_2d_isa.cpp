// The arithmetic of pool_2d: one output pixel, several vectors of channels at a time.
#include "kernels/convolution/pool_2d.h"
#include "kernels/simd/vec.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

using V = Float;

struct Max {
  static VEC_INLINE V start() { return splat(-__builtin_inff()); }
  // NaN wins, from either side.
  static VEC_INLINE V join(V sum, V x) {
    const V larger = x > sum ? x : sum;
    return x != x ? x : larger;
  }
  static VEC_INLINE V finish(V sum, V) { return sum; }
};

struct Average {
  static VEC_INLINE V start() { return V{}; }
  static VEC_INLINE V join(V sum, V x) { return sum + x; }
  static VEC_INLINE V finish(V sum, V divisor) { return sum / divisor; }
};

// Count vectors of channels, from channel c on.
template <class Reduce, int Count, class Lanes>
VEC_INLINE void reduce(const PoolPixel<float>& pixel, int64_t c, Lanes lanes) {
  V sum[Count];
  VEC_UNROLL
  for (int i = 0; i < Count; ++i) {
    sum[i] = Reduce::start();
  }
  const float* row = pixel.input + c;
  for (int64_t ky = 0; ky < pixel.tap_rows; ++ky, row += pixel.row_pitch) {
    const float* input = row;
    for (int64_t kx = 0; kx < pixel.taps; ++kx, input += pixel.tap_pitch) {
      VEC_UNROLL
      for (int i = 0; i < Count; ++i) {
        sum[i] = Reduce::join(sum[i], lanes.load(input + i * kLanes));
      }
    }
  }
  const V divisor = splat(pixel.divisor);
  VEC_UNROLL
  for (int i = 0; i < Count; ++i) {
    lanes.store(pixel.output + c + i * kLanes, Reduce::finish(sum[i], divisor));
  }
}

template <class Reduce>
VEC_INLINE void pool(const PoolPixel<float>& pixel) {
  constexpr int kVectors = 4;
  int64_t c = 0;
  for (; c + kVectors * kLanes <= pixel.channels; c += kVectors * kLanes) {
    reduce<Reduce, kVectors>(pixel, c, AllLanes{});
  }
  for (; c + kLanes <= pixel.channels; c += kLanes) {
    reduce<Reduce, 1>(pixel, c, AllLanes{});
  }
  if (c < pixel.channels) {
    reduce<Reduce, 1>(pixel, c, FirstLanes{pixel.channels - c});
  }
}

// The largest bytes of some channels: no NaN, and no windows outside of the image but those that give the lowest.
template <class T>
void pool_max_of_bytes(const PoolPixel<T>& pixel) {
  constexpr int kBytes = 2 * kVectorBytes;
  constexpr T kLowest = static_cast<T>(-1) < 0 ? -128 : 0;
  for (int64_t c = 0; c < pixel.channels; c += kBytes) {
    const int64_t channels = pixel.channels - c < kBytes ? pixel.channels - c : kBytes;
    T best[kBytes];
    for (T& byte : best) byte = kLowest;
    for (int64_t ky = 0; ky < pixel.tap_rows; ++ky) {
      for (int64_t kx = 0; kx < pixel.taps; ++kx) {
        const T* input = pixel.input + ky * pixel.row_pitch + kx * pixel.tap_pitch + c;
        if (channels == kBytes) {
          for (int i = 0; i < kBytes; ++i) best[i] = input[i] > best[i] ? input[i] : best[i];
        } else {
          for (int64_t i = 0; i < channels; ++i) best[i] = input[i] > best[i] ? input[i] : best[i];
        }
      }
    }
    std::memcpy(pixel.output + c, best, static_cast<size_t>(channels));
  }
}

}  // namespace

void pool_max_int8(const PoolPixel<int8_t>& pixel) { pool_max_of_bytes(pixel); }

void pool_max_uint8(const PoolPixel<uint8_t>& pixel) { pool_max_of_bytes(pixel); }

void pool_max(const PoolPixel<float>& pixel) { pool<Max>(pixel); }

void pool_average(const PoolPixel<float>& pixel) { pool<Average>(pixel); }

}  // namespace executorch_ggml::kernels::KERNEL_ISA
