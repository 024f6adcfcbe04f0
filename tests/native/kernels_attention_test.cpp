// attention against plain loops in double, on every instruction set that this CPU has, for many sizes and types.
// With --bench [number of a shape]: its speed beside that of ggml's own kernel, for the shapes of language and vision
// models.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ggml.h"
#include "instruction_sets.h"
#include "kernels/kernels.h"
#include "kernels/simd/isa.h"
#include "peer.h"

namespace executorch_ggml {
namespace {

using testing::ggml_seconds;
using testing::seconds_of;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kUntouched = -12345.5f;
constexpr int64_t kGuard = 64;

int failures = 0;
std::mt19937 random_bits(11);

float random_float(float scale = 1.0f) { return std::normal_distribution<float>(0.0f, scale)(random_bits); }

int64_t random_size(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random_bits);
}

// A tensor of rows with gaps between them.
struct Rows {
  ggml_tensor t{};
  std::vector<char> memory;
  std::vector<float> values;  // what the rows hold, dense

  Rows(ggml_type type, int64_t width, int64_t rows, int64_t heads, int64_t batch, bool permuted) {
    t.type = type;
    const int64_t ne[] = {width, rows, heads, batch};
    std::copy(ne, ne + 4, t.ne);
    t.nb[0] = ggml_type_size(type);
    const size_t row = ggml_row_size(type, width) + (ggml_is_quantized(type) ? 0 : 2 * t.nb[0]);
    t.nb[1] = permuted ? row * static_cast<size_t>(heads) : row;
    t.nb[2] = permuted ? row : row * static_cast<size_t>(rows);
    t.nb[3] = row * static_cast<size_t>(rows * heads);
    memory.resize(t.nb[3] * static_cast<size_t>(batch) + 64);
    t.data = memory.data();
    values.resize(static_cast<size_t>(width * rows * heads * batch));
    for (float& value : values) value = random_float();
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t r = 0; r < rows; ++r) put_row(r, h, b);
      }
    }
  }

  char* at(int64_t r, int64_t h, int64_t b) {
    return memory.data() + static_cast<size_t>(r) * t.nb[1] + static_cast<size_t>(h) * t.nb[2] +
           static_cast<size_t>(b) * t.nb[3];
  }

  // Stores a row of values, and rounds them as the type does.
  void put_row(int64_t r, int64_t h, int64_t b) {
    char* to = at(r, h, b);
    float* from = values.data() + index(r, h, b);
    const int64_t n = t.ne[0];
    if (t.type == GGML_TYPE_F32) {
      std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
      return;
    }
    ggml_quantize_chunk(t.type, from, to, 0, 1, n, nullptr);
    ggml_get_type_traits(t.type)->to_float(to, from, n);
  }

  int64_t index(int64_t r, int64_t h, int64_t b) const { return ((b * t.ne[2] + h) * t.ne[1] + r) * t.ne[0]; }

  const float* row(int64_t r, int64_t h, int64_t b) const { return values.data() + index(r, h, b); }
};

enum class Mask { None, Rows, OneRow };

struct Shape {
  int64_t key_width, value_width, queries, keys, query_heads, key_heads, batch;
  ggml_type type;
  Mask mask;
  bool permuted;
  float scale, softcap;
  bool rounds = false;  // keys and values, which are of f32, to bf16

  int64_t mask_rows() const { return mask == Mask::OneRow ? 1 : queries; }

  bool is_of_bfloats() const { return rounds || type == GGML_TYPE_BF16; }

  std::string text() const {
    static constexpr const char* kMasks[] = {"", ", masked", ", masked by one row"};
    char text[200];
    std::snprintf(text, sizeof(text), "%lld/%lld wide, %lld queries, %lld keys, %lld/%lld heads, %lld, %s%s, cap %g",
                  static_cast<long long>(key_width), static_cast<long long>(value_width),
                  static_cast<long long>(queries), static_cast<long long>(keys), static_cast<long long>(query_heads),
                  static_cast<long long>(key_heads), static_cast<long long>(batch),
                  rounds ? "rounded" : ggml_type_name(type), kMasks[static_cast<int>(mask)],
                  static_cast<double>(softcap));
    return text;
  }
};

