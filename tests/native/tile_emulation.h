// AMX's tile instructions in plain C++, as Intel's manual (SDM, volume 2) describes them. What it calls a fault ends
// the test. Stands in for CpuTiles (kernels/simd/tiles.h), and behind the instructions themselves (tile_trap.h).
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace executorch_ggml::testing {

class TileUnit {
 public:
  static constexpr int kTiles = 8;
  static constexpr int kRows = 16;
  static constexpr int kBytes = 64;

  // ldtilecfg: palette 1 and nothing reserved. All tiles become zeros.
  void configure(const void* from) {
    uint8_t shapes[64];
    std::memcpy(shapes, from, sizeof(shapes));
    if (shapes[0] == 0) return release();
    require(shapes[0] == 1, "ldtilecfg of an unknown palette");
    for (int i = 2; i < 16; ++i) require(shapes[i] == 0, "ldtilecfg with reserved bytes");
    for (int i = 32; i < 48; ++i) require(shapes[i] == 0, "ldtilecfg with more than 8 tiles");
    for (int i = 56; i < 64; ++i) require(shapes[i] == 0, "ldtilecfg with more than 8 tiles");
    require(shapes[1] == 0, "ldtilecfg with a start row, which only a fault leaves");
    *this = {};
    for (int i = 0; i < kTiles; ++i) {
      uint16_t bytes = 0;
      std::memcpy(&bytes, shapes + 16 + 2 * i, sizeof(bytes));
      tiles_[i].rows = shapes[48 + i];
      tiles_[i].bytes = bytes;
      require(tiles_[i].rows <= kRows && bytes <= kBytes, "ldtilecfg with a tile that is too large");
      require((tiles_[i].rows == 0) == (bytes == 0), "ldtilecfg with rows without bytes, or bytes without rows");
    }
    configured_ = true;
  }

  void release() { *this = {}; }

  // sttilecfg
  void save(void* to) const {
    uint8_t shapes[64] = {configured_};
    for (int i = 0; i < kTiles; ++i) {
      const auto bytes = static_cast<uint16_t>(tiles_[i].bytes);
      std::memcpy(shapes + 16 + 2 * i, &bytes, sizeof(bytes));
      shapes[48 + i] = static_cast<uint8_t>(tiles_[i].rows);
    }
    std::memcpy(to, shapes, sizeof(shapes));
  }

  bool is_configured() const { return configured_; }

  void zero(int tile) { std::memset(usable(tile).data, 0, sizeof(Tile::data)); }

  // tileloadd: rows past the tile's, and bytes past a row's, become zeros.
  void load(int tile, const void* from, int64_t stride) {
    Tile& to = usable(tile);
    std::memset(to.data, 0, sizeof(to.data));
    for (int row = 0; row < to.rows; ++row) {
      std::memcpy(to.data[row], static_cast<const char*>(from) + row * stride, static_cast<size_t>(to.bytes));
    }
  }

  void store(int tile, void* to, int64_t stride) {
    const Tile& from = usable(tile);
    for (int row = 0; row < from.rows; ++row) {
      std::memcpy(static_cast<char*>(to) + row * stride, from.data[row], static_cast<size_t>(from.bytes));
    }
  }

  // tdpbusd and the like: Row and Column are the types of the operands' bytes. Sums wrap.
  template <class Row, class Column>
  void add_products(int sums, int rows, int columns) {
    require_match(sums, rows, columns);
    Tile& s = tiles_[sums];
    const Tile& a = tiles_[rows];
    const Tile& b = tiles_[columns];
    for (int row = 0; row < s.rows; ++row) {
      for (int k = 0; k < b.rows; ++k) {
        for (int lane = 0; lane < s.bytes / 4; ++lane) {
          uint32_t sum = 0;
          std::memcpy(&sum, s.data[row] + 4 * lane, sizeof(sum));
          for (int i = 0; i < 4; ++i) {
            const int product = static_cast<Row>(a.data[row][4 * k + i]) * static_cast<Column>(b.data[k][4 * lane + i]);
            sum += static_cast<uint32_t>(product);
          }
          std::memcpy(s.data[row] + 4 * lane, &sum, sizeof(sum));
        }
      }
    }
  }

  // tdpbf16ps: the first and the second elements of a row's pairs are summed apart, their totals added, and that to the
  // sum; each step rounds to nearest even, and takes and gives zero for denormal numbers.
  void add_bfloat_products(int sums, int rows, int columns) {
    require_match(sums, rows, columns);
    Tile& s = tiles_[sums];
    const Tile& a = tiles_[rows];
    const Tile& b = tiles_[columns];
    for (int row = 0; row < s.rows; ++row) {
      for (int lane = 0; lane < s.bytes / 4; ++lane) {
        float totals[2] = {};
        for (int k = 0; k < b.rows; ++k) {
          for (int i = 0; i < 2; ++i) {
            const float x = bfloat(a.data[row] + 4 * k + 2 * i);
            totals[i] = flushed(std::fma(x, bfloat(b.data[k] + 4 * lane + 2 * i), totals[i]));
          }
        }
        float sum = 0.0f;
        std::memcpy(&sum, s.data[row] + 4 * lane, sizeof(sum));
        sum = flushed(flushed(sum) + flushed(totals[0] + totals[1]));
        std::memcpy(s.data[row] + 4 * lane, &sum, sizeof(sum));
      }
    }
  }

 private:
  struct Tile {
    int rows = 0;
    int bytes = 0;
    uint8_t data[kRows][kBytes] = {};
  };

  static void require(bool held, const char* fault) {
    if (held) return;
    std::fprintf(stderr, "AMX: %s\n", fault);
    std::abort();
  }

  void require_match(int sums, int rows, int columns) {
    require(sums != rows && sums != columns && rows != columns, "a product of a tile with itself");
    const Tile& s = usable(sums);
    const Tile& a = usable(rows);
    const Tile& b = usable(columns);
    require(s.bytes % 4 == 0 && a.bytes % 4 == 0 && b.bytes % 4 == 0, "a product of tiles without whole quads");
    require(s.rows == a.rows && s.bytes == b.bytes && a.bytes / 4 == b.rows, "a product of tiles that do not match");
  }

  static float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

  static float bfloat(const uint8_t* from) {
    const uint32_t bits = static_cast<uint32_t>(from[0]) << 16 | static_cast<uint32_t>(from[1]) << 24;
    float x = 0.0f;
    std::memcpy(&x, &bits, sizeof(x));
    return flushed(x);
  }

  Tile& usable(int tile) {
    require(configured_ && tile >= 0 && tile < kTiles && tiles_[tile].rows > 0, "use of a tile without a shape");
    return tiles_[tile];
  }

  bool configured_ = false;
  Tile tiles_[kTiles];
};

// Of this thread, as a core's is.
inline TileUnit& tile_unit() {
  static thread_local TileUnit unit;
  return unit;
}

// As CpuTiles.
struct EmulatedTiles {
  template <class Shapes>
  static void configure(const Shapes& shapes) {
    tile_unit().configure(&shapes);
  }
  template <class State>
  static void save(State* state) {
    tile_unit().save(state);
  }
  template <class State>
  static void restore(const State& state) {
    tile_unit().configure(&state);
  }

  template <int Tile>
  static void zero() {
    tile_unit().zero(Tile);
  }
  template <int Tile>
  static void load(const void* from, int64_t stride) {
    tile_unit().load(Tile, from, stride);
  }
  template <int Tile>
  static void store(void* to, int64_t stride) {
    tile_unit().store(Tile, to, stride);
  }

  template <int Sums, int Rows, int Columns>
  static void add_unsigned_by_signed() {
    tile_unit().add_products<uint8_t, int8_t>(Sums, Rows, Columns);
  }
  template <int Sums, int Rows, int Columns>
  static void add_signed_by_unsigned() {
    tile_unit().add_products<int8_t, uint8_t>(Sums, Rows, Columns);
  }
  template <int Sums, int Rows, int Columns>
  static void add_bfloats() {
    tile_unit().add_bfloat_products(Sums, Rows, Columns);
  }
};

}  // namespace executorch_ggml::testing
