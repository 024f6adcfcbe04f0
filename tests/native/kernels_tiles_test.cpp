// Kernels by tiles (AMX) of int8, and layers of integers on all levels, against plain sums: with the tile instructions
// emulated in C++ on every machine, with the compiled instructions emulated one by one where the CPU has AVX-512 VNNI
// but no AMX, and on every instruction set of this CPU.
#define KERNEL_ISA emulated

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "instruction_sets.h"
#include "kernels/amx.h"
#include "kernels/kernels.h"
#include "kernels/product/matrix_product.h"
#include "kernels/quantized/byte_inputs.h"
#include "kernels/quantized/matrix_tiles.h"
#include "kernels/quantized/winograd.h"
#include "tile_check.h"
#include "timing.h"

namespace executorch_ggml::kernels::emulated {
namespace {

using executorch_ggml::testing::EmulatedTiles;

template <int Rows>
void run(const QuantizedTile& tile) {
  run_matrix_tile<EmulatedTiles>(tile, Rows);
}

template <int... Number>
constexpr QuantizedTiles tiles_of(std::integer_sequence<int, Number...>) {
  return {kMatrixRows,
          kTileRows,
          kMatrixChannels,
          sizeof(uint8_t),
          4096,
          true,
          arrange_bytes<false>,
          begin_matrix_tiles<EmulatedTiles>,
          end_matrix_tiles<EmulatedTiles>,
          {run<Number + 1>...}};
}

}  // namespace
}  // namespace executorch_ggml::kernels::emulated

