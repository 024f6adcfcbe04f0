// Kernels of bf16 by tile registers (AMX) against plain sums, with the tile instructions emulated in C++ on every
// machine, with the compiled instructions emulated one by one where the CPU has AVX512-BF16 but no AMX, and with all
// that this CPU has. Inputs and weights end where memory does.
#define KERNEL_ISA emulated

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "instruction_sets.h"
#include "kernels/amx.h"
#include "kernels/convolution/bfloat_matrix_tiles.h"
#include "kernels/convolution/bfloats.h"
#include "kernels/kernels.h"
#include "kernels/product/bfloat_product.h"
#include "tile_check.h"

namespace executorch_ggml {
namespace {

using kernels::BfloatTiles;
using kernels::Isa;
using testing::below;
using testing::EmulatedTiles;
using testing::expect;
using testing::failures;
using testing::GuardedBytes;
using testing::random_bits;
using testing::result_extent;
using testing::run_share;
using testing::set_dense;
using testing::TileUnit;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// All windows are gathered, those of few inputs too.
const BfloatTiles kEmulated = kernels::emulated::bfloat_matrix_tiles<EmulatedTiles>(nullptr);

// ------------------------------------------------------------------------------------------------------- emulation

uint16_t bfloat(float x) { return ggml_fp32_to_bf16(x).bits; }

// One product of 3 rows by 16 columns, 2 pairs deep, whose rounding tells the order of the sums.
void check_emulation() {
  TileUnit unit;
  const kernels::emulated::TileShapes shapes(3, 0, 2);
  unit.configure(&shapes);
  constexpr float kTiny = 1e-40f;  // denormal
  const float rows[3][4] = {{0x1p24f, 1.0f, 1.0f, 1.0f}, {kTiny, 1.0f, 0x1p-100f, 2.0f}, {kInf, 0.0f, 1.0f, kNan}};
  const float columns[4] = {1.0f, 1.0f, 1.0f, -1.0f};
  uint16_t a[3][4], b[2][16][2];
  for (int row = 0; row < 3; ++row) {
    for (int k = 0; k < 4; ++k) a[row][k] = bfloat(rows[row][k]);
  }
  for (auto& lane : b[0]) lane[0] = bfloat(columns[0]), lane[1] = bfloat(columns[1]);
  for (auto& lane : b[1]) lane[0] = bfloat(columns[2]), lane[1] = bfloat(columns[3]);
  const float start[16] = {1.0f};
  unit.load(0, start, 0);
  unit.load(4, a, sizeof(a[0]));
  unit.load(6, b, 64);
  unit.add_bfloat_products(0, 4, 6);
  float sums[3][16];
  unit.store(0, sums, 64);
  // 2^24 + 1 is 2^24, and 1 - 1 is 0: in the order of the elements, 2^24 + 1 + 1 - 1 would end otherwise with a start
  // of 1.
  expect(sums[0][0] == 0x1p24f && sums[0][1] == 0x1p24f, "first and second elements are summed apart");
  expect(sums[1][1] == -1.0f, "the tiny number is zero");
  expect(std::isnan(sums[2][1]), "NaN stays");
  uint16_t small[2][16][2];
  for (auto& pair : small) {
    for (auto& lane : pair) lane[0] = lane[1] = bfloat(0x1p-60f);
  }
  a[1][0] = a[1][1] = a[1][2] = a[1][3] = bfloat(0x1p-70f);
  unit.zero(0);
  unit.load(4, a, sizeof(a[0]));
  unit.load(6, small, 64);
  unit.add_bfloat_products(0, 4, 6);
  unit.store(0, sums, 64);
  expect(sums[1][1] == 0.0f, "denormal results are zeros");
}

// ---------------------------------------------------------------------------------------------------------- numbers

// What a test's operands hold beside random numbers.
enum class Special { None, InfiniteInputs, NanInputs, InfiniteWeights, TinyInputs };

float number(bool special, Special which, bool of_input) {
  if (special && of_input && which == Special::InfiniteInputs) return below(2) == 0 ? kInf : -kInf;
  if (special && of_input && which == Special::NanInputs) return kNan;
  if (special && of_input && which == Special::TinyInputs) return 1e-39f;
  if (special && !of_input && which == Special::InfiniteWeights) return kInf;
  return static_cast<float>(below(4001) - 2000) / 997.0f;
}

void fill(GuardedBytes& bytes, int64_t count, Special which, bool of_input) {
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t x = bfloat(number(i % 41 == 7, which, of_input));
    std::memcpy(bytes.data() + 2 * i, &x, sizeof(x));
  }
}

// Denormal numbers are zeros, as all instructions for bf16 take them.
double value_at(GuardedBytes& bytes, int64_t i) {
  ggml_bf16_t x;
  std::memcpy(&x, bytes.data() + 2 * i, sizeof(x));
  const float value = ggml_bf16_to_fp32(x);
  return std::fpclassify(value) == FP_SUBNORMAL ? 0.0 : static_cast<double>(value);
}

// A sum and what rounding in any order may change of it.
struct Sum {
  double total = 0.0;
  double magnitude = 0.0;
  int64_t terms = 0;

