#include "rules.h"

#include <cstring>
#include <initializer_list>

namespace standin {
namespace {

using Types = std::initializer_list<ggml_type>;

bool among(ggml_type type, Types types) {
  for (ggml_type other : types) {
    if (type == other) return true;
  }
  return false;
}

constexpr Types kF32 = {GGML_TYPE_F32};
constexpr Types kFloats = {GGML_TYPE_F32, GGML_TYPE_F16};
constexpr Types kFloatsAndBf16 = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16};
constexpr Types kSimpleQuants = {GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0,  GGML_TYPE_Q5_1,
                                 GGML_TYPE_Q8_0, GGML_TYPE_Q1_0, GGML_TYPE_IQ4_NL};
constexpr Types kOtherQuants = {GGML_TYPE_Q2_0,    GGML_TYPE_Q2_K,   GGML_TYPE_Q3_K,    GGML_TYPE_Q4_K,
                                GGML_TYPE_Q5_K,    GGML_TYPE_Q6_K,   GGML_TYPE_IQ1_S,   GGML_TYPE_IQ1_M,
                                GGML_TYPE_IQ2_S,   GGML_TYPE_IQ2_XS, GGML_TYPE_IQ2_XXS, GGML_TYPE_IQ3_S,
                                GGML_TYPE_IQ3_XXS, GGML_TYPE_IQ4_XS, GGML_TYPE_MXFP4,   GGML_TYPE_NVFP4};

bool float_or_quant(ggml_type type) {
  return among(type, kFloatsAndBf16) || among(type, kSimpleQuants) || among(type, kOtherQuants);
}

ggml_type type_of(const ggml_tensor* op, int source) {
  return op->src[source] != nullptr ? op->src[source]->type : GGML_TYPE_COUNT;
}

// Result and first source have one type, among these.
bool all_of(const ggml_tensor* op, Types types) { return type_of(op, 0) == op->type && among(op->type, types); }

bool sources_contiguous(const ggml_tensor* op) {
  return ggml_is_contiguous(op->src[0]) && (op->src[1] == nullptr || ggml_is_contiguous(op->src[1]));
}

bool innermost_dense(const ggml_tensor* tensor) { return tensor->nb[0] == ggml_type_size(tensor->type); }

bool is_arithmetic(const ggml_tensor* op) {
  return among(type_of(op, 0), kFloats) && among(type_of(op, 1), kFloats) && among(op->type, kFloats);
}

// What both concatenate: elements of 1, 2, 4 or 8 bytes.
bool joins_plain(const ggml_tensor* op) {
  const size_t size = ggml_type_size(op->type);
  return type_of(op, 0) == op->type && type_of(op, 1) == op->type && !ggml_is_quantized(op->type) &&
         (size == 1 || size == 2 || size == 4 || size == 8);
}

bool is_nothing(const ggml_tensor* op) {
  return op->op == GGML_OP_NONE || op->op == GGML_OP_RESHAPE || op->op == GGML_OP_VIEW || op->op == GGML_OP_PERMUTE ||
         op->op == GGML_OP_TRANSPOSE;
}

// --------------------------------------------------------------------------------------------------------- CUDA

bool cuda_multiplies(const ggml_tensor* op) {
  if (!innermost_dense(op->src[0]) || !innermost_dense(op->src[1])) return false;
  if (type_of(op, 1) == GGML_TYPE_F16 && type_of(op, 0) != GGML_TYPE_F16) return false;
  return float_or_quant(type_of(op, 0));
}

bool cuda_takes_rows(const ggml_tensor* op) {
  const ggml_type type = type_of(op, 0);
  if (type == GGML_TYPE_IQ4_NL || type == GGML_TYPE_MXFP4) return op->src[0]->ne[0] % 256 == 0;
  return type == GGML_TYPE_I32 || (type != GGML_TYPE_NVFP4 && float_or_quant(type));
}

bool cuda_writes_rows(const ggml_tensor* op) {
  const bool from_f32 =
      type_of(op, 0) == GGML_TYPE_F32 &&
      (among(op->type, kFloatsAndBf16) || (op->type != GGML_TYPE_Q1_0 && among(op->type, kSimpleQuants)));
  return (from_f32 || all_of(op, {GGML_TYPE_F16})) && among(type_of(op, 1), {GGML_TYPE_I64, GGML_TYPE_I32});
}

bool cuda_copies(const ggml_tensor* op) {
  const ggml_type from = type_of(op, 0);
  const ggml_type to = type_of(op, 1);
  const Types kWithF32 = {GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1,
                          GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_I32};
  if (among(from, kFloatsAndBf16) && among(to, kFloatsAndBf16)) return true;
  if (from == GGML_TYPE_F32 && (among(to, kWithF32) || to == GGML_TYPE_IQ4_NL)) return true;
  if (to == GGML_TYPE_F32 && among(from, kWithF32)) return true;
  return from == to && (from == GGML_TYPE_I32 || sources_contiguous(op));
}

bool cuda_concatenates(const ggml_tensor* op) {
  if (!ggml_is_quantized(op->type)) return joins_plain(op);
  const int64_t block = ggml_blck_size(op->type);
  const bool whole = op->src[0]->ne[0] % block == 0 && op->src[1]->ne[0] % block == 0;
  return whole && type_of(op, 0) == op->type && type_of(op, 1) == op->type &&
         (op->op_params[0] == 3 ? sources_contiguous(op)
                                : ggml_is_contiguous_to_3(op->src[0]) && ggml_is_contiguous_to_3(op->src[1]));
}

// Whether the heads that share keys can be computed together, without which the long ones are not.
bool cuda_groups_heads(const ggml_tensor* op) {
  float max_bias = 0;
  std::memcpy(&max_bias, op->op_params + 1, sizeof(max_bias));
  const ggml_tensor* keys = op->src[1];
  if (op->src[0]->ne[2] / keys->ne[2] < 2 || op->src[3] == nullptr || max_bias != 0 || keys->ne[1] % 256 != 0) {
    return false;
  }
  for (int i = 0; i < 4; ++i) {
    if (ggml_is_quantized(op->src[i]->type)) continue;
    for (int d = 1; d < GGML_MAX_DIMS; ++d) {
      if (op->src[i]->nb[d] % 16 != 0) return false;
    }
  }
  return true;
}

bool cuda_attends(const ggml_tensor* op) {
  const int64_t key_size = op->src[1]->ne[0];
  const int64_t value_size = op->src[2]->ne[0];
  const int64_t shared_by = op->src[0]->ne[2] / op->src[1]->ne[2];
  constexpr struct {
    int64_t key;
    int64_t value;
    int64_t heads;  // that share keys, a multiple of; 0: any
  } kSizes[] = {{40, 40, 0},   {64, 64, 0},   {72, 72, 0},   {80, 80, 0},    {96, 96, 0},   {112, 112, 0},
                {128, 128, 0}, {256, 256, 0}, {192, 128, 8}, {320, 256, 32}, {512, 512, 1}, {576, 512, 1}};
  bool known = false;
  for (const auto& size : kSizes) {
    if (size.key != key_size || size.value != value_size) continue;
    known = size.heads == 0 || (shared_by % size.heads == 0 && cuda_groups_heads(op));
  }
  const Types kKeys = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q4_0, GGML_TYPE_Q8_0};
  return known && type_of(op, 1) == type_of(op, 2) && among(type_of(op, 1), kKeys) &&
         (op->src[3] == nullptr || op->src[3]->ne[2] == 1);
}

