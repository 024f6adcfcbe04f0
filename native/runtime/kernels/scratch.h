// Memory that a kernel's thread keeps from call to call. For plain .cpp only (see simd/isa.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace executorch_ggml::kernels {

// Grows and stays. Begins at a cache line: vectors that cross two are slow to store.
template <class T>
class Buffer {
 public:
  T* sized(int64_t n) {
    constexpr size_t kCacheLine = 64;
    const size_t bytes = static_cast<size_t>(n) * sizeof(T) + kCacheLine;
    if (memory_.size() < bytes) memory_.resize(bytes);
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    return reinterpret_cast<T*>((address + kCacheLine - 1) / kCacheLine * kCacheLine);
  }

 private:
  std::vector<char> memory_;
};

}  // namespace executorch_ggml::kernels
