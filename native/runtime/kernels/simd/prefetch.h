// Asking for memory ahead of its use.
#pragma once

#include <cstdint>

namespace executorch_ggml::kernels {
namespace {

constexpr int64_t kLineBytes = 64;
constexpr int64_t kStreamAheadBytes = 6 << 10;

// Into the second cache: the first one keeps fewer requests at a time than it takes to be as fast as memory is.
inline __attribute__((always_inline)) void prefetch(const void* at, int64_t bytes) {
  const char* line = static_cast<const char*>(at);
  for (int64_t i = 0; i < bytes; i += kLineBytes) __builtin_prefetch(line + i, 0, 2);
}

// The same for what is read once, from beginning to end: `at` and `bytes` are what is read now.
inline __attribute__((always_inline)) void prefetch_stream(const void* at, int64_t bytes) {
  prefetch(static_cast<const char*>(at) + kStreamAheadBytes, bytes);
}

}  // namespace
}  // namespace executorch_ggml::kernels
