// copy_strided against a loop over all indices: any rank, any order of the dims on both sides, every element size.
#include "strided_copy.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

namespace executorch_ggml {
namespace {

std::mt19937 rng(20240607);

int64_t random_between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(rng); }

// Strides of a tensor whose dims lie in a random order, with gaps between the elements of some.
std::vector<int64_t> random_strides(const std::vector<int64_t>& sizes) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), rng);
  std::vector<int64_t> strides(sizes.size());
  int64_t step = random_between(0, 3) == 0 ? 3 : 1;
  for (size_t d : order) {
    strides[d] = step;
    step *= sizes[d];
  }
  return strides;
}

size_t extent(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  int64_t last = 0;
  for (size_t d = 0; d < sizes.size(); ++d) last += (sizes[d] - 1) * strides[d];
  return static_cast<size_t>(last + 1);
}

bool agrees(const std::vector<int64_t>& sizes, const std::vector<int64_t>& to_strides,
            const std::vector<int64_t>& from_strides, size_t item) {
  std::vector<unsigned char> from(extent(sizes, from_strides) * item);
  for (unsigned char& byte : from) byte = static_cast<unsigned char>(rng());
  std::vector<unsigned char> expected(extent(sizes, to_strides) * item, 0xA5);
  std::vector<unsigned char> actual = expected;
  std::vector<int64_t> index(sizes.size(), 0);
  for (bool more = true; more;) {
    int64_t to_at = 0;
    int64_t from_at = 0;
    for (size_t d = 0; d < sizes.size(); ++d) {
      to_at += index[d] * to_strides[d];
      from_at += index[d] * from_strides[d];
    }
    std::memcpy(&expected[static_cast<size_t>(to_at) * item], &from[static_cast<size_t>(from_at) * item], item);
    more = false;
    for (size_t d = sizes.size(); d-- > 0 && !more;) {
      more = ++index[d] < sizes[d];
      if (!more) index[d] = 0;
    }
  }
  copy_strided(actual.data(), to_strides.data(), from.data(), from_strides.data(), sizes.data(),
               static_cast<int>(sizes.size()), static_cast<int64_t>(item));
  return actual == expected;
}

bool check(const std::vector<int64_t>& sizes, size_t item) {
  const std::vector<int64_t> to = random_strides(sizes);
  const std::vector<int64_t> from = random_strides(sizes);
  if (agrees(sizes, to, from, item)) return true;
  std::printf("copy_strided is wrong: %zu bytes an element, size/to/from:", item);
  for (size_t d = 0; d < sizes.size(); ++d) {
    std::printf(" %lld/%lld/%lld", static_cast<long long>(sizes[d]), static_cast<long long>(to[d]),
                static_cast<long long>(from[d]));
  }
  std::printf("\n");
  return false;
}

}  // namespace
}  // namespace executorch_ggml

int main() {
  using namespace executorch_ggml;
  int failures = 0;
  for (int round = 0; round < 4000; ++round) {
    const int64_t rank = random_between(0, 6);
    std::vector<int64_t> sizes;
    for (int64_t d = 0; d < rank; ++d) sizes.push_back(random_between(1, rank <= 3 ? 70 : 7));
    failures += check(sizes, size_t{1} << random_between(0, 3)) ? 0 : 1;
  }
  const std::vector<int64_t> most(16, 2);  // ExecuTorch's most dims
  failures += check(most, 4) ? 0 : 1;
  std::printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
