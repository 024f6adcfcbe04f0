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

// The build says which variants beside generic there are, by defining these as 1 (cmake/IsaKernels.cmake).
#ifndef EXECUTORCH_GGML_ISA_AVX2
#define EXECUTORCH_GGML_ISA_AVX2 0
#endif
#ifndef EXECUTORCH_GGML_ISA_AVX512
#define EXECUTORCH_GGML_ISA_AVX512 0
#endif

namespace executorch_ggml::kernels {

// In the order of preference. Avx2 comes with FMA and F16C; Avx512 is F, BW, DQ and VL, and all of Avx2; Avx512Vnni
// adds int8 products (integer_product.h). Amx is for ggml's libraries: no kernel here uses it.
enum class Isa : uint8_t { Generic = 0, Avx2 = 1, Avx512 = 2, Avx512Vnni = 3, Amx = 4 };

// The names that EXECUTORCH_GGML_CPU takes.
constexpr const char* kIsaNames[] = {"generic", "avx2", "avx512", "avx512vnni", "amx"};

inline const char* isa_name(Isa isa) { return kIsaNames[static_cast<int>(isa)]; }

// The most that EXECUTORCH_GGML_CPU allows, which is all where it is not set; false where it has no such name.
bool allowed_isa(Isa* most);

// The best that this build has, this CPU runs and EXECUTORCH_GGML_CPU allows.
Isa best_isa();

// What kernels run on now: best_isa(), or less after limit_isa().
Isa active_isa();

// Use at most this one, for tests of the variants. Not while kernels run.
void limit_isa(Isa most);

template <class F>
F pick(F generic, F avx2, F avx512) {
  switch (active_isa()) {
    case Isa::Amx:
    case Isa::Avx512Vnni:
    case Isa::Avx512:
      return avx512;
    case Isa::Avx2:
      return avx2;
    case Isa::Generic:
      break;
  }
  return generic;
}

// Both are used inside namespace executorch_ggml::kernels. The first takes a function's declaration; in a *_isa.cpp it
// declares that file's own variant only.
#if defined(KERNEL_ISA)
#define KERNEL_VARIANTS(...) \
  namespace KERNEL_ISA {     \
  __VA_ARGS__;               \
  }
#else
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
#if EXECUTORCH_GGML_ISA_AVX512 && EXECUTORCH_GGML_ISA_AVX2
#define KERNEL_PICK(name) (::executorch_ggml::kernels::pick(&generic::name, &avx2::name, &avx512::name))
#elif EXECUTORCH_GGML_ISA_AVX2
#define KERNEL_PICK(name) (::executorch_ggml::kernels::pick(&generic::name, &avx2::name, &avx2::name))
#else
#define KERNEL_PICK(name) (&generic::name)
#endif
#endif

}  // namespace executorch_ggml::kernels
