// Runs code that may raise a signal of the CPU, such as one compiled for another processor.
#pragma once

#include <functional>
#include <mutex>

namespace executorch_ggml {

// Catches the CPU's signals on this thread, in run_guarded, while it lives. Other threads' signals are raised again,
// with the handlers that were there before.
class SignalGuard {
 public:
  SignalGuard();
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

  // The signal that ended `work`, or 0. What was allocated in work that ended so is lost.
  int run_guarded(const std::function<void()>& work);

 private:
  std::unique_lock<std::mutex> only_one_;
};

const char* signal_name(int number);

}  // namespace executorch_ggml