namespace executorch_ggml {
namespace {

using kernels::AmxType;
using kernels::IntegerWinogradParams;
using kernels::Isa;
using kernels::QuantizedLayerParams;
using kernels::QuantizedTiles;
using testing::below;
using testing::expect;
using testing::failures;
using testing::GuardedBytes;
using testing::random_bits;
using testing::result_extent;
using testing::run_share;
using testing::set_dense;
using testing::TileUnit;

constexpr QuantizedTiles kEmulated =
    kernels::emulated::tiles_of(std::make_integer_sequence<int, kernels::emulated::kMatrixRows>());

// ------------------------------------------------------------------------------------------------------- emulation

// Products of known numbers: signs, sums that wrap, rows and bytes past a tile's shape.
void check_emulation() {
  TileUnit unit;
  kernels::emulated::TileShapes shapes(3, 2, 2);
  unit.configure(&shapes);
  uint8_t rows[3][8];
  for (auto& row : rows) {
    for (int i = 0; i < 8; ++i) row[i] = static_cast<uint8_t>(200 + i);
  }
  uint8_t columns[2][64];
  for (auto& quad : columns) std::fill(quad, quad + 64, static_cast<uint8_t>(-3));
  int32_t start[16];
  std::fill(start, start + 16, INT32_MAX);
  unit.load(0, start, 0);
  unit.zero(1);
  unit.load(4, rows, 8);
  unit.load(6, columns, 64);
  unit.add_products<uint8_t, int8_t>(0, 4, 6);
  unit.add_products<int8_t, uint8_t>(1, 4, 6);
  int32_t sums[2][4][16] = {};
  unit.store(0, sums[0], 64);
  unit.store(1, sums[1], 64);
  const int32_t wrapped = static_cast<int32_t>(static_cast<uint32_t>(INT32_MAX) - 3u * 1628u);
  for (int row = 0; row < 4; ++row) {
    for (int lane = 0; lane < 16; ++lane) {
      expect(sums[0][row][lane] == (row < 3 ? wrapped : 0), "unsigned rows by signed columns");
      expect(sums[1][row][lane] == (row < 3 ? 253 * (1628 - 8 * 256) : 0), "signed rows by unsigned columns");
    }
  }
  unit.configure(&shapes);
  unit.store(0, sums[0], 64);
  expect(sums[0][0][0] == 0, "configuring clears the tiles");
  unit.release();
  expect(!unit.is_configured(), "release");
}

// ---------------------------------------------------------------------------------------------- layers of integers

struct LayerCase {
  int64_t in, out, width, height, images;
  Window window = {};
  int64_t groups = 1;
  bool is_signed = true;
  int64_t zero = 3;
  DType result = DType::I8;
  bool has_bias = true;
  int8_t largest = 0;  // all weights, and all inputs are as far from 0 as they go; 0: random ones
};

class Layer {
 public:
  explicit Layer(const LayerCase& of)
      : of_(of),
        width_(result_extent(of.window, of.width)),
        height_(result_extent(of.window, of.height)),
        group_in_(of.in / of.groups),
        group_out_(of.out / of.groups),
        depth_(group_in_ * of.window.kernel * of.window.kernel),
        quads_((depth_ + 3) / 4),
        blocks_((group_out_ + 15) / 16),
        block_bytes_(quads_ * 64 + 64),
        x_(static_cast<size_t>(of.in * of.width * of.height * of.images)),
        weights_(static_cast<size_t>(of.groups * blocks_ * block_bytes_)),
        item_(of.result == DType::F32 ? 4 : 1),
        y_(static_cast<size_t>(pixels() * of.out * item_)) {
    x_.randomize();
    if (of.largest != 0) std::memset(x_.data(), of.is_signed ? -128 : 255, x_.size());
    fill_weights();
    for (int64_t i = 0; i < of.out; ++i) {
      scales_.push_back(1e-3f * static_cast<float>(1 + below(9)) / std::sqrt(static_cast<float>(depth_)));
      biases_.push_back(static_cast<float>(below(200) - 100) / 7.0f);
    }
    set_dense(&src_[0], GGML_TYPE_I8, {of.in, of.width, of.height, of.images}, x_.data());
    set_dense(&src_[1], GGML_TYPE_I8, {16, 4, quads_ + 1, of.groups * blocks_}, weights_.data());
    set_dense(&src_[2], GGML_TYPE_F32, {of.out, 1, 1, 1}, scales_.data());
    set_dense(&src_[3], GGML_TYPE_F32, {of.out, 1, 1, 1}, biases_.data());
    set_dense(&dst_, of.result == DType::F32 ? GGML_TYPE_F32 : GGML_TYPE_I8, {of.out, width_, height_, of.images},
              y_.data());
    for (int i = 0; i < (of.has_bias ? 4 : 3); ++i) dst_.src[i] = &src_[i];
    call_.src[0] = of.is_signed ? DType::I8 : DType::U8;
    call_.dst = of.result;
    call_.params.window = {of.window, of.window};
    call_.params.groups = of.groups;
    call_.params.zero = of.zero;
    call_.params.weights = Storage::KernelBlocks;
    const bool is_signed = of.result == DType::I8;
    call_.params.output = {of.result, is_signed ? -7 : 130, is_signed ? -128.0f : 0.0f, is_signed ? 127.0f : 255.0f};
    if (of.result == DType::F32) call_.params.output = {DType::F32, 0, -1e30f, 1e30f};
  }

  void check(const QuantizedTiles& tiles, const char* name) {
    for (const int threads : {1, 3}) {
      std::memset(y_.data(), 0x5a, static_cast<size_t>(pixels() * of_.out * item_));
      for (int ith = 0; ith < threads; ++ith) {
        run_share(ith, name, [&] { kernels::quantized_layer_by(tiles, &dst_, ith, threads, &call_); });
      }
      compare(name);
    }
  }

  // A call's seconds, and how many multiply-adds it is.
  double time(int threads) {
    const QuantizedTiles& tiles = kernels::tiles_for(kernels::amx_or_below(AmxType::Int8, kernels::active_isa()));
    return time_rounds(threads, kRounds,
                       [&](int ith) { kernels::quantized_layer_by(tiles, &dst_, ith, threads, &call_); });
  }
  template <int64_t Side>
  double time_winograd(int threads) {
    auto call = winograd_call(Side);
    return time_rounds(threads, kRounds,
                       [&](int ith) { kernels::integer_winograd_conv_2d(&dst_, ith, threads, &call); });
  }
  double work() const { return static_cast<double>(pixels() * of_.out * depth_); }

