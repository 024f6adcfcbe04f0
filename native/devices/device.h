// A device of ggml's that Python computes for, its buffers and its plans.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "callbacks.h"
#include "ggml_host.h"
#include "graph_words.h"

namespace executorch_ggml::devices {

class Device;

// Memory of the process. The version counts what ggml writes to it.
struct BufferData {
  Device* device = nullptr;
  char* base = nullptr;
  bool owned = false;
  int64_t number = 0;
  std::atomic<int64_t> version{0};
  std::atomic<int64_t> planned{-1};  // the version that a plan last took constants of
  std::atomic<int> changes{0};       // how often there was another one by then
};

// What Python has made for graphs of the same words.
class Plan {
 public:
  Plan(const Callbacks& callbacks, const GraphWords& graph, std::vector<uint64_t> addresses, std::vector<uint8_t> live);
  ~Plan();
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  // Let Python make it.
  void make(int64_t device);

  // Whether it is for these words, and what is live in them.
  bool is_of(const GraphWords& graph) const;
  bool has_live(const std::vector<uint8_t>& live) const { return live == live_; }
  // Where its tensors were when it was last used: what is live follows from that.
  bool is_at(const std::vector<uint64_t>& addresses) const { return addresses == addresses_; }
  void move_to(std::vector<uint64_t> addresses) { addresses_ = std::move(addresses); }

  // Run on the data of these tensors, those of the graph in order. 1, or 0 where Python did not, or kInterrupted.
  int run(const std::vector<const ggml_tensor*>& tensors) const;

  // Whether its making was interrupted: it is good for nothing.
  bool interrupted() const { return number_ == kInterrupted; }

  // Number and version of each buffer that constants were taken of.
  const std::vector<std::pair<int64_t, int64_t>>& constants() const { return constants_; }
  // The leaves that it writes to.
  const std::vector<int64_t>& written() const { return written_; }

 private:
  const Callbacks& callbacks_;
  std::vector<TensorWords> words_;
  std::vector<uint64_t> addresses_;
  std::vector<uint8_t> live_;
  std::vector<std::pair<int64_t, int64_t>> constants_;
  std::vector<int64_t> written_;
  std::vector<int64_t> needed_;
  int64_t number_ = 0;  // 0: Python has none; or kInterrupted
};

class Device {
 public:
  Device(const GgmlHost& host, const Callbacks& callbacks, int64_t number, std::string name, std::string description,
         ggml_backend_reg_t reg);

  ggml_backend_dev_t ggml() { return reinterpret_cast<ggml_backend_dev_t>(&table_); }
  ggml_backend_buffer_type_t buffer_type() const { return buffer_type_; }
  const char* name() const { return name_.c_str(); }
  const char* description() const { return description_.c_str(); }
  void memory(size_t* free, size_t* total) const;
  bool supports(const ggml_tensor* node);

  // A stream of work (ggml's "backend").
  ggml_backend_t open();

  // Memory for tensors: new, or (`base`) somebody's.
  ggml_backend_buffer_t buffer(void* base, size_t size);
  void forget(BufferData* data);

  // Make a constant of a leaf's words where its memory is for weights.
  void constant(const ggml_tensor* tensor, TensorWords* words) const;

  GraphWords words() const { return {host_, this}; }

  // The plan for a graph: one that there is, or a new one.
  std::shared_ptr<Plan> plan(const GraphWords& graph);
  bool outdated(const Plan& plan);

  // Run it, on the CPU where Python fails.
  ggml_status run(const Plan& plan, const std::vector<const ggml_tensor*>& tensors, ggml_cgraph* graph);

 private:
  std::shared_ptr<Plan> known_plan(const GraphWords& graph, std::vector<uint64_t>* addresses,
                                   std::vector<uint8_t>* live);
  void remember(const std::shared_ptr<Plan>& plan);
  bool is_outdated(const Plan& plan) const;
  ggml_status run_on_cpu(ggml_cgraph* graph);
  BufferData* own_buffer(const ggml_tensor* tensor) const;

  const GgmlHost& host_;
  const Callbacks& callbacks_;
  const int64_t number_;
  const std::string name_;
  const std::string description_;
  abi::Device table_{};
  abi::BufferTypeV2 type_v2_{};
  abi::BufferTypeV3 type_v3_{};
  ggml_backend_buffer_type_t buffer_type_ = nullptr;

  std::mutex mutex_;                        // of what follows; never held while Python runs
  std::list<std::shared_ptr<Plan>> plans_;  // the last used first
  std::unordered_map<std::string, bool> verdicts_;
  std::unordered_map<int64_t, BufferData*> buffers_;

  std::mutex cpu_mutex_;
  ggml_backend_t cpu_ = nullptr;
};

}  // namespace executorch_ggml::devices
