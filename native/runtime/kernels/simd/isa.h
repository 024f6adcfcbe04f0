// Which instruction set the kernels run on: one mechanism for all of them, which EXECUTORCH_GGML_CPU limits.
//
// A file named *_isa.cpp is compiled once for each of generic and on x86 avx2 and avx512, which KERNEL_ISA is defined
// as, and puts all it has into `namespace executorch_ggml::kernels::KERNEL_ISA`. A plain .cpp declares the variants and
// picks one:
//
//   KERNEL_VARIANTS(void add_rows(const float* x, float* y, int64_t n))
//   ...
//   KERNEL_PICK(add_rows)(x, y, n);
//
// A file that needs more is in a folder named for its instruction set, such as product/avx512vnni/, and is
// compiled for that alone. The pick is then null where the CPU has less:
//
//   KERNEL_VARIANT(avx512vnni, extern const Table table)
//   ...
//   const Table* table = KERNEL_PICK_AVX512VNNI(active_isa(), table);
//
// Neither may instantiate templates that other files use too (containers, algorithms, inline functions of a shared
// header outside its namespace): the linker keeps one copy, and it could be one that this CPU can't run.
#pragma once

#include <cstdint>

// The build defines these as 1 where the variants exist (cmake/IsaKernels.cmake).
#ifndef EXECUTORCH_GGML_ISA_NEON
#define EXECUTORCH_GGML_ISA_NEON 0
#endif
#ifndef EXECUTORCH_GGML_ISA_DOTPROD
#define EXECUTORCH_GGML_ISA_DOTPROD 0
#endif
#ifndef EXECUTORCH_GGML_ISA_I8MM
#define EXECUTORCH_GGML_ISA_I8MM 0
#endif
#ifndef EXECUTORCH_GGML_ISA_NEONBF16
#define EXECUTORCH_GGML_ISA_NEONBF16 0
#endif
#ifndef EXECUTORCH_GGML_ISA_AVX2
#define EXECUTORCH_GGML_ISA_AVX2 0
#endif
#ifndef EXECUTORCH_GGML_ISA_AVXVNNI
#define EXECUTORCH_GGML_ISA_AVXVNNI 0
#endif
#ifndef EXECUTORCH_GGML_ISA_AVX512
#define EXECUTORCH_GGML_ISA_AVX512 0
#endif
#ifndef EXECUTORCH_GGML_ISA_AVX512VNNI
#define EXECUTORCH_GGML_ISA_AVX512VNNI 0
#endif
#ifndef EXECUTORCH_GGML_ISA_AVX512BF16
#define EXECUTORCH_GGML_ISA_AVX512BF16 0
#endif
#ifndef EXECUTORCH_GGML_ISA_AMX
#define EXECUTORCH_GGML_ISA_AMX 0
#endif

