// Products with packed matrices, and the memory that kernels pack them into. For plain .cpp only (see isa.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/convolution/conv_2d.h"
#include "kernels/product/packing.h"

namespace executorch_ggml::kernels {

static_assert(kPackedColumns == kOcBlock, "conv_2d's tiles read what is packed here");

constexpr size_t kCacheLine = 64;

// Memory of a thread that grows and stays, in whole cache lines: vectors that cross them are slow to store.
template <class T>
class Buffer {
 public:
  T* sized(int64_t n) {
    const size_t bytes = static_cast<size_t>(n) * sizeof(T) + kCacheLine;
    if (memory_.size() < bytes) memory_.resize(bytes);
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    return reinterpret_cast<T*>((address + kCacheLine - 1) / kCacheLine * kCacheLine);
  }

 private:
  std::vector<char> memory_;
};

// Rows that multiply_packed takes, at most.
inline int64_t max_packed_rows() { return KERNEL_PICK(conv_tiles)().rows; }

// made[i * stride + j] = rows[i] . column j of a packed matrix
void multiply_packed(const float* const* rows, int64_t count, int64_t length, const float* packed, int64_t columns,
                     float* made, int64_t stride);

}  // namespace executorch_ggml::kernels
