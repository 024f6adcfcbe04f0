// What holds after fork(): the child has the memory of its parent and the calling thread alone. Threads of a pool are
// gone, and a lock that another thread held is held for ever, unless both are made anew.
#pragma once

#include <cstdint>
#include <mutex>
#include <new>

namespace executorch_ggml {

// How often this process and those before it were forked: a pool of another generation than this has no threads.
uint64_t fork_generation();

// Told in the child process, before fork() returns there. It lives where it was made.
class ForkListener {
 public:
  ForkListener(const ForkListener&) = delete;
  ForkListener& operator=(const ForkListener&) = delete;

  virtual void after_fork() noexcept = 0;

 protected:
  ForkListener();
  ~ForkListener();

 private:
  friend struct ForkListeners;
  ForkListener* next_ = nullptr;
  ForkListener* previous_ = nullptr;
};

// A mutex that is free in the child, whoever held it in the parent.
class Mutex final : private ForkListener {
 public:
  void lock() {
    mutex_.lock();
    held_ = true;
  }
  void unlock() {
    held_ = false;
    mutex_.unlock();
  }

  // Whether a thread that is gone held it when the process was forked: what it guards may be half changed. Asked by who
  // holds it, and forgotten by that.
  bool take_interrupted() {
    const bool interrupted = interrupted_;
    interrupted_ = false;
    return interrupted;
  }

 private:
  void after_fork() noexcept override {
    interrupted_ = interrupted_ || held_;
    held_ = false;
    new (&mutex_) std::mutex;
  }

  std::mutex mutex_;
  bool held_ = false;
  bool interrupted_ = false;
};

}  // namespace executorch_ggml