// The tensors of one call.
struct Case {
  Shape shape;
  Rows q, k, v;
  std::vector<uint16_t> mask;
  std::vector<float> out;
  ggml_tensor tmask{}, dst{};
  KernelCall<AttentionParams> call;

  explicit Case(const Shape& s)
      : shape(s),
        q(GGML_TYPE_F32, s.key_width, s.queries, s.query_heads, s.batch, s.permuted),
        k(s.type, s.key_width, s.keys, s.key_heads, s.batch, s.permuted),
        v(s.type, s.value_width, s.keys, s.key_heads, s.batch, s.permuted) {
    call.node = "node";
    call.params = {s.scale, s.softcap};
    call.src[1] = s.is_of_bfloats() ? DType::Bf16 : DType::F32;  // the kernel only distinguishes bf16
    dst.type = GGML_TYPE_F32;
    const int64_t ne[] = {s.value_width, s.query_heads, s.queries, s.batch};
    std::copy(ne, ne + 4, dst.ne);
    dst.nb[0] = sizeof(float);
    for (int i = 1; i < 4; ++i) dst.nb[i] = dst.nb[i - 1] * static_cast<size_t>(dst.ne[i - 1]);
    out.resize(static_cast<size_t>(ggml_nelements(&dst) + 2 * kGuard));
    dst.data = out.data() + kGuard;
    dst.src[0] = &q.t;
    dst.src[1] = &k.t;
    dst.src[2] = &v.t;
    if (s.rounds) {
      for (Rows* rows : {&k, &v}) {
        for (float& value : rows->values) value = ggml_bf16_to_fp32(ggml_fp32_to_bf16(value));
      }
    }
    if (s.mask != Mask::None) make_mask();
  }
  Case(const Case&) = delete;

  // Causal for the first batch, at random for the second, with one row of many masked as a whole.
  void make_mask() {
    tmask.type = GGML_TYPE_F16;
    const int64_t ne[] = {shape.keys, shape.mask_rows(), 1, shape.batch};
    std::copy(ne, ne + 4, tmask.ne);
    tmask.nb[0] = sizeof(uint16_t);
    for (int i = 1; i < 4; ++i) tmask.nb[i] = tmask.nb[i - 1] * static_cast<size_t>(tmask.ne[i - 1]);
    mask.resize(static_cast<size_t>(ggml_nelements(&tmask)));
    auto* to = mask.data();
    for (int64_t b = 0; b < shape.batch; ++b) {
      for (int64_t r = 0; r < shape.mask_rows(); ++r) {
        for (int64_t c = 0; c < shape.keys; ++c) {
          const bool sees = b == 0 ? c <= r + shape.keys - shape.queries : r != 1 && random_size(0, 2) != 0;
          *to++ = ggml_fp32_to_fp16(!sees ? -kInf : b == 0 ? 0.0f : random_float());
        }
      }
    }
    tmask.data = mask.data();
    dst.src[3] = &tmask;
  }

  void run(int threads) {
    RunStatus status;
    call.status = &status;
    std::fill(out.begin(), out.end(), kUntouched);
    for (int ith = 0; ith < threads; ++ith) kernels::attention(&dst, ith, threads, &call);
    if (!status.ok()) fail(status.message());
  }

  // After a run: a result that the kernel rounds to bf16 is the one before, rounded.
  void check_rounded_result() {
    const std::vector<float> before = out;
    call.rounds_result = true;
    run(1);
    call.rounds_result = false;
    for (size_t i = 0; i < out.size(); ++i) {
      const bool is_guard = before[i] == kUntouched;
      const float want = is_guard ? kUntouched : ggml_bf16_to_fp32(ggml_fp32_to_bf16(before[i]));
      if (out[i] != want) return fail("a result that is not rounded, or otherwise");
    }
  }

  // A number of a query, which is rounded where keys are of bf16.
  double query(float x) const {
    return static_cast<double>(shape.is_of_bfloats() ? ggml_bf16_to_fp32(ggml_fp32_to_bf16(x)) : x);
  }

  // A result, and what rounding may change of it: of bf16, weights by a part in 2^8 and a bit.
  struct Number {
    double value;
    double error;
  };

