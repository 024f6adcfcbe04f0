// wide_product against plain sums in double, for every type that it takes and on every instruction set of this CPU.
// With --bench, or --bench q8_0 for one type: its speed beside that of ggml's own mul_mat, by type and number of rows.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ggml.h"
#include "instruction_sets.h"
#include "kernels/convolution/conv_2d.h"
#include "kernels/kernels.h"
#include "kernels/product/half_product.h"
#include "kernels/product/integer_product.h"
#include "kernels/product/panels.h"
#include "kernels/simd/isa.h"
#include "peer.h"

namespace executorch_ggml {
namespace {

using testing::ggml_seconds;
using testing::is_sampled;
using testing::seconds_of;

constexpr float kUntouched = -12345.5f;
constexpr int64_t kGuard = 64;

int failures = 0;
std::mt19937 random_bits(5);

// Between -1.75 and 1.75, with a deviation of about 1.
std::vector<float> random_floats(int64_t n) {
  std::vector<float> floats(static_cast<size_t>(n));
  std::generate(floats.begin(), floats.end(),
                [&] { return static_cast<float>(static_cast<int32_t>(random_bits())) * (1.75f / 0x1p31f); });
  return floats;
}

// Types that ggml quantizes by tables which take it seconds to sort: random bytes are blocks of these too.
bool has_sorted_tables(ggml_type type) {
  return type == GGML_TYPE_IQ1_S || type == GGML_TYPE_IQ1_M || type == GGML_TYPE_IQ2_XXS || type == GGML_TYPE_IQ2_XS ||
         type == GGML_TYPE_IQ2_S || type == GGML_TYPE_IQ3_XXS || type == GGML_TYPE_IQ3_S;
}

// A block's scale, of f16: its first bytes, or in IQ1_M the upper four bits of each of its last four words.
void set_scale(ggml_type type, char* block, float scale) {
  const uint16_t half = ggml_fp32_to_fp16(scale);
  if (type != GGML_TYPE_IQ1_M) {
    std::memcpy(block, &half, sizeof(half));
    return;
  }
  char* words = block + ggml_type_size(type) - 4 * sizeof(uint16_t);
  for (int i = 0; i < 4; ++i, words += sizeof(uint16_t)) {
    words[1] = static_cast<char>((words[1] & 0x0f) | (half >> (4 * i) & 0xf) << 4);
  }
}

// Rounded as int8 GEMM quantizes rows: the largest magnitude of each block becomes 127.
std::vector<float> in_8_bits(const std::vector<float>& x) {
  std::vector<float> rounded(x.size());
  for (size_t begin = 0; begin < x.size(); begin += kernels::kIntegerBlock) {
    float largest = 0.0f;
    for (size_t i = begin; i < begin + kernels::kIntegerBlock; ++i) largest = std::max(largest, std::fabs(x[i]));
    for (size_t i = begin; i < begin + kernels::kIntegerBlock; ++i) {
      rounded[i] = largest > 0.0f ? std::nearbyint(x[i] * (127.0f / largest)) * (largest / 127.0f) : 0.0f;
    }
  }
  return rounded;
}

// Rounded as where few long rows are multiplied with an f16 matrix.
std::vector<float> in_halves(std::vector<float> x) {
  for (float& value : x) value = ggml_fp16_to_fp32(ggml_fp32_to_fp16(value));
  return x;
}

// Rounded as where a bf16 matrix is multiplied.
std::vector<float> in_bfloats(std::vector<float> x) {
  for (float& value : x) value = ggml_bf16_to_fp32(ggml_fp32_to_bf16(value));
  return x;
}

// Matrices with their rows side by side, as heads are that are cut from one projection, or one after the other.
void set_shape(ggml_tensor* t, ggml_type type, int64_t width, int64_t rows, int64_t count, bool beside, void* data) {
  t->type = type;
  t->data = data;
  const int64_t ne[] = {width, rows, count, 1};
  std::copy(ne, ne + 4, t->ne);
  const size_t row = ggml_row_size(type, width);
  t->nb[0] = ggml_type_size(type);
  t->nb[1] = beside ? row * static_cast<size_t>(count) : row;
  t->nb[2] = beside ? row : row * static_cast<size_t>(rows);
  t->nb[3] = row * static_cast<size_t>(rows * count);
}

// Matrices in a type, rows of floats (of some matrices for each), and where their products go.
struct Case {
  ggml_type type;
  int64_t length, columns, rows, matrices, repeats;
  std::vector<char> matrix, panels;
  std::vector<float> weights, x, used, out;  // used: x, rounded as the product rounds it
  std::vector<double> sums;                  // the expected products, once they are computed
  std::vector<char> row_blocks;
  ggml_tensor a{}, b{}, converted{}, dst{};
  KernelCall<MulMatParams> call;