namespace executorch_ggml::kernels {

// In the order of preference; a CPU has levels of its own architecture alone, after Generic.
//
// ARM64: Neon is what each has, and what *_isa.cpp are compiled for as generic; Dotprod adds int8 dot products, I8mm
// int8 matrix products of 2 x 8 by 8 x 2, and NeonBf16 those of bf16.
//
// x86: Avx2 comes with FMA and F16C; AvxVnni adds int8 dot products of 32 bytes; Avx512 is F, BW, DQ and VL, and all of
// Avx2, but not AvxVnni; Avx512Vnni adds int8 dot products, and Avx512Bf16 those of bf16. Amx adds products of tiles,
// of int8 or bf16 or both; it is there where the system allows it and its kernels are right in a trial (kernels/amx.h).
enum class Isa : uint8_t { Generic, Neon, Dotprod, I8mm, NeonBf16, Avx2, AvxVnni, Avx512, Avx512Vnni, Avx512Bf16, Amx };

// The names that EXECUTORCH_GGML_CPU takes, those of the architecture.
constexpr const char* kIsaNames[] = {"generic", "neon",   "dotprod",    "i8mm",       "neonbf16", "avx2",
                                     "avxvnni", "avx512", "avx512vnni", "avx512bf16", "amx"};

inline const char* isa_name(Isa isa) { return kIsaNames[static_cast<int>(isa)]; }

#if defined(__aarch64__)
constexpr bool kIsArm64 = true;
#else
constexpr bool kIsArm64 = false;
#endif

// Whether it is a level of the architecture that this is compiled for.
inline bool is_of_architecture(Isa isa) { return isa == Isa::Generic || (isa < Isa::Avx2) == kIsArm64; }

// The most that EXECUTORCH_GGML_CPU allows, which is all where it is not set; false where it has no such name.
bool allowed_isa(Isa* most);

// The best that this build has, this CPU runs and EXECUTORCH_GGML_CPU allows. Avx512Bf16 only on
// request, or where it is faster than Avx512Vnni.
Isa best_isa();

// The instruction set that kernels run on: best_isa(), or less after limit_isa().
Isa active_isa();

// Use at most this one, for tests of the variants. Not while kernels run.
void limit_isa(Isa most);

template <class F>
F pick(F generic, F avx2, F avx512) {
  switch (active_isa()) {
    case Isa::Amx:
    case Isa::Avx512Bf16:
    case Isa::Avx512Vnni:
    case Isa::Avx512:
      return avx512;
    case Isa::AvxVnni:
    case Isa::Avx2:
      return avx2;
    case Isa::NeonBf16:
    case Isa::I8mm:
    case Isa::Dotprod:
    case Isa::Neon:
    case Isa::Generic:
      break;
  }
  return generic;
}

// All are used inside namespace executorch_ggml::kernels. KERNEL_VARIANTS and KERNEL_VARIANT take a declaration; in a
// *_isa.cpp the first declares that file's own variant only.
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
#if EXECUTORCH_GGML_ISA_NEON
#define KERNEL_PICK_NEON(isa, name) ((isa) >= Isa::Neon ? &neon::name : nullptr)
#else
#define KERNEL_PICK_NEON(isa, name) (static_cast<void>(isa), static_cast<decltype(&neon::name)>(nullptr))
#endif
#if EXECUTORCH_GGML_ISA_DOTPROD
#define KERNEL_PICK_DOTPROD(isa, name) ((isa) >= Isa::Dotprod ? &dotprod::name : nullptr)
#else
#define KERNEL_PICK_DOTPROD(isa, name) (static_cast<void>(isa), static_cast<decltype(&dotprod::name)>(nullptr))
#endif
#if EXECUTORCH_GGML_ISA_I8MM
#define KERNEL_PICK_I8MM(isa, name) ((isa) >= Isa::I8mm ? &i8mm::name : nullptr)
#else
#define KERNEL_PICK_I8MM(isa, name) (static_cast<void>(isa), static_cast<decltype(&i8mm::name)>(nullptr))
#endif
#if EXECUTORCH_GGML_ISA_NEONBF16
#define KERNEL_PICK_NEONBF16(isa, name) ((isa) >= Isa::NeonBf16 ? &neonbf16::name : nullptr)
#else
#define KERNEL_PICK_NEONBF16(isa, name) (static_cast<void>(isa), static_cast<decltype(&neonbf16::name)>(nullptr))
#endif
#if EXECUTORCH_GGML_ISA_AVX2
#define KERNEL_PICK_AVX2(isa, name) ((isa) >= Isa::Avx2 ? &avx2::name : nullptr)
#else
#define KERNEL_PICK_AVX2(isa, name) (static_cast<void>(isa), static_cast<decltype(&avx2::name)>(nullptr))
#endif
#if EXECUTORCH_GGML_ISA_AVXVNNI
#define KERNEL_PICK_AVXVNNI(isa, name) ((isa) == Isa::AvxVnni ? &avxvnni::name : nullptr)
#else
#define KERNEL_PICK_AVXVNNI(isa, name) (static_cast<void>(isa), static_cast<decltype(&avxvnni::name)>(nullptr))
#endif
#if EXECUTORCH_GGML_ISA_AVX512VNNI
#define KERNEL_PICK_AVX512VNNI(isa, name) ((isa) >= Isa::Avx512Vnni ? &avx512vnni::name : nullptr)
#else
#define KERNEL_PICK_AVX512VNNI(isa, name) (static_cast<void>(isa), static_cast<decltype(&avx512vnni::name)>(nullptr))
#endif
#if EXECUTORCH_GGML_ISA_AVX512BF16
#define KERNEL_PICK_AVX512BF16(isa, name) ((isa) >= Isa::Avx512Bf16 ? &avx512bf16::name : nullptr)
#else
#define KERNEL_PICK_AVX512BF16(isa, name) (static_cast<void>(isa), static_cast<decltype(&avx512bf16::name)>(nullptr))
#endif
#if EXECUTORCH_GGML_ISA_AMX
#define KERNEL_PICK_AMX(isa, name) ((isa) >= Isa::Amx ? &amx::name : nullptr)
#else
#define KERNEL_PICK_AMX(isa, name) (static_cast<void>(isa), static_cast<decltype(&amx::name)>(nullptr))
#endif
#if EXECUTORCH_GGML_ISA_AVX512 && EXECUTORCH_GGML_ISA_AVX2
#define KERNEL_PICK(name) (::executorch_ggml::kernels::pick(&generic::name, &avx2::name, &avx512::name))
#elif EXECUTORCH_GGML_ISA_AVX2
#define KERNEL_PICK(name) (::executorch_ggml::kernels::pick(&generic::name, &avx2::name, &avx2::name))
#else
#define KERNEL_PICK(name) (&generic::name)
#endif
#endif

#define KERNEL_VARIANT(isa, ...) \
  namespace isa {                \
  __VA_ARGS__;                   \
  }

}  // namespace executorch_ggml::kernels
