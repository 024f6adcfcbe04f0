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

// The largest bytes of Bytes channels from c on: no NaN, and no windows outside of the image but those that give the
// lowest.
template <class T, int Bytes>
VEC_INLINE void max_of_bytes(const PoolPixel<T>& pixel, int64_t c) {
  using Channels = Vec<T, Bytes>;
  Channels best = Channels{} + static_cast<T>(static_cast<T>(-1) < 0 ? -128 : 0);
  for (int64_t ky = 0; ky < pixel.tap_rows; ++ky) {
    const T* input = pixel.input + ky * pixel.row_pitch + c;
    for (int64_t kx = 0; kx < pixel.taps; ++kx, input += pixel.tap_pitch) {
      const auto x = load<Channels>(input);
      best = x > best ? x : best;
    }
  }
  store(pixel.output + c, best);
}

template <class T>
void pool_max_of_bytes(const PoolPixel<T>& pixel) {
  constexpr int kShort = 8;
  int64_t c = 0;
  for (; c + kVectorBytes <= pixel.channels; c += kVectorBytes) max_of_bytes<T, kVectorBytes>(pixel, c);
  for (; c + kShort <= pixel.channels; c += kShort) max_of_bytes<T, kShort>(pixel, c);
  for (; c < pixel.channels; ++c) max_of_bytes<T, 1>(pixel, c);
}

}  // namespace

void pool_max_int8(const PoolPixel<int8_t>& pixel) { pool_max_of_bytes(pixel); }

void pool_max_uint8(const PoolPixel<uint8_t>& pixel) { pool_max_of_bytes(pixel); }

void pool_max(const PoolPixel<float>& pixel) { pool<Max>(pixel); }

void pool_average(const PoolPixel<float>& pixel) { pool<Average>(pixel); }

}  // namespace executorch_ggml::kernels::KERNEL_ISA
