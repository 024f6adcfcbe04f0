// Which instructions an x86-64 CPU has, with registers that the system saves.
#pragma once

namespace executorch_ggml::kernels {

struct X86Features {
  bool avx2;  // with FMA, and so with F16C, which every such CPU has
  bool avxvnni;
  bool avx512;  // F, BW, DQ and VL
  bool avx512vnni;
  bool avx512bf16;
  bool slow_bf16_products;  // VDPBF16PS takes longer than the products of floats that it replaces
  bool amx_int8;
  bool amx_bf16;
};

// By CPUID and XGETBV: `__builtin_cpu_supports` needs a library that not all compilers have for Windows. None on other
// CPUs.
X86Features x86_features();

}  // namespace executorch_ggml::kernels