  Case(ggml_type of, int64_t length_of, int64_t columns_of, int64_t rows_of, int64_t matrices_of = 1,
       int64_t repeats_of = 1, bool beside = true)
      : type(of), length(length_of), columns(columns_of), rows(rows_of), matrices(matrices_of), repeats(repeats_of) {
    weights = random_floats(length * columns * matrices);
    x = random_floats(length * rows * matrices * repeats);
    used = rounded_as_product();
    matrix.resize(ggml_row_size(type, length) * static_cast<size_t>(columns * matrices) + 1);
    fill_matrix();
    out.resize(static_cast<size_t>(columns * rows * matrices * repeats + 2 * kGuard));
    set_shape(&a, type, length, columns, matrices, beside && !ggml_is_quantized(type), matrix.data());
    set_shape(&b, GGML_TYPE_F32, length, rows, matrices * repeats, beside, x.data());
    set_shape(&dst, GGML_TYPE_F32, columns, rows, matrices * repeats, false, out.data() + kGuard);
    dst.src[0] = &a;
    dst.src[1] = &b;
    call.node = "node";
  }
  Case(const Case&) = delete;

  std::vector<float> rounded_as_product() const {
    if (kernels::integer_product(type) != nullptr) return in_8_bits(x);
    if (type == GGML_TYPE_BF16) return in_bfloats(x);
    return rounds_to_halves() ? in_halves(x) : x;
  }

  bool rounds_to_halves() const {
    return type == GGML_TYPE_F16 && rows <= kernels::kStreamedHalfRows && rows * length > kernels::kStreamedFloats;
  }

  void fill_matrix() {
    if (weights.empty()) return;
    if (type == GGML_TYPE_F32) {
      const auto* bytes = reinterpret_cast<const char*>(weights.data());
      std::copy(bytes, bytes + weights.size() * sizeof(float), matrix.data());
      return;
    }
    if (has_sorted_tables(type)) {
      fill_with_random_blocks();
    } else {
      const std::vector<float> importance(static_cast<size_t>(length), 1.0f);
      ggml_quantize_chunk(type, weights.data(), matrix.data(), 0, columns * matrices, length, importance.data());
    }
    ggml_get_type_traits(type)->to_float(matrix.data(), weights.data(), length * columns * matrices);
  }

  void fill_with_random_blocks() {
    std::generate(matrix.begin(), matrix.end(), [] { return static_cast<char>(random_bits()); });
    const size_t block = ggml_type_size(type);
    for (size_t at = 0; at + block < matrix.size(); at += block) set_scale(type, matrix.data() + at, 0.01f);
  }

  // Has the matrix in panels; false where its type is not multiplied so.
  bool pack_in_panels() {
    if (kernels::panel_product(type) == nullptr) return false;
    panels.resize(kernels::panels_bytes(type, length, columns));
    kernels::pack_panels(type, length, columns, matrix.data(), panels.data());
    a.data = panels.data();
    kernels::mark_panels(&a);
    return true;
  }

  void run(int threads) {
    RunStatus status;
    call.status = &status;
    std::fill(out.begin(), out.end(), kUntouched);
    for (int ith = 0; ith < threads; ++ith) kernels::wide_product(&dst, ith, threads, &call);
    if (!status.ok()) fail(status.message());
  }

  // Converts the activations to the product's type before it runs; false for products of f32 activations.
  bool convert_rows(int threads) { return type == GGML_TYPE_BF16 ? round_to_bfloats() : quantize(threads); }

