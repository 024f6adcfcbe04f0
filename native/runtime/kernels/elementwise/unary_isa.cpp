#include <cmath>

#include "kernels/elementwise/float_tables.h"
#include "kernels/simd/vec_math.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

// Op is constructed from the parameters and maps one vector.
template <class Op>
void map(float* y, const float* x, int64_t n, const float* params) {
  const Op op(params);
  for (int64_t i = 0; i < n; i += kLanes) {
    store(y + i, op(load<Float>(x + i)));
  }
}

template <bool kCos>
void trig(float* y, const float* x, int64_t n, const float*) {
  Long beyond{};
  for (int64_t i = 0; i < n; i += kWideLanes) {
    const HalfFloat v = load<HalfFloat>(x + i);
    store(y + i, vec_trig<kCos>(v));
    beyond |= ~(abs(__builtin_convertvector(v, Double)) <= kTrigLimit);
  }
  int64_t any = 0;
  for (int lane = 0; lane < kWideLanes; ++lane) {
    any |= beyond[lane];
  }
  for (int64_t i = 0; any != 0 && i < n; ++i) {
    if (!(__builtin_fabsf(x[i]) <= static_cast<float>(kTrigLimit))) {
      y[i] = kCos ? ::cosf(x[i]) : ::sinf(x[i]);
    }
  }
}

#define PLAIN(name, expression)                                       \
  struct name##_op {                                                  \
    explicit name##_op(const float*) {}                               \
    VEC_INLINE Float operator()(Float x) const { return expression; } \
  };                                                                  \
  constexpr FloatFn name##_loop = map<name##_op>;
PLAIN(sqr, (x * x))
PLAIN(sqrt, square_root(x))
PLAIN(log, vec_log(x))
PLAIN(abs, abs(x))
PLAIN(sgn, pick(x > 0.0f, splat(1.0f), pick(x < 0.0f, splat(-1.0f), splat(0.0f))))
PLAIN(neg, -x)
PLAIN(tanh, vec_tanh(x))
PLAIN(elu, vec_elu(x))
PLAIN(relu, at_least(x, 0.0f))
PLAIN(sigmoid, vec_sigmoid(x))
PLAIN(gelu, vec_gelu(x))
PLAIN(gelu_erf, vec_gelu_erf(x))
PLAIN(silu, vec_silu(x))
PLAIN(hardswish, (x * at_most(at_least(x + 3.0f, 0.0f), 6.0f) / 6.0f))
PLAIN(hardsigmoid, at_most(at_least(x + 3.0f, 0.0f), 6.0f) / 6.0f)
PLAIN(exp, vec_exp(x))
PLAIN(expm1, vec_expm1(x))
PLAIN(softplus, vec_softplus(x))
PLAIN(floor, vec_floor(x))
PLAIN(ceil, vec_ceil(x))
PLAIN(trunc, vec_trunc(x))
PLAIN(rsqrt, 1.0f / square_root(x))
PLAIN(reciprocal, 1.0f / x)
PLAIN(erf, vec_erf(x))
PLAIN(log1p, vec_log1p(x))
PLAIN(round, vec_round(x))
PLAIN(round_f16, rounded_to_half(x))
PLAIN(round_bf16, rounded_to_bfloat(x))
#undef PLAIN
constexpr FloatFn sin_loop = trig<false>;
constexpr FloatFn cos_loop = trig<true>;

struct LeakyRelu {
  explicit LeakyRelu(const float* params) : slope(params[0]) {}
  VEC_INLINE Float operator()(Float x) const { return pick(x > 0.0f, x, x * slope); }
  float slope;
};
constexpr FloatFn leaky_relu_loop = map<LeakyRelu>;

struct ScaleBias {
  explicit ScaleBias(const float* params) : scale(params[0]), bias(params[1]) {}
  // torch rounds twice, and a product that cancels shows it.
  VEC_INLINE Float operator()(Float x) const { return rounded(x * scale) + bias; }
  float scale;
  float bias;
};
constexpr FloatFn scale_bias_loop = map<ScaleBias>;

struct Clamp {
  explicit Clamp(const float* params) : low(params[0]), high(params[1]) {}
  VEC_INLINE Float operator()(Float x) const { return at_most(at_least(x, low), high); }
  float low;
  float high;
};
constexpr FloatFn clamp_loop = map<Clamp>;

}  // namespace

const UnaryTable& unary_table() {
#define EXECUTORCH_GGML_LOOP(name) name##_loop,
  static constexpr UnaryTable kTable = {EXECUTORCH_GGML_UNARY(EXECUTORCH_GGML_LOOP)};
#undef EXECUTORCH_GGML_LOOP
  return kTable;
}

}  // namespace executorch_ggml::kernels::KERNEL_ISA
