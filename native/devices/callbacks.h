// What Python and this library call of each other; executorch_ggml/devices/bridge.py has the same declarations.
#pragma once

#include <cstddef>
#include <cstdint>

namespace executorch_ggml::devices {

constexpr int64_t kCallbacksVersion = 2;

constexpr int kInterrupted = -1;  // by Ctrl-C: nothing is computed, on the CPU neither

// Python's side: set by it when it is attached, and back to null when it ends. Exceptions stay there, are logged, and
// are told by the value.
struct Callbacks {
  // 1, 0 or kInterrupted for a graph of one node; see graph_words.h for what words are.
  int (*supports)(int64_t device, const int64_t* words, int64_t count);
  // A plan's number, 0 or kInterrupted. `needed` gets the tensors whose addresses its run takes, in order.
  int64_t (*plan)(int64_t device, const int64_t* words, int64_t count, const uint64_t* addresses, int64_t* needed,
                  int64_t* needed_count);
  // 1 where it went well, else 0 or kInterrupted, and nothing is written.
  int (*run)(int64_t plan, const uint64_t* addresses);
  void (*forget)(int64_t plan);
  void (*memory)(int64_t device, uint64_t* free, uint64_t* total);
};

// This library's side.
struct Services {
  int64_t version;
  void* host;
  Callbacks* callbacks;
  void (*log)(void* host, int level, const char* text);
  void (*add_device)(void* host, const char* name, const char* description);
  const char* (*op_name)(int op);
  const char* (*unary_name)(int op);
  const char* (*glu_name)(int op);
  // The program that a custom node is of (see custom_nodes.h): its bytes, or null.
  const uint8_t* (*program)(int64_t number, uint64_t* size);
  const int64_t* (*exprs)(int64_t program, int64_t number, uint64_t* count);
};

}  // namespace executorch_ggml::devices
