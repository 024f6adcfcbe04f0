// The elementwise kernels (with select and convert) against naive loops in double or 128-bit integers: odd
// shapes, all kinds of strides, broadcasting, special values, every element type, several threads, each instruction set
// that this CPU has. Exits with 1 on any difference. With --ulp it prints the worst errors, with --bench speeds.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "instruction_sets.h"
#include "kernel_check.h"
#include "kernels/kernels.h"
#include "kernels/simd/isa.h"

using namespace executorch_ggml;           // NOLINT: the code under test
using namespace executorch_ggml::testing;  // NOLINT

namespace {

// --- unary ---

struct FloatFunction {
  const char* name;
  Kernel kernel;
  double (*reference)(double);
  double max_ulp;
  UnaryKind kind = UnaryKind::Rsqrt;
  double slack = 0;  // an absolute error that does not count, for products with a denormal
};

double relu6(double x) { return x + 3 < 0 ? 0 : x + 3 > 6 ? 6 : static_cast<float>(x + 3); }

const FloatFunction kFloatFunctions[] = {
    {"sqr", kernels::sqr, [](double x) { return x * x; }, 0.5},
    {"sqrt", kernels::sqrt, [](double x) { return std::sqrt(x); }, 0.5},
    {"log", kernels::log, [](double x) { return std::log(x); }, 2},
    {"sin", kernels::sin, [](double x) { return std::sin(x); }, 1},
    {"cos", kernels::cos, [](double x) { return std::cos(x); }, 1},
    {"abs", kernels::abs, [](double x) { return std::fabs(x); }, 0},
    {"sgn", kernels::sgn, [](double x) { return double((x > 0) - (x < 0)); }, 0},
    {"neg", kernels::neg, [](double x) { return -x; }, 0},
    {"tanh", kernels::tanh, [](double x) { return std::tanh(x); }, 2},
    {"elu", kernels::elu, [](double x) { return x > 0 ? x : std::expm1(x); }, 2.5},
    {"relu", kernels::relu, [](double x) { return x < 0 ? 0 : x; }, 0},
    {"sigmoid", kernels::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, 3},
    {"gelu_erf", kernels::gelu_erf, [](double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); }, 4, {}, 1e-43},
    {"silu", kernels::silu, [](double x) { return x / (1 + std::exp(-x)); }, 3.4, {}, 1e-43},
    {"hardsigmoid", kernels::hardsigmoid, [](double x) { return relu6(x) / 6; }, 0.5},
    {"hardswish", kernels::hardswish, [](double x) { return static_cast<float>(x * relu6(x)) / 6.0; }, 0.5},
    {"exp", kernels::exp, [](double x) { return std::exp(x); }, 2},
    {"expm1", kernels::expm1, [](double x) { return std::expm1(x); }, 2.5},
    {"softplus", kernels::softplus, [](double x) { return x > 20 ? x : std::log1p(std::exp(x)); }, 3},
    {"floor", kernels::floor, [](double x) { return std::floor(x); }, 0},
    {"ceil", kernels::ceil, [](double x) { return std::ceil(x); }, 0},
    {"trunc", kernels::trunc, [](double x) { return std::trunc(x); }, 0},
    {"rsqrt", kernels::unary, [](double x) { return 1 / std::sqrt(x); }, 1.5, UnaryKind::Rsqrt},
    {"reciprocal", kernels::unary, [](double x) { return 1 / x; }, 0.5, UnaryKind::Reciprocal},
    {"erf", kernels::unary, [](double x) { return std::erf(x); }, 2, UnaryKind::Erf},
    {"log1p", kernels::unary, [](double x) { return std::log1p(x); }, 3, UnaryKind::Log1p},
    {"round f16", kernels::unary, [](double x) { return double(ggml_fp16_to_fp32(ggml_fp32_to_fp16(float(x)))); }, 0,
     UnaryKind::RoundF16},
    {"round bf16", kernels::unary, [](double x) { return double(ggml_bf16_to_fp32(ggml_fp32_to_bf16(float(x)))); }, 0,
     UnaryKind::RoundBf16},
    {"round", kernels::unary, [](double x) { return std::nearbyint(x); }, 0, UnaryKind::Round},
    {"unary neg", kernels::unary, [](double x) { return -x; }, 0, UnaryKind::Neg},
    {"unary abs", kernels::unary, [](double x) { return std::fabs(x); }, 0, UnaryKind::Abs},
    {"tan", kernels::unary, [](double x) { return std::tan(x); }, 1, UnaryKind::Tan},
    {"atan", kernels::unary, [](double x) { return std::atan(x); }, 1, UnaryKind::Atan},
    {"acos", kernels::unary, [](double x) { return std::acos(x); }, 1, UnaryKind::Acos},
    {"acosh", kernels::unary, [](double x) { return x < 1 ? NAN : std::acosh(x); }, 2, UnaryKind::Acosh},
    {"asin", kernels::unary, [](double x) { return std::asin(x); }, 1, UnaryKind::Asin},
    {"asinh", kernels::unary, [](double x) { return std::asinh(x); }, 2, UnaryKind::Asinh},
    {"atanh", kernels::unary, [](double x) { return std::atanh(x); }, 2, UnaryKind::Atanh},
    {"cosh", kernels::unary, [](double x) { return std::cosh(x); }, 2, UnaryKind::Cosh},
    {"sinh", kernels::unary, [](double x) { return std::sinh(x); }, 2, UnaryKind::Sinh},
    {"log2", kernels::unary, [](double x) { return std::log2(x); }, 1, UnaryKind::Log2},
    {"log10", kernels::unary, [](double x) { return std::log10(x); }, 2, UnaryKind::Log10},
    {"exp2", kernels::unary, [](double x) { return std::exp2(x); }, 1, UnaryKind::Exp2},
    {"erfc", kernels::unary, [](double x) { return std::erfc(x); }, 4, UnaryKind::Erfc},
    {"sign", kernels::unary, [](double x) { return double((x > 0) - (x < 0)); }, 0, UnaryKind::Sign},
};

