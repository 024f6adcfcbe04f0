#include "kernels/simd/x86_features.h"

#if defined(__x86_64__)
#include <cpuid.h>

#include <cstdint>
#endif

namespace executorch_ggml::kernels {

#if defined(__x86_64__)

namespace {

// The bits of XCR0 for the registers of each.
constexpr uint64_t kYmm = 0x6;
constexpr uint64_t kZmm = 0xe6;
constexpr uint64_t kTiles = 0x60000;

struct Leaf {
  unsigned a = 0, b = 0, c = 0, d = 0;

  Leaf(unsigned leaf, unsigned subleaf) {
    if (__get_cpuid_count(leaf, subleaf, &a, &b, &c, &d) == 0) *this = Leaf();
  }

 private:
  Leaf() = default;
};

bool is_intels() {
  const Leaf vendor(0, 0);
  return vendor.b == 0x756e6547 && vendor.d == 0x49656e69 && vendor.c == 0x6c65746e;  // "GenuineIntel"
}

bool has(unsigned word, unsigned bit) { return (word >> bit & 1u) != 0; }

// The states that the system saves and restores.
uint64_t saved_states(const Leaf& first) {
  constexpr unsigned kXgetbv = 27;
  if (!has(first.c, kXgetbv)) return 0;
  uint32_t low = 0;
  uint32_t high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low | static_cast<uint64_t>(high) << 32;
}

}  // namespace

// The bits are those of CPUID in Intel's manual (volume 2, CPUID).
X86Features x86_features() {
  const Leaf first(1, 0);
  const Leaf seventh(7, 0);
  const Leaf more(7, seventh.a >= 1 ? 1 : 0);
  const unsigned more_bits = seventh.a >= 1 ? more.a : 0;
  const uint64_t states = saved_states(first);
  const auto saves = [states](uint64_t registers) { return (states & registers) == registers; };

  X86Features found{};
  found.avx2 = saves(kYmm) && has(first.c, 12) && has(first.c, 28) && has(seventh.b, 5);
  found.avxvnni = found.avx2 && has(more_bits, 4);
  found.avx512 =
      found.avx2 && saves(kZmm) && has(seventh.b, 16) && has(seventh.b, 17) && has(seventh.b, 30) && has(seventh.b, 31);
  found.avx512vnni = found.avx512 && has(seventh.c, 11);
  found.avx512bf16 = found.avx512 && has(more_bits, 5);
  // On Intel's CPUs that have tiles (as Emerald Rapids was measured), where a virtual machine may hide these. They are
  // the ones with AVX512-FP16.
  found.slow_bf16_products = found.avx512bf16 && is_intels() && has(seventh.d, 23);
  const bool has_tiles = saves(kTiles) && has(seventh.d, 24);
  found.amx_int8 = has_tiles && has(seventh.d, 25);
  found.amx_bf16 = has_tiles && has(seventh.d, 22);
  return found;
}

#else

X86Features x86_features() { return {}; }

#endif

}  // namespace executorch_ggml::kernels
