#include "kernels/partition.h"

#include <algorithm>

namespace executorch_ggml::kernels {

Range share(int64_t count, int ith, int nth, int64_t grain) {
  constexpr int64_t kUnit = 64;
  const int64_t part = std::max(grain, ceil_div(ceil_div(count, nth), kUnit) * kUnit);
  return {std::min(count, part * ith), std::min(count, part * (ith + 1))};
}

}  // namespace executorch_ggml::kernels
