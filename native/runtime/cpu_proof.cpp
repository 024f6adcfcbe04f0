#include "cpu_proof.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>

#include "ggml-cpu.h"
#include "ggml.h"
#include "resource_limits.h"
#include "status.h"

namespace executorch_ggml {
namespace {

constexpr int64_t kLength = 256;  // of rows: a block of the types with the largest ones
constexpr int64_t kColumns = 32;  // what AMX takes at once

// Far above the rounding of rows to 8 bits and far below a wrong result, as a part of the norms' product.
constexpr double kTolerance = 0.03;

// -------------------------------------------------------------------------------------------------- the CPU's signals

struct Signal {
  int number;
  const char* name;
  struct sigaction previous;
};
Signal signals[] = {{SIGILL, "SIGILL", {}}, {SIGSEGV, "SIGSEGV", {}}, {SIGBUS, "SIGBUS", {}}, {SIGFPE, "SIGFPE", {}}};
pthread_t prover;
sigjmp_buf* volatile way_out = nullptr;

void restore_signals() {
  for (const Signal& signal : signals) sigaction(signal.number, &signal.previous, nullptr);
}

const char* name_of(int number) {
  for (const Signal& signal : signals) {
    if (signal.number == number) return signal.name;
  }
  return "a signal";
}

// Another thread's signal is raised again, with the handler that was there before.
void on_signal(int signal) {
  if (way_out != nullptr && pthread_equal(pthread_self(), prover) != 0) siglongjmp(*way_out, signal);
  restore_signals();
}

class SignalHandlers {
 public:
  SignalHandlers() {
    prover = pthread_self();
    struct sigaction action{};
    action.sa_handler = on_signal;
    action.sa_flags = SA_NODEFER;
    for (Signal& signal : signals) sigaction(signal.number, &action, &signal.previous);
  }
  ~SignalHandlers() { restore_signals(); }
  SignalHandlers(const SignalHandlers&) = delete;
  SignalHandlers& operator=(const SignalHandlers&) = delete;
};

// The signal that ended `work`, or 0. What was allocated in work that ended so is lost.
int run_guarded(const std::function<void()>& work) {
  sigjmp_buf here;
  const int signal = sigsetjmp(here, 1);
  if (signal == 0) {
    way_out = &here;
    work();
  }
  way_out = nullptr;
  return signal;
}

// --------------------------------------------------------------------------------------------------------- products

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
};

void to_floats(ggml_type type, const char* data, float* floats, int64_t n) {
  if (type == GGML_TYPE_F32) {
    std::memcpy(floats, data, static_cast<size_t>(n) * sizeof(float));
  } else {
    ggml_get_type_traits(type)->to_float(data, floats, n);
  }
}

// Random bits, drawn again for a block of which a number is not finite or the largest is not of ordinary size: no type
// needs a quantizer of its own for that.
Matrix random_matrix(ggml_type type, std::minstd_rand* random) {
  const auto size = ggml_type_size(type);
  const int64_t block = ggml_blck_size(type);
  Matrix matrix{type, std::vector<char>(ggml_row_size(type, kLength) * kColumns),
                std::vector<float>(kLength * kColumns)};
  char* data = matrix.data.data();
  for (float* floats = matrix.floats.data(); floats < matrix.floats.data() + matrix.floats.size();
       floats += block, data += size) {
    float largest = 0.0f;
    do {
      for (size_t i = 0; i < size; ++i) data[i] = static_cast<char>((*random)() >> 8);
      to_floats(type, data, floats, block);
      largest = 0.0f;
      for (int64_t i = 0; i < block; ++i) {
        largest = std::isfinite(floats[i]) ? std::max(largest, std::fabs(floats[i])) : INFINITY;
      }
    } while (!(largest > 0x1p-8f && largest < 0x1p4f));
  }
  return matrix;
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

// The largest difference from a sum in double, as a part of the norms' product; infinite where a result is not finite.
double worst_difference(const Matrix& matrix, const std::vector<float>& x, const std::vector<float>& product) {
  double worst = 0.0;
  for (size_t i = 0; i < product.size(); ++i) {
    const float* column = matrix.floats.data() + i % kColumns * kLength;
    const float* row = x.data() + i / kColumns * kLength;
    double sum = 0.0;
    double columns = 0.0;
    double rows = 0.0;
    for (int64_t k = 0; k < kLength; ++k) {
      sum += static_cast<double>(column[k]) * row[k];
      columns += static_cast<double>(column[k]) * column[k];
      rows += static_cast<double>(row[k]) * row[k];
    }
    const double difference = std::fabs(product[i] - sum) / std::sqrt(columns * rows);
    if (!(difference <= worst)) worst = std::isfinite(difference) ? difference : INFINITY;
  }
  return worst;
}

class Prover {
 public:
  Prover(ggml_backend_dev_t cpu, ggml_backend_t backend) : cpu_(cpu), backend_(backend) {}

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

    std::uniform_real_distribution<float> draw(-1.0f, 1.0f);
    std::vector<float> x(static_cast<size_t>(kLength * rows));
    std::generate(x.begin(), x.end(), [&] { return draw(random_); });
    std::vector<float> results(static_cast<size_t>(kColumns * rows));
    const int signal = run_guarded([&] {
      ggml_backend_tensor_set(a, matrix.data.data(), 0, matrix.data.size());
      ggml_backend_tensor_set(b, x.data(), 0, x.size() * sizeof(float));
      ggml_backend_graph_compute(backend_, graph);
      ggml_backend_tensor_get(product, results.data(), 0, results.size() * sizeof(float));
    });
    if (signal != 0) return std::string("raises ") + name_of(signal);
    const double worst = worst_difference(matrix, x, results);
    return worst <= kTolerance ? "" : format("is off by %.2g of the norms' product", worst);
  }

  std::minstd_rand* random() { return &random_; }

 private:
  ggml_backend_dev_t cpu_;
  ggml_backend_t backend_;
  std::minstd_rand random_{1};
};

}  // namespace

Status prove_products(ggml_backend_dev_t cpu, const std::string& library, const std::vector<int64_t>& rows) {
  if (!can_allocate(kGgmlObject)) return Status::error("no memory to try ggml's CPU library");
  const SignalHandlers handlers;
  Backend backend(ggml_backend_dev_init(cpu, nullptr));
  const auto set_threads = reinterpret_cast<ggml_backend_set_n_threads_t>(
      ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(cpu), "ggml_backend_set_n_threads"));
  if (!backend || set_threads == nullptr) return Status::error("ggml's CPU library " + library + " does not open");
  set_threads(backend.get(), 1);  // signals of the CPU are for the thread that they are raised on
  Prover prover(cpu, backend.get());
  const auto layouts = layouts_of(cpu);
  for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
    const auto type = static_cast<ggml_type>(i);
    if (!is_multiplied(type)) continue;
    const Matrix matrix = random_matrix(type, prover.random());
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
