// The threads that help with a run: each piece runs once, whoever calls, and idle threads sleep.
// `make tsan` runs this under ThreadSanitizer.

#include "thread_pool.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "kernels/kernels.h"
#include "platform/platform.h"
#include "run_kernel.h"

namespace executorch_ggml::testing {
namespace {

using namespace std::chrono_literals;

std::atomic<int> failures{0};

void expect(bool held, const char* what) {
  if (held) return;
  std::printf("FAILED: %s\n", what);
  ++failures;
}

template <class Function>
void run_in_pieces(int count, const Function& function) {
  const auto call = [](const void* context, int piece, int pieces) {
    (*static_cast<const Function*>(context))(piece, pieces);
  };
  run_pieces({call, &function, count});
}

double cpu_seconds(int who = RUSAGE_SELF) {
  rusage usage{};
  getrusage(who, &usage);
  const auto seconds = [](const timeval& time) { return double(time.tv_sec) + 1e-6 * double(time.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Plain memory: ThreadSanitizer sees where a set of pieces is not ordered before what its caller does next.
void run_sets(int helpers, int sets, const char* where) {
  const Crew crew(helpers);
  const int count = helpers + 1;
  const std::vector<int> in_pieces(static_cast<size_t>(count), count);
  for (int set = 0; set < sets; ++set) {
    std::vector<int> runs(in_pieces.size(), 0);
    run_in_pieces(count, [&](int piece, int pieces) { runs[static_cast<size_t>(piece)] += pieces; });
    expect(runs == in_pieces, where);
  }
}

void test_each_piece_runs_once() {
  for (int helpers : {0, 1, 3, 7}) run_sets(helpers, 2000, "each piece of a set runs once");
}

// More callers than there are jobs, with crews that come and go.
void test_many_callers() {
  std::vector<std::thread> callers;
  for (int i = 0; i < 80; ++i) {
    callers.emplace_back([i] {
      for (int round = 0; round < 5; ++round) run_sets(1 + (i + round) % 3, 20, "callers side by side");
    });
  }
  for (std::thread& caller : callers) caller.join();
}

void test_helpers_help() {
  const Crew crew(1);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  for (int round = 0; round < 200 && threads.size() < 2; ++round) {
    std::this_thread::sleep_for(2ms);  // longer than threads look for work, so that they are woken too
    run_in_pieces(2, [&](int, int) {
      std::this_thread::sleep_for(2ms);
      std::lock_guard<std::mutex> lock(mutex);
      threads.insert(std::this_thread::get_id());
    });
  }
  expect(threads.size() == 2, "another thread takes a piece");
}

void test_pieces_within_pieces() {
  const Crew crew(1);
  std::atomic<int> inner{0};
  for (int round = 0; round < 200; ++round) {
    run_in_pieces(2, [&](int, int) {
      const Crew own(1);  // as a run within a run has
      run_in_pieces(2, [&](int, int) { ++inner; });
      run_in_pieces(1, [&](int, int) { ++inner; });
    });
  }
  expect(inner == 200 * 2 * 3, "pieces within pieces run");
}

void test_crews_within_crews() {
  const Crew outer(2);
  expect(Crew::threads() == 3, "a thread has its crew");
  {
    const Crew inner(0);
    expect(Crew::threads() == 1, "a run of one thread within it has none");
  }
  expect(Crew::threads() == 3, "and has it again");
  std::thread([] { expect(Crew::threads() == 1, "another thread has none"); }).join();
}

void test_idle_threads_sleep() {
  for (int round = 0; round < 3; ++round) run_sets(3, 100, "before idling");
  double least = 1;  // of several tries: the process has no other thread, but the machine may be busy
  for (int attempt = 0; attempt < 5; ++attempt) {
    run_sets(3, 10, "before idling");
    std::this_thread::sleep_for(1ms);
    const double before = cpu_seconds();
    std::this_thread::sleep_for(50ms);
    least = std::min(least, cpu_seconds() - before);
  }
  expect(least < 0.002, "a millisecond after a call threads use no CPU");
}

#if !defined(__SANITIZE_THREAD__)
#if defined(RUSAGE_THREAD)
// Processes that use all cores, while it lives.
class BusyProcesses {
 public:
  BusyProcesses() {
    for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) {
      const pid_t child = fork();
      if (child == 0) {
        for (volatile int forever = 1; forever != 0;) {
        }
      }
      children_.push_back(child);
    }
  }
  ~BusyProcesses() {
    for (const pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }

 private:
  std::vector<pid_t> children_;
};

// The processor time of helpers for one second of the caller's, which has as much to do between two sets of pieces.
double helpers_share(std::chrono::milliseconds duration) {
  const Crew crew(1);
  const auto work = [] {
    const auto end = std::chrono::steady_clock::now() + 1ms;
    while (std::chrono::steady_clock::now() < end) {
    }
  };
  const double before = cpu_seconds();
  const double of_caller = cpu_seconds(RUSAGE_THREAD);
  const auto end = std::chrono::steady_clock::now() + duration;
  while (std::chrono::steady_clock::now() < end) {
    run_in_pieces(2, [](int, int) {});
    work();
  }
  const double caller = cpu_seconds(RUSAGE_THREAD) - of_caller;
  return (cpu_seconds() - before - caller) / caller;
}

// The threads that run each part of a kernel of two.
struct TwoParts : KernelCallBase {
  std::thread::id threads[2];

  bool by_caller() const {
    const std::thread::id caller = std::this_thread::get_id();
    return threads[0] == caller && threads[1] == caller;
  }
};

void run_part(ggml_tensor*, int part, int parts, void* call) {
  expect(parts == 2, "a kernel has as many parts where other processes want the cores");
  std::this_thread::sleep_for(1ms);  // in which a helper takes the other part
  static_cast<TwoParts*>(static_cast<KernelCallBase*>(call))->threads[part] = std::this_thread::get_id();
}

// How many of so many runs of a kernel leave a part to the helper.
int runs_by_two(int runs) {
  const Crew crew(1);
  int by_two = 0;
  for (int run = 0; run < runs; ++run) {
    TwoParts call;
    call.kernel = run_part;
    call.work = 2 * kPieceWork;
    run_kernel(nullptr, 0, 1, &call);
    expect(call.threads[0] != std::thread::id() && call.threads[1] != std::thread::id(), "each part runs");
    if (!call.by_caller()) ++by_two;
  }
  return by_two;
}

#if defined(__linux__)
// The part of the sets of two pieces that ran on one core, of those that two threads ran.
double share_on_one_core(std::chrono::milliseconds duration) {
  const Crew crew(1);
  int on_one = 0;
  int by_two = 0;
  const auto end = std::chrono::steady_clock::now() + duration;
  while (std::chrono::steady_clock::now() < end) {
    std::thread::id threads[2];
    int cores[2];
    run_in_pieces(2, [&](int piece, int) {
      const auto piece_end = std::chrono::steady_clock::now() + 100us;
      while (std::chrono::steady_clock::now() < piece_end) {
      }
      threads[piece] = std::this_thread::get_id();
      cores[piece] = platform::current_core();
    });
    if (threads[0] == threads[1]) continue;
    ++by_two;
    if (cores[0] == cores[1]) ++on_one;
  }
  return by_two == 0 ? 0 : double(on_one) / by_two;
}

void test_a_helper_migrates_to_its_callers_core() {
  if (access("/proc/thread-self/schedstat", R_OK) != 0) return;
  const BusyProcesses busy;
  double most = 0;
  for (int attempt = 0; attempt < 40 && most < 0.8; ++attempt) most = std::max(most, share_on_one_core(100ms));
  expect(most >= 0.8, "beside other processes a helper shares its caller's core");
}

// A thread that is moved may run on the cores that it might run on before.
void test_moved_threads_stay_free() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;  // more cores than the set has
  for (int core = -1; core <= CPU_SETSIZE; ++core) {
    const bool may = core >= 0 && core < CPU_SETSIZE && CPU_ISSET(static_cast<size_t>(core), &allowed);
    bool moved = false;
    for (int attempt = 0; attempt < (may ? 100 : 1) && !moved; ++attempt) {
      platform::move_to_core(core);
      moved = platform::current_core() == core;
    }
    expect(moved == may, "a thread moves to the cores that it may run on");
    cpu_set_t after;
    expect(sched_getaffinity(0, sizeof(after), &after) == 0 && CPU_EQUAL(&after, &allowed),
           "and may run on all as before");
  }
}
#endif

// Spinning beside other processes would only let the system take the core away sooner.
void test_threads_that_share_their_cores_sleep() {
  if (access("/proc/thread-self/schedstat", R_OK) != 0) return;  // the system does not say how long threads wait
  const BusyProcesses busy;
  helpers_share(200ms);  // which sees that the caller is preempted
  double least = 1;
  bool alone = false;
  for (int attempt = 0; attempt < 10; ++attempt) {
    least = std::min(least, helpers_share(200ms));
    alone = alone || runs_by_two(20) == 0;
  }
  expect(least < 0.04, "helpers do not spin where other processes want the cores");
  expect(alone, "there small pieces are the caller's alone");
}
#endif

void test_fork() {
  run_sets(2, 10, "before the fork");
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) run_sets(2, 10, "in the parent");
  });
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      failures = 0;
      run_sets(2, 100, "in the child");
      _exit(failures == 0 ? 0 : 1);
    }
    int status = 0;
    for (int waited = 0; waitpid(child, &status, WNOHANG) == 0; ++waited) {
      if (waited > 10000) kill(child, SIGKILL);
      std::this_thread::sleep_for(1ms);
    }
    expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a forked process has threads of its own");
  }
  stop = true;
  busy.join();
}

