// A ggml program that knows nothing of this project: a Llama, a BERT or a ResNet-18 from a GGUF file, on one of ggml's
// devices, with the CPU for what that leaves. GGML_BACKEND_PATH names a plug-in that brings devices.
//
//   models FOLDER MODEL INPUTS OUTPUT DEVICE SECONDS
//
//   FOLDER  has ggml's own backends       INPUTS  a GGUF file with the tensors that the model is run on
//   OUTPUT  gets the answer, as floats    DEVICE  by ggml's name for it: CPU, mlx, ...
//
// Says "answered" when it has its first answer, then "ms" with the median of the runs that follow. GGML_SCHED_DEBUG=2
// lets ggml say which nodes the device computes.
//
//   c++ -std=c++17 -O2 -I$GGML/include models.cpp -o models -L$GGML/lib -lggml -lggml-base -Wl,-rpath,$GGML/lib
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "gguf.h"

namespace {

constexpr int kMostNodes = 4096;

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what); }

// A GGUF file, with its tensors in a backend's memory.
class File {
 public:
  File(const std::string& path, ggml_backend_t backend) {
    ggml_context* described = nullptr;
    gguf_ = gguf_init_from_file(path.c_str(), {/*no_alloc=*/true, &described});
    if (gguf_ == nullptr) fail(path + " is no GGUF file");
    tensors_ = described;
    buffer_ = ggml_backend_alloc_ctx_tensors(tensors_, backend);
    if (buffer_ == nullptr) fail("no memory for " + path);
    ggml_backend_buffer_set_usage(buffer_, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    std::ifstream file(path, std::ios::binary);
    std::vector<char> data;
    for (int64_t i = 0; i < gguf_get_n_tensors(gguf_); ++i) {
      ggml_tensor* tensor = ggml_get_tensor(tensors_, gguf_get_tensor_name(gguf_, i));
      data.resize(ggml_nbytes(tensor));
      file.seekg(static_cast<std::streamoff>(gguf_get_data_offset(gguf_) + gguf_get_tensor_offset(gguf_, i)));
      if (!file.read(data.data(), static_cast<std::streamsize>(data.size()))) fail(path + " is cut off");
      ggml_backend_tensor_set(tensor, data.data(), 0, data.size());
    }
  }
  ~File() {
    ggml_backend_buffer_free(buffer_);
    ggml_free(tensors_);
    gguf_free(gguf_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  std::string architecture() const { return gguf_get_val_str(gguf_, key("general.architecture")); }
  int size(const std::string& name) const { return static_cast<int>(gguf_get_val_u32(gguf_, own_key(name))); }
  float number(const std::string& name) const { return gguf_get_val_f32(gguf_, own_key(name)); }
  ggml_tensor* find(const std::string& name) const { return ggml_get_tensor(tensors_, name.c_str()); }
  ggml_tensor* tensor(const std::string& name) const {
    ggml_tensor* found = find(name);
    if (found == nullptr) fail("no tensor " + name);
    return found;
  }

 private:
  int64_t key(const std::string& name) const {
    const int64_t found = gguf_find_key(gguf_, name.c_str());
    if (found < 0) fail("no metadata " + name);
    return found;
  }
  int64_t own_key(const std::string& name) const { return key(architecture() + "." + name); }

  gguf_context* gguf_ = nullptr;
  ggml_context* tensors_ = nullptr;
  ggml_backend_buffer_t buffer_ = nullptr;
};

// What a graph is built with: leaves for the inputs, weights by name.
class Graph {
 public:
  Graph(const File& weights, const File& inputs) : weights_(weights), inputs_(inputs) {
    const size_t size = ggml_tensor_overhead() * kMostNodes + ggml_graph_overhead_custom(kMostNodes, false);
    ctx = ggml_init({size, nullptr, /*no_alloc=*/true});
    graph = ggml_new_graph_custom(ctx, kMostNodes, false);
  }
  ~Graph() { ggml_free(ctx); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  ggml_tensor* input(const std::string& name) {
    ggml_tensor* leaf = ggml_dup_tensor(ctx, inputs_.tensor(name));
    ggml_set_name(leaf, name.c_str());
    ggml_set_input(leaf);
    given_.emplace_back(leaf, name);
    return leaf;
  }
  ggml_tensor* weight(const std::string& name) const { return weights_.tensor(name); }
  const File& weights() const { return weights_; }

  ggml_tensor* linear(const std::string& name, ggml_tensor* x) {
    ggml_tensor* y = ggml_mul_mat(ctx, weight(name + ".weight"), x);
    ggml_tensor* bias = weights_.find(name + ".bias");
    return bias == nullptr ? y : ggml_add(ctx, y, bias);
  }

  // Copy the inputs to where the graph has them.
  void set_inputs() const {
    std::vector<char> data;
    for (const auto& [leaf, name] : given_) {
      data.resize(ggml_nbytes(leaf));
      ggml_backend_tensor_get(inputs_.tensor(name), data.data(), 0, data.size());
      ggml_backend_tensor_set(leaf, data.data(), 0, data.size());
    }
  }

  ggml_context* ctx;
  ggml_cgraph* graph;
  ggml_tensor* output = nullptr;

 private:
  const File& weights_;
  const File& inputs_;
  std::vector<std::pair<ggml_tensor*, std::string>> given_;
};

// --------------------------------------------------------------------------------------------------------------- llama

struct Cache {
  ggml_context* ctx;
  ggml_backend_buffer_t buffer;
  std::vector<ggml_tensor*> keys, values;
};

Cache make_cache(const File& file, int64_t context, ggml_backend_t backend) {
  const int layers = file.size("block_count"), heads = file.size("attention.head_count");
  const int64_t width = int64_t{file.size("embedding_length")} / heads * file.size("attention.head_count_kv");
  Cache cache{ggml_init({ggml_tensor_overhead() * 2 * static_cast<size_t>(layers), nullptr, true}), nullptr, {}, {}};
  for (int i = 0; i < layers; ++i) {
    cache.keys.push_back(ggml_new_tensor_2d(cache.ctx, GGML_TYPE_F32, width, context));
    cache.values.push_back(ggml_new_tensor_2d(cache.ctx, GGML_TYPE_F32, width, context));
  }
  cache.buffer = ggml_backend_alloc_ctx_tensors(cache.ctx, backend);
  ggml_backend_buffer_clear(cache.buffer, 0);
  return cache;
}

// Some tokens, read into the cache, and the logits that follow the last of them.
void build_llama(Graph* g, const Cache& cache, const std::string& part) {
  ggml_context* ctx = g->ctx;
  const File& file = g->weights();
  const int64_t heads = file.size("attention.head_count"), kv_heads = file.size("attention.head_count_kv");
  const int64_t width = file.size("embedding_length"), dim = width / heads;
  const float eps = file.number("attention.layer_norm_rms_epsilon"), base = file.number("rope.freq_base");
  ggml_tensor* tokens = g->input(part + ".tokens");
  ggml_tensor* positions = g->input(part + ".positions");
  ggml_tensor* rows = g->input(part + ".rows");
  ggml_tensor* mask = g->input(part + ".mask");
  const int64_t count = tokens->ne[0], context = mask->ne[0];

  const auto norm = [&](ggml_tensor* x, const std::string& name) {
    return ggml_mul(ctx, ggml_rms_norm(ctx, x, eps), g->weight(name + ".weight"));
  };
  const auto rope = [&](ggml_tensor* x, int64_t n) {
    return ggml_rope_ext(ctx, ggml_reshape_3d(ctx, x, dim, n, count), positions, nullptr, static_cast<int>(dim),
                         GGML_ROPE_TYPE_NORMAL, 0, base, 1.0f, 0.0f, 1.0f, 32.0f, 1.0f);
  };
  const auto cached = [&](ggml_tensor* table, ggml_tensor* x) {
    ggml_tensor* all = ggml_set_rows(ctx, table, ggml_reshape_2d(ctx, x, dim * kv_heads, count), rows);
    return ggml_reshape_3d(ctx, all, dim, kv_heads, context);
  };

  ggml_tensor* x = ggml_get_rows(ctx, g->weight("token_embd.weight"), tokens);
  for (size_t i = 0; i < cache.keys.size(); ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    ggml_tensor* y = norm(x, layer + "attn_norm");
    ggml_tensor* q = rope(g->linear(layer + "attn_q", y), heads);
    ggml_tensor* k = cached(cache.keys[i], rope(g->linear(layer + "attn_k", y), kv_heads));
    ggml_tensor* v = cached(cache.values[i], g->linear(layer + "attn_v", y));
    ggml_tensor* scores = ggml_mul_mat(ctx, ggml_permute(ctx, k, 0, 2, 1, 3), ggml_permute(ctx, q, 0, 2, 1, 3));
    scores = ggml_soft_max_ext(ctx, scores, mask, 1.0f / std::sqrt(static_cast<float>(dim)), 0.0f);
    y = ggml_mul_mat(ctx, ggml_cont(ctx, ggml_permute(ctx, v, 1, 2, 0, 3)), scores);
    y = ggml_cont_2d(ctx, ggml_permute(ctx, y, 0, 2, 1, 3), width, count);
    x = ggml_add(ctx, x, g->linear(layer + "attn_output", y));
    y = norm(x, layer + "ffn_norm");
    y = ggml_swiglu_split(ctx, g->linear(layer + "ffn_gate", y), g->linear(layer + "ffn_up", y));
    x = ggml_add(ctx, x, g->linear(layer + "ffn_down", y));
  }
  x = ggml_view_2d(ctx, x, width, 1, x->nb[1], static_cast<size_t>(count - 1) * x->nb[1]);
  const bool tied = file.find("output.weight") == nullptr;
  g->output = ggml_mul_mat(ctx, g->weight(tied ? "token_embd.weight" : "output.weight"), norm(x, "output_norm"));
}

// ------------------------------------------------------------------------------------------------------------- encoder

// Sentences of the same length, padded, as unit vectors.
void build_bert(Graph* g) {
  ggml_context* ctx = g->ctx;
  const File& file = g->weights();
  const int64_t width = file.size("embedding_length"), heads = file.size("attention.head_count"), dim = width / heads;
  const float eps = file.number("attention.layer_norm_epsilon");
  ggml_tensor* mask = g->input("mask");
  ggml_tensor* shares = g->input("shares");
  const int64_t count = mask->ne[0], batch = mask->ne[3];

  const auto rows = [&](const std::string& table, const std::string& of) {
    return ggml_get_rows(ctx, g->weight(table + ".weight"), g->input(of));
  };
  const auto norm = [&](ggml_tensor* x, const std::string& name) {
    x = ggml_mul(ctx, ggml_norm(ctx, x, eps), g->weight(name + ".weight"));
    return ggml_add(ctx, x, g->weight(name + ".bias"));
  };
  const auto split = [&](ggml_tensor* x) { return ggml_reshape_4d(ctx, x, dim, heads, count, batch); };

  ggml_tensor* x = ggml_add(ctx, rows("token_embd", "tokens"), rows("position_embd", "positions"));
  x = norm(ggml_add(ctx, x, rows("token_types", "types")), "token_embd_norm");
  for (int i = 0; i < file.size("block_count"); ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    ggml_tensor* q = ggml_permute(ctx, split(g->linear(layer + "attn_q", x)), 0, 2, 1, 3);
    ggml_tensor* k = ggml_permute(ctx, split(g->linear(layer + "attn_k", x)), 0, 2, 1, 3);
    ggml_tensor* v = ggml_cont(ctx, ggml_permute(ctx, split(g->linear(layer + "attn_v", x)), 1, 2, 0, 3));
    ggml_tensor* scores = ggml_mul_mat(ctx, k, q);
    scores = ggml_soft_max_ext(ctx, scores, mask, 1.0f / std::sqrt(static_cast<float>(dim)), 0.0f);
    ggml_tensor* y = ggml_permute(ctx, ggml_mul_mat(ctx, v, scores), 0, 2, 1, 3);
    y = g->linear(layer + "attn_output", ggml_cont_2d(ctx, y, width, count * batch));
    x = norm(ggml_add(ctx, x, y), layer + "attn_output_norm");
    y = g->linear(layer + "ffn_down", ggml_gelu_erf(ctx, g->linear(layer + "ffn_up", x)));
    x = norm(ggml_add(ctx, x, y), layer + "layer_output_norm");
  }
  x = ggml_cont(ctx, ggml_permute(ctx, ggml_reshape_3d(ctx, x, width, count, batch), 1, 0, 2, 3));
  g->output = ggml_l2_norm(ctx, ggml_mul_mat(ctx, x, shares), 1e-12f);
}

// -------------------------------------------------------------------------------------------------------------- resnet

// An image's scores.
void build_resnet(Graph* g) {
  ggml_context* ctx = g->ctx;
  const auto conv = [&](const std::string& name, ggml_tensor* x, int stride) {
    ggml_tensor* kernel = g->weight(name + ".weight");
    const int pad = static_cast<int>(kernel->ne[0] / 2);
    ggml_tensor* bias = g->weight(name + ".bias");
    ggml_tensor* y = ggml_conv_2d_direct(ctx, kernel, x, stride, stride, pad, pad, 1, 1);
    return ggml_add(ctx, y, ggml_reshape_3d(ctx, bias, 1, 1, bias->ne[0]));
  };
  ggml_tensor* x = ggml_relu(ctx, conv("conv1", g->input("pixels"), 2));
  x = ggml_pool_2d(ctx, x, GGML_OP_POOL_MAX, 3, 3, 2, 2, 1, 1);
  for (int stage = 1; stage <= 4; ++stage) {
    for (int number = 0; number < 2; ++number) {
      const std::string block = "layer" + std::to_string(stage) + "." + std::to_string(number);
      const int stride = stage > 1 && number == 0 ? 2 : 1;
      ggml_tensor* y = conv(block + ".conv2", ggml_relu(ctx, conv(block + ".conv1", x, stride)), 1);
      if (g->weights().find(block + ".downsample.weight") != nullptr) x = conv(block + ".downsample", x, stride);
      x = ggml_relu(ctx, ggml_add(ctx, y, x));
    }
  }
  const int width = static_cast<int>(x->ne[0]), height = static_cast<int>(x->ne[1]);
  x = ggml_pool_2d(ctx, x, GGML_OP_POOL_AVG, width, height, width, height, 0, 0);
  g->output = g->linear("fc", ggml_reshape_2d(ctx, x, x->ne[2], x->ne[3]));
}

// -------------------------------------------------------------------------------------------------------------- device

ggml_backend_t open_device(const std::string& name) {
  ggml_backend_t backend = ggml_backend_init_by_name(name.c_str(), nullptr);
  if (backend == nullptr) fail("no device " + name);
  ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(ggml_backend_get_device(backend));
  auto* set_threads = reinterpret_cast<ggml_backend_set_n_threads_t>(
      ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads"));
  if (set_threads != nullptr) set_threads(backend, static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
  return backend;
}

// A graph with the scheduler that has its memory.
class Scheduled {
 public:
  Scheduled(Graph* graph, std::vector<ggml_backend_t> backends) : graph_(graph) {
    ggml_set_output(graph->output);
    ggml_build_forward_expand(graph->graph, graph->output);
    const int count = static_cast<int>(backends.size());
    sched_ = ggml_backend_sched_new(backends.data(), nullptr, count, kMostNodes, false, false);
    if (!ggml_backend_sched_alloc_graph(sched_, graph->graph)) fail("no memory for a graph");
  }
  ~Scheduled() { ggml_backend_sched_free(sched_); }
  Scheduled(const Scheduled&) = delete;
  Scheduled& operator=(const Scheduled&) = delete;

  void run() {
    graph_->set_inputs();
    if (ggml_backend_sched_graph_compute(sched_, graph_->graph) != GGML_STATUS_SUCCESS) fail("a graph failed");
  }
  std::vector<float> answer() const {
    std::vector<float> made(static_cast<size_t>(ggml_nelements(graph_->output)));
    ggml_backend_tensor_get(graph_->output, made.data(), 0, ggml_nbytes(graph_->output));
    return made;
  }

 private:
  Graph* graph_;
  ggml_backend_sched_t sched_;
};

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void time_runs(double seconds, const std::function<void()>& run) {
  std::vector<double> took;
  for (const double end = seconds_now() + seconds; seconds_now() < end;) {
    const double start = seconds_now();
    run();
    took.push_back(seconds_now() - start);
  }
  if (took.empty()) return;
  std::nth_element(took.begin(), took.begin() + static_cast<long>(took.size() / 2), took.end());
  std::printf("ms %.3f\n", 1000 * took[took.size() / 2]);
}

void run_model(char** argv) {
  ggml_backend_t cpu = open_device("CPU");
  ggml_backend_t device = std::strcmp(argv[5], "CPU") == 0 ? cpu : open_device(argv[5]);
  std::vector<ggml_backend_t> backends{device};
  if (device != cpu) backends.push_back(cpu);
  {
    const File weights(argv[2], device), inputs(argv[3], cpu);
    const bool is_llama = weights.architecture() == "llama";
    // A Llama has a graph for its prompt before that of the step that follows.
    Graph first(weights, inputs), last(weights, inputs);
    Cache cache{};
    if (is_llama) {
      cache = make_cache(weights, inputs.tensor("step.mask")->ne[0], device);
      build_llama(&first, cache, "prompt");
      build_llama(&last, cache, "step");
    } else if (weights.architecture() == "bert") {
      build_bert(&last);
    } else {
      build_resnet(&last);
    }
    {
      std::vector<std::unique_ptr<Scheduled>> graphs;
      if (is_llama) graphs.push_back(std::make_unique<Scheduled>(&first, backends));
      graphs.push_back(std::make_unique<Scheduled>(&last, backends));
      const auto run = [&] {
        for (auto& graph : graphs) graph->run();
      };
      run();
      const std::vector<float> answer = graphs.back()->answer();
      std::printf("answered\n");
      std::fflush(stdout);
      std::ofstream(argv[4], std::ios::binary)
          .write(reinterpret_cast<const char*>(answer.data()), static_cast<std::streamsize>(answer.size() * 4));
      time_runs(std::atof(argv[6]), run);
    }
    if (is_llama) {
      ggml_backend_buffer_free(cache.buffer);
      ggml_free(cache.ctx);
    }
  }
  if (device != cpu) ggml_backend_free(device);
  ggml_backend_free(cpu);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) {
    std::fprintf(stderr, "models FOLDER MODEL INPUTS OUTPUT DEVICE SECONDS\n");
    return 2;
  }
  ggml_backend_load_all_from_path(argv[1]);
  try {
    run_model(argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "models: %s\n", error.what());
    return 1;
  }
  return 0;
}
