// The transform of Winograd's inputs that rounds them to bf16 by an instruction.
#include "kernels/convolution/winograd_input.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

struct Rounded {
  static VEC_INLINE Float of(Float x) {
    const auto bfloats = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x));
    return reinterpret_cast<Float>(reinterpret_cast<Uint>(_mm512_maskz_cvtepu16_epi32(0xffff, bfloats)) << 16);
  }
};

}  // namespace

void transform_rounded(const WinogradInput& tile) { transform_inputs<Rounded>(tile); }

}  // namespace executorch_ggml::kernels::KERNEL_ISA
