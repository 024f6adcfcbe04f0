// In place of device_list.cpp, device_plan.cpp and rpc.cpp where a build has no device but the CPU
// (cmake/Selection.cmake).

#include "device_list.h"
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

bool parse_rpc_name(const std::string&, RpcName*) { return false; }

Status find_rpc_device(const RpcName&, ggml_backend_dev_t*) { return Status::error("no devices of servers here"); }

DeviceCall::DeviceCall(ggml_backend_dev_t) {}
DeviceCall::DeviceCall(ggml_backend_t) {}
DeviceCall::DeviceCall(const std::vector<ggml_backend_t>&) {}
DeviceCall::~DeviceCall() = default;

void free_buffer(ggml_backend_buffer_t buffer) { ggml_backend_buffer_free(buffer); }

void free_scheduler(ggml_backend_sched_t sched, const std::vector<ggml_backend_t>&) { ggml_backend_sched_free(sched); }

}  // namespace executorch_ggml
