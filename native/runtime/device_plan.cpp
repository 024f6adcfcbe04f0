#include "device_plan.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <numeric>
#include <tuple>

#include "node_builder.h"
#include "readers.h"
#include "shapes.h"

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

// How far a cut may move from its share, of all weights and states: half a layer of a model of four.
constexpr double kFarthest = 1.0 / 8.0;

// Sizes that are known when inputs come are as near to this as they may be: what crosses is only compared, and images
// that are too small for their layers, or products of unbounded sizes, would compare as nothing else does.
constexpr int64_t kUsualSize = 1024;

// 0 where the sizes are none that a value can have.
double value_bytes(const Shapes& shapes, const fb::Value& value) {
  Dims ne{};
  if (!shapes.sizes(value.ne(), &ne).ok()) return 0.0;
  const ggml_type type = storage_type(static_cast<DType>(value.dtype()));
  double bytes = static_cast<double>(ggml_type_size(type)) / static_cast<double>(ggml_blck_size(type));
  for (const int64_t size : ne) bytes *= static_cast<double>(size);
  return bytes;
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
  bool computes(size_t i) const { return !host_[i] && !is_view(node(i)); }

  // Of a value that is a state; kNowhere for others.
  int place_of_state(size_t value) const {
    return state_of_[value] >= 0 ? plan_.states[static_cast<size_t>(state_of_[value])] : kNowhere;
  }

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
      if (!is_op(node(i), OpKind::UpdateState)) continue;
      each_state(i, [&](size_t written) { by_rows = by_rows && written != state; });
    }
    return by_rows;
  }

  // The states of the host, new ones and others; what writes to another is no part of the prologue.
  void keep_states_on_host() {
    std::vector<bool> on_device(plan_.states.size(), !devices_.runs_prologue());
    for (size_t i = 0; i < host_.size(); ++i) {
      if (computes(i)) each_state(i, [&](size_t state) { on_device[state] = true; });
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

  // The bytes of weights and states that each node is the first to read, and the place of a state that it must do with.
  void find_first_reads() {
    std::vector<bool> counted(roots_.size(), false);
    anchors_.resize(host_.size(), kNowhere);
    bytes_before_.resize(host_.size() + 1, 0.0);
    for (size_t i = 0; i < host_.size(); ++i) {
      bytes_before_[i + 1] = bytes_before_[i];
      if (!computes(i)) continue;
      each_input(i, [&](size_t value) {
        const size_t leaf = roots_[value];
        const int place = place_of_state(leaf);
        if (anchors_[i] == kNowhere && place > kHost) anchors_[i] = place;
        if (!counted[leaf] && place != kHost) bytes_before_[i + 1] += static_cast<double>(bytes_[leaf]);
        counted[leaf] = true;
      });
    }
  }

  // Bytes of all weights and states that devices read.
  double total() const { return bytes_before_.back(); }

  // Stages of the nodes that compute, from shares, and from the states that are somewhere already.
  void cut() {
    if (devices_.empty()) return;
    find_first_reads();
    const std::vector<double> shares = shares_of_all();
    std::vector<size_t> ends = ends_by_shares(shares);
    move_cuts(shares, &ends);
    size_t stage = 1;
    for (size_t i = 0; i < host_.size(); ++i) {
      while (ends[stage] <= i) ++stage;
      if (!host_[i]) plan_.stages[i] = static_cast<int>(stage);
    }
  }

  // Each device's fraction of all weights and states, indexed by place.
  std::vector<double> shares_of_all() const {
    std::vector<double> shares = devices_.shares(static_cast<size_t>(total()));
    const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
    for (double& share : shares) share /= all;
    return shares;
  }

  // The end of each device's run of nodes, as an index into the nodes, where the weights reach its share.
  std::vector<size_t> ends_by_shares(const std::vector<double>& shares) const {
    std::vector<size_t> ends(shares.size(), 0);
    double end = 0.0;
    for (size_t place = 1; place < shares.size(); ++place) {
      end += shares[place];
      ends[place] = within_anchors(static_cast<int>(place), end > 0.0 ? position_at(end * total()) : 0);
    }
    ends.back() = host_.size();
    return ends;
  }

  // Before the first node of which more than a half lies beyond so many bytes.
  size_t position_at(double bytes) const {
    size_t i = 0;
    const auto is_before = [&] {
      return bytes_before_[i + 1] <= bytes_before_[i] || (bytes_before_[i] + bytes_before_[i + 1]) / 2.0 <= bytes;
    };
    while (i < host_.size() && is_before()) ++i;
    return i;
  }

  // The nearest position at which a place's run may end: behind what must be there or earlier, but before what must be
  // later.
  size_t within_anchors(int place, size_t position) const {
    size_t latest = host_.size();
    for (size_t i = host_.size(); i-- > 0;) {
      if (anchors_[i] > place) latest = i;
      if (anchors_[i] > kHost && anchors_[i] <= place) position = std::max(position, i + 1);
    }
    return std::min(latest, position);
  }

  // A cut between the runs of two places: where it is wanted, and how far from there it may be, in bytes of weights and
  // states.
  struct Cut {
    size_t left;
    size_t right;
    double share;
    double farthest;
  };

  // Moves each cut between two devices to the nearby index where the fewest bytes cross.
  void move_cuts(const std::vector<double>& shares, std::vector<size_t>* ends) const {
    const std::vector<double> crossing = crossing_bytes();
    double share = 0.0;
    size_t left = 0;
    for (size_t right = 1; right < shares.size(); ++right) {
      if (shares[right] <= 0.0) continue;
      if (left > 0 && (*ends)[left] == (*ends)[right - 1]) {
        const double farthest = std::min({kFarthest, shares[left] / 2.0, shares[right] / 2.0});
        const size_t position = cheapest({left, right, share * total(), farthest * total()}, *ends, crossing);
        std::fill_n(ends->begin() + static_cast<std::ptrdiff_t>(left), right - left, position);
      }
      share += shares[right];
      left = right;
    }
  }

  // The position that the fewest bytes cross, the nearest one of several.
  size_t cheapest(const Cut& cut, const std::vector<size_t>& ends, const std::vector<double>& crossing) const {
    const size_t from = ends[cut.left];
    const size_t low = std::max(ends[cut.left - 1], within_anchors(static_cast<int>(cut.right) - 1, 0));
    const size_t high = std::min(ends[cut.right], within_anchors(static_cast<int>(cut.left), host_.size()));
    const double share = std::clamp(cut.share, bytes_before_[low], bytes_before_[high]);
    const auto distance = [&](size_t position) { return std::abs(bytes_before_[position] - share); };
    const auto costs = [&](size_t position) {
      return std::make_tuple(crossing[position], distance(position),
                             position > from ? position - from : from - position);
    };
    size_t best = from;
    for (size_t position = low; position <= high; ++position) {
      const bool is_near = distance(position) <= cut.farthest;
      if (is_near && costs(position) < costs(best) && has_room(cut, ends, position)) best = position;
    }
    return best;
  }

  // Whether a cut at another index leaves both devices weights if they had some, and within their memory if they were.
  bool has_room(const Cut& cut, const std::vector<size_t>& ends, size_t position) const {
    const auto may_have = [&](size_t place, double bytes, double bytes_by_share) {
      return (bytes > 0.0 || bytes_by_share <= 0.0) &&
             bytes <= std::max(bytes_by_share, devices_.room(static_cast<int>(place)));
    };
    const size_t begin = ends[cut.left - 1];
    const size_t from = ends[cut.left];
    const size_t end = ends[cut.right];
    return may_have(cut.left, new_bytes(begin, position), new_bytes(begin, from)) &&
           may_have(cut.right, new_bytes(position, end), new_bytes(from, end));
  }

  // What the weights and new states take that the nodes between two positions read.
  double new_bytes(size_t begin, size_t end) const {
    double bytes = 0.0;
    std::vector<bool> counted(roots_.size(), false);
    for (size_t i = begin; i < end; ++i) {
      if (!computes(i)) continue;
      each_input(i, [&](size_t value) {
        const size_t leaf = roots_[value];
        if (!counted[leaf] && place_of_state(leaf) == kNowhere) bytes += static_cast<double>(bytes_[leaf]);
        counted[leaf] = true;
      });
    }
    return bytes;
  }

  // At each position, the bytes that nodes on both sides of it share: results of the devices, and states, which would
  // be copied to where they are read.
  std::vector<double> crossing_bytes() const {
    std::vector<double> crossing(host_.size() + 1, 0.0);
    Shapes shapes;
    if (devices_.size() < 2 || !shapes.bind_near(graph_, kUsualSize).ok()) return crossing;
    const size_t unused = host_.size();
    std::vector<size_t> first(roots_.size(), unused);
    std::vector<size_t> last(roots_.size(), unused);
    for (size_t i = 0; i < host_.size(); ++i) {
      size_t result = 0;
      if (!computes(i)) continue;
      each_input(i, [&](size_t value) {
        const size_t root = roots_[value];
        if (first[root] == unused && state_of_[root] >= 0 && place_of_state(root) != kHost) first[root] = i;
        last[root] = i;
      });
      if (output(i, &result) && first[roots_[result]] == unused) first[roots_[result]] = last[roots_[result]] = i;
    }
    for (size_t root = 0; root < roots_.size(); ++root) {
      if (first[root] == unused || first[root] == last[root]) continue;
      const double bytes = value_bytes(shapes, *graph_.values()->Get(index(root)));
      for (size_t position = first[root] + 1; position <= last[root]; ++position) crossing[position] += bytes;
    }
    return crossing;
  }

  void place_states() {
    for (size_t i = 0; i < host_.size(); ++i) {
      if (!computes(i)) continue;
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
  std::vector<double> bytes_before_;  // at each position, of weights and states
  std::vector<int> anchors_;
  DevicePlan plan_;
};

}  // namespace

DevicePlan plan_devices(const fb::Graph& graph, const DeviceList& devices, const std::vector<size_t>& bytes,
                        const std::vector<int>& states) {
  return Planner(graph, devices, bytes, states).plan();
}

}  // namespace executorch_ggml
