// Kernels that move or fill elements without computing on them.
#include <algorithm>
#include <cstring>

#include "kernels/elementwise/convert.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/kernels.h"
#include "kernels/movement/quads.h"

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

constexpr int64_t kLine = 16;  // elements of a cache line: each is written whole, as few of one set of L1 stay in it

// A part of a transpose: elements that are adjacent along dim 1 in `from` and along dim 0 in `to`. All in bytes.
struct Block {
  char* to;
  int64_t to_step;  // along dim 1
  const char* from;
  int64_t from_step;  // along dim 0
  int64_t item;

  Block at(int64_t row, int64_t column) const {
    return {to + column * to_step + row * item, to_step, from + row * from_step + column * item, from_step, item};
  }
};

inline void transpose_quads(const Block& block) {
  const Quad a = load_quad(block.from);
  const Quad b = load_quad(block.from + block.from_step);
  const Quad c = load_quad(block.from + 2 * block.from_step);
  const Quad d = load_quad(block.from + 3 * block.from_step);
  const Quad ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Quad cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Quad last_ab = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Quad last_cd = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  store_quad(block.to, __builtin_shufflevector(ab, cd, 0, 1, 4, 5));
  store_quad(block.to + block.to_step, __builtin_shufflevector(ab, cd, 2, 3, 6, 7));
  store_quad(block.to + 2 * block.to_step, __builtin_shufflevector(last_ab, last_cd, 0, 1, 4, 5));
  store_quad(block.to + 3 * block.to_step, __builtin_shufflevector(last_ab, last_cd, 2, 3, 6, 7));
}

inline uint32_t load_word(const char* from) {
  uint32_t word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

inline void store_word(char* to, uint32_t word) { std::memcpy(to, &word, sizeof(word)); }

// Four pixels of three planes of bytes, one after the other.
inline void interleave_color_bytes(const Block& block) {
  constexpr uint32_t kFirst = 0xff, kSecond = 0xff00, kThird = 0xff0000, kFourth = 0xff000000;
  const uint32_t a = load_word(block.from);
  const uint32_t b = load_word(block.from + block.from_step);
  const uint32_t c = load_word(block.from + 2 * block.from_step);
  store_word(block.to, (a & kFirst) | (b & kFirst) << 8 | (c & kFirst) << 16 | (a & kSecond) << 16);
  store_word(block.to + 4, (b & kSecond) >> 8 | (c & kSecond) | (a & kThird) | (b & kThird) << 8);
  store_word(block.to + 8, (c & kThird) >> 16 | (a & kFourth) >> 16 | (b & kFourth) >> 8 | (c & kFourth));
}

// What of `rows` x `columns` elements is in whole blocks, which are transposed: so many rows and columns.
struct Transposed {
  int64_t rows = 0;
  int64_t columns = 0;
};

Transposed interleave_all_colors(const Block& block, int64_t columns) {
  const int64_t whole = columns / kQuad * kQuad;
  for (int64_t column = 0; column < whole; column += kQuad) {
    const Block pixels = block.at(0, column);
    block.item == 1 ? interleave_color_bytes(pixels) : interleave_colors(pixels.from, pixels.from_step, pixels.to);
  }
  return {3, whole};
}

Transposed transpose_floats(const Block& block, int64_t rows, int64_t columns) {
  const Transposed done = {rows / kQuad * kQuad, columns / kQuad * kQuad};
  for (int64_t first = 0; first < done.rows; first += kLine) {
    const int64_t last = std::min(first + kLine, done.rows);
    for (int64_t column = 0; column < done.columns; column += kQuad) {
      for (int64_t row = first; row < last; row += kQuad) transpose_quads(block.at(row, column));
    }
  }
  return done;
}

// Whether dst has the pixels of three planes.
bool interleaves_colors(const Walk& walk, int64_t item) {
  const bool has_loop = item == 1 || item == sizeof(float);
  return has_loop && walk.ne[0] == 3 && walk.stride[0][0] == item && walk.stride[0][1] == 3 * item;
}

// A source that is dense along dim 1, not along dim 0: some elements along dim 1 at a time, for all of dim 0, so that
// the cache lines that are read and those that are written are used whole.
void copy_transposed(const Walk& walk, int ith, int nth, int64_t item) {
  constexpr int64_t kTile = 64;
  constexpr int64_t kShare = 2048;  // elements of a thread, at least
  const Walk starts = without_first_dim(walk);
  const bool of_floats = item == sizeof(float) && walk.stride[0][0] == item;
  const bool of_colors = interleaves_colors(walk, item);
  Runs runs(starts, share(starts.count, ith, nth, ceil_div(kShare, walk.ne[0])));
  while (runs.next()) {
    for (int64_t first = 0; first < runs.n; first += kTile) {
      const int64_t columns = std::min(kTile, runs.n - first);
      const Block block = {runs.at[0] + first * starts.stride[0][0], starts.stride[0][0], runs.at[1] + first * item,
                           walk.stride[1][0], item};
      const Transposed done = of_colors   ? interleave_all_colors(block, columns)
                              : of_floats ? transpose_floats(block, walk.ne[0], columns)
                                          : Transposed{};
      for (int64_t row = done.rows; row < walk.ne[0]; ++row) {
        copy_elements(block.to + row * walk.stride[0][0], block.to_step, block.from + row * block.from_step, item,
                      columns, item);
      }
      for (int64_t column = done.columns; column < columns && done.rows > 0; ++column) {
        copy_elements(block.to + column * block.to_step, item, block.from + column * item, block.from_step, done.rows,
                      item);
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

// src beside the part of dst that begins `offset` bytes in.
Walk side_by_side(ggml_tensor* dst, int64_t offset, const ggml_tensor* src) {
  Walk walk(src->ne);
  int64_t strides[4];
  for (int d = 0; d < 4; ++d) {
    strides[d] = static_cast<int64_t>(dst->nb[d]);
  }
  walk.add(bytes(dst) + offset, strides);
  walk.add(src);
  walk.collapse();
  return walk;
}

bool is_transpose(const Walk& walk, int64_t item) {
  return walk.count > 0 && walk.dims > 1 && walk.stride[1][0] != item && walk.stride[1][1] == item;
}

// src into the part of dst that begins `offset` bytes in.
void copy_into(ggml_tensor* dst, int64_t offset, const ggml_tensor* src, int ith, int nth) {
  const Walk walk = side_by_side(dst, offset, src);
  const int64_t item = item_size(src);
  if (is_transpose(walk, item)) return copy_transposed(walk, ith, nth, item);
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
  const int64_t item = item_size(dst);
  if (ggml_are_same_shape(dst, dst->src[0])) {
    const Walk both = side_by_side(dst, 0, dst->src[0]);
    const bool has_loop = item == sizeof(float) || interleaves_colors(both, item);
    if (has_loop && is_transpose(both, item)) return copy_transposed(both, ith, nth, item);
  }
  Walk walk(dst->ne);
  walk.add(dst->src[0]);
  walk.collapse();
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
