#include "allocation_counter.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

// Sanitizers have a malloc of their own.
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define EXAMPLES_HAVE_MALLOC 1
#else
#define EXAMPLES_HAVE_MALLOC 0
#endif

namespace {

std::atomic<bool> counting{false};
std::atomic<bool> forbidden{false};
std::atomic<int64_t> count{0};
std::atomic<int64_t> bytes{0};

#if EXAMPLES_HAVE_MALLOC
void note(size_t size) {
  if (forbidden.load(std::memory_order_relaxed)) {
    std::fputs("memory was allocated where none is to be\n", stderr);
    std::abort();
  }
  if (counting.load(std::memory_order_relaxed)) {
    count.fetch_add(1, std::memory_order_relaxed);
    bytes.fetch_add(static_cast<int64_t>(size), std::memory_order_relaxed);
  }
}
#endif

}  // namespace

void start_counting_allocations() {
  count.store(0);
  bytes.store(0);
  counting.store(true);
}

void forbid_allocations() { forbidden.store(true); }

void allow_allocations() { forbidden.store(false); }

Allocations stop_counting_allocations() {
  counting.store(false);
  return {count.load(), bytes.load()};
}

#if EXAMPLES_HAVE_MALLOC

bool can_count_allocations() { return true; }

// An executable's definitions take the place of the C library's for every library in the process. glibc keeps its own
// under these names, and its free() takes what they return. operator new calls malloc.
extern "C" {

void* __libc_malloc(size_t size);
void* __libc_calloc(size_t n, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) {
  note(size);
  return __libc_malloc(size);
}

void* calloc(size_t n, size_t size) {
  note(n * size);
  return __libc_calloc(n, size);
}

void* realloc(void* memory, size_t size) {
  note(size);
  return __libc_realloc(memory, size);
}

void* memalign(size_t alignment, size_t size) {
  note(size);
  return __libc_memalign(alignment, size);
}

void* aligned_alloc(size_t alignment, size_t size) {
  note(size);
  return __libc_memalign(alignment, size);
}

int posix_memalign(void** memory, size_t alignment, size_t size) {
  if (alignment < sizeof(void*) || (alignment & (alignment - 1)) != 0) {
    return EINVAL;
  }
  note(size);
  void* result = __libc_memalign(alignment, size);
  if (result == nullptr) {
    return ENOMEM;
  }
  *memory = result;
  return 0;
}

}  // extern "C"

#else

bool can_count_allocations() { return false; }

#endif
