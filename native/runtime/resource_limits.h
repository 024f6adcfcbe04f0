// How much a program may ask for. What it asks for follows from its contents and its inputs' sizes, and is known before
// a run begins: a program that asks for more is refused with a message.
#pragma once

#include <cstddef>
#include <cstdint>

namespace executorch_ggml {

struct Limits {
  // Bytes of intermediate values, outputs and states; 0: the memory that this process may have.
  size_t memory = 0;

  // Multiply-adds, or elements touched, of one run. The default is hours of any processor's work: hosts of programs
  // that they don't trust set what their users should wait for.
  int64_t work = int64_t{1} << 50;

  size_t memory_limit() const;
};

// The machine's memory, or the part of it that a container gets.
size_t available_memory();

// Whether the process gets so much memory now: asked where ggml would abort, or write to address 0, if it did not.
bool can_allocate(size_t bytes);

// More than what ggml takes for an object of its own, such as a context or a pool's threads.
constexpr size_t kGgmlObject = 1 << 20;

// Sums and products of sizes that stop at the largest number instead of wrapping.
inline int64_t saturating_add(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

inline int64_t saturating_mul(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

}  // namespace executorch_ggml
