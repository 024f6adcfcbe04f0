// Which device computes each node of a graph, and where its leaves lie.
#pragma once

#include <cstddef>
#include <vector>

#include "device_list.h"
#include "ggml_ir_generated.h"

namespace executorch_ggml {

constexpr int kNowhere = -1;

// The prologue runs first, on the CPU; then each device of the list has one run of the nodes, in their order.
struct DevicePlan {
  std::vector<int> stages;                // of each node: nodes run in their order; 0 is the prologue's
  std::vector<int> places;                // of each node: its stage's, but for what writes to a state, which is there
  std::vector<std::vector<int>> readers;  // of each value: the places of the nodes that read it, ascending
  std::vector<int> states;                // where each of the graph's states lies

  // For a build without devices all is the host's, and nothing is planned.
  int stage(size_t node) const { return kIsSelective ? 0 : stages[node]; }
  int place(size_t node) const { return kIsSelective ? kHost : places[node]; }
  int state(size_t index) const { return kIsSelective ? kHost : states[index]; }
};

// The runs end near to where the weights and states that their nodes read reach the devices' shares: at the position
// where the fewest bytes cross, of those that are at most an eighth of all bytes and half of either share away, and
// leave each device something within its memory. `bytes` is what a value takes that is a constant or a state, and
// `states` where states lie already, kNowhere for new ones: those are where the first node runs that has to do with
// them, but on the host where no device could write them.
DevicePlan plan_devices(const fb::Graph& graph, const DeviceList& devices, const std::vector<size_t>& bytes,
                        const std::vector<int>& states);

}  // namespace executorch_ggml