  // Winograd's results equal the direct convolution's bit for bit.
  void check_winograd(const char* name, int64_t side) {
    const auto bytes = static_cast<size_t>(pixels() * of_.out * item_);
    kernels::quantized_layer_by(kernels::tiles_for(kernels::active_isa()), &dst_, 0, 1, &call_);
    const std::vector<unsigned char> direct(y_.data(), y_.data() + bytes);
    auto call = winograd_call(side);
    for (const int threads : {1, 2, 3}) {
      std::memset(y_.data(), 0x5a, bytes);
      for (int ith = 0; ith < threads; ++ith) {
        run_share(ith, name, [&] { kernels::integer_winograd_conv_2d(&dst_, ith, threads, &call); });
      }
      compare(name);
      expect(std::memcmp(direct.data(), y_.data(), bytes) == 0, std::string("a direct convolution differs on ") + name);
    }
  }

  ggml_tensor winograd_weight() {
    ggml_tensor weight{};
    set_dense(&weight, GGML_TYPE_I8, {3, 3, of_.in, of_.out}, weights_.data());
    return weight;
  }

 private:
  static constexpr int kRounds = 100;

  int64_t pixels() const { return width_ * height_ * of_.images; }

  KernelCall<IntegerWinogradParams> winograd_call(int64_t side) const {
    KernelCall<IntegerWinogradParams> call;
    static_cast<KernelCallBase&>(call) = call_;
    call.params = {call_.params, side};
    return call;
  }

  void fill_weights() {
    weights_.randomize();
    if (of_.largest != 0) std::memset(weights_.data(), of_.largest, weights_.size());
    for (int64_t block = 0; block < of_.groups * blocks_; ++block) {
      auto* of_block = reinterpret_cast<int8_t*>(weights_.data()) + block * block_bytes_;
      const int64_t lanes = std::min<int64_t>(16, group_out_ - block % blocks_ * 16);
      int32_t sums[16] = {};
      for (int64_t lane = 0; lane < 16; ++lane) {
        for (int64_t k = 0; k < quads_ * 4; ++k) {
          int8_t& weight = of_block[k / 4 * 64 + lane * 4 + k % 4];
          if (lane >= lanes || k >= depth_) weight = 0;
          sums[lane] += weight;
        }
      }
      std::memcpy(of_block + quads_ * 64, sums, sizeof(sums));
    }
  }

  int input(int64_t channel, int64_t x, int64_t y, int64_t image) const {
    const auto byte = static_cast<int8_t>(
        const_cast<GuardedBytes&>(x_).data()[((image * of_.height + y) * of_.width + x) * of_.in + channel]);
    return (of_.is_signed ? byte : static_cast<uint8_t>(byte)) - static_cast<int>(of_.zero);
  }

  int weight(int64_t channel, int64_t k) const {
    const int64_t block = channel / group_out_ * blocks_ + channel % group_out_ / 16;
    const int64_t lane = channel % group_out_ % 16;
    const int64_t at = block * block_bytes_ + k / 4 * 64 + lane * 4 + k % 4;
    return static_cast<int8_t>(const_cast<GuardedBytes&>(weights_).data()[at]);
  }

  double expected(int64_t channel, int64_t x, int64_t y, int64_t image) const {
    const Window& w = of_.window;
    int64_t sum = 0;
    for (int64_t ky = 0; ky < w.kernel; ++ky) {
      for (int64_t kx = 0; kx < w.kernel; ++kx) {
        const int64_t from_x = x * w.stride - w.pad + kx * w.dilation;
        const int64_t from_y = y * w.stride - w.pad + ky * w.dilation;
        if (from_x < 0 || from_y < 0 || from_x >= of_.width || from_y >= of_.height) continue;
        for (int64_t i = 0; i < group_in_; ++i) {
          sum += static_cast<int64_t>(input(channel / group_out_ * group_in_ + i, from_x, from_y, image)) *
                 weight(channel, (ky * w.kernel + kx) * group_in_ + i);
        }
      }
    }
    const auto at = static_cast<size_t>(channel);
    return static_cast<double>(sum) * static_cast<double>(scales_[at]) +
           (of_.has_bias ? static_cast<double>(biases_[at]) : 0.0);
  }

