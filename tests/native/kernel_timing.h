// What tests of kernels begin with, and how fast a kernel is, for their --bench.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <thread>
#include <vector>

#include "convolution_cases.h"

namespace executorch_ggml {
namespace {

inline double seconds_of(const std::function<void()>& run) {
  const auto begin = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Runs body(ith) on `threads` threads, `rounds` times in step with each other. The seconds of one of the faster rounds
// (a fifth are faster): others may be using the machine.
inline double time_rounds(int threads, int rounds, const std::function<void(int)>& body) {
  std::atomic<int> arrived{0};
  const auto meet_others = [&](int turn) {
    arrived.fetch_add(1);
    while (arrived.load() < threads * turn) {
    }
  };
  std::vector<double> times;
  const auto work = [&](int ith) {
    int turn = 0;
    for (int r = 0; r < rounds; ++r) {
      meet_others(++turn);
      const double t = seconds_of([&] {
        body(ith);
        meet_others(++turn);
      });
      if (ith == 0) {
        times.push_back(t);
      }
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) {
    others.emplace_back(work, i);
  }
  work(0);
  for (std::thread& t : others) {
    t.join();
  }
  std::nth_element(times.begin(), times.begin() + rounds / 5, times.end());
  return times[static_cast<size_t>(rounds / 5)];
}

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
