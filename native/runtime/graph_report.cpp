// What a prepared graph tells of itself: where nodes are computed, and where intermediate values lie.

#include <algorithm>
#include <utility>

#include "memory_plan.h"
#include "prepared_graph.h"
#include "status.h"

namespace executorch_ggml {
namespace {

// The bytes that a tensor of the boundary moves between the caller's memory and a device's.
size_t bytes_moved(const ggml_tensor* tensor) {
  return tensor->buffer == nullptr || ggml_backend_buffer_is_host(tensor->buffer) ? 0 : ggml_nbytes(tensor);
}

}  // namespace

Placement PreparedGraph::placement() {
  Placement placement;
  const std::vector<DeviceUse> of_copies = uses_;
  for (const Boundary& input : inputs_) {
    if (DeviceUse* use = use_of(input.tensor)) use->bytes_to += bytes_moved(input.tensor);
  }
  for (const Boundary& output : outputs_) {
    if (DeviceUse* use = use_of(output.tensor)) use->bytes_from += bytes_moved(output.tensor);
  }
  placement.devices = std::exchange(uses_, of_copies);
  if (sched_ == nullptr) placement.devices.push_back({device_name(cpu_->backend()), 1, 0, 0, 0});
  if (sched_ != nullptr) placement.splits = ggml_backend_sched_get_n_splits(sched_);
  for (size_t i = 0; i < made_.size(); ++i) {
    if (made_[i] == nullptr || is_view(made_[i])) continue;
    const fb::Node& node = *graph_.nodes()->Get(static_cast<flatbuffers::uoffset_t>(i));
    ggml_backend_t backend = sched_ ? ggml_backend_sched_get_tensor_backend(sched_, made_[i]) : cpu_->backend();
    if (backend == nullptr) continue;  // nothing reads it
    const auto reason = reasons_.find(made_[i]);
    placement.nodes.push_back({node.name() != nullptr ? node.name()->c_str() : "", static_cast<int>(node.op_type()),
                               device_name(backend), reason != reasons_.end() ? reason->second : ""});
  }
  return placement;
}

Status PreparedGraph::memory_use(MemoryUse* use) const {
  if (sched_ != nullptr) return Status::error("the plan of the working memory is the CPU's; open the program there");
  use->steps = program_nodes(arena_.context(), cgraph_, last_tensors_);
  if (memory_ == nullptr) return {};
  for (const PlacedTensor& placed : placed_tensors(cgraph_, memory_->buffer())) {
    use->bytes = std::max(use->bytes, placed.offset + placed.size);
    use->blocks.push_back(
        {use->steps[static_cast<size_t>(placed.first)], placed.offset, placed.size, placed.first, placed.last});
  }
  return {};
}

}  // namespace executorch_ggml