// ------------------------------------------------------------------------------------------------------- Vulkan

bool vulkan_multiplies(const ggml_tensor* op) {
  const auto dense = [](const ggml_tensor* t) {
    return innermost_dense(t) && t->nb[1] == ggml_row_size(t->type, t->ne[0]);
  };
  const ggml_tensor* first = op->op == GGML_OP_MUL_MAT ? op->src[0] : op->src[2];
  if (first->ne[3] != op->src[1]->ne[3] || !float_or_quant(type_of(op, 0))) return false;
  if (!dense(op->src[0]) && !among(type_of(op, 0), kFloatsAndBf16)) return false;
  if (!dense(op->src[1]) && !among(type_of(op, 1), kFloats)) return false;
  return type_of(op, 0) != GGML_TYPE_BF16 || type_of(op, 1) != GGML_TYPE_F16;
}

bool vulkan_attends(const ggml_tensor* op) {
  const auto keys = [](ggml_type type) {
    return among(type, kFloatsAndBf16) || (type != GGML_TYPE_Q1_0 && among(type, kSimpleQuants));
  };
  const bool both_bf16 = (type_of(op, 1) == GGML_TYPE_BF16) == (type_of(op, 2) == GGML_TYPE_BF16);
  return op->src[1]->ne[0] % 8 == 0 && op->src[2]->ne[0] % 8 == 0 && all_of(op, kF32) && keys(type_of(op, 1)) &&
         keys(type_of(op, 2)) && both_bf16 && (op->src[3] == nullptr || type_of(op, 3) == GGML_TYPE_F16) &&
         (op->src[4] == nullptr || type_of(op, 4) == GGML_TYPE_F32);
}

