// Functions of integers with a scale, element by element.
#include "kernels/quantized/elementwise.h"

#include "kernels/elementwise/elementwise.h"
#include "kernels/kernels.h"

namespace executorch_ggml::kernels {

namespace {

template <class Params>
const KernelCall<Params>& call_in(const void* context) {
  return *static_cast<const KernelCall<Params>*>(context);
}

void quantize_run(void* dst, const void* const* src, int64_t n, const void* context) {
  KERNEL_PICK(quantized_loops)().quantize(static_cast<const float*>(src[0]), n, call_in<QuantizeParams>(context).params,
                                          dst);
}

void dequantize_run(void* dst, const void* const* src, int64_t n, const void* context) {
  const auto& c = call_in<DequantizeParams>(context);
  KERNEL_PICK(quantized_loops)().dequantize(src[0], c.src[0], nullptr, n, c.params, static_cast<float*>(dst));
}

void dequantize_scaled_run(void* dst, const void* const* src, int64_t n, const void* context) {
  const auto& c = call_in<DequantizeParams>(context);
  const auto* scales = static_cast<const float*>(src[1]);
  KERNEL_PICK(quantized_loops)().dequantize(src[0], c.src[0], scales, n, c.params, static_cast<float*>(dst));
}

void binary_run(void* dst, const void* const* src, int64_t n, const void* context) {
  const auto& c = call_in<QuantizedBinaryParams>(context);
  KERNEL_PICK(quantized_loops)().binary(src[0], c.src[0], src[1], c.src[1], n, c.params, dst);
}

// The context is the table.
void lookup_floats(void* dst, const void* const* src, int64_t n, const void* context) {
  const auto* table = static_cast<const float*>(context);
  const auto* x = static_cast<const uint8_t*>(src[0]);
  auto* y = static_cast<float*>(dst);
  for (int64_t i = 0; i < n; ++i) y[i] = table[x[i]];
}

void lookup_bytes(void* dst, const void* const* src, int64_t n, const void* context) {
  const auto* table = static_cast<const uint8_t*>(context);
  KERNEL_PICK(quantized_loops)().lookup(static_cast<const uint8_t*>(src[0]), n, table, static_cast<uint8_t*>(dst));
}

}  // namespace

void quantize(ggml_tensor* dst, int ith, int nth, void* call) {
  run_elementwise(dst, 1, {quantize_run}, call, ith, nth);
}

void dequantize(ggml_tensor* dst, int ith, int nth, void* call) {
  const bool scaled = dst->src[1] != nullptr;
  run_elementwise(dst, scaled ? 2 : 1, {scaled ? dequantize_scaled_run : dequantize_run}, call, ith, nth);
}

void quantized_binary(ggml_tensor* dst, int ith, int nth, void* call) {
  run_elementwise(dst, 2, {binary_run}, call, ith, nth);
}

void lookup(ggml_tensor* dst, int ith, int nth, void* call) {
  const bool floats = as_call<LookupParams>(call).dst == DType::F32;
  run_elementwise(dst, 1, {floats ? lookup_floats : lookup_bytes}, dst->src[1]->data, ith, nth);
}

}  // namespace executorch_ggml::kernels
