// Elements stored at, or combined with those at, indices along one axis. A thread has whole lines along that axis, so
// that no two write to one element and equal indices keep their order.

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/elementwise/convert.h"
#include "kernels/indexing/index.h"
#include "kernels/layout.h"

namespace executorch_ggml::kernels {
namespace {

// to[i] = f(to[i], from[i]), steps in bytes.
using UpdateFn = void (*)(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t n);

template <class T, class Op>
void update(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    T* element = reinterpret_cast<T*>(to + i * to_step);
    *element = Op::at(*element, *reinterpret_cast<const T*>(from + i * from_step));
  }
}

// Integers wrap.
template <class T, bool = std::is_integral_v<T>>
struct Arithmetic {
  using Type = std::make_unsigned_t<T>;
};
template <class T>
struct Arithmetic<T, false> {
  using Type = T;
};

struct Add {
  template <class T>
  static T at(T a, T b) {
    using U = typename Arithmetic<T>::Type;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  }
};

struct Mul {
  template <class T>
  static T at(T a, T b) {
    using U = typename Arithmetic<T>::Type;
    return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  }
};

// NaN wins: no comparison with it holds.
struct Max {
  static float at(float a, float b) { return a > b || std::isnan(a) ? a : b; }
  template <class T>
  static T at(T a, T b) {
    return a > b ? a : b;
  }
};

struct Min {
  static float at(float a, float b) { return a < b || std::isnan(a) ? a : b; }
  template <class T>
  static T at(T a, T b) {
    return a < b ? a : b;
  }
};

// How elements are combined, and the identity of that.
struct Function {
  UpdateFn update = nullptr;
  alignas(8) char identity[8] = {};
};

template <class T, class Op>
Function function(T identity) {
  Function result{update<T, Op>, {}};
  *reinterpret_cast<T*>(result.identity) = identity;
  return result;
}

template <class T>
Function find_function(ScatterKind kind) {
  using Limits = std::numeric_limits<T>;
  switch (kind) {
    case ScatterKind::Add:
      return function<T, Add>(0);
    case ScatterKind::Mul:
      return function<T, Mul>(1);
    case ScatterKind::Max:
      return function<T, Max>(Limits::has_infinity ? -Limits::infinity() : Limits::min());
    default:
      return function<T, Min>(Limits::has_infinity ? Limits::infinity() : Limits::max());
  }
}

Function find_function(ScatterKind kind, ggml_type type) {
  switch (type) {
    case GGML_TYPE_F32:
      return find_function<float>(kind);
    case GGML_TYPE_I32:
      return find_function<int32_t>(kind);
    default:
      return find_function<int64_t>(kind);
  }
}

class Scatter {
 public:
  Scatter(const KernelCall<ScatterParams>& call, ggml_tensor* dst)
      : params_(call.params),
        in_place_(dst->data == dst->src[0]->data),
        item_(item_size(dst)),
        size_(dst->ne[call.params.axis]),
        count_(call.params.ne[call.params.axis]),
        reader_(call, dst->src[1], size_, call.params.wrap),
        walk_(lines(dst, call.params.axis)) {
    for (int i = 0; i < 3; ++i) {
      const ggml_tensor* source = dst->src[i];
      step_[i + 1] = source->ne[params_.axis] == 1 ? 0 : static_cast<int64_t>(source->nb[params_.axis]);
    }
    step_[kTo] = static_cast<int64_t>(dst->nb[params_.axis]);
    if (params_.kind != ScatterKind::Assign) {
      function_ = find_function(params_.kind, dst->type);
    }
  }

  void run(int ith, int nth) {
    // Lines that are contiguous along the axis are walked one by one, others many at a time.
    const bool single = step_[kTo] < walk_.stride[kTo][0];
    const Range one_by_one = {walk_.count * ith / nth, walk_.count * (ith + 1) / nth};
    Runs runs(walk_, single ? one_by_one : share(walk_.count, ith, nth, std::max<int64_t>(1, 4096 / (1 + count_))));
    while (runs.next()) {
      const int64_t most = single ? 1 : runs.n;
      for (int64_t i = 0; i < runs.n; i += most) {
        char* at[kOperands];
        for (int k = 0; k < kOperands; ++k) {
          at[k] = runs.at[k] + i * walk_.stride[k][0];
        }
        if (!in_place_) {
          copy_base(at[kTo], at[kBase], most);
        }
        if (!write(at, most)) {
          return;
        }
      }
    }
  }

 private:
  enum { kTo, kBase, kIndex, kFrom, kOperands };

  static Walk lines(const ggml_tensor* dst, int64_t axis) {
    int64_t ne[4];
    for (int d = 0; d < 4; ++d) {
      ne[d] = d == axis ? 1 : dst->ne[d];
    }
    Walk walk(ne);
    walk.add(dst);
    for (int i = 0; i < 3; ++i) {
      walk.add(dst->src[i]);
    }
    walk.collapse();
    return walk;
  }

