// How a kernel's work is divided among the threads of a run.
#pragma once

#include <cstdint>

#include "ggml.h"

namespace executorch_ggml {

// A piece of less work than this costs less than to hand it to another thread.
constexpr int64_t kPieceWork = 1 << 13;

// The same where other processes want the cores: the other thread has to be woken, and may have to wait for a core.
constexpr int64_t kContendedPieceWork = 1 << 18;

// The function of all custom nodes; `call` is their KernelCallBase, whose kernel it calls in pieces on the thread's
// crew. Where ggml has threads of its own (nth > 1: beside a device), the kernel is called with their number.
void run_kernel(ggml_tensor* dst, int ith, int nth, void* call);

}  // namespace executorch_ggml
