#include "signal_guard.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

namespace executorch_ggml {
namespace {

struct Signal {
  int number;
  const char* name;
  struct sigaction previous;
};
Signal signals[] = {{SIGILL, "SIGILL", {}}, {SIGSEGV, "SIGSEGV", {}}, {SIGBUS, "SIGBUS", {}}, {SIGFPE, "SIGFPE", {}}};
std::mutex guarding;
pthread_t guarded;
sigjmp_buf* volatile way_out = nullptr;

void restore_signals() {
  for (const Signal& signal : signals) sigaction(signal.number, &signal.previous, nullptr);
}

// Another thread's signal is raised again, with the handler that was there before.
void on_signal(int signal) {
  if (way_out != nullptr && pthread_equal(pthread_self(), guarded) != 0) siglongjmp(*way_out, signal);
  restore_signals();
}

}  // namespace

SignalGuard::SignalGuard() : only_one_(guarding) {
  guarded = pthread_self();
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = SA_NODEFER;
  for (Signal& signal : signals) sigaction(signal.number, &action, &signal.previous);
}

SignalGuard::~SignalGuard() { restore_signals(); }

int SignalGuard::run_guarded(const std::function<void()>& work) {
  sigjmp_buf here;
  const int signal = sigsetjmp(here, 1);
  if (signal == 0) {
    way_out = &here;
    work();
  }
  way_out = nullptr;
  return signal;
}

const char* signal_name(int number) {
  for (const Signal& signal : signals) {
    if (signal.number == number) return signal.name;
  }
  return "a signal";
}

}  // namespace executorch_ggml
