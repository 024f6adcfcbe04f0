// Float functions on vectors: branch-free, NaN, infinities and denormals right, within a few ulp of the true value.
// For *_isa.cpp files only. The polynomials are minimax fits of this project, on the intervals that the comments give.
#pragma once

#include "kernels/simd/vec.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

constexpr float kInfinity = __builtin_inff();
constexpr float kNan = __builtin_nanf("");

// c[0] + c[1] x + c[2] x^2 + ...
template <class V>
VEC_INLINE V polynomial(V, float c) {
  return V{} + c;
}

template <class V, class... Rest>
VEC_INLINE V polynomial(V x, float c, Rest... rest) {
  return polynomial(x, rest...) * x + c;
}

// Rounds half to even; keeps NaN.
VEC_INLINE Float vec_round(Float x) {
  const Float magic = splat(8388608.0f);  // 2^23: from here on all floats are integers
  const Float a = abs(x);
  const Float r = (a + magic) - magic;
  return pick(a < magic, with_sign(r, sign_bit(x)), x);
}

VEC_INLINE Float vec_trunc(Float x) {
  const Float a = abs(x);
  const Float r = vec_round(a);
  return with_sign(pick(r > a, r - 1.0f, r), sign_bit(x));
}

VEC_INLINE Float vec_floor(Float x) {
  const Float r = vec_round(x);
  return pick(r > x, r - 1.0f, r);
}

VEC_INLINE Float vec_ceil(Float x) {
  const Float r = vec_round(x);
  return pick(r < x, with_sign(abs(r + 1.0f), sign_bit(x)), r);  // ceil(-0.5) is -0
}

constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: a sum with it has its integer in the low bits

// e^x = 2^n (1 + p), with n the nearest integer to x / ln 2.
struct ExpParts {
  Float shifted;  // n + kShift
  Float p;

  VEC_INLINE Int n() const { return bits(shifted) - bits(splat(kShift)); }

  // y 2^n for -127 < n < 128, with scaling any n.
  VEC_INLINE Float times(Float y) const {
    return kHasScaling ? times_power_of_two(y, shifted - kShift) : y * power_of_two(n());
  }

  // y 2^n, which may be denormal or overflow.
  VEC_INLINE Float times_any(Float y) const { return times_power_of_two(y, shifted - kShift); }
};

// |x| must be below 2^20. `Low` is a float vector to be added to x, small, or NoLow.
struct NoLow {};

VEC_INLINE Float plus(Float x, Float low) { return x + low; }

VEC_INLINE Float plus(Float x, NoLow) { return x; }

template <class Low = NoLow>
VEC_INLINE ExpParts split_exp(Float x, Low low = {}) {
  const Float shifted = x * 1.44269504f + kShift;
  const Float n = shifted - kShift;
  // ln 2 in two parts, the first with so few bits that its product with n is exact.
  const Float r = plus((x - n * 0.693359375f) - n * -2.12194440e-4f, low);
  // (e^r - 1 - r) / r^2 on |r| <= ln 2 / 2
  const Float q = polynomial(r, 0.5f, 0.16666542f, 0.0416664481f, 0.00836669654f, 0.00139365497f);
  return {shifted, r + r * r * q};
}

VEC_INLINE Float vec_exp(Float x) {
  const ExpParts e = split_exp(at_least(at_most(x, 89.0f), -104.0f));
  return e.times_any(1.0f + e.p);
}

// e^x where it is a normal float, in fewer steps. Without scaling 0 below that range, and infinite from 88.02 (not
// 88.72) on.
VEC_INLINE Float vec_exp_normal(Float x) {
  if constexpr (kHasScaling) return vec_exp(x);
  constexpr float kLowest = -87.3365f;
  constexpr float kHighest = 88.02f;
  const ExpParts e = split_exp(at_least(at_most(x, kHighest), kLowest));
  const Float y = e.times(1.0f + e.p);
  return pick(x < kLowest, splat(0.0f), pick(x > kHighest, splat(kInfinity), y));
}

