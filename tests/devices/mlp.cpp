// A ggml program that knows nothing of this project: an MLP on a device, beside the same on the CPU.
//
//   mlp FOLDER [PLUG-IN]     the folder of ggml's own backends; with no plug-in, GGML_BACKEND_PATH names it
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

static constexpr int kIn = 16, kHidden = 64, kOut = 8, kRows = 5;

struct Mlp {
  ggml_context* weights;
  ggml_tensor *w1, *b1, *w2;
  ggml_backend_buffer_t buffer;
};

static std::vector<float> numbers(int count, float step) {
  std::vector<float> made(count);
  for (int i = 0; i < count; ++i) made[i] = std::sin(step * static_cast<float>(i + 1)) * 0.5f;
  return made;
}

static void set(ggml_tensor* tensor, float step) {
  const std::vector<float> data = numbers(static_cast<int>(ggml_nelements(tensor)), step);
  ggml_backend_tensor_set(tensor, data.data(), 0, ggml_nbytes(tensor));
}

static Mlp make(ggml_backend_t backend) {
  Mlp mlp{};
  mlp.weights = ggml_init({ggml_tensor_overhead() * 8, nullptr, true});
  mlp.w1 = ggml_new_tensor_2d(mlp.weights, GGML_TYPE_F32, kIn, kHidden);
  mlp.b1 = ggml_new_tensor_1d(mlp.weights, GGML_TYPE_F32, kHidden);
  mlp.w2 = ggml_new_tensor_2d(mlp.weights, GGML_TYPE_F32, kHidden, kOut);
  mlp.buffer = ggml_backend_alloc_ctx_tensors(mlp.weights, backend);
  ggml_backend_buffer_set_usage(mlp.buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
  set(mlp.w1, 0.7f);
  set(mlp.b1, 0.3f);
  set(mlp.w2, 1.1f);
  return mlp;
}

// Runs twice on the scheduler, with the first weight changed in between, and gives both results.
static bool run(ggml_backend_t backend, ggml_backend_t cpu, std::vector<float>* out) {
  Mlp mlp = make(backend);
  ggml_backend_t backends[] = {backend, cpu};
  const int count = backend == cpu ? 1 : 2;
  ggml_backend_sched_t sched = ggml_backend_sched_new(backends + (2 - count), nullptr, count, 128, false, false);
  ggml_context* ctx = ggml_init({ggml_tensor_overhead() * 64 + ggml_graph_overhead(), nullptr, true});
  ggml_tensor* x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, kIn, kRows);
  ggml_set_input(x);
  ggml_tensor* y = ggml_relu_inplace(ctx, ggml_add(ctx, ggml_mul_mat(ctx, mlp.w1, x), mlp.b1));
  y = ggml_soft_max(ctx, ggml_mul_mat(ctx, mlp.w2, y));
  ggml_set_output(y);
  ggml_cgraph* graph = ggml_new_graph(ctx);
  ggml_build_forward_expand(graph, y);
  if (!ggml_backend_sched_alloc_graph(sched, graph)) return false;
  out->clear();
  for (int turn = 0; turn < 4; ++turn) {
    if (turn == 2) set(mlp.w1, 0.9f);
    set(x, 0.2f + 0.1f * static_cast<float>(turn));
    if (ggml_backend_sched_graph_compute(sched, graph) != GGML_STATUS_SUCCESS) return false;
    std::vector<float> part(kOut * kRows);
    ggml_backend_tensor_get(y, part.data(), 0, ggml_nbytes(y));
    out->insert(out->end(), part.begin(), part.end());
  }
  std::printf("%s: %d splits\n", ggml_backend_name(backend), ggml_backend_sched_get_n_splits(sched));
  ggml_backend_sched_free(sched);
  ggml_free(ctx);
  ggml_free(mlp.weights);
  ggml_backend_buffer_free(mlp.buffer);
  return true;
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  ggml_backend_load_all_from_path(argv[1]);
  ggml_backend_reg_t reg = argc > 2 ? ggml_backend_load(argv[2]) : ggml_backend_reg_by_name("pydevice");
  const size_t devices = reg == nullptr ? 0 : ggml_backend_reg_dev_count(reg);
  // A registration, whose type is not public, begins with the interface's version.
  if (ggml_backend_reg_count() > 0) {
    std::printf("interface: %d\n", *reinterpret_cast<const int*>(ggml_backend_reg_get(0)));
  }
  std::printf("devices: %zu\n", devices);
  if (devices == 0) return 3;
  ggml_backend_t cpu = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr);
  std::vector<float> expected;
  if (!run(cpu, cpu, &expected)) return 4;
  for (size_t i = 0; i < devices; ++i) {
    ggml_backend_dev_t device = ggml_backend_reg_dev_get(reg, i);
    size_t free = 0, total = 0;
    ggml_backend_dev_memory(device, &free, &total);
    std::printf("device %s: %s, %d\n", ggml_backend_dev_name(device), ggml_backend_dev_description(device),
                total > 0 && free <= total);
    ggml_backend_t backend = ggml_backend_dev_init(device, nullptr);
    std::vector<float> made;
    if (!run(backend, cpu, &made)) return 5;
    float worst = 0.0f;
    for (size_t k = 0; k < made.size(); ++k) worst = std::fmax(worst, std::fabs(made[k] - expected[k]));
    std::printf("worst difference: %g\n", static_cast<double>(worst));
    ggml_backend_free(backend);
    if (made.size() != expected.size() || !(worst < 1e-5f)) return 6;
  }
  ggml_backend_free(cpu);
  return 0;
}
