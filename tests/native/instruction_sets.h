// The instruction sets that a native test runs, and how many of its cases. For tests whose emulated CPUs are slow:
// EXECUTORCH_GGML_TEST_STRIDE=7 runs one case of seven, others on each level.
#pragma once

#include <cstdlib>
#include <vector>

#include "kernels/simd/isa.h"

namespace executorch_ggml::testing {

// All levels of this CPU, best first.
inline std::vector<kernels::Isa> isas_of_cpu() {
  std::vector<kernels::Isa> isas;
  for (int isa = static_cast<int>(kernels::best_isa()); isa >= 0; --isa) {
    kernels::limit_isa(static_cast<kernels::Isa>(isa));
    if (kernels::active_isa() == static_cast<kernels::Isa>(isa)) isas.push_back(kernels::active_isa());
  }
  kernels::limit_isa(kernels::best_isa());
  return isas;
}

// Those of them that *_isa.cpp are compiled for: ARM64 has one variant.
inline std::vector<kernels::Isa> variants_of_cpu() {
  std::vector<kernels::Isa> isas;
  for (const kernels::Isa isa : isas_of_cpu()) {
    if (isa == kernels::Isa::Generic || isa == kernels::Isa::Avx2 || isa == kernels::Isa::Avx512) isas.push_back(isa);
  }
  return isas;
}

inline int stride() {
  static const int stride = [] {
    const char* value = std::getenv("EXECUTORCH_GGML_TEST_STRIDE");
    const int number = value == nullptr ? 1 : std::atoi(value);
    return number < 1 ? 1 : number;
  }();
  return stride;
}

// Whether the next of a test's cases is to be run.
inline bool is_sampled() {
  static int count = 0;
  return count++ % stride() == 0;
}

}  // namespace executorch_ggml::testing
