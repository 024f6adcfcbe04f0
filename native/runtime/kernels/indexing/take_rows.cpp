// Rows of a table by index, for any element type.

#include <cstring>

#include "kernels/kernels.h"

namespace executorch_ggml::kernels {

void take_rows(ggml_tensor* dst, int ith, int nth, void* call) {
  const auto& self = as_call<TakeRowsParams>(call);
  const ggml_tensor* table = dst->src[0];
  const auto* rows = static_cast<const int32_t*>(dst->src[1]->data);
  const int64_t count = ggml_nelements(dst->src[1]);
  const size_t row_size = ggml_row_size(table->type, table->ne[0]);
  for (int64_t i = count * ith / nth; i < count * (ith + 1) / nth; ++i) {
    const bool inside = rows[i] >= 0 && rows[i] < table->ne[1];
    if (!inside) {
      self.status->fail("%s: index %d is out of range for size %lld", self.node, rows[i],
                        static_cast<long long>(table->ne[1]));
      return;
    }
    std::memcpy(static_cast<char*>(dst->data) + i * row_size,
                static_cast<const char*>(table->data) + rows[i] * table->nb[1], row_size);
  }
}

}  // namespace executorch_ggml::kernels
