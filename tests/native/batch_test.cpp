// How batches are divided among threads: parts cover all samples, differ by one at most, and leave few threads idle.
#include "batch.h"

#include <algorithm>
#include <cstdio>

namespace executorch_ggml {
namespace {

int failures = 0;

void expect(bool held, const char* what, int64_t samples, int threads) {
  if (held) return;
  std::printf("FAILED: %s, %d samples on %d threads\n", what, static_cast<int>(samples), threads);
  ++failures;
}

constexpr int64_t kWork = int64_t{300} << 20;  // of an image model's sample
constexpr size_t kMemory = 1 << 20;
constexpr size_t kWeights = 14 << 20;
constexpr SampleCost kImage = {kWork, kMemory, kWeights};

// All samples are in one part each, in order, and parts differ by one sample at most.
void check_parts(int64_t samples, const SampleCost& cost, int threads) {
  const BatchParts parts = divide_batch(samples, cost, threads);
  int64_t next = 0;
  bool even = parts.count >= 1 && parts.smallest() >= 1;
  for (int64_t i = 0; i < parts.count && even; ++i) {
    const kernels::Range part = parts.part(i);
    even = part.begin == next && part.size() >= parts.smallest() && part.size() <= parts.largest();
    next = part.end;
  }
  expect(even && next == samples && parts.largest() - parts.smallest() <= 1, "uneven parts", samples, threads);
  const int64_t rounds = kernels::ceil_div(parts.count, threads);
  const bool busy = samples * 5 >= 4 * rounds * parts.largest() * threads;
  expect(parts.count == 1 || busy, "threads without work", samples, threads);
}

void check_all_parts() {
  for (const size_t memory : {size_t{0}, kMemory, size_t{50} << 20}) {
    for (const size_t weights : {size_t{0}, kWeights, size_t{500} << 20}) {
      for (const int64_t work : {int64_t{0}, int64_t{1000}, kWork, INT64_MAX}) {
        for (const int threads : {1, 2, 3, 16}) {
          for (int64_t samples = 1; samples < 70; ++samples) check_parts(samples, {work, memory, weights}, threads);
        }
      }
    }
  }
}

void expect_parts(int64_t samples, const SampleCost& cost, int threads, int64_t count, const char* what) {
  expect(divide_batch(samples, cost, threads).count == count, what, samples, threads);
}

void check_choices() {
  expect_parts(1, kImage, 2, 1, "a sample alone is not divided");
  expect_parts(2, kImage, 2, 2, "each thread has a sample");
  expect_parts(3, kImage, 2, 1, "a thread would have no work in a quarter of the time");
  expect_parts(32, kImage, 2, 6, "as many samples as fit in caches");
  expect_parts(32, kImage, 1, 6, "one thread has caches too");
  expect_parts(8, kImage, 16, 1, "half of the threads would have no work");
  expect_parts(32, {kWork, size_t{50} << 20, size_t{1} << 20}, 2, 32, "one sample is more than fits");
  expect_parts(32, {1 << 20, kMemory, size_t{4} << 20}, 2, 1, "a matrix for a row: weights are read once");
  expect_parts(32, {1000, 100, 100}, 2, 1, "too little work");
}

}  // namespace
}  // namespace executorch_ggml

int main() {
  using namespace executorch_ggml;
  check_all_parts();
  check_choices();
  std::printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