// The same for x below 88, where that is known; without scaling 0 below the normal floats. Keeps NaN.
VEC_INLINE Float vec_exp_below(Float x) {
  constexpr float kLowest = kHasScaling ? -104.0f : -87.3365f;
  const ExpParts e = split_exp(at_least(x, kLowest));
  const Float y = e.times(1.0f + e.p);
  return kHasScaling ? y : pick(x < kLowest, splat(0.0f), y);
}

// 2^x for x below 127, where that is known; without scaling 0 below the normal floats. Keeps NaN. Fewer steps than
// e^x, and no more than 2 ulp.
VEC_INLINE Float vec_exp2_below(Float x) {
  constexpr float kLowest = kHasScaling ? -150.0f : -126.0f;
  const Float in_range = at_least(x, kLowest);
  const Float shifted = in_range + kShift;
  const Float r = in_range - (shifted - kShift);
  // 2^r on |r| <= 1/2, with 1 at 0
  const Float p = polynomial(r, 0.693146978f, 0.240222421f, 0.0555073396f, 0.00967151132f, 0.00132646524f);
  const Float y = ExpParts{shifted, p}.times(p * r + 1.0f);
  return kHasScaling ? y : pick(x < kLowest, splat(0.0f), y);
}

VEC_INLINE Float vec_expm1(Float x) {
  const ExpParts e = split_exp(at_least(at_most(x, 89.0f), -30.0f));
  const Float scale = power_of_two(e.n() - 1);  // half of 2^n, which may be 2^128
  const Float y = (scale * e.p + (scale - 0.5f)) * 2.0f;
  return pick(abs(x) < 1e-9f, x, y);  // keeps denormals and -0
}

VEC_INLINE Float vec_log(Float x) {
  const Int tiny = x < 1.17549435e-38f;
  const Float normal = pick(tiny, x * 8388608.0f, x);
  // x = 2^n m, m in [sqrt(1/2), sqrt(2)).
  const Uint u = reinterpret_cast<Uint>(normal);
  const Int n = reinterpret_cast<Int>(u - 0x3f3504f3u) >> 23;
  const Float m = reinterpret_cast<Float>(u - (reinterpret_cast<Uint>(n) << 23));
  const Float e = __builtin_convertvector(n, Float) - pick(tiny, splat(23.0f), splat(0.0f));
  const Float f = m - 1.0f;
  const Float z = f * f;
  // (log(1 + f) - f + f^2 / 2) / f^3
  const Float p = polynomial(f, 0.333333164f, -0.250008106f, 0.20002301f, -0.16624558f, 0.141809464f, -0.131285012f,
                             0.128829598f, -0.0786170289f);
  const Float y = e * 0.693359375f + (f + (f * z * p + e * -2.12194440e-4f - 0.5f * z));
  const Float finite = pick(x < kInfinity, y, x);
  return pick(x > 0.0f, finite, pick(x == 0.0f, splat(-kInfinity), splat(kNan)));
}

VEC_INLINE Float vec_log1p(Float x) {
  const Float u = x + 1.0f;
  const Float y = vec_log(u) + (x - (u - 1.0f)) / u;  // the second term corrects the rounding of u
  const Float kept = pick(abs(x) < 1e-9f, x, y);
  return pick(u == 0.0f, splat(-kInfinity), pick(x == kInfinity, x, kept));
}

VEC_INLINE Float vec_tanh(Float x) {
  const Float a = abs(x);
  const Float z = x * x;
  // (tanh(x) / x - 1) / x^2 for |x| < 0.625
  const Float p = polynomial(z, -0.333332837f, 0.133314863f, -0.0537431724f, 0.0206497088f, -0.00571620278f);
  const ExpParts e = split_exp(at_most(a, 10.0f) * 2.0f);
  const Float large = 1.0f - 2.0f / (e.times(1.0f + e.p) + 1.0f);
  return pick(a < 0.625f, x * z * p + x, with_sign(large, sign_bit(x)));
}

// scale / (1 + e^-x), with e^-|x|, which can't overflow: relative accuracy down to the denormals.
VEC_INLINE Float logistic(Float scale, Float x) {
  const Float t = vec_exp(-abs(x));
  return scale * pick(x < 0.0f, t, splat(1.0f)) / (1.0f + t);
}

VEC_INLINE Float vec_sigmoid(Float x) { return logistic(splat(1.0f), x); }

