// The reductions, and the kernels that move or make elements, against naive loops: all sets of axes, kinds of strides
// and element types, several threads, each instruction set that this CPU has. Exits with 1 on any difference.
#include <cmath>
#include <cstdio>
#include <limits>

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
  int64_t place = -1;
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
    if (place < 0 || first) {
      best = n;
      place = k;
    }
    ++k;
  });
  const auto wrapped = [&](uint64_t v) {
    return x.dtype == DType::I32 ? static_cast<int32_t>(v) : static_cast<int64_t>(v);
  };
  if (max || min) {
    return index ? Number{0, place} : best;
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
  int turn = 0;
  for (const Sizes& ne : kReduced) {
    for (int mask = 1; mask < 16; ++mask) {
      for (int k = 0; k <= kReduceKindMax; ++k) {
        kernels::limit_isa(static_cast<kernels::Isa>(turn++ % 3));
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

void test_movement() {
  for (DType type : kTypes) {
    for (const Sizes& ne : kShapes) {
      Tensor a = random_tensor(type, broadcast_from(ne, random_below(16)), kLayouts[random_below(3)]);
      Tensor y(type, ne);
      KernelCall<BroadcastParams> broadcast;
      check("broadcast", kernels::broadcast, broadcast, y, {&a}, [&](const Index& i) { return a.get(i); });

      KernelCall<ConcatParams> concat;
      const int64_t dim = concat.params.dim = random_below(4);
      Sizes more = ne;
      more[dim] = random_below(5);
      Tensor first = random_tensor(type, ne, kLayouts[random_below(3)]);
      Tensor second = random_tensor(type, more, kLayouts[random_below(3)]);
      Sizes both = ne;
      both[dim] += more[dim];
      Tensor z(type, both);
      check("concat", kernels::concat, concat, z, {&first, &second}, [&](Index i) {
        if (i[dim] < ne[dim]) {
          return first.get(i);
        }
        i[dim] -= ne[dim];
        return second.get(i);
      });
    }
  }
}

void test_made_tensors() {
  for (const Sizes& ne : kShapes) {
    for (DType type : kTypes) {
      Tensor y(type, ne);
      KernelCall<FillParams> fill;
      fill.params = {ne, -2.5f, 7, type};
      check("fill", kernels::fill, fill, y, {},
            [&](const Index&) { return is_float(type) ? Number{-2.5, 0} : Number{0, type == DType::Bool ? 1 : 7}; });
    }
    for (DType type : {DType::F32, DType::I32, DType::I64}) {
      Tensor y(type, ne);
      KernelCall<IotaParams> iota;
      iota.params = {ne, -5, 3, type};
      check("iota", kernels::iota, iota, y, {},
            [](const Index& i) { return Number{double(-5 + 3 * i[0]), -5 + 3 * i[0]}; });
    }
  }
}

void test_to_index(bool wrap) {
  const int64_t least = wrap ? -11 : 0;
  for (DType type : {DType::I32, DType::I64}) {
    for (int64_t odd : {int64_t(0), int64_t(-100), int64_t(11), int64_t(-12), INT64_MIN, INT64_MAX}) {
      Tensor x(type, {50, 3, 1, 1}, Layout::Permuted);
      each(x.ne(), [&](const Index& i) { x.set(i, {0, random_below(11 - least) + least}); });
      x.set({17, 1, 0, 0}, {0, odd});
      const int64_t stored = x.get({17, 1, 0, 0}).integer;
      const bool fails = stored < least || stored >= 11;
      Tensor y(DType::I32, x.ne());
      KernelCall<ToIndexParams> call;
      call.params.size = 11;
      call.params.wrap = wrap;
      check(
          "to_index", kernels::to_index, call, y, {&x},
          [&](const Index& i) {
            const int64_t v = x.get(i).integer;
            return Number{0, v < least || v >= 11 ? 0 : v < 0 ? v + 11 : v};
          },
          0, fails);
    }
  }
}

}  // namespace

int main() {
  test_reduce();
  test_movement();
  test_made_tensors();
  test_to_index(/*wrap=*/false);
  test_to_index(/*wrap=*/true);
  std::printf(failures == 0 ? "all kernels agree\n" : "%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
