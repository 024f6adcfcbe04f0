// The result rules of the rows that run as kernels, by the names that the rows give them: the element type and dims of
// a node's output. ggml's builders find these by themselves; for a kernel's node they must be those that were declared.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>

#include "ops_generated.h"

namespace executorch_ggml {

using Dims = std::array<int64_t, 4>;

// A tensor as rules know it, with the element type that the IR has: ggml stores bool and u8 as I8.
struct Operand {
  DType dtype = DType::F32;
  Dims ne{};
};

inline Operand typed(DType dtype, const Dims& ne) { return {dtype, ne}; }

inline Operand with_type(const Operand& a, DType dtype) { return {dtype, a.ne}; }

inline Operand with_dims(const Operand& a, const Dims& ne) { return {a.dtype, ne}; }

inline Dims broadcast_dims(std::initializer_list<Dims> shapes) {
  Dims ne = {1, 1, 1, 1};
  for (const Dims& shape : shapes) {
    for (int i = 0; i < 4; ++i) ne[i] = shape[i] != 1 ? shape[i] : ne[i];
  }
  return ne;
}

inline Operand unary_result(const Operand& a, UnaryKind kind) {
  const bool tests = kind == UnaryKind::LogicalNot || kind == UnaryKind::Isnan || kind == UnaryKind::Isinf ||
                     kind == UnaryKind::Signbit;
  return {tests ? DType::Bool : a.dtype, a.ne};
}

inline bool compares(BinaryKind kind) { return kind >= BinaryKind::Eq && kind <= BinaryKind::LogicalXor; }

inline Operand binary_result(const Operand& a, const Operand& b, BinaryKind kind) {
  return {compares(kind) ? DType::Bool : a.dtype, broadcast_dims({a.ne, b.ne})};
}

inline Operand selected(const Operand& condition, const Operand& a, const Operand& b) {
  return {a.dtype, broadcast_dims({condition.ne, a.ne, b.ne})};
}

inline Operand concatenated(const Operand& a, const Operand& b, int64_t dim) {
  Operand made = a;
  made.ne[dim] += b.ne[dim];
  return made;
}

inline Operand taken_rows(const Operand& a, const Operand& rows) {
  return {a.dtype, {a.ne[0], rows.ne[0], rows.ne[1], rows.ne[2]}};
}

inline Operand multiplied(const Operand& a, const Operand& b) {
  return {DType::F32, {a.ne[1], b.ne[1], b.ne[2], b.ne[3]}};
}

inline Operand attended(const Operand& q, const Operand& v) {
  return {DType::F32, {v.ne[0], q.ne[2], q.ne[1], q.ne[3]}};
}

inline Operand sampled(const Operand& x, const Operand& grid) {
  return {x.dtype, {x.ne[0], grid.ne[1], grid.ne[2], grid.ne[3]}};
}

inline Operand taken(const Operand& a, const Operand& index, int64_t axis) {
  Operand made = a;
  made.ne[axis] = index.ne[axis];
  return made;
}

inline Operand sorted(const Operand& a, int64_t count) { return {DType::I64, {count, a.ne[1], a.ne[2], a.ne[3]}}; }

inline Operand scanned(const Operand& a, ScanKind kind) {
  return {kind == ScanKind::Argmax || kind == ScanKind::Argmin ? DType::I64 : a.dtype, a.ne};
}

inline Operand reduced(const Operand& a, ReduceKind kind, const Ints& axes) {
  Operand made = a;
  if (kind == ReduceKind::Any || kind == ReduceKind::All) made.dtype = DType::Bool;
  if (kind == ReduceKind::Argmax || kind == ReduceKind::Argmin) made.dtype = DType::I64;
  for (int i = 0; i < axes.size; ++i) made.ne[axes[i]] = 1;
  return made;
}

}  // namespace executorch_ggml
