// Programs from others: each program of the corpus is run, then damaged in thousands of ways, and run again where it
// still loads. Whatever is in it, loading and running end in a Status: no signal, no access out of bounds, no hang.
//
//   hostile_test                        all programs, for EXECUTORCH_GGML_TEST_SECONDS (30)
//   hostile_test PROGRAM [ITERATION]    one program, or one of its damaged forms
//
// On the CPU, or with EXECUTORCH_GGML_TEST_DEVICE on a device of the library EXECUTORCH_GGML_TEST_BACKEND, as on
// standin:cuda of build/dev/standin/libggml-standin.so.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "corpus.h"
#include "cpu.h"
#include "damage.h"
#include "devices.h"
#include "payload.h"
#include "session.h"
#include "targets.h"

namespace executorch_ggml::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMemory = size_t{64} << 20;  // of a run
constexpr int64_t kWork = int64_t{1} << 26;
constexpr unsigned kHang = 60;        // seconds of one run that count as a hang
constexpr int kLeastIterations = 40;  // of each program, however slow the machine is
constexpr size_t kMostInput = size_t{4} << 20;

// What is being run, for the message of a crash.
char current[256] = "nothing";

void say_where(int signal) {
  char text[512];
  const int length = std::snprintf(text, sizeof(text), "hostile_test: signal %d in %s\n", signal, current);
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, static_cast<size_t>(length));
  _exit(1);
}

// Inputs as the (damaged) program wants them, where that is little; else as they came.
std::vector<Input> wanted_inputs(const Program& program, const fb::Graph& graph, const Session& session) {
  std::vector<Input> inputs;
  for (size_t i = 0; i < session.inputs().size(); ++i) {
    const Input known = i < program.inputs.size() ? program.inputs[i] : Input{DType::F32, {}, "12345678"};
    Input input{session.inputs()[i].dtype, {}, {}};
    const auto* shape = graph.inputs()->Get(static_cast<flatbuffers::uoffset_t>(i))->shape();
    size_t bytes = ggml_type_size(storage_type(input.dtype));
    for (int d = 0; d < session.inputs()[i].rank; ++d) {
      const int64_t declared = shape->Get(static_cast<flatbuffers::uoffset_t>(d));
      const bool fixed = declared >= 0 && declared < static_cast<int64_t>(kMostInput);
      const int64_t before = static_cast<size_t>(d) < known.sizes.size() ? known.sizes[static_cast<size_t>(d)] : 1;
      input.sizes.push_back(fixed ? declared : before);
      bytes = std::min(kMostInput + 1, bytes * static_cast<size_t>(input.sizes.back()));
    }
    if (bytes > kMostInput) {
      inputs.push_back(known);
      continue;
    }
    for (size_t at = 0; at < bytes; ++at)
      input.bytes += known.bytes.empty() ? 'x' : known.bytes[at % known.bytes.size()];
    inputs.push_back(input);
  }
  return inputs;
}

struct Tally {
  int damaged = 0;
  int loaded = 0;
  int ran = 0;
  int values = 0;  // that nodes of whole programs have
  double slowest = 0;
  std::string slowest_name;
  int failures = 0;
};

void fail(Tally* tally, const std::string& message) {
  std::printf("%s: %s\n", current, message.c_str());
  ++tally->failures;
}

Status load(const std::vector<uint64_t>& words, size_t size, Constants* constants, std::unique_ptr<Session>* session) {
  const char* device = std::getenv("EXECUTORCH_GGML_TEST_DEVICE");
  SessionOptions options;
  options.device = device == nullptr ? "" : device;
  options.threads = 2;
  options.limits.memory = kMemory;
  options.limits.work = kWork;
  return Session::load(words.data(), size, constants, options, session);
}

// Reads what each node computes, as a tracer that logs values does.
class ValueReader : public NodeObserver {
 public:
  void begin() override {}
  void computed(const NodeStep& step) override {
    if (step.value == nullptr) return;
    const size_t size = read_traced(*step.value).size();
    if (size != 0 &&
        size != static_cast<size_t>(ggml_nelements(step.value->tensor)) * ggml_type_size(step.value->tensor->type))
      wrong_ = true;
    ++values_;
  }
  int values() const { return values_; }
  bool wrong() const { return wrong_; }

 private:
  int values_ = 0;
  bool wrong_ = false;
};

