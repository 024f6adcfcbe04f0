// Running sums along rows.

#include <cstdint>
#include <type_traits>

#include "kernels/kernels.h"

namespace executorch_ggml::kernels {
namespace {

// Integers wrap, as torch's do; f32 is summed in double.
template <class T>
using Sum = std::conditional_t<std::is_integral_v<T>,
                               std::make_unsigned_t<std::conditional_t<std::is_integral_v<T>, T, int>>, double>;

template <class T>
void sum_rows(const ggml_tensor* dst, int64_t first, int64_t last) {
  const int64_t width = dst->ne[0];
  for (int64_t row = first; row < last; ++row) {
    const T* from = static_cast<const T*>(dst->src[0]->data) + row * width;
    T* to = static_cast<T*>(dst->data) + row * width;
    Sum<T> total = 0;
    for (int64_t i = 0; i < width; ++i) to[i] = static_cast<T>(total += static_cast<Sum<T>>(from[i]));
  }
}

}  // namespace

void cumsum(ggml_tensor* dst, int ith, int nth, void*) {
  const int64_t rows = ggml_nrows(dst);
  const int64_t first = rows * ith / nth;
  const int64_t last = rows * (ith + 1) / nth;
  switch (dst->type) {
    case GGML_TYPE_I64:
      return sum_rows<int64_t>(dst, first, last);
    case GGML_TYPE_I32:
      return sum_rows<int32_t>(dst, first, last);
    default:
      return sum_rows<float>(dst, first, last);
  }
}

}  // namespace executorch_ggml::kernels
