// The devices that a program is computed on.
#pragma once

#include <string>
#include <vector>

#include "devices.h"
#include "ggml-backend.h"
#include "result.h"

namespace executorch_ggml {

// The place of what the CPU computes before the devices begin, and of all that a program for the CPU alone computes.
constexpr int kHost = 0;

// Devices in the order in which the nodes of a program run on them: places from 1 on. There are none where the CPU
// computes all of it.
class DeviceList {
 public:
  DeviceList() = default;
  ~DeviceList();
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;

  // Names with commas between, each with a share of the weights and states or none: "CUDA0=3,CUDA1=1", "Vulkan0,cpu".
  // "" and "cpu": the CPU alone.
  Status open(const std::string& names);

  bool empty() const { return members_.empty(); }
  int size() const { return static_cast<int>(members_.size()); }

  // Null where a place is the CPU's.
  ggml_backend_t backend(int place) const { return place == kHost ? nullptr : member(place).backend; }

  // Without null.
  std::vector<ggml_backend_t> backends() const;

  // Whether nodes of a place run as this runtime's own kernels: on the CPU, and where it reads the device's memory.
  bool uses_kernels(int place) const { return place == kHost || member(place).shares_memory; }

  // Whether what a program marks as the host's is computed by the CPU before the rest: not where the CPU reads the
  // device's memory, or the device computes what the program says, whatever it is.
  bool runs_prologue() const { return runs_prologue_; }

  // How to tell the device what custom nodes mean; null where none asks.
  devices::CustomNodesFunction custom_nodes() const;

  // What each place gets of `bytes` of weights and states, relative to the others', by place. Where the list has no
  // shares it is by free memory, and equal where a device does not tell its own; a CPU in the list gets what has no
  // room elsewhere.
  std::vector<double> shares(size_t bytes) const;

  // An error where a device has less free memory than is needed, by place.
  Status check_memory(const std::vector<size_t>& needed) const;

 private:
  struct Member {
    ggml_backend_t backend = nullptr;
    bool shares_memory = true;
    double share = 0.0;  // 0: by memory
  };

  const Member& member(int place) const { return members_[static_cast<size_t>(place - 1)]; }
  Status add(const std::string& entry);
  Status check() const;

  std::vector<Member> members_;
  bool runs_prologue_ = false;
};

// ggml's name of the device that a backend is of.
std::string device_name(ggml_backend_t backend);

}  // namespace executorch_ggml
