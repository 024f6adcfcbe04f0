// Programs from others: each program of the corpus is run, then damaged in thousands of ways, and run again where it
// still loads. Whatever is in it, loading and running end in a Status: no signal, no access out of bounds, no hang.
//
//   hostile_test                        all programs, for EXECUTORCH_GGML_TEST_SECONDS (30)
//   hostile_test PROGRAM [ITERATION]    one program, or one of its damaged forms
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "cpu.h"
#include "damage.h"
#include "payload.h"
#include "session.h"

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

// Memory that ends where the next page must not be touched.
class Guarded {
 public:
  explicit Guarded(size_t size, size_t alignment = 8) {
    const size_t page = page_size();
    const size_t used = (size + alignment - 1) / alignment * alignment;
    mapped_ = (used + page - 1) / page * page + page;
    void* memory = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    begin_ = static_cast<char*>(memory);
    mprotect(begin_ + mapped_ - page, page, PROT_NONE);
    data_ = begin_ + mapped_ - page - used;
  }
  Guarded(Guarded&& other) noexcept : begin_(other.begin_), data_(other.data_), mapped_(other.mapped_) {
    other.begin_ = nullptr;
  }
  Guarded& operator=(Guarded&&) = delete;
  ~Guarded() {
    if (begin_ != nullptr) munmap(begin_, mapped_);
  }
  char* data() const { return data_; }

  // Copies bytes in, and makes writes crash from then on.
  void fill_and_lock(const std::string& bytes) {
    if (!bytes.empty()) std::memcpy(data_, bytes.data(), bytes.size());
    mprotect(begin_, mapped_ - page_size(), PROT_READ);
  }

 private:
  static size_t page_size() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

  char* begin_;
  char* data_;
  size_t mapped_;
};

struct Input {
  DType dtype;
  std::vector<int64_t> sizes;
  std::string bytes;
};

struct Output {
  DType dtype;
  std::string bytes;
};

struct Program {
  std::string name;
  std::map<std::string, std::string> constants;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::string ir;
};

// Reads a file of make_corpus.py, which is trusted.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : file_(path, std::ios::binary) {
    file_.exceptions(std::ios::failbit | std::ios::badbit);
  }
  template <class T>
  T number() {
    T value{};
    file_.read(reinterpret_cast<char*>(&value), sizeof(value));
    return value;
  }
  std::string bytes(size_t size) {
    std::string text(size, '\0');
    file_.read(text.data(), static_cast<std::streamsize>(size));
    return text;
  }
  std::string sized() { return bytes(number<uint64_t>()); }

 private:
  std::ifstream file_;
};

Program read_program(const std::filesystem::path& path) {
  Reader reader(path);
  Program program;
  program.name = path.stem().string();
  reader.bytes(4);
  for (auto left = reader.number<uint32_t>(); left > 0; --left) {
    const std::string key = reader.bytes(reader.number<uint32_t>());
    program.constants[key] = reader.sized();
  }
  for (auto left = reader.number<uint32_t>(); left > 0; --left) {
    Input input{static_cast<DType>(reader.number<uint32_t>()), {}, {}};
    input.sizes.resize(reader.number<uint32_t>());
    for (int64_t& size : input.sizes) size = reader.number<int64_t>();
    input.bytes = reader.sized();
    program.inputs.push_back(input);
  }
  for (auto left = reader.number<uint32_t>(); left > 0; --left) {
    const auto dtype = static_cast<DType>(reader.number<uint32_t>());
    program.outputs.push_back({dtype, reader.sized()});
  }
  program.ir = reader.sized();
  return program;
}

// Constants of the size that the program came with, whatever it says now.
class Constants : public ConstantSource {
 public:
  explicit Constants(const Program& program) {
    for (const auto& [key, bytes] : program.constants) {
      Guarded memory(bytes.size(), 32);
      memory.fill_and_lock(bytes);
      memory_.emplace(key, std::pair(std::move(memory), bytes.size()));
    }
  }
  Status find(const std::string& key, const ggml_tensor*, const void** data, size_t* size) override {
    const auto found = memory_.find(key);
    if (found == memory_.end()) return Status::error("constant " + key + ": not there");
    *data = found->second.first.data();
    *size = found->second.second;
    return {};
  }

 private:
  std::map<std::string, std::pair<Guarded, size_t>> memory_;
};

class Outputs : public OutputSink {
 public:
  Status place(size_t, DType dtype, const std::vector<int64_t>& sizes, void** data) override {
    size_t bytes = ggml_type_size(storage_type(dtype));
    for (int64_t size : sizes) bytes *= static_cast<size_t>(size);
    memory_.emplace_back(bytes);
    sizes_.push_back(bytes);
    *data = memory_.back().data();
    return {};
  }
  std::string bytes(size_t index) const { return {memory_[index].data(), sizes_[index]}; }
  size_t count() const { return memory_.size(); }

