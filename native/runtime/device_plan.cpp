#include "device_plan.h"

#include <algorithm>
#include <climits>
#include <numeric>

#include "node_builder.h"
#include "readers.h"

namespace executorch_ggml {
namespace {

template <class T>
size_t size_of(const T* vector) {
  return vector ? vector->size() : 0;
}

flatbuffers::uoffset_t index(size_t i) { return static_cast<flatbuffers::uoffset_t>(i); }

bool is_view(const fb::Node& node) { return op_info(node.op_type()).moves == Moves::View; }

bool is_float(fb::DType dtype) {
  return dtype == fb::DType::F32 || dtype == fb::DType::F16 || dtype == fb::DType::Bf16;
}

class Planner {
 public:
  Planner(const fb::Graph& graph, const DeviceList& devices, const std::vector<size_t>& bytes,
          const std::vector<int>& states)
      : graph_(graph), devices_(devices), bytes_(bytes), known_(states), state_of_(size_of(graph.values()), -1) {
    const size_t nodes = size_of(graph.nodes());
    plan_.stages.resize(nodes, kHost);
    plan_.readers.resize(size_of(graph.values()));
    plan_.states.resize(size_of(graph.states()), kHost);
    host_ = devices.runs_prologue() ? host_nodes(graph) : std::vector<bool>(nodes, devices.empty());
  }

  DevicePlan plan() {
    find_roots();
    keep_states_on_host();
    cut();
    place_states();
    place_views();
    plan_.places = plan_.stages;
    place_writes();
    find_readers();
    return std::move(plan_);
  }

 private:
  const fb::Node& node(size_t i) const { return *graph_.nodes()->Get(index(i)); }
  Writes writes(size_t i) const { return op_info(node(i).op_type()).writes; }

  // Calls `visit` with the values of the graph that a node reads.
  template <class Visit>
  void each_input(size_t i, const Visit& visit) const {
    for (size_t k = 0; k < size_of(node(i).inputs()); ++k) {
      const int value = node(i).inputs()->Get(index(k));
      if (value >= 0 && static_cast<size_t>(value) < roots_.size()) visit(static_cast<size_t>(value));
    }
  }

  bool output(size_t i, size_t* value) const {
    *value = static_cast<size_t>(node(i).output());
    return node(i).output() >= 0 && *value < roots_.size();
  }

  // The states that a node reads or writes, or views of them.
  template <class Visit>
  void each_state(size_t i, const Visit& visit) const {
    each_input(i, [&](size_t value) {
      if (state_of_[roots_[value]] >= 0) visit(static_cast<size_t>(state_of_[roots_[value]]));
    });
  }

  // The leaf or the result that each value is the memory of.
  void find_roots() {
    roots_.resize(size_of(graph_.values()));
    std::iota(roots_.begin(), roots_.end(), size_t{0});
    for (size_t s = 0; s < plan_.states.size(); ++s) {
      state_of_[static_cast<size_t>(graph_.states()->Get(index(s))->value())] = static_cast<int>(s);
    }
    for (size_t i = 0; i < host_.size(); ++i) {
      size_t result = 0;
      const size_t source = writes(i) == Writes::Whole ? 1 : 0;
      if ((!is_view(node(i)) && writes(i) == Writes::No) || size_of(node(i).inputs()) <= source) continue;
      const int value = node(i).inputs()->Get(index(source));
      if (output(i, &result) && value >= 0 && static_cast<size_t>(value) < roots_.size()) {
        roots_[result] = roots_[static_cast<size_t>(value)];
      }
    }
  }

  // Whether a device could write to a state: what has integers, or gets quantized otherwise than by whole rows, is
  // computed by the CPU.
  bool device_writes(size_t state) const {
    const fb::Value& value =
        *graph_.values()->Get(index(static_cast<size_t>(graph_.states()->Get(index(state))->value())));
    if (is_float(value.dtype())) return true;
    bool by_rows = is_quantized(static_cast<DType>(value.dtype()));
    for (size_t i = 0; i < host_.size(); ++i) {
      if (node(i).op_type() != fb::Op::UpdateState) continue;
      each_state(i, [&](size_t written) { by_rows = by_rows && written != state; });
    }
    return by_rows;
  }

  // The states of the host, new ones and others; what writes to another is no part of the prologue.
  void keep_states_on_host() {
    std::vector<bool> on_device(plan_.states.size(), !devices_.runs_prologue());
    for (size_t i = 0; i < host_.size(); ++i) {
      if (!host_[i] && !is_view(node(i))) each_state(i, [&](size_t state) { on_device[state] = true; });
    }
    for (size_t s = 0; s < plan_.states.size(); ++s) {
      const bool stays = !on_device[s] || (devices_.runs_prologue() && !device_writes(s));
      plan_.states[s] = known_[s] != kNowhere ? known_[s] : stays || devices_.empty() ? kHost : kNowhere;
    }
    for (size_t i = 0; i < host_.size() && !devices_.empty(); ++i) {
      if (writes(i) == Writes::No) continue;
      each_state(i, [&](size_t state) { host_[i] = host_[i] && plan_.states[state] == kHost; });
    }
  }