  void add(double term) {
    total += term;
    magnitude += std::fabs(term);
    ++terms;
  }
  bool is(float value) const {
    if (std::isnan(total)) return std::isnan(value);
    if (std::isinf(total)) return static_cast<double>(value) == total;
    return std::fabs(static_cast<double>(value) - total) <= static_cast<double>(terms + 2) * 0x1p-24 * magnitude;
  }
};

// ----------------------------------------------------------------------------------------------------------- layers

struct LayerCase {
  int64_t in, out, width, height, images;
  Window window = {};
  int64_t groups = 1;
  Special special = Special::None;
  Activation activation = Activation::None;
  bool has_bias = true;
  bool of_floats = false;  // which the layer rounds
  bool in_planes = false;  // of floats, the channels outermost
  bool is_scaled = false;  // likewise, each channel of each image multiplied with a factor
};

class Layer {
 public:
  explicit Layer(const LayerCase& of)
      : of_(of),
        width_(result_extent(of.window, of.width)),
        height_(result_extent(of.window, of.height)),
        group_in_(of.in / of.groups),
        group_out_(of.out / of.groups),
        rows_(group_in_ * of.window.kernel * of.window.kernel),
        stored_rows_(rows_ + rows_ % 2),
        blocks_((group_out_ + 15) / 16),
        inputs_(of.in * of.width * of.height * of.images),
        weight_count_(of.groups * blocks_ * stored_rows_ * 16),
        x_(static_cast<size_t>(2 * inputs_)),
        floats_(static_cast<size_t>(4 * inputs_)),
        weights_(static_cast<size_t>(2 * (weight_count_ + group_in_))),
        y_(static_cast<size_t>(4 * pixels() * of.out)) {
    fill(x_, inputs_, of.special, true);
    fill(weights_, weight_count_, of.special, false);
    clear_unused_weights();
    for (int64_t i = 0; i < of.out; ++i) biases_.push_back(static_cast<float>(below(200) - 100) / 7.0f);
    for (int64_t i = 0; i < of.in * of.images; ++i) factors_.push_back(1.0f / static_cast<float>(1 << below(3)));
    for (int64_t i = 0; i < inputs_; ++i) make_float(i);
    set_dense(&src_[0], of.of_floats ? GGML_TYPE_F32 : GGML_TYPE_BF16, {of.in, of.width, of.height, of.images},
              of.of_floats ? floats_.data() : x_.data());
    if (of.in_planes) set_planes(&src_[0]);
    set_dense(&src_[1], GGML_TYPE_BF16, {weight_count_ + group_in_, 1, 1, 1}, weights_.data());
    set_dense(&src_[2], GGML_TYPE_F32, {of.out, 1, 1, 1}, biases_.data());
    set_dense(&dst_, GGML_TYPE_F32, {of.out, width_, height_, of.images}, y_.data());
    int sources = of.has_bias ? 3 : 2;
    for (int i = 0; i < sources; ++i) dst_.src[i] = &src_[i];
    auto& params = call_.params;
    if (of.is_scaled) {
      set_dense(&src_[sources], GGML_TYPE_F32, {of.in, 1, 1, of.images}, factors_.data());
      params.scale = sources;
      dst_.src[sources] = &src_[sources];
    }
    params.window = {of.window, of.window};
    params.groups = of.groups;
    params.weights = Storage::KernelBlocks;
    params.epilogue.activation = of.activation;
    params.epilogue.low = -0.5f;
    params.epilogue.high = 1.5f;
  }