VEC_INLINE Float vec_silu(Float x) { return logistic(x, x); }

// The normal distribution's upper tail, P(X > a), for a >= 0: relative accuracy up to where it leaves the floats.
VEC_INLINE Float normal_tail(Float a) {
  const Float c = at_most(a, 14.5f);
  const Float w = 1.0f / (c + 4.0f);
  // (a + 4) e^(a^2 / 2) P(X > a) as a polynomial in (a - 4) / (a + 4)
  const Float g =
      w * polynomial((c - 4.0f) * w, 0.755285144f, -0.607896626f, 0.387136638f, -0.186522841f, 0.0604062267f,
                     -0.0075275558f, -0.00352141331f, 0.00157035468f, 0.000190969062f, -0.000125781939f);
  // a^2 / 2 in two parts, the first exact, as its rounding error would be an exponent.
  const Float high = from_bits(bits(c) & static_cast<int32_t>(0xfffff000u));
  const ExpParts e = split_exp(high * high * -0.5f, (c - high) * (c + high) * -0.5f);
  return e.times_any((1.0f + e.p) * g);
}

VEC_INLINE Float vec_erf(Float x) {
  const Float z = x * x;
  // erf(x) / x - 1 for |x| < 1
  const Float small = polynomial(z, 0.128379166f, -0.37612626f, 0.112835832f, -0.0268536918f, 0.00518807396f,
                                 -0.00080078782f, 7.8461082e-05f);
  const Float large = 1.0f - 2.0f * normal_tail(abs(x) * 1.41421356f);
  return pick(abs(x) < 1.0f, x * small + x, with_sign(large, sign_bit(x)));
}

// x P(X < x)
VEC_INLINE Float vec_gelu_erf(Float x) {
  // (P(X < x) - 1/2) / x for |x| < 0.7
  const Float p = polynomial(x * x, 0.398942083f, -0.0664847568f, 0.00993109029f, -0.00106823712f);
  const Float tail = normal_tail(abs(x));
  return x * pick(abs(x) < 0.7f, 0.5f + x * p, pick(x > 0.0f, 1.0f - tail, tail));
}

// x / 2 (1 + tanh(u)) = x / (1 + e^(-2u)), u = sqrt(2 / pi) (x + 0.044715 x^3)
VEC_INLINE Float vec_gelu(Float x) { return logistic(x, x * (1.59576912f + 0.0713548163f * (x * x))); }

VEC_INLINE Float vec_softplus(Float x) { return pick(x > 20.0f, x, vec_log1p(vec_exp(x))); }

VEC_INLINE Float vec_elu(Float x) { return pick(x > 0.0f, x, vec_expm1(x)); }

// |x| up to which vec_trig is exact enough: pi/2's first part below times the quotient must be exact.
constexpr double kTrigLimit = 1e6;

VEC_INLINE Double abs(Double x) { return reinterpret_cast<Double>(reinterpret_cast<Long>(x) & INT64_MAX); }

// sin(x) or cos(x) for |x| <= kTrigLimit, computed in double.
template <bool kCos>
VEC_INLINE HalfFloat vec_trig(HalfFloat narrow) {
  const Double x = __builtin_convertvector(narrow, Double);
  const Double magic = Double{} + 6755399441055744.0;  // 1.5 * 2^52
  const Double t = x * 0.63661977236758134 + magic;
  const Double n = t - magic;
  const Double r = (x - n * 1.57079632673412561417) - n * 6.07710050650619224932e-11;
  const Double z = r * r;
  const Double sine = r + r * z * polynomial(z, -0.166666552f, 0.00833219104f, -0.000195185727f);
  const Double cosine = 1.0 + z * (z * polynomial(z, 0.0416666456f, -0.00138873118f, 2.44327421e-05f) - 0.5);
  const Long quadrant = reinterpret_cast<Long>(t) + (kCos ? 1 : 0);
  const Double y = (quadrant & 1) == 0 ? sine : cosine;
  const Long flipped = reinterpret_cast<Long>(y) ^ ((quadrant & 2) << 62);
  return __builtin_convertvector(reinterpret_cast<Double>(flipped), HalfFloat);
}

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
