// Reductions over any axes of a tensor of any strides.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>

#include "kernels/elementwise/convert.h"
#include "kernels/kernels.h"
#include "kernels/layout.h"
#include "kernels/reduction/reduce_table.h"

namespace executorch_ggml::kernels {

namespace {

constexpr int64_t kBlock = 256;  // elements read at once, and outputs computed together
constexpr int64_t kRows = 16;    // reduced together: each may be in a page of its own, and the L1 TLB has few entries

// Floats accumulate in double, all other types in int64.
union Number {
  double real;
  int64_t integer;
};

// T is int64_t or double.
template <class T, class Op>
void reduce_row(const void* from, int64_t n, void* to) {
  const T* x = static_cast<const T*>(from);
  T acc = *static_cast<T*>(to);
  for (int64_t i = 0; i < n; ++i) {
    acc = Op::at(acc, x[i]);
  }
  *static_cast<T*>(to) = acc;
}

template <class T, class Op>
void reduce_lanes(const void* from, int64_t n, int64_t rows, int64_t stride, void* to) {
  T* __restrict acc = static_cast<T*>(to);
  for (int64_t r = 0; r < rows; ++r) {
    const T* x = reinterpret_cast<const T*>(static_cast<const char*>(from) + r * stride);
    for (int64_t i = 0; i < n; ++i) {
      acc[i] = Op::at(acc[i], x[i]);
    }
  }
}

#define REDUCTION(name, integer, real)                                                  \
  struct name {                                                                         \
    static int64_t at(int64_t acc, int64_t x) { return static_cast<int64_t>(integer); } \
    static double at(double acc, double x) { return real; }                             \
  };
REDUCTION(Sum, static_cast<uint64_t>(acc) + static_cast<uint64_t>(x), acc + x)
REDUCTION(Prod, static_cast<uint64_t>(acc) * static_cast<uint64_t>(x), acc* x)
REDUCTION(Max, std::max(acc, x), x > acc || x != x ? x : acc)
REDUCTION(Min, std::min(acc, x), x < acc || x != x ? x : acc)
REDUCTION(Any, (acc != 0) | (x != 0), acc != 0.0 || x != 0.0 ? 1.0 : 0.0)
REDUCTION(All, (acc != 0) & (x != 0), acc != 0.0 && x != 0.0 ? 1.0 : 0.0)
#undef REDUCTION

constexpr bool kReducesDoubles = is_built(DType::F64);
constexpr bool kReducesIntegers = is_built(DType::I32) || is_built(DType::I64) || is_built(DType::Bool);
constexpr bool kReducesToIndices = is_built(ReduceKind::Argmax) || is_built(ReduceKind::Argmin);

template <class T, class Op, bool kIsBuilt>
constexpr Reducer reducer() {
  if constexpr (kIsBuilt && (std::is_floating_point_v<T> ? kReducesDoubles : kReducesIntegers))
    return {reduce_row<T, Op>, reduce_lanes<T, Op>};
  return {};
}

template <class T>
constexpr ReduceTable kReducers = {reducer<T, Sum, kReducesBySum>(),
                                   reducer<T, Prod, is_built(ReduceKind::Prod)>(),
                                   reducer<T, Max, kReducesByMax>(),
                                   reducer<T, Min, kReducesByMin>(),
                                   reducer<T, Any, is_built(ReduceKind::Any)>(),
                                   reducer<T, All, is_built(ReduceKind::All)>()};

struct Function {
  Reducer loops;
  Number identity;
};

Function find_function(ReduceKind kind, DType type) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const bool real = is_real(type);
  const ReduceTable& table = type == DType::F32 ? KERNEL_PICK(float_reducers)()
                             : real             ? kReducers<double>
                                                : kReducers<int64_t>;
  const auto with = [real](const Reducer& loops, double r, int64_t i) {
    Number identity;
    if (real) {
      identity.real = r;
    } else {
      identity.integer = i;
    }
    return Function{loops, identity};
  };
  switch (kind) {
    case ReduceKind::Sum:
    case ReduceKind::Mean:
      return with(table.sum, 0.0, 0);
    case ReduceKind::Prod:
      return with(table.prod, 1.0, 1);
    case ReduceKind::Max:
    case ReduceKind::Argmax:
      return with(table.max, -kInfinity, std::numeric_limits<int64_t>::min());
    case ReduceKind::Min:
    case ReduceKind::Argmin:
      return with(table.min, kInfinity, std::numeric_limits<int64_t>::max());
    case ReduceKind::Any:
      return with(table.any, 0.0, 0);
    case ReduceKind::All:
      break;
  }
  return with(table.all, 1.0, 1);
}

// The kept dims (operands: dst, source) and the reduced ones (the source), each from the smallest source stride up.
struct Plan {
  Walk kept;
  Walk reduced;
};

Plan make_plan(const ggml_tensor* dst, const ggml_tensor* src, const Ints& axes) {
  int order[4] = {0, 1, 2, 3};
  const auto stride = [src](int d) { return src->ne[d] == 1 ? 0 : src->nb[d]; };
  for (int i = 1; i < 4; ++i) {  // std::stable_sort allocates
    for (int k = i; k > 0 && stride(order[k]) < stride(order[k - 1]); --k) std::swap(order[k], order[k - 1]);
  }
  int64_t kept_ne[4] = {1, 1, 1, 1};
  int64_t reduced_ne[4] = {1, 1, 1, 1};
  int64_t to[4] = {};
  int64_t from[4] = {};
  for (int i = 0; i < 4; ++i) {
    const int d = order[i];
    const bool drops = std::find(axes.at, axes.at + axes.size, d) != axes.at + axes.size;
    (drops ? reduced_ne : kept_ne)[i] = src->ne[d];
    to[i] = static_cast<int64_t>(dst->nb[d]);
    from[i] = static_cast<int64_t>(src->nb[d]);
  }
  Plan plan{Walk(kept_ne), Walk(reduced_ne)};
  plan.kept.add(dst->data, to);
  plan.kept.add(src->data, from);
  plan.kept.collapse();
  plan.reduced.add(src->data, from);
  plan.reduced.collapse();
  return plan;
}

// Reads source elements as the loops take them: floats, doubles, or int64.
class Reader {
 public:
  Reader(DType type, int64_t item) : type_(type), item_(item), direct_(is_real(type) || type == DType::I64) {}

