// pool_2d: finds each output pixel's window; pool_2d_isa.cpp reduces it. max_pool_index: the indices of the maxima.
#include "kernels/convolution/pool_2d.h"

#include <algorithm>

#include "kernels/convolution/image.h"
#include "kernels/convolution/pool_windows.h"
#include "kernels/kernels.h"

namespace executorch_ggml::kernels {

namespace {

template <class T>
void pool(ggml_tensor* dst, int ith, int nth, const Pool2dNhwcParams& p, void (*run)(const PoolPixel<T>& pixel)) {
  pool_pixels<T>(dst, ith, nth, p, [run](const PoolPixel<T>& pixel, int64_t) { run(pixel); });
}

}  // namespace

void pool_2d(ggml_tensor* dst, int ith, int nth, void* call) {
  const auto& c = as_call<Pool2dNhwcParams>(call);
  if (c.dst == DType::I8) return pool<int8_t>(dst, ith, nth, c.params, KERNEL_PICK(pool_max_int8));
  if (c.dst == DType::U8) return pool<uint8_t>(dst, ith, nth, c.params, KERNEL_PICK(pool_max_uint8));
  const auto run = c.params.kind == PoolKind::Max ? KERNEL_PICK(pool_max) : KERNEL_PICK(pool_average);
  pool<float>(dst, ith, nth, c.params, run);
}

namespace {

// Joins a pixel of the window to the maxima of some channels and their indices: the first of equals, but the last NaN.
void join_max(const float* x, int64_t index, int64_t channels, float* best, int64_t* best_index) {
  for (int64_t c = 0; c < channels; ++c) {
    const bool larger = x[c] > best[c] || x[c] != x[c];
    best[c] = larger ? x[c] : best[c];
    best_index[c] = larger ? index : best_index[c];
  }
}

}  // namespace

void max_pool_index(ggml_tensor* dst, int ith, int nth, void* call) {
  constexpr int64_t kBlock = 64;
  const MaxPoolIndexNhwcParams& p = as_call<MaxPoolIndexNhwcParams>(call).params;
  const ImageShape in(dst->src[0]);
  const ImageShape out(dst);
  const auto* x = static_cast<const float*>(dst->src[0]->data);
  auto* y = static_cast<int64_t*>(dst->data);
  const ImageShare share(out, ith, nth);
  for (int64_t r = share.rows.begin; r < share.rows.end; ++r) {
    const int64_t frame = r / out.height;
    const Span deep(frame % p.out_depth, p.window.d, p.depth, p.out_depth, false);
    const Span down(r % out.height, p.window.h, in.height, out.height, false);
    const float* volume = x + frame / p.out_depth * p.depth * in.height * in.width * in.channels;
    for (int64_t column = 0; column < out.width; ++column) {
      const Span across(column, p.window.w, in.width, out.width, false);
      for (int64_t c = share.channels.begin; c < share.channels.end; c += kBlock) {
        const int64_t channels = std::min(kBlock, share.channels.end - c);
        int64_t* to = y + (r * out.width + column) * out.channels + c;
        float best[kBlock];
        std::fill_n(best, channels, -__builtin_inff());
        std::fill_n(to, channels, (deep.begin * in.height + down.begin) * in.width + across.begin);
        for (int64_t kz = 0; kz < deep.taps; ++kz) {
          const int64_t depth = deep.begin + kz * p.window.d.dilation;
          for (int64_t ky = 0; ky < down.taps; ++ky) {
            const int64_t row = depth * in.height + down.begin + ky * p.window.h.dilation;
            for (int64_t kx = 0; kx < across.taps; ++kx) {
              const int64_t index = row * in.width + across.begin + kx * p.window.w.dilation;
              join_max(volume + index * in.channels + c, index, channels, best, to);
            }
          }
        }
      }
    }
  }
}

}  // namespace executorch_ggml::kernels
