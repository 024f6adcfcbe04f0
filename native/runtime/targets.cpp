#include "targets.h"

#include <array>
#include <map>
#include <string>
#include <vector>

#include "status.h"

namespace executorch_ggml {
namespace {

using Ports = flatbuffers::Vector<flatbuffers::Offset<fb::Port>>;

template <class T>
size_t size_of(const T* vector) {
  return vector ? vector->size() : 0;
}

std::string text(const flatbuffers::String* string) { return string ? string->str() : ""; }

flatbuffers::uoffset_t index(size_t i) { return static_cast<flatbuffers::uoffset_t>(i); }

const fb::Graph* find(const fb::Program& program, Target target) {
  for (size_t i = 0; i < size_of(program.graphs()); ++i) {
    const fb::Graph* graph = program.graphs()->Get(index(i));
    if (static_cast<Target>(graph->target()) == target) return graph;
  }
  return nullptr;
}

// Sizes by numbers that are equal where they are the same expression, whichever graph they are of.
class Sizes {
 public:
  // The numbers of a graph's expressions.
  std::vector<int64_t> of_exprs(const fb::Graph& graph) {
    std::vector<int64_t> numbers;
    for (size_t i = 0; i < size_of(graph.exprs()); ++i) {
      const fb::Expr& expr = *graph.exprs()->Get(index(i));
      const auto op = static_cast<int64_t>(expr.op());
      if (expr.op() == fb::ExprOp::Symbol) {
        const fb::Symbol& symbol = *graph.symbols()->Get(index(static_cast<size_t>(expr.a())));
        numbers.push_back(number({op, symbol.input(), symbol.dim(), symbol.scale(), symbol.offset()}));
      } else if (expr.op() == fb::ExprOp::Const) {
        numbers.push_back(number({op, expr.a(), 0, 0, 0}));
      } else {
        numbers.push_back(number({op, of(expr.a(), numbers), of(expr.b(), numbers), 0, 0}));
      }
    }
    return numbers;
  }

  // A size itself, or a number below 0 for an expression.
  static int64_t of(int64_t sdim, const std::vector<int64_t>& exprs) {
    const auto i = static_cast<uint64_t>(-(sdim + 1));
    return sdim >= 0 || i >= exprs.size() ? sdim : exprs[i];
  }

 private:
  int64_t number(const std::array<int64_t, 5>& key) {
    return known_.emplace(key, -1 - static_cast<int64_t>(known_.size())).first->second;
  }

  std::map<std::array<int64_t, 5>, int64_t> known_;
};

struct Side {
  const fb::Graph& graph;
  std::vector<int64_t> exprs;

  fb::DType dtype(const fb::Port& port) const {
    return graph.values()->Get(index(static_cast<size_t>(port.value())))->dtype();
  }
};

bool same_port(const Side& a, const fb::Port& port, const Side& b, const fb::Port& other) {
  if (text(port.name()) != text(other.name()) || a.dtype(port) != b.dtype(other)) return false;
  if (size_of(port.shape()) != size_of(other.shape())) return false;
  for (size_t d = 0; d < size_of(port.shape()); ++d) {
    if (Sizes::of(port.shape()->Get(index(d)), a.exprs) != Sizes::of(other.shape()->Get(index(d)), b.exprs))
      return false;
  }
  return true;
}

Status check_same(const Side& a, const Ports* ports, const Side& b, const Ports* others, const char* what) {
  bool same = size_of(ports) == size_of(others);
  for (size_t i = 0; same && i < size_of(ports); ++i) {
    same = same_port(a, *ports->Get(index(i)), b, *others->Get(index(i)));
  }
  if (same) return {};
  return Status::error(format("the %s of the graphs for targets #%d and #%d differ; export the model again", what,
                              static_cast<int>(a.graph.target()), static_cast<int>(b.graph.target())));
}

}  // namespace

Status check_targets(const fb::Program& program) {
  for (size_t i = 0; i < size_of(program.graphs()); ++i) {
    const fb::Graph& graph = *program.graphs()->Get(index(i));
    const int target = static_cast<int>(graph.target());
    if (target > kTargetMax) {
      return Status::error(
          format("graph %zu is for target #%d, unknown to this runtime; update executorch-ggml", i, target));
    }
    if (find(program, static_cast<Target>(target)) != &graph) {
      return Status::error(format("two graphs are for target #%d, expected one; export the model again", target));
    }
  }
  return {};
}

Status check_same_ports(const fb::Program& program) {
  if (size_of(program.graphs()) < 2) return {};
  Sizes sizes;
  const auto side = [&](const fb::Graph& graph) { return Side{graph, sizes.of_exprs(graph)}; };
  const Side first = side(*program.graphs()->Get(0));
  for (size_t i = 1; i < size_of(program.graphs()); ++i) {
    const Side other = side(*program.graphs()->Get(index(i)));
    EXECUTORCH_GGML_TRY(check_same(first, first.graph.inputs(), other, other.graph.inputs(), "inputs"));
    EXECUTORCH_GGML_TRY(check_same(first, first.graph.outputs(), other, other.graph.outputs(), "outputs"));
  }
  return {};
}

const fb::Graph& graph_for(const fb::Program& program, Target target) {
  const fb::Graph* wanted = find(program, target);
  if (wanted == nullptr) wanted = find(program, Target::Cpu);
  return wanted != nullptr ? *wanted : *program.graphs()->Get(0);
}

}  // namespace executorch_ggml
