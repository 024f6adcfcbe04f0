// The devices that a program is computed on.
#pragma once

#include <string>
#include <vector>

#include "devices.h"
#include "ggml-backend.h"
#include "result.h"
#include "selection_generated.h"

namespace executorch_ggml {

// A place is an index: this one is the host CPU, which runs the prologue, and all of a program without devices; from 1
// on they count the devices of the list.
constexpr int kHost = 0;

// The devices of a program, in the order in which its nodes run on them; empty where the CPU runs all of it.
class DeviceList {
 public:
  DeviceList() = default;
  ~DeviceList();
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;

  // Names with commas between, each with a share of the weights and states or none: "CUDA0=3,CUDA1=1", "Vulkan0,cpu".
  // "" and "cpu": the CPU alone.
  Status open(const std::string& names);

  bool empty() const { return kIsSelective || members_.empty(); }
  int size() const { return kIsSelective ? 0 : static_cast<int>(members_.size()); }

  // Null for the host, and for a CPU in the list.
  ggml_backend_t backend(int place) const { return kIsSelective || place == kHost ? nullptr : member(place).backend; }

  // Without null.
  std::vector<ggml_backend_t> backends() const;

  // Whether nodes run as this runtime's own kernels: on the CPU, and on devices that share host memory.
  bool uses_kernels(int place) const { return kIsSelective || place == kHost || member(place).shares_memory; }

  // Whether what a program marks as the host's is computed by the CPU before the rest: not where the CPU reads the
  // device's memory, or the device computes what the program says, whatever it is.
  bool runs_prologue() const { return !kIsSelective && runs_prologue_; }

  // How to tell the device what custom nodes mean; null where none asks.
  devices::CustomNodesFunction custom_nodes() const;

  // Relative shares of `bytes` of weights and states, by place: those of the list, or else by free memory. They are
  // equal where a device does not report its memory; a CPU in the list gets what does not fit on the devices.
  std::vector<double> shares(size_t bytes) const;

  // Bytes that the weights and states of a program may take there; infinite for a CPU, and where a device does not
  // tell.
  double room(int place) const;

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
