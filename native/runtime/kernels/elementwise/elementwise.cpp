#include "kernels/elementwise/elementwise.h"

namespace executorch_ggml::kernels {

namespace {

constexpr int64_t kBlock = 512;    // elements of a buffer
constexpr int64_t kShortRow = 64;  // shorter rows are computed several a call
constexpr int kMaxSources = kMaxOperands - 1;

struct Buffers {
  alignas(64) char at[kMaxSources][kBlock * 8];
};

// How the function reads a source: in place, as one element, or through a buffer.
enum class Way : uint8_t { Direct, Scalar, Buffered };

// Rows long enough for a call each (or several, where a source goes through a buffer).
class LongRows {
 public:
  LongRows(const Walk& walk, const int64_t* items, const Forms& forms) : walk_(walk), items_(items), fn_(forms.dense) {
    const int sources = walk.operands - 1;
    for (int i = 0; i < sources; ++i) {
      way_[i] = walk.stride[i + 1][0] == items[i + 1] ? Way::Direct : Way::Buffered;
    }
    if (sources == 2 && forms.scalar_a != nullptr && scalar(0) && way_[1] == Way::Direct) {
      way_[0] = Way::Scalar;
      fn_ = forms.scalar_a;
    } else if (sources == 2 && forms.scalar_b != nullptr && scalar(1) && way_[0] == Way::Direct) {
      way_[1] = Way::Scalar;
      fn_ = forms.scalar_b;
    }
    for (int i = 0; i < sources; ++i) {
      buffered_ = buffered_ || way_[i] == Way::Buffered;
    }
  }

  void run(Range range, const void* context, Buffers& buffers) const {
    Runs runs(walk_, range);
    while (runs.next()) {
      const int64_t step = buffered_ ? kBlock : runs.n;
      for (int64_t begin = 0; begin < runs.n; begin += step) {
        piece(runs, begin, std::min(step, runs.n - begin), context, buffers);
      }
    }
  }

 private:
  bool scalar(int i) const { return walk_.stride[i + 1][0] == 0 && walk_.ne[0] > 1; }

  void piece(const Runs& runs, int64_t begin, int64_t n, const void* context, Buffers& buffers) const {
    const void* src[kMaxSources] = {};
    for (int i = 0; i + 1 < walk_.operands; ++i) {
      const int64_t step = walk_.stride[i + 1][0];
      const char* from = runs.at[i + 1] + begin * step;
      src[i] = from;
      if (way_[i] == Way::Buffered) {
        src[i] = buffers.at[i];
        if (step != 0 || begin == 0) {  // one element fills the buffer once a run
          copy_elements(buffers.at[i], items_[i + 1], from, step, n, items_[i + 1]);
        }
      }
    }
    fn_(runs.at[0] + begin * items_[0], src, n, context);
  }

  const Walk& walk_;
  const int64_t* items_;
  MapFn fn_;
  Way way_[kMaxSources] = {};
  bool buffered_ = false;
};

// After how many elements a source repeats itself, which all outer dims broadcast; 0 for others.
int64_t period_of(const Walk& source) {
  if (source.dims == 1) return source.stride[0][0] == 0 ? 1 : 0;
  return source.dims == 2 && source.stride[0][1] == 0 ? source.ne[0] : 0;
}

// Short rows: blocks of several rows, each source that is not dense as a whole gathered into a buffer. A broadcast
// source whose period divides the block size is gathered once, and its buffer reused.
void run_short_rows(const ggml_tensor* dst, const Walk& walk, const int64_t* items, MapFn fn, Range range,
                    const void* context, Buffers& buffers) {
  const int sources = walk.operands - 1;
  Walk alone[kMaxSources] = {Walk(dst->ne), Walk(dst->ne), Walk(dst->ne)};
  bool direct[kMaxSources] = {};
  int64_t periods[kMaxSources] = {};
  int64_t step = kBlock;  // a multiple of the periods that fit: they are products of dims, so each divides the longer
  for (int i = 0; i < sources; ++i) {
    alone[i].add(dst->src[i]);
    alone[i].collapse();
    direct[i] = alone[i].dense(0, items[i + 1]);
    periods[i] = direct[i] ? 0 : period_of(alone[i]);
    if (periods[i] > 0 && periods[i] <= step) step -= step % periods[i];
  }
  for (int64_t begin = range.begin; begin < range.end; begin += step) {
    const Range block{begin, std::min(begin + step, range.end)};
    const void* src[kMaxSources] = {};
    for (int i = 0; i < sources; ++i) {
      if (direct[i]) {
        src[i] = walk.data[i + 1] + begin * items[i + 1];
        continue;
      }
      src[i] = buffers.at[i];
      const bool repeats = periods[i] > 0 && step % periods[i] == 0;
      if (begin == range.begin || !repeats) gather(alone[i], block, buffers.at[i], items[i + 1]);
    }
    fn(walk.data[0] + begin * items[0], src, block.end - block.begin, context);
  }
}

}  // namespace

void run_elementwise(ggml_tensor* dst, int sources, const Forms& forms, const void* context, int ith, int nth) {
  Walk walk(dst->ne);
  int64_t items[kMaxOperands] = {item_size(dst)};
  walk.add(dst);
  for (int i = 0; i < sources; ++i) {
    walk.add(dst->src[i]);
    items[i + 1] = item_size(dst->src[i]);
  }
  const Range range = share(walk.count, ith, nth);
  if (range.empty()) {
    return;
  }
  walk.collapse();
  Buffers buffers;
  if (walk.dims == 1 || walk.ne[0] >= kShortRow) {
    LongRows(walk, items, forms).run(range, context, buffers);
  } else {
    run_short_rows(dst, walk, items, forms.dense, range, context, buffers);
  }
}

}  // namespace executorch_ggml::kernels