  // One row of the result.
  std::vector<Number> expected(int64_t row, int64_t head, int64_t b) const {
    const int64_t of_keys = head / (shape.query_heads / shape.key_heads);
    std::vector<double> scores(static_cast<size_t>(shape.keys));
    double highest = -kInf;
    for (int64_t c = 0; c < shape.keys; ++c) {
      double score = 0.0;
      for (int64_t i = 0; i < shape.key_width; ++i) {
        score += query(q.row(row, head, b)[i]) * static_cast<double>(k.row(c, of_keys, b)[i]);
      }
      score *= static_cast<double>(shape.scale);
      if (shape.softcap != 0.0f) {
        score = static_cast<double>(shape.softcap) * std::tanh(score / static_cast<double>(shape.softcap));
      }
      if (shape.mask != Mask::None) {
        const int64_t mask_row = shape.mask == Mask::OneRow ? 0 : row;
        const int64_t index = (b * shape.mask_rows() + mask_row) * shape.keys + c;
        score += static_cast<double>(ggml_fp16_to_fp32(mask[static_cast<size_t>(index)]));
      }
      scores[static_cast<size_t>(c)] = score;
      highest = std::max(highest, score);
    }
    std::vector<Number> output(static_cast<size_t>(shape.value_width));
    double sum = 0.0;
    const double rounding = shape.is_of_bfloats() ? 1.01 / 256.0 : 0.0;
    for (int64_t c = 0; c < shape.keys && highest != -kInf; ++c) {
      const double weight = std::exp(scores[static_cast<size_t>(c)] - highest);
      sum += weight;
      for (size_t i = 0; i < output.size(); ++i) {
        const double term = weight * static_cast<double>(v.row(c, of_keys, b)[i]);
        output[i].value += term;
        output[i].error += std::fabs(term) * rounding;
      }
    }
    const bool masked = shape.mask != Mask::None || shape.keys == 0;
    const double factor = sum == 0.0 && masked ? 0.0 : 1.0 / sum;
    for (Number& number : output) number = {number.value * factor, 2e-5 + number.error * factor};
    return output;
  }

  void compare() {
    for (int64_t i = 0; i < kGuard; ++i) {
      if (out[static_cast<size_t>(i)] != kUntouched || out[out.size() - 1 - static_cast<size_t>(i)] != kUntouched) {
        return fail("wrote outside");
      }
    }
    const float* got = out.data() + kGuard;
    for (int64_t b = 0; b < shape.batch; ++b) {
      for (int64_t row = 0; row < shape.queries; ++row) {
        for (int64_t head = 0; head < shape.query_heads; ++head) {
          for (const auto& [want, error] : expected(row, head, b)) {
            const double difference = std::fabs(static_cast<double>(*got++) - want);
            if (!(difference <= error)) return fail("off by " + std::to_string(difference));
          }
        }
      }
    }
  }

  void fail(const std::string& what) const {
    if (++failures <= 20) std::printf("FAIL %s: %s\n", shape.text().c_str(), what.c_str());
  }
};

Shape random_shape() {
  static constexpr int64_t kWidths[] = {1, 8, 16, 20, 32, 40, 64, 80, 96, 128, 200};
  static constexpr ggml_type kTypes[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0};
  const auto width = [](ggml_type type) {
    return type == GGML_TYPE_Q8_0 ? 32 * random_size(1, 4) : kWidths[random_size(0, std::size(kWidths) - 1)];
  };
  Shape s{};
  s.type = kTypes[random_size(0, 3)];
  s.key_width = width(s.type);
  s.value_width = width(s.type);
  s.queries = random_size(0, 2) == 0 ? 1 : random_size(1, 40);
  s.keys = s.queries + (random_size(0, 2) == 0 ? random_size(0, 300) : random_size(0, 20));
  s.key_heads = random_size(1, 3);
  s.query_heads = s.key_heads * random_size(1, 5);
  s.batch = random_size(1, 2);
  s.mask = static_cast<Mask>(random_size(0, 2));
  s.permuted = random_size(0, 1) != 0;
  s.scale = (random_size(0, 3) == 0 ? -1.0f : 1.0f) / std::sqrt(static_cast<float>(s.key_width));
  s.softcap = random_size(0, 3) == 0 ? 2.0f : 0.0f;
  s.rounds = s.type == GGML_TYPE_F32 && random_size(0, 1) == 0;
  return s;
}