// Every float whose bits are a multiple of `step`, and the neighbourhoods where functions change their formula.
Tensor sweep() {
  constexpr uint32_t kStep = 20011;
  std::vector<float> values;
  for (uint64_t u = 0; u < (1ull << 32); u += kStep) {
    const uint32_t bits = static_cast<uint32_t>(u);
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    if (is_sampled()) values.push_back(value);
  }
  for (int i = -40000; i <= 40000; ++i) {
    if (!is_sampled()) continue;
    values.push_back(static_cast<float>(i) * 0.0031f);
    values.push_back(static_cast<float>(i) * 0.5f);
  }
  for (double special : {0.0, -0.0, 1e-45, -1e-45, 88.72283, 88.72284, -103.97, -87.336, 1.0, -1.0, 20.0, 8388607.5}) {
    values.push_back(static_cast<float>(special));
  }
  values.push_back(-3.2112513f);  // silu's largest error among all floats from -8 to -1/32: 3.394 ulp
  for (double special : {double(NAN), double(INFINITY), -double(INFINITY)}) {
    values.push_back(static_cast<float>(special));
  }
  Tensor tensor(DType::F32, {static_cast<int64_t>(values.size()), 1, 1, 1});
  std::memcpy(tensor.t.data, values.data(), values.size() * sizeof(float));
  return tensor;
}

void test_float_functions(bool print) {
  Tensor x = sweep();
  const int64_t n = x.t.ne[0];
  const float* in = static_cast<const float*>(x.t.data);
  for (const FloatFunction& f : kFloatFunctions) {
    std::vector<double> want(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) {
      want[i] = f.reference(in[i]);
    }
    for (const kernels::Isa isa : variants_of_cpu()) {
      kernels::limit_isa(isa);
      KernelCall<UnaryParams> call;
      RunStatus status;
      call.node = "node";
      call.status = &status;
      call.src[0] = call.dst = DType::F32;
      call.params.kind = f.kind;
      Tensor y(DType::F32, x.ne());
      y.t.src[0] = &x.t;
      f.kernel(&y.t, 0, 1, &call);
      const float* out = static_cast<const float*>(y.t.data);
      double worst = 0;
      float where = 0;
      for (int64_t i = 0; i < n; ++i) {
        const double error = std::fabs(out[i] - want[i]) < f.slack ? 0 : ulp_error(out[i], want[i]);
        if (!(error <= worst)) {
          worst = error;
          where = in[i];
        }
      }
      if (print) {
        std::printf("%-12s isa %d: worst %.3g ulp, at %.9g\n", f.name, int(isa), worst, where);
      }
      expect(worst <= f.max_ulp, format("%s: %.3g ulp at %.9g (%a)", f.name, worst, where, where));
    }
  }
  kernels::limit_isa(kernels::best_isa());
}

