#include "kernels/amx.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "ggml.h"
#include "kernels/product/integer_product.h"
#include "kernels/product/packed_product.h"
#include "kernels/quantized/layer.h"
#include "kernels/simd/isa.h"
#include "kernels/simd/x86_features.h"
#include "platform/platform.h"
#include "result.h"
#include "selection_generated.h"
#include "status.h"

namespace executorch_ggml::kernels {
namespace {

using Multiply = decltype(IntegerProduct::multiply);

bool cpu_has_amx(AmxType type) { return type == AmxType::Int8 ? x86_features().amx_int8 : x86_features().amx_bf16; }

// ------------------------------------------------------------------------------------------------------------ trial

struct TileCase {
  int rows;
  int64_t quads;
  int64_t channels;
};

// One and two tiles each way, filled and not, of one step, of even steps, and with a last one that overlaps.
constexpr TileCase kTileCases[] = {{32, 16, 32}, {32, 37, 32}, {19, 24, 27}, {16, 9, 16}, {5, 50, 7}};

class TileTrial {
 public:
  explicit TileTrial(const TileCase& of)
      : of_(of),
        block_bytes_(of.quads * kQuadBytes + kSumsBytes),
        rows_(static_cast<size_t>(kMaxQuantizedRows * of.quads * kQuad)),
        blocks_(static_cast<size_t>(2 * block_bytes_)),
        scales_(2 * kQuantizedBlock, 3e-4f),
        output_(static_cast<size_t>(of.rows * of.channels)) {
    std::minstd_rand random(static_cast<unsigned>(of.quads));
    for (uint8_t& byte : rows_) byte = static_cast<uint8_t>(random() >> 8);
    for (int row = 0; row < of.rows; ++row) inputs_.push_back(rows_.data() + row * of.quads * kQuad);
    for (uint8_t& byte : blocks_) byte = static_cast<uint8_t>(random() >> 8);
    for (int block = 0; block < 2; ++block) {
      uint8_t* sums = blocks_.data() + block * block_bytes_ + of.quads * kQuadBytes;
      for (int lane = 0; lane < kQuantizedBlock; ++lane) {
        const auto sum = static_cast<int32_t>(random() % 4096) - 2048;
        std::memcpy(sums + lane * sizeof(sum), &sum, sizeof(sum));
      }
    }
  }

  // Allocates nothing, since it may be ended by a signal.
  void run(const QuantizedTiles& tiles) {
    QuantizedTile tile = {};
    tile.inputs = inputs_.data();
    tile.taps = 1;
    tile.tap_quads = of_.quads;
    tile.weights = reinterpret_cast<const int8_t*>(blocks_.data());
    tile.sums = reinterpret_cast<const int32_t*>(blocks_.data() + of_.quads * kQuadBytes);
    tile.block_bytes = block_bytes_;
    tile.scale = scales_.data();
    tile.output = reinterpret_cast<char*>(output_.data());
    tile.output_pitch = of_.channels;
    tile.channels = of_.channels;
    tile.zero = 131;
    tile.format = &format_;
    TileState before;
    if (tiles.begin != nullptr) tiles.begin(of_.quads, &before);
    for (int row = 0; row < of_.rows;) {
      const int some = std::min(tiles.rows, of_.rows - row);
      tiles.run[some - 1](tile);
      tile.inputs += some;
      tile.output += some * of_.channels;
      row += some;
    }
    if (tiles.end != nullptr) tiles.end(before);
  }

  const std::vector<uint8_t>& output() const { return output_; }

