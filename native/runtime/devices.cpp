#include "devices.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "cpu_library.h"
#include "resource_limits.h"
#include "status.h"

namespace executorch_ggml {
namespace {

// How long idle threads spin before they sleep, on ggml's scale of 0 to 100: 1 is about a millisecond. Longer would
// starve the host's own threads between two runs.
constexpr uint32_t kPoll = 1;

std::atomic<int> chosen_threads{0};
std::mutex device_mutex;
std::string chosen_device;

// ggml's backend libraries lie beside libggml.so; ggml itself looks beside the executable only.
std::string ggml_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&ggml_backend_load_all), &info) == 0 || info.dli_fname == nullptr) return "";
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

void keep_warnings(ggml_log_level level, const char* text, void* previous_level) {
  auto& last = *static_cast<ggml_log_level*>(previous_level);
  if (level != GGML_LOG_LEVEL_CONT) last = level;
  if (last >= GGML_LOG_LEVEL_WARN) std::fputs(text, stderr);
}

// Whether ggml's CPU can be used; other devices are loaded in any case.
const Status& load_backends_once() {
  static const Status loaded = [] {
    const QuietLog quiet;
    return load_cpu_library(ggml_folder());
  }();
  return loaded;
}

Status no_cpu() {
  return Status::error("ggml has no CPU backend here: no libggml-cpu*.so beside libggml.so (" + ggml_folder() + ")");
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

// ggml aborts where a thread of a pool does not start: as many are started and ended before.
Status check_threads(int count) {
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  std::vector<std::thread> threads(count);
  Status status;
  try {
    for (std::thread& thread : threads) thread = std::thread([ended] { ended.wait(); });
  } catch (const std::exception& error) {
    status = Status::error(format("cannot start %d threads: %s; use fewer", count, error.what()));
  }
  end.set_value();
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
  return status;
}

template <class Function>
Function cpu_function(ggml_backend_dev_t device, const char* name) {
  return reinterpret_cast<Function>(ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device), name));
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
  EXECUTORCH_GGML_TRY(load_backends_once());
  if (cpu_device() == nullptr) return no_cpu();
  const CpuLibrary library = library_of(cpu_device());
  *info = {kernels::isa_name(kernels::best_isa()), library.path, kernels::isa_name(library.isa)};
  return {};
}

Status load_backend(const std::string& path, const std::string& name) {
  load_backends_once();
  if (ggml_backend_reg_by_name(name.c_str()) != nullptr) return {};
  return ggml_backend_load(path.c_str()) ? Status() : Status::error("ggml cannot load " + path);
}

void set_default_device(const std::string& name) {
  std::lock_guard<std::mutex> lock(device_mutex);
  chosen_device = name;
}

std::string default_device() {
  std::lock_guard<std::mutex> lock(device_mutex);
  const char* text = std::getenv("EXECUTORCH_GGML_DEVICE");
  return chosen_device.empty() && text != nullptr ? text : chosen_device;
}

void set_default_threads(int threads) { chosen_threads = threads; }

int default_threads() {
  if (const int chosen = chosen_threads.load(); chosen > 0) return chosen;
  if (const char* text = std::getenv("EXECUTORCH_GGML_NUM_THREADS"); text != nullptr && std::atoi(text) > 0) {
    return std::min(std::atoi(text), static_cast<int>(GGML_MAX_N_THREADS));
  }
  const unsigned cores = std::thread::hardware_concurrency();
  return cores == 0 ? 1 : static_cast<int>(std::min(cores, static_cast<unsigned>(GGML_MAX_N_THREADS)));
}

Status Cpu::get(int threads, std::shared_ptr<Cpu>* cpu) {
  static std::mutex mutex;
  static std::map<int, std::weak_ptr<Cpu>> open_cpus;
  if (threads <= 0) threads = default_threads();
  std::lock_guard<std::mutex> lock(mutex);
  if ((*cpu = open_cpus[threads].lock())) return {};
  EXECUTORCH_GGML_TRY(make(threads, cpu));
  open_cpus[threads] = *cpu;
  return {};
}

