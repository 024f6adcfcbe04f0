// Test cases, kernel calls and naive reference implementations of convolution.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/convolution/chain.h"
#include "kernels/convolution/convolution.h"
#include "kernels/convolution/winograd.h"
#include "kernels/kernels.h"
#include "kernels/simd/isa.h"

namespace executorch_ggml {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int64_t kBlock = 16;
constexpr int64_t kGuard = 64;  // floats on either side of a result that must stay untouched
constexpr float kUntouched = -12345.5f;

std::mt19937 random_bits(7);
int failures = 0;
int checks = 0;

std::vector<float> random_floats(int64_t n, float scale = 1.0f) {
  std::uniform_real_distribution<float> draw(-scale, scale);
  std::vector<float> v(static_cast<size_t>(n));
  std::generate(v.begin(), v.end(), [&] { return draw(random_bits); });
  return v;
}

ggml_tensor tensor_of(float* data, std::array<int64_t, 4> ne) {
  ggml_tensor t = {};
  t.type = GGML_TYPE_F32;
  t.data = data;
  t.nb[0] = sizeof(float);
  for (int i = 0; i < 4; ++i) {
    t.ne[i] = ne[static_cast<size_t>(i)];
    if (i > 0) {
      t.nb[i] = t.nb[i - 1] * static_cast<size_t>(t.ne[i - 1]);
    }
  }
  return t;
}

int64_t count(const std::array<int64_t, 4>& ne) { return ne[0] * ne[1] * ne[2] * ne[3]; }

// A convolution as the tests describe it: what its kernel is given, and its result's dims.
struct ConvParams : kernels::ConvolutionParams {
  std::array<int64_t, 4> ne{};
};

// What a kernel is given of a test's parameters.
template <class Params>
struct KernelParams {
  using Type = Params;
};
template <>
struct KernelParams<ConvParams> {
  using Type = kernels::ConvolutionParams;
};

struct ChainConv : kernels::ChainParams {
  std::array<int64_t, 4> ne{};
};
template <>
struct KernelParams<ChainConv> {
  using Type = kernels::ChainParams;
};

struct WinogradConv : kernels::WinogradParams {
  std::array<int64_t, 4> ne{};
};
template <>
struct KernelParams<WinogradConv> {
  using Type = kernels::WinogradParams;
};

// A kernel's call with its tensors; the result lies between guards.
template <class Params>
struct Call {
  using Given = typename KernelParams<Params>::Type;
  std::vector<float> x, weight, bias, y;
  ggml_tensor tx, tw, tb, ty;
  KernelCall<Given> call;
  Kernel kernel;

  Call(Kernel run, const Params& params, std::array<int64_t, 4> x_ne, std::vector<float> x_data,
       std::vector<float> weight_data, std::vector<float> bias_data)
      : x(std::move(x_data)), weight(std::move(weight_data)), bias(std::move(bias_data)), kernel(run) {
    y.assign(static_cast<size_t>(count(params.ne) + 2 * kGuard), kUntouched);
    call.params = params;
    tx = tensor_of(x.data(), x_ne);
    tw = tensor_of(weight.data(), {static_cast<int64_t>(weight.size()), 1, 1, 1});
    tb = tensor_of(bias.data(), {static_cast<int64_t>(bias.size()), 1, 1, 1});
    ty = tensor_of(y.data() + kGuard, params.ne);
    ty.src[0] = &tx;
    ty.src[1] = weight.empty() ? nullptr : &tw;
    ty.src[2] = bias.empty() ? nullptr : &tb;
  }
  Call(const Call&) = delete;

