// int8 GEMM on AVX2, which multiplies unsigned bytes with signed ones and sums two products in int16: as many as can't
// saturate are summed there, and pairs of sums then in int32.
#include "kernels/product/integer_arithmetic.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

constexpr IntegerProduct kProducts[] = {
    product_of<Q4_0>(GGML_TYPE_Q4_0), product_of<Q4_1>(GGML_TYPE_Q4_1), product_of<Q5_0>(GGML_TYPE_Q5_0),
    product_of<Q5_1>(GGML_TYPE_Q5_1), product_of<Q8_0>(GGML_TYPE_Q8_0), product_of<Q4K>(GGML_TYPE_Q4_K),
    product_of<Q5K>(GGML_TYPE_Q5_K),  product_of<Q6K>(GGML_TYPE_Q6_K),
};

}  // namespace

constexpr IntegerProducts integer_products = {kProducts, sizeof(kProducts) / sizeof(kProducts[0])};

}  // namespace executorch_ggml::kernels::KERNEL_ISA
