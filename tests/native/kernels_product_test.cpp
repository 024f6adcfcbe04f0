// wide_product against plain sums in double, for every quantized type and on every instruction set that this CPU has.
// With --bench: its speed beside that of ggml's own product, by type and number of rows.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ggml.h"
#include "kernels/isa.h"
#include "kernels/kernels.h"
#include "peer.h"

namespace executorch_ggml {
namespace {

using testing::ggml_seconds;
using testing::seconds_of;

constexpr float kUntouched = -12345.5f;
constexpr int64_t kGuard = 64;

int failures = 0;
std::mt19937 random_bits(5);

std::vector<float> random_floats(int64_t n) {
  std::normal_distribution<float> draw;
  std::vector<float> made(static_cast<size_t>(n));
  std::generate(made.begin(), made.end(), [&] { return draw(random_bits); });
  return made;
}

void set_shape(ggml_tensor* t, ggml_type type, int64_t width, int64_t rows, void* data) {
  t->type = type;
  t->data = data;
  const int64_t ne[] = {width, rows, 1, 1};
  std::copy(ne, ne + 4, t->ne);
  t->nb[0] = ggml_type_size(type);
  t->nb[1] = ggml_row_size(type, width);
  t->nb[2] = t->nb[3] = t->nb[1] * static_cast<size_t>(rows);
}

// A matrix in a type, rows of floats, and where their products go.
struct Case {
  ggml_type type;
  int64_t length, columns, rows;
  std::vector<char> matrix;
  std::vector<float> weights, x, out;
  ggml_tensor a{}, b{}, dst{};
  KernelCall<MulMatParams> call;

  Case(ggml_type of, int64_t length_of, int64_t columns_of, int64_t rows_of)
      : type(of), length(length_of), columns(columns_of), rows(rows_of) {
    weights = random_floats(length * columns);
    x = random_floats(length * rows);
    matrix.resize(ggml_row_size(type, length) * static_cast<size_t>(columns) + 1);
    const std::vector<float> importance(static_cast<size_t>(length), 1.0f);
    ggml_quantize_chunk(type, weights.data(), matrix.data(), 0, columns, length, importance.data());
    ggml_get_type_traits(type)->to_float(matrix.data(), weights.data(), length * columns);
    out.resize(static_cast<size_t>(columns * rows + 2 * kGuard));
    set_shape(&a, type, length, columns, matrix.data());
    set_shape(&b, GGML_TYPE_F32, length, rows, x.data());
    set_shape(&dst, GGML_TYPE_F32, columns, rows, out.data() + kGuard);
    dst.src[0] = &a;
    dst.src[1] = &b;
    call.node = "node";
  }
  Case(const Case&) = delete;

  void run(int threads) {
    RunStatus status;
    call.status = &status;
    std::fill(out.begin(), out.end(), kUntouched);
    for (int ith = 0; ith < threads; ++ith) kernels::wide_product(&dst, ith, threads, &call);
    if (!status.ok()) fail(status.message());
  }

  void compare() const {
    for (int64_t i = 0; i < kGuard; ++i) {
      if (out[static_cast<size_t>(i)] != kUntouched || out[out.size() - 1 - static_cast<size_t>(i)] != kUntouched) {
        return fail("wrote outside");
      }
    }
    const float* got = out.data() + kGuard;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        double want = 0.0;
        for (int64_t k = 0; k < length; ++k) {
          want += static_cast<double>(x[static_cast<size_t>(row * length + k)]) *
                  static_cast<double>(weights[static_cast<size_t>(column * length + k)]);
        }
        const double difference = std::fabs(static_cast<double>(*got++) - want);
        if (!(difference <= 1e-6 * static_cast<double>(length))) return fail("off by " + std::to_string(difference));
      }
    }
  }

  void fail(const std::string& what) const {
    if (++failures <= 20) {
      std::printf("FAIL %s, %d x %d by %d rows: %s\n", ggml_type_name(type), static_cast<int>(length),
                  static_cast<int>(columns), static_cast<int>(rows), what.c_str());
    }
  }
};

// What programs may hold, and ggml's quantizer writes.
std::vector<ggml_type> quantized_types() {
  std::vector<ggml_type> found;
  for (const int type : kGgmlTypes) {
    if (ggml_is_quantized(static_cast<ggml_type>(type))) found.push_back(static_cast<ggml_type>(type));
  }
  return found;
}

void check_all_types() {
  for (const ggml_type type : quantized_types()) {
    for (const int64_t columns : {1, 16, 37, 70}) {
      for (const int64_t rows : {1, 12, 31}) {
        Case made(type, 256 * (1 + columns % 3), columns, rows);
        for (const int threads : {1, 3}) {
          made.run(threads);
          made.compare();
        }
      }
    }
  }
}

// ------------------------------------------------------------------------------------------------------------- speed

void bench() {
  for (const ggml_type type : quantized_types()) {
    std::printf("%8s:", ggml_type_name(type));
    for (const int64_t rows : {8, 16, 32, 64, 128, 512}) {
      Case made(type, 2048, 1024, rows);
      const double ours = seconds_of([&] { made.run(1); });
      const double theirs =
          ggml_seconds([&](ggml_context* ctx) { return ggml_mul_mat(ctx, &made.a, &made.b); }, made.dst.data);
      std::printf("  %d rows %.2f ms (%.2fx)", static_cast<int>(rows), ours * 1e3, theirs / ours);
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
    bench();
    return 0;
  }
  const kernels::Isa best = kernels::best_isa();
  for (int isa = static_cast<int>(best); isa >= 0; --isa) {
    kernels::limit_isa(static_cast<kernels::Isa>(isa));
    check_all_types();
  }
  std::printf(failures == 0 ? "products: all as expected\n" : "products: %d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
