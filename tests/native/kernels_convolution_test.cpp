// conv_2d, winograd_conv_2d, conv_2d_chain and conv_2d_dw against loops as plain as can be, on every instruction set
// that this CPU has. With --bench: their speed on layers of well-known networks.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/convolution/chain.h"
#include "kernels/convolution/conv_2d.h"
#include "kernels/convolution/convolution.h"
#include "kernels/convolution/winograd.h"
#include "kernels/kernels.h"
#include "kernels/simd/isa.h"

#include "convolution_cases.h"
#include "instruction_sets.h"
#include "kernel_timing.h"

namespace executorch_ggml {
namespace {

using testing::is_sampled;

void test_conv(const ConvCase& c) {
  if (!is_sampled()) return;
  ConvParams p = c.params();
  const int64_t ic = c.x[0] / c.groups;
  const std::vector<float> x = random_floats(count(c.x), 2.0f);
  const std::vector<float> weight = random_floats(c.oc * ic * p.window.h.kernel * p.window.w.kernel);
  const std::vector<float> bias = random_floats(c.bias ? c.oc : 0);
  const Expected expected = convolve(p, c.x, x, weight, bias);
  Call<ConvParams> call(kernels::conv_2d, p, c.x, x,
                        pack(weight, c.oc, ic, p.window.h.kernel, p.window.w.kernel, c.groups), bias);
  check(call, expected, "conv_2d " + c.name());
  p.weights = Storage::Plain;
  Call<ConvParams> plain(kernels::conv_2d, p, c.x, x, weight, bias);
  check(plain, expected, "conv_2d, plain weights, " + c.name());
}

// Of an image of bf16, and of floats that the kernel rounds, which may have an odd number of channels.
void test_bfloat_conv(const ConvCase& c, float special = 0.0f) {
  if (!is_sampled()) return;
  if (kernels::bfloat_conv_tiles() == nullptr) return;
  const ConvParams p = c.params();
  const int64_t ic = c.x[0] / c.groups;
  std::vector<float> x = random_floats(count(c.x), 2.0f);
  for (size_t i = 3; special != 0.0f && i < x.size(); i += 37) x[i] = special;
  const std::vector<float> rounded = rounded_to_bfloats(x);
  const auto weight = rounded_to_bfloats(random_floats(c.oc * ic * p.window.h.kernel * p.window.w.kernel));
  const std::vector<float> bias = random_floats(c.bias ? c.oc : 0);
  const Expected expected = convolve(p, c.x, rounded, weight, bias);
  const std::vector<float> packed = pack(weight, c.oc, ic, p.window.h.kernel, p.window.w.kernel, c.groups);
  const auto blocks = in_pairs(packed, ic * p.window.h.kernel * p.window.w.kernel, ic);
  Call<ConvParams> rounding(kernels::conv_2d_bfloats, p, c.x, x, as_bfloats(blocks), bias);
  check(rounding, expected, "conv_2d_bfloats of floats, " + c.name());
  if (ic % 2 != 0) return;
  Call<ConvParams> call(kernels::conv_2d_bfloats, p, c.x, as_bfloats(x), as_bfloats(blocks), bias);
  call.tx.type = GGML_TYPE_BF16;
  check(call, expected, "conv_2d_bfloats " + c.name());
}

// A convolution by Winograd's algorithm, with the weights that it needs.
struct WinogradCall {
  ConvParams p;
  std::vector<float> blocks;
  std::vector<float> transformed;

  WinogradCall(const ConvCase& c, const std::vector<float>& weight)
      : p(c.params()), blocks(pack(weight, c.oc, c.x[0], 3, 3, 1)) {
    const ggml_tensor tensor = tensor_of(blocks.data(), {3, 3, c.x[0], c.oc});
    transformed.resize(static_cast<size_t>(kernels::winograd_floats(&tensor)));
    kernels::transform_weights(&tensor, transformed.data());
  }

