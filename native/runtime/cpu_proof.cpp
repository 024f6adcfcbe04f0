#include "cpu_proof.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>

#include "ggml-cpu.h"
#include "ggml.h"
#include "platform/platform.h"
#include "resource_limits.h"
#include "status.h"

namespace executorch_ggml {
namespace {

constexpr int64_t kLength = 256;  // of rows: a block of the types with the largest ones
constexpr int64_t kColumns = 32;  // what AMX takes at once

// Far above the rounding of rows to 8 bits and far below a wrong result, as a part of the product of the norms.
constexpr double kTolerance = 0.03;

template <auto free>
struct Freed {
  template <class T>
  void operator()(T* object) const {
    free(object);
  }
};
using Context = std::unique_ptr<ggml_context, Freed<ggml_free>>;
using Buffer = std::unique_ptr<ggml_backend_buffer, Freed<ggml_backend_buffer_free>>;
using Backend = std::unique_ptr<ggml_backend, Freed<ggml_backend_free>>;

struct Matrix {
  ggml_type type;
  std::vector<char> data;     // kColumns columns of kLength
  std::vector<float> floats;  // the same
  std::vector<double> sums;   // its product with all rows, and how much of that may be wrong
  std::vector<double> tolerances;
};

std::vector<float> random_floats(size_t count, std::minstd_rand* random) {
  std::uniform_real_distribution<float> draw(-1.0f, 1.0f);
  std::vector<float> floats(count);
  std::generate(floats.begin(), floats.end(), [&] { return draw(*random); });
  return floats;
}

// Random bits, drawn again for a block of which a number is not finite or the largest is not of ordinary size: no type
// of blocks needs a quantizer of its own for that.
void fill_blocks(Matrix* matrix, std::minstd_rand* random) {
  const auto size = ggml_type_size(matrix->type);
  const int64_t block = ggml_blck_size(matrix->type);
  const auto to_float = ggml_get_type_traits(matrix->type)->to_float;
  char* data = matrix->data.data();
  float* floats = matrix->floats.data();
  for (size_t done = 0; done < matrix->data.size(); done += size, data += size, floats += block) {
    float largest = 0.0f;
    do {
      for (size_t i = 0; i < size; ++i) data[i] = static_cast<char>((*random)() >> 8);
      to_float(data, floats, block);
      largest = 0.0f;
      for (int64_t i = 0; i < block; ++i) {
        largest = std::isfinite(floats[i]) ? std::max(largest, std::fabs(floats[i])) : INFINITY;
      }
    } while (!(largest > 0x1p-8f && largest < 0x1p4f));
  }
}

Matrix random_matrix(ggml_type type, std::minstd_rand* random) {
  Matrix matrix{type, std::vector<char>(ggml_row_size(type, kLength) * kColumns), {}, {}, {}};
  matrix.floats = random_floats(kLength * kColumns, random);
  const auto* traits = ggml_get_type_traits(type);
  if (type == GGML_TYPE_F32) {
    std::memcpy(matrix.data.data(), matrix.floats.data(), matrix.data.size());
  } else if (traits->blck_size == 1) {
    traits->from_float_ref(matrix.floats.data(), matrix.data.data(), kLength * kColumns);
  } else {
    fill_blocks(&matrix, random);
  }
  return matrix;
}

double dot(const float* a, const float* b) {
  double sum = 0.0;
  for (int64_t k = 0; k < kLength; ++k) sum += static_cast<double>(a[k]) * b[k];
  return sum;
}

void multiply(Matrix* matrix, const std::vector<float>& x) {
  for (const float* row = x.data(); row < x.data() + x.size(); row += kLength) {
    const double length = dot(row, row);
    for (const float* column = matrix->floats.data(); column < matrix->floats.data() + matrix->floats.size();
         column += kLength) {
      matrix->sums.push_back(dot(row, column));
      matrix->tolerances.push_back(kTolerance * std::sqrt(length * dot(column, column)));
    }
  }
}

bool is_multiplied(ggml_type type) {
  return ggml_blck_size(type) > 0 && (type == GGML_TYPE_F32 || ggml_get_type_traits(type)->to_float != nullptr);
}

// The CPU's own layouts, after null for ggml's.
std::vector<ggml_backend_buffer_type_t> layouts_of(ggml_backend_dev_t cpu) {
  std::vector<ggml_backend_buffer_type_t> layouts = {nullptr};
  const auto extra = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(
      ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(cpu), "ggml_backend_dev_get_extra_bufts"));
  for (auto* type = extra ? extra(cpu) : nullptr; type != nullptr && *type != nullptr; ++type) layouts.push_back(*type);
  return layouts;
}

class Prover {
 public:
  Prover(ggml_backend_dev_t cpu, ggml_backend_t backend, int64_t most_rows)
      : cpu_(cpu), backend_(backend), x_(random_floats(static_cast<size_t>(most_rows * kLength), &random_)) {}