  bool round_to_bfloats() {
    const auto row_bytes = static_cast<size_t>(length) * sizeof(ggml_bf16_t);
    row_blocks.resize(row_bytes * static_cast<size_t>(ggml_nrows(&b)));
    char* to = row_blocks.data();
    for (int64_t i = 0; i < b.ne[2]; ++i) {
      for (int64_t row = 0; row < b.ne[1]; ++row, to += row_bytes) {
        ggml_fp32_to_bf16_row_ref(row_of(b, x, i, row), reinterpret_cast<ggml_bf16_t*>(to), length);
      }
    }
    set_shape(&converted, GGML_TYPE_BF16, length, b.ne[1], b.ne[2], false, row_blocks.data());
    dst.src[2] = &converted;
    return true;
  }

  bool quantize(int threads) {
    const kernels::IntegerProduct* product = kernels::integer_product_of(&a);
    if (product == nullptr) return false;
    const int64_t bytes = length / kernels::kIntegerBlock * static_cast<int64_t>(sizeof(kernels::RowBlock));
    row_blocks.assign(static_cast<size_t>(bytes * ggml_nrows(&b)), '\0');
    set_shape(&converted, GGML_TYPE_I8, bytes, b.ne[1], b.ne[2], false, row_blocks.data());
    converted.src[0] = &b;
    KernelCall<kernels::QuantizeRowsParams> quantizing;
    quantizing.params = {product->quantize};
    for (int ith = 0; ith < threads; ++ith) kernels::quantize_rows(&converted, ith, threads, &quantizing);
    dst.src[2] = &converted;
    return true;
  }

  // The product rounds the rows itself, then gets them rounded: the results are the same.
  void check(int threads) {
    dst.src[2] = nullptr;
    run(threads);
    compare();
    const std::vector<float> first = out;
    if (!convert_rows(threads)) return;
    run(threads);
    if (std::memcmp(first.data(), out.data(), out.size() * sizeof(float)) != 0) fail("rows rounded ahead change it");
  }

  void compare() {
    if (sums.empty()) compute_sums();
    for (int64_t i = 0; i < kGuard; ++i) {
      if (out[static_cast<size_t>(i)] != kUntouched || out[out.size() - 1 - static_cast<size_t>(i)] != kUntouched) {
        return fail("wrote outside");
      }
    }
    for (size_t i = 0; i < sums.size(); ++i) {
      const double difference = std::fabs(static_cast<double>(out[static_cast<size_t>(kGuard) + i]) - sums[i]);
      if (!(difference <= 1e-6 * static_cast<double>(length))) return fail("off by " + std::to_string(difference));
    }
  }

  void compute_sums() {
    sums.reserve(static_cast<size_t>(matrices * repeats * rows * columns));
    for (int64_t i = 0; i < matrices * repeats; ++i) {
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < columns; ++column) sums.push_back(dot(i, row, column));
      }
    }
  }

  // Leaves the first ones.
  void set_rows(int64_t count) {
    rows = b.ne[1] = dst.ne[1] = count;
    std::fill(out.begin(), out.end(), kUntouched);
  }

  // One matrix's products, to a part of the sums of their terms' magnitudes.
  void compare_to_sums(double tolerance) const {
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        double magnitude = 0.0;
        for (int64_t k = 0; k < length; ++k) {
          magnitude += std::fabs(static_cast<double>(row_of(b, used, 0, row)[k] * row_of(a, weights, 0, column)[k]));
        }
        const float value = out[static_cast<size_t>(kGuard + row * columns + column)];
        const double difference = std::fabs(static_cast<double>(value) - dot(0, row, column));
        if (!(difference <= tolerance * magnitude)) return fail("of extremes, off by " + std::to_string(difference));
      }
    }
  }

  double dot(int64_t i, int64_t row, int64_t column) const {
    const float* left = row_of(b, used, i, row);
    const float* right = row_of(a, weights, i / repeats, column);
    double sum = 0.0;  // of no products
    for (int64_t k = 0; k < length; ++k) sum += static_cast<double>(left[k]) * static_cast<double>(right[k]);
    return sum;
  }

  const float* row_of(const ggml_tensor& t, const std::vector<float>& floats, int64_t i, int64_t row) const {
    if (length == 0) return nullptr;
    const auto bytes = static_cast<size_t>(row) * t.nb[1] + static_cast<size_t>(i) * t.nb[2];
    return floats.data() + static_cast<int64_t>(bytes / ggml_row_size(t.type, length)) * length;
  }

  void fail(const std::string& what) const {
    if (++failures <= 20) {
      std::printf("FAIL %s on %s, %d x %d by %d rows: %s\n", ggml_type_name(type),
                  kernels::isa_name(kernels::active_isa()), static_cast<int>(length), static_cast<int>(columns),
                  static_cast<int>(rows), what.c_str());
    }
  }
};

