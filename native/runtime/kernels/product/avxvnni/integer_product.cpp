// int8 GEMM on AVX-VNNI, as on AVX-512 VNNI by vectors of 32 bytes.
#include "kernels/product/integer_arithmetic.h"

namespace executorch_ggml::kernels::KERNEL_ISA {

constexpr IntegerProducts integer_products = all_of(kProducts<>);

}  // namespace executorch_ggml::kernels::KERNEL_ISA
