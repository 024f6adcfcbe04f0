#include "kernels/reduction/reduce_table.h"
#include "kernels/simd/vec.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

// Each takes an accumulator and an element, or vectors of them. The accumulator begins as the identity.
struct Sum {
  static constexpr double kIdentity = 0.0;
  template <class V>
  static VEC_INLINE V at(V acc, V x) {
    return acc + x;
  }
};

struct Prod {
  static constexpr double kIdentity = 1.0;
  template <class V>
  static VEC_INLINE V at(V acc, V x) {
    return acc * x;
  }
};

struct Max {
  static constexpr double kIdentity = -__builtin_inf();
  template <class V>
  static VEC_INLINE V at(V acc, V x) {
    return ((x > acc) | (x != x)) ? x : acc;  // nothing is greater than a NaN in acc
  }
};

struct Min {
  static constexpr double kIdentity = __builtin_inf();
  template <class V>
  static VEC_INLINE V at(V acc, V x) {
    return ((x < acc) | (x != x)) ? x : acc;
  }
};

struct Any {
  static constexpr double kIdentity = 0.0;
  template <class V>
  static VEC_INLINE V at(V acc, V x) {
    return ((x != 0.0) | (acc != 0.0)) ? V{} + 1.0 : V{};
  }
};

struct All {
  static constexpr double kIdentity = 1.0;
  template <class V>
  static VEC_INLINE V at(V acc, V x) {
    return ((x != 0.0) & (acc != 0.0)) ? V{} + 1.0 : V{};
  }
};

VEC_INLINE Double widened(const float* from) { return __builtin_convertvector(load<HalfFloat>(from), Double); }

template <class Op>
void row(const void* from, int64_t n, void* to) {
  constexpr int kChains = 4;  // independent ones, as one waits for its last result
  const float* x = static_cast<const float*>(from);
  Double acc[kChains];
  for (Double& chain : acc) {
    chain = Double{} + Op::kIdentity;
  }
  int64_t i = 0;
  for (; i + kChains * kWideLanes <= n; i += kChains * kWideLanes) {
    for (int c = 0; c < kChains; ++c) {
      acc[c] = Op::at(acc[c], widened(x + i + c * kWideLanes));
    }
  }
  for (; i + kWideLanes <= n; i += kWideLanes) {
    acc[0] = Op::at(acc[0], widened(x + i));
  }
  const Double all = Op::at(Op::at(acc[0], acc[1]), Op::at(acc[2], acc[3]));
  double result = *static_cast<double*>(to);
  for (int lane = 0; lane < kWideLanes; ++lane) {
    result = Op::at(result, static_cast<double>(all[lane]));
  }
  for (; i < n; ++i) {
    result = Op::at(result, static_cast<double>(x[i]));
  }
  *static_cast<double*>(to) = result;
}

// Some columns of a matrix, whose accumulators stay in registers.
template <class Op, int Vectors>
VEC_INLINE void columns(const char* from, int64_t rows, int64_t stride, double* to) {
  Double acc[Vectors];
  VEC_UNROLL
  for (int v = 0; v < Vectors; ++v) acc[v] = load<Double>(to + v * kWideLanes);
  for (int64_t r = 0; r < rows; ++r, from += stride) {
    const auto* x = reinterpret_cast<const float*>(from);
    VEC_UNROLL
    for (int v = 0; v < Vectors; ++v) acc[v] = Op::at(acc[v], widened(x + v * kWideLanes));
  }
  VEC_UNROLL
  for (int v = 0; v < Vectors; ++v) store(to + v * kWideLanes, acc[v]);
}

template <class Op>
void lanes(const void* from, int64_t n, int64_t rows, int64_t stride, void* to) {
  constexpr int kVectors = 8;
  const auto* x = static_cast<const char*>(from);
  double* acc = static_cast<double*>(to);
  const auto at = [x](int64_t i) { return x + i * static_cast<int64_t>(sizeof(float)); };
  int64_t i = 0;
  for (; i + kVectors * kWideLanes <= n; i += kVectors * kWideLanes) {
    columns<Op, kVectors>(at(i), rows, stride, acc + i);
  }
  for (; i + kVectors / 2 * kWideLanes <= n; i += kVectors / 2 * kWideLanes) {
    columns<Op, kVectors / 2>(at(i), rows, stride, acc + i);
  }
  for (; i + kWideLanes <= n; i += kWideLanes) columns<Op, 1>(at(i), rows, stride, acc + i);
  for (; i < n; ++i) {
    for (int64_t r = 0; r < rows; ++r) {
      acc[i] = Op::at(acc[i], static_cast<double>(*reinterpret_cast<const float*>(at(i) + r * stride)));
    }
  }
}

template <class Op, bool kIsBuilt>
constexpr Reducer reducer() {
  if constexpr (kIsBuilt) return {row<Op>, lanes<Op>};
  return {};
}

}  // namespace

const ReduceTable& float_reducers() {
  // In the order of the members.
  static constexpr ReduceTable kTable = {reducer<Sum, kReducesBySum>(),
                                         reducer<Prod, is_built(ReduceKind::Prod)>(),
                                         reducer<Max, kReducesByMax>(),
                                         reducer<Min, kReducesByMin>(),
                                         reducer<Any, is_built(ReduceKind::Any)>(),
                                         reducer<All, is_built(ReduceKind::All)>()};
  return kTable;
}

}  // namespace executorch_ggml::kernels::KERNEL_ISA