void check_random_shapes(int count) {
  for (int i = 0; i < count; ++i) {
    const Shape shape = random_shape();
    if (!testing::is_sampled()) continue;
    Case test(shape);
    for (int threads : {1, 3}) {
      test.run(threads);
      test.compare();
    }
    test.run(1);
    test.check_rounded_result();
  }
}

// A row of zeros but for its first number.
void put(Rows& rows, int64_t row, float first) {
  float* values = rows.values.data() + rows.index(row, 0, 0);
  std::fill_n(values, rows.t.ne[0], 0.0f);
  *values = first;
  rows.put_row(row, 0, 0);
}

// A weight is rounded to bf16 where it multiplies a value, and not in the sum of the weights.
void check_rounded_weights(ggml_type type, int64_t queries) {
  Case test({16, 16, queries, 2, 1, 1, 1, type, Mask::None, false, 1.0f, 0.0f, type == GGML_TYPE_F32});
  constexpr float kScores[] = {0.0f, -0.1015625f};
  const float weight = std::exp(kScores[1]);
  const float rounded = ggml_bf16_to_fp32(ggml_fp32_to_bf16(weight));
  for (int64_t row = 0; row < queries; ++row) put(test.q, row, 1.0f);
  for (int64_t key = 0; key < 2; ++key) {
    put(test.k, key, kScores[key]);
    put(test.v, key, static_cast<float>(key));
  }
  test.run(1);
  const float got = test.out[kGuard];
  const float want = rounded / (1.0f + weight);
  if (!(std::fabs(got - want) < 1e-5f)) test.fail("a weight of " + std::to_string(got * (1.0f + weight)));
}

// Scores that rise from block to block by a little, by much, and by so much that weights relative to those before would
// be infinite; then they fall.
void check_rising_scores(int64_t queries, Mask mask) {
  static constexpr float kLevels[] = {0.0f, 4.0f, 3.0f, 20.0f, 110.0f, 100.0f, 0.0f};
  constexpr int64_t kKeysOfLevel = 128;
  Case test({32, 32, queries, kKeysOfLevel * static_cast<int64_t>(std::size(kLevels)), 1, 1, 1, GGML_TYPE_F32, mask,
             false, 1.0f, 0.0f});
  for (int64_t row = 0; row < queries; ++row) put(test.q, row, row % 3 == 2 ? -1.0f : 1.0f);
  for (int64_t key = 0; key < test.shape.keys; ++key) {
    put(test.k, key, kLevels[key / kKeysOfLevel] + static_cast<float>(key % 8) / 8.0f);
  }
  test.run(1);
  test.compare();
}

// NaN, and scores that are infinite, come out as torch has them; masked keys add nothing.
void check_special_values(ggml_type type, int64_t queries) {
  Case test({32, 32, queries, 150, 1, 1, 1, type, Mask::Rows, false, 1.0f, 0.0f});
  std::fill(test.mask.begin(), test.mask.end(), static_cast<uint16_t>(0));
  const auto first = [&] { return test.out[static_cast<size_t>(kGuard)]; };
  for (const float value : {std::nanf(""), kInf}) {
    const ggml_bf16_t half = ggml_fp32_to_bf16(value);
    if (type == GGML_TYPE_BF16) {
      std::memcpy(test.k.at(140, 0, 0), &half, sizeof(half));
    } else {
      std::memcpy(test.k.at(140, 0, 0), &value, sizeof(value));
    }
    reinterpret_cast<float*>(test.q.at(0, 0, 0))[0] = 1.0f;
    test.run(1);
    if (!std::isnan(first())) test.fail("a score of NaN or infinity is lost");
    for (int64_t row = 0; row < queries; ++row) test.mask[static_cast<size_t>(row * 150 + 140)] = 0xfc00;
    test.run(1);
    if (std::isnan(value) && !std::isnan(first())) test.fail("a mask hides NaN, but it is added to it");
    std::fill(test.mask.begin(), test.mask.end(), static_cast<uint16_t>(0));
  }
}

// ------------------------------------------------------------------------------------------------------------- speed