  // The bytes that each node is the first to read, and the place of a state that it must do with.
  void first_reads(std::vector<double>* first, std::vector<int>* anchors) const {
    std::vector<bool> counted(roots_.size(), false);
    for (size_t i = 0; i < host_.size(); ++i) {
      if (host_[i] || is_view(node(i))) continue;
      each_input(i, [&](size_t value) {
        const size_t leaf = roots_[value];
        const int state = state_of_[leaf];
        const int place = state >= 0 ? plan_.states[static_cast<size_t>(state)] : kNowhere;
        if ((*anchors)[i] == kNowhere && place > kHost) (*anchors)[i] = place;
        if (!counted[leaf] && place != kHost) (*first)[i] += static_cast<double>(bytes_[leaf]);
        counted[leaf] = true;
      });
    }
  }

  // Stages of the nodes that compute, from shares, and from the states that are somewhere already.
  void cut() {
    if (devices_.empty()) return;
    std::vector<double> first(host_.size(), 0.0);
    std::vector<int> anchors(host_.size(), kNowhere);
    first_reads(&first, &anchors);
    const double total = std::accumulate(first.begin(), first.end(), 0.0);
    const std::vector<double> shares = devices_.shares(static_cast<size_t>(total));
    std::vector<int> at_most(host_.size() + 1, devices_.size());
    for (size_t i = host_.size(); i-- > 0;) {
      at_most[i] = anchors[i] == kNowhere ? at_most[i + 1] : std::min(anchors[i], at_most[i + 1]);
    }
    double before = 0.0;
    int stage = stage_at(0.0, shares);
    for (size_t i = 0; i < host_.size(); ++i) {
      if (host_[i]) continue;
      const double middle = before + first[i] / 2.0;
      before += first[i];
      const int wanted = first[i] > 0.0 ? stage_at(middle / total, shares) : stage;
      stage = std::max({stage, anchors[i], std::min(at_most[i], wanted)});
      plan_.stages[i] = stage;
    }
  }

  // The place whose share of everything ends at a fraction of it or later.
  static int stage_at(double fraction, const std::vector<double>& shares) {
    const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
    double end = 0.0;
    size_t last = 1;
    for (size_t place = 1; place < shares.size(); ++place) {
      if (shares[place] <= 0.0) continue;
      last = place;
      end += shares[place];
      if (fraction * total <= end) break;
    }
    return static_cast<int>(last);
  }

  void place_states() {
    for (size_t i = 0; i < host_.size(); ++i) {
      if (host_[i] || is_view(node(i))) continue;
      each_state(i, [&](size_t state) {
        if (plan_.states[state] == kNowhere) plan_.states[state] = plan_.stages[i];
      });
    }
    std::replace(plan_.states.begin(), plan_.states.end(), kNowhere, 1);  // what no node reads
  }

  // Views are where what reads them first runs, so that a leaf is.
  void place_views() {
    std::vector<int> reader(roots_.size(), INT_MAX);
    for (size_t i = host_.size(); i-- > 0;) {
      size_t value = 0;
      const bool read = !host_[i] && is_view(node(i)) && output(i, &value) && reader[value] != INT_MAX;
      if (read) plan_.stages[i] = reader[value];
      if (!host_[i]) each_input(i, [&](size_t input) { reader[input] = std::min(reader[input], plan_.stages[i]); });
    }
  }

  // A state is written where it lies, and as a whole when all that reads it has run.
  void place_writes() {
    for (size_t i = 0; i < host_.size(); ++i) {
      if (host_[i] || writes(i) == Writes::No) continue;
      each_state(i, [&](size_t state) {
        size_t value = 0;
        if (output(i, &value) && state_of_[roots_[value]] != static_cast<int>(state)) return;
        plan_.places[i] = plan_.states[state];
        if (writes(i) == Writes::Whole) plan_.stages[i] = std::min(plan_.stages[i], last_stage(i, state));
      });
    }
  }

  // Of what a write to a state must run after.
  int last_stage(size_t write, size_t state) const {
    int last = 1;
    for (size_t i = 0; i < host_.size(); ++i) {
      size_t value = 0;
      if (i == write) continue;
      const bool gives_source = output(i, &value) && node(write).inputs()->Get(0) == node(i).output();
      if (gives_source) last = std::max(last, plan_.stages[i]);
      each_state(i, [&](size_t other) { last = std::max(last, other == state ? plan_.stages[i] : 1); });
    }
    for (size_t i = 0; i < size_of(graph_.outputs()); ++i) {
      const int value = graph_.outputs()->Get(index(i))->value();
      if (value >= 0 && state_of_[roots_[static_cast<size_t>(value)]] == static_cast<int>(state)) last = INT_MAX;
    }
    return last;
  }

  void find_readers() {
    for (size_t i = 0; i < host_.size(); ++i) {
      each_input(i, [&](size_t value) { plan_.readers[value].push_back(plan_.places[i]); });
    }
    for (std::vector<int>& places : plan_.readers) {
      std::sort(places.begin(), places.end());
      places.erase(std::unique(places.begin(), places.end()), places.end());
    }
  }

  const fb::Graph& graph_;
  const DeviceList& devices_;
  const std::vector<size_t>& bytes_;
  const std::vector<int>& known_;
  std::vector<bool> host_;
  std::vector<size_t> roots_;
  std::vector<int> state_of_;
  DevicePlan plan_;
};

}  // namespace

DevicePlan plan_devices(const fb::Graph& graph, const DeviceList& devices, const std::vector<size_t>& bytes,
                        const std::vector<int>& states) {
  return Planner(graph, devices, bytes, states).plan();
}

}  // namespace executorch_ggml
