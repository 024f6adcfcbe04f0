// Elements by index along one axis, for any element type.

#include "kernels/indexing/index.h"
#include "kernels/layout.h"

namespace executorch_ggml::kernels {
namespace {

constexpr int64_t kBlock = 256;  // indices checked at once

template <class T>
void take_each(char* to, const char* from, int64_t from_step, const int64_t* offset, int64_t n) {
  T* y = reinterpret_cast<T*>(to);
  for (int64_t i = 0; i < n; ++i) {
    y[i] = *reinterpret_cast<const T*>(from + i * from_step + offset[i]);
  }
}

void take_each(int64_t item, char* to, const char* from, int64_t from_step, const int64_t* offset, int64_t n) {
  switch (item) {
    case 1:
      return take_each<uint8_t>(to, from, from_step, offset, n);
    case 2:
      return take_each<uint16_t>(to, from, from_step, offset, n);
    case 4:
      return take_each<uint32_t>(to, from, from_step, offset, n);
    default:
      return take_each<uint64_t>(to, from, from_step, offset, n);
  }
}

}  // namespace

void take(ggml_tensor* dst, int ith, int nth, void* call) {
  const auto& self = as_call<TakeParams>(call);
  const ggml_tensor* a = dst->src[0];
  const ggml_tensor* index = dst->src[1];
  const int64_t axis = self.params.axis;
  const int64_t size = a->ne[axis];
  const int64_t step = static_cast<int64_t>(a->nb[axis]);
  const int64_t item = item_size(dst);
  int64_t steps[4];
  for (int d = 0; d < 4; ++d) {
    steps[d] = d == axis ? 0 : static_cast<int64_t>(a->nb[d]);
  }
  Walk walk(dst->ne);
  walk.add(dst);
  walk.add(a->data, steps);
  walk.add(index);
  walk.collapse();
  const IndexReader reader(self, index, size, self.params.wrap);
  Runs runs(walk, share(walk.count, ith, nth));
  while (runs.next()) {
    const int64_t from_step = walk.stride[1][0];
    const int64_t index_step = walk.stride[2][0];
    if (index_step == 0) {
      const int64_t position = reader.at(runs.at[2]);
      if (position < 0) {
        return;
      }
      copy_elements(runs.at[0], item, runs.at[1] + position * step, from_step, runs.n, item);
      continue;
    }
    int64_t offset[kBlock];
    for (int64_t i = 0; i < runs.n; i += kBlock) {
      const int64_t n = std::min(kBlock, runs.n - i);
      for (int64_t k = 0; k < n; ++k) {
        const int64_t position = reader.at(runs.at[2] + (i + k) * index_step);
        if (position < 0) {
          return;
        }
        offset[k] = position * step;
      }
      take_each(item, runs.at[0] + i * item, runs.at[1] + i * from_step, from_step, offset, n);
    }
  }
}

}  // namespace executorch_ggml::kernels
