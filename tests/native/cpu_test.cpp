// How many threads runs get: side by side, about as many as there are cores.

#include "cpu.h"
#include "kernels/amx.h"
#include "kernels/simd/isa.h"
#include "kernels/simd/x86_features.h"

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

// The compiler's own answers. Of AMX it has none in gcc 12.
void test_features_of_the_cpu() {
#if defined(__x86_64__) && defined(__linux__)
  const kernels::X86Features features = kernels::x86_features();
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  expect(features.avx2 == avx2, "AVX2 is found where the compiler finds it");
  expect(features.avxvnni == (avx2 && __builtin_cpu_supports("avxvnni")), "so is AVX-VNNI");
  expect(features.avx512 == avx512, "so is AVX-512");
  expect(features.avx512vnni == (avx512 && __builtin_cpu_supports("avx512vnni")), "so is VNNI of AVX-512");
  expect(features.avx512bf16 == (avx512 && __builtin_cpu_supports("avx512bf16")), "so are products of bf16");
  const bool may_be_slow = features.avx512bf16 && __builtin_cpu_is("intel");
  expect(!features.slow_bf16_products || may_be_slow, "they are slow on CPUs of Intel's alone");
#endif
}

int cores() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

// Each lease is held while the next is taken: where one waited for another this would not end.
void test_runs_of_one_thread() {
  std::vector<std::unique_ptr<Lease>> leases;
  for (int i = 0; i < 2 * cores(); ++i) {
    leases.push_back(std::make_unique<Lease>(1));
    expect(leases.back()->threads() == 1, "a run on one thread has one");
  }
}

void test_runs_of_several_threads() {
  const int wanted = std::max(2, cores());
  {
    const Lease alone(wanted);
    expect(alone.threads() == wanted, "a run alone has all that it wants");
    const Lease late(wanted);
    expect(late.threads() == 1, "beside it there is only the caller's thread");
  }
  const Lease serial(1);
  expect(serial.threads() == 1, "little work has one thread");
  const Lease large(wanted);
  expect(large.threads() == std::max(1, cores() - 1), "a run beside one of one thread has the other cores");
  const Lease small(wanted);
  expect(small.threads() == 1, "the next has the thread that it is called on");
}

void test_more_than_cores() {
  const Lease lease(2 * cores() + 1);
  expect(lease.threads() == 2 * cores() + 1, "who is alone has what was asked for");
}

void test_a_session_without_a_number() {
  std::shared_ptr<Cpu> cpu;
  set_default_threads(3);
  expect(Cpu::open(0, /*beside_device=*/false, &cpu).ok(), "the CPU opens");
  set_default_threads(0);
  expect(cpu->threads(/*parallel=*/true) == 3, "a session that does not say has the default");
  expect(cpu->threads(/*parallel=*/false) == 1, "and one thread for little work");
}

}  // namespace
}  // namespace executorch_ggml::testing

int main() {
  using namespace executorch_ggml;
  using namespace executorch_ggml::testing;
  test_features_of_the_cpu();
  test_runs_of_one_thread();
  test_runs_of_several_threads();
  test_more_than_cores();
  test_a_session_without_a_number();
  const kernels::Isa isa = kernels::amx_or_below(kernels::AmxType::Int8, kernels::best_isa());
  std::printf("kernels of %s, %d failures\n", kernels::isa_name(isa), failures);
  return failures == 0 ? 0 : 1;
}