// The quantized types that programs may hold.
std::vector<ggml_type> quantized_types() {
  std::vector<ggml_type> types;
  for (const int type : kGgmlTypes) {
    if (ggml_is_quantized(static_cast<ggml_type>(type))) types.push_back(static_cast<ggml_type>(type));
  }
  return types;
}

// With one thread and with three.
template <class... Arguments>
void check(Arguments... arguments) {
  if (!is_sampled()) return;
  Case test(arguments...);
  for (const int threads : {1, 3}) test.check(threads);
}

void check_floats(ggml_type type) {
  for (const int64_t length : {0, 1, 32, 37, 300}) {
    for (const int64_t columns : {1, 7, 16, 129}) {
      for (const int64_t rows : {1, 2, 3, 4, 8, 13, 99}) {
        check(type, length, columns, rows);
        check(type, length, columns, rows, 3);
        check(type, length, columns, rows, 2, 3);
      }
    }
  }
  for (const int64_t rows : {1, 2, 3, 4}) check(type, 1030, 19, rows, 2);
  for (const int64_t rows : {9, 99}) check(type, 20000, 9, rows);  // longer than what stays in a cache
}

// Numbers out of f16's range are not rounded to f16.
void check_too_large_for_halves() {
  Case test(GGML_TYPE_F16, 1100, 5, 2);
  test.x[1200] = 1e5f;
  test.used = test.x;
  test.run(1);
  for (int64_t column = 0; column < 5; ++column) {
    const double difference =
        static_cast<double>(test.out[static_cast<size_t>(kGuard + 5 + column)]) - test.dot(0, 1, column);
    if (!(std::fabs(difference) <= 1.0)) test.fail("a large number is lost");
  }
}

// `by_integers`: those alone that the level has int8 GEMM for.
void check_all_types(bool by_integers) {
  for (const ggml_type type : quantized_types()) {
    if (by_integers && kernels::integer_product(type) == nullptr) continue;
    for (const int64_t columns : {1, 16, 37, 70}) {
      for (const int64_t rows : {1, 12, 31}) {
        check(type, 256 * (1 + columns % 3), columns, rows);
        check(type, 256, columns, rows, 2, 3);
      }
    }
  }
}

// Rows taken of a matrix in panels are the matrix's.
void check_rows(const Case& test, std::vector<char>& panels) {
  const auto columns = static_cast<int32_t>(test.columns);
  std::vector<int32_t> rows = {columns - 1, 0, columns / 2, columns - 1};
  std::vector<float> taken(rows.size() * static_cast<size_t>(test.length));
  ggml_tensor table{}, indices{}, dst{};
  set_shape(&table, test.type, test.length, test.columns, 1, false, panels.data());
  set_shape(&indices, GGML_TYPE_I32, static_cast<int64_t>(rows.size()), 1, 1, false, rows.data());
  set_shape(&dst, GGML_TYPE_F32, test.length, static_cast<int64_t>(rows.size()), 1, false, taken.data());
  dst.src[0] = &table;
  dst.src[1] = &indices;
  for (int ith = 0; ith < 3; ++ith) kernels::panel_rows(&dst, ith, 3, nullptr);
  const auto row_bytes = static_cast<size_t>(test.length) * sizeof(float);
  for (size_t i = 0; i < rows.size(); ++i) {
    const float* expected = test.weights.data() + rows[i] * test.length;
    if (std::memcmp(taken.data() + i * static_cast<size_t>(test.length), expected, row_bytes) != 0) {
      return test.fail("another row is taken of panels");
    }
  }
}