 private:
  std::vector<Guarded> memory_;
  std::vector<size_t> sizes_;
};

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

Status run_session(Session* session, const std::vector<Input>& inputs, Outputs* outputs) {
  std::vector<Guarded> memory;
  std::vector<TensorView> views;
  for (const Input& input : inputs) {
    memory.emplace_back(input.bytes.size());
    memory.back().fill_and_lock(input.bytes);
    views.push_back({memory.back().data(), input.dtype, input.sizes.data(), static_cast<int>(input.sizes.size())});
  }
  return session->run(views.data(), views.size(), outputs);
}

struct Tally {
  int damaged = 0;
  int loaded = 0;
  int ran = 0;
  double slowest = 0;
  std::string slowest_name;
  int failures = 0;
};

void fail(Tally* tally, const std::string& message) {
  std::printf("%s: %s\n", current, message.c_str());
  ++tally->failures;
}

Status load(const std::vector<uint64_t>& words, size_t size, Constants* constants, std::unique_ptr<Session>* session) {
  SessionOptions options;
  options.threads = 2;
  options.limits.memory = kMemory;
  options.limits.work = kWork;
  return Session::load(words.data(), size, constants, options, session);
}

// IR in memory that is aligned.
std::vector<uint64_t> aligned(const std::string& ir) {
  std::vector<uint64_t> words((ir.size() + 7) / 8);
  if (!ir.empty()) std::memcpy(words.data(), ir.data(), ir.size());
  return words;
}

void try_damaged(const Program& program, const std::string& ir, Tally* tally) {
  const std::vector<uint64_t> words = aligned(ir);
  Constants constants(program);
  std::unique_ptr<Session> session;
  ++tally->damaged;
  Status status = load(words, ir.size(), &constants, &session);
  if (!status.ok()) return;
  ++tally->loaded;
  const fb::Graph* graph = nullptr;
  if (!open_payload(words.data(), ir.size(), &graph).ok()) return fail(tally, "loads, but its payload does not open");
  for (int again = 0; again < 2; ++again) {
    Outputs outputs;
    status = run_session(session.get(), wanted_inputs(program, *graph, *session), &outputs);
  }
  tally->ran += status.ok() ? 1 : 0;
}

template <class T>
bool all_close(const std::string& got, const std::string& expected) {
  double largest = 0;
  double off = 0;
  for (size_t at = 0; at + sizeof(T) <= expected.size(); at += sizeof(T)) {
    T a;
    T b;
    std::memcpy(&a, got.data() + at, sizeof(T));
    std::memcpy(&b, expected.data() + at, sizeof(T));
    if (std::isnan(a) != std::isnan(b)) return false;
    if (std::isnan(a) || a == b) continue;
    largest = std::max(largest, std::fabs(static_cast<double>(b)));
    off = std::max(off, std::fabs(static_cast<double>(a) - static_cast<double>(b)));
  }
  return off <= 1e-3 * largest;
}

bool same(const Output& expected, const std::string& got) {
  if (got.size() != expected.bytes.size()) return false;
  if (expected.dtype == DType::F32) return all_close<float>(got, expected.bytes);
  if (expected.dtype == DType::F64) return all_close<double>(got, expected.bytes);
  return got == expected.bytes;
}

// The program as it came gives what the reference gave.
void check_whole(const Program& program, Tally* tally) {
  std::snprintf(current, sizeof(current), "%s", program.name.c_str());
  const std::vector<uint64_t> words = aligned(program.ir);
  Constants constants(program);
  std::unique_ptr<Session> session;
  Outputs outputs;
  Status status = load(words, program.ir.size(), &constants, &session);
  if (status.ok()) status = run_session(session.get(), program.inputs, &outputs);
  if (!status.ok()) return fail(tally, status.message());
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

std::vector<Program> read_programs(const char* folder) {
  std::vector<Program> programs;
  if (folder == nullptr || !std::filesystem::is_directory(folder)) return programs;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".eggc") programs.push_back(read_program(entry.path()));
  }
  std::sort(programs.begin(), programs.end(), [](const Program& a, const Program& b) { return a.name < b.name; });
  return programs;
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
  std::printf("%zu programs, damaged %d times: %d loaded, %d ran; slowest %s in %.2f s; %d failures\n", programs.size(),
              tally.damaged, tally.loaded, tally.ran, tally.slowest_name.c_str(), tally.slowest, tally.failures);
  return tally.failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace executorch_ggml::testing

int main(int argc, char** argv) {
  signal(SIGALRM, executorch_ggml::testing::say_where);
  signal(SIGABRT, executorch_ggml::testing::say_where);
#if !defined(__SANITIZE_ADDRESS__)  // which says more
  signal(SIGSEGV, executorch_ggml::testing::say_where);
  signal(SIGBUS, executorch_ggml::testing::say_where);
  signal(SIGFPE, executorch_ggml::testing::say_where);
#endif
  return executorch_ggml::testing::run(argc, argv);
}
