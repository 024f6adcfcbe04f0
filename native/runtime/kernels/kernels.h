// The call of a custom CPU node's kernel. A kernel is called once per piece (ith of nth), on any thread, and must write
// its share of dst, from dst->src[0..], by the tensors' own strides (nb), for every shape that the node's checks
// accept.
#pragma once

#include "ggml.h"
#include "ops_generated.h"
#include "status.h"

namespace executorch_ggml {

constexpr int kMaxKernelInputs = 5;

using Kernel = void (*)(ggml_tensor* dst, int ith, int nth, void* call);

// The part of a call that does not depend on the op.
struct KernelCallBase {
  Kernel kernel = nullptr;
  int64_t work = 0;             // multiply-adds, or elements touched
  const char* node = "";        // the node's name, for messages
  RunStatus* status = nullptr;  // where to report a failure
  bool rounds_result = false;   // of f32, to numbers of bf16: by a kernel that NodeBuilder knows to do it
  DType dst{};                  // element types as the IR has them: ggml stores bool and u8 as I8
  DType src[kMaxKernelInputs]{};
};

template <class Params>
struct KernelCall : KernelCallBase {
  Params params{};
};

template <class Params>
const KernelCall<Params>& as_call(const void* call) {
  return *static_cast<const KernelCall<Params>*>(call);
}

}  // namespace executorch_ggml