  void check(const BfloatTiles& tiles, const std::string& name) {
    for (const int threads : {1, 3}) {
      std::memset(y_.data(), 0x5a, static_cast<size_t>(4 * pixels() * of_.out));
      for (int ith = 0; ith < threads; ++ith) {
        run_share(ith, name, [&] { kernels::conv_2d_by_tiles(&dst_, call_, tiles, ith, threads); });
      }
      compare(name);
    }
  }

 private:
  int64_t pixels() const { return width_ * height_ * of_.images; }

  // What a weight's place in the file is: pairs of rows of 16 channels.
  int64_t weight_at(int64_t channel, int64_t row) const {
    const int64_t block = channel / group_out_ * blocks_ + channel % group_out_ / 16;
    return block * stored_rows_ * 16 + row / 2 * 32 + channel % group_out_ % 16 * 2 + row % 2;
  }

  // A float that rounds to an input; infinities, NaN and denormal numbers are themselves. One that is scaled has its
  // factor taken out, a power of two.
  void make_float(int64_t i) {
    uint16_t x = 0;
    std::memcpy(&x, x_.data() + 2 * i, sizeof(x));
    const bool rounds = (x >> 7 & 0xff) != 0xff && (x >> 7 & 0xff) != 0;
    const uint32_t bits = uint32_t{x} << 16 | (rounds ? static_cast<uint32_t>(below(0x8000)) : 0);
    float value = 0;
    std::memcpy(&value, &bits, sizeof(bits));
    if (of_.is_scaled) value /= factor_of(i);
    std::memcpy(floats_.data() + 4 * place_of_float(i), &value, sizeof(value));
  }

  float factor_of(int64_t i) const {
    const int64_t image = i / (of_.in * of_.width * of_.height);
    return factors_[static_cast<size_t>(image * of_.in + i % of_.in)];
  }

  int64_t place_of_float(int64_t i) const {
    if (!of_.in_planes) return i;
    const int64_t plane = of_.width * of_.height;
    const int64_t pixel = i / of_.in;
    return (pixel / plane * of_.in + i % of_.in) * plane + pixel % plane;
  }

  void set_planes(ggml_tensor* images) const {
    images->nb[1] = sizeof(float);
    images->nb[2] = images->nb[1] * static_cast<size_t>(of_.width);
    images->nb[0] = images->nb[2] * static_cast<size_t>(of_.height);
    images->nb[3] = images->nb[0] * static_cast<size_t>(of_.in);
  }

  // Zeros for rows and channels past the last, and after all blocks: those stand for padding.
  void clear_unused_weights() {
    std::memset(weights_.data() + 2 * weight_count_, 0, static_cast<size_t>(2 * group_in_));
    for (int64_t block = 0; block < of_.groups * blocks_; ++block) {
      for (int64_t i = 0; i < stored_rows_ * 16; ++i) {
        const int64_t row = i / 32 * 2 + i % 2;
        if (row < rows_ && block % blocks_ * 16 + i % 32 / 2 < group_out_) continue;
        std::memset(weights_.data() + 2 * (block * stored_rows_ * 16 + i), 0, 2);
      }
    }
  }

  // Where a tap reads along an axis: false between pixels that are spread.
  bool tap_position(int64_t at, int64_t tap, int64_t* from) const {
    const Window& w = of_.window;
    const int64_t spread = at * w.stride - w.pad + tap * w.dilation;
    *from = spread < 0 ? -1 : spread / w.up;
    return spread % w.up == 0;
  }

  Sum expected(int64_t channel, int64_t x, int64_t y, int64_t image) {
    const Window& w = of_.window;
    Sum sum;
    for (int64_t ky = 0; ky < w.kernel; ++ky) {
      for (int64_t kx = 0; kx < w.kernel; ++kx) {
        int64_t from_x = 0, from_y = 0;
        if (!tap_position(x, kx, &from_x) || !tap_position(y, ky, &from_y)) continue;
        const bool inside = from_x >= 0 && from_y >= 0 && from_x < of_.width && from_y < of_.height;
        const int64_t pixel = (image * of_.height + from_y) * of_.width + from_x;
        for (int64_t i = 0; i < group_in_; ++i) {
          const double input = inside ? value_at(x_, pixel * of_.in + channel / group_out_ * group_in_ + i) : 0.0;
          sum.add(input * value_at(weights_, weight_at(channel, (ky * w.kernel + kx) * group_in_ + i)));
        }
      }
    }
    if (of_.has_bias) sum.add(static_cast<double>(biases_[static_cast<size_t>(channel)]));
    return sum;
  }