  // The threads' shares one after the other: they must not depend on each other.
  std::vector<float> run(int threads) {
    std::fill(y.begin(), y.end(), kUntouched);
    for (int i = threads - 1; i >= 0; --i) {
      kernel(&ty, i, threads, &call);
    }
    return {y.begin() + kGuard, y.end() - kGuard};
  }
  bool guards_touched() const {
    const auto other = [](float v) { return v != kUntouched; };
    return std::any_of(y.begin(), y.begin() + kGuard, other) || std::any_of(y.end() - kGuard, y.end(), other);
  }
};

// A reference result, and the sum of its terms' sizes, which bounds what rounding may do.
struct Expected {
  std::vector<double> value;
  std::vector<double> size;
};

bool close(float got, double want, double size) {
  if (std::isnan(want)) {
    return std::isnan(got);
  }
  if (std::isinf(want)) {
    return static_cast<double>(got) == want;
  }
  return std::fabs(static_cast<double>(got) - want) <= 1e-6 * (size + std::fabs(want)) + 1e-30;
}

template <class Params>
void check(Call<Params>& call, const Expected& expected, const std::string& what) {
  for (int isa = 0; isa <= static_cast<int>(kernels::best_isa()); ++isa) {
    kernels::limit_isa(static_cast<kernels::Isa>(isa));
    for (int threads : {1, 2, 3, 8}) {
      ++checks;
      const std::vector<float> got = call.run(threads);
      size_t wrong = 0;
      size_t first = 0;
      for (size_t i = got.size(); i-- > 0;) {
        if (!close(got[i], expected.value[i], expected.size[i])) {
          ++wrong;
          first = i;
        }
      }
      if (wrong > 0 || call.guards_touched()) {
        ++failures;
        std::printf("FAILED %s, isa %d, %d threads: %zu of %zu wrong, %s", what.c_str(), isa, threads, wrong,
                    got.size(), call.guards_touched() ? "written out of bounds\n" : "");
        if (wrong > 0) {
          std::printf("at %zu got %.9g want %.9g\n", first, static_cast<double>(got[first]), expected.value[first]);
        }
      }
    }
  }
  kernels::limit_isa(kernels::best_isa());
}

double activate(double x, Activation activation, double low, double high) {
  switch (activation) {
    case Activation::None:
      return x;
    case Activation::Clamp:
      return std::isnan(x) ? x : std::min(std::max(x, low), high);
    case Activation::Silu:
      return x / (1.0 + std::exp(-x));
    case Activation::Hardswish:
      return x * std::min(std::max(x + 3.0, 0.0), 6.0) / 6.0;
    case Activation::GeluErf:
      return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
  }
  return x;
}

// weight (OC, IC / groups, KH, KW) as conv_2d reads it.
inline std::vector<float> pack(const std::vector<float>& weight, int64_t oc, int64_t ic, int64_t kh, int64_t kw,
                               int64_t groups) {
  const int64_t group = oc / groups;
  const int64_t blocks = (group + kBlock - 1) / kBlock;
  std::vector<float> packed(static_cast<size_t>(groups * blocks * kh * kw * ic * kBlock + ic), 0.0f);
  for (int64_t o = 0; o < oc; ++o) {
    const int64_t block = o / group * blocks + o % group / kBlock;
    for (int64_t i = 0; i < ic; ++i) {
      for (int64_t k = 0; k < kh * kw; ++k) {
        const int64_t at = ((block * kh * kw + k) * ic + i) * kBlock + o % group % kBlock;
        packed[static_cast<size_t>(at)] = weight[static_cast<size_t>((o * ic + i) * kh * kw + k)];
      }
    }
  }
  return packed;
}

struct ConvCase {
  std::array<int64_t, 4> x;  // IC, W, H, N
  int64_t oc;
  int64_t kernel = 1, stride = 1, pad = 0, dilation = 1, up = 1, groups = 1;
  Activation activation = Activation::None;
  bool bias = true;
  int64_t kernel_h = 0, stride_h = 0, pad_h = -1000, dilation_h = 0, up_h = 0;  // like the width's, unless given
  int64_t extra = 0;  // more (or fewer) output pixels than the padding on both sides gives
  float act_min = -0.4f, act_max = 0.6f;