// Where gelu is tiny its relative error grows with the exponent's; torch's is absolute there.
void test_gelu() {
  Tensor x = sweep();
  Tensor y(DType::F32, x.ne());
  y.t.src[0] = &x.t;
  KernelCall<GeluParams> call;
  kernels::gelu(&y.t, 0, 1, &call);
  for (int64_t i = 0; i < x.t.ne[0]; ++i) {
    const double v = static_cast<const float*>(x.t.data)[i];
    const double want = v * 0.5 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (v + 0.044715 * v * v * v)));
    const double got = static_cast<const float*>(y.t.data)[i];
    const bool close = std::fabs(got - want) <= 5e-7 * std::max(std::fabs(want), 0.05 * std::fabs(v)) + 1e-44;
    expect(close || got == want || (std::isnan(got) && std::isnan(want)), format("gelu(%g) = %g", v, got));
  }
}

void test_unary_layouts() {
  for (const Sizes& ne : kShapes) {
    for (Layout layout : kLayouts) {
      Tensor x = random_tensor(DType::F32, ne, layout);
      Tensor y(DType::F32, ne);
      const auto in = [&](const Index& i) { return x.get(i).real; };
      for (const char* name : {"silu", "abs", "sin"}) {
        for (const FloatFunction& f : kFloatFunctions) {
          KernelCall<UnaryParams> call;
          call.params.kind = f.kind;
          if (std::strcmp(f.name, name) == 0) {
            check(
                f.name, f.kernel, call, y, {&x}, [&](const Index& i) { return Number{f.reference(in(i)), 0}; },
                f.max_ulp);
          }
        }
      }
      KernelCall<LeakyReluParams> leaky;
      leaky.params.negative_slope = 0.25f;
      check(
          "leaky_relu", kernels::leaky_relu, leaky, y, {&x},
          [&](const Index& i) { return Number{in(i) > 0 ? in(i) : in(i) * 0.25, 0}; }, 0.5);
      KernelCall<ScaleBiasParams> scale;
      scale.params = {1.1f, -0.3f};
      check(
          "scale_bias", kernels::scale_bias, scale, y, {&x},
          [&](const Index& i) { return Number{double(static_cast<float>(in(i) * double(1.1f))) + double(-0.3f), 0}; },
          0.5);
      KernelCall<ClampParams> clamp;
      clamp.params = {-1.5f, 2.0f};
      check("clamp", kernels::clamp, clamp, y, {&x}, [&](const Index& i) {
        return Number{in(i) < -1.5 ? -1.5 : in(i) > 2 ? 2 : in(i), 0};
      });
    }
  }
}

bool unary_oracle(UnaryKind kind, DType type, Number x, Number* y) {
  const bool real = type == DType::F32;
  const bool flag = type == DType::Bool;
  switch (kind) {
    case UnaryKind::LogicalNot:
      y->integer = real ? x.real == 0 : x.integer == 0;
      return true;
    case UnaryKind::Isnan:
      y->integer = real && std::isnan(x.real);
      return true;
    case UnaryKind::Isinf:
      y->integer = real && std::isinf(x.real);
      return true;
    case UnaryKind::BitwiseNot:
      y->integer = flag ? x.integer == 0 : ~x.integer;
      return !real;
    case UnaryKind::Neg:
      y->integer = static_cast<int64_t>(-Wide(x.integer));
      break;
    case UnaryKind::Abs:
      y->integer = static_cast<int64_t>(x.integer < 0 ? -Wide(x.integer) : Wide(x.integer));
      break;
    case UnaryKind::Sign:
      y->integer = (x.integer > 0) - (x.integer < 0);
      return !real;
    default:
      return false;
  }
  y->integer = type == DType::I32 ? static_cast<int32_t>(y->integer) : y->integer;
  return !real && !flag;
}

