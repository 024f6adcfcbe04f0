// Ctrl-C in runs that Python waits for without the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "fork.h"
#include "interrupt.h"

namespace executorch_ggml {

// While it lives, a signal whose Python handler raises ends the runs of this thread, if it is Python's main thread: no
// other handles signals. Made and destroyed with the GIL.
class SignalWatch {
 public:
  // `set` is set_interrupt of the library that runs.
  explicit SignalWatch(void (*set)(InterruptCheck, void*)) : set_(on_main_thread() ? set : nullptr) {
    if (set_ != nullptr) set_(&handle_signals, this);
  }
  ~SignalWatch() {
    if (set_ != nullptr) set_(nullptr, nullptr);
  }
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  // Throw what a handler raised, during the run or now.
  void rethrow() {
    if (error_ != nullptr) throw nanobind::python_error(*error_);
    if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
  }

 private:
  static int handle_signals(void* self) {
    const nanobind::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals() == 0) return 0;
    static_cast<SignalWatch*>(self)->error_ = std::make_unique<nanobind::python_error>();
    return 1;
  }

  // In a forked process the main thread is the one that forked.
  static bool on_main_thread() {
    static uint64_t generation = ~uint64_t{0};
    static unsigned long main_thread = 0;
    if (generation != fork_generation()) {
      const nanobind::object thread = nanobind::module_::import_("threading").attr("main_thread")();
      main_thread = nanobind::cast<unsigned long>(thread.attr("ident"));
      generation = fork_generation();
    }
    return PyThread_get_thread_ident() == main_thread;
  }

  void (*set_)(InterruptCheck, void*);
  std::unique_ptr<nanobind::python_error> error_;
};

}  // namespace executorch_ggml
