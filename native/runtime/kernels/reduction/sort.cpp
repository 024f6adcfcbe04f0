// argsort and top-k along rows. `sort` works in the output's own rows: a row first holds keys with the elements'
// indices in their lower halves, is sorted (or kept as a heap of the first ones), and then masked to the indices.

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/scratch.h"

namespace executorch_ggml::kernels {
namespace {

// Numbers that are ordered as the elements are.
using KeyFn = uint32_t (*)(const char* element);

// Zeros are equal, and so is all that is NaN, the largest.
uint32_t float_key(float x) {
  uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof(bits));
  if (x == 0.0f) {
    bits = 0;
  }
  return x != x ? UINT32_MAX : (bits >> 31) != 0 ? ~bits : bits | 1u << 31;
}

template <class T>
uint32_t integer_key(const char* element) {
  return static_cast<uint32_t>(static_cast<int32_t>(*reinterpret_cast<const T*>(element))) ^ 1u << 31;
}

KeyFn key_of(DType type) {
  switch (type) {
    case DType::F32:
      return [](const char* x) { return float_key(*reinterpret_cast<const float*>(x)); };
    case DType::F16:
      return [](const char* x) { return float_key(ggml_fp16_to_fp32(*reinterpret_cast<const ggml_fp16_t*>(x))); };
    case DType::Bf16:
      return [](const char* x) { return float_key(ggml_bf16_to_fp32(*reinterpret_cast<const ggml_bf16_t*>(x))); };
    case DType::I8:
      return integer_key<int8_t>;
    case DType::I16:
      return integer_key<int16_t>;
    case DType::I32:
      return integer_key<int32_t>;
    default:
      return integer_key<uint8_t>;
  }
}

// The first `count` of n items in order; make(i) gives an item, all of them different.
template <class Make, class Less>
void sort_row(int64_t* row, int64_t count, int64_t n, const Make& make, const Less& less) {
  for (int64_t i = 0; i < count; ++i) {
    row[i] = make(i);
  }
  if (count == n) {
    return std::sort(row, row + n, less);
  }
  std::make_heap(row, row + count, less);
  for (int64_t i = count; i < n; ++i) {
    const int64_t item = make(i);
    if (less(item, row[0])) {
      std::pop_heap(row, row + count, less);
      row[count - 1] = item;
      std::push_heap(row, row + count, less);
    }
  }
  std::sort_heap(row, row + count, less);
}

struct Scratch {
  ScratchVector<int64_t> items;
};

// The first `count` items, by the same calls of the standard library as torch's kernel (ATen/native/TopKImpl.h), so
// that of equal items the same ones come first, in the same order.
template <class Less>
void select_first(ScratchVector<int64_t>& items, int64_t count, bool in_order, const Less& less) {
  const auto last = items.begin() + count - 1;
  if (count * 64 <= static_cast<int64_t>(items.size())) {
    std::partial_sort(items.begin(), last + 1, items.end(), less);
    return;
  }
  std::nth_element(items.begin(), last, items.end(), less);
  if (in_order) {
    std::sort(items.begin(), last, less);
  }
}

// Where row r of a tensor starts.
const char* row_of(const ggml_tensor* a, int64_t r) {
  const int64_t i1 = r % a->ne[1];
  const int64_t i2 = r / a->ne[1] % a->ne[2];
  const int64_t i3 = r / a->ne[1] / a->ne[2];
  return static_cast<const char*>(a->data) + i1 * a->nb[1] + i2 * a->nb[2] + i3 * a->nb[3];
}

}  // namespace

void sort(ggml_tensor* dst, int ith, int nth, void* call) {
  const auto& self = as_call<SortParams>(call);
  const ggml_tensor* a = dst->src[0];
  const bool down = self.params.descending;
  const int64_t n = a->ne[0];
  const int64_t count = dst->ne[0];
  const size_t step = a->nb[0];
  const int64_t rows = ggml_nrows(dst);
  const KeyFn key = key_of(self.src[0]);
  for (int64_t r = rows * ith / nth; r < rows * (ith + 1) / nth; ++r) {
    const char* x = row_of(a, r);
    auto* row = static_cast<int64_t*>(dst->data) + r * count;
    if (a->type == GGML_TYPE_I64) {
      const auto value = [x, step](int64_t i) { return *reinterpret_cast<const int64_t*>(x + i * step); };
      const auto less = [value, down](int64_t i, int64_t k) {
        const int64_t p = value(i);
        const int64_t q = value(k);
        return p == q ? i < k : (p < q) != down;
      };
      sort_row(row, count, n, [](int64_t i) { return i; }, less);
      continue;
    }
    const auto keyed = [x, step, key, down](int64_t i) {
      const uint64_t k = key(x + i * step);
      return static_cast<int64_t>((down ? ~k : k) << 32 | static_cast<uint64_t>(i));
    };
    sort_row(row, count, n, keyed,
             [](int64_t i, int64_t k) { return static_cast<uint64_t>(i) < static_cast<uint64_t>(k); });
    for (int64_t i = 0; i < count; ++i) {
      row[i] &= UINT32_MAX;
    }
  }
}

void top_k(ggml_tensor* dst, int ith, int nth, void* call) {
  const auto& self = as_call<TopKParams>(call);
  const ggml_tensor* a = dst->src[0];
  const bool largest = self.params.largest;
  const int64_t n = a->ne[0];
  const int64_t count = dst->ne[0];
  const size_t step = a->nb[0];
  const int64_t rows = ggml_nrows(dst);
  const KeyFn key = key_of(self.src[0]);
  if (count == 0) {
    return;
  }
  auto& items = thread_scratch<Scratch>().items;
  items.resize(n);
  for (int64_t r = rows * ith / nth; r < rows * (ith + 1) / nth; ++r) {
    const char* x = row_of(a, r);
    if (a->type == GGML_TYPE_I64) {
      const auto value = [x, step](int64_t i) { return *reinterpret_cast<const int64_t*>(x + i * step); };
      std::iota(items.begin(), items.end(), int64_t{0});
      select_first(items, count, self.params.in_order, [value, largest](int64_t i, int64_t k) {
        return largest ? value(i) > value(k) : value(i) < value(k);
      });
    } else {
      for (int64_t i = 0; i < n; ++i) {
        const uint64_t k = key(x + i * step);
        items[i] = static_cast<int64_t>((largest ? ~k : k) << 32 | static_cast<uint64_t>(i));
      }
      // Compares without the indices in the lower halves: equal elements stay equal.
      select_first(items, count, self.params.in_order, [](int64_t i, int64_t k) {
        return static_cast<uint64_t>(i) >> 32 < static_cast<uint64_t>(k) >> 32;
      });
    }
    auto* row = static_cast<int64_t*>(dst->data) + r * count;
    std::transform(items.begin(), items.begin() + count, row, [](int64_t item) { return item & UINT32_MAX; });
  }
}

}  // namespace executorch_ggml::kernels