  // In the middle between two steps either is right.
  bool is_right(double want, int64_t at) {
    if (of_.result == DType::F32) {
      float value = 0.0f;
      std::memcpy(&value, y_.data() + at * 4, sizeof(value));
      return std::fabs(static_cast<double>(value) - want) <= 1e-5 * (std::fabs(want) + 100.0);
    }
    const Requantize& output = call_.params.output;
    const int value =
        output.dtype == DType::I8 ? static_cast<int8_t>(y_.data()[at]) : static_cast<uint8_t>(y_.data()[at]);
    const double exact = std::clamp(want + static_cast<double>(output.zero), static_cast<double>(output.low),
                                    static_cast<double>(output.high));
    return std::fabs(value - exact) <= 0.5 + 1e-4;
  }

  void compare(const char* name) {
    int64_t at = 0;
    for (int64_t image = 0; image < of_.images; ++image) {
      for (int64_t y = 0; y < height_; ++y) {
        for (int64_t x = 0; x < width_; ++x) {
          for (int64_t channel = 0; channel < of_.out; ++channel, ++at) {
            if (is_right(expected(channel, x, y, image), at)) continue;
            return expect(false, std::string("layer on ") + name + ": " + std::to_string(of_.in) + " to " +
                                     std::to_string(of_.out) + " channels, " + std::to_string(pixels()) + " pixels");
          }
        }
      }
    }
  }