void test_unary_types() {
  for (DType type : {DType::F32, DType::I32, DType::I64, DType::Bool}) {
    for (int k = 0; k <= kUnaryKindMax; ++k) {
      const UnaryKind kind = static_cast<UnaryKind>(k);
      Number ignored;
      if (!unary_oracle(kind, type, {}, &ignored)) {
        continue;
      }
      const bool flags = kind == UnaryKind::LogicalNot || kind == UnaryKind::Isnan || kind == UnaryKind::Isinf;
      Tensor x = random_tensor(type, {37, 9, 5, 2}, Layout::Permuted);
      Tensor y(flags ? DType::Bool : type, x.ne());
      KernelCall<UnaryParams> call;
      call.params.kind = kind;
      check(format("unary %d of type %d", k, int(type)), kernels::unary, call, y, {&x}, [&](const Index& i) {
        Number want;
        unary_oracle(kind, type, x.get(i), &want);
        return want;
      });
    }
  }
}

// --- binary ---

double real_binary(BinaryKind kind, double a, double b) {
  switch (kind) {
    case BinaryKind::Maximum:
      return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b);
    case BinaryKind::Minimum:
      return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b);
    case BinaryKind::Pow:
      return std::pow(a, b);
    case BinaryKind::FloorDivide:
      if (b == 0) return a / b;
      if (std::isinf(a) || std::isnan(a)) return NAN;
      return !std::isinf(b) ? std::floor(a / b) : a != 0 && (a < 0) != (b < 0) ? -1 : 0 * a;
    case BinaryKind::Remainder: {
      const double rest = std::fmod(a, b);
      return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    }
    case BinaryKind::Fmod:
      return std::fmod(a, b);
    case BinaryKind::Add:
      return a + b;
    case BinaryKind::Sub:
      return a - b;
    case BinaryKind::Mul:
      return a * b;
    case BinaryKind::Div:
      return a / b;
    case BinaryKind::Hypot:
      return std::hypot(a, b);
    default:
      return std::atan2(a, b);
  }
}

int64_t integer_binary(BinaryKind kind, int64_t a, int64_t b) {
  switch (kind) {
    case BinaryKind::Maximum:
      return std::max(a, b);
    case BinaryKind::Minimum:
      return std::min(a, b);
    case BinaryKind::Pow: {
      if (b < 0) {
        return a == 1 ? 1 : a == -1 ? (b % 2 != 0 ? -1 : 1) : 0;
      }
      const uint64_t half = b < 2 ? 1 : static_cast<uint64_t>(integer_binary(kind, a, b / 2));
      return static_cast<int64_t>(half * half * (b % 2 != 0 ? static_cast<uint64_t>(a) : 1));
    }
    case BinaryKind::FloorDivide: {
      const Wide q = Wide(a) / b;
      return static_cast<int64_t>(q * b != a && (a < 0) != (b < 0) ? q - 1 : q);
    }
    case BinaryKind::Remainder:
      return static_cast<int64_t>(((Wide(a) % b) + b) % b);
    case BinaryKind::Fmod:
      return static_cast<int64_t>(Wide(a) % b);
    case BinaryKind::BitwiseAnd:
      return a & b;
    case BinaryKind::BitwiseOr:
      return a | b;
    case BinaryKind::BitwiseXor:
      return a ^ b;
    case BinaryKind::Add:
      return static_cast<int64_t>(Wide(a) + b);
    case BinaryKind::Sub:
      return static_cast<int64_t>(Wide(a) - b);
    case BinaryKind::TruncDivide:
      return static_cast<int64_t>(Wide(a) / b);
    case BinaryKind::ShiftLeft:
      return b < 0 || b > 63 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << b);
    case BinaryKind::ShiftRight:
      return a >> (b < 0 || b > 63 ? 63 : b);
    default:
      return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
}