  Sum activated(Sum sum) const {
    const double x = sum.total;
    if (of_.activation == Activation::Clamp && !std::isnan(x)) sum.total = std::fmin(std::fmax(x, -0.5), 1.5);
    if (of_.activation == Activation::Silu) {
      sum.total = x / (1.0 + std::exp(-x));
      sum.magnitude = 2.0 * sum.magnitude + 4.0 * std::fabs(x);
    }
    return sum;
  }

  void compare(const std::string& name) {
    int64_t at = 0;
    for (int64_t image = 0; image < of_.images; ++image) {
      for (int64_t y = 0; y < height_; ++y) {
        for (int64_t x = 0; x < width_; ++x) {
          for (int64_t channel = 0; channel < of_.out; ++channel, ++at) {
            float value = 0.0f;
            std::memcpy(&value, y_.data() + 4 * at, sizeof(value));
            if (activated(expected(channel, x, y, image)).is(value)) continue;
            return expect(false, "layer on " + name + ": " + std::to_string(of_.in) + " to " + std::to_string(of_.out) +
                                     " channels, " + std::to_string(pixels()) + " pixels, " +
                                     std::to_string(of_.window.kernel) + " wide: " + std::to_string(value));
          }
        }
      }
    }
  }

  LayerCase of_;
  int64_t width_, height_, group_in_, group_out_, rows_, stored_rows_, blocks_, inputs_, weight_count_;
  GuardedBytes x_, floats_, weights_, y_;
  std::vector<float> biases_;
  std::vector<float> factors_;
  ggml_tensor src_[4] = {}, dst_{};
  KernelCall<kernels::ConvolutionParams> call_;
};

void check_layers(const BfloatTiles& tiles, const std::string& name) {
  random_bits.seed(11);
  const auto check = [&](const LayerCase& of) {
    if (testing::is_sampled()) Layer(of).check(tiles, name);
  };
  for (int64_t rows = 1; rows <= 34; ++rows) check({58, 37, rows, 1, 1});
  for (const int64_t in : {2, 6, 30, 32, 34, 62, 64, 66, 130, 258}) {
    for (const int64_t out : {1, 15, 16, 17, 32, 41}) {
      check({in, out, 21, 1, 1, {}, 1, Special::None, Activation::None, below(2) == 0});
    }
  }
  for (const Special special :
       {Special::InfiniteInputs, Special::NanInputs, Special::InfiniteWeights, Special::TinyInputs}) {
    check({58, 37, 35, 1, 1, {}, 1, special});
    check({8, 33, 5, 4, 1, {3, 1, 0}, 1, special, Activation::Clamp});
  }
  for (const Activation activation : {Activation::Clamp, Activation::Silu}) {
    check({20, 40, 7, 5, 1, {3, 1, 1}, 1, Special::None, activation});
    check({20, 40, 7, 5, 1, {}, 1, Special::None, activation});
  }
  check({16, 24, 13, 11, 2, {3, 2, 1}});
  check({24, 40, 9, 8, 2, {3, 1, 1}});
  check({64, 70, 4, 4, 1, {3, 1, 1}});
  check({24, 40, 9, 8, 1, {3, 1, 2, 2}, 4});  // too few inputs to be gathered
  check({128, 72, 7, 6, 1, {3, 1, 1}, 2});
  check({32, 70, 12, 10, 1, {1, 2}});
  check({96, 34, 5, 4, 1, {3, 1, 1, 1, 2}});
  check({32, 16, 5, 4, 1, {2, 1, 1, 1, 3}});
  check({40, 20, 0, 3, 1});
  check({0, 20, 18, 1, 1});
  const auto check_floats = [&](LayerCase of) {
    of.of_floats = true;
    check(of);
  };
  for (const int64_t in : {1, 3, 33, 64, 130, 2048}) check_floats({in, 41, 37, 1, 1});
  for (const Special special : {Special::InfiniteInputs, Special::NanInputs, Special::TinyInputs}) {
    check_floats({31, 37, 35, 1, 1, {}, 1, special});
    check_floats({9, 33, 5, 4, 1, {3, 1, 0}, 1, special, Activation::Clamp});
  }
  check_floats({3, 70, 21, 19, 2, {7, 2, 3}});
  check_floats({64, 70, 9, 8, 2, {3, 1, 1}});
  check_floats({64, 72, 9, 8, 1, {3, 2, 1}, 4});
  for (const int64_t width : {3, 4, 7, 14, 33}) {  // tiles slide over rows from a width of 4 on
    check_floats({34, 37, width, 5, 3, {3, 1, 1}, 1, Special::None, Activation::Silu});
  }
  check_floats({34, 70, 20, 9, 2, {5, 1, 2}, 1, Special::None, Activation::Clamp});
  check_floats({96, 68, 12, 6, 2, {3, 1, 2, 2}, 2});
  check_floats({32, 20, 30, 4, 1, {3, 1, 0}});
  check_floats({32, 20, 31, 1, 1, {2, 1, 1}});
  check({32, 20, 30, 6, 2, {3, 1, 0}});
  check_floats({33, 34, 9, 8, 2, {3, 1, 1}});
  check_floats({32, 16, 5, 4, 1, {2, 1, 1, 1, 3}});
  const auto check_planes = [&](LayerCase of) {
    of.in_planes = true;
    check_floats(of);
  };
  check_planes({3, 70, 21, 19, 2, {7, 2, 3}});
  check_planes({3, 33, 10, 8, 2, {3, 1, 0}, 1, Special::NanInputs, Activation::Clamp});
  check_planes({4, 20, 9, 7, 3, {3, 2, 1}});
  check_planes({2, 41, 33, 5, 1, {5, 1, 2}});
  const auto check_scaled = [&](LayerCase of) {
    of.is_scaled = true;
    check_floats(of);
  };
  for (const int64_t in : {1, 15, 32, 67, 130, 2048}) check_scaled({in, 41, 7, 5, 3});
  check_scaled({64, 33, 14, 14, 2, {}, 1, Special::InfiniteInputs, Activation::Silu, /*has_bias=*/false});
  check_scaled({37, 70, 9, 3, 4, {}, 1, Special::NanInputs, Activation::Clamp});
  check_scaled({48, 20, 5, 5, 2, {}, 1, Special::TinyInputs});
}

// --------------------------------------------------------------------------------------------------------- products

class Product {
 public:
  Product(int64_t rows, int64_t length, int64_t columns, int64_t matrices, bool rounded, Special special)
      : rows_(rows),
        length_(length),
        columns_(columns),
        matrices_(matrices),

