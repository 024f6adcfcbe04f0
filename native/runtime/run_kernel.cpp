#include "run_kernel.h"

#include <algorithm>

#include "kernels/kernels.h"
#include "result.h"
#include "thread_pool.h"

namespace executorch_ggml {
namespace {

// No exception may leave a thread of the pool, or ggml's code.
void call_kernel(ggml_tensor* dst, int ith, int nth, KernelCallBase* call) {
  call_guarded([&] { call->kernel(dst, ith, nth, call); },
               [&](const char* error) { call->status->fail("%s: %s", call->node, error); });  // of scratch memory
}

// A kernel's parts, one or several to a piece. The number of parts decides which rows share a tile, and so the order of
// summation: it depends on the number of threads alone, so that results are bitwise equal under any load.
struct KernelPieces {
  ggml_tensor* dst;
  KernelCallBase* call;
  int parts;

  static void run(const void* context, int piece, int count) {
    const auto& of = *static_cast<const KernelPieces*>(context);
    for (int part = of.parts * piece / count; part < of.parts * (piece + 1) / count; ++part) {
      call_kernel(of.dst, part, of.parts, of.call);
    }
  }
};

int pieces_of(const KernelCallBase& call, int64_t piece_work, int most) {
  return static_cast<int>(std::clamp<int64_t>(call.work / piece_work, 1, most));
}

}  // namespace

void run_kernel(ggml_tensor* dst, int ith, int nth, void* data) {
  auto* call = static_cast<KernelCallBase*>(data);
  if (nth > 1) return call_kernel(dst, ith, nth, call);
  const KernelPieces pieces = {dst, call, pieces_of(*call, kPieceWork, Crew::threads())};
  const bool contended = pieces.parts > 1 && cores_are_contended();
  run_pieces(
      {KernelPieces::run, &pieces, contended ? pieces_of(*call, kContendedPieceWork, pieces.parts) : pieces.parts});
}

}  // namespace executorch_ggml
