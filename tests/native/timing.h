// How long threads take that work in step with each other, for --bench of native tests.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

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

}  // namespace
}  // namespace executorch_ggml