        a_(static_cast<size_t>(2 * length * columns)),
        b_(static_cast<size_t>(2 * length * rows * matrices)),
        floats_(static_cast<size_t>(4 * length * rows * matrices)),
        y_(static_cast<size_t>(4 * columns * rows * matrices)) {
    fill(a_, length * columns, special, false);
    fill(b_, length * rows * matrices, special, true);
    for (int64_t i = 0; i < length * rows * matrices; ++i) {
      ggml_bf16_t x;
      std::memcpy(&x, b_.data() + 2 * i, sizeof(x));
      const float value = ggml_bf16_to_fp32(x);
      std::memcpy(floats_.data() + 4 * i, &value, sizeof(value));
    }
    set_dense(&src_[0], GGML_TYPE_BF16, {length, columns, 1, 1}, a_.data());
    set_dense(&src_[1], GGML_TYPE_F32, {length, rows, matrices, 1}, floats_.data());
    set_dense(&src_[2], GGML_TYPE_BF16, {length, rows, matrices, 1}, b_.data());
    set_dense(&dst_, GGML_TYPE_F32, {columns, rows, matrices, 1}, y_.data());
    for (int i = 0; i < (rounded ? 3 : 2); ++i) dst_.src[i] = &src_[i];
  }

  void check(const BfloatTiles& tiles, const std::string& name) {
    for (const int threads : {1, 3}) {
      std::memset(y_.data(), 0x5a, static_cast<size_t>(4 * columns_ * rows_ * matrices_));
      for (int ith = 0; ith < threads; ++ith) {
        run_share(ith, name, [&] { kernels::bfloat_product_by(tiles, &dst_, ith, threads); });
      }
      if (!is_right()) {
        expect(false, "product on " + name + ": " + std::to_string(rows_) + " rows by " + std::to_string(columns_) +
                          " columns, " + std::to_string(length_) + " deep");
      }
    }
  }

