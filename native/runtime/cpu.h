// The CPU's threads, and which of them a run gets.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "fork.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "result.h"

namespace executorch_ggml {

// Threads for sessions that do not say; 0 restores the default: EXECUTORCH_GGML_NUM_THREADS, or one a core.
void set_default_threads(int threads);

// An error where EXECUTORCH_GGML_NUM_THREADS is no number of threads.
Status default_threads(int* threads);

// ggml's CPU backend with a pool of threads, of which the caller's is one. It runs one graph at a time.
class Lane {
 public:
  static Status open(int threads, std::unique_ptr<Lane>* lane);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  ggml_backend_t backend() const { return backend_; }

  // No other lane of this process has it.
  uint64_t number() const { return number_; }

  // False in a process that was forked since: the threads are the parent's.
  bool has_threads() const { return generation_ == fork_generation(); }

  // A plan to run a graph on some of the pool's threads.
  ggml_backend_graph_plan_t plan(const ggml_cgraph* graph, int threads);

 private:
  Lane() = default;
  ggml_backend_t backend_ = nullptr;
  ggml_threadpool* pool_ = nullptr;
  uint64_t number_ = 0;
  uint64_t generation_ = fork_generation();
};

class LanePool;

// What a run has for its time: a lane that nobody else uses meanwhile, and a number of its threads.
class Lease {
 public:
  Lease() = default;
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  Lane& lane() const { return *lane_; }
  int threads() const { return threads_; }

 private:
  friend class Cpu;
  Lane* lane_ = nullptr;
  int threads_ = 0;
  int wanted_ = 0;
  uint64_t generation_ = 0;
  std::unique_ptr<Lane> pooled_;  // goes back to the pool
  LanePool* pool_ = nullptr;
};

// A session's way to the CPU. Runs of one thread need nobody; the pools of those of several are shared by all sessions
// of one number of threads, and as many run side by side as the machine has cores for.
class Cpu {
 public:
  // `threads` of 0: the default. `shared` is false for what runs on another device too: it may wait for that, and keeps
  // a lane to itself.
  static Status open(int threads, bool shared, std::shared_ptr<Cpu>* cpu);

  // Any of the lanes, for what is the same with all.
  ggml_backend_t backend() const { return serial_->backend(); }

  // For a run, on one thread or on those of them that are free: all, where nothing else runs. `last` is the number of
  // the lane that it would like again.
  Status lease(bool parallel, uint64_t last, Lease* lease);

  // For a scheduler, which keeps to its backend.
  ggml_backend_t own(bool parallel) const { return (parallel ? own_ : serial_)->backend(); }

  // In a forked process: new lanes in place of those whose threads are gone.
  Status renew();

 private:
  Cpu() = default;
  int threads_ = 1;
  std::unique_ptr<Lane> serial_;
  std::unique_ptr<Lane> own_;
  std::shared_ptr<LanePool> pool_;
};

}  // namespace executorch_ggml
