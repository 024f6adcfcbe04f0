// Counts heap allocations of the whole process, whoever makes them: this program, ExecuTorch, the backend or ggml.
#pragma once

#include <cstdint>

struct Allocations {
  int64_t count = 0;
  int64_t bytes = 0;
};

// Whether allocations can be counted here (they can with glibc).
bool can_count_allocations();

// Counting is off until started. Both calls are for one thread; allocations of all threads are counted.
void start_counting_allocations();
Allocations stop_counting_allocations();

// In between, the process ends with a message where anything calls malloc.
void forbid_allocations();
void allow_allocations();
