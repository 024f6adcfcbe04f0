// How layers of integers arrange inputs for instructions that multiply bytes of one kind with signed weights. For
// folders of instruction sets only.
#pragma once

#include "kernels/simd/vec.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

// As signed bytes or as unsigned ones: the others become 128 smaller or larger.
template <bool AsSigned>
void arrange_bytes(const void* from, int64_t n, int32_t, bool is_signed, void* to) {
  using Bytes = Vec<uint8_t, kVectorBytes>;
  const auto* x = static_cast<const uint8_t*>(from);
  auto* y = static_cast<uint8_t*>(to);
  const auto flip = static_cast<uint8_t>(is_signed == AsSigned ? 0 : 0x80);
  int64_t i = 0;
  for (; i + kVectorBytes <= n; i += kVectorBytes) store(y + i, load<Bytes>(x + i) ^ flip);
  for (; i < n; ++i) y[i] = static_cast<uint8_t>(x[i] ^ flip);
}

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
