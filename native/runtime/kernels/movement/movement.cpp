// Kernels that move or fill elements without computing on them.
#include <algorithm>
#include <cstring>

#include "kernels/elementwise/convert.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/kernels.h"

namespace executorch_ggml::kernels {

namespace {

char* bytes(ggml_tensor* tensor) { return static_cast<char*>(tensor->data); }

constexpr int64_t kChunk = 16;       // bytes
constexpr int64_t kShortRow = 1024;  // bytes

// Where each run along dim 0 begins.
Walk without_first_dim(const Walk& walk) {
  Walk starts(walk);
  --starts.dims;
  starts.count = walk.count / walk.ne[0];
  std::copy(walk.ne + 1, walk.ne + walk.dims, starts.ne);
  for (int i = 0; i < walk.operands; ++i) {
    std::copy(walk.stride[i] + 1, walk.stride[i] + walk.dims, starts.stride[i]);
  }
  return starts;
}

// A source that is dense along dim 1, not along dim 0: some elements along dim 1 at a time, for all of dim 0, so that
// the cache lines that are read and those that are written are used whole.
void copy_transposed(const Walk& walk, int ith, int nth, int64_t item) {
  constexpr int64_t kTile = 64;
  constexpr int64_t kShare = 2048;  // elements of a thread, at least
  const Walk starts = without_first_dim(walk);
  Runs runs(starts, share(starts.count, ith, nth, ceil_div(kShare, walk.ne[0])));
  while (runs.next()) {
    for (int64_t done = 0; done < runs.n; done += kTile) {
      char* to = runs.at[0] + done * starts.stride[0][0];
      const char* from = runs.at[1] + done * item;
      for (int64_t row = 0; row < walk.ne[0]; ++row) {
        copy_elements(to + row * walk.stride[0][0], starts.stride[0][0], from + row * walk.stride[1][0], item,
                      std::min(kTile, runs.n - done), item);
      }
    }
  }
}

// Rows of some multiple of 16 bytes, too short for calls of memcpy.
void copy_short_rows(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t rows, int64_t bytes) {
  for (int64_t row = 0; row < rows; ++row, to += to_step, from += from_step) {
    for (int64_t i = 0; i < bytes; i += kChunk) std::memcpy(to + i, from + i, kChunk);
  }
}

// Dense rows along dim 0, the same number of bytes in both operands.
void copy_rows(const Walk& walk, int ith, int nth, int64_t bytes) {
  constexpr int64_t kShare = 2048;  // elements of a thread, at least
  const Walk starts = without_first_dim(walk);
  Runs runs(starts, share(starts.count, ith, nth, ceil_div(kShare, walk.ne[0])));
  while (runs.next()) {
    copy_short_rows(runs.at[0], starts.stride[0][0], runs.at[1], starts.stride[1][0], runs.n, bytes);
  }
}

// src into the part of dst that begins `offset` bytes in.
void copy_into(ggml_tensor* dst, int64_t offset, const ggml_tensor* src, int ith, int nth) {
  Walk walk(src->ne);
  int64_t strides[4];
  for (int d = 0; d < 4; ++d) {
    strides[d] = static_cast<int64_t>(dst->nb[d]);
  }
  walk.add(bytes(dst) + offset, strides);
  walk.add(src);
  walk.collapse();
  const int64_t item = item_size(src);
  if (walk.count > 0 && walk.dims > 1 && walk.stride[1][0] != item && walk.stride[1][1] == item) {
    return copy_transposed(walk, ith, nth, item);
  }
  const int64_t row = walk.ne[0] * item;
  const bool in_rows = walk.count > 0 && walk.dims > 1 && walk.stride[0][0] == item && walk.stride[1][0] == item;
  if (in_rows && row <= kShortRow && row % kChunk == 0) return copy_rows(walk, ith, nth, row);
  Runs runs(walk, share(walk.count, ith, nth));
  while (runs.next()) {
    copy_elements(runs.at[0], walk.stride[0][0], runs.at[1], walk.stride[1][0], runs.n, item);
  }
}

template <class T>
void index_run(void* dst, const void* const* src, int64_t n, const void* context) {
  const auto& call = *static_cast<const KernelCall<ToIndexParams>*>(context);
  const int64_t size = call.params.size;
  const T* x = static_cast<const T*>(src[0]);
  int32_t* y = static_cast<int32_t*>(dst);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t value = x[i];
    const int64_t index = value < 0 && call.params.wrap ? value + size : value;
    const bool inside = index >= 0 && index < size;
    y[i] = inside ? static_cast<int32_t>(index) : 0;  // in range: nodes after this one still run
    if (!inside) {
      call.status->fail("%s: index %lld is out of range for size %lld", call.node, static_cast<long long>(value),
                        static_cast<long long>(size));
    }
  }
}

}  // namespace

void broadcast(ggml_tensor* dst, int ith, int nth, void*) {
  Walk walk(dst->ne);
  walk.add(dst->src[0]);
  walk.collapse();
  const int64_t item = item_size(dst);
  const Range range = share(walk.count, ith, nth);
  gather(walk, range, bytes(dst) + range.begin * item, item);
}

void concat(ggml_tensor* dst, int ith, int nth, void* call) {
  const int64_t dim = as_call<ConcatParams>(call).params.dim;
  const ggml_tensor* a = dst->src[0];
  copy_into(dst, 0, a, ith, nth);
  copy_into(dst, a->ne[dim] * static_cast<int64_t>(dst->nb[dim]), dst->src[1], ith, nth);
}

void to_index(ggml_tensor* dst, int ith, int nth, void* call) {
  const MapFn fn = dst->src[0]->type == GGML_TYPE_I64 ? index_run<int64_t> : index_run<int32_t>;
  run_elementwise(dst, 1, {fn}, &as_call<ToIndexParams>(call), ith, nth);
}

void iota(ggml_tensor* dst, int ith, int nth, void* call) {
  constexpr int64_t kBlock = 512;
  const auto& c = as_call<IotaParams>(call);
  const Range range = share(ggml_nelements(dst), ith, nth);
  int64_t block[kBlock];
  for (int64_t begin = range.begin; begin < range.end; begin += kBlock) {
    const int64_t n = std::min(kBlock, range.end - begin);
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t column = static_cast<uint64_t>((begin + i) % dst->ne[0]);
      block[i] = static_cast<int64_t>(static_cast<uint64_t>(c.params.start) +
                                      static_cast<uint64_t>(c.params.step) * column);  // wraps
    }
    from_integers(block, n, c.dst, bytes(dst) + begin * item_size(dst));
  }
}

void fill(ggml_tensor* dst, int ith, int nth, void* call) {
  const auto& c = as_call<FillParams>(call);
  const Range range = share(ggml_nelements(dst), ith, nth);
  if (range.empty()) {
    return;
  }
  alignas(8) char element[8];
  if (is_real(c.dst)) {
    const double value = c.params.value;
    from_reals(&value, 1, c.dst, element);
  } else {
    from_integers(&c.params.integer, 1, c.dst, element);
  }
  const int64_t item = item_size(dst);
  copy_elements(bytes(dst) + range.begin * item, item, element, 0, range.end - range.begin, item);
}

}  // namespace executorch_ggml::kernels
