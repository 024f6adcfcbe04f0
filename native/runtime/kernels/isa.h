// Which instruction set the kernels run on. A file named *_isa.cpp is compiled once per variant, with KERNEL_ISA
// defined as generic, avx2 or avx512, and puts all it has into `namespace executorch_ggml::kernels::KERNEL_ISA`; a
// plain .cpp declares the variants and picks one per call:
//
//   KERNEL_VARIANTS(void add_rows(const float* x, float* y, int64_t n))
//   ...
//   KERNEL_PICK(add_rows)(x, y, n);
//
// A *_isa.cpp must not instantiate what another file might too (containers, algorithms, inline functions of a shared
// header outside its namespace): the linker keeps one copy, and it could be one that this CPU can't run.
#pragma once

#include <cstdint>

#if defined(__x86_64__) && defined(__GNUC__)
#define EXECUTORCH_GGML_X86_VARIANTS 1
#else
#define EXECUTORCH_GGML_X86_VARIANTS 0
#endif

namespace executorch_ggml::kernels {

// In the order of preference. Avx2 comes with FMA and F16C; Avx512 is F, BW, DQ and VL, and all of Avx2.
enum class Isa : uint8_t { Generic = 0, Avx2 = 1, Avx512 = 2 };

// The best that this CPU runs.
Isa best_isa();

// What kernels run on now: best_isa(), or less after limit_isa().
Isa active_isa();

// Use at most this one, for tests that compare the variants. Not while kernels run.
void limit_isa(Isa most);

template <class F>
F pick(F generic, F avx2, F avx512) {
  switch (active_isa()) {
    case Isa::Avx512:
      return avx512;
    case Isa::Avx2:
      return avx2;
    case Isa::Generic:
      break;
  }
  return generic;
}

// Both are used inside namespace executorch_ggml::kernels. The first takes a function's declaration.
#if EXECUTORCH_GGML_X86_VARIANTS
#define KERNEL_VARIANTS(...) \
  namespace generic {        \
  __VA_ARGS__;               \
  }                          \
  namespace avx2 {           \
  __VA_ARGS__;               \
  }                          \
  namespace avx512 {         \
  __VA_ARGS__;               \
  }
#define KERNEL_PICK(name) (::executorch_ggml::kernels::pick(&generic::name, &avx2::name, &avx512::name))
#else
#define KERNEL_VARIANTS(...) \
  namespace generic {        \
  __VA_ARGS__;               \
  }
#define KERNEL_PICK(name) (&generic::name)
#endif

}  // namespace executorch_ggml::kernels
