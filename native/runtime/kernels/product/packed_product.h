// Products with packed matrices, by conv_2d's tiles. For plain .cpp only (see simd/isa.h).
#pragma once

#include <cstdint>

#include "kernels/convolution/tile_session.h"
#include "kernels/product/packing.h"

namespace executorch_ggml::kernels {

static_assert(kPackedColumns == kOcBlock, "conv_2d's tiles read blocks of kOcBlock columns");

// The most rows that multiply_packed takes.
inline int64_t max_packed_rows() { return KERNEL_PICK(conv_tiles)().rows; }

// What is read after the product, to prefetch while it is computed: a byte of it for 1 << shift of the packed matrix.
struct ReadNext {
  const char* begin = nullptr;  // or none
  int shift = 0;
};

// output[i * stride + j] = rows[i] . column j of a packed matrix
void multiply_packed(const float* const* rows, int64_t count, int64_t length, const float* packed, int64_t columns,
                     float* output, int64_t stride, ReadNext next = {});

// The same in bf16, of rows of an even number of elements, one right after the other, by tiles that take as many rows
// at most as they say, in a session of their setup.
void multiply_packed(const BfloatTiles& tiles, TileSession& session, const uint16_t* const* rows, int64_t count,
                     int64_t length, const uint16_t* packed, int64_t columns, float* output, int64_t stride,
                     const char* next = nullptr);

}  // namespace executorch_ggml::kernels
