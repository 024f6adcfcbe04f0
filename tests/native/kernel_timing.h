// What tests of kernels begin with, and how fast a kernel is, for their --bench.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "convolution_cases.h"
#include "timing.h"

namespace executorch_ggml {
namespace {

template <class Params>
double time_call(Call<Params>& call, int threads, double flops) {
  const int rounds = static_cast<int>(std::clamp(4e9 / flops, 15.0, 400.0));
  return time_rounds(threads, rounds, [&](int ith) { call.kernel(&call.ty, ith, threads, &call.call); });
}

// The program of a test: --bench [level] measures on an instruction set, else all tests run.
inline int bench_or_test(int argc, char** argv, void (*bench)(), std::initializer_list<void (*)()> tests) {
  if (argc > 1 && std::strcmp(argv[1], "--bench") == 0) {
    if (argc > 2) kernels::limit_isa(static_cast<kernels::Isa>(std::atoi(argv[2])));
    bench();
    return 0;
  }
  for (const auto test : tests) test();
  std::printf("%d checks, ", checks);
  std::printf(failures == 0 ? "all right\n" : "%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace executorch_ggml
