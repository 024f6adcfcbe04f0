// The arithmetic of layers of integers on AVX-512 VNNI: products of four unsigned inputs with four signed weights are
// summed by one instruction. The zero point's share is subtracted at the end.
#include "kernels/quantized/layer.h"
#include "kernels/quantized/tile.h"

#if !defined(__clang__)  // GCC 12 warns of its own AVX-512 header (bug 105593)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

constexpr int kRows = 12;
constexpr int kBlocks = 2;

// Signed inputs become unsigned ones 128 larger.
void arrange(const void* from, int64_t n, int32_t, bool is_signed, void* to) {
  const auto* x = static_cast<const uint8_t*>(from);
  auto* y = static_cast<uint8_t*>(to);
  const auto flip = static_cast<uint8_t>(is_signed ? 0x80 : 0);
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<uint8_t>(x[i] ^ flip);
}

VEC_INLINE __m512i four(const uint8_t* from) {
  int32_t x;
  std::memcpy(&x, from, sizeof(x));
  return _mm512_set1_epi32(x);
}

template <int Rows, int Blocks>
VEC_INLINE void run_blocks(const QuantizedTile& tile) {
  __m512i sums[Rows][Blocks] = {};
  const auto* rows = static_cast<const uint8_t*>(tile.rows);
  const int8_t* weights = tile.weights;
  for (int64_t q = 0; q < tile.quads; ++q, weights += kQuadBytes) {
    __m512i w[Blocks];
    VEC_UNROLL
    for (int b = 0; b < Blocks; ++b) w[b] = _mm512_loadu_si512(weights + b * tile.block_bytes);
    VEC_UNROLL
    for (int r = 0; r < Rows; ++r) {
      const __m512i x = four(rows + r * tile.row_bytes + q * kQuad);
      VEC_UNROLL
      for (int b = 0; b < Blocks; ++b) sums[r][b] = _mm512_dpbusd_epi32(sums[r][b], x, w[b]);
    }
  }
  int32_t totals[Rows][Blocks * kQuantizedBlock];
  VEC_UNROLL
  for (int b = 0; b < Blocks; ++b) {
    const auto* of_block = reinterpret_cast<const char*>(tile.sums) + b * tile.block_bytes;
    const Int zeros = load<Int>(of_block) * tile.zero;
    VEC_UNROLL
    for (int r = 0; r < Rows; ++r) store(totals[r] + b * kQuantizedBlock, reinterpret_cast<Int>(sums[r][b]) - zeros);
  }
  finish_tile(tile, totals[0], Rows, Blocks * kQuantizedBlock);
}

template <int Rows>
void run(const QuantizedTile& tile) {
  if (tile.channels > kQuantizedBlock) return run_blocks<Rows, kBlocks>(tile);
  run_blocks<Rows, 1>(tile);
}

}  // namespace

constexpr QuantizedTiles dot_product_tiles = {
    kRows,
    kBlocks* kQuantizedBlock,
    sizeof(uint8_t),
    arrange,
    {run<1>, run<2>, run<3>, run<4>, run<5>, run<6>, run<7>, run<8>, run<9>, run<10>, run<11>, run<12>},
};

}  // namespace executorch_ggml::kernels::KERNEL_ISA