  // n whole lines as they were.
  void copy_base(char* to, const char* from, int64_t n) const {
    const int64_t to_step = walk_.stride[kTo][0];
    const int64_t from_step = walk_.stride[kBase][0];
    const int64_t run = n * item_;
    const bool dense = to_step == item_ && from_step == item_ && step_[kTo] == run && step_[kBase] == run;
    if (dense) {
      return copy_elements(to, item_, from, item_, n * size_, item_);
    }
    if (n == 1) {
      return copy_elements(to, step_[kTo], from, step_[kBase], size_, item_);
    }
    for (int64_t i = 0; i < size_; ++i) {
      copy_elements(to + i * step_[kTo], to_step, from + i * step_[kBase], from_step, n, item_);
    }
  }

  bool write(char* const* at, int64_t n) const {
    if (function_.update != nullptr && !params_.include_self) {
      const bool reset = each_index(at, n, [&](char* to, const char*, int64_t m) {
        copy_elements(to, walk_.stride[kTo][0], function_.identity, 0, m, item_);
      });
      if (!reset) {
        return false;
      }
    }
    return each_index(at, n, [&](char* to, const char* from, int64_t m) {
      if (function_.update != nullptr) {
        function_.update(to, walk_.stride[kTo][0], from, walk_.stride[kFrom][0], m);
      } else {
        copy_elements(to, walk_.stride[kTo][0], from, walk_.stride[kFrom][0], m, item_);
      }
    });
  }

  // Calls f(to, from, n) for the elements of n lines that one index names. False where an index is out of range.
  template <class F>
  bool each_index(char* const* at, int64_t n, const F& f) const {
    const int64_t same = walk_.stride[kIndex][0] == 0 ? n : 1;
    for (int64_t k = 0; k < count_; ++k) {
      for (int64_t i = 0; i < n; i += same) {
        const int64_t position = reader_.at(at[kIndex] + k * step_[kIndex] + i * walk_.stride[kIndex][0]);
        if (position < 0) {
          return false;
        }
        f(at[kTo] + position * step_[kTo] + i * walk_.stride[kTo][0],
          at[kFrom] + k * step_[kFrom] + i * walk_.stride[kFrom][0], same);
      }
    }
    return true;
  }

  const ScatterParams& params_;
  bool in_place_;
  int64_t item_;
  int64_t size_;   // of the axis
  int64_t count_;  // of indices along it
  IndexReader reader_;
  Walk walk_;  // over the lines
  int64_t step_[kOperands] = {};
  Function function_;
};

void round_floats(const float* from, int64_t n, ggml_type type, char* to) {
  if (type == GGML_TYPE_F16) return from_floats(from, n, DType::F16, to);
  ggml_get_type_traits(type)->from_float_ref(from, to, n);
}

// One row, a few blocks at a time.
void store_row(const char* from, int64_t step, const ggml_tensor* dst, char* to) {
  constexpr int64_t kMost = 256;  // whole blocks of every type
  alignas(64) float part[kMost];
  for (int64_t begin = 0; begin < dst->ne[0]; begin += kMost) {
    const int64_t n = std::min(kMost, dst->ne[0] - begin);
    copy_elements(reinterpret_cast<char*>(part), sizeof(float), from + begin * step, step, n, sizeof(float));
    round_floats(part, n, dst->type, to + ggml_row_size(dst->type, begin));
  }
}

// Stores rows of f32 in a state's type. A thread has all rows of a line, so that the last of equal indices stays.
void store_rows(const KernelCall<ScatterParams>& call, ggml_tensor* dst, int ith, int nth) {
  const ggml_tensor* index = dst->src[1];
  const ggml_tensor* src = dst->src[2];
  const int64_t* ne = call.params.ne.data();
  const int axis = static_cast<int>(call.params.axis);
  const int inner = axis == 1 ? 2 : 1;
  const int outer = axis == 3 ? 2 : 3;
  const IndexReader reader(call, index, dst->ne[axis], call.params.wrap);
  const auto step = [](const ggml_tensor* t, int d) { return t->ne[d] == 1 ? 0 : static_cast<int64_t>(t->nb[d]); };
  const int64_t lines = ne[inner] * ne[outer];
  for (int64_t line = lines * ith / nth; line < lines * (ith + 1) / nth; ++line) {
    const int64_t i = line % ne[inner];
    const int64_t o = line / ne[inner];
    for (int64_t k = 0; k < ne[axis]; ++k) {
      const auto at = [&](const ggml_tensor* t) { return i * step(t, inner) + o * step(t, outer) + k * step(t, axis); };
      const int64_t position = reader.at(static_cast<const char*>(index->data) + at(index));
      if (position < 0) return;
      char* to = static_cast<char*>(dst->data) + i * step(dst, inner) + o * step(dst, outer);
      store_row(static_cast<const char*>(src->data) + at(src), step(src, 0), dst,
                to + position * static_cast<int64_t>(dst->nb[axis]));
    }
  }
}

}  // namespace

void scatter(ggml_tensor* dst, int ith, int nth, void* call) {
  const auto& self = as_call<ScatterParams>(call);
  if (dst->type != dst->src[2]->type) return store_rows(self, dst, ith, nth);
  Scatter(self, dst).run(ith, nth);
}

}  // namespace executorch_ggml::kernels