// On instruction sets that have products with them.
void check_panels() {
  for (const ggml_type type : quantized_types()) {
    for (const int64_t columns : {1, 16, 37, 70}) {
      for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 12}) {
        if (kernels::panel_product(type) == nullptr || !is_sampled()) continue;
        Case test(type, 256 * (1 + columns % 3), columns, rows);
        test.pack_in_panels();
        for (const int threads : {1, 3}) test.check(threads);
      }
    }
  }
}

void check_panel_rows() {
  for (const ggml_type type : quantized_types()) {
    for (const int64_t columns : {1, 16, 37}) {
      if (!kernels::has_panels(type) || !is_sampled()) continue;
      const int64_t length = 512;
      const Case test(type, length, columns, 1);
      const size_t bytes = ggml_row_size(type, length) * static_cast<size_t>(columns);
      std::vector<char> panels(kernels::panels_bytes(type, length, columns)), back(bytes);
      kernels::pack_panels(type, length, columns, test.matrix.data(), panels.data());
      kernels::unpack_panels(type, length, columns, panels.data(), back.data());
      if (std::memcmp(back.data(), test.matrix.data(), bytes) != 0) test.fail("panels are unpacked to other bytes");
      check_rows(test, panels);
    }
  }
}

// The bytes of a block that are its weights' bits alone.
struct WeightBits {
  ggml_type type;
  size_t first, count;
};

constexpr WeightBits kWeightBits[] = {
    {GGML_TYPE_Q4_0, 2, 16}, {GGML_TYPE_Q4_1, 4, 16},   {GGML_TYPE_Q5_0, 2, 20},   {GGML_TYPE_Q5_1, 4, 20},
    {GGML_TYPE_Q8_0, 2, 32}, {GGML_TYPE_Q4_K, 16, 128}, {GGML_TYPE_Q5_K, 16, 160}, {GGML_TYPE_Q6_K, 0, 192},
};

// Sums of products of the largest weights and values fit in what they are summed in.
void check_extremes() {
  for (const auto& [type, first, count] : kWeightBits) {
    if (kernels::integer_product(type) == nullptr) continue;
    for (const int bits : {0x00, 0xff, 0x7f, 0x80}) {  // the last two are -128 and 127 in q8_0
      for (const float sign : {1.0f, -1.0f, 0.0f}) {
        if (!is_sampled()) continue;
        Case test(type, 512, 33, 9);
        for (size_t block = 0; block + 1 < test.matrix.size(); block += ggml_type_size(type)) {
          std::fill_n(test.matrix.data() + block + first, count, static_cast<char>(bits));
        }
        ggml_get_type_traits(type)->to_float(test.matrix.data(), test.weights.data(), 512 * 33);
        for (size_t i = 0; i < test.x.size(); ++i) test.x[i] = sign != 0.0f ? sign : i % 3 == 0 ? 1.0f : -1.0f;
        test.used = test.x;
        for (const bool in_panels : {false, true}) {
          if (in_panels && !test.pack_in_panels()) continue;
          for (const int64_t rows : {int64_t{9}, int64_t{1}}) {
            test.set_rows(rows);
            test.run(1);
            test.compare_to_sums(2e-6);
          }
        }
      }
    }
  }
}

// A row with a number that is not finite gives NaN everywhere; the other rows do not change.
void check_not_finite() {
  for (const ggml_type type : quantized_types()) {
    for (const float value : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      if (kernels::integer_product(type) == nullptr || !is_sampled()) continue;
      Case test(type, 256, 20, 3);
      test.x[256 + 77] = value;
      test.run(1);
      for (size_t i = 0; i < 60; ++i) {
        if (std::isnan(test.out[kGuard + i]) != (i / 20 == 1)) test.fail("NaN is lost or spreads");
      }
    }
  }
}

// int8 GEMM is for its instruction sets alone, and for matrices in panels or in ggml's layout.
void check_choice() {
  const kernels::Isa isa = kernels::active_isa();
  const bool has_integers = isa != kernels::Isa::Generic && isa != kernels::Isa::Avx512;
  const Case test(GGML_TYPE_Q8_0, 256, 1, 1);
  int ggmls_own = 0;
  ggml_tensor repacked = test.a;
  repacked.extra = &ggmls_own;
  const bool as_expected = (kernels::integer_product(GGML_TYPE_Q8_0) != nullptr) == has_integers &&
                           (kernels::integer_product_of(&test.a) != nullptr) == has_integers &&
                           kernels::integer_product(GGML_TYPE_F16) == nullptr &&
                           kernels::integer_product_of(&repacked) == nullptr;
  if (!as_expected) test.fail(std::string("another product than that of ") + kernels::isa_name(isa));
}

