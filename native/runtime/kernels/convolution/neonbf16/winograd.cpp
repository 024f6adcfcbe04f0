// The transform of Winograd's inputs that rounds them to bf16 by an instruction.
#include "kernels/convolution/neonbf16/bfloats.h"
#include "kernels/convolution/winograd_input.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

struct Rounded {
  static VEC_INLINE Float of(Float x) {
    return reinterpret_cast<Float>(vshll_n_u16(vreinterpret_u16_bf16(rounded_bfloats(x)), 16));
  }
};

}  // namespace

void transform_rounded(const WinogradInput& tile) { transform_inputs<Rounded>(tile); }

}  // namespace executorch_ggml::kernels::KERNEL_ISA