// Of all shapes, or of one.
void bench(int only) {
  const Shape shapes[] = {
      {128, 128, 1, 256, 16, 8, 1, GGML_TYPE_F16, Mask::Rows, true, 0.1f, 0.0f},
      {128, 128, 1, 2048, 16, 8, 1, GGML_TYPE_F16, Mask::Rows, true, 0.1f, 0.0f},
      {128, 128, 1, 2048, 16, 8, 1, GGML_TYPE_F16, Mask::Rows, false, 0.1f, 0.0f},
      {128, 128, 1, 2048, 16, 8, 1, GGML_TYPE_Q8_0, Mask::Rows, true, 0.1f, 0.0f},
      {64, 64, 1, 2048, 32, 8, 1, GGML_TYPE_F16, Mask::Rows, true, 0.1f, 0.0f},
      {128, 128, 1, 2048, 64, 8, 1, GGML_TYPE_F16, Mask::Rows, false, 0.1f, 0.0f},
      {128, 128, 3, 512, 16, 8, 1, GGML_TYPE_F16, Mask::Rows, true, 0.1f, 0.0f},
      {128, 128, 5, 512, 16, 8, 1, GGML_TYPE_F16, Mask::Rows, true, 0.1f, 0.0f},
      {128, 128, 2, 512, 64, 8, 1, GGML_TYPE_F16, Mask::Rows, true, 0.1f, 0.0f},
      {128, 128, 3, 512, 64, 8, 1, GGML_TYPE_F16, Mask::Rows, true, 0.1f, 0.0f},
      {128, 128, 32, 256, 16, 8, 1, GGML_TYPE_F16, Mask::Rows, true, 0.1f, 0.0f},
      {128, 128, 512, 512, 16, 8, 1, GGML_TYPE_F16, Mask::Rows, true, 0.1f, 0.0f},
      {64, 64, 512, 512, 32, 8, 1, GGML_TYPE_F16, Mask::Rows, true, 0.1f, 0.0f},
      {64, 64, 197, 197, 12, 12, 1, GGML_TYPE_F32, Mask::None, true, 0.1f, 0.0f},
      {32, 32, 128, 128, 12, 12, 1, GGML_TYPE_F32, Mask::None, true, 0.1f, 0.0f},
      {64, 64, 197, 197, 12, 12, 1, GGML_TYPE_BF16, Mask::None, true, 0.1f, 0.0f},
      {32, 32, 128, 128, 12, 12, 1, GGML_TYPE_BF16, Mask::None, true, 0.1f, 0.0f},
      {64, 64, 197, 197, 12, 12, 1, GGML_TYPE_F32, Mask::None, true, 0.1f, 0.0f, true},
      {32, 32, 128, 128, 12, 12, 1, GGML_TYPE_F32, Mask::None, true, 0.1f, 0.0f, true},
  };
  for (const Shape& shape : shapes) {
    if (only >= 0 && &shape != shapes + only) continue;
    Case test(shape);
    const double ours = seconds_of([&] { test.run(1); });
    const double theirs = ggml_seconds(
        [&](ggml_context* ctx) {
          return ggml_flash_attn_ext(ctx, &test.q.t, &test.k.t, &test.v.t, test.dst.src[3], shape.scale, 0.0f,
                                     shape.softcap);
        },
        test.dst.data);
    std::printf("%8.3f ms, ggml %8.3f ms, %5.2fx  %s\n", ours * 1e3, theirs * 1e3, theirs / ours, shape.text().c_str());
  }
}

}  // namespace
}  // namespace executorch_ggml

int main(int argc, char** argv) {
  using namespace executorch_ggml;
  if (argc > 1 && std::strcmp(argv[1], "--bench") == 0) {
    bench(argc > 2 ? std::atoi(argv[2]) : -1);
    return 0;
  }
  for (const kernels::Isa isa : testing::variants_of_cpu()) {
    kernels::limit_isa(isa);
    check_random_shapes(80);
    for (const Mask mask : {Mask::None, Mask::Rows, Mask::OneRow}) {
      for (const int64_t queries : {1, 20}) check_rising_scores(queries, mask);
    }
    for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_BF16}) {
      for (const int64_t queries : {1, 20}) check_special_values(type, queries);
      for (const int64_t queries : {1, 20}) check_rounded_weights(type, queries);
    }
  }
  std::printf(failures == 0 ? "attention: all as expected\n" : "attention: %d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
