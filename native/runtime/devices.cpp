#include "devices.h"

#include <cstdlib>
#include <mutex>

#include "cpu_library.h"
#include "fork.h"
#include "platform/platform.h"
#include "rpc.h"
#include "status.h"

namespace executorch_ggml {
namespace {

Mutex device_mutex;
std::string chosen_device;

// ggml's backend libraries lie beside libggml.so; ggml itself looks beside the executable only.
std::string ggml_folder() {
  const std::string path = platform::library_of_address(reinterpret_cast<const void*>(&ggml_backend_load_all));
  if (path.empty()) return "";
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

// How many QuietLogs live on this thread, and the level of the last line that ggml logged on it.
thread_local int quiet = 0;
thread_local ggml_log_level last_level = GGML_LOG_LEVEL_NONE;

struct Logger {
  ggml_log_callback callback = nullptr;
  void* data = nullptr;
};

void log_unless_quiet(ggml_log_level level, const char* text, void* logger) {
  if (level != GGML_LOG_LEVEL_CONT) last_level = level;
  if (quiet > 0 && last_level < GGML_LOG_LEVEL_WARN) return;
  const auto* next = static_cast<const Logger*>(logger);
  next->callback(level, text, next->data);
}

// ggml has one logger for the process, which the host may have set: ours goes before it, once, and stays. To swap it
// for the time of a call would take it from other threads, and put back the wrong one where two swap at a time.
void filter_log_once() {
  static const Logger* next = [] {
    auto* logger = new Logger();
    ggml_log_get(&logger->callback, &logger->data);
    ggml_log_set(log_unless_quiet, logger);
    return logger;
  }();
  (void)next;
}

// Whether ggml's CPU can be used; other devices are loaded in any case.
const Status& load_backends_once() {
  static const Status loaded = [] {
    const QuietLog quiet;
    return load_cpu_library(ggml_folder());
  }();
  return loaded;
}

const char* kind_name(enum ggml_backend_dev_type type) {
  switch (type) {
    case GGML_BACKEND_DEVICE_TYPE_CPU:
      return "cpu";
    case GGML_BACKEND_DEVICE_TYPE_GPU:
      return "gpu";
    case GGML_BACKEND_DEVICE_TYPE_IGPU:
      return "igpu";
    default:
      return "accel";
  }
}

}  // namespace

std::vector<DeviceInfo> list_devices() {
  load_backends_once();
  std::vector<DeviceInfo> devices;
  for (size_t i = 0; i < ggml_backend_dev_count(); ++i) {
    ggml_backend_dev_t device = ggml_backend_dev_get(i);
    devices.push_back({ggml_backend_dev_name(device), ggml_backend_dev_description(device),
                       kind_name(ggml_backend_dev_type(device))});
  }
  return devices;
}

Status cpu_info(CpuInfo* info) {
  ggml_backend_dev_t cpu = nullptr;
  EXECUTORCH_GGML_TRY(find_cpu(&cpu));
  const CpuLibrary library = library_of(cpu);
  *info = {kernels::isa_name(kernels::best_isa()), library.path, kernels::isa_name(library.isa)};
  return {};
}

Status load_backend(const std::string& path, const std::string& name) {
  load_backends_once();
  if (ggml_backend_reg_by_name(name.c_str()) != nullptr) return {};
  return ggml_backend_load(path.c_str()) ? Status() : Status::error("ggml cannot load " + path);
}

void set_default_device(const std::string& name) {
  std::lock_guard<Mutex> lock(device_mutex);
  chosen_device = name;
}

std::string default_device() {
  std::lock_guard<Mutex> lock(device_mutex);
  const char* text = std::getenv("EXECUTORCH_GGML_DEVICE");
  return chosen_device.empty() && text != nullptr ? text : chosen_device;
}

ggml_backend_dev_t cpu_device() {
  load_backends_once();
  return ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
}

Status find_cpu(ggml_backend_dev_t* cpu) {
  EXECUTORCH_GGML_TRY(load_backends_once());
  *cpu = cpu_device();
  if (*cpu != nullptr) return {};
  return Status::error("ggml has no CPU backend here: no libggml-cpu*.so beside libggml.so (" + ggml_folder() + ")");
}

QuietLog::QuietLog() {
  filter_log_once();
  ++quiet;
}

QuietLog::~QuietLog() { --quiet; }

void* host_placeholder() {
  alignas(64) static char page[64];
  return page;
}

ggml_backend_buffer_t host_buffer() {
  static ggml_backend_buffer_t buffer = ggml_backend_cpu_buffer_from_ptr(host_placeholder(), 64);
  return buffer;
}

ggml_backend_buffer_type_t memory_of(ggml_backend_t backend) {
  return backend != nullptr ? ggml_backend_get_default_buffer_type(backend) : ggml_backend_cpu_buffer_type();
}

Status find_device(const std::string& name, ggml_backend_dev_t* device) {
  load_backends_once();
  RpcName remote;
  if (parse_rpc_name(name, &remote)) return find_rpc_device(remote, device);
  *device = name == "cpu" ? cpu_device() : ggml_backend_dev_by_name(name.c_str());
  if (*device != nullptr) return {};
  std::string known = "cpu";
  for (const DeviceInfo& info : list_devices()) known += info.kind == "cpu" ? "" : ", " + info.name;
  return Status::error("no device " + readable(name) + " here; there is " + known +
                       ", and RPC[host:port] is one of a server");
}

Status open_device(const std::string& name, ggml_backend_t* backend) {
  load_backends_once();
  *backend = nullptr;
  if (name.empty() || name == "cpu") return {};
  ggml_backend_dev_t device = nullptr;
  EXECUTORCH_GGML_TRY(find_device(name, &device));
  if (ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_CPU) return {};
  const DeviceCall call(device);
  *backend = ggml_backend_dev_init(device, nullptr);
  return *backend ? Status() : Status::error("device " + name + " does not open");
}

bool shares_memory(ggml_backend_t backend) {
  const DeviceCall call(backend);
  return ggml_backend_buft_is_host(ggml_backend_get_default_buffer_type(backend));
}

bool runs_prologue(ggml_backend_t backend) {
  return backend != nullptr && !shares_memory(backend) && custom_nodes_of(backend) == nullptr;
}

devices::CustomNodesFunction custom_nodes_of(ggml_backend_t backend) {
  ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(ggml_backend_get_device(backend));
  return reinterpret_cast<devices::CustomNodesFunction>(ggml_backend_reg_get_proc_address(reg, devices::kCustomNodes));
}

}  // namespace executorch_ggml