  bool direct(int64_t step) const { return direct_ && step == item_; }

  // n elements (at most kBlock, unless direct), `step` bytes apart.
  const void* read(const char* from, int64_t step, int64_t n) {
    if (direct(step)) {
      return from;
    }
    copy_elements(raw_, item_, from, step, n, item_);
    if (!kReducesIntegers || direct_) {
      return raw_;
    }
    to_integers(raw_, n, type_, wide_);
    return wide_;
  }

 private:
  DType type_;
  int64_t item_;
  bool direct_;
  alignas(64) char raw_[kBlock * 8];
  alignas(64) int64_t wide_[kBlock];
};

class Reduction {
 public:
  Reduction(const KernelCall<ReduceParams>& call, ggml_tensor* dst)
      : call_(call),
        real_(is_real(call.src[0])),
        plan_(make_plan(dst, dst->src[0], call.params.axes)),
        function_(find_function(call.params.kind, call.src[0])),
        reader_(call.src[0], item_size(dst->src[0])) {
    const Walk& kept = plan_.kept;
    const Walk& reduced = plan_.reduced;
    // Whether to go along the reduced dims, an output at a time; else along a kept dim, many outputs at a time.
    rows_ = reduced.stride[0][0] <= kept.stride[1][0] ? reduced.ne[0] >= 16 || kept.ne[0] < 16 : kept.ne[0] < 8;
  }

  void run(int ith, int nth) {
    const int64_t work = std::max<int64_t>(1, plan_.reduced.count);
    const Range range = share(plan_.kept.count, ith, nth, std::max<int64_t>(1, 4096 / work));
    Runs runs(plan_.kept, range);
    while (runs.next()) {
      const int64_t most = rows_ ? 1 : kBlock;
      for (int64_t i = 0; i < runs.n; i += most) {
        const int64_t n = std::min(most, runs.n - i);
        const int64_t to_step = plan_.kept.stride[0][0];
        const int64_t from_step = plan_.kept.stride[1][0];
        outputs(runs.at[0] + i * to_step, to_step, runs.at[1] + i * from_step, from_step, n);
      }
    }
  }

 private:
  bool indexes() const { return call_.params.kind == ReduceKind::Argmax || call_.params.kind == ReduceKind::Argmin; }

  // n outputs along one kept dim.
  void outputs(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t n) {
    std::fill_n(acc_, n, function_.identity);
    if (kReducesToIndices && indexes()) {
      if (rows_) {
        index_[0] = row_index(from);
      } else {
        lane_indices(from, from_step, n);
      }
      copy_elements(to, to_step, index_, sizeof(int64_t), n, sizeof(int64_t));
      return;
    }
    if (rows_) {
      row(from);
    } else {
      lanes(from, from_step, n);
    }
    finish(n, to, to_step);
  }

  void row(const char* from) {
    plan_.reduced.data[0] = const_cast<char*>(from);
    const int64_t step = plan_.reduced.stride[0][0];
    Runs runs(plan_.reduced, {0, plan_.reduced.count});
    while (runs.next()) {
      const int64_t most = reader_.direct(step) ? runs.n : kBlock;
      for (int64_t i = 0; i < runs.n; i += most) {
        const int64_t n = std::min(most, runs.n - i);
        function_.loops.row(reader_.read(runs.at[0] + i * step, step, n), n, acc_);
      }
    }
  }

