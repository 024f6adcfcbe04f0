// A ggml device for tests: memory that the CPU cannot read, the rules of a GPU, and counters of what crosses.
//
//   standin:cuda, standin:vulkan    what ggml-cuda and ggml-vulkan compute
//   standin:rpc                     says yes to everything, as ggml-rpc does, and refuses a graph that names custom
//   nodes
//
// Each has memory of its own, 16 GiB where nothing else is set.
#pragma once

#include <cstdint>

extern "C" {

// Since the process began, or the last standin_reset_counters.
struct StandinCounters {
  uint64_t bytes_set;     // from the host
  uint64_t bytes_got;     // to the host
  uint64_t bytes_copied;  // within devices
  uint64_t graphs;        // computed
  uint64_t nodes;         // computed in them
};

// Also by ggml_backend_reg_get_proc_address.
__attribute__((visibility("default"))) void standin_read_counters(StandinCounters* counters);
__attribute__((visibility("default"))) void standin_reset_counters();

// What a device has in all. 0: as much as is asked for, and it does not tell how much that is.
__attribute__((visibility("default"))) void standin_set_memory(const char* device, uint64_t bytes);

// What is taken of it.
__attribute__((visibility("default"))) uint64_t standin_used_memory(const char* device);
}
