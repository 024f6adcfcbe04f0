#include "kernels/product/pair_product.h"

#include <algorithm>

#include "kernels/convolution/conv_2d.h"
#include "kernels/convolution/image.h"
#include "kernels/convolution/plain_weights.h"
#include "kernels/kernels.h"
#include "kernels/partition.h"
#include "kernels/product/packing.h"

namespace executorch_ggml::kernels {
namespace {

bool is_pointwise(const Window& w) { return w.kernel == 1 && w.stride == 1 && w.pad == 0 && w.up == 1; }

class PairProduct {
 public:
  PairProduct(ggml_tensor* dst, const KernelCall<ConvolutionParams>& call)
      : length_(dst->src[0]->ne[0]),
        channels_(dst->ne[0]),
        rows_(ImageShape(dst).pixels()),
        pairs_(static_cast<const uint16_t*>(dst->src[1]->data)),
        bias_(bias_of(dst, call.params)),
        addend_(addend_of(dst, call.params)),
        epilogue_(call.params.epilogue),
        stored_epilogue_{epilogue_.activation, call.rounds_result},
        multiply_(call.src[1] == DType::F16 ? KERNEL_PICK(multiply_half_pairs) : KERNEL_PICK(multiply_bfloat_pairs)),
        output_(static_cast<float*>(dst->data)) {
    for (int64_t i = 0; i < rows_; ++i) inputs_[i] = static_cast<const float*>(dst->src[0]->data) + i * length_;
  }

  void run(Range blocks) const {
    const int64_t block_elements = (length_ + length_ % 2) * kPackedColumns;
    for (int64_t block = blocks.begin; block < blocks.end; ++block) {
      alignas(64) float sums[kPairProductRows * kPackedColumns];
      multiply_(inputs_, rows_, length_, pairs_ + block * block_elements, sums);
      const int64_t first = block * kPackedColumns;
      const Range columns = {first, std::min(first + kPackedColumns, channels_)};
      for (int64_t row = 0; row < rows_; ++row) store(sums + row * kPackedColumns, row, columns);
    }
    const Range own = {blocks.begin * kPackedColumns, std::min(blocks.end * kPackedColumns, channels_)};
    for (int64_t row = 0; row < rows_ && !own.empty(); ++row) {
      KERNEL_PICK(apply_stored_epilogue)(output_ + row * channels_ + own.begin, own.size(), stored_epilogue_);
    }
  }

 private:
  void store(const float* sums, int64_t row, Range columns) const {
    const bool clamps = epilogue_.activation == Activation::Clamp;
    for (int64_t i = columns.begin; i < columns.end; ++i) {
      const int64_t at = row * channels_ + i;
      float y = sums[i - columns.begin];
      if (bias_ != nullptr) y += bias_[i];
      if (addend_ != nullptr) y += addend_[at];
      output_[at] = clamps ? std::min(std::max(y, epilogue_.low), epilogue_.high) : y;  // NaN stays NaN
    }
  }

  int64_t length_;
  int64_t channels_;
  int64_t rows_;
  const uint16_t* pairs_;
  const float* bias_;
  const float* addend_;
  const Epilogue& epilogue_;
  StoredEpilogue stored_epilogue_;
  decltype(KERNEL_PICK(multiply_half_pairs)) multiply_;
  float* output_;
  const float* inputs_[kPairProductRows];
};

}  // namespace

bool is_pair_product(const ggml_tensor* dst, const KernelCall<ConvolutionParams>& call) {
  const ConvolutionParams& params = call.params;
  const bool in_pairs = kHasHalves && params.weights != Storage::Plain && call.src[1] != DType::F32;
  const int64_t rows = ImageShape(dst).pixels();
  return in_pairs && rows > 0 && rows <= kPairProductRows && rows == ImageShape(dst->src[0]).pixels() &&
         params.groups == 1 && is_pointwise(params.window.w) && is_pointwise(params.window.h);
}

void pair_product(ggml_tensor* dst, const KernelCall<ConvolutionParams>& call, int ith, int nth) {
  PairProduct(dst, call).run(Range::part(ceil_div(dst->ne[0], kPackedColumns), ith, nth));
}

}  // namespace executorch_ggml::kernels
