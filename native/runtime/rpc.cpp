#include "rpc.h"

#include <ggml-rpc.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>

#include "devices.h"
#include "fork.h"
#include "platform/platform.h"
#include "status.h"

namespace executorch_ggml {

// A server that this process uses, by all its sessions.
struct RpcServer {
  std::string endpoint;
  int64_t process = platform::process_id();
  Mutex turn;
};

// One for the process: this code is in several libraries, which ggml-rpc gives the same connection. Symbols of this
// kind are unique (STB_GNU_UNIQUE) where the library does not hide them: cmake/runtime.map.
struct __attribute__((visibility("default"))) RpcServers {
  Mutex mutex;
  std::map<std::string, std::unique_ptr<RpcServer>> by_endpoint;
};
template <class T>
struct __attribute__((visibility("default"))) OneOfProcess {
  static T* value;
};
template <class T>
T* OneOfProcess<T>::value = new T();  // sessions may outlive statics

namespace {

constexpr std::chrono::milliseconds kPatience{5000};  // for a server's first answer

thread_local const std::vector<RpcServer*>* in_call = nullptr;
ggml_abort_callback_t other_abort_callback = nullptr;

// ggml-rpc ends the process where its connection ends. It holds nothing then that its own unwinding does not let go of.
void on_abort(const char* message) {
  if (in_call != nullptr && std::strstr(message, "RPC server") != nullptr) {
    std::string endpoints;
    for (const RpcServer* server : *in_call) endpoints += (endpoints.empty() ? "" : " or ") + server->endpoint;
    throw std::runtime_error("the RPC server " + endpoints +
                             " was lost: it ended, or closed the connection; start it again, and then this process");
  }
  if (other_abort_callback != nullptr) return other_abort_callback(message);
  std::fprintf(stderr, "%s\n", message);
}

void catch_aborts_once() {
  static const bool caught = [] {
    other_abort_callback = ggml_set_abort_callback(on_abort);
    return true;
  }();
  (void)caught;
}

RpcServer* server_of(const std::string& endpoint) {
  RpcServers& servers = *OneOfProcess<RpcServers>::value;
  std::lock_guard<Mutex> lock(servers.mutex);
  std::unique_ptr<RpcServer>& server = servers.by_endpoint[endpoint];
  if (server == nullptr) {
    server = std::make_unique<RpcServer>();
    server->endpoint = endpoint;
  }
  return server.get();
}

// ggml describes a server's devices by its endpoint.
bool is_remote(ggml_backend_dev_t device) {
  return device != nullptr && std::strcmp(ggml_backend_reg_name(ggml_backend_dev_backend_reg(device)), "RPC") == 0;
}

template <class Function>
Status rpc_function(const char* name, Function* function) {
  ggml_backend_reg_t reg = ggml_backend_reg_by_name("RPC");
  *function =
      reg != nullptr ? reinterpret_cast<Function>(ggml_backend_reg_get_proc_address(reg, name)) : Function(nullptr);
  if (*function != nullptr) return {};
  return Status::error(
      "this ggml has no RPC: there is no libggml-rpc.so beside libggml.so; `python -m tools.install_ggml --backend "
      "rpc` "
      "in a checkout of executorch-ggml compiles it");
}

Status split_endpoint(const std::string& endpoint, std::string* host, std::string* port) {
  const size_t colon = endpoint.rfind(':');
  const std::string digits = colon == std::string::npos ? "" : endpoint.substr(colon + 1);
  const bool number =
      !digits.empty() && digits.size() <= 5 && digits.find_first_not_of("0123456789") == std::string::npos;
  if (colon == 0 || !number || std::atoi(digits.c_str()) < 1 || std::atoi(digits.c_str()) > 65535 ||
      endpoint.find(':') != colon) {
    return Status::error("RPC server \"" + readable(endpoint) + "\": expected host:port, as 192.168.1.2:50052");
  }
  *host = endpoint.substr(0, colon);
  *port = digits;
  return {};
}

// What ggml-rpc says first to a server: the number of HELLO, the size of what follows, and what its transport can do.
constexpr size_t kCapabilities = 24;

Status greet(const platform::Socket& socket, const std::string& endpoint) {
  unsigned char hello[1 + sizeof(uint64_t) + kCapabilities] = {14};
  const uint64_t follows = kCapabilities;
  std::memcpy(hello + 1, &follows, sizeof(follows));
  unsigned char answer[sizeof(uint64_t) + 4 + kCapabilities];  // its size, three numbers of the version
  const bool sent = socket.write(hello, sizeof(hello));
  if (sent && !socket.wait_for_data()) {
    return Status::error("RPC server " + endpoint +
                         " does not answer: it serves one client at a time, and another may be connected");
  }
  uint64_t size = 0;
  const bool whole = sent && socket.read(answer, sizeof(answer)) == sizeof(answer);
  if (whole) std::memcpy(&size, answer, sizeof(size));
  if (size != sizeof(answer) - sizeof(size)) {
    return Status::error("what listens at " + endpoint + " is no RPC server of ggml's, or one of another version");
  }
  const int major = answer[sizeof(size)];
  if (major == RPC_PROTO_MAJOR_VERSION) return {};
  return Status::error(
      format("RPC server %s speaks version %d of the protocol, expected %d: install the same ggml on both "
             "sides",
             endpoint.c_str(), major, RPC_PROTO_MAJOR_VERSION));
}

// ggml waits for ever for a server that does not answer, and says of others only that it failed.
Status try_server(const std::string& endpoint) {
  std::string host;
  std::string port;
  EXECUTORCH_GGML_TRY(split_endpoint(endpoint, &host, &port));
  platform::Socket socket(kPatience);
  const Status connected = socket.connect(host, port);
  if (connected.ok()) return greet(socket, endpoint);
  return Status::error("RPC server " + endpoint + ": " + connected.message() +
                       "; is it running? `executorch-ggml rpc-server` starts one");
}

}  // namespace

bool parse_rpc_name(const std::string& name, RpcName* parsed) {
  const size_t open = name.find('[');
  if (name.compare(0, 3, "RPC") != 0 || open == std::string::npos || name.back() != ']') return false;
  const std::string index = name.substr(3, open - 3);
  if (index.size() > 4 || index.find_first_not_of("0123456789") != std::string::npos) return false;
  parsed->index = index.empty() ? 0 : static_cast<size_t>(std::atoi(index.c_str()));
  parsed->endpoint = name.substr(open + 1, name.size() - open - 2);
  return true;
}

Status add_rpc_server(const std::string& endpoint, std::vector<ggml_backend_dev_t>* devices) {
  list_devices();  // loads ggml's libraries
  decltype(&ggml_backend_rpc_add_server) add = nullptr;
  EXECUTORCH_GGML_TRY(rpc_function("ggml_backend_rpc_add_server", &add));
  const DeviceCall call(endpoint);
  ggml_backend_reg_t reg = ggml_backend_reg_by_name(("RPC[" + endpoint + "]").c_str());
  if (reg == nullptr) {
    EXECUTORCH_GGML_TRY(try_server(endpoint));
    reg = add(endpoint.c_str());
    if (reg == nullptr) return Status::error("RPC server " + endpoint + " has no devices");
    ggml_backend_register(reg);
  }
  for (size_t i = 0; i < ggml_backend_reg_dev_count(reg); ++i) devices->push_back(ggml_backend_reg_dev_get(reg, i));
  return {};
}

Status find_rpc_device(const RpcName& name, ggml_backend_dev_t* device) {
  std::vector<ggml_backend_dev_t> devices;
  EXECUTORCH_GGML_TRY(add_rpc_server(name.endpoint, &devices));
  if (name.index >= devices.size()) {
    return Status::error(format("RPC server %s has %zu device(s), and no RPC%zu[%s]; they count from 0",
                                name.endpoint.c_str(), devices.size(), name.index, name.endpoint.c_str()));
  }
  *device = devices[name.index];
  return {};
}

Status serve_rpc(const std::string& endpoint, const std::vector<ggml_backend_dev_t>& devices, int threads) {
  decltype(&ggml_backend_rpc_start_server) start = nullptr;
  EXECUTORCH_GGML_TRY(rpc_function("ggml_backend_rpc_start_server", &start));
  std::vector<ggml_backend_dev_t> lent = devices;
  start(endpoint.c_str(), /*cache_dir=*/nullptr, static_cast<size_t>(threads), lent.size(), lent.data());
  return Status::error("the RPC server at " + endpoint + " ended; ggml says above why");
}

DeviceCall::DeviceCall(ggml_backend_dev_t device) {
  if (is_remote(device)) enter({ggml_backend_dev_description(device)});
}

DeviceCall::DeviceCall(ggml_backend_t backend)
    : DeviceCall(backend != nullptr ? ggml_backend_get_device(backend) : nullptr) {}

DeviceCall::DeviceCall(const std::vector<ggml_backend_t>& backends) {
  std::set<std::string> endpoints;
  for (ggml_backend_t backend : backends) {
    ggml_backend_dev_t device = ggml_backend_get_device(backend);
    if (is_remote(device)) endpoints.insert(ggml_backend_dev_description(device));
  }
  enter(endpoints);
}

DeviceCall::DeviceCall(const std::string& endpoint) { enter({endpoint}); }

void DeviceCall::enter(const std::set<std::string>& endpoints) {
  if (in_call != nullptr || endpoints.empty()) return;
  catch_aborts_once();
  for (const std::string& endpoint : endpoints) {
    servers_.push_back(server_of(endpoint));
    if (servers_.back()->process == platform::process_id()) continue;
    throw std::runtime_error("the RPC server " + endpoint +
                             " is in use by the process that this one was forked from, and they would share a "
                             "connection; connect to it after the fork, or from one of them alone");
  }
  for (RpcServer* server : servers_) server->turn.lock();
  in_call = &servers_;
  sigpipe_was_blocked_ = platform::block_pipe_signal();
}

DeviceCall::~DeviceCall() {
  if (servers_.empty()) return;
  in_call = nullptr;
  for (RpcServer* server : servers_) server->turn.unlock();
  if (!sigpipe_was_blocked_) platform::unblock_pipe_signal();
}

void free_buffer(ggml_backend_buffer_t buffer) {
  (void)without_exceptions([&]() -> Status {
    const DeviceCall call(ggml_backend_buft_get_device(ggml_backend_buffer_get_type(buffer)));
    ggml_backend_buffer_free(buffer);
    return {};
  });
}

void free_scheduler(ggml_backend_sched_t sched, const std::vector<ggml_backend_t>& devices) {
  (void)without_exceptions([&]() -> Status {
    const DeviceCall call(devices);
    ggml_backend_sched_free(sched);
    return {};
  });
}

}  // namespace executorch_ggml
