// int8 GEMM of many rows on AMX, from the panels and rows of AVX-512 VNNI's.
#include "kernels/product/matrix_product.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

template <bool Halves, bool Mins>
constexpr auto kMultiply = MatrixProduct<CpuTiles, Halves, Mins>::multiply;

constexpr MatrixMultiply kMultiplies[] = {
    {GGML_TYPE_Q4_0, kMultiply<false, false>}, {GGML_TYPE_Q4_1, kMultiply<false, true>},
    {GGML_TYPE_Q5_0, kMultiply<false, false>}, {GGML_TYPE_Q5_1, kMultiply<false, true>},
    {GGML_TYPE_Q8_0, kMultiply<false, false>}, {GGML_TYPE_Q4_K, kMultiply<false, true>},
    {GGML_TYPE_Q5_K, kMultiply<false, true>},  {GGML_TYPE_Q6_K, kMultiply<true, false>},
};

}  // namespace

constexpr MatrixMultiplies matrix_multiplies = {kMultiplies, sizeof(kMultiplies) / sizeof(kMultiplies[0])};

}  // namespace executorch_ggml::kernels::KERNEL_ISA
