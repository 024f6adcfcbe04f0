// int8 GEMM on AVX2, which multiplies unsigned bytes with signed ones and sums two products in int16: as many as can't
// saturate are summed there, and pairs of sums then in int32.
#include "kernels/product/integer_arithmetic.h"

namespace executorch_ggml::kernels::KERNEL_ISA {

constexpr IntegerProducts integer_products = all_of(kProducts<>);

}  // namespace executorch_ggml::kernels::KERNEL_ISA
