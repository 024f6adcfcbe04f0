// int8 GEMM on ARM64 with matrix products of bytes, two rows by two columns.
#include "kernels/product/stream_q8_0.h"

namespace executorch_ggml::kernels::KERNEL_ISA {

constexpr IntegerProducts integer_products = all_of(kProducts<stream<Q8_0Column>>);

}  // namespace executorch_ggml::kernels::KERNEL_ISA
