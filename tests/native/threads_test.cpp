// Sessions on several threads: each call gets the answer of its own inputs, whoever else runs, loads, resets or ends.
// `make tsan` runs this under ThreadSanitizer.

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "corpus.h"
#include "cpu.h"
#include "devices.h"

namespace executorch_ggml::testing {
namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 3;

std::atomic<int> failures{0};

void fail(const Program& program, const std::string& message) {
  std::printf("%s: %s\n", program.name.c_str(), message.c_str());
  ++failures;
}

void in_threads(const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
}

// A program's session with what must outlive it.
class Loaded {
 public:
  Loaded(const Program& program, const SessionOptions& options)
      : program_(program), words_(aligned(program.ir)), constants_(program) {
    const Status status = Session::load(words_.data(), program.ir.size(), &constants_, options, &session_);
    if (!status.ok()) {
      std::printf("%s: %s\n", program.name.c_str(), status.message().c_str());
      std::exit(1);
    }
  }

  Outputs run_unchecked() {
    Outputs outputs;
    const Status status = run_session(session_.get(), program_.inputs, &outputs);
    if (!status.ok()) fail(program_, status.message());
    return outputs;
  }

  void run() {
    const Outputs outputs = run_unchecked();
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      if (!same(program_.outputs[i], outputs.bytes(i))) fail(program_, format("output %zu is not as expected", i));
    }
  }

  Session* session() { return session_.get(); }

 private:
  const Program& program_;
  const std::vector<uint64_t> words_;
  Constants constants_;
  std::unique_ptr<Session> session_;
};

SessionOptions options_of(int threads) {
  SessionOptions options;
  options.threads = threads;
  return options;
}

// A program that counts its runs: whatever the order, each of them gets another number.
void test_counting(const Program& program, int threads) {
  Loaded loaded(program, options_of(threads));
  std::vector<std::atomic<int>> runs(kThreads * kRounds);
  in_threads([&](int) {
    for (int round = 0; round < kRounds; ++round) {
      int64_t count = 0;
      const std::string bytes = loaded.run_unchecked().bytes(1);
      std::memcpy(&count, bytes.data(), sizeof(count));
      if (count < 1 || count > kThreads * kRounds)
        return fail(program, format("run number %lld", static_cast<long long>(count)));
      ++runs[static_cast<size_t>(count - 1)];
    }
  });
  for (const std::atomic<int>& times : runs) {
    if (times != 1) fail(program, format("%d runs had one number", times.load()));
  }
}

void test_one_session(const Program& program, int threads) {
  Loaded loaded(program, options_of(threads));
  in_threads([&](int) {
    for (int round = 0; round < kRounds; ++round) loaded.run();
  });
}

// Each thread loads sessions of one program that share weights and states, and ends them, while others run and reset.
void test_shared_states(const Program& program) {
  SessionOptions options = options_of(2);
  options.states = std::make_shared<States>();
  options.weights = std::make_shared<PackedWeights>();
  in_threads([&](int thread) {
    for (int round = 0; round < kRounds; ++round) {
      Loaded loaded(program, options);
      loaded.run();
      if (thread == 0) loaded.session()->reset();
      loaded.run();
    }
  });
}

// Sessions of all programs and several numbers of threads, while the defaults are changed.
void test_side_by_side(const std::vector<Program>& programs) {
  in_threads([&](int thread) {
    for (size_t i = 0; i < programs.size(); ++i) {
      set_default_threads(1 + thread);
      Loaded loaded(programs[(i + static_cast<size_t>(thread) * 7) % programs.size()], options_of(thread));
      loaded.run();
      list_devices();
    }
  });
  set_default_threads(0);
}

int run() {
  std::vector<Program> programs = read_programs(std::getenv("EXECUTORCH_GGML_TEST_CORPUS"));
  if (programs.empty()) {
    std::printf("no programs in EXECUTORCH_GGML_TEST_CORPUS: write them with python -m tests.native.make_corpus\n");
    return 77;
  }
  const auto counts =
      std::partition(programs.begin(), programs.end(), [](const Program& p) { return p.name != "state"; });
  const std::vector<Program> counting(counts, programs.end());
  programs.erase(counts, programs.end());
  test_side_by_side(programs);  // first, so that ggml itself is opened by several threads at once
  for (const Program& program : programs) {
    test_one_session(program, 1);
    test_one_session(program, 2);
    test_shared_states(program);
  }
  for (const Program& program : counting) {
    test_counting(program, 1);
    test_counting(program, 2);
  }
  std::printf("%zu programs on %d threads, %d failures\n", programs.size(), kThreads, failures.load());
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace executorch_ggml::testing

int main() { return executorch_ggml::testing::run(); }
