// Which int8 GEMM a matrix is multiplied with, and what is prepared for it: quantized rows.
#include "kernels/product/integer_product.h"

#include <algorithm>

#include "kernels/amx.h"
#include "kernels/kernels.h"
#include "kernels/partition.h"
#include "kernels/product/panels.h"
#include "selection_generated.h"

namespace executorch_ggml::kernels {
namespace {

const IntegerProduct* find_product(const IntegerProducts* of, ggml_type type) {
  if (of == nullptr) return nullptr;
  const IntegerProduct* end = of->products + of->count;
  const IntegerProduct* found =
      std::find_if(of->products, end, [type](const IntegerProduct& product) { return product.type == type; });
  return found == end ? nullptr : found;
}

}  // namespace

const IntegerProducts* integer_products_for(Isa isa) {
  if (kIsArm64) {
    const IntegerProducts* best = KERNEL_PICK_I8MM(isa, integer_products);
    if (best == nullptr) best = KERNEL_PICK_DOTPROD(isa, integer_products);
    return best != nullptr ? best : KERNEL_PICK_NEON(isa, integer_products);
  }
  if (isa >= Isa::Avx512) return KERNEL_PICK_AVX512VNNI(isa, integer_products);
  const IntegerProducts* vnni = KERNEL_PICK_AVXVNNI(isa, integer_products);
  return vnni != nullptr ? vnni : KERNEL_PICK_AVX2(isa, integer_products);
}

MatrixMultiplies matrix_multiplies_for(Isa isa) {
  const MatrixMultiplies* multiplies = KERNEL_PICK_AMX(isa, matrix_multiplies);
  return multiplies != nullptr ? *multiplies : MatrixMultiplies{nullptr, 0};
}

decltype(IntegerProduct::multiply) multiply_of_many_rows(const IntegerProduct& product) {
  if (integer_product(product.type) != &product) return product.multiply;  // packed for another instruction set
  const MatrixMultiplies multiplies = matrix_multiplies_for(amx_or_below(AmxType::Int8, active_isa()));
  const MatrixMultiply* end = multiplies.of + multiplies.count;
  const MatrixMultiply* found =
      std::find_if(multiplies.of, end, [&](const MatrixMultiply& multiply) { return multiply.type == product.type; });
  return found == end ? product.multiply : found->multiply;
}

const IntegerProduct* integer_product(ggml_type type) {
  return kHasQuantizedTypes ? find_product(integer_products_for(active_isa()), type) : nullptr;
}

const IntegerProduct* panel_product(ggml_type type) {
  const IntegerProduct* product = integer_product(type);
  return product != nullptr && product->panels != nullptr ? product : nullptr;
}

const IntegerProduct* integer_product_of(const ggml_tensor* matrix) {
  if (is_in_panels(matrix)) return panel_product(matrix->type);
  return matrix->extra == nullptr ? integer_product(matrix->type) : nullptr;
}

void quantize_rows(ggml_tensor* dst, int ith, int nth, void* call) {
  const ggml_tensor* src = dst->src[0];
  const auto quantize = as_call<QuantizeRowsParams>(call).params.quantize;
  const int64_t blocks = src->ne[0] / kIntegerBlock;
  const Range rows = Range::part(ggml_nrows(src), ith, nth);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    int64_t i[4];
    ggml_unravel_index(dst, row * dst->ne[0], nullptr, &i[1], &i[2], &i[3]);
    const char* from = static_cast<const char*>(src->data) + i[1] * src->nb[1] + i[2] * src->nb[2] + i[3] * src->nb[3];
    quantize(reinterpret_cast<const float*>(from), blocks, static_cast<RowBlock*>(dst->data) + row * blocks);
  }
}

}  // namespace executorch_ggml::kernels
