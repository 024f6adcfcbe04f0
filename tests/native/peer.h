// How long a kernel takes, and ggml's own node for the same on one thread of its CPU backend.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>

#include "cpu.h"
#include "ggml-backend.h"
#include "ggml.h"

namespace executorch_ggml::testing {

// The fastest of some runs.
inline double seconds_of(const std::function<void()>& run) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 10; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

// Of the node that `make` builds, whose result goes to `out`.
inline double ggml_seconds(const std::function<ggml_tensor*(ggml_context*)>& make, void* out) {
  std::unique_ptr<Lane> cpu;
  if (!Lane::open(1, /*abort=*/nullptr, &cpu).ok()) return std::numeric_limits<double>::infinity();
  ggml_context* ctx = ggml_init({ggml_tensor_overhead() * 16 + ggml_graph_overhead(), nullptr, true});
  ggml_tensor* node = make(ctx);
  node->data = out;
  ggml_cgraph* graph = ggml_new_graph(ctx);
  ggml_build_forward_expand(graph, node);
  const double seconds = seconds_of([&] { ggml_backend_graph_compute(cpu->backend(), graph); });
  ggml_free(ctx);
  return seconds;
}

}  // namespace executorch_ggml::testing