// A crew that the process was forked within has nobody in the child.
void test_fork_within_a_run() {
  const Crew crew(1);
  const pid_t child = fork();
  if (child == 0) {
    const bool alone = Crew::threads() == 1;
    int runs = 0;
    run_in_pieces(2, [&](int, int) { ++runs; });
    _exit(alone && runs == 2 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child forked within a run goes on alone");
}

// Exit while another thread runs: no deadlock and no use after free. One helper has a core of its own here: it finds
// more pieces each time before it would sleep.
void test_exit_during_a_run(int helpers) {
  const pid_t child = fork();
  if (child == 0) {
    std::thread([helpers] {
      for (;;) run_sets(helpers, 10, "during exit");
    }).detach();
    std::this_thread::sleep_for(20ms);
    std::exit(0);
  }
  int status = 0;
  for (int waited = 0; waitpid(child, &status, WNOHANG) == 0; ++waited) {
    if (waited > 10000) kill(child, SIGKILL);
    std::this_thread::sleep_for(1ms);
  }
  expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a process ends during a run");
}

#endif

void no_memory(ggml_tensor*, int, int, void*) { throw std::bad_alloc(); }

void test_kernels_without_memory() {
  RunStatus status;
  KernelCallBase call;
  call.kernel = no_memory;
  call.work = INT64_MAX;
  call.node = "node_7";
  call.status = &status;
  const Crew crew(1);
  run_kernel(nullptr, 0, 1, &call);
  expect(!status.ok() && std::string(status.message()) == "node_7: out of memory", "no exception leaves a kernel");
}

}  // namespace
}  // namespace executorch_ggml::testing

int main() {
  using namespace executorch_ggml::testing;
  test_each_piece_runs_once();
  test_many_callers();
  test_helpers_help();
  test_pieces_within_pieces();
  test_crews_within_crews();
  test_idle_threads_sleep();
#if !defined(__SANITIZE_THREAD__)  // which ends a forked process that starts threads
#if defined(RUSAGE_THREAD)
  test_threads_that_share_their_cores_sleep();
#if defined(__linux__)
  test_a_helper_migrates_to_its_callers_core();
  test_moved_threads_stay_free();
#endif
#endif
  test_fork();
  test_fork_within_a_run();
  for (int helpers : {1, 3}) test_exit_during_a_run(helpers);
#endif
  test_kernels_without_memory();
  std::printf("%d failures\n", failures.load());
  return failures == 0 ? 0 : 1;
}
