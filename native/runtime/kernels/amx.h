// Whether kernels may run on Intel's AMX. For plain .cpp only (see simd/isa.h).
#pragma once

#include <string>

#include "kernels/product/integer_product.h"

namespace executorch_ggml::kernels {

struct QuantizedTiles;

// Whether the CPU has AMX for int8, the system lets this process use it, and each kernel for it gives the numbers of
// the same kernel for AVX-512 VNNI, which the CPU must have. Tried once; a refusal or a wrong number is logged.
bool amx_works();

// "" where tiles of layers of integers give what others do, else what is wrong with them. The CPU's signals are caught.
std::string difference_of_tiles(const QuantizedTiles& tiles, const QuantizedTiles& expected);

// Likewise of an IntegerProduct::multiply: to the bit.
std::string difference_of_products(decltype(IntegerProduct::multiply) multiply,
                                   decltype(IntegerProduct::multiply) expected);

}  // namespace executorch_ggml::kernels