  LayerCase of_;
  int64_t width_, height_, group_in_, group_out_, depth_, quads_, blocks_, block_bytes_;
  GuardedBytes x_, weights_;
  int64_t item_;
  GuardedBytes y_;
  std::vector<float> scales_, biases_;
  ggml_tensor src_[4] = {}, dst_{};
  KernelCall<QuantizedLayerParams> call_;
};

void check_layer(const QuantizedTiles& tiles, const char* name, const LayerCase& of) {
  if (testing::is_sampled()) Layer(of).check(tiles, name);
}

void check_layers(const QuantizedTiles& tiles, const char* name) {
  random_bits.seed(11);
  for (int64_t rows = 1; rows <= 33; ++rows) {
    check_layer(tiles, name, {68, 37, rows, 1, 1});
    check_layer(tiles, name, {72, 16, rows, 1, 1, {}, 1, false, 141, DType::U8});
  }
  for (const int64_t in : {1, 3, 5, 12, 13, 63, 64, 65, 127, 146, 184, 200, 260, 300, 1030}) {
    for (const int64_t out : {1, 15, 16, 17, 32, 33, 50}) {
      for (const int64_t rows : {5, 16, 49}) {
        const bool is_signed = below(2) == 0;
        const DType result = std::array{DType::I8, DType::U8, DType::F32}[static_cast<size_t>(below(3))];
        check_layer(tiles, name,
                    {in, out, rows, 1, 1, {}, 1, is_signed, below(200) - (is_signed ? 100 : 0), result, below(2) == 0});
      }
    }
  }
  check_layer(tiles, name, {3, 24, 19, 17, 2, {3, 2, 1}});
  check_layer(tiles, name, {24, 40, 9, 8, 2, {3, 1, 1}, 1, false, 0, DType::U8});
  check_layer(tiles, name, {24, 40, 9, 8, 1, {3, 1, 2, 2}, 4, false, 9});
  check_layer(tiles, name, {8, 70, 30, 10, 1, {1, 2}, 2});
  for (const int64_t width : {7, 14, 16, 28, 30, 45}) {  // but for 7, tiles are of pixels of one line
    const bool is_signed = below(2) == 0;
    check_layer(tiles, name, {12, 37, width, 5, 2, {3, 1, 1}, 1, is_signed, below(100), DType::U8, below(2) == 0});
    check_layer(tiles, name, {70, 20, width, 3, 1, {3, 1, 1}, 1, is_signed, below(100), DType::F32});
  }
  check_layer(tiles, name, {3, 40, 63, 9, 1, {7, 2, 3}});
  check_layer(tiles, name, {5, 24, 30, 6, 2, {5, 1, 2}});
  check_layer(tiles, name, {16, 33, 31, 4, 1, {3, 2, 0}, 1, false, 7, DType::U8});
}

// By tiles of 2x2, and by those of 4x4 where they hold the results.
void check_winograd(const char* name, const LayerCase& of) {
  if (!testing::is_sampled()) return;
  Layer layer(of);
  layer.check_winograd(name, 2);
  const ggml_tensor weight = layer.winograd_weight();
  if (kernels::fits_tiles_of_four(&weight, of.zero)) layer.check_winograd(name, 4);
}

void check_winograds(const char* name) {
  random_bits.seed(12);
  for (const int64_t in : {1, 2, 3, 16, 18, 31, 32, 33, 70}) {
    for (const int64_t out : {1, 15, 16, 17, 40}) {
      const bool is_signed = below(2) == 0;
      const DType result = std::array{DType::I8, DType::U8, DType::F32}[static_cast<size_t>(below(3))];
      const int64_t zero = below(200) - (is_signed ? 100 : 0);
      check_winograd(name, {in, out, 7, 6, 2, {3, 1, 1}, 1, is_signed, zero, result, below(2) == 0});
    }
  }
  for (int64_t size = 1; size <= 9; ++size) {
    check_winograd(name, {20, 24, size, 10 - size, 1, {3, 1, 1}});
    check_winograd(name, {20, 24, size + 2, 3, 1, {3, 1, 0}, 1, false, 255, DType::U8});
  }
  check_winograd(name, {96, 80, 40, 30, 1, {3, 1, 1}});  // several groups of tiles
  for (const int64_t in : {128, 129, 300}) {             // weights are transformed 128 inputs at a time
    check_winograd(name, {in, 20, 9, 6, 1, {3, 1, 1}, 1, true, -128});
  }
  for (const bool is_signed : {false, true}) {
    const int64_t zero = is_signed ? 127 : 0;
    for (const int8_t weight : {-128, 127}) {  // results of 26 bits, and of more
      check_winograd(name, {114, 16, 5, 4, 1, {3, 1, 1}, 1, is_signed, zero, DType::F32, true, weight});
      check_winograd(name, {1024, 16, 5, 4, 1, {3, 1, 1}, 1, is_signed, zero, DType::F32, true, weight});
    }
  }
}

// Which weights tiles of 4x4 hold the results of.
void check_tiles_of_four() {
  const auto fits = [](int64_t channels, int8_t weight, int64_t zero) {
    Layer layer({channels, 20, 4, 4, 1, {3, 1, 1}, 1, true, 0, DType::F32, true, weight});
    const ggml_tensor of_layer = layer.winograd_weight();
    return kernels::fits_tiles_of_four(&of_layer, zero);
  };
  for (const int64_t zero : {-128, 0, 127, 255}) {  // an end of int8 or uint8
    expect(fits(114, -128, zero), "9 * 114 * 128 * 255 is less than 2^25");
    expect(!fits(115, -128, zero), "9 * 115 * 128 * 255 is not");
    expect(fits(1024, 14, zero) && !fits(1024, 15, zero), "small weights fit with many channels");
  }
  expect(fits(189, 127, -28) && !fits(190, 127, -28), "9 * 189 * 127 * 155: these bytes are signed");
}

void check_every_isa() {
  for (const Isa isa : testing::isas_of_cpu()) {
    kernels::limit_isa(isa);
    check_layers(kernels::tiles_for(kernels::amx_or_below(AmxType::Int8, isa)), kernels::isa_name(isa));
    check_winograds(kernels::isa_name(isa));
  }
  kernels::limit_isa(kernels::best_isa());
}

// -------------------------------------------------------------------------------------------------------- int8 GEMM

using kernels::ColumnBlock;
using kernels::kIntegerLanes;
using kernels::RowBlock;
using Multiply = decltype(kernels::IntegerProduct::multiply);

// Whether a type has a scale for each half of a block, and minimums.
struct Scaling {
  bool halves;
  bool mins;
};

class Product {
 public:
  static constexpr float kUntouched = -12345.5f;

