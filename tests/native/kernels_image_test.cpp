// pool_2d and interpolate against loops as plain as can be, on every instruction set that this CPU has. With --bench:
// their speed on layers of well-known networks.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "kernels/convolution/convolution.h"
#include "kernels/kernels.h"
#include "kernels/simd/isa.h"

#include "convolution_cases.h"
#include "kernel_timing.h"

namespace executorch_ggml {
namespace {

void test_pool(const ConvCase& c, PoolKind kind, int64_t divisor = 0, float odd_value = 0.0f) {
  const ConvParams w = c.params();
  Pool2dNhwcParams p = {{c.x[0], w.ne[1], w.ne[2], c.x[3]}, kind, w.window, divisor};
  std::vector<float> x = random_floats(count(c.x), 2.0f);
  for (size_t i = 3; odd_value != 0.0f && i < x.size(); i += 37) {
    x[i] = odd_value;
  }
  Expected expected;
  for (int64_t at = 0; at < count(p.ne); ++at) {
    const int64_t channel = at % p.ne[0];
    const int64_t ox = at / p.ne[0] % p.ne[1];
    const int64_t oy = at / p.ne[0] / p.ne[1] % p.ne[2];
    const int64_t n = at / p.ne[0] / p.ne[1] / p.ne[2];
    double best = -static_cast<double>(kInf);
    double sum = 0.0;
    double size = 0.0;
    int64_t counted = 0;
    for (int64_t ky = 0; ky < p.window.h.kernel; ++ky) {
      for (int64_t kx = 0; kx < p.window.w.kernel; ++kx) {
        const int64_t iy = oy * p.window.h.stride - p.window.h.pad + ky * p.window.h.dilation;
        const int64_t ix = ox * p.window.w.stride - p.window.w.pad + kx * p.window.w.dilation;
        const bool inside = iy >= 0 && ix >= 0 && iy < c.x[2] && ix < c.x[1];
        counted += kind == PoolKind::AvgPad ? iy < c.x[2] + p.window.h.pad && ix < c.x[1] + p.window.w.pad : inside;
        if (inside) {
          const auto v =
              static_cast<double>(x[static_cast<size_t>(((n * c.x[2] + iy) * c.x[1] + ix) * c.x[0] + channel)]);
          best = std::isnan(v) || std::isnan(best) ? static_cast<double>(NAN) : std::max(best, v);
          sum += v;
          size += std::fabs(v);
        }
      }
    }
    expected.value.push_back(kind == PoolKind::Max ? best
                                                   : sum / static_cast<double>(divisor != 0 ? divisor : counted));
    expected.size.push_back(kind == PoolKind::Max ? 0.0 : size);
  }
  Call<Pool2dNhwcParams> call(kernels::pool_2d, p, c.x, x, {}, {});
  check(call, expected, "pool_2d kind " + std::to_string(int(kind)) + " " + c.name());
}

void test_pools() {
  for (PoolKind kind : {PoolKind::Max, PoolKind::Avg, PoolKind::AvgPad}) {
    for (int64_t channels : {1, 3, 16, 67, 130}) {
      test_pool({{channels, 9, 8, 2}, channels, 3, 2, 1}, kind);
      test_pool({{channels, 7, 7, 1}, channels, 7}, kind);
    }
    for (int64_t extra : {0, 1, 4}) {
      test_pool({{20, 9, 8, 2}, 20, 2, 3, 1, 2, 1, 1, Activation::None, true, 3, 1, 0, 1, 0, extra}, kind);
    }
    test_pool({{40, 9, 8, 1}, 40, 3, 1, 1}, kind, 5);
    for (float odd_value : {NAN, kInf}) {
      test_pool({{21, 9, 8, 1}, 21, 3, 1, 1}, kind, 0, odd_value);
    }
  }
}

// Linear interpolation between two input pixels along one axis; source coordinates are f32, as in torch.
struct Place {
  int64_t first, second;
  double share;

