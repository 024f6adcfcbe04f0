// The reductions against naive loops: all sets of axes, kinds of strides and element types, several threads, each
// instruction set that this CPU has. Exits with 1 on any difference.
#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

#include "instruction_sets.h"
#include "kernel_check.h"
#include "kernels/kernels.h"
#include "kernels/simd/isa.h"

using namespace executorch_ggml;           // NOLINT: the code under test
using namespace executorch_ggml::testing;  // NOLINT

namespace {

Number reduce_oracle(ReduceKind kind, const Tensor& x, const Ints& axes, Index i) {
  const bool real = x.dtype == DType::F32;
  const bool index = kind == ReduceKind::Argmax || kind == ReduceKind::Argmin;
  const bool max = kind == ReduceKind::Max || kind == ReduceKind::Argmax;
  const bool min = kind == ReduceKind::Min || kind == ReduceKind::Argmin;
  Sizes ne = {1, 1, 1, 1};
  int64_t count = 1;
  for (int a = 0; a < axes.size; ++a) {
    ne[axes[a]] = x.t.ne[axes[a]];
    count *= ne[axes[a]];
  }
  long double sum = 0;
  long double product = 1;
  uint64_t isum = 0;
  uint64_t iproduct = 1;
  Number best;
  int64_t position = -1;
  int64_t k = 0;
  bool any = false;
  bool all = true;
  each(ne, [&](const Index& j) {
    const Number n = x.get({i[0] + j[0], i[1] + j[1], i[2] + j[2], i[3] + j[3]});
    sum += n.real;
    product *= n.real;
    isum += static_cast<uint64_t>(n.integer);
    iproduct *= static_cast<uint64_t>(n.integer);
    const bool set = real ? n.real != 0 : n.integer != 0;
    any = any || set;
    all = all && set;
    const bool first =
        real ? (max ? n.real > best.real : n.real < best.real) || (std::isnan(n.real) && !std::isnan(best.real))
             : (max ? n.integer > best.integer : n.integer < best.integer);
    if (position < 0 || first) {
      best = n;
      position = k;
    }
    ++k;
  });
  const auto wrapped = [&](uint64_t v) {
    return x.dtype == DType::I32 ? static_cast<int32_t>(v) : static_cast<int64_t>(v);
  };
  if (max || min) {
    return index ? Number{0, position} : best;
  }
  switch (kind) {
    case ReduceKind::Sum:
      return {static_cast<double>(sum), wrapped(isum)};
    case ReduceKind::Mean:
      return {static_cast<double>(sum / count), 0};
    case ReduceKind::Prod:
      return {static_cast<double>(product), wrapped(iproduct)};
    case ReduceKind::Any:
      return {0, any};
    default:
      return {0, all};
  }
}

void test_reduction(ReduceKind kind, DType type, const Sizes& ne, int mask) {
  if (!is_sampled()) return;
  const bool index = kind == ReduceKind::Argmax || kind == ReduceKind::Argmin;
  const bool extreme = index || kind == ReduceKind::Max || kind == ReduceKind::Min;
  Tensor x = random_tensor(type, ne, kLayouts[random_below(3)]);
  const bool sums = kind == ReduceKind::Sum || kind == ReduceKind::Mean || kind == ReduceKind::Prod;
  each(ne, [&](const Index& i) {  // cancellation, overflow and so many NaN would hide errors
    if (type == DType::F32 && (sums || random_below(3) != 0)) {
      x.put(i, static_cast<float>(1 + random_below(1000)) / 700);
    }
  });
  Sizes out = ne;
  KernelCall<ReduceParams> call;
  call.params = {kind, axes_of(mask)};
  int64_t count = 1;
  for (int a = 0; a < call.params.axes.size; ++a) {
    out[call.params.axes[a]] = 1;
    count *= ne[call.params.axes[a]];
  }
  if (kind == ReduceKind::Prod && type == DType::F32 && count > 100) {
    return;
  }
  const bool flags = kind == ReduceKind::Any || kind == ReduceKind::All;
  Tensor y(index ? DType::I64 : flags ? DType::Bool : type, out);
  const bool fails = extreme && count == 0 && ggml_nelements(&y.t) > 0;
  check(
      format("reduce %d of type %d, axes %d", int(kind), int(type), mask), kernels::reduce, call, y, {&x},
      [&](const Index& i) { return fails ? Number{} : reduce_oracle(kind, x, call.params.axes, i); }, 0.51, fails);
}

void test_reduce() {
  constexpr Sizes kReduced[] = {{1, 1, 1, 1},   {700, 3, 1, 2}, {5, 40, 3, 2}, {300, 19, 2, 2},
                                {9, 2, 600, 1}, {0, 3, 2, 1},   {20, 0, 2, 1}, {16, 16, 5, 3}};
  const std::vector<kernels::Isa> isas = variants_of_cpu();
  size_t turn = 0;
  for (const Sizes& ne : kReduced) {
    for (int mask = 1; mask < 16; ++mask) {
      for (int k = 0; k <= kReduceKindMax; ++k) {
        kernels::limit_isa(isas[turn++ % isas.size()]);
        const ReduceKind kind = static_cast<ReduceKind>(k);
        if (kind >= ReduceKind::Argmax && (mask & (mask - 1)) != 0) {
          continue;
        }
        test_reduction(kind, DType::F32, ne, mask);
        if (kind != ReduceKind::Mean) {
          test_reduction(kind, turn % 2 == 0 ? DType::I32 : DType::I64, ne, mask);
        }
        if (kind == ReduceKind::Any || kind == ReduceKind::All) {
          test_reduction(kind, DType::Bool, ne, mask);
        }
      }
    }
  }
  kernels::limit_isa(kernels::best_isa());
}

}  // namespace

int main() {
  test_reduce();
  std::printf(failures == 0 ? "reductions: all as expected\n" : "reductions: %d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