 private:
  TileCase of_;
  int64_t block_bytes_;
  std::vector<uint8_t> rows_, blocks_;
  std::vector<const void*> inputs_;  // of each row
  std::vector<float> scales_;
  std::vector<uint8_t> output_;
  ResultFormat format_{{DType::U8, 117, 0.0f, 255.0f}};
};

struct ProductCase {
  int64_t rows, blocks, columns;
};

constexpr ProductCase kProductCases[] = {{32, 4, 32}, {49, 3, 32}, {16, 1, 16}, {23, 5, 21}, {7, 2, 9}};

class ProductTrial {
 public:
  explicit ProductTrial(const ProductCase& of)
      : of_(of),
        rows_(static_cast<size_t>(of.rows * of.blocks)),
        panel_(static_cast<size_t>(of.blocks * kIntegerColumns / kIntegerLanes)),
        output_(static_cast<size_t>(of.rows * of.columns)) {
    std::minstd_rand random(static_cast<unsigned>(of.rows));
    std::uniform_real_distribution<float> scale(0.5f, 1.0f);
    const auto byte = [&] { return static_cast<uint8_t>(random() >> 8); };
    for (RowBlock& row : rows_) {
      for (int8_t& value : row.values) value = static_cast<int8_t>(byte());
      row.scale = scale(random);
      for (int half = 0; half < 2; ++half) {
        row.start[half] = 64 * byte();
        row.sum[half] = static_cast<float>(byte());
      }
    }
    for (ColumnBlock& block : panel_) {
      for (auto& quad : block.weights) {
        for (auto& lane : quad) std::generate(std::begin(lane), std::end(lane), byte);
      }
      for (int half = 0; half < 2; ++half) {
        for (float& number : block.scales[half]) number = scale(random);
        for (float& number : block.mins[half]) number = scale(random);
      }
    }
  }

  void run(Multiply multiply) {
    multiply(rows_.data(), of_.rows, of_.blocks, panel_.data(), of_.columns, output_.data(), of_.columns, {});
  }

  const std::vector<float>& output() const { return output_; }

 private:
  ProductCase of_;
  std::vector<RowBlock> rows_;
  std::vector<ColumnBlock> panel_;
  std::vector<float> output_;
};

struct BfloatCase {
  int64_t rows, pairs, columns;
};

// One and two tiles each way, filled and not, of whole steps and with a last one that is shorter.
constexpr BfloatCase kBfloatCases[] = {{32, 32, 32}, {32, 29, 64}, {50, 17, 27}, {17, 6, 16}, {5, 61, 7}, {1, 20, 40}};

// Products of integers of 8 bits, whose sums floats hold: they are the same in any order.
class BfloatTrial {
 public:
  explicit BfloatTrial(const BfloatCase& of)
      : of_(of),
        rows_(random_integers(of.rows * of.pairs * 2)),
        packed_(random_integers(ceil_div(of.columns, kPackedColumns) * kPackedColumns * of.pairs * 2)),
        output_(static_cast<size_t>(of.rows * of.columns)) {}

  // Allocates nothing, since it may be ended by a signal.
  void run(const BfloatTiles& tiles) {
    const int64_t length = of_.pairs * 2;
    TileSession session(tiles.setup);
    for (int64_t row = 0; row < of_.rows; row += tiles.rows) {
      const int64_t count = std::min<int64_t>(tiles.rows, of_.rows - row);
      const uint16_t* inputs[kMaxTileRows];
      for (int64_t i = 0; i < count; ++i) inputs[i] = rows_.data() + (row + i) * length;
      multiply_packed(tiles, session, inputs, count, length, packed_.data(), of_.columns,
                      output_.data() + row * of_.columns, of_.columns);
    }
  }

  const std::vector<float>& output() const { return output_; }

 private:
  std::vector<uint16_t> random_integers(int64_t count) {
    std::vector<uint16_t> integers(static_cast<size_t>(count));
    for (uint16_t& integer : integers) {
      const auto number = static_cast<int>(random_() / 256 % 511) - 255;
      integer = ggml_fp32_to_bf16(static_cast<float>(number)).bits;
    }
    return integers;
  }