  Place(ScaleMode mode, int64_t pixel, int64_t size, int64_t out) {
    const auto at = static_cast<float>(pixel);
    float place = at * (static_cast<float>(size) / static_cast<float>(out));
    if (mode == ScaleMode::Bilinear) {
      place = std::max(static_cast<float>(size) / static_cast<float>(out) * (at + 0.5f) - 0.5f, 0.0f);
    } else if (mode == ScaleMode::BilinearAlignCorners) {
      place = out > 1 ? at * (static_cast<float>(size - 1) / static_cast<float>(out - 1)) : 0.0f;
    }
    first = std::min(static_cast<int64_t>(place), size - 1);
    second = std::min(first + 1, size - 1);
    share = mode == ScaleMode::Nearest ? 0.0 : static_cast<double>(place) - static_cast<double>(first);
  }
};

void test_interpolation(const std::array<int64_t, 4>& x_ne, int64_t width, int64_t height, ScaleMode mode) {
  const InterpolateNhwcParams p = {{x_ne[0], width, height, x_ne[3]}, mode};
  const std::vector<float> x = random_floats(count(x_ne), 2.0f);
  Expected expected;
  for (int64_t at = 0; at < count(p.ne); ++at) {
    const int64_t channel = at % p.ne[0];
    const Place across(mode, at / p.ne[0] % width, x_ne[1], width);
    const Place down(mode, at / p.ne[0] / width % height, x_ne[2], height);
    const int64_t image = at / p.ne[0] / width / height;
    const auto pixel = [&](int64_t px, int64_t py) {
      return static_cast<double>(x[static_cast<size_t>(((image * x_ne[2] + py) * x_ne[1] + px) * x_ne[0] + channel)]);
    };
    const auto row = [&](int64_t py) {
      return pixel(across.first, py) * (1.0 - across.share) + pixel(across.second, py) * across.share;
    };
    expected.value.push_back(row(down.first) * (1.0 - down.share) + row(down.second) * down.share);
    expected.size.push_back(mode == ScaleMode::Nearest ? 0.0 : 8.0);
  }
  Call<InterpolateNhwcParams> call(kernels::interpolate, p, x_ne, x, {}, {});
  char name[128];
  std::snprintf(name, sizeof(name), "interpolate x %d,%d,%d,%d to %d,%d mode %d", int(x_ne[0]), int(x_ne[1]),
                int(x_ne[2]), int(x_ne[3]), int(width), int(height), int(mode));
  check(call, expected, name);
}

void test_interpolations() {
  for (ScaleMode mode : {ScaleMode::Nearest, ScaleMode::Bilinear, ScaleMode::BilinearAlignCorners}) {
    for (int64_t channels : {1, 3, 8, 16, 37, 64}) {
      test_interpolation({channels, 7, 5, 2}, 14, 10, mode);
      test_interpolation({channels, 7, 5, 1}, 7, 9, mode);
      test_interpolation({channels, 6, 9, 1}, 3, 4, mode);
      test_interpolation({channels, 1, 1, 3}, 5, 1, mode);
      test_interpolation({channels, 8, 6, 1}, 1, 1, mode);
    }
    test_interpolation({16, 5, 4, 0}, 10, 8, mode);
    test_interpolation({0, 5, 4, 1}, 10, 8, mode);
  }
}

void test_empty() {
  for (std::array<int64_t, 4> x : {std::array<int64_t, 4>{8, 5, 5, 0}, {8, 0, 5, 1}, {8, 5, 0, 1}, {8, 0, 0, 0}}) {
    ConvCase c = {x, 20, 3, 1, 1};
    test_pool(c, PoolKind::Max);
    c.pad = 3;  // an output of padding alone
    test_pool(c, PoolKind::Max);
    test_pool(c, PoolKind::AvgPad);
  }
}

void bench_pool(const char* name, const ConvCase& c, PoolKind kind) {
  const ConvParams w = c.params();
  const Pool2dNhwcParams p = {{c.x[0], w.ne[1], w.ne[2], c.x[3]}, kind, w.window, 0};
  Call<Pool2dNhwcParams> call(kernels::pool_2d, p, c.x, random_floats(count(c.x)), {}, {});
  const double reads = static_cast<double>(count(p.ne) * p.window.w.kernel * p.window.h.kernel);
  std::printf("%-28s", name);
  for (int threads : {1, 2}) {
    const double t = time_call(call, threads, 1e7);
    std::printf("  %8.3f ms %6.1f G/s    ", t * 1e3, reads / t * 1e-9);
  }
  std::printf("\n");
}

void bench_interpolation(const char* name, const std::array<int64_t, 4>& x_ne, ScaleMode mode) {
  const InterpolateNhwcParams p = {{x_ne[0], 2 * x_ne[1], 2 * x_ne[2], x_ne[3]}, mode};
  Call<InterpolateNhwcParams> call(kernels::interpolate, p, x_ne, random_floats(count(x_ne)), {}, {});
  std::printf("%-28s", name);
  for (int threads : {1, 2}) {
    const double t = time_call(call, threads, 1e7);
    std::printf("  %8.3f ms %6.1f G/s    ", t * 1e3, static_cast<double>(count(p.ne)) / t * 1e-9);
  }
  std::printf("\n");
}

void bench() {
  bench_pool("max 3x3/2 64 112", {{64, 112, 112, 1}, 64, 3, 2, 1}, PoolKind::Max);
  bench_pool("avg 7x7 512", {{512, 7, 7, 1}, 512, 7}, PoolKind::Avg);
  bench_interpolation("nearest 16 64", {16, 64, 64, 1}, ScaleMode::Nearest);
  bench_interpolation("bilinear 32 32", {32, 32, 32, 1}, ScaleMode::Bilinear);
}

}  // namespace
}  // namespace executorch_ggml

int main(int argc, char** argv) {
  using namespace executorch_ggml;
  return bench_or_test(argc, argv, bench, {test_empty, test_pools, test_interpolations});
}