void try_damaged(const Program& program, const std::string& ir, Tally* tally) {
  const std::vector<uint64_t> words = aligned(ir);
  Constants constants(program);
  std::unique_ptr<Session> session;
  ++tally->damaged;
  Status status = load(words, ir.size(), &constants, &session);
  if (!status.ok()) return;
  ++tally->loaded;
  const fb::Program* opened = nullptr;
  if (!open_payload(words.data(), ir.size(), &opened).ok()) return fail(tally, "loads, but its payload does not open");
  const fb::Graph& graph = graph_for(*opened, Target::Cpu);
  for (int again = 0; again < 2; ++again) {
    Outputs outputs;
    ValueReader reader;
    status =
        run_session(session.get(), wanted_inputs(program, graph, *session), &outputs, again == 0 ? &reader : nullptr);
    if (reader.wrong()) return fail(tally, "a value of another size than its tensor");
  }
  tally->ran += status.ok() ? 1 : 0;
}

// The program as it came gives what the reference gave.
void check_whole(const Program& program, Tally* tally) {
  std::snprintf(current, sizeof(current), "%s", program.name.c_str());
  const std::vector<uint64_t> words = aligned(program.ir);
  Constants constants(program);
  std::unique_ptr<Session> session;
  Outputs outputs;
  Status status = load(words, program.ir.size(), &constants, &session);
  ValueReader reader;
  if (status.ok()) status = run_session(session.get(), program.inputs, &outputs, &reader);
  if (!status.ok()) return fail(tally, status.message());
  tally->values += reader.values();
  if (outputs.count() != program.outputs.size()) return fail(tally, "another number of outputs than expected");
  for (size_t i = 0; i < outputs.count(); ++i) {
    if (!same(program.outputs[i], outputs.bytes(i))) fail(tally, format("output %zu is not as expected", i));
  }
}

void damage_once(const Program& program, const Damager& damager, int iteration, Tally* tally) {
  std::snprintf(current, sizeof(current), "%s %d", program.name.c_str(), iteration);
  const auto begin = Clock::now();
  alarm(kHang);
  try_damaged(program, damager.damaged(static_cast<uint64_t>(iteration)), tally);
  alarm(0);
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  if (seconds > tally->slowest) {
    tally->slowest = seconds;
    tally->slowest_name = current;
  }
}

void damage_all(const std::vector<Program>& programs, double seconds, Tally* tally) {
  std::vector<Damager> damagers;
  for (const Program& program : programs) damagers.emplace_back(program.ir);
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (int iteration = 0; iteration < kLeastIterations || Clock::now() < end; ++iteration) {
    for (size_t i = 0; i < programs.size(); ++i) damage_once(programs[i], damagers[i], iteration, tally);
  }
}

double budget() {
  const char* text = std::getenv("EXECUTORCH_GGML_TEST_SECONDS");
  return text == nullptr ? 30.0 : std::atof(text);
}

int run(int argc, char** argv) {
  const char* backend = std::getenv("EXECUTORCH_GGML_TEST_BACKEND");
  if (backend != nullptr && !load_backend(backend, "of the test").ok()) return 1;
  const char* folder = std::getenv("EXECUTORCH_GGML_TEST_CORPUS");
  std::vector<Program> programs = read_programs(folder);
  if (argc > 1) {
    const auto other = [&](const Program& program) { return program.name != argv[1]; };
    programs.erase(std::remove_if(programs.begin(), programs.end(), other), programs.end());
  }
  if (programs.empty()) {
    std::printf("no programs in %s: write them with python -m tests.native.make_corpus\n", folder ? folder : "(unset)");
    return 77;
  }
  std::shared_ptr<Cpu> pool;  // the sessions' threads, so that not each starts its own
  if (!Cpu::open(2, /*shared=*/true, &pool).ok()) return 1;
  Tally tally;
  for (const Program& program : programs) check_whole(program, &tally);
  if (argc > 2) {
    damage_once(programs.front(), Damager(programs.front().ir), std::atoi(argv[2]), &tally);
  } else {
    damage_all(programs, budget(), &tally);
  }
  for (const Program& program : programs) check_whole(program, &tally);
  if (tally.values == 0) fail(&tally, "no value of a node was read");
  std::printf("%zu programs, damaged %d times: %d loaded, %d ran; slowest %s in %.2f s; %d failures\n", programs.size(),
              tally.damaged, tally.loaded, tally.ran, tally.slowest_name.c_str(), tally.slowest, tally.failures);
  return tally.failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace executorch_ggml::testing

int main(int argc, char** argv) {
  signal(SIGALRM, executorch_ggml::testing::say_where);
  signal(SIGABRT, executorch_ggml::testing::say_where);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which say more
  signal(SIGSEGV, executorch_ggml::testing::say_where);
  signal(SIGBUS, executorch_ggml::testing::say_where);
  signal(SIGFPE, executorch_ggml::testing::say_where);
#endif
  return executorch_ggml::testing::run(argc, argv);
}