bool vulkan_copies(const ggml_tensor* op) {
  const ggml_type from = type_of(op, 0);
  const ggml_type to = op->src[1] != nullptr ? type_of(op, 1) : from;
  const auto with_f32 = [](ggml_type type) {
    return among(type, kFloatsAndBf16) || among(type, kSimpleQuants) || type == GGML_TYPE_I32;
  };
  if ((from == GGML_TYPE_F32 && with_f32(to)) || (to == GGML_TYPE_F32 && with_f32(from))) return true;
  const bool whole = !ggml_is_quantized(from) || (ggml_is_contiguous(op->src[0]) && ggml_is_contiguous(op));
  return from == to && whole && ggml_type_size(from) % 2 == 0;
}

bool vulkan_writes_rows(const ggml_tensor* op) {
  return among(type_of(op, 0), kFloats) && among(type_of(op, 1), {GGML_TYPE_I32, GGML_TYPE_I64}) &&
         (among(op->type, kFloatsAndBf16) || among(op->type, kSimpleQuants));
}

bool vulkan_convolves(const ggml_tensor* op) {
  const ggml_tensor* kernel = op->src[0];
  const bool transposed = op->op == GGML_OP_CONV_TRANSPOSE_2D;
  return among(kernel->type, kFloats) && innermost_dense(kernel) && type_of(op, 1) == GGML_TYPE_F32 &&
         op->type == GGML_TYPE_F32 && kernel->ne[transposed ? 2 : 3] == op->ne[2] &&
         kernel->ne[transposed ? 3 : 2] == op->src[1]->ne[2] && sources_contiguous(op) && ggml_is_contiguous(op);
}

}  // namespace

bool cuda_supports(const ggml_tensor* op) {
  if (is_nothing(op)) return true;
  switch (op->op) {
    case GGML_OP_UNARY:
      return ggml_is_contiguous(op->src[0]);
    case GGML_OP_GLU:
      return ggml_is_contiguous_1(op->src[0]);
    case GGML_OP_MUL_MAT:
    case GGML_OP_MUL_MAT_ID:
      return cuda_multiplies(op);
    case GGML_OP_OUT_PROD:
      return all_of(op, kF32) && type_of(op, 1) == GGML_TYPE_F32;
    case GGML_OP_GET_ROWS:
      return cuda_takes_rows(op);
    case GGML_OP_SET_ROWS:
      return cuda_writes_rows(op);
    case GGML_OP_SET:
      return all_of(op, {GGML_TYPE_F32, GGML_TYPE_I32}) && type_of(op, 1) == op->type;
    case GGML_OP_CPY:
      return cuda_copies(op);
    case GGML_OP_DUP:
      return !among(type_of(op, 0), {GGML_TYPE_I32, GGML_TYPE_I16});
    case GGML_OP_REPEAT:
      return among(type_of(op, 0), kFloats);
    case GGML_OP_CONCAT:
      return cuda_concatenates(op);
    case GGML_OP_CONV_TRANSPOSE_1D:
      return type_of(op, 0) == GGML_TYPE_F32 && type_of(op, 1) == GGML_TYPE_F32;
    case GGML_OP_COL2IM_1D:
      return all_of(op, kFloatsAndBf16) && sources_contiguous(op) && ggml_is_contiguous(op);
    case GGML_OP_NORM:
    case GGML_OP_RMS_NORM:
    case GGML_OP_L2_NORM:
    case GGML_OP_SUM:
      return ggml_is_contiguous_rows(op->src[0]);
    case GGML_OP_ADD:
    case GGML_OP_SUB:
    case GGML_OP_MUL:
    case GGML_OP_DIV:
      return is_arithmetic(op);
    case GGML_OP_ROLL:
      return type_of(op, 0) == GGML_TYPE_F32 && ggml_is_contiguous(op->src[0]);
    case GGML_OP_ROPE:
    case GGML_OP_ROPE_BACK:
      return innermost_dense(op->src[0]) && ggml_is_contiguous_2(op->src[0]);
    case GGML_OP_IM2COL:
    case GGML_OP_IM2COL_3D:
    case GGML_OP_CONV_2D:
    case GGML_OP_ACC:
      return sources_contiguous(op);
    case GGML_OP_CONV_2D_DW:
      return type_of(op, 0) == GGML_TYPE_F32;
    case GGML_OP_SUM_ROWS:
    case GGML_OP_MEAN:
    case GGML_OP_GROUP_NORM:
      return ggml_is_contiguous(op->src[0]);
    case GGML_OP_FLASH_ATTN_EXT:
      return cuda_attends(op);
    case GGML_OP_CONT:
    case GGML_OP_ADD_ID:
    case GGML_OP_ADD1:
    case GGML_OP_SCALE:
    case GGML_OP_SQR:
    case GGML_OP_SQRT:
    case GGML_OP_SIN:
    case GGML_OP_COS:
    case GGML_OP_CLAMP:
    case GGML_OP_LOG:
    case GGML_OP_ARGMAX:
    case GGML_OP_COUNT_EQUAL:
    case GGML_OP_DIAG_MASK_INF:
    case GGML_OP_SOFT_MAX:
    case GGML_OP_CONV_TRANSPOSE_2D:
    case GGML_OP_POOL_2D:
    case GGML_OP_TOP_K:
    case GGML_OP_ARGSORT:
    case GGML_OP_PAD:
    case GGML_OP_UPSCALE:
    case GGML_OP_PAD_REFLECT_1D:
    case GGML_OP_ARANGE:
    case GGML_OP_TIMESTEP_EMBEDDING:
    case GGML_OP_LEAKY_RELU:
    case GGML_OP_FILL:
    case GGML_OP_CUMSUM:
    case GGML_OP_TRI:
    case GGML_OP_DIAG:
    case GGML_OP_SOLVE_TRI:
      return true;
    default:
      return false;
  }
}

