#include "ggml_pieces.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <new>

#include "arena.h"
#include "cpu.h"
#include "kernels/kernels.h"
#include "kernels/partition.h"
#include "node_builder.h"
#include "status.h"

namespace executorch_ggml {
namespace {

using kernels::Range;

// ggml computes products in tiles, and packed matrices lie in groups of rows: 16 of them are a multiple of all.
constexpr int kMatrixRows = 16;
constexpr int kVectors = 4;

// A source of one element in a dim is broadcast along it, and one of as many elements is cut; else there is no cut.
bool cut_or_broadcast(const ggml_tensor* source, int dim, int64_t size, int* of_source) {
  if (source == nullptr) return true;
  if (source->ne[dim] == size) *of_source = dim;
  return source->ne[dim] == size || source->ne[dim] == 1;
}

bool is_outermost(const ggml_tensor* tensor, int dim) {
  return std::all_of(tensor->ne + dim + 1, tensor->ne + GGML_MAX_DIMS, [](int64_t size) { return size == 1; });
}

// Sets the dim of each source that is sliced along with the result's `cut->dim`; false where slices do not correspond.
bool follow(const ggml_tensor* node, Cut* cut) {
  const int dim = cut->dim;
  const int64_t size = node->ne[dim];
  const ggml_tensor* a = node->src[0];
  const ggml_tensor* b = node->src[1];
  switch (node->op) {
    case GGML_OP_MUL_MAT:
      cut->unit = dim == 0 ? kMatrixRows : dim == 1 ? kVectors : 1;
      if (dim < 2) cut->of_source[dim] = 1;
      return dim < 2 || (cut_or_broadcast(a, dim, size, &cut->of_source[0]) && b->ne[dim] == size &&
                         cut_or_broadcast(b, dim, size, &cut->of_source[1]));
    case GGML_OP_MUL_MAT_ID:
      cut->unit = kMatrixRows;
      cut->of_source[0] = 1;
      return dim == 0;
    case GGML_OP_SOFT_MAX:
      cut->of_source[0] = dim;
      if (dim == 1) cut->of_source[1] = 1;  // which may have more rows than are read
      return dim > 0 && (dim == 1 || cut_or_broadcast(b, dim, size, &cut->of_source[1]));
    case GGML_OP_SUM_ROWS:
    case GGML_OP_MEAN:
      cut->of_source[0] = dim;
      return dim > 0;
    case GGML_OP_GET_ROWS:
      cut->of_source[1] = 0;
      return dim == 1 && b->ne[1] == 1 && b->ne[2] == 1;
    case GGML_OP_UPSCALE:
      cut->of_source[0] = dim;
      return dim > 1 && a->ne[dim] == size;
    case GGML_OP_PAD:  // writes one dense block
      cut->of_source[0] = dim;
      return a->ne[dim] == size && is_outermost(node, dim);
    default:
      return false;
  }
}

void take_part(ggml_tensor* tensor, int dim, const Range& range) {
  if (dim < 0) return;
  tensor->data = static_cast<char*>(tensor->data) + static_cast<size_t>(range.begin) * tensor->nb[dim];
  tensor->ne[dim] = range.size();
}

// A graph of one node, whose tensors are written anew for each piece, and a backend of one thread. Each thread has one.
class OneNode {
 public:
  // Null where there is no memory.
  static OneNode* of_thread() {
    static thread_local std::unique_ptr<OneNode> mine;
    if (mine != nullptr && !mine->is_usable()) mine.reset();
    if (mine != nullptr) return mine.get();
    std::unique_ptr<OneNode> opened(new OneNode());
    if (opened->open().ok()) mine = std::move(opened);
    return mine.get();
  }

  // Not in a forked process, and not after memory ran out.
  bool is_usable() const { return lane_ != nullptr && lane_->is_of_this_process(); }

  // False where there is no memory for what ggml's kernel needs beside the tensors.
  bool compute(const ggml_tensor& dst, const GgmlParams& params, const Range& range) {
    *node_ = dst;
    node_->op = params.node->op;
    std::copy(std::begin(params.node->op_params), std::end(params.node->op_params), std::begin(node_->op_params));
    take_part(node_, params.cut.dim, range);
    for (int i = 0; i < kMostCutSources; ++i) {
      if (dst.src[i] == nullptr) continue;
      *sources_[i] = *dst.src[i];
      sources_[i]->op = GGML_OP_NONE;
      take_part(sources_[i], params.cut.of_source[i], range);
      node_->src[i] = sources_[i];
    }
    const auto compute = [this] { return ggml_backend_graph_compute(lane_->backend(), graph_) == GGML_STATUS_SUCCESS; };
    return call_guarded(compute, [this](const char*) {
      (void)lane_.release();  // its working memory is freed already, and would be again
      return false;
    });
  }

 private:
  OneNode() = default;

  Status open() {
    constexpr size_t kTensors = kMostCutSources + 1;
    EXECUTORCH_GGML_TRY(Lane::open(1, /*abort=*/nullptr, &lane_));
    EXECUTORCH_GGML_TRY(arena_.open(kTensors * ggml_tensor_overhead() + ggml_graph_overhead_custom(kTensors, false)));
    for (ggml_tensor*& source : sources_) source = ggml_new_tensor_1d(arena_.context(), GGML_TYPE_F32, 1);
    node_ = ggml_dup(arena_.context(), sources_[0]);
    graph_ = ggml_new_graph_custom(arena_.context(), kTensors, false);
    ggml_build_forward_expand(graph_, node_);
    return {};
  }

  std::unique_ptr<Lane> lane_;
  Arena arena_;
  ggml_tensor* sources_[kMostCutSources] = {};
  ggml_tensor* node_ = nullptr;
  ggml_cgraph* graph_ = nullptr;
};

}  // namespace

Cut cut_of(const ggml_tensor* node) {
  Cut best;
  for (int dim = 0; dim < GGML_MAX_DIMS; ++dim) {
    Cut cut;
    cut.dim = dim;
    const auto parts = [node](const Cut& of) { return of.dim < 0 ? 1 : node->ne[of.dim] / of.unit; };
    if (follow(node, &cut) && parts(cut) > parts(best)) best = cut;
  }
  return best;
}

void compute_by_ggml(ggml_tensor* dst, int ith, int nth, void* call) {
  const auto& c = as_call<GgmlParams>(call);
  const Cut& cut = c.params.cut;
  const int64_t size = dst->ne[cut.dim];
  const Range units = Range::part(kernels::ceil_div(size, cut.unit), ith, nth);
  const Range range = {units.begin * cut.unit, std::min(size, units.end * cut.unit)};
  if (range.empty()) return;
  OneNode* one = OneNode::of_thread();
  if (one == nullptr || !one->compute(*dst, c.params, range)) {
    c.status->fail("%s: no memory for what ggml's kernels need beside %s; run smaller inputs", c.node,
                   describe(dst).c_str());
  }
}

}  // namespace executorch_ggml
