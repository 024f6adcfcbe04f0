// Whether kernels may run on Intel's AMX. For plain .cpp only (see simd/isa.h).
#pragma once

#include <string>

#include "kernels/product/integer_product.h"

namespace executorch_ggml::kernels {

struct QuantizedTiles;
template <class Element>
struct ConvTilesOf;

// What tiles are multiplied of, each with an instruction that a CPU may lack.
enum class AmxType { Int8, Bfloat16 };

// Whether the CPU has AMX for a type, the system lets this process use it, and each kernel for it gives the numbers of
// the same kernel for AVX-512 VNNI, or AVX512-BF16, which the CPU must have. Tried once; a refusal or a wrong number is
// logged.
bool amx_multiplies(AmxType type);

// The level of kernels for a type: that one, or where it is AMX and the CPU has none for the type the level below.
Isa amx_or_below(AmxType type, Isa isa);

// "" where tiles of layers of integers give what others do, else what is wrong with them. The CPU's signals are caught.
std::string difference_of_tiles(const QuantizedTiles& tiles, const QuantizedTiles& expected);

// Likewise of an IntegerProduct::multiply: to the bit.
std::string difference_of_products(decltype(IntegerProduct::multiply) multiply,
                                   decltype(IntegerProduct::multiply) expected);

// Likewise of tiles for bf16: to the bit, of numbers whose sums are exact in any order.
std::string difference_of_bfloats(const ConvTilesOf<uint16_t>& tiles, const ConvTilesOf<uint16_t>& expected);

}  // namespace executorch_ggml::kernels
