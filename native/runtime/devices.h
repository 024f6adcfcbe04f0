// The ggml devices of this process.
#pragma once

#include <string>
#include <vector>

#include "../devices/custom_nodes.h"
#include "ggml-backend.h"
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

// ggml's CPU, or null where its library is missing.
ggml_backend_dev_t cpu_device();

// The same, with an error where it is missing, or where it is not to be used: see cpu_library.h.
Status find_cpu(ggml_backend_dev_t* cpu);

// While it lives ggml logs nothing on this thread but warnings and errors.
class QuietLog {
 public:
  QuietLog();
  ~QuietLog();
  QuietLog(const QuietLog&) = delete;
  QuietLog& operator=(const QuietLog&) = delete;
};

// A buffer that stands for memory which is not ggml's: tensors in it point wherever the caller's data is.
ggml_backend_buffer_t host_buffer();

// The memory of a backend; null: the CPU's.
ggml_backend_buffer_type_t memory_of(ggml_backend_t backend);

// Where tensors of the host buffer point while nobody has given them data.
void* host_placeholder();

// A device by ggml's name for it, or by RPC[host:port] for a server's.
Status find_device(const std::string& name, ggml_backend_dev_t* device);

// A device other than the CPU by its name, opened; null for "" and "cpu".
Status open_device(const std::string& name, ggml_backend_t* backend);

// Whether the CPU's kernels can read and write the device's memory.
bool shares_memory(ggml_backend_t backend);

// Whether what a program marks as the host's is computed by the CPU before the rest: not where the CPU reads the
// device's memory (null: the CPU), or the device computes what the program says, whatever it is.
bool runs_prologue(ggml_backend_t backend);

// How to tell a device what custom nodes mean; null where it does not care.
devices::CustomNodesFunction custom_nodes_of(ggml_backend_t backend);

}  // namespace executorch_ggml
