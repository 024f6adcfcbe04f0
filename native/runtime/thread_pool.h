// The process's threads that help with a run's work.
#pragma once

#include <cstdint>

#include "result.h"

namespace executorch_ggml {

// Work in pieces, which may run in any order and side by side. A piece must not throw.
struct Pieces {
  void (*run)(const void* context, int piece, int count) = nullptr;
  const void* context = nullptr;
  int count = 0;
};

// Starts threads until the process has so many. They stay, asleep, until the library is unloaded or the process exits.
Status start_helpers(int count);

// Whether other processes want the cores that callers run on: then it takes long until another thread has one.
bool cores_are_contended();

struct Job;

// While it lives, the pieces of the thread that made it are shared with so many other threads of the process.
class Crew {
 public:
  explicit Crew(int helpers);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // The calling thread's and its helpers; 1 where it has no crew.
  static int threads();

 private:
  friend void run_pieces(const Pieces& pieces);
  const Crew* outer_;
  Job* job_ = nullptr;
  int helpers_ = 0;
  uint64_t generation_;
};

// Runs all pieces, on the calling thread and on its crew, and returns when they are done. A thread takes a piece when
// it has finished the one before, so nobody waits for a thread that has not begun. Of pieces within pieces, and without
// a crew, the calling thread runs all. Make no more of them than the crew has threads: each would read the same
// weights.
void run_pieces(const Pieces& pieces);

}  // namespace executorch_ggml