// ------------------------------------------------------------------------------------------------------------- speed

void bench_floats() {
  struct Shape {
    int64_t length, columns, matrices;
    bool beside;
  };
  for (const auto& [length, columns, matrices, beside] :
       {Shape{32, 128, 12, true}, Shape{32, 128, 12, false}, Shape{128, 32, 12, true}, Shape{128, 32, 12, false},
        Shape{64, 512, 8, false}, Shape{512, 64, 8, false}, Shape{256, 256, 1, false}, Shape{1024, 1024, 1, false}}) {
    std::printf("f32 %d x %d x %d%s:", static_cast<int>(length), static_cast<int>(columns), static_cast<int>(matrices),
                beside ? " side by side" : "");
    for (const int64_t rows : {1, 2, 4, 8, 16, 128, 512}) {
      Case test(GGML_TYPE_F32, length, columns, rows, matrices, 1, beside);
      const double ours = seconds_of([&] { test.run(1); });
      const double theirs =
          ggml_seconds([&](ggml_context* ctx) { return ggml_mul_mat(ctx, &test.a, &test.b); }, test.dst.data);
      std::printf("  %d rows %.3f ms (%.2fx)", static_cast<int>(rows), ours * 1e3, theirs / ours);
      std::fflush(stdout);
    }
    std::printf("\n");
  }
}

// All types, or the one of a name.
void bench(bool in_panels, const char* only) {
  std::vector<ggml_type> types = quantized_types();
  types.insert(types.begin(), {GGML_TYPE_F16, GGML_TYPE_BF16});
  for (const ggml_type type : types) {
    if (only != nullptr && std::strcmp(only, ggml_type_name(type)) != 0) continue;
    if (in_panels && !Case(type, 256, 1, 1).pack_in_panels()) continue;
    std::printf("%8s%s:", ggml_type_name(type), in_panels ? ", in panels" : "");
    for (const int64_t rows : {1, 2, 3, 4, 5, 6, 8, 16, 32, 64, 128, 512}) {
      Case test(type, 2048, 1024, rows), plain(type, 2048, 1024, rows);
      if (in_panels) test.pack_in_panels();
      const double ours = seconds_of([&] { test.run(1); });
      const double theirs =
          ggml_seconds([&](ggml_context* ctx) { return ggml_mul_mat(ctx, &plain.a, &plain.b); }, plain.dst.data);
      std::printf("  %d rows %.3f ms (%.2fx)", static_cast<int>(rows), ours * 1e3, theirs / ours);
      std::fflush(stdout);
    }
    std::printf("\n");
  }
}

}  // namespace
}  // namespace executorch_ggml

int main(int argc, char** argv) {
  using namespace executorch_ggml;
  if (argc > 1 && std::strcmp(argv[1], "--bench") == 0) {
    const char* only = argc > 2 ? argv[2] : nullptr;
    if (only == nullptr) bench_floats();
    bench(false, only);
    bench(true, only);
    return 0;
  }
  const kernels::Isa best = kernels::best_isa();
  for (const kernels::Isa isa : testing::isas_of_cpu()) {
    kernels::limit_isa(isa);
    random_bits.seed(5);
    check_choice();
    const bool same_floats = kernels::kIsArm64 && isa != best;  // one variant for all levels there
    if (!same_floats) {
      check_floats(GGML_TYPE_F32);
      check_floats(GGML_TYPE_F16);
      if (kernels::bfloat_conv_tiles() == nullptr) check_floats(GGML_TYPE_BF16);  // kernels_bfloat_tiles_test has those
      check_too_large_for_halves();
    }
    check_all_types(same_floats);
    check_panels();
    check_panel_rows();
    check_extremes();
    check_not_finite();
  }
  std::printf(failures == 0 ? "products: all as expected\n" : "products: %d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
