// Runs by parts: of samples that a program computes apart, some at a time. Their intermediate values stay in caches,
// and threads that compute a part each do not wait for each other after each node.
#pragma once

#include <memory>
#include <vector>

#include "cpu.h"
#include "kernels/partition.h"
#include "prepared_graphs.h"
#include "resource_limits.h"

namespace executorch_ggml {

struct SampleCost {
  int64_t work = 0;    // multiply-adds
  size_t memory = 0;   // bytes of intermediate values
  size_t weights = 0;  // bytes, which each part reads
};

// Parts of equal size, or one sample apart.
struct BatchParts {
  int64_t samples = 0;
  int64_t count = 1;

  kernels::Range part(int64_t index) const { return kernels::Range::part(samples, index, count); }
  int64_t smallest() const { return samples / count; }
  int64_t largest() const { return kernels::ceil_div(samples, count); }
};

// Those that so many threads, each on a part of its own, compute fastest. One where all threads together compute the
// whole batch faster.
BatchParts divide_batch(int64_t samples, const SampleCost& cost, int threads);

// The runs of a program on the CPU whose samples are apart.
class Batch {
 public:
  // Whether a program says that it has samples.
  static bool is_in(const fb::Graph& graph);

  // `weights`: how many bytes they have.
  Batch(const fb::Graph& graph, const PreparedGraphs::Make& make, std::shared_ptr<Cpu> cpu, size_t weights,
        const Limits& limits);

  // Makes ready for inputs of a key. False where they are better computed whole, or are wrong, which a run of the whole
  // batch says.
  bool divide(const std::vector<int64_t>& key);

  // How many sets of sizes are kept ready.
  size_t prepared_count() const { return lanes_.empty() ? 0 : lanes_[0]->ready.size(); }

  // Of the run that was divided last.
  const std::vector<int64_t>& output_sizes(size_t index) const { return outputs_[index].sizes; }
  Status run(void* const* inputs, void* const* outputs);

 private:
  // A tensor of the caller's.
  struct Tensor {
    std::vector<int64_t> sizes;
    size_t bytes = 0;      // of all samples
    size_t of_sample = 0;  // 0: all samples share it
  };

  // What computes one part at a time.
  struct Lane {
    explicit Lane(PreparedGraphs graphs) : ready(std::move(graphs)) {}
    PreparedGraphs ready;
    PreparedGraph* smallest = nullptr;
    PreparedGraph* largest = nullptr;
    std::vector<void*> inputs, outputs;
    Status status;

    bool is_computed_by_ggml() const;
  };

  struct Making;
  struct Turns;

  Status make_ready(const std::vector<int64_t>& key, bool* divided);
  Status measure(const std::vector<int64_t>& key, SampleCost* cost);
  Status find(Lane* lane, const std::vector<int64_t>& key, int64_t samples, PreparedGraph** graph) const;
  Status make_graphs(Lane* lane, const std::vector<int64_t>& key) const;
  Status bind(const std::vector<int64_t>& key, int64_t samples);
  Status set_sample_bytes(const PreparedGraph& of_least);
  bool fits(const PreparedGraph& graph, int64_t samples) const;
  bool is_within_limits(const SampleCost& cost) const;
  bool choose_parts(const SampleCost& cost, int threads);
  int lanes() const;
  void add_lane();
  Status make_lanes(const std::vector<int64_t>& key);
  Status run_part(Lane* lane, int64_t index, void* const* inputs, void* const* outputs) const;

  const fb::Graph* graph_;
  PreparedGraphs::Make make_;
  std::shared_ptr<Cpu> cpu_;
  size_t weights_;
  size_t memory_limit_;
  int64_t work_limit_;
  size_t symbol_;
  int64_t least_;             // samples of a part
  std::vector<int64_t> key_;  // of the last run
  bool divided_ = false;
  bool by_ggml_ = false;  // whose CPU backend runs one graph at a time
  std::vector<Tensor> inputs_, outputs_;
  BatchParts parts_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace executorch_ggml
