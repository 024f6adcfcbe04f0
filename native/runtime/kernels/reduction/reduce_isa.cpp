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

template <class Op>
void lanes(const void* from, int64_t n, void* to) {
  const float* x = static_cast<const float*>(from);
  double* acc = static_cast<double*>(to);
  int64_t i = 0;
  for (; i + kWideLanes <= n; i += kWideLanes) {
    store(acc + i, Op::at(load<Double>(acc + i), widened(x + i)));
  }
  for (; i < n; ++i) {
    acc[i] = Op::at(acc[i], static_cast<double>(x[i]));
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
