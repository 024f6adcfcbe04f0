// Prefetching memory.
#pragma once

#include <cstdint>

namespace executorch_ggml::kernels {
namespace {

constexpr int64_t kCacheLineBytes = 64;
constexpr int64_t kStreamPrefetchBytes = 6 << 10;

// Into L2: fewer misses of L1 can be outstanding than it takes to reach the memory's bandwidth.
inline __attribute__((always_inline)) void prefetch(const void* from, int64_t bytes) {
  const char* line = static_cast<const char*>(from);
  for (int64_t i = 0; i < bytes; i += kCacheLineBytes) __builtin_prefetch(line + i, 0, 2);
}

// For memory that is streamed: the caller reads `bytes` at `from` now.
inline __attribute__((always_inline)) void prefetch_stream(const void* from, int64_t bytes) {
  prefetch(static_cast<const char*>(from) + kStreamPrefetchBytes, bytes);
}

}  // namespace
}  // namespace executorch_ggml::kernels
