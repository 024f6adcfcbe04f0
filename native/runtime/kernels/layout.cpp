#include "kernels/layout.h"

#include <cstring>

namespace executorch_ggml::kernels {

Walk::Walk(const int64_t* sizes) : count(1) {
  for (int d = 0; d < 4; ++d) {
    ne[d] = sizes[d];
    count *= sizes[d];
  }
}

void Walk::add(const ggml_tensor* tensor) {
  int64_t steps[4];
  for (int d = 0; d < 4; ++d) {
    steps[d] = tensor->ne[d] == 1 ? 0 : static_cast<int64_t>(tensor->nb[d]);
  }
  add(tensor->data, steps);
}

void Walk::add(const void* memory, const int64_t* steps) {
  data[operands] = static_cast<char*>(const_cast<void*>(memory));
  std::copy(steps, steps + 4, stride[operands]);
  ++operands;
}

void Walk::collapse() {
  int last = -1;
  for (int d = 0; d < dims; ++d) {
    if (ne[d] == 1) {
      continue;
    }
    bool joins = last >= 0;
    for (int i = 0; i < operands; ++i) {
      joins = joins && stride[i][d] == stride[i][last] * ne[last];
    }
    if (joins) {
      ne[last] *= ne[d];
      continue;
    }
    ++last;
    ne[last] = ne[d];
    for (int i = 0; i < operands; ++i) {
      stride[i][last] = stride[i][d];
    }
  }
  if (last < 0) {  // one element
    last = 0;
    ne[0] = 1;
  }
  dims = last + 1;
}

bool Walk::dense(int i, int64_t item) const {
  int64_t step = item;
  for (int d = 0; d < dims; ++d) {
    if (stride[i][d] != step && ne[d] != 1) {
      return false;
    }
    step *= ne[d];
  }
  return true;
}

Runs::Runs(const Walk& walk, Range range) : walk_(walk), left_(range.end - range.begin) {
  if (left_ <= 0 || walk.count == 0) {
    left_ = 0;
    return;
  }
  int64_t rest = range.begin;
  first_ = rest % walk.ne[0];
  rest /= walk.ne[0];
  for (int d = 1; d < walk.dims; ++d) {
    index_[d] = rest % walk.ne[d];
    rest /= walk.ne[d];
  }
  for (int i = 0; i < walk.operands; ++i) {
    row_[i] = walk.data[i];
    for (int d = 1; d < walk.dims; ++d) {
      row_[i] += index_[d] * walk.stride[i][d];
    }
  }
}

void Runs::advance() {
  for (int d = 1; d < walk_.dims; ++d) {
    const bool wraps = ++index_[d] == walk_.ne[d];
    for (int i = 0; i < walk_.operands; ++i) {
      row_[i] += walk_.stride[i][d] * (wraps ? 1 - walk_.ne[d] : 1);
    }
    if (!wraps) {
      return;
    }
    index_[d] = 0;
  }
}

namespace {

template <class T>
void copy_as(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t n) {
  constexpr int64_t kItem = sizeof(T);
  if (to_step == kItem && from_step == 0) {
    std::fill_n(reinterpret_cast<T*>(to), n, *reinterpret_cast<const T*>(from));
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    *reinterpret_cast<T*>(to + i * to_step) = *reinterpret_cast<const T*>(from + i * from_step);
  }
}

}  // namespace

void copy_elements(void* to, int64_t to_step, const void* from, int64_t from_step, int64_t n, int64_t item) {
  if (to_step == item && from_step == item) {
    std::memcpy(to, from, static_cast<size_t>(n * item));
    return;
  }
  char* out = static_cast<char*>(to);
  const char* in = static_cast<const char*>(from);
  switch (item) {
    case 1:
      return copy_as<uint8_t>(out, to_step, in, from_step, n);
    case 2:
      return copy_as<uint16_t>(out, to_step, in, from_step, n);
    case 4:
      return copy_as<uint32_t>(out, to_step, in, from_step, n);
    default:
      return copy_as<uint64_t>(out, to_step, in, from_step, n);
  }
}

namespace {

constexpr int64_t kShortRun = 8;  // elements: a loop over fewer costs less than to find where they are

void gather_runs(const Walk& walk, Range range, char* to, int64_t item) {
  Runs runs(walk, range);
  while (runs.next()) {
    copy_elements(to, item, runs.at[0], walk.stride[0][0], runs.n, item);
    to += runs.n * item;
  }
}

// Whole runs along dim 0, which are short: the first elements of those along dim 1, then the second ones.
void gather_short_runs(const Walk& walk, Range range, char* to, int64_t item) {
  const int64_t length = walk.ne[0];
  Walk starts(walk);
  --starts.dims;
  std::copy(walk.ne + 1, walk.ne + walk.dims, starts.ne);
  std::copy(walk.stride[0] + 1, walk.stride[0] + walk.dims, starts.stride[0]);
  starts.count = walk.count / length;
  Runs runs(starts, {range.begin / length, range.end / length});
  while (runs.next()) {
    for (int64_t i = 0; i < length; ++i) {
      const char* from = runs.at[0] + i * walk.stride[0][0];
      copy_elements(to + i * item, length * item, from, starts.stride[0][0], runs.n, item);
    }
    to += runs.n * length * item;
  }
}

}  // namespace

void gather(const Walk& walk, Range range, void* to, int64_t item) {
  char* out = static_cast<char*>(to);
  const int64_t length = walk.ne[0];
  if (walk.dims < 2 || length > kShortRun || walk.ne[1] < kShortRun) return gather_runs(walk, range, out, item);
  const Range whole = {std::min(ceil_div(range.begin, length) * length, range.end), range.end / length * length};
  if (whole.empty()) return gather_runs(walk, range, out, item);
  gather_runs(walk, {range.begin, whole.begin}, out, item);
  gather_short_runs(walk, whole, out + (whole.begin - range.begin) * item, item);
  gather_runs(walk, {whole.end, range.end}, out + (whole.end - range.begin) * item, item);
}

}  // namespace executorch_ggml::kernels