Status Cpu::make(int threads, std::shared_ptr<Cpu>* cpu) {
  if (threads <= 0) threads = default_threads();
  if (threads > GGML_MAX_N_THREADS) {
    return Status::error(format("%d threads: ggml takes at most %d", threads, static_cast<int>(GGML_MAX_N_THREADS)));
  }
  std::shared_ptr<Cpu> made(new Cpu());
  made->threads_ = threads;
  EXECUTORCH_GGML_TRY(made->open(1, &made->serial_));
  EXECUTORCH_GGML_TRY(made->open(threads, &made->parallel_));
  *cpu = std::move(made);
  return {};
}

Status Cpu::open(int threads, Lane* lane) {
  EXECUTORCH_GGML_TRY(load_backends_once());
  ggml_backend_dev_t device = cpu_device();
  if (device == nullptr) return no_cpu();
  if (!can_allocate(kGgmlObject)) return Status::error(format("no memory for a pool of %d threads", threads));
  EXECUTORCH_GGML_TRY(check_threads(threads - 1));
  lane->backend = ggml_backend_dev_init(device, nullptr);
  const auto set_threads = cpu_function<ggml_backend_set_n_threads_t>(device, "ggml_backend_set_n_threads");
  const auto new_pool = cpu_function<decltype(&ggml_threadpool_new)>(device, "ggml_threadpool_new");
  const auto set_pool =
      cpu_function<decltype(&ggml_backend_cpu_set_threadpool)>(device, "ggml_backend_cpu_set_threadpool");
  if (lane->backend == nullptr || set_threads == nullptr || new_pool == nullptr || set_pool == nullptr) {
    return Status::error("ggml's CPU backend does not open or is not the ggml that this runtime was built for");
  }
  ggml_threadpool_params params = ggml_threadpool_params_default(threads);
  params.poll = kPoll;
  lane->pool = new_pool(&params);
  if (lane->pool == nullptr) return Status::error(format("ggml cannot start a pool of %d threads", threads));
  set_threads(lane->backend, threads);
  set_pool(lane->backend, lane->pool);
  return {};
}

void Cpu::close(Lane* lane) {
  ggml_backend_dev_t device = lane->backend ? ggml_backend_get_device(lane->backend) : nullptr;
  if (lane->backend) ggml_backend_free(lane->backend);
  if (lane->pool) cpu_function<decltype(&ggml_threadpool_free)>(device, "ggml_threadpool_free")(lane->pool);
}

Cpu::~Cpu() {
  close(&parallel_);
  close(&serial_);
}

ggml_backend_dev_t cpu_device() {
  load_backends_once();
  return ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
}

QuietLog::QuietLog() {
  ggml_log_get(&callback_, &data_);
  static ggml_log_level last = GGML_LOG_LEVEL_NONE;
  ggml_log_set(keep_warnings, &last);
}

QuietLog::~QuietLog() { ggml_log_set(callback_, data_); }

void* host_placeholder() {
  alignas(64) static char page[64];
  return page;
}

ggml_backend_buffer_t host_buffer() {
  static ggml_backend_buffer_t buffer = ggml_backend_cpu_buffer_from_ptr(host_placeholder(), 64);
  return buffer;
}

Status open_device(const std::string& name, ggml_backend_t* backend) {
  load_backends_once();
  *backend = nullptr;
  if (name.empty() || name == "cpu") return {};
  ggml_backend_dev_t device = ggml_backend_dev_by_name(name.c_str());
  if (device == nullptr) {
    std::string known = "cpu";
    for (const DeviceInfo& info : list_devices()) known += info.kind == "cpu" ? "" : ", " + info.name;
    return Status::error("no device " + name + " here; there is " + known);
  }
  if (ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_CPU) return {};
  *backend = ggml_backend_dev_init(device, nullptr);
  return *backend ? Status() : Status::error("device " + name + " does not open");
}

bool shares_memory(ggml_backend_t backend) {
  return ggml_backend_buft_is_host(ggml_backend_get_default_buffer_type(backend));
}

devices::CustomNodesFunction custom_nodes_of(ggml_backend_t backend) {
  ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(ggml_backend_get_device(backend));
  return reinterpret_cast<devices::CustomNodesFunction>(ggml_backend_reg_get_proc_address(reg, devices::kCustomNodes));
}

}  // namespace executorch_ggml
