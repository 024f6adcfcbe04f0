#include "shapes.h"

#include <algorithm>

#include "status.h"

namespace executorch_ggml {
namespace {

bool is_binary(fb::ExprOp op) { return op >= fb::ExprOp::Add && op <= fb::ExprOp::Max; }

// Floor division and the modulus that goes with it, as Python has them. b is not 0, and not -1 for the least a.
int64_t floor_div(int64_t a, int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }
int64_t floor_mod(int64_t a, int64_t b) {
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

Status apply(fb::ExprOp op, int64_t a, int64_t b, int64_t* value) {
  bool overflow = false;
  switch (op) {
    case fb::ExprOp::Add:
      overflow = __builtin_add_overflow(a, b, value);
      break;
    case fb::ExprOp::Mul:
      overflow = __builtin_mul_overflow(a, b, value);
      break;
    case fb::ExprOp::FloorDiv:
    case fb::ExprOp::Mod:
      if (b == 0) return Status::error("division by zero");
      if (a == INT64_MIN && b == -1) return Status::error("overflow of 64 bits");
      *value = op == fb::ExprOp::FloorDiv ? floor_div(a, b) : floor_mod(a, b);
      break;
    case fb::ExprOp::Min:
      *value = std::min(a, b);
      break;
    default:
      *value = std::max(a, b);
      break;
  }
  return overflow ? Status::error("overflow of 64 bits") : Status();
}

Status check_operand(int64_t sdim, size_t made) {
  if (sdim < 0 && static_cast<uint64_t>(-(sdim + 1)) >= made) {
    return Status::error(format("size expression %zu refers to expression %lld, expected an earlier one", made,
                                static_cast<long long>(-(sdim + 1))));
  }
  return {};
}

Status check_symbol(const fb::Graph& graph, const fb::Symbol& symbol) {
  const size_t inputs = graph.inputs() ? graph.inputs()->size() : 0;
  const char* name = symbol.name() ? symbol.name()->c_str() : "";
  if (symbol.input() < 0 || static_cast<size_t>(symbol.input()) >= inputs) {
    return Status::error(
        format("symbol %s is read off input %d, expected 0 or more and less than %zu", name, symbol.input(), inputs));
  }
  if (symbol.scale() == 0 || symbol.scale() == -1) {
    return Status::error(
        format("symbol %s has scale %lld, expected neither 0 nor -1", name, static_cast<long long>(symbol.scale())));
  }
  const auto* shape = graph.inputs()->Get(symbol.input())->shape();
  const int64_t rank = shape ? shape->size() : 0;
  if (symbol.dim() < -1 || symbol.dim() >= rank || (symbol.dim() == -1 && rank != 0)) {
    return Status::error(format("symbol %s is read off dim %d of input %d, which has %lld dims", name, symbol.dim(),
                                symbol.input(), static_cast<long long>(rank)));
  }
  return {};
}

}  // namespace

Status Shapes::check(const fb::Graph& graph) {
  const size_t symbols = graph.symbols() ? graph.symbols()->size() : 0;
  for (size_t i = 0; i < symbols; ++i) EXECUTORCH_GGML_TRY(check_symbol(graph, *graph.symbols()->Get(i)));
  const size_t exprs = graph.exprs() ? graph.exprs()->size() : 0;
  for (size_t i = 0; i < exprs; ++i) {
    const fb::Expr& expr = *graph.exprs()->Get(i);
    if (expr.op() == fb::ExprOp::Symbol && (expr.a() < 0 || static_cast<size_t>(expr.a()) >= symbols)) {
      return Status::error(format("size expression %zu refers to symbol %lld, expected 0 or more and less than %zu", i,
                                  static_cast<long long>(expr.a()), symbols));
    }
    if (expr.op() > fb::ExprOp::Max) {
      return Status::error(
          format("size expression %zu: operator #%d is unknown to this runtime; update executorch-ggml", i,
                 static_cast<int>(expr.op())));
    }
    if (is_binary(expr.op())) {
      EXECUTORCH_GGML_TRY(check_operand(expr.a(), i));
      EXECUTORCH_GGML_TRY(check_operand(expr.b(), i));
    }
  }
  return {};
}

Status Shapes::bind(const fb::Graph& graph, const std::vector<int64_t>& sources) {
  std::vector<int64_t> symbols(sources.size());
  for (size_t i = 0; i < sources.size(); ++i) {
    const fb::Symbol& symbol = *graph.symbols()->Get(i);
    const char* name = symbol.name() ? symbol.name()->c_str() : "";
    int64_t scaled = 0;
    if (__builtin_sub_overflow(sources[i], symbol.offset(), &scaled) || scaled % symbol.scale() != 0) {
      return Status::error(format("input %d, dim %d: size %lld is not %lld * %s + %lld", symbol.input(), symbol.dim(),
                                  static_cast<long long>(sources[i]), static_cast<long long>(symbol.scale()), name,
                                  static_cast<long long>(symbol.offset())));
    }
    symbols[i] = scaled / symbol.scale();
    if (symbols[i] < symbol.min() || symbols[i] > symbol.max()) {
      return Status::error(format(
          "input %d, dim %d: size %lld makes %s = %lld, outside the %lld to %lld that the model was exported for",
          symbol.input(), symbol.dim(), static_cast<long long>(sources[i]), name, static_cast<long long>(symbols[i]),
          static_cast<long long>(symbol.min()), static_cast<long long>(symbol.max())));
    }
  }
  return evaluate(graph, symbols);
}

Status Shapes::bind_near(const fb::Graph& graph, int64_t size) {
  std::vector<int64_t> symbols(graph.symbols() ? graph.symbols()->size() : 0);
  for (size_t i = 0; i < symbols.size(); ++i) {
    const fb::Symbol& symbol = *graph.symbols()->Get(i);
    symbols[i] = std::min(std::max(size, symbol.min()), symbol.max());
  }
  return evaluate(graph, symbols);
}

Status Shapes::evaluate(const fb::Graph& graph, const std::vector<int64_t>& symbols) {
  const size_t count = graph.exprs() ? graph.exprs()->size() : 0;
  exprs_.clear();
  exprs_.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const fb::Expr& expr = *graph.exprs()->Get(i);
    int64_t value = expr.a();
    if (expr.op() == fb::ExprOp::Symbol) {
      value = symbols[expr.a()];
    } else if (is_binary(expr.op())) {
      int64_t a = 0;
      int64_t b = 0;
      EXECUTORCH_GGML_TRY(value_of(expr.a(), &a));
      EXECUTORCH_GGML_TRY(value_of(expr.b(), &b));
      const Status status = apply(expr.op(), a, b, &value);
      if (!status.ok()) {
        return Status::error(format(
            "size expression %zu of %lld and %lld: %s; these inputs' sizes are none that the model was exported for", i,
            static_cast<long long>(a), static_cast<long long>(b), status.message().c_str()));
      }
    }
    exprs_.push_back(value);
  }
  asked_.assign(count, false);
  return {};
}

Status Shapes::eval(int64_t sdim, int64_t* value) const {
  EXECUTORCH_GGML_TRY(value_of(sdim, value));
  if (sdim < 0) asked_[static_cast<size_t>(-(sdim + 1))] = true;
  return {};
}

bool Shapes::gave_same(const Shapes& other) const {
  for (size_t i = 0; i < exprs_.size(); ++i) {
    if (asked_[i] && exprs_[i] != other.exprs_[i]) return false;
  }
  return true;
}

Status Shapes::value_of(int64_t sdim, int64_t* value) const {
  if (sdim >= 0) {
    *value = sdim;
    return {};
  }
  const uint64_t index = static_cast<uint64_t>(-(sdim + 1));
  if (index >= exprs_.size()) {
    return Status::error(format("a size refers to expression %llu, expected less than %zu",
                                static_cast<unsigned long long>(index), exprs_.size()));
  }
  *value = exprs_[index];
  return {};
}

Status Shapes::size(int64_t sdim, int64_t* value) const {
  EXECUTORCH_GGML_TRY(eval(sdim, value));
  if (*value < 0 || *value > kMaxDim) {
    return Status::error(
        format("a size of %lld, expected 0 to %lld", static_cast<long long>(*value), static_cast<long long>(kMaxDim)));
  }
  return {};
}

Status Shapes::sizes(const fb::Ne& ne, std::array<int64_t, 4>* value) const {
  const int64_t wire[4] = {ne.n0(), ne.n1(), ne.n2(), ne.n3()};
  for (int i = 0; i < 4; ++i) EXECUTORCH_GGML_TRY(size(wire[i], &(*value)[i]));
  return {};
}

}  // namespace executorch_ggml
