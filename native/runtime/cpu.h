// The CPU's threads, and which of them a run gets.
#pragma once

#include <cstdint>
#include <memory>

#include "fork.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "kernels/simd/isa.h"
#include "result.h"
#include "selection_generated.h"

namespace executorch_ggml {

// Threads for sessions that do not say; 0 restores the default: EXECUTORCH_GGML_NUM_THREADS, or one a core.
void set_default_threads(int threads);

// An error where EXECUTORCH_GGML_NUM_THREADS is no number of threads.
Status default_threads(int* threads);

// The most that EXECUTORCH_GGML_CPU allows, or an error where that is no instruction set of this architecture.
Status read_allowed_isa(kernels::Isa* most);

// ggml's CPU backend with threads of its own, of which the caller's is one. It runs one graph at a time.
class Lane {
 public:
  // Graphs end where `abort`, called after each node, says so; null: they go on.
  static Status open(int threads, ggml_abort_callback abort, std::unique_ptr<Lane>* lane);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  ggml_backend_t backend() const { return backend_; }

  // False in a process that was forked since: the threads and locks are the parent's.
  bool is_of_this_process() const { return generation_ == fork_generation(); }

 private:
  Lane() = default;
  ggml_backend_t backend_ = nullptr;
  ggml_threadpool* pool_ = nullptr;
  uint64_t generation_ = fork_generation();
};

// A run's share of the cores, for its time: all threads that it wants where nothing else runs, else those that are
// free, and always the one that it is on. Threads beyond the cores would only take time from other runs.
class Lease {
 public:
  explicit Lease(int wanted);
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  int threads() const { return threads_; }

 private:
  int wanted_;
  int threads_;
  uint64_t generation_;
};

// A session's way to the CPU: ggml computes its graphs on the calling thread, and a kernel's pieces are shared with
// the helpers of that thread's crew.
class Cpu {
 public:
  // `threads` of 0: the default. `beside_device` is true for what runs on another device too: ggml's scheduler gives
  // the CPU whole graphs of ggml's own kernels, which know no threads but ggml's.
  static Status open(int threads, bool beside_device, std::shared_ptr<Cpu>* cpu);

  // Null where the build has no kernels of ggml.
  ggml_backend_t backend() const { return kHasGgmlKernels ? serial_->backend() : nullptr; }

  // For a run of a graph, by how much there is to share.
  int threads(bool parallel) const { return parallel ? threads_ : 1; }

  // For a scheduler, which keeps to its backend.
  ggml_backend_t scheduled(bool parallel) const { return (parallel ? scheduled_ : serial_)->backend(); }

  // After a fork: opens the lanes anew, since the parent's threads do not exist in the child.
  Status renew();

 private:
  Cpu() = default;
  int threads_ = 1;
  std::unique_ptr<Lane> serial_;
  std::unique_ptr<Lane> scheduled_;
};

}  // namespace executorch_ggml