  Matrix draw(ggml_type type) {
    Matrix matrix = random_matrix(type, &random_);
    multiply(&matrix, x_);
    return matrix;
  }

  // "" where the product is right or not the CPU's, else what is wrong.
  std::string check(const Matrix& matrix, int64_t rows, ggml_backend_buffer_type_t layout) {
    Context ctx(ggml_init({ggml_tensor_overhead() * 8 + ggml_graph_overhead_custom(8, false), nullptr, true}));
    ggml_tensor* a = ggml_new_tensor_2d(ctx.get(), matrix.type, kLength, kColumns);
    Buffer packed;
    if (layout != nullptr) {
      packed.reset(ggml_backend_buft_alloc_buffer(layout, ggml_backend_buft_get_alloc_size(layout, a)));
      if (!packed) return "no memory";
      ggml_backend_tensor_alloc(packed.get(), a, ggml_backend_buffer_get_base(packed.get()));
      ggml_backend_buffer_set_usage(packed.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    }
    ggml_tensor* b = ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F32, kLength, rows);
    ggml_tensor* product = ggml_mul_mat(ctx.get(), a, b);
    if (!ggml_backend_dev_supports_op(cpu_, product)) return "";
    Buffer plain(ggml_backend_alloc_ctx_tensors(ctx.get(), backend_));
    if (!plain) return "no memory";
    ggml_cgraph* graph = ggml_new_graph_custom(ctx.get(), 8, false);
    ggml_build_forward_expand(graph, product);

    std::vector<float> results(static_cast<size_t>(kColumns * rows));
    const int signal = guard_.run_guarded([&] {
      ggml_backend_tensor_set(a, matrix.data.data(), 0, matrix.data.size());
      ggml_backend_tensor_set(b, x_.data(), 0, ggml_nbytes(b));
      ggml_backend_graph_compute(backend_, graph);
      ggml_backend_tensor_get(product, results.data(), 0, results.size() * sizeof(float));
    });
    if (signal != 0) return std::string("raises ") + platform::signal_name(signal);
    for (size_t i = 0; i < results.size(); ++i) {
      if (std::fabs(results[i] - matrix.sums[i]) <= matrix.tolerances[i]) continue;
      return format("gives %g for %g", results[i], matrix.sums[i]);
    }
    return "";
  }

 private:
  platform::SignalGuard guard_;
  ggml_backend_dev_t cpu_;
  ggml_backend_t backend_;
  std::minstd_rand random_{1};
  std::vector<float> x_;  // rows
};

}  // namespace

Status prove_products(ggml_backend_dev_t cpu, const std::string& library, const std::vector<int64_t>& rows) {
  if (!can_allocate(kGgmlObject)) return Status::error("no memory to try ggml's CPU library");
  Backend backend(ggml_backend_dev_init(cpu, nullptr));
  const auto set_threads = reinterpret_cast<ggml_backend_set_n_threads_t>(
      ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(cpu), "ggml_backend_set_n_threads"));
  if (!backend || set_threads == nullptr) return Status::error("ggml's CPU library " + library + " does not open");
  set_threads(backend.get(), 1);  // signals of the CPU are for the thread that they are raised on
  Prover prover(cpu, backend.get(), *std::max_element(rows.begin(), rows.end()));
  const auto layouts = layouts_of(cpu);
  for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
    const auto type = static_cast<ggml_type>(i);
    if (!is_multiplied(type)) continue;
    const Matrix matrix = prover.draw(type);
    for (ggml_backend_buffer_type_t layout : layouts) {
      for (int64_t count : rows) {
        const std::string wrong = prover.check(matrix, count, layout);
        if (wrong.empty()) continue;
        return Status::error(format(
            "ggml's CPU library %s is not right on this CPU: a product of %s%s%s with %lld rows %s. Remove it, compile "
            "it "
            "with another compiler (AMX needs gcc 12.4, 13.3 or later), or limit the choice by EXECUTORCH_GGML_CPU",
            library.c_str(), ggml_type_name(type), layout != nullptr ? " in the layout " : "",
            layout != nullptr ? ggml_backend_buft_name(layout) : "", static_cast<long long>(count), wrong.c_str()));
      }
    }
  }
  return {};
}

}  // namespace executorch_ggml