  BfloatCase of_;
  std::minstd_rand random_{1};
  std::vector<uint16_t> rows_, packed_;
  std::vector<float> output_;
};

// What ends the trial of `kernel`, or "" where it gives what `expected` does to the bit.
template <class Trial, class Case, class Kernel>
std::string difference_on(const Case& of, const Kernel& kernel, const Kernel& expected) {
  Trial trial(of);
  Trial right(of);
  platform::SignalGuard guard;
  const int signal = guard.run_guarded([&] { trial.run(kernel); });
  if (signal != 0) return std::string("raises ") + platform::signal_name(signal);
  right.run(expected);
  const size_t bytes = right.output().size() * sizeof(right.output()[0]);
  return std::memcmp(trial.output().data(), right.output().data(), bytes) == 0 ? "" : "is wrong";
}

Status try_products() {
  const MatrixMultiplies multiplies = matrix_multiplies_for(Isa::Amx);
  const IntegerProducts* expected = integer_products_for(Isa::Avx512Vnni);
  for (size_t i = 0; i < multiplies.count; ++i) {
    const IntegerProduct* product =
        std::find_if(expected->products, expected->products + expected->count,
                     [&](const IntegerProduct& other) { return other.type == multiplies.of[i].type; });
    const std::string difference = difference_of_products(multiplies.of[i].multiply, product->multiply);
    if (difference.empty()) continue;
    return Status::error(format("a product of %s %s", ggml_type_name(product->type), difference.c_str()));
  }
  return {};
}

Status try_int8() {
  const std::string difference = difference_of_tiles(tiles_for(Isa::Amx), tiles_for(Isa::Avx512Vnni));
  return difference.empty() ? try_products() : Status::error("a layer of integers " + difference);
}

Status try_bfloats() {
  const BfloatTiles& expected = *bfloat_tiles_for(Isa::Avx512Bf16);
  const std::string difference = difference_of_bfloats(*bfloat_tiles_for(Isa::Amx), expected);
  return difference.empty() ? Status() : Status::error("a product of bf16 " + difference);
}

struct AmxUse {
  const char* name;
  Status (*try_kernels)();
};

constexpr AmxUse kUses[] = {{"int8", try_int8}, {"bf16", try_bfloats}};

void warn(const std::string& message) {
  ggml_log_callback log = nullptr;
  void* data = nullptr;
  ggml_log_get(&log, &data);
  if (log != nullptr) log(GGML_LOG_LEVEL_WARN, message.c_str(), data);
}

}  // namespace

std::string difference_of_tiles(const QuantizedTiles& tiles, const QuantizedTiles& expected) {
  for (const TileCase& of : kTileCases) {
    const std::string difference = difference_on<TileTrial>(of, tiles, expected);
    if (difference.empty()) continue;
    return format("of %d pixels by %d channels, %d deep, %s", of.rows, static_cast<int>(of.channels),
                  static_cast<int>(of.quads * kQuad), difference.c_str());
  }
  return "";
}

std::string difference_of_products(Multiply multiply, Multiply expected) {
  for (const ProductCase& of : kProductCases) {
    const std::string difference = difference_on<ProductTrial>(of, multiply, expected);
    if (difference.empty()) continue;
    return format("of %d rows by %d columns, %d blocks long, %s", static_cast<int>(of.rows),
                  static_cast<int>(of.columns), static_cast<int>(of.blocks), difference.c_str());
  }
  return "";
}

std::string difference_of_bfloats(const BfloatTiles& tiles, const BfloatTiles& expected) {
  for (const BfloatCase& of : kBfloatCases) {
    const std::string difference = difference_on<BfloatTrial>(of, tiles, expected);
    if (difference.empty()) continue;
    return format("of %d rows by %d columns, %d deep, %s", static_cast<int>(of.rows), static_cast<int>(of.columns),
                  static_cast<int>(2 * of.pairs), difference.c_str());
  }
  return "";
}

bool amx_multiplies(AmxType type) {
  constexpr bool kHasIntegers = kHasQuantizedTypes || is_built(DType::I8) || is_built(DType::U8);
  if constexpr (!kHasIntegers && !is_built(DType::Bf16)) return false;
  static const auto is_right = [](AmxType tried) {
    if (!cpu_has_amx(tried)) return false;
    const AmxUse& use = kUses[static_cast<int>(tried)];
    const Status status = without_exceptions([&] {
      EXECUTORCH_GGML_TRY(platform::enable_tile_registers());
      return use.try_kernels();
    });
    if (!status.ok()) warn(format("AMX is not used for %s: %s\n", use.name, status.message().c_str()));
    return status.ok();
  };
  static const bool int8 = is_right(AmxType::Int8);
  static const bool bfloats = is_right(AmxType::Bfloat16);
  return type == AmxType::Int8 ? int8 : bfloats;
}

Isa amx_or_below(AmxType type, Isa isa) { return isa == Isa::Amx && !amx_multiplies(type) ? Isa::Avx512Bf16 : isa; }

}  // namespace executorch_ggml::kernels