  WinogradConv params() const {
    WinogradConv params;
    params.convolution = p;
    params.weights = transformed.data();
    params.ne = p.ne;
    return params;
  }
};

// Errors of a tile are relative to its largest input: that is each result's size here.
void widen_to_tiles(const ConvCase& c, const ConvParams& p, const std::vector<float>& x,
                    const std::vector<float>& weight, Expected* expected) {
  const auto magnitude = [](double a, float b) { return std::max(a, static_cast<double>(std::fabs(b))); };
  for (int64_t at = 0; at < count(p.ne); ++at) {
    const int64_t o = at % p.ne[0];
    const int64_t left = at / p.ne[0] % p.ne[1] / 4 * 4 - p.window.w.pad;
    const int64_t top = at / p.ne[0] / p.ne[1] % p.ne[2] / 4 * 4 - p.window.h.pad;
    const int64_t image = at / p.ne[0] / p.ne[1] / p.ne[2];
    double largest = 0.0;
    for (int64_t y = std::max<int64_t>(top, 0); y < std::min(top + 6, c.x[2]); ++y) {
      for (int64_t i = std::max<int64_t>(left, 0) * c.x[0]; i < std::min(left + 6, c.x[1]) * c.x[0]; ++i) {
        largest = magnitude(largest, x[static_cast<size_t>((image * c.x[2] + y) * c.x[1] * c.x[0] + i)]);
      }
    }
    double sum = 0.0;
    for (int64_t i = 0; i < 9 * c.x[0]; ++i) sum += std::fabs(weight[static_cast<size_t>(o * 9 * c.x[0] + i)]);
    double& size = expected->size[static_cast<size_t>(at)];
    if (std::isfinite(largest)) size = std::max(size, largest * sum);
  }
}

void test_winograd(const ConvCase& c, std::vector<float> x = {}) {
  if (!is_sampled()) return;
  if (x.empty()) x = random_floats(count(c.x), 2.0f);
  const std::vector<float> weight = random_floats(c.oc * c.x[0] * 9);
  const std::vector<float> bias = random_floats(c.bias ? c.oc : 0);
  const WinogradCall winograd(c, weight);
  Expected expected = convolve(winograd.p, c.x, x, weight, bias);
  widen_to_tiles(c, winograd.p, x, weight, &expected);
  Call<WinogradConv> call(kernels::winograd_conv_2d, winograd.params(), c.x, x, winograd.blocks, bias);
  check(call, expected, "winograd_conv_2d " + c.name());
}

// The same with weights of bf16, of an image that is rounded to it.
void test_rounding_winograd(const ConvCase& c, float special = 0.0f) {
  if (!is_sampled()) return;
  if (kernels::bfloat_conv_tiles() == nullptr) return;
  std::vector<float> x = random_floats(count(c.x), 2.0f);
  for (size_t i = 3; special != 0.0f && i < x.size(); i += 997) x[i] = special;
  const std::vector<float> rounded = rounded_to_bfloats(x);
  const std::vector<float> weight = rounded_to_bfloats(random_floats(c.oc * c.x[0] * 9));
  const std::vector<float> bias = random_floats(c.bias ? c.oc : 0);
  const WinogradCall winograd(c, weight);
  WinogradConv params = winograd.params();
  params.rounds = true;
  Expected expected = convolve(winograd.p, c.x, rounded, weight, bias);
  widen_to_tiles(c, winograd.p, rounded, weight, &expected);
  const auto blocks = as_bfloats(in_pairs(winograd.blocks, 9 * c.x[0], c.x[0]));
  Call<WinogradConv> call(kernels::winograd_conv_2d, params, c.x, x, blocks, bias);
  check(call, expected, "winograd_conv_2d of bf16 " + c.name());
}

// The same convolution with its weights as the depthwise kernel reads them in place.
ConvParams depthwise(ConvParams p) {
  p.weights = Storage::Depthwise;
  return p;
}

ConvParams one_pixel(const std::array<int64_t, 4>& ne, const Epilogue& epilogue) {
  ConvParams p;
  p.ne = ne;
  p.groups = ne[0];
  p.epilogue = epilogue;
  p.weights = Storage::Depthwise;
  return p;
}

// A depthwise convolution is one of as many groups as channels.
void test_depthwise(ConvCase c) {
  if (!is_sampled()) return;
  c.oc = c.groups = c.x[0];
  const ConvParams p = c.params();
  const std::vector<float> x = random_floats(count(c.x), 2.0f);
  const std::vector<float> weight = random_floats(c.oc * p.window.h.kernel * p.window.w.kernel);
  const std::vector<float> bias = random_floats(c.bias ? c.oc : 0);
  std::vector<float> turned(weight.size());
  for (size_t i = 0; i < weight.size(); ++i) {
    const size_t taps = static_cast<size_t>(p.window.h.kernel * p.window.w.kernel);
    turned[i % taps * static_cast<size_t>(c.oc) + i / taps] = weight[i];
  }
  ConvParams dw = depthwise(p);
  const Expected expected = convolve(p, c.x, x, weight, bias);
  Call<ConvParams> call(kernels::conv_2d_dw, dw, c.x, x, turned, bias);
  check(call, expected, "conv_2d_dw " + c.name());
  dw.weights = Storage::Plain;
  Call<ConvParams> plain(kernels::conv_2d_dw, dw, c.x, x, weight, bias);
  check(plain, expected, "conv_2d_dw, plain weights, " + c.name());
}

ConvCase with(ConvCase c, const std::function<void(ConvCase&)>& change) {
  change(c);
  return c;
}

void test_convs() {
  const Activation all[] = {Activation::None, Activation::Clamp, Activation::Silu, Activation::Hardswish,
                            Activation::GeluErf};
  for (int64_t oc : {1, 3, 4, 5, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 63, 80}) {
    for (int64_t ic : {1, 2, 3, 7, 16, 33}) {
      test_conv({{ic, 7, 7, 1}, oc, 1});
      test_conv({{ic, 5, 6, 2}, oc, 3, 1, 1});
    }
  }
  for (int64_t pixels = 1; pixels <= 40; ++pixels) {
    test_conv({{37, pixels, 1, 1}, 40, 1});
    test_conv({{37, pixels, 1, 1}, 10, 1});
  }
  for (Activation a : all) {
    test_conv({{8, 5, 5, 1}, 37, 3, 1, 1, 1, 1, 1, a});
    test_conv({{8, 5, 5, 1}, 6, 3, 1, 1, 1, 1, 2, a, false});
    test_depthwise({{37, 6, 5, 1}, 0, 3, 1, 1, 1, 1, 1, a});
    test_depthwise({{37, 7, 5, 1}, 0, 2, 1, 1, 1, 1, 1, a});
  }
  for (int64_t kernel : {1, 2, 3, 4, 5, 7}) {
    for (int64_t stride : {1, 2, 3}) {
      for (int64_t pad : {0, 1, 3}) {
        test_conv({{3, 15, 13, 1}, 20, kernel, stride, pad});
        test_conv({{6, 15, 13, 2}, 10, kernel, stride, pad, 2, 1, 2});
        for (int64_t channels : {1, 5, 16, 35, 64}) {
          test_depthwise({{channels, 15, 14, 2}, 0, kernel, stride, pad});
        }
        test_depthwise({{19, 16, 15, 1}, 0, kernel, stride, pad, 2});
        for (int64_t up : {2, 3}) {
          test_conv({{5, 6, 7, 2}, 18, kernel, stride, pad > 0 ? kernel - 1 : 0, 1, up});
          test_conv({{4, 6, 7, 1}, 18, kernel, stride, kernel - 1, 2, up, 2});
        }
      }
    }
  }
  for (int64_t groups : {2, 3, 4, 32}) {
    for (int64_t each : {1, 3, 8, 20}) {
      test_conv({{groups * 4, 6, 6, 1}, groups * each, 3, 1, 1, 1, 1, groups});
    }
  }
  // Sizes that differ by axis; windows that reach far out of the image, or leave some of it; negative padding.
  const ConvCase odd = {{9, 11, 8, 1}, 19, 5, 2, 1, 1, 1, 1, Activation::None, true, 2, 1, 3, 2, 1};
  test_conv(odd);
  test_conv(with(odd, [](ConvCase& c) { c.up_h = 3, c.pad = 9, c.extra = 2; }));
  test_conv(with(odd, [](ConvCase& c) { c.up = 4, c.stride = 6, c.pad_h = 0; }));
  test_conv(with(odd, [](ConvCase& c) { c.extra = 9; }));
  test_conv(with(odd, [](ConvCase& c) { c.pad = -2, c.pad_h = -1; }));
  for (int64_t extra : {-2, 3, 7}) {
    test_depthwise(with(odd, [=](ConvCase& c) { c.extra = extra; }));
    test_depthwise({{9, 3, 3, 1}, 0, 3, 1, 2, 1, 1, 1, Activation::Clamp, true, 0, 0, -1000, 0, 0, extra});
  }
  test_conv({{300, 2, 1, 1}, 500, 1});    // several passes over the pixels
  test_conv({{1030, 13, 1, 1}, 100, 1});  // a block of weights and more
  test_conv({{1024, 41, 1, 1}, 270, 1});  // pixels whose distance suits no cache
  test_conv({{1024, 5, 4, 2}, 150, 1});
}

void test_winograds() {
  for (int64_t channels : {1, 3, 7, 16, 20, 33, 64}) {
    test_winograd({{channels, 9, 10, 2}, 65 - channels, 3, 1, 1});
    test_winograd({{channels, 6, 6, 1}, channels, 3, 1, 0});
  }
  for (int64_t size = 1; size <= 13; ++size) test_winograd({{17, size, 14 - size, 1}, 24, 3, 1, 1});
  for (Activation a : {Activation::Clamp, Activation::Silu, Activation::Hardswish, Activation::GeluErf}) {
    test_winograd({{12, 11, 7, 1}, 37, 3, 1, 1, 1, 1, 1, a, a == Activation::Silu});
  }
  for (int64_t extra : {-2, 1, 7}) {
    ConvCase c = {{9, 11, 8, 2}, 19, 3, 1, 2};
    c.extra = extra;
    test_winograd(c);
    c.pad_h = -1;
    test_winograd(c);
  }
  test_winograd({{130, 30, 30, 1}, 140, 3, 1, 1});  // several groups of tiles
  // What is not finite, or becomes so on the way, reaches the windows that it is under and no other.
  for (float odd_value : {NAN, kInf, -kInf, 3e38f}) {
    const ConvCase c = {{20, 13, 9, 1}, 33, 3, 1, 1};
    std::vector<float> x = random_floats(count(c.x), 2.0f);
    x[20 * 45 + 7] = odd_value;
    test_winograd(c, x);
  }
}

// What one layer of a chain is given, and its reference; depthwise where it has as many groups as channels.
struct Link {
  ConvParams p;
  std::vector<float> weight, bias, packed;
  ggml_tensor tw, tb;

