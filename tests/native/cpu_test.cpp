// Which threads runs get: side by side, each pool to one run, and about as many as there are cores.

#include "cpu.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

namespace executorch_ggml::testing {
namespace {

int failures = 0;

void expect(bool held, const char* what) {
  if (held) return;
  std::printf("FAILED: %s\n", what);
  ++failures;
}

std::shared_ptr<Cpu> open(int threads) {
  std::shared_ptr<Cpu> cpu;
  const Status status = Cpu::open(threads, /*shared=*/true, &cpu);
  if (!status.ok()) std::printf("%s\n", status.message().c_str());
  return cpu;
}

int cores() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

// Each lease is held while the next is taken: where one waited for another this would not end.
void test_runs_of_one_thread() {
  std::vector<std::shared_ptr<Cpu>> cpus;
  std::vector<std::unique_ptr<Lease>> leases;
  for (int i = 0; i < 2 * cores(); ++i) {
    cpus.push_back(open(1));
    leases.push_back(std::make_unique<Lease>());
    expect(cpus.back()->lease(false, 0, leases.back().get()).ok(), "a run on one thread begins beside others");
    expect(leases.back()->threads() == 1, "a run on one thread has one");
  }
}

void test_runs_of_several_threads() {
  const int wanted = std::max(2, cores());
  const std::shared_ptr<Cpu> first = open(wanted), second = open(wanted);
  uint64_t number = 0;
  {
    Lease alone;
    expect(first->lease(true, 0, &alone).ok() && alone.threads() == wanted, "a run alone has all that it wants");
    number = alone.lane().number();
    Lease late;
    expect(second->lease(true, 0, &late).ok() && late.threads() == 1, "beside it there is only the caller's thread");
    expect(&late.lane() != &alone.lane(), "two runs have two lanes");
  }
  Lease small, large, serial;
  expect(first->lease(false, 0, &serial).ok() && serial.threads() == 1, "little work has one thread");
  expect(second->lease(true, number, &large).ok(), "a run begins beside one of one thread");
  expect(large.threads() == std::max(1, cores() - 1), "it has the other cores");
  expect(cores() < 3 || large.lane().number() == number, "and the lane that it asked for");
  expect(first->lease(true, 0, &small).ok() && small.threads() == 1, "the next has the thread that it is called on");
}

void test_more_than_cores() {
  const std::shared_ptr<Cpu> cpu = open(2 * cores() + 1);
  Lease lease;
  expect(cpu->lease(true, 0, &lease).ok() && lease.threads() == 2 * cores() + 1, "who is alone has what was asked for");
}

}  // namespace
}  // namespace executorch_ggml::testing

int main() {
  using namespace executorch_ggml::testing;
  test_runs_of_one_thread();
  test_runs_of_several_threads();
  test_more_than_cores();
  std::printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
