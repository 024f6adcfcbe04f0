// Damaged GGUF files: reading one gives its contents or an error, and never touches what is beyond its end.

#include "gguf.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace executorch_ggml {
namespace {

#define CHECK(condition)                                                   \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                        \
    }                                                                      \
  } while (0)

class Writer {
 public:
  template <class T>
  Writer& put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  Writer& text(const std::string& text) {
    put<uint64_t>(text.size());
    bytes_ += text;
    return *this;
  }
  Writer& pad() {
    bytes_.resize((bytes_.size() + 31) / 32 * 32);
    return *this;
  }
  Writer& fill(size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) bytes_.push_back(static_cast<char>(i * 7));
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

constexpr size_t kTensorBytes = 4 * 2 * 18;  // q4_0: 2 blocks in each of 4 rows

std::string good_file() {
  Writer file;
  file.put('G').put('G').put('U').put('F').put<uint32_t>(3).put<uint64_t>(2).put<uint64_t>(4);
  file.text("general.architecture").put<uint32_t>(8).text("llama");
  file.text("llama.block_count").put<uint32_t>(4).put<uint32_t>(1);
  file.text("tokenizer.ggml.tokens").put<uint32_t>(9).put<uint32_t>(8).put<uint64_t>(3).text("a").text("").text("bc");
  file.text("tokenizer.ggml.scores").put<uint32_t>(9).put<uint32_t>(6).put<uint64_t>(2).put(1.0f).put(2.0f);
  file.text("blk.0.attn_q.weight").put<uint32_t>(2).put<int64_t>(64).put<int64_t>(4);
  file.put<uint32_t>(GGML_TYPE_Q4_0).put<uint64_t>(0);
  file.text("output_norm.weight").put<uint32_t>(1).put<int64_t>(8).put<uint32_t>(GGML_TYPE_F32);
  file.put<uint64_t>((kTensorBytes + 31) / 32 * 32);
  file.pad().fill(kTensorBytes).pad().fill(32);
  return file.bytes();
}

// A copy of exactly the file's length, so that a sanitizer sees the first byte read after it.
Status read(const std::string& bytes, GgufContents* contents) {
  static std::vector<char> copy;
  copy.assign(bytes.begin(), bytes.end());
  copy.shrink_to_fit();
  return GgufContents::read(reinterpret_cast<const uint8_t*>(copy.data()), copy.size(), contents);
}

// Reads all that the contents point to.
uint64_t touch(const GgufContents& contents) {
  uint64_t sum = 0;
  for (const GgufTensor& tensor : contents.tensors()) {
    for (size_t i = 0; i < tensor.size; ++i) sum += tensor.data[i];
  }
  for (const GgufEntry& entry : contents.entries())
    sum += entry.count > 0 && entry.type != GgufType::String ? *entry.data : 0;
  return sum;
}

void test_good() {
  GgufContents contents;
  CHECK(read(good_file(), &contents).ok());
  CHECK(contents.entries().size() == 4 && contents.tensors().size() == 2);
  const GgufTensor* tensor = contents.find("blk.0.attn_q.weight");
  CHECK(tensor != nullptr && tensor->type == GGML_TYPE_Q4_0 && tensor->size == kTensorBytes && tensor->ne[1] == 4);
  CHECK(contents.find("other") == nullptr);
  CHECK(contents.id().size() == 16);
  std::string changed = good_file();
  changed.back() ^= 1;
  GgufContents other;
  CHECK(read(changed, &other).ok() && other.id() != contents.id());
}

void test_every_truncation() {
  const std::string whole = good_file();
  for (size_t size = 0; size < whole.size(); ++size) {
    GgufContents contents;
    CHECK(!read(whole.substr(0, size), &contents).ok());
  }
}

void test_damage() {
  const std::string whole = good_file();
  std::mt19937_64 random(1);
  uint64_t sum = 0;
  for (int i = 0; i < 200000; ++i) {
    std::string bytes = whole;
    for (auto left = 1 + random() % 3; left > 0; --left) {
      const size_t place = random() % bytes.size();
      const uint64_t kValues[] = {0, 1, 31, 32, 255, 1u << 31, ~0ull, ~0ull >> 1, 1ull << 62, random()};
      const uint64_t value = kValues[random() % 10];
      if (random() % 2 == 0) {
        bytes[place] = static_cast<char>(value);
      } else {
        std::memcpy(bytes.data() + place, &value, std::min<size_t>(8, bytes.size() - place));
      }
    }
    GgufContents contents;
    if (read(bytes, &contents).ok()) sum += touch(contents);
  }
  CHECK(sum != 0);
}

}  // namespace
}  // namespace executorch_ggml

int main() {
  executorch_ggml::test_good();
  executorch_ggml::test_every_truncation();
  executorch_ggml::test_damage();
  return 0;
}
