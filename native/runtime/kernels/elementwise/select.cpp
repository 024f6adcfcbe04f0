// dst = condition ? a : b, for any element type.
#include "kernels/elementwise/elementwise.h"
#include "kernels/kernels.h"

namespace executorch_ggml::kernels {

namespace {

template <class T>
void select_as(void* dst, const void* const* src, int64_t n, const void*) {
  const uint8_t* condition = static_cast<const uint8_t*>(src[0]);
  const T* a = static_cast<const T*>(src[1]);
  const T* b = static_cast<const T*>(src[2]);
  T* __restrict y = static_cast<T*>(dst);
  for (int64_t i = 0; i < n; ++i) {
    const T yes = a[i];  // both are read, so that the loop has no branch
    const T no = b[i];
    y[i] = condition[i] != 0 ? yes : no;
  }
}

}  // namespace

void select(ggml_tensor* dst, int ith, int nth, void*) {
  const auto run = [&](MapFn fn) { run_elementwise(dst, 3, {fn}, nullptr, ith, nth); };
  switch (item_size(dst)) {
    case 1:
      return run(select_as<uint8_t>);
    case 2:
      return run(select_as<uint16_t>);
    case 4:
      return run(select_as<uint32_t>);
    default:
      return run(select_as<uint64_t>);
  }
}

}  // namespace executorch_ggml::kernels
