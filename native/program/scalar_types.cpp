#include "scalar_types.h"

namespace executorch_ggml {
namespace {

using ::executorch::aten::ScalarType;

constexpr ScalarTypeInfo kTypes[] = {
    {ScalarType::Float, {dlpack::kFloat, 32, 1}, "torch.float32"},
    {ScalarType::Half, {dlpack::kFloat, 16, 1}, "torch.float16"},
    {ScalarType::BFloat16, {dlpack::kBfloat, 16, 1}, "torch.bfloat16"},
    {ScalarType::Double, {dlpack::kFloat, 64, 1}, "torch.float64"},
    {ScalarType::Long, {dlpack::kInt, 64, 1}, "torch.int64"},
    {ScalarType::Int, {dlpack::kInt, 32, 1}, "torch.int32"},
    {ScalarType::Short, {dlpack::kInt, 16, 1}, "torch.int16"},
    {ScalarType::Char, {dlpack::kInt, 8, 1}, "torch.int8"},
    {ScalarType::Byte, {dlpack::kUInt, 8, 1}, "torch.uint8"},
    {ScalarType::UInt16, {dlpack::kUInt, 16, 1}, "torch.uint16"},
    {ScalarType::UInt32, {dlpack::kUInt, 32, 1}, "torch.uint32"},
    {ScalarType::UInt64, {dlpack::kUInt, 64, 1}, "torch.uint64"},
    {ScalarType::Bool, {dlpack::kBool, 8, 1}, "torch.bool"},
};

}  // namespace

const ScalarTypeInfo* find_scalar_type(ScalarType type) {
  for (const ScalarTypeInfo& info : kTypes) {
    if (info.type == type) return &info;
  }
  return nullptr;
}

const ScalarTypeInfo* find_scalar_type(const dlpack::DataType& type) {
  for (const ScalarTypeInfo& info : kTypes) {
    if (info.dlpack.code == type.code && info.dlpack.bits == type.bits && info.dlpack.lanes == type.lanes) return &info;
  }
  return nullptr;
}

const char* scalar_type_name(ScalarType type) {
  const ScalarTypeInfo* info = find_scalar_type(type);
  return info != nullptr ? info->name : "a dtype that torch does not exchange";
}

}  // namespace executorch_ggml
