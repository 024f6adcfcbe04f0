// Layers in bf16: rounding their inputs, and which tiles multiply them.
#include "kernels/convolution/bfloats.h"

#include <cmath>
#include <limits>

#include "kernels/amx.h"
#include "kernels/convolution/conv_2d.h"
#include "selection_generated.h"

namespace executorch_ggml::kernels {

namespace {

// The same numbers where no instruction rounds: tests emulate tiles on such CPUs.
uint16_t rounded(float x) {
  const float normal = std::fabs(x) < std::numeric_limits<float>::min() ? 0.0f : x;
  return ggml_fp32_to_bf16(normal).bits;
}

void round_each(const float* x, int64_t n, uint16_t* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = rounded(x[i]);
}

void round_each_scaled(const float* x, const float* factors, int64_t n, uint16_t* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = rounded(x[i] * factors[i]);
}

}  // namespace

void round_bfloats(const float* x, int64_t n, uint16_t* y) {
  const auto round = kIsArm64 ? KERNEL_PICK_NEONBF16(best_isa(), round_to_bfloats)
                              : KERNEL_PICK_AVX512BF16(best_isa(), round_to_bfloats);
  (round != nullptr ? round : round_each)(x, n, y);
}

void round_scaled_bfloats(const float* x, const float* factors, int64_t n, uint16_t* y) {
  const auto round = kIsArm64 ? KERNEL_PICK_NEONBF16(best_isa(), round_scaled_to_bfloats)
                              : KERNEL_PICK_AVX512BF16(best_isa(), round_scaled_to_bfloats);
  (round != nullptr ? round : round_each_scaled)(x, factors, n, y);
}

const ConvTiles& float_tiles(const ggml_tensor* dst, const KernelCall<ConvolutionParams>& call) {
  const ConvolutionParams& params = call.params;
  const ConvTiles* widening = KERNEL_PICK(widening_conv_tiles)();
  const auto sees_pixels = [](const Window& w) { return w.kernel == 1 && w.pad == 0 && w.up == 1; };
  const bool in_pairs = call.src[1] == DType::Bf16 && params.weights != Storage::Plain;
  const bool fits = params.groups == 1 && params.scale == 0 && sees_pixels(params.window.w) &&
                    sees_pixels(params.window.h) && dst->src[0]->ne[0] % 2 == 0;
  return widening != nullptr && in_pairs && fits ? *widening : KERNEL_PICK(conv_tiles)();
}

const BfloatTiles* bfloat_tiles_for(Isa isa) {
  auto tiles = KERNEL_PICK_AMX(isa, bfloat_tiles);
  if (tiles == nullptr)
    tiles = kIsArm64 ? KERNEL_PICK_NEONBF16(isa, bfloat_tiles) : KERNEL_PICK_AVX512BF16(isa, bfloat_tiles);
  return tiles != nullptr ? &tiles() : nullptr;
}

const BfloatTiles* bfloat_conv_tiles(Isa isa) {
  return is_built(DType::Bf16) ? bfloat_tiles_for(amx_or_below(AmxType::Bfloat16, isa)) : nullptr;
}

const BfloatTiles& bfloat_tiles_of_node() {
  const BfloatTiles* tiles = bfloat_conv_tiles();
  return tiles != nullptr ? *tiles : *bfloat_conv_tiles(best_isa());
}

}  // namespace executorch_ggml::kernels