 private:
  bool is_right() {
    for (int64_t row = 0; row < rows_ * matrices_; ++row) {
      for (int64_t column = 0; column < columns_; ++column) {
        Sum sum;
        for (int64_t k = 0; k < length_; ++k) {
          sum.add(value_at(b_, row * length_ + k) * value_at(a_, column * length_ + k));
        }
        float value = 0.0f;
        std::memcpy(&value, y_.data() + 4 * (row * columns_ + column), sizeof(value));
        if (!sum.is(value)) return false;
      }
    }
    return true;
  }

  int64_t rows_, length_, columns_, matrices_;
  GuardedBytes a_, b_, floats_, y_;
  ggml_tensor src_[3] = {}, dst_{};
};

void check_products(const BfloatTiles& tiles, const std::string& name) {
  random_bits.seed(13);
  const auto check = [&](int64_t rows, int64_t length, int64_t columns, int64_t matrices, bool rounded,
                         Special special) {
    if (testing::is_sampled()) Product(rows, length, columns, matrices, rounded, special).check(tiles, name);
  };
  for (const int64_t rows : {1, 2, 8, 16, 17, 31, 32, 33, 50}) {
    for (const int64_t columns : {1, 16, 29, 50}) {
      const int64_t length = 2 * (1 + below(70));
      check(rows, length, columns, 1 + below(2), below(2) == 0, Special::None);
    }
  }
  for (const Special special : {Special::InfiniteInputs, Special::NanInputs, Special::InfiniteWeights}) {
    check(20, 58, 33, 1, true, special);
  }
  check(9, 0, 20, 1, true, Special::None);
  check(132, 16384, 26, 1, false, Special::None);  // several panels, blocks and packings
}

void check_all(const BfloatTiles& tiles, const std::string& name) {
  check_layers(tiles, name);
  check_products(tiles, name);
}

// All levels of this CPU that have instructions for bf16.
void check_every_isa() {
  for (const Isa isa : testing::isas_of_cpu()) {
    const BfloatTiles* tiles = kernels::bfloat_conv_tiles(isa);
    if (tiles != nullptr) check_all(*tiles, kernels::isa_name(isa));
  }
}

// The compiled instructions where they would not run.
void check_compiled_instructions() {
#if defined(EXECUTORCH_GGML_TILE_TRAP)
  if (kernels::best_isa() < Isa::Avx512Bf16 || kernels::amx_multiplies(kernels::AmxType::Bfloat16)) return;
  const BfloatTiles& tiles = *kernels::bfloat_tiles_for(Isa::Amx);
  if (tiles.setup == nullptr) return;  // this compiler has none
  const BfloatTiles& below_it = *kernels::bfloat_tiles_for(Isa::Avx512Bf16);
  expect(kernels::difference_of_bfloats(tiles, below_it).find("raises SIGILL") != std::string::npos,
         "the trial sees that this CPU has no AMX");
  expect(kernels::bfloat_conv_tiles(Isa::Amx) == &below_it, "and the level below is used");
  expect(kernels::difference_of_bfloats(kEmulated, below_it).empty(), "the trial's sums are the same in any order");
  const testing::TileTrap trap;
  check_all(tiles, "amx, emulated instruction by instruction");
  expect(testing::TileTrap::count() > 10000 / testing::stride(), "the instructions ran");
#endif
}

// -------------------------------------------------------------------------------------------------------- the trial

void run_wrongly(const kernels::ConvTileOf<uint16_t>& tile) {
  kEmulated.by_rows[31](tile);
  tile.outputs[31][tile.output_offset] += 1.0f;
}

void run_into_a_signal(const kernels::ConvTileOf<uint16_t>&) { raise(SIGILL); }

void check_trial() {
  expect(kernels::difference_of_bfloats(kEmulated, kEmulated).empty(), "right tiles pass the trial");
  BfloatTiles other = kEmulated;
  other.by_rows[31] = run_wrongly;
  expect(kernels::difference_of_bfloats(other, kEmulated).find("is wrong") != std::string::npos, "wrong ones do not");
  other.by_rows[31] = run_into_a_signal;
  expect(kernels::difference_of_bfloats(other, kEmulated).find("raises SIGILL") != std::string::npos,
         "nor those that die");
}

}  // namespace
}  // namespace executorch_ggml

int main() {
  using namespace executorch_ggml;
  check_emulation();
  check_trial();
  check_all(kEmulated, "emulated tiles");
  check_every_isa();
  check_compiled_instructions();
  std::printf(failures == 0 ? "bf16 tiles: all as expected\n" : "bf16 tiles: %d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
