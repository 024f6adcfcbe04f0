// Sessions that take all memory of their runs when they are loaded: right results, in no more memory than they asked
// for, and no allocation afterwards.

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "allocation_counter.h"
#include "corpus.h"

namespace executorch_ggml::testing {
namespace {

int failures = 0;

void expect(bool held, const std::string& what) {
  if (held) return;
  std::printf("FAILED: %s\n", what.c_str());
  ++failures;
}

// As many bytes as are asked for, with a page behind them that must not be touched.
class ExactMemory : public MemorySource {
 public:
  void* allocate(size_t bytes) override {
    ++calls;
    memory_ = std::make_unique<Guarded>(bytes, 64);
    return memory_->data();
  }
  int calls = 0;

 private:
  std::unique_ptr<Guarded> memory_;
};

class NoMemory : public MemorySource {
 public:
  void* allocate(size_t bytes) override {
    asked = bytes;
    return nullptr;
  }
  size_t asked = 0;
};

// Has memory for the outputs before they come.
class FixedOutputs : public OutputSink {
 public:
  explicit FixedOutputs(const Program& program) {
    for (const Output& output : program.outputs) memory_.emplace_back(output.bytes.size());
  }
  Status place(size_t index, DType, const std::vector<int64_t>&, void** data) override {
    *data = memory_[index].data();
    return {};
  }
  std::string bytes(size_t index, size_t size) const { return {memory_[index].data(), size}; }

 private:
  std::vector<Guarded> memory_;
};

Status load(const Program& program, Constants* constants, const std::vector<uint64_t>& ir, MemorySource* memory,
            int threads, std::unique_ptr<Session>* session) {
  SessionOptions options;
  options.memory = memory;
  options.threads = threads;
  return Session::load(ir.data(), program.ir.size(), constants, options, session);
}

bool says(const Status& status, const std::string& text) { return status.message().find(text) != std::string::npos; }

void check_runs(const Program& program, Session* session) {
  std::vector<Guarded> memory;
  std::vector<TensorView> views;
  for (const Input& input : program.inputs) {
    memory.emplace_back(input.bytes.size());
    memory.back().fill_and_lock(input.bytes);
    views.push_back({memory.back().data(), input.dtype, input.sizes.data(), static_cast<int>(input.sizes.size())});
  }
  FixedOutputs outputs(program);
  start_counting_allocations();
  const Status status = session->run(views.data(), views.size(), &outputs);
  const int64_t allocations = stop_counting_allocations().count;
  expect(status.ok(), program.name + ": " + status.message());
  expect(allocations == 0, program.name + ": a run allocated memory " + std::to_string(allocations) + " times");
  for (size_t i = 0; status.ok() && i < program.outputs.size(); ++i) {
    const bool right = same(program.outputs[i], outputs.bytes(i, program.outputs[i].bytes.size()));
    expect(right, program.name + ": output " + std::to_string(i) + " is not as expected");
  }
}

void check_refusals(const Program& program) {
  Constants constants(program);
  const std::vector<uint64_t> ir = aligned(program.ir);
  std::unique_ptr<Session> session;
  NoMemory none;
  const Status refused = load(program, &constants, ir, &none, 0, &session);
  if (none.asked > 0) {
    expect(says(refused, std::to_string(none.asked) + " bytes"),
           program.name + ": too little memory is said with bytes");
  }
  ExactMemory memory;
  const Status several = load(program, &constants, ir, &memory, 2, &session);
  expect(says(several, "one thread"), program.name + ": two threads are refused");
}

// Whether it can have static memory: its sizes are fixed, and ggml computes none of its nodes.
bool check(const Program& program) {
  Constants constants(program);
  const std::vector<uint64_t> ir = aligned(program.ir);
  std::unique_ptr<Session> session;
  ExactMemory memory;
  const Status status = load(program, &constants, ir, &memory, 0, &session);
  if (says(status, "fixed sizes") || says(status, "computed by ggml")) return false;
  expect(status.ok(), program.name + ": " + status.message());
  expect(memory.calls <= 1, program.name + ": memory is taken once");
  if (status.ok()) check_runs(program, session.get());
  check_refusals(program);
  return true;
}

int run() {
  const std::vector<Program> programs = read_programs(std::getenv("EXECUTORCH_GGML_TEST_CORPUS"));
  if (programs.empty()) {
    std::printf("skipped: no corpus of programs\n");
    return 77;
  }
  int fixed = 0;
  for (const Program& program : programs) fixed += check(program) ? 1 : 0;
  std::printf("%d of %zu programs ran in static memory\n", fixed, programs.size());
  expect(fixed > 0, "there are programs that have static memory");
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace executorch_ggml::testing

int main() { return executorch_ggml::testing::run(); }