bool vulkan_supports(const ggml_tensor* op) {
  if (is_nothing(op)) return true;
  switch (op->op) {
    case GGML_OP_UNARY:
      return all_of(op, kFloats);
    case GGML_OP_GLU:
      return all_of(op, kFloats) && (op->src[1] == nullptr || type_of(op, 1) == op->type);
    case GGML_OP_MUL_MAT:
    case GGML_OP_MUL_MAT_ID:
      return vulkan_multiplies(op);
    case GGML_OP_FLASH_ATTN_EXT:
      return vulkan_attends(op);
    case GGML_OP_GET_ROWS:
      return type_of(op, 0) == GGML_TYPE_I32 || float_or_quant(type_of(op, 0));
    case GGML_OP_SET_ROWS:
      return vulkan_writes_rows(op);
    case GGML_OP_CONT:
    case GGML_OP_CPY:
    case GGML_OP_DUP:
      return vulkan_copies(op);
    case GGML_OP_REPEAT:
      return among(static_cast<ggml_type>(op->type),
                   {GGML_TYPE_F32, GGML_TYPE_I32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_I16}) &&
             ggml_type_size(op->type) == ggml_type_size(type_of(op, 0));
    case GGML_OP_ROPE:
      return ggml_is_contiguous_rows(op) && ggml_is_contiguous_rows(op->src[0]);
    case GGML_OP_RMS_NORM:
      return true;
    case GGML_OP_GROUP_NORM:
      return ggml_is_contiguous(op->src[0]);
    case GGML_OP_NORM:
    case GGML_OP_L2_NORM:
      return all_of(op, kF32);
    case GGML_OP_ADD:
    case GGML_OP_SUB:
    case GGML_OP_MUL:
    case GGML_OP_DIV:
      return is_arithmetic(op);
    case GGML_OP_ADD_ID:
      return all_of(op, kF32) && type_of(op, 1) == GGML_TYPE_F32 && type_of(op, 2) == GGML_TYPE_I32;
    case GGML_OP_SQR:
    case GGML_OP_SQRT:
    case GGML_OP_SIN:
    case GGML_OP_COS:
    case GGML_OP_CLAMP:
    case GGML_OP_LEAKY_RELU:
    case GGML_OP_LOG:
    case GGML_OP_TRI:
    case GGML_OP_DIAG:
      return all_of(op, kFloats);
    case GGML_OP_OUT_PROD:
      return all_of(op, kF32) && type_of(op, 1) == GGML_TYPE_F32 && sources_contiguous(op);
    case GGML_OP_ARGSORT:
      return ggml_is_contiguous(op) && ggml_is_contiguous(op->src[0]);
    case GGML_OP_TOP_K:
      return ggml_is_contiguous(op) && ggml_is_contiguous(op->src[0]) && op->ne[0] < 1024;
    case GGML_OP_UPSCALE:
      return type_of(op, 0) == GGML_TYPE_F32 && ((op->op_params[0] & GGML_SCALE_FLAG_ANTIALIAS) == 0 ||
                                                 (op->op_params[0] & 0xFF) == GGML_SCALE_MODE_BILINEAR);
    case GGML_OP_ACC:
      return all_of(op, kF32) && type_of(op, 1) == GGML_TYPE_F32;
    case GGML_OP_SET:
      return all_of(op, {GGML_TYPE_F32, GGML_TYPE_I32}) && type_of(op, 1) == op->type;
    case GGML_OP_CONCAT:
      return ggml_is_quantized(op->type)
                 ? type_of(op, 0) == op->type && type_of(op, 1) == op->type && ggml_is_contiguous_rows(op) &&
                       ggml_is_contiguous_rows(op->src[0]) && ggml_is_contiguous_rows(op->src[1])
                 : joins_plain(op);
    case GGML_OP_ADD1:
      return among(type_of(op, 0), kFloats) && (type_of(op, 1) == GGML_TYPE_F32 || type_of(op, 0) == type_of(op, 1));
    case GGML_OP_ARANGE:
      return op->type == GGML_TYPE_F32;
    case GGML_OP_FILL:
      return among(op->type, kFloats);
    case GGML_OP_SCALE:
    case GGML_OP_DIAG_MASK_INF:
    case GGML_OP_POOL_1D:
    case GGML_OP_POOL_2D:
    case GGML_OP_ARGMAX:
      return type_of(op, 0) == GGML_TYPE_F32 && ggml_is_contiguous(op->src[0]);
    case GGML_OP_PAD:
    case GGML_OP_ROLL:
    case GGML_OP_TIMESTEP_EMBEDDING:
      return type_of(op, 0) == GGML_TYPE_F32;
    case GGML_OP_SOFT_MAX:
      return type_of(op, 0) == GGML_TYPE_F32 && ggml_is_contiguous(op->src[0]) &&
             (op->src[1] == nullptr || among(type_of(op, 1), kFloats));
    case GGML_OP_SUM:
    case GGML_OP_SUM_ROWS:
    case GGML_OP_MEAN:
    case GGML_OP_CUMSUM:
      return type_of(op, 0) == GGML_TYPE_F32 && ggml_is_contiguous_rows(op->src[0]);
    case GGML_OP_SOLVE_TRI:
      return all_of(op, kF32);
    case GGML_OP_COUNT_EQUAL:
      return type_of(op, 0) == GGML_TYPE_I32 && type_of(op, 1) == GGML_TYPE_I32 && sources_contiguous(op);
    case GGML_OP_IM2COL:
      return ggml_is_contiguous(op->src[1]) && type_of(op, 1) == GGML_TYPE_F32 && among(op->type, kFloats);
    case GGML_OP_IM2COL_3D:
      return type_of(op, 1) == GGML_TYPE_F32 && among(op->type, kFloats);
    case GGML_OP_CONV_2D_DW:
      return among(type_of(op, 0), kFloats) && type_of(op, 1) == GGML_TYPE_F32;
    case GGML_OP_CONV_TRANSPOSE_1D:
      return type_of(op, 0) == GGML_TYPE_F32 && type_of(op, 1) == GGML_TYPE_F32;
    case GGML_OP_COL2IM_1D:
      return all_of(op, kFloatsAndBf16) && ggml_is_contiguous(op->src[0]) && ggml_is_contiguous(op);
    case GGML_OP_CONV_2D:
    case GGML_OP_CONV_TRANSPOSE_2D:
      return vulkan_convolves(op);
    case GGML_OP_CONV_3D:
      return among(type_of(op, 0), kFloats) && type_of(op, 1) == GGML_TYPE_F32 && op->type == GGML_TYPE_F32 &&
             sources_contiguous(op) && ggml_is_contiguous(op);
    default:
      return false;
  }
}

bool rpc_supports(const ggml_tensor*) { return true; }

}  // namespace standin
