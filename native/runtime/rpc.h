// Devices of other processes and machines: ggml-rpc.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ggml-backend.h"
#include "result.h"

namespace executorch_ggml {

// What `RPC[host:port]` and `RPC1[host:port]` name: a server's first device, its second.
struct RpcName {
  std::string endpoint;
  size_t index = 0;
};

// Whether a device's name has that form.
bool parse_rpc_name(const std::string& name, RpcName* parsed);

// Connect to the server at "host:port". ggml lists its devices from then on.
Status add_rpc_server(const std::string& endpoint, std::vector<ggml_backend_dev_t>* devices);

// The device that an RpcName names, whose server is added first.
Status find_rpc_device(const RpcName& name, ggml_backend_dev_t* device);

// Lend devices to one client at a time. Returns when the server ends, which it does where it cannot listen.
Status serve_rpc(const std::string& endpoint, const std::vector<ggml_backend_dev_t>& devices, int threads);

struct RpcServer;

// Held while ggml is called for devices. All callers of a server in this process share one connection, which ggml does
// not guard: they take turns. ggml aborts where the connection is lost: while this is held that is an exception, and
// SIGPIPE is blocked. For the devices of this machine it does nothing. It is the last lock that is taken, and may be
// held already by the thread, for these devices and others.
class DeviceCall {
 public:
  explicit DeviceCall(ggml_backend_dev_t device);  // null: the CPU
  explicit DeviceCall(ggml_backend_t backend);     // likewise
  explicit DeviceCall(const std::vector<ggml_backend_t>& backends);
  explicit DeviceCall(const std::string& endpoint);
  ~DeviceCall();
  DeviceCall(const DeviceCall&) = delete;
  DeviceCall& operator=(const DeviceCall&) = delete;

 private:
  void enter(const std::set<std::string>& endpoints);

  std::vector<RpcServer*> servers_;  // in the order of their endpoints, as all callers lock them
  bool sigpipe_was_blocked_ = false;
};

// Free what lies in a device's memory. What is on a lost server is left to it.
void free_buffer(ggml_backend_buffer_t buffer);
void free_scheduler(ggml_backend_sched_t sched, const std::vector<ggml_backend_t>& devices);

}  // namespace executorch_ggml
