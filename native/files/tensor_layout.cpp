#include "tensor_layout.h"

#include <cinttypes>

#include "status.h"

namespace executorch_ggml {
namespace {

constexpr uint32_t kMostDims = 16;  // ExecuTorch's kTensorDimensionLimit

// Bytes of an element; 0 for what is no type of ExecuTorch's.
uint64_t element_size(pte::ScalarType type) {
  using Type = pte::ScalarType;
  switch (type) {
    case Type::BYTE:
    case Type::CHAR:
    case Type::BOOL:
    case Type::QINT8:
    case Type::QUINT8:
    case Type::QUINT4X2:
    case Type::QUINT2X4:
    case Type::FLOAT8E5M2:
    case Type::FLOAT8E4M3FN:
    case Type::FLOAT8E5M2FNUZ:
    case Type::FLOAT8E4M3FNUZ:
      return 1;
    case Type::SHORT:
    case Type::HALF:
    case Type::BFLOAT16:
    case Type::BITS16:
    case Type::UINT16:
      return 2;
    case Type::INT:
    case Type::FLOAT:
    case Type::QINT32:
    case Type::UINT32:
      return 4;
    case Type::LONG:
    case Type::DOUBLE:
    case Type::UINT64:
      return 8;
  }
  return 0;
}

bool is_permutation(const flatbuffers::Vector<uint8_t>& order) {
  uint32_t seen = 0;
  for (uint8_t dim : order) seen |= dim < order.size() ? 1u << dim : 0u;
  return seen == (1u << order.size()) - 1;
}

}  // namespace

Status check_tensor(const TensorText& tensor, uint64_t* bytes) {
  *bytes = element_size(tensor.type);
  if (*bytes == 0) return Status::error(format("element type #%d, which ExecuTorch has not", int(tensor.type)));
  if (tensor.sizes == nullptr || tensor.dim_order == nullptr) return Status::error("no sizes or no dim order");
  const uint32_t rank = tensor.sizes->size();
  if (rank > kMostDims) return Status::error(format("%u dims, expected at most %u", rank, kMostDims));
  if (tensor.dim_order->size() != rank || !is_permutation(*tensor.dim_order)) {
    return Status::error(format("a dim order that is no permutation of its %u dims", rank));
  }
  bool empty = false;
  for (int32_t size : *tensor.sizes) {
    if (size < 0) return Status::error(format("a size of %d", size));
    empty = empty || size == 0;
  }
  if (empty) *bytes = 0;
  for (uint32_t i = 0; i < rank && !empty; ++i) {
    const auto size = static_cast<uint64_t>(tensor.sizes->Get(i));
    if (__builtin_mul_overflow(*bytes, size, bytes) || *bytes > INT64_MAX) {
      *bytes = UINT64_MAX;
      return {};
    }
  }
  return {};
}

}  // namespace executorch_ggml