template <class T>
bool predicate(BinaryKind kind, T a, T b) {
  switch (kind) {
    case BinaryKind::Eq:
      return a == b;
    case BinaryKind::Ne:
      return a != b;
    case BinaryKind::Lt:
      return a < b;
    case BinaryKind::Le:
      return a <= b;
    case BinaryKind::Gt:
      return a > b;
    case BinaryKind::Ge:
      return a >= b;
    case BinaryKind::LogicalAnd:
      return a != 0 && b != 0;
    case BinaryKind::LogicalOr:
      return a != 0 || b != 0;
    default:
      return (a != 0) != (b != 0);
  }
}

bool gives_bool(BinaryKind kind) { return kind >= BinaryKind::Eq && kind <= BinaryKind::LogicalXor; }

bool is_bitwise(BinaryKind kind) { return kind >= BinaryKind::BitwiseAnd && kind <= BinaryKind::BitwiseXor; }

bool is_division(BinaryKind kind) {
  return (kind >= BinaryKind::FloorDivide && kind <= BinaryKind::Fmod) || kind == BinaryKind::TruncDivide;
}

bool is_libm(BinaryKind kind) {
  return kind == BinaryKind::Pow || kind == BinaryKind::Atan2 || kind == BinaryKind::Hypot;
}

bool is_integers_alone(BinaryKind kind) { return kind >= BinaryKind::ShiftLeft && kind <= BinaryKind::TruncDivide; }

bool takes(BinaryKind kind, DType type) {
  if (gives_bool(kind) || kind == BinaryKind::Maximum || kind == BinaryKind::Minimum) {
    return true;
  }
  if (type == DType::F32) {
    return !is_bitwise(kind) && !is_integers_alone(kind);
  }
  const bool floats_alone = kind == BinaryKind::Div || kind == BinaryKind::Atan2 || kind == BinaryKind::Hypot;
  return is_bitwise(kind) || (type != DType::Bool && !floats_alone);
}

Number binary_oracle(BinaryKind kind, DType type, Number a, Number b) {
  if (gives_bool(kind)) {
    return {0, type == DType::F32 ? predicate(kind, a.real, b.real) : predicate(kind, a.integer, b.integer)};
  }
  if (type == DType::F32) {
    return {real_binary(kind, a.real, b.real), 0};
  }
  const int64_t y = integer_binary(kind, a.integer, b.integer);
  return {0, type == DType::I32 ? static_cast<int32_t>(y) : y};
}

void tame(Tensor& a, Tensor& b, BinaryKind kind) {
  each(b.ne(), [&](const Index& i) {
    Number n = b.get(i);
    if (is_division(kind)) {
      n.integer = n.integer == 0 ? -3 : n.integer;  // the zeros have a test of their own
      n.real = std::fabs(n.real) < 1e-3 && n.real != 0 ? 0.7 : n.real;
      n.real = std::fabs(n.real) > 1e6 && !std::isinf(n.real) ? 1e6 : n.real;
    }
    b.set(i, n);
  });
  each(a.ne(), [&](const Index& i) {
    Number n = a.get(i);
    n.real = is_division(kind) && std::fabs(n.real) > 1e3 && !std::isinf(n.real) ? 123.5 : n.real;
    n.real = is_division(kind) && std::fabs(n.real) < 1e-3 && n.real != 0 ? 0.1f : n.real;
    a.set(i, n);
  });
}

void test_binary(BinaryKind kind, DType type, const Sizes& ne) {
  if (!is_sampled()) return;
  // Dims in which a or b is broadcast: none, rows, columns, one element, both ways, matrices and rows.
  constexpr int64_t kMasks[][2] = {{0, 0}, {0, 14}, {0, 1}, {0, 15}, {15, 0}, {1, 0}, {5, 10}, {0, 9}, {12, 14}};
  for (const auto& [mask_a, mask_b] : kMasks) {
    Tensor a = random_tensor(type, broadcast_from(ne, mask_a), kLayouts[random_below(3)]);
    Tensor b = random_tensor(type, broadcast_from(ne, mask_b), kLayouts[random_below(3)]);
    tame(a, b, kind);
    Tensor y(gives_bool(kind) ? DType::Bool : type, ne);
    KernelCall<BinaryParams> call;
    call.params.kind = kind;
    check(
        format("binary %d of type %d", int(kind), int(type)), kernels::binary, call, y, {&a, &b},
        [&](const Index& i) { return binary_oracle(kind, type, a.get(i), b.get(i)); }, is_libm(kind) ? 2.0 : 0.5);
  }
}

