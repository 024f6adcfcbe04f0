// Matrix products by tiles, which are registers of up to 16 rows of up to 64 bytes: Intel's AMX. A kernel is a template
// over what computes with them: CpuTiles here, or the native tests' emulation of the same instructions. For folders of
// instruction sets, and those tests, only.
//
// A kernel holds 2 x 2 tiles of sums, and loads 2 tiles of rows and 2 of columns a step: each is multiplied twice.
#pragma once

#include <cstddef>

#include "kernels/simd/tile_state.h"
#include "kernels/simd/vec.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

constexpr int kTileRows = 16;
constexpr int kTwoTiles = 2 * kTileRows;    // the rows of two
constexpr int kTileBytes = 64;              // of a row
constexpr int kTileQuads = kTileBytes / 4;  // four bytes are multiplied at a time: a quad
constexpr int kSumLanes = kTileBytes / 4;   // sums of a row, of int32 or float

constexpr int sum_tile(int row, int column) { return 2 * row + column; }
constexpr int row_tile(int row) { return 4 + row; }
constexpr int column_tile(int column) { return 6 + column; }

// The tiles' shapes, as `ldtilecfg` loads them.
struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t bytes[16] = {};  // of a row; of tiles, there are 8
  uint8_t rows[16] = {};

  VEC_INLINE void set(int tile, int tile_rows, int row_bytes) {
    rows[tile] = static_cast<uint8_t>(tile_rows);
    bytes[tile] = static_cast<uint16_t>(row_bytes);
  }

  // For rows of `quads` quads: `first` rows in the first of two tiles, and `second`, which may be 0, in the other.
  VEC_INLINE TileShapes(int first, int second, int quads) {
    for (int column = 0; column < 2; ++column) {
      set(column_tile(column), quads, kTileBytes);
      set(sum_tile(0, column), first, kTileBytes);
      if (second > 0) set(sum_tile(1, column), second, kTileBytes);
    }
    set(row_tile(0), first, 4 * quads);
    if (second > 0) set(row_tile(1), second, 4 * quads);
  }
};
static_assert(sizeof(TileShapes) == 64 && offsetof(TileShapes, bytes) == 16 && offsetof(TileShapes, rows) == 48,
              "as the instruction reads it");

// How a sum's elements are multiplied: four bytes of rows by four of columns, or two bf16 by two.
enum class TileProducts { UnsignedBySigned, SignedByUnsigned, Bfloats };

// Steps of one size, since all tiles of columns have one shape. The last may have `shared` quads less.
struct TileSteps {
  int64_t count;
  int64_t quads;  // of a step
  int64_t shared;

  VEC_INLINE explicit TileSteps(int64_t depth)
      : count((depth + kTileQuads - 1) / kTileQuads),
        quads(count == 0 ? 1 : (depth + count - 1) / count),
        shared(count * quads - depth) {}
};

#if defined(__AMX_INT8__)
// The instructions themselves: gcc 12's intrinsics lose stores to the shapes (bug 114098).
struct CpuTiles {
  static VEC_INLINE void configure(const TileShapes& shapes) { asm volatile("ldtilecfg %0" : : "m"(shapes)); }
  static VEC_INLINE void save(TileState* state) { asm volatile("sttilecfg %0" : "=m"(*state)); }
  static VEC_INLINE void restore(const TileState& state) {
    if (state.bytes[0] == 0) {
      asm volatile("tilerelease" : : : "memory");
    } else {
      asm volatile("ldtilecfg %0" : : "m"(state));
    }
  }

  template <int Tile>
  static VEC_INLINE void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(Tile));
  }
  // Rows that are `stride` bytes apart; a stride of 0 loads the same row into all.
  template <int Tile>
  static VEC_INLINE void load(const void* from, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(Tile) : "memory");
  }
  template <int Tile>
  static VEC_INLINE void store(void* to, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(Tile) : "memory");
  }

  // sums += rows * columns, the bytes of one unsigned and of the other signed.
  template <int Sums, int Rows, int Columns>
  static VEC_INLINE void add_unsigned_by_signed() {
    asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sums), "i"(Rows), "i"(Columns));
  }
  template <int Sums, int Rows, int Columns>
  static VEC_INLINE void add_signed_by_unsigned() {
    asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sums), "i"(Rows), "i"(Columns));
  }
  // Likewise of bf16: floats that are rounded to nearest even, denormal ones are zeros.
  template <int Sums, int Rows, int Columns>
  static VEC_INLINE void add_bfloats() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sums), "i"(Rows), "i"(Columns));
  }
};
#endif

// Where one step's tiles are loaded from: columns as [quads][kSumLanes][4] bytes.
struct TileStep {
  const void* rows;
  int64_t row_stride;
  int64_t tile_stride;  // from a tile of rows to the next one
  const void* columns[2];
};

template <class Tiles, TileProducts Products, int Row, int Column>
VEC_INLINE void add_products() {
  constexpr int kSums = sum_tile(Row, Column);
  if constexpr (Products == TileProducts::SignedByUnsigned) {
    Tiles::template add_signed_by_unsigned<kSums, row_tile(Row), column_tile(Column)>();
  } else if constexpr (Products == TileProducts::UnsignedBySigned) {
    Tiles::template add_unsigned_by_signed<kSums, row_tile(Row), column_tile(Column)>();
  } else {
    Tiles::template add_bfloats<kSums, row_tile(Row), column_tile(Column)>();
  }
}

template <class Tiles, int Rows, int Columns>
VEC_INLINE void zero_sums() {
  Tiles::template zero<sum_tile(0, 0)>();
  if constexpr (Rows > 1) Tiles::template zero<sum_tile(1, 0)>();
  if constexpr (Columns > 1) Tiles::template zero<sum_tile(0, 1)>();
  if constexpr (Rows > 1 && Columns > 1) Tiles::template zero<sum_tile(1, 1)>();
}

// Adds one step's products to Rows x Columns tiles of sums. Loads stand between products, which take longer.
template <class Tiles, TileProducts Products, int Rows, int Columns>
VEC_INLINE void add_step(const TileStep& step) {
  Tiles::template load<column_tile(0)>(step.columns[0], kTileBytes);
  Tiles::template load<row_tile(0)>(step.rows, step.row_stride);
  add_products<Tiles, Products, 0, 0>();
  if constexpr (Rows > 1) {
    Tiles::template load<row_tile(1)>(static_cast<const char*>(step.rows) + step.tile_stride, step.row_stride);
    add_products<Tiles, Products, 1, 0>();
  }
  if constexpr (Columns > 1) {
    Tiles::template load<column_tile(1)>(step.columns[1], kTileBytes);
    add_products<Tiles, Products, 0, 1>();
    if constexpr (Rows > 1) add_products<Tiles, Products, 1, 1>();
  }
}

// Stores Rows x Columns tiles of sums as sums[row][Columns * kSumLanes].
template <class Tiles, int Rows, int Columns, class Sum>
VEC_INLINE void store_sums(Sum* sums) {
  constexpr int64_t kStride = Columns * kTileBytes;
  Tiles::template store<sum_tile(0, 0)>(sums, kStride);
  if constexpr (Rows > 1) Tiles::template store<sum_tile(1, 0)>(sums + kTileRows * Columns * kSumLanes, kStride);
  if constexpr (Columns > 1) {
    Tiles::template store<sum_tile(0, 1)>(sums + kSumLanes, kStride);
    if constexpr (Rows > 1) {
      Tiles::template store<sum_tile(1, 1)>(sums + kTileRows * Columns * kSumLanes + kSumLanes, kStride);
    }
  }
}

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
