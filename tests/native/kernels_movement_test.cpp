// The kernels that move or fill elements against naive loops: kinds of strides and element types, several threads.
// Exits with 1 on any difference.
#include <cstdio>

#include "kernel_check.h"
#include "kernels/kernels.h"

using namespace executorch_ggml;           // NOLINT: the code under test
using namespace executorch_ggml::testing;  // NOLINT

namespace {

void test_broadcast_and_concat() {
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

// Images from planes to channels innermost, and back: some, of three channels too, are not a multiple of four pixels.
void test_transposes() {
  for (DType type : {DType::F32, DType::I32, DType::F16, DType::U8}) {
    for (int64_t channels : {2, 3, 4, 5, 7, 16, 33}) {
      for (int64_t pixels : {1, 3, 4, 13, 64, 67, 150}) {
        for (const Sizes& ne : {Sizes{channels, pixels, 2, 1}, Sizes{pixels, channels, 3, 1}}) {
          Tensor x = random_tensor(type, ne, Layout::Permuted);
          Tensor y(type, ne);
          KernelCall<BroadcastParams> call;
          check("transpose", kernels::broadcast, call, y, {&x}, [&](const Index& i) { return x.get(i); });
        }
      }
    }
  }
}

void test_fill_and_iota() {
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
  test_broadcast_and_concat();
  test_transposes();
  test_fill_and_iota();
  test_to_index(/*wrap=*/false);
  test_to_index(/*wrap=*/true);
  std::printf(failures == 0 ? "movement: all as expected\n" : "movement: %d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
