// What the tests of kernels by tiles share: memory with a guard behind it, dense tensors, and a count of failures.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>

#include "ggml.h"
#include "ops_generated.h"
#include "tile_emulation.h"
#include "tile_trap.h"

namespace executorch_ggml::testing {

inline int failures = 0;
inline std::mt19937 random_bits(7);

inline void expect(bool held, const std::string& what) {
  if (!held && ++failures <= 20) std::printf("FAIL %s\n", what.c_str());
}

inline int64_t below(int64_t n) { return static_cast<int64_t>(random_bits() % static_cast<uint64_t>(n)); }

// Bytes that end where memory does: reading on is the end of the test.
class GuardedBytes {
 public:
  explicit GuardedBytes(size_t size) : size_(size), page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    mapped_ = (size + page_ - 1) / page_ * page_ + page_;
    memory_ = static_cast<char*>(mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(memory_ + mapped_ - page_, page_, PROT_NONE);
  }
  ~GuardedBytes() { munmap(memory_, mapped_); }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;

  char* data() { return memory_ + mapped_ - page_ - size_; }
  size_t size() const { return size_; }
  void randomize() {
    for (size_t i = 0; i < size_; ++i) data()[i] = static_cast<char>(random_bits());
  }

 private:
  size_t size_, page_;
  size_t mapped_ = 0;
  char* memory_ = nullptr;
};

inline void set_dense(ggml_tensor* t, ggml_type type, std::array<int64_t, 4> ne, void* data) {
  t->type = type;
  t->data = data;
  std::copy(ne.begin(), ne.end(), t->ne);
  t->nb[0] = ggml_type_size(type);
  for (int d = 1; d < 4; ++d) t->nb[d] = t->nb[d - 1] * static_cast<size_t>(ne[d - 1]);
}

inline int64_t result_extent(const Window& w, int64_t n) {
  return ((n - 1) * w.up + 1 + 2 * w.pad - w.dilation * (w.kernel - 1) - 1) / w.stride + 1;
}

// Runs a thread's share; its tile registers are as they were after that: `ith` of them shaped, or none.
template <class Work>
void run_share(int ith, const std::string& name, const Work& work) {
  const kernels::emulated::TileShapes shapes(16, ith, 8);
  ith > 0 ? tile_unit().configure(&shapes) : tile_unit().release();
  kernels::TileState before, after;
  tile_unit().save(&before);
  work();
  tile_unit().save(&after);
  expect(std::memcmp(&before, &after, sizeof(before)) == 0, "tiles are put back by " + name);
}

}  // namespace executorch_ggml::testing
