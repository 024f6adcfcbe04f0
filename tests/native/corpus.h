// The programs of make_corpus.py, with their inputs and expected outputs.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "session.h"

namespace executorch_ggml::testing {

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

inline Program read_program(const std::filesystem::path& path) {
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

inline std::vector<Program> read_programs(const char* folder) {
  std::vector<Program> programs;
  if (folder == nullptr || !std::filesystem::is_directory(folder)) return programs;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".eggc") programs.push_back(read_program(entry.path()));
  }
  std::sort(programs.begin(), programs.end(), [](const Program& a, const Program& b) { return a.name < b.name; });
  return programs;
}

inline Status run_session(Session* session, const std::vector<Input>& inputs, Outputs* outputs,
                          NodeObserver* observer = nullptr) {
  std::vector<Guarded> memory;
  std::vector<TensorView> views;
  for (const Input& input : inputs) {
    memory.emplace_back(input.bytes.size());
    memory.back().fill_and_lock(input.bytes);
    views.push_back({memory.back().data(), input.dtype, input.sizes.data(), static_cast<int>(input.sizes.size())});
  }
  return session->run(views.data(), views.size(), outputs, observer);
}

// IR in memory that is aligned.
inline std::vector<uint64_t> aligned(const std::string& ir) {
  std::vector<uint64_t> words((ir.size() + 7) / 8);
  if (!ir.empty()) std::memcpy(words.data(), ir.data(), ir.size());
  return words;
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

inline bool same(const Output& expected, const std::string& got) {
  if (got.size() != expected.bytes.size()) return false;
  if (expected.dtype == DType::F32) return all_close<float>(got, expected.bytes);
  if (expected.dtype == DType::F64) return all_close<double>(got, expected.bytes);
  return got == expected.bytes;
}

}  // namespace executorch_ggml::testing