void test_all_binary() {
  int turn = 0;
  for (DType type : {DType::F32, DType::I32, DType::I64, DType::Bool}) {
    for (int k = 0; k <= kBinaryKindMax; ++k) {
      const BinaryKind kind = static_cast<BinaryKind>(k);
      const bool vectorized = kind >= BinaryKind::Add || kind <= BinaryKind::Minimum;
      for (size_t s = 0; takes(kind, type) && s < std::size(kShapes); ++s) {
        if ((type == DType::F32 && vectorized) || (s + static_cast<size_t>(turn++)) % 4 == 0) {
          test_binary(kind, type, kShapes[s]);
        }
      }
    }
  }
}

void test_arithmetic_kernels() {
  struct Row {
    const char* name;
    Kernel kernel;
    BinaryKind kind;
  };
  constexpr Row kRows[] = {{"add", kernels::add, BinaryKind::Add},
                           {"sub", kernels::sub, BinaryKind::Sub},
                           {"mul", kernels::mul, BinaryKind::Mul},
                           {"div", kernels::div, BinaryKind::Div}};
  for (const Row& row : kRows) {
    for (DType type : {DType::F32, DType::I32, DType::I64}) {
      if (row.kind == BinaryKind::Div && type != DType::F32) {
        continue;
      }
      for (const kernels::Isa isa : variants_of_cpu()) {
        kernels::limit_isa(isa);
        Tensor a = random_tensor(type, {77, 6, 5, 2}, kLayouts[random_below(3)]);
        Tensor b = random_tensor(type, {random_below(2) * 76 + 1, 1, 5, 1}, Layout::Dense);
        Tensor y(type, a.ne());
        KernelCall<AddParams> call;
        check(
            row.name, row.kernel, call, y, {&a, &b},
            [&](const Index& i) { return binary_oracle(row.kind, type, a.get(i), b.get(i)); }, 0.5);
      }
    }
  }
  Tensor a = random_tensor(DType::F32, {77, 6, 5, 2}, Layout::Sliced);
  Tensor b = random_tensor(DType::F32, {77, 6, 5, 2}, Layout::Permuted);
  Tensor y(DType::F32, a.ne());
  KernelCall<SwigluSplitParams> call;
  check(
      "swiglu_split", kernels::swiglu_split, call, y, {&a, &b},
      [&](const Index& i) {
        const double v = a.get(i).real;
        return Number{double(float(v / (1 + std::exp(-v)))) * b.get(i).real, 0};
      },
      5);
}

void test_division_by_zero() {
  for (DType type : {DType::I32, DType::I64}) {
    for (BinaryKind kind :
         {BinaryKind::FloorDivide, BinaryKind::Remainder, BinaryKind::Fmod, BinaryKind::TruncDivide}) {
      Tensor a = random_tensor(type, {40, 3, 1, 1}, Layout::Dense);
      Tensor b(type, {1, 1, 1, 1});
      b.set({}, {0, 0});
      Tensor y(type, a.ne());
      KernelCall<BinaryParams> call;
      call.params.kind = kind;
      check("division by zero", kernels::binary, call, y, {&a, &b}, [](const Index&) { return Number{}; }, 0, true);
    }
  }
}

// --- select and convert ---

void test_select() {
  for (DType type : kTypes) {
    for (const Sizes& ne : kShapes) {
      Tensor condition = random_tensor(DType::Bool, broadcast_from(ne, random_below(16)), kLayouts[random_below(3)]);
      Tensor a = random_tensor(type, broadcast_from(ne, random_below(16)), kLayouts[random_below(3)]);
      Tensor b = random_tensor(type, ne, kLayouts[random_below(3)]);
      Tensor y(type, ne);
      KernelCall<SelectParams> call;
      check("select", kernels::select, call, y, {&condition, &a, &b},
            [&](const Index& i) { return condition.get(i).integer != 0 ? a.get(i) : b.get(i); });
    }
  }
}