  static int64_t out(int64_t in, const Window& w) {
    return ((in - 1) * w.up + 1 + 2 * w.pad - w.dilation * (w.kernel - 1) - 1) / w.stride + 1;
  }
  ConvParams params() const {
    ConvParams p = {};
    p.window.w = {kernel, stride, pad, dilation, up};
    p.window.h = {kernel_h > 0 ? kernel_h : kernel, stride_h > 0 ? stride_h : stride, pad_h > -1000 ? pad_h : pad,
                  dilation_h > 0 ? dilation_h : dilation, up_h > 0 ? up_h : up};
    p.groups = groups;
    p.weights = Storage::KernelBlocks;
    p.epilogue = {activation, act_min, act_max};
    p.ne = {oc, out(x[1], p.window.w) + extra, out(x[2], p.window.h) + extra, x[3]};
    return p;
  }
  std::string name() const {
    char text[256];
    const ConvParams p = params();
    std::snprintf(
        text, sizeof(text),
        "x %d,%d,%d,%d oc %d kernel %dx%d stride %dx%d pad %dx%d dilation %dx%d up %dx%d groups %d act %d extra %d",
        int(x[0]), int(x[1]), int(x[2]), int(x[3]), int(oc), int(p.window.w.kernel), int(p.window.h.kernel),
        int(p.window.w.stride), int(p.window.h.stride), int(p.window.w.pad), int(p.window.h.pad),
        int(p.window.w.dilation), int(p.window.h.dilation), int(p.window.w.up), int(p.window.h.up), int(groups),
        int(activation), int(extra));
    return text;
  }
};

// The input pixel that a tap meets, or -1.
int64_t meet(int64_t o, int64_t k, const Window& w, int64_t size) {
  const int64_t at = o * w.stride - w.pad + k * w.dilation;
  return at < 0 || at % w.up != 0 || at / w.up >= size ? -1 : at / w.up;
}

inline Expected convolve(const ConvParams& p, const std::array<int64_t, 4>& ne, const std::vector<float>& x,
                         const std::vector<float>& weight, const std::vector<float>& bias) {
  Expected result;
  const int64_t ic = ne[0] / p.groups;
  const int64_t group = p.ne[0] / p.groups;
  for (int64_t at = 0; at < count(p.ne); ++at) {
    const int64_t o = at % p.ne[0];
    const int64_t ox = at / p.ne[0] % p.ne[1];
    const int64_t oy = at / p.ne[0] / p.ne[1] % p.ne[2];
    const int64_t n = at / p.ne[0] / p.ne[1] / p.ne[2];
    double sum = bias.empty() ? 0.0 : static_cast<double>(bias[static_cast<size_t>(o)]);
    double size = std::fabs(sum);
    for (int64_t ky = 0; ky < p.window.h.kernel; ++ky) {
      for (int64_t kx = 0; kx < p.window.w.kernel; ++kx) {
        const int64_t iy = meet(oy, ky, p.window.h, ne[2]);
        const int64_t ix = meet(ox, kx, p.window.w, ne[1]);
        if (iy < 0 || ix < 0) {
          continue;
        }
        for (int64_t i = 0; i < ic; ++i) {
          const int64_t from = ((n * ne[2] + iy) * ne[1] + ix) * ne[0] + o / group * ic + i;
          const int64_t tap = ((o * ic + i) * p.window.h.kernel + ky) * p.window.w.kernel + kx;
          const double term =
              static_cast<double>(x[static_cast<size_t>(from)]) * static_cast<double>(weight[static_cast<size_t>(tap)]);
          sum += term;
          size += std::fabs(term);
        }
      }
    }
    const auto low = static_cast<double>(p.epilogue.low);
    const auto high = static_cast<double>(p.epilogue.high);
    result.value.push_back(activate(sum, p.epilogue.activation, low, high));
    result.size.push_back(p.epilogue.activation == Activation::None && std::isnan(sum) ? 0.0 : size);
  }
  return result;
}

// Numbers of a half type in the memory of floats, two in each.
inline std::vector<float> as_halves(DType type, const std::vector<float>& x) {
  std::vector<float> memory((x.size() + 1) / 2);
  const auto n = static_cast<int64_t>(x.size());
  if (type == DType::F16) {
    ggml_fp32_to_fp16_row(x.data(), reinterpret_cast<ggml_fp16_t*>(memory.data()), n);
  } else {
    ggml_fp32_to_bf16_row_ref(x.data(), reinterpret_cast<ggml_bf16_t*>(memory.data()), n);
  }
  return memory;
}

// The same, as floats.
inline std::vector<float> rounded_to(DType type, const std::vector<float>& x) {
  std::vector<float> rounded(x.size());
  const std::vector<float> memory = as_halves(type, x);
  const auto n = static_cast<int64_t>(x.size());
  if (type == DType::F16) {
    ggml_fp16_to_fp32_row(reinterpret_cast<const ggml_fp16_t*>(memory.data()), rounded.data(), n);
  } else {
    ggml_bf16_to_fp32_row(reinterpret_cast<const ggml_bf16_t*>(memory.data()), rounded.data(), n);
  }
  return rounded;
}

inline std::vector<float> as_bfloats(const std::vector<float>& x) { return as_halves(DType::Bf16, x); }

inline std::vector<float> rounded_to_bfloats(const std::vector<float>& x) { return rounded_to(DType::Bf16, x); }

// Blocks of so many rows with these in pairs, the last one beside zeros where their number is odd. Zeros for a pixel of
// padding follow.
inline std::vector<float> in_pairs(const std::vector<float>& blocks, int64_t rows, int64_t channels) {
  const int64_t stored = rows + rows % 2;
  const int64_t count_of_blocks = static_cast<int64_t>(blocks.size()) / (rows * kBlock);
  std::vector<float> pairs(static_cast<size_t>(count_of_blocks * stored * kBlock + channels));
  for (int64_t i = 0; i < count_of_blocks * rows * kBlock; ++i) {
    const int64_t block = i / (rows * kBlock);
    const int64_t k = i / kBlock % rows;
    pairs[static_cast<size_t>(block * stored * kBlock + k / 2 * 2 * kBlock + i % kBlock * 2 + k % 2)] =
        blocks[static_cast<size_t>(i)];
  }
  return pairs;
}

}  // namespace
}  // namespace executorch_ggml
