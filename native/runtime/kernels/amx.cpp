#include "kernels/amx.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <vector>

#include "ggml.h"
#include "kernels/quantized/layer.h"
#include "kernels/simd/isa.h"
#include "result.h"
#include "signal_guard.h"
#include "status.h"

#if EXECUTORCH_GGML_ISA_AMX && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace executorch_ggml::kernels {
namespace {

// ------------------------------------------------------------------------------------------ the CPU and the system

#if EXECUTORCH_GGML_ISA_AMX && defined(__linux__)
uint64_t enabled_states() {
  uint32_t low = 0;
  uint32_t high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low | static_cast<uint64_t>(high) << 32;
}

bool cpu_has_amx() {
  constexpr unsigned kXgetbv = 1u << 27;               // leaf 1, ecx
  constexpr unsigned kTileInt8 = 1u << 24 | 1u << 25;  // leaf 7, edx: amx-tile and amx-int8
  constexpr uint64_t kTileStates = 1u << 17 | 1u << 18;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kXgetbv) == 0) return false;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kTileInt8) != kTileInt8) return false;
  return (enabled_states() & kTileStates) == kTileStates;
}

// For all of the process's threads, those that it starts later too.
Status ask_for_amx() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0) return {};
  return Status::error(format("the system refuses it (%s)", std::strerror(errno)));
}
#else
bool cpu_has_amx() { return false; }
Status ask_for_amx() { return {}; }
#endif

// ------------------------------------------------------------------------------------------------------------ trial

struct TileCase {
  int rows;
  int64_t quads;
  int64_t channels;
};

// One and two tiles each way, filled and not, of one step, of even steps, and with a last one that overlaps.
constexpr TileCase kTileCases[] = {{32, 16, 32}, {32, 37, 32}, {19, 24, 27}, {16, 9, 16}, {5, 50, 7}};

// The bytes that a tile writes to.
std::vector<uint8_t> tile_output(const QuantizedTiles& tiles, const TileCase& of) {
  std::minstd_rand random(static_cast<unsigned>(of.quads));
  const auto draw = [&](size_t count) {
    std::vector<uint8_t> bytes(count);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random() >> 8);
    return bytes;
  };
  const int64_t row_bytes = of.quads * kQuad;
  const int64_t block_bytes = of.quads * kQuadBytes + kQuantizedBlock * static_cast<int64_t>(sizeof(int32_t));
  const std::vector<uint8_t> rows = draw(static_cast<size_t>(kMaxQuantizedRows * row_bytes));
  std::vector<uint8_t> blocks = draw(static_cast<size_t>(2 * block_bytes));
  for (int block = 0; block < 2; ++block) {
    uint8_t* sums = blocks.data() + block * block_bytes + of.quads * kQuadBytes;
    for (int lane = 0; lane < kQuantizedBlock; ++lane) {
      const auto sum = static_cast<int32_t>(random() % 4096) - 2048;
      std::memcpy(sums + lane * sizeof(sum), &sum, sizeof(sum));
    }
  }
  const std::vector<float> scales(2 * kQuantizedBlock, 3e-4f);
  const Requantize format = {DType::U8, 117, 0.0f, 255.0f};
  std::vector<uint8_t> output(static_cast<size_t>(of.rows * of.channels));
  QuantizedTile tile = {};
  tile.rows = rows.data();
  tile.row_bytes = row_bytes;
  tile.quads = of.quads;
  tile.weights = reinterpret_cast<const int8_t*>(blocks.data());
  tile.sums = reinterpret_cast<const int32_t*>(blocks.data() + of.quads * kQuadBytes);
  tile.block_bytes = block_bytes;
  tile.scale = scales.data();
  tile.output = reinterpret_cast<char*>(output.data());
  tile.output_pitch = of.channels;
  tile.channels = of.channels;
  tile.zero = 131;
  tile.format = &format;
  TileState before;
  if (tiles.begin != nullptr) tiles.begin(of.quads, &before);
  for (int row = 0; row < of.rows;) {
    const int some = std::min(tiles.rows, of.rows - row);
    tiles.run[some - 1](tile);
    tile.rows = static_cast<const char*>(tile.rows) + some * row_bytes;
    tile.output += some * of.channels;
    row += some;
  }
  if (tiles.end != nullptr) tiles.end(before);
  return output;
}

Status try_kernels() {
  const std::string difference = difference_of_tiles(tiles_for(Isa::Amx), tiles_for(Isa::Avx512Vnni));
  return difference.empty() ? Status() : Status::error("a layer of integers " + difference);
}

void warn(const std::string& message) {
  ggml_log_callback log = nullptr;
  void* data = nullptr;
  ggml_log_get(&log, &data);
  if (log != nullptr) log(GGML_LOG_LEVEL_WARN, message.c_str(), data);
}

}  // namespace

std::string difference_of_tiles(const QuantizedTiles& tiles, const QuantizedTiles& expected) {
  SignalGuard guard;
  for (const TileCase& of : kTileCases) {
    std::vector<uint8_t> output;
    const int signal = guard.run_guarded([&] { output = tile_output(tiles, of); });
    if (signal != 0) return std::string("raises ") + signal_name(signal);
    if (output != tile_output(expected, of)) {
      return format("of %d pixels by %d channels, %d deep, is wrong", of.rows, static_cast<int>(of.channels),
                    static_cast<int>(of.quads * kQuad));
    }
  }
  return "";
}

bool amx_works() {
  static const bool works = [] {
    if (!cpu_has_amx()) return false;
    const Status status = without_exceptions([] {
      EXECUTORCH_GGML_TRY(ask_for_amx());
      return try_kernels();
    });
    if (!status.ok()) warn("AMX is not used: " + status.message() + "\n");
    return status.ok();
  }();
  return works;
}

}  // namespace executorch_ggml::kernels