Number converted(Number x, DType from, DType to) {
  const bool real = is_float(from);
  if (to == DType::Bool) {
    return {0, real ? x.real != 0 : x.integer != 0};
  }
  if (is_float(to)) {
    const float narrow = real ? static_cast<float>(x.real) : static_cast<float>(x.integer);
    const double exact = real ? x.real : static_cast<double>(x.integer);
    return {to == DType::F64   ? exact
            : to == DType::F16 ? double(ggml_fp16_to_fp32(ggml_fp32_to_fp16(narrow)))
            : to == DType::F32 ? double(narrow)
                               : double(ggml_bf16_to_fp32(ggml_fp32_to_bf16(narrow))),
            0};
  }
  int64_t value = x.integer;
  if (real) {
    const bool wide = to == DType::I64 || to == DType::U8;
    const double end = wide ? 0x1p63 : 0x1p31;
    value = x.real >= -end && x.real < end ? static_cast<int64_t>(x.real) : wide ? INT64_MIN : INT32_MIN;
  }
  Tensor one(to, {1, 1, 1, 1});
  one.set({}, {0, value});
  return one.get({});
}

void test_convert() {
  for (const kernels::Isa isa : variants_of_cpu()) {
    kernels::limit_isa(isa);
    for (DType from : kTypes) {
      for (DType to : kTypes) {
        Tensor x = random_tensor(from, {37, 21, 3, 1}, kLayouts[random_below(3)]);
        Tensor y(to, x.ne());
        KernelCall<ConvertParams> call;
        call.params.dtype = to;
        check(format("convert %d to %d", int(from), int(to)), kernels::convert, call, y, {&x},
              [&](const Index& i) { return converted(x.get(i), from, to); });
      }
    }
  }
}

// All halves and all upper halves of floats, with what lies between them.
void test_half_rounding() {
  const int64_t step = stride();
  Tensor x(DType::F32, {(1 << 18) / step, 1, 1, 1});
  for (int64_t i = 0; i < x.t.ne[0]; ++i) {
    const uint32_t bits = static_cast<uint32_t>(i * step) << 14 | (i % 5 == 0 ? 1u : 0u);
    x.put({i, 0, 0, 0}, bits);
  }
  for (DType to : {DType::F16, DType::Bf16}) {
    Tensor y(to, x.ne());
    KernelCall<ConvertParams> call;
    check("round to half", kernels::convert, call, y, {&x},
          [&](const Index& i) { return converted(x.get(i), DType::F32, to); });
    Tensor back(DType::F32, x.ne());
    check("from half", kernels::convert, call, back, {&y}, [&](const Index& i) { return y.get(i); });
  }
}

// --- speed ---

template <class Body>
double nanoseconds(int64_t n, Body body) {
  using Clock = std::chrono::steady_clock;
  double best = 1e300;
  for (int round = 0; round < 7; ++round) {
    constexpr int kRuns = 5;
    const auto begin = Clock::now();
    for (int i = 0; i < kRuns; ++i) {
      body();
    }
    best = std::min(best, std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / kRuns);
  }
  return best / static_cast<double>(n);
}

void bench(const char* name, Kernel kernel, KernelCallBase& call, Tensor& y, std::vector<Tensor*> src) {
  RunStatus status;
  call.status = &status;
  call.dst = y.dtype;
  int64_t bytes = static_cast<int64_t>(ggml_nbytes(&y.t));
  int64_t n = ggml_nelements(&y.t);
  for (size_t i = 0; i < src.size(); ++i) {
    y.t.src[i] = &src[i]->t;
    call.src[i] = src[i]->dtype;
    bytes += static_cast<int64_t>(ggml_nbytes(&src[i]->t));
    n = std::max(n, ggml_nelements(&src[i]->t));
  }
  std::printf("%-34s", name);
  for (const kernels::Isa isa : variants_of_cpu()) {
    kernels::limit_isa(isa);
    const double ns = nanoseconds(n, [&] { kernel(&y.t, 0, 1, &call); });
    std::printf("  %7.3f ns %6.1f GB/s", ns, static_cast<double>(bytes) / (ns * static_cast<double>(n)));
  }
  std::printf("\n");
}

