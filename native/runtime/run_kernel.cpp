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

struct KernelPieces {
  ggml_tensor* dst;
  KernelCallBase* call;

  static void run(const void* context, int piece, int count) {
    const auto& of = *static_cast<const KernelPieces*>(context);
    call_kernel(of.dst, piece, count, of.call);
  }
};

}  // namespace

void run_kernel(ggml_tensor* dst, int ith, int nth, void* data) {
  auto* call = static_cast<KernelCallBase*>(data);
  if (nth > 1) return call_kernel(dst, ith, nth, call);
  const KernelPieces pieces = {dst, call};
  int64_t count = std::clamp<int64_t>(call->work / kPieceWork, 1, Crew::threads());
  if (count > 1 && cores_are_contended()) count = std::clamp<int64_t>(call->work / kContendedPieceWork, 1, count);
  run_pieces({KernelPieces::run, &pieces, static_cast<int>(count)});
}

}  // namespace executorch_ggml