  explicit Link(const ConvCase& c) : p(c.params()), weight(random_floats(c.oc * c.x[0] / c.groups * taps())) {
    bias = random_floats(c.bias ? c.oc : 0);
    packed = pack(weight, c.oc, c.x[0] / c.groups, p.window.h.kernel, p.window.w.kernel, c.groups);
    if (depthwise()) {
      p.weights = Storage::Plain;
      packed = weight;
    }
    tw = tensor_of(packed.data(), {static_cast<int64_t>(packed.size()), 1, 1, 1});
    tb = tensor_of(bias.data(), {static_cast<int64_t>(bias.size()), 1, 1, 1});
  }
  Link(const Link&) = delete;

  bool depthwise() const { return p.groups > 1; }
  int64_t taps() const { return p.window.h.kernel * p.window.w.kernel; }

  kernels::ChainedLayer layer() const {
    kernels::ChainedLayer layer;
    layer.kernel = depthwise() ? kernels::conv_2d_dw : kernels::conv_2d;
    layer.call.params = p;
    layer.weight = &tw;
    layer.bias = bias.empty() ? nullptr : &tb;
    layer.ne = p.ne;
    return layer;
  }
};

// Each layer's input is the result of the one before; their `x` but the first are set here.
void test_chain(std::vector<ConvCase> cases) {
  if (!is_sampled()) return;
  const std::vector<float> x = random_floats(count(cases[0].x), 2.0f);
  ChainConv chain;
  std::vector<std::unique_ptr<Link>> links;
  Expected expected;
  std::vector<float> input = x;
  std::string name = "conv_2d_chain";
  for (size_t i = 0; i < cases.size(); ++i) {
    if (i > 0) cases[i].x = chain.layers[i - 1].ne;
    links.push_back(std::make_unique<Link>(cases[i]));
    const Link& link = *links.back();
    expected = convolve(link.p, cases[i].x, input, link.weight, link.bias);
    input.assign(expected.value.begin(), expected.value.end());
    chain.layers[chain.count++] = link.layer();
    chain.ne = link.p.ne;
    name += " " + cases[i].name();
  }
  double largest = 0.0;  // rounding goes through all layers
  for (const double size : expected.size) largest = std::max(largest, size);
  std::fill(expected.size.begin(), expected.size.end(), 4.0 * largest);
  Call<ChainConv> call(kernels::conv_2d_chain, chain, cases[0].x, x, {}, {});
  check(call, expected, name);
}

void test_chains() {
  for (int64_t kernel : {1, 2, 3, 5}) {
    for (int64_t stride : {1, 2, 3}) {
      for (int64_t pad : {0, 1, 4}) {
        const ConvCase wider = {{5, 21, 40, 2}, 19, 1, 1, 0, 1, 1, 1, Activation::Clamp};
        const ConvCase depthwise = {{}, 19, kernel, stride, pad, 1, 1, 19, Activation::Silu};
        const ConvCase narrower = {{}, 7, 1, 1, 0, 1, 1, 1, Activation::None, false};
        test_chain({wider, depthwise});
        test_chain({wider, depthwise, narrower});
      }
    }
  }
  const ConvCase stem = {{3, 30, 90, 1}, 32, 3, 2, 1};
  test_chain({stem, {{}, 32, 3, 1, 1, 1, 1, 32}, {{}, 16, 1}});
  test_chain({stem, {{}, 32, 3, 1, 2, 2, 1, 32}});
  test_chain({{{32, 30, 90, 1}, 32, 3, 1, 1, 1, 1, 32}, {{}, 16, 1}});
  test_chain({{{16, 150, 60, 1}, 96, 1}, {{}, 96, 3, 2, 1, 1, 1, 96}, {{}, 24, 1}});  // several strips
  constexpr int64_t kFar = 1 << 28;  // taps that are all but one outside of the image
  test_chain({{{5, 21, 40, 1}, 19, 1}, {{}, 19, 3, 1, kFar, kFar, 1, 19}});
}

// A RegisterEpilogue in scalar arithmetic, with the same roundings.
float activate_in_float(float x, const Epilogue& epilogue) {
  if (std::isnan(x)) return x;
  if (epilogue.activation == Activation::Clamp) return std::clamp(x, epilogue.low, epilogue.high);
  return x * (std::clamp(x + 3.0f, 0.0f, 6.0f) * (1.0f / 6.0f));
}

// A layer with a fused sum and activation must equal its steps run one by one, bit for bit.
template <class Params>
void check_sum(Call<Params>& call, kernels::ConvolutionParams& params, int addend, const Epilogue& epilogue,
               const std::string& what) {
  std::vector<float> added = random_floats(ggml_nelements(&call.ty));
  if (added.size() > 5) added[5] = NAN;
  ggml_tensor tensor = tensor_of(added.data(), {call.ty.ne[0], call.ty.ne[1], call.ty.ne[2], call.ty.ne[3]});
  for (int isa = 0; isa <= static_cast<int>(kernels::best_isa()); ++isa) {
    kernels::limit_isa(static_cast<kernels::Isa>(isa));
    for (int threads : {1, 2, 3}) {
      ++checks;
      params.epilogue = {};
      params.addend = 0;
      call.ty.src[addend] = nullptr;
      std::vector<float> expected = call.run(threads);
      for (size_t i = 0; i < expected.size(); ++i) {
        expected[i] = activate_in_float(expected[i] + added[i], epilogue);
      }
      params.epilogue = epilogue;
      params.addend = addend;
      call.ty.src[addend] = &tensor;
      const std::vector<float> result = call.run(threads);
      const auto same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
      if (std::equal(result.begin(), result.end(), expected.begin(), same) && !call.guards_touched()) continue;
      ++failures;
      std::printf("%s with a sum: other numbers, isa %d, %d threads\n", what.c_str(), isa, threads);
    }
  }
  kernels::limit_isa(kernels::best_isa());
}

template <class Params>
void check_sum(Call<Params>& call, kernels::ConvolutionParams& params, int addend, const std::string& what) {
  check_sum(call, params, addend, {Activation::Clamp, -0.5f, 6.0f}, what + ", bounded");
  check_sum(call, params, addend, {Activation::Hardswish}, what + ", hardswish");
}

void test_sum_after_convolution(const ConvCase& c) {
  if (!is_sampled()) return;
  const ConvParams p = c.params();
  const int64_t ic = c.x[0] / c.groups;
  const std::vector<float> x = random_floats(count(c.x), 2.0f);
  const std::vector<float> weight =
      rounded_to_bfloats(random_floats(c.oc * ic * p.window.h.kernel * p.window.w.kernel));
  const std::vector<float> bias = random_floats(c.bias ? c.oc : 0);
  const std::vector<float> packed = pack(weight, c.oc, ic, p.window.h.kernel, p.window.w.kernel, c.groups);
  const int addend = c.bias ? 3 : 2;
  Call<ConvParams> call(kernels::conv_2d, p, c.x, x, packed, bias);
  check_sum(call, call.call.params, addend, "conv_2d " + c.name());
  if (kernels::bfloat_conv_tiles() == nullptr) return;
  const auto blocks = in_pairs(packed, ic * p.window.h.kernel * p.window.w.kernel, ic);
  Call<ConvParams> bfloats(kernels::conv_2d_bfloats, p, c.x, x, as_bfloats(blocks), bias);
  check_sum(bfloats, bfloats.call.params, addend, "conv_2d_bfloats " + c.name());
}

// A layer that rounds its result to bf16 must equal its steps run one by one, bit for bit.
void check_rounded_result(Call<ConvParams>& call, const std::string& what) {
  for (int isa = 0; isa <= static_cast<int>(kernels::best_isa()); ++isa) {
    kernels::limit_isa(static_cast<kernels::Isa>(isa));
    for (int threads : {1, 3}) {
      ++checks;
      const std::vector<float> expected = rounded_to_bfloats(call.run(threads));
      call.call.rounds_result = true;
      const std::vector<float> result = call.run(threads);
      call.call.rounds_result = false;
      if (result == expected && !call.guards_touched()) continue;
      ++failures;
      std::printf("%s, rounded: other numbers, isa %d, %d threads\n", what.c_str(), isa, threads);
    }
  }
  kernels::limit_isa(kernels::best_isa());
}

// Weights of a half type in pairs, which layers on floats convert: those of few pixels in registers.
void test_half_weights(const ConvCase& c, DType type) {
  if (!is_sampled()) return;
  const ConvParams p = c.params();
  const int64_t ic = c.x[0] / c.groups;
  const std::vector<float> x = random_floats(count(c.x), 2.0f);
  const auto weight = rounded_to(type, random_floats(c.oc * ic * p.window.h.kernel * p.window.w.kernel));
  const std::vector<float> bias = random_floats(c.bias ? c.oc : 0);
  const std::vector<float> packed = pack(weight, c.oc, ic, p.window.h.kernel, p.window.w.kernel, c.groups);
  const auto blocks = as_halves(type, in_pairs(packed, ic * p.window.h.kernel * p.window.w.kernel, ic));
  Call<ConvParams> call(kernels::conv_2d, p, c.x, x, blocks, bias);
  call.call.src[1] = type;
  const std::string name = std::string("conv_2d, weights in ") + (type == DType::F16 ? "f16, " : "bf16, ") + c.name();
  check(call, convolve(p, c.x, x, weight, bias), name);
  check_rounded_result(call, name);
  check_sum(call, call.call.params, c.bias ? 3 : 2, name);
}

void test_halves() {
  for (const DType type : {DType::F16, DType::Bf16}) {
    for (int64_t pixels = 1; pixels <= 6; ++pixels) {
      for (int64_t length : {1, 2, 3, 4, 5, 33, 64}) {
        for (int64_t oc : {1, 15, 16, 17, 50}) test_half_weights({{length, pixels, 1, 1}, oc, 1}, type);
      }
    }
    for (Activation a : {Activation::Clamp, Activation::Silu, Activation::Hardswish, Activation::GeluErf}) {
      for (const int64_t pixels : {3, 20}) {
        test_half_weights({{37, 1, 1, pixels}, 37, 1, 1, 0, 1, 1, 1, a, a == Activation::Silu}, type);
      }
    }
    test_half_weights({{64, 25, 1, 1}, 50, 1}, type);
    test_half_weights({{1536, 13, 1, 1}, 100, 1}, type);            // several passes
    test_half_weights({{8, 2, 2, 1}, 20, 1, 1, 0, 1, 1, 2}, type);  // groups, steps, padding and windows
    test_half_weights({{8, 3, 3, 1}, 20, 1, 2}, type);
    test_half_weights({{8, 1, 1, 1}, 20, 1, 1, 1}, type);
    test_half_weights({{7, 5, 4, 1}, 20, 3, 1, 1}, type);
  }
}

void test_sum_after_winograd(const ConvCase& c, float special = 0.0f) {
  if (!is_sampled()) return;
  std::vector<float> x = random_floats(count(c.x), 2.0f);
  for (size_t i = 3; special != 0.0f && i < x.size(); i += 997) x[i] = special;
  const WinogradCall winograd(c, random_floats(c.oc * c.x[0] * 9));
  const std::vector<float> bias = random_floats(c.bias ? c.oc : 0);
  Call<WinogradConv> call(kernels::winograd_conv_2d, winograd.params(), c.x, x, winograd.blocks, bias);
  check_sum(call, call.call.params.convolution, c.bias ? 3 : 2, "winograd_conv_2d " + c.name());
}

void test_sum_after_chain() {
  const ConvCase wider = {{5, 21, 40, 2}, 19, 1};
  const Link first(wider);
  const Link second(ConvCase{first.p.ne, 19, 3, 1, 1, 1, 1, 19});
  const Link third(ConvCase{second.p.ne, 7, 1, 1, 0, 1, 1, 1, Activation::None, false});
  ChainConv chain;
  for (const Link* link : {&first, &second, &third}) chain.layers[chain.count++] = link->layer();
  chain.ne = third.p.ne;
  Call<ChainConv> call(kernels::conv_2d_chain, chain, wider.x, random_floats(count(wider.x), 2.0f), {}, {});
  check_sum(call, call.call.params.layers[2].call.params, 1, "conv_2d_chain");
}

void test_sums() {
  for (const int64_t oc : {1, 8, 19, 33, 70}) {
    test_sum_after_convolution({{18, 7, 5, 2}, oc, 1});
    test_sum_after_convolution({{18, 9, 8, 1}, oc, 3, 2, 1, 1, 1, 1, Activation::None, false});
  }
  test_sum_after_convolution({{12, 9, 8, 2}, 18, 3, 1, 1, 1, 1, 3});
  test_sum_after_convolution({{4, 5, 6, 1}, 20, 4, 1, 2, 1, 2});
  test_sum_after_convolution({{1024, 41, 1, 1}, 270, 1});
  for (const bool bias : {true, false}) test_sum_after_winograd({{20, 13, 9, 2}, 33, 3, 1, 1, 1, 1, 1, {}, bias});
  test_sum_after_winograd({{20, 13, 9, 1}, 33, 3, 1, 1}, kInf);
  test_sum_after_chain();
}

void test_bfloats() {
  for (const int64_t channels : {2, 4, 18, 64}) {
    for (const int64_t oc : {1, 8, 15, 16, 24, 33, 70}) {
      test_bfloat_conv({{channels, 7, 5, 2}, oc, 1, 1, 0, 1, 1, 1, Activation::Clamp});
      test_bfloat_conv({{channels, 9, 8, 1}, oc, 3, 2, 1, 1, 1, 1, Activation::Silu});
      test_bfloat_conv({{channels, 9, 8, 1}, oc, 3, 1, 2, 2});
      test_bfloat_conv({{channels, 5, 6, 1}, oc, 4, 1, 2, 1, 2});
    }
  }
  test_bfloat_conv({{12, 9, 8, 2}, 18, 3, 1, 1, 1, 1, 3, Activation::GeluErf, false});
  test_bfloat_conv({{2048, 13, 1, 1}, 200, 1});  // rows that map to the same sets of L1
  test_bfloat_conv({{516, 1, 1, 1}, 130, 1});
  for (const int64_t channels : {6, 35, 1024}) {
    test_bfloat_conv({{channels, 9, 8, 2}, 18, 1, 2});  // steps between the pixels that are read
    test_bfloat_conv({{channels, 7, 8, 2}, 18, 1, 3, 0, 1, 1, 1, Activation::Clamp, true, 0, 2});
  }
  test_bfloat_conv({{6, 9, 8, 2}, 18, 1, 2, 1});
  test_bfloat_conv({{12, 9, 8, 2}, 18, 1, 2, 0, 1, 1, 3});
  test_bfloat_conv({{4, 30, 20, 1}, 20, 7, 2, 3});
  for (const int64_t channels : {16, 19, 64}) {
    test_rounding_winograd({{channels, 13, 18, 2}, 70, 3, 1, 1, 1, 1, 1, Activation::Silu});
    for (const float special : {NAN, kInf, -kInf})
      test_rounding_winograd({{channels, 13, 18, 1}, 24, 3, 1, 1}, special);
  }
  for (const int64_t channels : {1, 3, 17}) {
    test_bfloat_conv({{channels, 7, 5, 2}, 33, 1, 1, 0, 1, 1, 1, Activation::Clamp});
    test_bfloat_conv({{channels, 9, 8, 2}, 20, 3, 2, 1, 1, 1, 1, Activation::Silu});
    test_bfloat_conv({{channels, 19, 18, 1}, 20, 4, 1, 2, 2});
    test_bfloat_conv({{channels, 7, 5, 2}, 8, 1, 2});
  }
  test_bfloat_conv({{3, 60, 50, 1}, 32, 7, 2, 3});
  test_bfloat_conv({{2049, 13, 1, 1}, 40, 1});
  test_bfloat_conv({{66, 60, 50, 2}, 9, 3, 1, 1});  // several strips of rows
  test_bfloat_conv({{66, 60, 50, 2}, 9, 5, 3, 3, 2});
  test_bfloat_conv({{70, 40, 30, 2}, 40, 1});    // several strips of pixels
  test_bfloat_conv({{400, 30, 20, 1}, 400, 1});  // and several passes over the weights
  test_bfloat_conv({{200, 12, 30, 1}, 200, 3, 1, 1});
  test_bfloat_conv({{66, 50, 40, 1}, 9, 4, 1, 2, 1, 2});
  test_bfloat_conv({{5, 9, 8, 1}, 20, 3, 1, 1}, NAN);
  test_bfloat_conv({{5, 9, 8, 1}, 20, 1}, kInf);
  test_bfloat_conv({{6, 9, 8, 1}, 20, 3, 1, 1}, NAN);
  test_bfloat_conv({{6, 9, 8, 1}, 20, 3, 1, 1}, kInf);
}

// NaN goes through every activation; infinities through those where they have a limit.
void test_special_values() {
  for (int activation = 0; activation <= kActivationMax; ++activation) {
    ConvCase c = {{16, 6, 1, 1}, 20, 1};
    c.activation = static_cast<Activation>(activation);
    const ConvParams p = c.params();
    std::vector<float> x = random_floats(count(c.x));
    x[5] = NAN;
    x[16 * 3 + 1] = kInf;
    const std::vector<float> weight(static_cast<size_t>(c.oc * c.x[0]), 1.0f);
    Call<ConvParams> call(kernels::conv_2d, p, c.x, x, pack(weight, c.oc, 16, 1, 1, 1), {});
    check(call, convolve(p, c.x, x, weight, {}), "conv_2d special values, activation " + std::to_string(activation));
    const std::vector<float> ones(16, 1.0f);
    const ConvParams dw = one_pixel({16, 6, 1, 1}, p.epilogue);
    Expected expected;
    for (float v : x) {
      expected.value.push_back(activate(static_cast<double>(v), p.epilogue.activation,
                                        static_cast<double>(p.epilogue.low), static_cast<double>(p.epilogue.high)));
      expected.size.push_back(0.0);
    }
    Call<ConvParams> dw_call(kernels::conv_2d_dw, dw, c.x, x, ones, {});
    check(dw_call, expected, "conv_2d_dw special values, activation " + std::to_string(activation));
  }
}

// Activations to 1e-6 of their own size, small results too.
void test_activations() {
  for (Activation activation : {Activation::Silu, Activation::Hardswish, Activation::GeluErf}) {
    const int64_t n = 1601;
    std::vector<float> x(static_cast<size_t>(n));
    Expected expected;
    for (int64_t i = 0; i < n; ++i) {
      const float v = -5.0f + 0.01f * static_cast<float>(i);
      x[static_cast<size_t>(i)] = v;
      expected.value.push_back(activate(static_cast<double>(v), activation, 0.0, 0.0));
      // Near -3 hardswish's own x + 3 rounds.
      expected.size.push_back(activation == Activation::Hardswish && v < 0.0f ? 1.0 : 0.0);
    }
    const std::vector<float> ones(static_cast<size_t>(n), 1.0f);
    const ConvParams dw = one_pixel({n, 1, 1, 1}, {activation, 0.0f, 0.0f});
    Call<ConvParams> call(kernels::conv_2d_dw, dw, {n, 1, 1, 1}, x, ones, {});
    check(call, expected, "activation " + std::to_string(int(activation)));
  }
}

void test_empty() {
  for (std::array<int64_t, 4> x : {std::array<int64_t, 4>{8, 5, 5, 0}, {8, 0, 5, 1}, {8, 5, 0, 1}, {8, 0, 0, 0}}) {
    ConvCase c = {x, 20, 3, 1, 1};
    test_conv(c);
    test_depthwise(c);
    c.pad = 3;  // an output of padding alone
    test_conv(c);
    test_depthwise(c);
  }
}

//
// Benchmark
//

volatile float sink;

void bench_conv(const char* name, const ConvCase& c) {
  const ConvParams p = c.params();
  const int64_t ic = c.x[0] / c.groups;
  const std::vector<float> weight = random_floats(c.oc * ic * p.window.h.kernel * p.window.w.kernel);
  Call<ConvParams> call(kernels::conv_2d, p, c.x, random_floats(count(c.x)),
                        pack(weight, c.oc, ic, p.window.h.kernel, p.window.w.kernel, c.groups), random_floats(c.oc));
  const auto taps =
      static_cast<double>(p.window.h.kernel * p.window.w.kernel) / static_cast<double>(p.window.h.up * p.window.w.up);
  const double flops = 2.0 * static_cast<double>(count(p.ne) * ic) * taps;
  std::printf("%-28s", name);
  for (int threads : {1, 2}) {
    const double t = time_call(call, threads, flops);
    std::printf("  %8.3f ms %6.1f GFLOP/s", t * 1e3, flops / t * 1e-9);
  }
  std::printf("  weights %.1f MB\n", static_cast<double>(weight.size()) * 4e-6);
}

// The same in bf16: by the CPU's instructions for it, or else of floats with weights that are widened.
void bench_bfloats(const char* name, const ConvCase& c) {
  const bool widens = kernels::bfloat_conv_tiles() == nullptr;
  const ConvParams p = c.params();
  const int64_t ic = c.x[0] / c.groups;
  const auto weight = random_floats(c.oc * ic * p.window.h.kernel * p.window.w.kernel);
  Call<ConvParams> call(widens ? kernels::conv_2d : kernels::conv_2d_bfloats, p, c.x, random_floats(count(c.x)),
                        as_bfloats(in_pairs(pack(weight, c.oc, ic, p.window.h.kernel, p.window.w.kernel, c.groups),
                                            ic * p.window.h.kernel * p.window.w.kernel, ic)),
                        random_floats(c.oc));
  call.call.src[1] = DType::Bf16;
  const double flops = 2.0 * static_cast<double>(count(p.ne) * ic * p.window.h.kernel * p.window.w.kernel);
  std::printf("%-28s", name);
  for (int threads : {1, 2}) {
    const double t = time_call(call, threads, flops);
    std::printf("  %8.3f ms %6.1f GFLOP/s", t * 1e3, flops / t * 1e-9);
  }
  std::printf("  in bf16\n");
}

void bench_winograd(const char* name, const ConvCase& c) {
  const WinogradCall winograd(c, random_floats(c.oc * c.x[0] * 9));
  Call<WinogradConv> call(kernels::winograd_conv_2d, winograd.params(), c.x, random_floats(count(c.x)), winograd.blocks,
                          random_floats(c.oc));
  const double flops = 2.0 * static_cast<double>(count(winograd.p.ne) * c.x[0] * 9);  // of the plain sums
  std::printf("%-28s", name);
  for (int threads : {1, 2}) {
    const double t = time_call(call, threads, flops);
    std::printf("  %8.3f ms %6.1f GFLOP/s", t * 1e3, flops / t * 1e-9);
  }
  std::printf("  by Winograd\n");
}

void bench_depthwise(const char* name, ConvCase c) {
  c.oc = c.groups = c.x[0];
  const ConvParams p = c.params();
  const ConvParams dw = depthwise(p);
  Call<ConvParams> call(kernels::conv_2d_dw, dw, c.x, random_floats(count(c.x)),
                        random_floats(c.oc * p.window.h.kernel * p.window.w.kernel), random_floats(c.oc));
  const double flops = 2.0 * static_cast<double>(count(p.ne) * p.window.h.kernel * p.window.w.kernel);
  std::printf("%-28s", name);
  for (int threads : {1, 2}) {
    const double t = time_call(call, threads, flops);
    std::printf("  %8.3f ms %6.1f GFLOP/s", t * 1e3, flops / t * 1e-9);
  }
  std::printf("\n");
}

// What the multipliers can do at most: a product so small that all of it is in the first cache.
void bench_peak() {
  ConvCase c = {{256, 12, 1, 1}, 32, 1};
  Call<ConvParams> call(kernels::conv_2d, c.params(), c.x, random_floats(count(c.x)),
                        pack(random_floats(32 * 256), 32, 256, 1, 1, 1), {});
  const double flops = 2.0 * 12 * 256 * 32;
  const double t = time_rounds(1, 20, [&](int) {
    for (int i = 0; i < 2000; ++i) {
      call.kernel(&call.ty, 0, 1, &call.call);
    }
    sink = call.y[kGuard];
  });
  std::printf("%-28s  %6.1f GFLOP/s on one thread\n", "one tile, again and again", 2000.0 * flops / t * 1e-9);
}

void bench() {
  bench_peak();
  std::printf("ResNet-18\n");
  bench_conv("stem 7x7/2 3>64 224", {{3, 224, 224, 1}, 64, 7, 2, 3});
  bench_conv("3x3 64>64 56", {{64, 56, 56, 1}, 64, 3, 1, 1});
  bench_winograd("3x3 64>64 56", {{64, 56, 56, 1}, 64, 3, 1, 1});
  bench_bfloats("3x3 64>64 56", {{64, 56, 56, 1}, 64, 3, 1, 1});
  bench_conv("3x3/2 64>128 56", {{64, 56, 56, 1}, 128, 3, 2, 1});
  bench_conv("3x3 128>128 28", {{128, 28, 28, 1}, 128, 3, 1, 1});
  bench_winograd("3x3 128>128 28", {{128, 28, 28, 1}, 128, 3, 1, 1});
  bench_conv("1x1/2 128>256 28", {{128, 28, 28, 1}, 256, 1, 2});
  bench_conv("3x3 256>256 14", {{256, 14, 14, 1}, 256, 3, 1, 1});
  bench_winograd("3x3 256>256 14", {{256, 14, 14, 1}, 256, 3, 1, 1});
  bench_conv("3x3/2 256>512 14", {{256, 14, 14, 1}, 512, 3, 2, 1});
  bench_conv("3x3 512>512 7", {{512, 7, 7, 1}, 512, 3, 1, 1});
  bench_winograd("3x3 512>512 7", {{512, 7, 7, 1}, 512, 3, 1, 1});
  bench_conv("fc 512>1000", {{512, 1, 1, 1}, 1000, 1});
  std::printf("ResNet-50\n");
  bench_bfloats("stem 7x7/2 3>64 224", {{3, 224, 224, 1}, 64, 7, 2, 3});
  bench_bfloats("1x1 64>256 56", {{64, 56, 56, 1}, 256, 1});
  bench_bfloats("1x1 256>64 56", {{256, 56, 56, 1}, 64, 1});
  bench_bfloats("1x1/2 256>512 56", {{256, 56, 56, 1}, 512, 1, 2});
  bench_bfloats("1x1 1024>256 14", {{1024, 14, 14, 1}, 256, 1});
  bench_bfloats("3x3 256>256 14", {{256, 14, 14, 1}, 256, 3, 1, 1});
  bench_bfloats("3x3 512>512 7", {{512, 7, 7, 1}, 512, 3, 1, 1});
  std::printf("MobileNets\n");
  bench_conv("stem 3x3/2 3>16 224", {{3, 224, 224, 1}, 16, 3, 2, 1});
  bench_conv("stem 3x3/2 3>32 224", {{3, 224, 224, 1}, 32, 3, 2, 1});
  bench_depthwise("dw 3x3 32 112", {{32, 112, 112, 1}, 0, 3, 1, 1});
  bench_conv("1x1 32>16 112", {{32, 112, 112, 1}, 16, 1});
  bench_conv("1x1 16>96 112", {{16, 112, 112, 1}, 96, 1});
  bench_depthwise("dw 3x3/2 96 112", {{96, 112, 112, 1}, 0, 3, 2, 1});
  bench_conv("1x1 96>24 56", {{96, 56, 56, 1}, 24, 1});
  bench_conv("1x1 24>144 56", {{24, 56, 56, 1}, 144, 1});
  bench_depthwise("dw 3x3 144 56", {{144, 56, 56, 1}, 0, 3, 1, 1});
  bench_conv("1x1 192>32 28", {{192, 28, 28, 1}, 32, 1});
  bench_depthwise("dw 3x3 192 28", {{192, 28, 28, 1}, 0, 3, 1, 1});
  bench_conv("1x1 64>384 14", {{64, 14, 14, 1}, 384, 1});
  bench_depthwise("dw 3x3 384 14", {{384, 14, 14, 1}, 0, 3, 1, 1});
  bench_conv("1x1 384>96 14", {{384, 14, 14, 1}, 96, 1});
  bench_conv("1x1 160>960 7", {{160, 7, 7, 1}, 960, 1});
  bench_depthwise("dw 3x3 960 7", {{960, 7, 7, 1}, 0, 3, 1, 1});
  bench_conv("1x1 960>320 7", {{960, 7, 7, 1}, 320, 1});
  bench_conv("1x1 320>1280 7", {{320, 7, 7, 1}, 1280, 1});
  bench_depthwise("dw 5x5 240 14", {{240, 14, 14, 1}, 0, 5, 1, 2});
  bench_depthwise("dw 7x7 384 14", {{384, 14, 14, 1}, 0, 7, 1, 3});
  std::printf("U-Net\n");
  for (int64_t channels : {16, 32, 64, 128}) {
    const ConvCase c = {{channels, 2048 / channels, 2048 / channels, 1}, channels, 3, 1, 1};
    const std::string name = "3x3 " + std::to_string(channels) + ">" + std::to_string(channels);
    bench_conv(name.c_str(), c);
    bench_winograd(name.c_str(), c);
  }
  std::printf("Others\n");
  bench_conv("3x3 g32 128>128 56", {{128, 56, 56, 1}, 128, 3, 1, 1, 1, 1, 32});
  bench_conv("2x2 up 2 256>128 28", {{256, 28, 28, 1}, 128, 2, 1, 1, 1, 2});
  bench_conv("16x16/16 3>768 224", {{3, 224, 224, 1}, 768, 16, 16});
  std::printf("Linear: T x K x M\n");
  const int64_t linear[][3] = {{1, 384, 1536},   {1, 4096, 4096}, {1, 4096, 11008}, {1, 768, 50257},
                               {4, 4096, 4096},  {16, 768, 3072}, {128, 384, 384},  {128, 384, 1536},
                               {128, 1536, 384}, {128, 512, 512}, {197, 768, 768},  {197, 768, 3072},
                               {197, 3072, 768}, {3136, 64, 64},  {256, 4096, 4096}};
  for (const auto& [t, k, m] : linear) {
    const std::string name = std::to_string(t) + " x " + std::to_string(k) + " x " + std::to_string(m);
    bench_conv(name.c_str(), {{k, t, 1, 1}, m, 1});
    bench_bfloats(name.c_str(), {{k, t, 1, 1}, m, 1});
  }
}

}  // namespace
}  // namespace executorch_ggml

int main(int argc, char** argv) {
  using namespace executorch_ggml;
  return bench_or_test(argc, argv, bench,
                       {test_empty, test_convs, test_winograds, test_chains, test_sums, test_halves, test_bfloats,
                        test_special_values, test_activations});
}
