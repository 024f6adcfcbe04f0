// int8 GEMM on NEON, which multiplies bytes to int16: as many products as can't wrap are summed there, and pairs of
// sums then in int32.
#include "kernels/product/integer_arithmetic.h"

namespace executorch_ggml::kernels::KERNEL_ISA {

constexpr IntegerProducts integer_products = all_of(kProducts<>);

}  // namespace executorch_ggml::kernels::KERNEL_ISA