void bench_all() {
  constexpr Sizes kNe = {1536, 128, 1, 1};
  Tensor x(DType::F32, kNe);
  each(kNe, [&](const Index& i) { x.put(i, static_cast<float>(std::normal_distribution<double>(0, 2)(rng))); });
  Tensor y(DType::F32, kNe);
  std::printf("1536 x 128, one thread; per element of the largest tensor: generic, AVX2, AVX-512\n");
  for (const FloatFunction& f : kFloatFunctions) {
    KernelCall<UnaryParams> call;
    call.params.kind = f.kind;
    bench(f.name, f.kernel, call, y, {&x});
  }
  KernelCall<GeluParams> plain;
  bench("gelu (tanh)", kernels::gelu, plain, y, {&x});
  const float* in = static_cast<const float*>(x.t.data);
  float* out = static_cast<float*>(y.t.data);
  const int64_t n = ggml_nelements(&x.t);
  const auto scalar = [&](const char* name, float (*f)(float)) {
    std::printf("scalar %-27s  %7.3f ns\n", name, nanoseconds(n, [&] { std::transform(in, in + n, out, f); }));
  };
  scalar("gelu with erff", [](float v) { return v * 0.5f * (1 + std::erf(v * 0.70710678f)); });
  scalar("silu with expf", [](float v) { return v / (1 + std::exp(-v)); });
  scalar("tanhf", [](float v) { return std::tanh(v); });
  Tensor row = random_tensor(DType::F32, {1536, 1, 1, 1}, Layout::Dense);
  Tensor column = random_tensor(DType::F32, {1, 128, 1, 1}, Layout::Dense);
  bench("add", kernels::add, plain, y, {&x, &x});
  bench("add row", kernels::add, plain, y, {&x, &row});
  bench("add column", kernels::add, plain, y, {&x, &column});
  bench("swiglu_split", kernels::swiglu_split, plain, y, {&x, &x});
  Tensor across = random_tensor(DType::F32, {128, 1536, 1, 1}, Layout::Dense);
  std::swap(across.t.ne[0], across.t.ne[1]);
  std::swap(across.t.nb[0], across.t.nb[1]);
  bench("add transposed", kernels::add, plain, y, {&x, &across});
  Tensor narrow = random_tensor(DType::F32, {12, 128, 128, 1}, Layout::Dense);
  Tensor narrow_row = random_tensor(DType::F32, {12, 1, 1, 1}, Layout::Dense);
  Tensor narrow_y(DType::F32, {12, 128, 128, 1});
  bench("add row of 12", kernels::add, plain, narrow_y, {&narrow, &narrow_row});
  bench("broadcast row", kernels::broadcast, plain, y, {&row});
  Tensor flags = random_tensor(DType::Bool, kNe, Layout::Dense);
  bench("select", kernels::select, plain, y, {&flags, &x, &x});
  KernelCall<BinaryParams> binary;
  binary.params.kind = BinaryKind::Lt;
  bench("less", kernels::binary, binary, flags, {&x, &x});
  binary.params.kind = BinaryKind::Maximum;
  bench("maximum", kernels::binary, binary, y, {&x, &x});
  for (DType type : {DType::F16, DType::Bf16, DType::I64}) {
    Tensor other(type, kNe);
    bench(format("f32 to type %d", int(type)).c_str(), kernels::convert, plain, other, {&x});
    bench(format("type %d to f32", int(type)).c_str(), kernels::convert, plain, y, {&other});
  }
  KernelCall<ReduceParams> reduce;
  for (ReduceKind kind : {ReduceKind::Sum, ReduceKind::Max, ReduceKind::Argmax, ReduceKind::Prod}) {
    for (int axis : {0, 1}) {
      reduce.params = {kind, axes_of(1 << axis)};
      Tensor less(kind == ReduceKind::Argmax ? DType::I64 : DType::F32, broadcast_from(kNe, 1 << axis));
      bench(format("reduce %d over ne[%d]", int(kind), axis).c_str(), kernels::reduce, reduce, less, {&x});
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "--bench") {
    bench_all();
    return 0;
  }
  test_float_functions(mode == "--ulp");
  test_gelu();
  test_unary_layouts();
  test_unary_types();
  test_all_binary();
  test_arithmetic_kernels();
  test_division_by_zero();
  test_select();
  test_convert();
  test_half_rounding();
  std::printf(failures == 0 ? "all kernels agree\n" : "%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