  Product(int64_t rows, int64_t blocks, int64_t columns)
      : count_(rows),
        blocks_(blocks),
        columns_(columns),
        stride_(columns + below(20)),
        rows_(static_cast<size_t>(rows * blocks) * sizeof(RowBlock)),
        panel_(static_cast<size_t>(blocks * 2) * sizeof(ColumnBlock)) {
    rows_.randomize();
    panel_.randomize();
    const auto number = [] { return static_cast<float>(1 + below(1000)) / 700.0f; };
    for (int64_t i = 0; i < rows * blocks; ++i) {
      row(i).scale = number();
      for (int half = 0; half < 2; ++half) {
        row(i).start[half] = static_cast<int32_t>(below(200000) - 100000);
        row(i).sum[half] = number();
      }
    }
    for (int64_t i = 0; i < 2 * blocks; ++i) {
      for (int half = 0; half < 2; ++half) {
        for (float& scale : block(i).scales[half]) scale = number();
        for (float& min : block(i).mins[half]) min = number();
      }
    }
  }

  std::vector<float> run(Multiply multiply) {
    std::vector<float> output(static_cast<size_t>(count_ * stride_), kUntouched);
    run_share(count_ % 2 == 0 ? 3 : 0, "products",
              [&] { multiply(&row(0), count_, blocks_, &block(0), columns_, output.data(), stride_, {}); });
    return output;
  }

  bool is_right(const std::vector<float>& output, Scaling scaling) {
    for (int64_t i = 0; i < count_; ++i) {
      for (int64_t column = 0; column < stride_; ++column) {
        const float value = output[static_cast<size_t>(i * stride_ + column)];
        if (column >= columns_ ? value != kUntouched : !is_right(value, i, column, scaling)) return false;
      }
    }
    return true;
  }

  std::string name() const {
    return std::to_string(count_) + " rows by " + std::to_string(columns_) + " columns, " + std::to_string(blocks_) +
           " blocks long";
  }

 private:
  RowBlock& row(int64_t i) { return reinterpret_cast<RowBlock*>(rows_.data())[i]; }
  ColumnBlock& block(int64_t i) { return reinterpret_cast<ColumnBlock*>(panel_.data())[i]; }

  bool is_right(float value, int64_t i, int64_t column, Scaling scaling) {
    double want = 0.0;
    double magnitude = 0.0;
    const auto add = [&](double term) {
      want += term;
      magnitude += std::fabs(term);
    };
    for (int64_t b = 0; b < blocks_; ++b) {
      const RowBlock& x = row(i * blocks_ + b);
      const ColumnBlock& weights = block(b * 2 + column / kIntegerLanes);
      const int64_t lane = column % kIntegerLanes;
      const int quads = scaling.halves ? 4 : 8;
      for (int part = 0; part < 8 / quads; ++part) {
        int64_t sum = scaling.mins ? 0 : x.start[part];
        for (int k = part * quads * 4; k < (part + 1) * quads * 4; ++k) {
          sum += x.values[k] * weights.weights[k / 4][lane][k % 4];
        }
        add(static_cast<double>(sum) * static_cast<double>(weights.scales[part][lane]) * static_cast<double>(x.scale));
      }
      if (scaling.mins) add(-static_cast<double>(weights.mins[0][lane]) * static_cast<double>(x.sum[0]));
    }
    return std::fabs(static_cast<double>(value) - want) <= 1e-6 * magnitude;
  }

