// Running products, indices of extremes and log-sum-exps along one axis.

#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/kernels.h"
#include "kernels/layout.h"

namespace executorch_ggml::kernels {
namespace {

// One line: steps in bytes.
using ScanFn = void (*)(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t n);

template <class T>
T read(const char* from) {
  return *reinterpret_cast<const T*>(from);
}

// Integers wrap; f32 is multiplied in double.
template <class T>
void products(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t n) {
  using Wide = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
  Wide total = 1;
  for (int64_t i = 0; i < n; ++i) {
    total *= static_cast<Wide>(read<T>(from + i * from_step));
    *reinterpret_cast<T*>(to + i * to_step) = static_cast<T>(total);
  }
}

void log_sum_exps(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t n) {
  double total = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < n; ++i) {
    const double x = read<float>(from + i * from_step);
    const double high = x > total || std::isnan(x) ? x : total;
    const double low = x > total || std::isnan(x) ? total : x;
    total = high == low && std::isinf(high) ? high : high + std::log1p(std::exp(low - high));
    *reinterpret_cast<float*>(to + i * to_step) = static_cast<float>(total);
  }
}

template <class T, bool kMax>
void extremes(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t n) {
  T best = read<T>(from);
  int64_t position = 0;
  for (int64_t i = 0; i < n; ++i) {
    const T x = read<T>(from + i * from_step);
    bool wins = kMax ? x >= best : x <= best;
    if constexpr (std::is_floating_point_v<T>) {
      wins = wins || std::isnan(x);  // nothing compares with a best that is NaN
    }
    if (wins) {
      best = x;
      position = i;
    }
    *reinterpret_cast<int64_t*>(to + i * to_step) = position;
  }
}

template <class T>
ScanFn find_scan(ScanKind kind) {
  switch (kind) {
    case ScanKind::Prod:
      return products<T>;
    case ScanKind::Argmax:
      return extremes<T, true>;
    case ScanKind::Argmin:
      return extremes<T, false>;
    default:
      return log_sum_exps;
  }
}

ScanFn find_scan(ScanKind kind, ggml_type type) {
  switch (type) {
    case GGML_TYPE_I32:
      return find_scan<int32_t>(kind);
    case GGML_TYPE_I64:
      return find_scan<int64_t>(kind);
    default:
      return find_scan<float>(kind);
  }
}

}  // namespace

void scan(ggml_tensor* dst, int ith, int nth, void* call) {
  const auto& params = as_call<ScanParams>(call).params;
  const ggml_tensor* a = dst->src[0];
  const ScanFn line = find_scan(params.kind, a->type);
  int64_t ne[4];
  for (int d = 0; d < 4; ++d) {
    ne[d] = d == params.axis ? 1 : dst->ne[d];
  }
  Walk walk(ne);
  walk.add(dst);
  walk.add(a);
  const int64_t to_step = static_cast<int64_t>(dst->nb[params.axis]);
  const int64_t from_step = static_cast<int64_t>(a->nb[params.axis]);
  Runs runs(walk, {walk.count * ith / nth, walk.count * (ith + 1) / nth});
  while (runs.next()) {
    for (int64_t i = 0; i < runs.n; ++i) {
      line(runs.at[0] + i * walk.stride[0][0], to_step, runs.at[1] + i * walk.stride[1][0], from_step,
           dst->ne[params.axis]);
    }
  }
}

}  // namespace executorch_ggml::kernels