  void lanes(const char* from, int64_t from_step, int64_t n) {
    plan_.reduced.data[0] = const_cast<char*>(from);
    Runs runs(plan_.reduced, {0, plan_.reduced.count});
    const int64_t stride = plan_.reduced.stride[0][0];
    while (runs.next()) {
      const int64_t most = reader_.direct(from_step) ? kRows : 1;
      for (int64_t i = 0; i < runs.n; i += most) {
        const int64_t rows = std::min(most, runs.n - i);
        function_.loops.lanes(reader_.read(runs.at[0] + i * stride, from_step, n), n, rows, stride, acc_);
      }
    }
  }

  void finish(int64_t n, char* to, int64_t to_step) {
    alignas(8) char dense[kBlock * 8];
    if (call_.params.kind == ReduceKind::Mean) {
      for (int64_t i = 0; i < n; ++i) {
        acc_[i].real /= static_cast<double>(plan_.reduced.count);
      }
    }
    if (real_ || !kReducesIntegers) {
      from_reals(&acc_[0].real, n, call_.dst, dense);
    } else {
      from_integers(&acc_[0].integer, n, call_.dst, dense);
    }
    const bool wide = call_.dst == DType::I64 || call_.dst == DType::F64;
    const int64_t item = call_.dst == DType::Bool ? 1 : wide ? 8 : 4;
    copy_elements(to, to_step, dense, item, n, item);
  }

  // Whether a replaces b, which has a lower index: a is strictly greater (or less), or the first NaN.
  bool beats(Number a, Number b) const {
    const bool max = call_.params.kind == ReduceKind::Argmax;
    if (!real_) {
      return max ? a.integer > b.integer : a.integer < b.integer;
    }
    return (max ? a.real > b.real : a.real < b.real) || (std::isnan(a.real) && !std::isnan(b.real));
  }

  Number element(const void* x, int64_t i) const {
    Number value;
    if (real_) {
      value.real = call_.src[0] == DType::F64 ? static_cast<const double*>(x)[i] : static_cast<const float*>(x)[i];
    } else {
      value.integer = static_cast<const int64_t*>(x)[i];
    }
    return value;
  }

  // The extreme of each block by the vectorized loop, then its index in the block that has it.
  int64_t row_index(const char* from) {
    const int64_t step = plan_.reduced.stride[0][0];
    const int64_t count = plan_.reduced.count;
    Number best{};
    int64_t winner = 0;
    for (int64_t i = 0; i < count; i += kBlock) {
      const int64_t n = std::min(kBlock, count - i);
      Number here = function_.identity;
      function_.loops.row(reader_.read(from + i * step, step, n), n, &here);
      if (i == 0 || beats(here, best)) {
        best = here;
        winner = i;
      }
    }
    const int64_t n = std::min(kBlock, count - winner);
    const void* x = reader_.read(from + winner * step, step, n);
    int64_t position = 0;
    while (position + 1 < n && beats(best, element(x, position))) {
      ++position;
    }
    return winner + position;
  }

  void lane_indices(const char* from, int64_t from_step, int64_t n) {
    std::fill_n(index_, n, 0);
    for (int64_t k = 0; k < plan_.reduced.count; ++k) {
      const void* x = reader_.read(from + k * plan_.reduced.stride[0][0], from_step, n);
      for (int64_t i = 0; i < n; ++i) {
        const Number value = element(x, i);
        if (k == 0 || beats(value, acc_[i])) {
          acc_[i] = value;
          index_[i] = k;
        }
      }
    }
  }

  const KernelCall<ReduceParams>& call_;
  bool real_;
  bool rows_ = true;
  Plan plan_;
  Function function_;
  Reader reader_;
  Number acc_[kBlock];
  int64_t index_[kBlock];
};

bool has_identity(ReduceKind kind) {
  return kind != ReduceKind::Max && kind != ReduceKind::Min && kind != ReduceKind::Argmax && kind != ReduceKind::Argmin;
}

}  // namespace

void reduce(ggml_tensor* dst, int ith, int nth, void* call) {
  const auto& c = as_call<ReduceParams>(call);
  if (ggml_nelements(dst) == 0) {
    return;
  }
  if (ggml_nelements(dst->src[0]) == 0 && !has_identity(c.params.kind)) {
    c.status->fail("%s: the maximum or minimum of no elements: a reduced axis has size 0", c.node);
    if (ith == 0) {
      std::fill_n(static_cast<char*>(dst->data), ggml_nbytes(dst), 0);
    }
    return;
  }
  const bool mean_of_integers = c.params.kind == ReduceKind::Mean && !is_real(c.src[0]);
  if (mean_of_integers || c.src[0] == DType::F16 || c.src[0] == DType::Bf16) {
    c.status->fail("%s: reduction %d has no kernel for element type %d", c.node, static_cast<int>(c.params.kind),
                   static_cast<int>(c.src[0]));
    return;
  }
  Reduction(c, dst).run(ith, nth);
}

}  // namespace executorch_ggml::kernels
