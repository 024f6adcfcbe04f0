// In place of device_list.cpp, device_plan.cpp and rpc.cpp where a build has no device but the CPU
// (cmake/Selection.cmake).

#include <utility>

#include "device_list.h"
#include "device_plan.h"
#include "rpc.h"
#include "status.h"

namespace executorch_ggml {

DeviceList::~DeviceList() = default;

Status DeviceList::open(const std::string& names) {
  if (names.empty() || names == "cpu") return {};
  return Status::error("device " + readable(names) + ": this runtime was built for the CPU alone");
}

std::vector<ggml_backend_t> DeviceList::backends() const { return {}; }

devices::CustomNodesFunction DeviceList::custom_nodes() const { return nullptr; }

Status DeviceList::check_memory(const std::vector<size_t>&) const { return {}; }

std::string device_name(ggml_backend_t backend) { return ggml_backend_name(backend); }

DevicePlan plan_devices(const fb::Graph& graph, const DeviceList&, const std::vector<size_t>&,
                        const std::vector<int>& states) {
  const auto* nodes = graph.nodes();
  const auto* values = graph.values();
  DevicePlan plan;
  plan.places.assign(nodes != nullptr ? nodes->size() : 0, kHost);
  plan.stages = plan.places;
  plan.states.assign(states.size(), kHost);
  plan.readers.resize(values != nullptr ? values->size() : 0);
  for (size_t i = 0; i < plan.places.size(); ++i) {
    const auto* inputs = nodes->Get(static_cast<flatbuffers::uoffset_t>(i))->inputs();
    for (size_t k = 0; inputs != nullptr && k < inputs->size(); ++k) {
      const auto value = static_cast<size_t>(inputs->Get(static_cast<flatbuffers::uoffset_t>(k)));
      if (value < plan.readers.size()) plan.readers[value] = {kHost};
    }
  }
  return plan;
}

bool parse_rpc_name(const std::string&, RpcName*) { return false; }

Status find_rpc_device(const RpcName&, ggml_backend_dev_t*) { return Status::error("no devices of servers here"); }

DeviceCall::DeviceCall(ggml_backend_dev_t) {}
DeviceCall::DeviceCall(ggml_backend_t) {}
DeviceCall::DeviceCall(const std::vector<ggml_backend_t>&) {}
DeviceCall::~DeviceCall() = default;

void free_buffer(ggml_backend_buffer_t buffer) { ggml_backend_buffer_free(buffer); }

void free_scheduler(ggml_backend_sched_t sched, const std::vector<ggml_backend_t>&) { ggml_backend_sched_free(sched); }

}  // namespace executorch_ggml
