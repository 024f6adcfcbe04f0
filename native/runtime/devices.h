// The ggml devices of this process, and the CPU's threads.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "../devices/custom_nodes.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "result.h"

namespace executorch_ggml {

struct DeviceInfo {
  std::string name;
  std::string description;
  std::string kind;  // "cpu", "gpu", "igpu", "accel"
};

// Every device that ggml has here, the CPU included. Loads ggml's backend libraries at first use.
std::vector<DeviceInfo> list_devices();

// What runs on the CPU; instruction sets by their names in EXECUTORCH_GGML_CPU.
struct CpuInfo {
  std::string kernels;      // the instruction set of our kernels
  std::string library;      // ggml's CPU library
  std::string library_isa;  // what it was compiled for
};
Status cpu_info(CpuInfo* info);

// Load a library with devices into ggml, unless ggml has a registration of that name.
Status load_backend(const std::string& path, const std::string& name);

// The device of programs that do not say: by default EXECUTORCH_GGML_DEVICE, or the CPU.
void set_default_device(const std::string& name);
std::string default_device();

// Threads for sessions that do not say; 0 restores the default: EXECUTORCH_GGML_NUM_THREADS, or one a core.
void set_default_threads(int threads);
int default_threads();

// The CPU backend with its threads: made once per thread count and shared by all sessions, since pools that spin
// against each other are slower than one.
class Cpu {
 public:
  static Status get(int threads, std::shared_ptr<Cpu>* cpu);

  // One that is shared with nobody: what runs on another device too may wait for that, and others not with it.
  static Status make(int threads, std::shared_ptr<Cpu>* cpu);
  ~Cpu();
  Cpu(const Cpu&) = delete;
  Cpu& operator=(const Cpu&) = delete;

  // For graphs that are worth waking threads for, and for those that are not.
  ggml_backend_t parallel() const { return parallel_.backend; }
  ggml_backend_t serial() const { return serial_.backend; }
  int threads() const { return threads_; }

  // Held while a graph runs: a pool serves one graph at a time.
  std::mutex& mutex() { return mutex_; }

 private:
  struct Lane {
    ggml_backend_t backend = nullptr;
    ggml_threadpool* pool = nullptr;
  };
  Cpu() = default;
  Status open(int threads, Lane* lane);
  void close(Lane* lane);

  Lane parallel_;
  Lane serial_;
  int threads_ = 1;
  std::mutex mutex_;
};

// ggml's CPU, or null where its library is missing.
ggml_backend_dev_t cpu_device();

// While it lives ggml logs warnings and errors alone.
class QuietLog {
 public:
  QuietLog();
  ~QuietLog();
  QuietLog(const QuietLog&) = delete;
  QuietLog& operator=(const QuietLog&) = delete;

 private:
  ggml_log_callback callback_ = nullptr;
  void* data_ = nullptr;
};

// A buffer that stands for memory which is not ggml's: tensors in it point wherever the caller's data is.
ggml_backend_buffer_t host_buffer();

// Where tensors of the host buffer point while nobody has given them data.
void* host_placeholder();

// A device other than the CPU by ggml's name for it, opened; null for "" and "cpu".
Status open_device(const std::string& name, ggml_backend_t* backend);

// Whether the CPU's kernels can read and write the device's memory.
bool shares_memory(ggml_backend_t backend);

// How to tell a device what custom nodes mean; null where it does not care.
devices::CustomNodesFunction custom_nodes_of(ggml_backend_t backend);

}  // namespace executorch_ggml