  int64_t count_, blocks_, columns_, stride_;
  GuardedBytes rows_, panel_;
};

template <class Check>
void each_product(const Check& check) {
  random_bits.seed(13);
  for (const int64_t rows : {1, 2, 7, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 97}) {
    for (const int64_t columns : {1, 15, 16, 17, 31, 32}) {
      for (const int64_t blocks : {1, 2, 3, 8}) {
        if (testing::is_sampled()) check(Product(rows, blocks, columns));
      }
    }
  }
  for (const int64_t rows : {1, 33}) check(Product(rows, 0, 20));
}

template <bool Halves, bool Mins>
void check_product() {
  each_product([](Product&& product) {
    const auto output = product.run(kernels::emulated::MatrixProduct<testing::EmulatedTiles, Halves, Mins>::multiply);
    expect(product.is_right(output, {Halves, Mins}), "product of " + product.name());
  });
}

// Calls check(tiles' multiply, AVX-512 VNNI's, type) for each type that has both.
template <class Check>
void each_compiled_product(const Check& check) {
  const auto multiplies = kernels::matrix_multiplies_for(Isa::Amx);
  const auto* expected = kernels::integer_products_for(Isa::Avx512Vnni);
  if (expected == nullptr) return;
  for (size_t i = 0; i < multiplies.count; ++i) {
    for (size_t j = 0; j < expected->count; ++j) {
      const kernels::IntegerProduct& product = expected->products[j];
      if (product.type == multiplies.of[i].type) check(multiplies.of[i].multiply, product.multiply, product.type);
    }
  }
}

void check_compiled_products() {
  each_compiled_product([](Multiply multiply, Multiply expected, ggml_type type) {
    each_product([&](Product&& product) {
      const std::vector<float> want = product.run(expected);
      const std::vector<float> output = product.run(multiply);
      expect(std::memcmp(output.data(), want.data(), want.size() * sizeof(float)) == 0,
             std::string("product of ") + ggml_type_name(type) + ": " + product.name());
    });
  });
}

// The compiled instructions where they would not run.
void check_compiled_instructions() {
  if (kernels::amx_multiplies(AmxType::Int8)) return check_compiled_products();
#if defined(EXECUTORCH_GGML_TILE_TRAP)
  if (kernels::best_isa() < Isa::Avx512Vnni) return;
  const QuantizedTiles& tiles = kernels::tiles_for(Isa::Amx);
  if (tiles.begin == nullptr) return;  // this compiler has none
  expect(kernels::difference_of_tiles(tiles, kernels::tiles_for(Isa::Avx512Vnni)).find("raises SIGILL") !=
             std::string::npos,
         "the trial sees that this CPU has no AMX");
  int products = 0;
  each_compiled_product([&](Multiply multiply, Multiply expected, ggml_type) {
    ++products;
    expect(kernels::difference_of_products(multiply, expected).find("raises SIGILL") != std::string::npos,
           "and so does that of products");
    expect(kernels::difference_of_products(expected, expected).empty(), "right products pass the trial");
  });
  expect(products == 8, "each type of int8 GEMM has a product by tiles");
  const testing::TileTrap trap;
  check_layers(tiles, "amx, emulated instruction by instruction");
  check_compiled_products();
  expect(testing::TileTrap::count() > 10000 / testing::stride(), "the instructions ran");
#endif
}

// ----------------------------------------------------------------------------------------------------- the trial

void run_wrongly(const kernels::QuantizedTile& tile) {
  kEmulated.run[31](tile);
  tile.output[0] = static_cast<char>(tile.output[0] + 1);
}

void run_into_a_signal(const kernels::QuantizedTile&) { raise(SIGILL); }

void multiply_wrongly(const RowBlock* rows, int64_t count, int64_t blocks, const ColumnBlock* panel, int64_t columns,
                      float* output, int64_t stride, kernels::NextRead next) {
  kernels::emulated::MatrixProduct<testing::EmulatedTiles, false, false>::multiply(rows, count, blocks, panel, columns,
                                                                                   output, stride, next);
  output[count * stride - 1] += 1.0f;
}

void check_trial() {
  const Multiply right = kernels::emulated::MatrixProduct<testing::EmulatedTiles, false, false>::multiply;
  expect(kernels::difference_of_products(right, right).empty(), "right products pass the trial");
  expect(kernels::difference_of_products(multiply_wrongly, right).find("is wrong") != std::string::npos,
         "wrong products do not");
  expect(kernels::difference_of_tiles(kEmulated, kEmulated).empty(), "right tiles pass the trial");
  QuantizedTiles wrong = kEmulated;
  wrong.run[31] = run_wrongly;
  expect(kernels::difference_of_tiles(wrong, kEmulated).find("is wrong") != std::string::npos, "wrong tiles do not");
  QuantizedTiles deadly = kEmulated;
  deadly.run[18] = run_into_a_signal;
  expect(kernels::difference_of_tiles(deadly, kEmulated).find("raises SIGILL") != std::string::npos,
         "nor tiles that die");
}

// ------------------------------------------------------------------------------------------------------------ times

void print_time(const char* name, const LayerCase& of, const char* how, double (Layer::*time)(int)) {
  Layer layer(of);
  std::printf("%-28s", name);
  for (const int threads : {1, 2}) {
    const double seconds = (layer.*time)(threads);
    std::printf("  %8.3f ms %6.1f G multiply-adds/s", seconds * 1e3, layer.work() / seconds * 1e-9);
  }
  std::printf("  %s\n", how);
}

void bench_layer(const char* name, const LayerCase& of) {
  print_time(name, of, "", &Layer::time);
  if (of.window.kernel != 3 || of.window.stride != 1) return;
  print_time(name, of, "by Winograd, tiles of 2x2", &Layer::time_winograd<2>);
  print_time(name, of, "by Winograd, tiles of 4x4", &Layer::time_winograd<4>);
}

void bench() {
  bench_layer("7x7/2 3>64 224", {3, 64, 224, 224, 1, {7, 2, 3}});
  bench_layer("3x3 64>64 56", {64, 64, 56, 56, 1, {3, 1, 1}});
  bench_layer("3x3/2 64>128 56", {64, 128, 56, 56, 1, {3, 2, 1}});
  bench_layer("3x3 128>128 28", {128, 128, 28, 28, 1, {3, 1, 1}});
  bench_layer("3x3 256>256 14", {256, 256, 14, 14, 1, {3, 1, 1}});
  bench_layer("3x3 512>512 7", {512, 512, 7, 7, 1, {3, 1, 1}});
  bench_layer("3x3/2 3>32 224", {3, 32, 224, 224, 1, {3, 2, 1}});
  bench_layer("1x1 16>96 112", {16, 96, 112, 112, 1});
  bench_layer("1x1 96>24 56", {96, 24, 56, 56, 1});
  bench_layer("1x1 144>32 28", {144, 32, 28, 28, 1});
  bench_layer("1x1 64>384 14", {64, 384, 14, 14, 1});
  bench_layer("1x1 384>64 14", {384, 64, 14, 14, 1});
  bench_layer("1x1 960>160 7", {960, 160, 7, 7, 1});
  bench_layer("1x1 320>1280 7", {320, 1280, 7, 7, 1});
  bench_layer("linear 384>1536, 128", {384, 1536, 128, 1, 1});
  bench_layer("linear 1536>384, 128", {1536, 384, 128, 1, 1});
}

}  // namespace
}  // namespace executorch_ggml

// --bench [level] measures on an instruction set, else all tests run.
int main(int argc, char** argv) {
  using namespace executorch_ggml;
  if (argc > 1 && std::strcmp(argv[1], "--bench") == 0) {
    if (argc > 2) kernels::limit_isa(static_cast<Isa>(std::atoi(argv[2])));
    bench();
    return 0;
  }
  check_emulation();
  check_trial();
  check_layers(kEmulated, "emulated tiles");
  check_product<false, false>();
  check_product<false, true>();
  check_product<true, false>();
  check_tiles_of_four();
  check_every_isa();
  check_compiled_instructions();
  std::printf(failures == 0 ? "tiles: all as expected\n" : "tiles: %d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
