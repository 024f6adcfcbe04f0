#include "strided_copy.h"

#include <algorithm>
#include <array>

#include "kernels/layout.h"

namespace executorch_ggml {
namespace {

constexpr int kMaxRank = 16;
constexpr int64_t kTile = 32;  // rows and columns of a transpose that the first cache holds, read and written

// A dim, with the bytes from one index to the next.
struct Axis {
  int64_t size = 1;
  int64_t to = 0;
  int64_t from = 0;
};

// Outermost first.
struct Axes {
  std::array<Axis, kMaxRank + 2> items{};
  int count = 0;
};

void copy_plane(char* to, const char* from, const Axis& outer, const Axis& inner, int64_t item) {
  const bool dense = inner.to == item && inner.from == item;
  const int64_t width = dense ? inner.size : kTile;
  for (int64_t row = 0; row < outer.size; row += kTile) {
    const int64_t last = std::min(row + kTile, outer.size);
    for (int64_t column = 0; column < inner.size; column += width) {
      const int64_t count = std::min(width, inner.size - column);
      for (int64_t i = row; i < last; ++i) {
        kernels::copy_elements(to + i * outer.to + column * inner.to, inner.to,
                               from + i * outer.from + column * inner.from, inner.from, count, item);
      }
    }
  }
}

void copy_axes(char* to, const char* from, const Axis* axes, int count, int64_t item) {
  if (count == 2) return copy_plane(to, from, axes[0], axes[1], item);
  for (int64_t i = 0; i < axes->size; ++i)
    copy_axes(to + i * axes->to, from + i * axes->from, axes + 1, count - 1, item);
}

// Joins neighbours that both sides step through evenly.
Axes joined(const Axes& axes) {
  Axes result;
  for (int i = 0; i < axes.count; ++i) {
    const Axis& axis = axes.items[i];
    Axis* last = result.count > 0 ? &result.items[result.count - 1] : nullptr;
    if (last != nullptr && last->to == axis.size * axis.to && last->from == axis.size * axis.from) {
      *last = {last->size * axis.size, axis.to, axis.from};
    } else {
      result.items[result.count++] = axis;
    }
  }
  return result;
}

}  // namespace

void copy_strided(void* to, const int64_t* to_strides, const void* from, const int64_t* from_strides,
                  const int64_t* sizes, int rank, int64_t item) {
  Axes axes;
  for (int d = 0; d < rank; ++d) {
    if (sizes[d] != 1) axes.items[axes.count++] = {sizes[d], to_strides[d] * item, from_strides[d] * item};
  }
  const auto begin = axes.items.begin();
  std::sort(begin, begin + axes.count, [](const Axis& a, const Axis& b) { return a.to > b.to; });
  axes = joined(axes);
  if (axes.count > 2) {  // the dim that is innermost in `from` goes to the place before the last
    const auto last = begin + axes.count - 1;
    const auto fastest = std::min_element(begin, last, [](const Axis& a, const Axis& b) { return a.from < b.from; });
    std::rotate(fastest, fastest + 1, last);
  }
  for (; axes.count < 2; ++axes.count) std::rotate(begin, begin + axes.count, begin + axes.count + 1);
  copy_axes(static_cast<char*>(to), static_cast<const char*>(from), axes.items.data(), axes.count, item);
}

}  // namespace executorch_ggml
