// Averages of bytes: their windows are found as in pool_2d; pool_isa.cpp sums them.
#include "kernels/quantized/pool.h"

#include "kernels/convolution/pool_windows.h"
#include "kernels/kernels.h"

namespace executorch_ggml::kernels {

namespace {

template <class T>
void average(ggml_tensor* dst, int ith, int nth, const QuantizedPool2dNhwcParams& p,
             void (*run)(const PoolPixel<T>& pixel, const Averaging& averaging)) {
  pool_pixels<T>(dst, ith, nth, p, [&p, run](const PoolPixel<T>& pixel, int64_t taps) {
    run(pixel, {static_cast<int32_t>(p.zero * taps), p.factor, p.output});
  });
}

}  // namespace

void quantized_pool(ggml_tensor* dst, int ith, int nth, void* call) {
  const auto& c = as_call<QuantizedPool2dNhwcParams>(call);
  if (c.src[0] == DType::I8) return average<int8_t>(dst, ith, nth, c.params, KERNEL_PICK(pool_average_int8));
  average<uint8_t>(dst, ith, nth, c.params, KERNEL_PICK(pool_average_uint8));
}

}  // namespace executorch_ggml::kernels
