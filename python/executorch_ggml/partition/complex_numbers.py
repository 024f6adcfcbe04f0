"""Complex numbers in real arithmetic: neither ggml nor ExecuTorch's kernels have a type for them."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export import ExportedProgram
from torch.fx import Graph, Node
from torch.fx.node import map_aggregate

from .functional import functional_copy

aten = torch.ops.aten


@dataclass(frozen=True)
class Parts:
    """The real and the imaginary part of a complex tensor (or number): nodes of one shape."""

    re: Any
    im: Any


# A rule gives a node, or Parts where the op's result is complex; None for arguments that it is not for.
Rule = Callable[..., Any]
Function = TypeVar("Function", bound=Rule)
RULES: dict[Any, Rule] = {}

_REAL = {torch.complex64: torch.float32, torch.complex128: torch.float64, torch.complex32: torch.float16}

# Ops that treat both parts alike: moves, copies, sums.
_BY_PARTS = (
    *(aten.view.default, aten.reshape.default, aten._unsafe_view.default, aten.flatten.using_ints, aten.unflatten.int),
    *(aten.unsqueeze.default, aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.expand.default),
    *(aten.repeat.default, aten.permute.default, aten.transpose.int, aten.t.default, aten.movedim.int),
    *(aten.slice.Tensor, aten.narrow.default, aten.select.int, aten.flip.default, aten.roll.default),
    *(aten.index.Tensor, aten.index_select.default, aten.gather.default, aten.embedding.default, aten.where.self),
    *(aten.slice_scatter.default, aten.select_scatter.default, aten.index_put.default, aten.copy.default),
    *(aten.cat.default, aten.stack.default, aten.split.Tensor, aten.split_with_sizes.default, aten.chunk.default),
    *(aten.unbind.int, operator.getitem, aten.clone.default, aten.contiguous.default, aten.alias.default),
    *(aten.detach.default, aten.lift_fresh_copy.default, aten.zeros_like.default, aten.neg.default),
    *(aten.sum.default, aten.sum.dim_IntList, aten.mean.default, aten.mean.dim, aten.cumsum.default),
    *(aten.add.Tensor, aten.sub.Tensor),
)
_PRODUCTS = (aten.mul.Tensor, aten.mm.default, aten.bmm.default, aten.matmul.default, aten.mv.default, aten.dot.default)


class Reals:
    """Writes nodes of real arithmetic in place of one node of a graph."""

    def __init__(self, graph: Graph, node: Node, mode: FakeTensorMode) -> None:
        self._graph = graph
        self._mode = mode
        self.node = node

    def __call__(self, target: Any, *args: Any, **kwargs: Any) -> Node:
        """One call, with the value that torch says it has."""
        node = self._graph.call_function(target, args, kwargs)
        with self._mode, torch.no_grad():
            node.meta["val"] = target(*map_aggregate(args, _value), **map_aggregate(kwargs, _value))
        if "stack_trace" in self.node.meta:
            node.meta["stack_trace"] = self.node.meta["stack_trace"]
        return node

    def whole(self, x: Any) -> Parts:
        """Something as a complex number."""
        if isinstance(x, Parts):
            return x
        if isinstance(x, Node):
            return Parts(x, self(aten.zeros_like.default, x))
        number = complex(x)
        return Parts(number.real, number.imag)


def computes(*overloads: Any) -> Callable[[Function], Function]:
    """Register a rule for some ops: ``rule(reals, *args, **kwargs)`` with :class:`Parts` for what is complex."""

    def register(function: Function) -> Function:
        RULES.update(dict.fromkeys(overloads, function))
        return function

    return register


def in_reals(program: ExportedProgram) -> ExportedProgram:
    """Compute with two real tensors in place of each complex one.

    Given   x -> view_as_complex -> mul(polar(1, angle)) -> view_as_real
    Result  x -> select 0, 1 -> re * cos - im * sin, re * sin + im * cos -> stack

    Complex constants become real ones with a last dim of 2. Complex inputs, outputs, and ops without a rule stay as
    they are. The program is a copy where it changes.
    """
    if not any(_is_complex(node.meta.get("val")) for node in program.graph.nodes):
        return program
    program = functional_copy(program)
    known: dict[Node, Parts] = {}
    constants = [node for node in program.graph.find_nodes(op="placeholder") if _is_complex_constant(program, node)]
    for node in list(program.graph.nodes):
        if node in constants:
            known[node] = _parts_of_constant(node)
        elif node.op == "call_function":
            _rewrite(node, known)
    program.graph.eliminate_dead_code()
    for node in constants:
        _store_as_real(program, node)
    program.graph_module.recompile()
    return program


def _is_complex(value: Any) -> bool:
    items = value if isinstance(value, (tuple, list)) else [value]
    return any(isinstance(item, torch.Tensor) and item.is_complex() for item in items)


def _value(argument: Any) -> Any:
    return argument.meta["val"] if isinstance(argument, Node) else argument


def _rewrite(node: Node, known: dict[Node, Parts]) -> None:
    """Write what a node computes in reals, if it has to do with complex numbers and there is a rule for it."""
    complex_result = _is_complex(node.meta.get("val"))
    complex_inputs = [source for source in node.all_input_nodes if _is_complex(source.meta.get("val"))]
    rule = RULES.get(node.target)
    if rule is None or not (complex_result or complex_inputs) or any(source not in known for source in complex_inputs):
        return

    def in_parts(argument: Any) -> Any:
        if isinstance(argument, torch.dtype):
            return _REAL.get(argument, argument)
        return known.get(argument, argument) if isinstance(argument, Node) else argument

    with node.graph.inserting_before(node):
        args, kwargs = map_aggregate(node.args, in_parts), map_aggregate(node.kwargs, in_parts)
        result = rule(Reals(node.graph, node, _mode_of(node)), *args, **kwargs)
    if isinstance(result, Parts):
        known[node] = result
    elif result is not None:
        node.replace_all_uses_with(result)


def _mode_of(node: Node) -> FakeTensorMode:
    values = [_value(each) for each in (node, *node.all_input_nodes)]
    items = [item for value in values for item in (value if isinstance(value, (tuple, list)) else [value])]
    return next(item.fake_mode for item in items if isinstance(item, FakeTensor))


# -------------------------------------------------------------------------------------------------- complex constants


def _is_complex_constant(program: ExportedProgram, node: Node) -> bool:
    """Whether a node is a complex parameter, buffer or constant that nothing writes to."""
    name = _constant_name(program, node)
    return (
        name is not None
        and name not in program.graph_signature.buffers_to_mutate.values()
        and _is_complex(_value(node))
    )


def _constant_name(program: ExportedProgram, node: Node) -> str | None:
    signature = program.graph_signature
    kinds = (
        signature.inputs_to_parameters,
        signature.inputs_to_buffers,
        signature.inputs_to_lifted_tensor_constants,
    )
    return next((names[node.name] for names in kinds if node.name in names), None)


def _parts_of_constant(node: Node) -> Parts:
    reals = Reals(node.graph, node, _mode_of(node))
    with node.graph.inserting_after(node):
        pairs = reals(aten.view_as_real.default, node)
    with node.graph.inserting_after(pairs):
        im = reals(aten.select.int, pairs, -1, 1)
        re = reals(aten.select.int, pairs, -1, 0)
    return Parts(re, im)


def _store_as_real(program: ExportedProgram, node: Node) -> None:
    """Replace a complex constant by its parts, where they are all that is read of it."""
    if not node.users or any(user.target is not aten.view_as_real.default for user in node.users):
        return
    name = _constant_name(program, node)
    assert name is not None
    store = "_state_dict" if name in program.state_dict else "_constants"
    contents = getattr(program, store)
    setattr(program, store, {**contents, name: torch.view_as_real(contents[name].detach().resolve_conj()).contiguous()})
    for pairs in list(node.users):
        node.meta["val"] = pairs.meta["val"]
        pairs.replace_all_uses_with(node)
        node.graph.erase_node(pairs)


# -------------------------------------------------------------------------------------------------------------- rules


def _by_parts(target: Any, reals: Reals, *args: Any, **kwargs: Any) -> Parts:
    joined = target in (aten.cat.default, aten.stack.default)

    def in_parts(argument: Any) -> Any:
        is_data = isinstance(argument, Node) and isinstance(_value(argument), torch.Tensor)
        if is_data and (joined or _value(argument).is_floating_point()):  # not an index or a condition
            return reals.whole(argument)
        return reals.whole(argument) if isinstance(argument, complex) else argument

    args, kwargs = map_aggregate(args, in_parts), map_aggregate(kwargs, in_parts)
    return Parts(
        *(
            reals(target, *map_aggregate(args, part), **map_aggregate(kwargs, part))
            for part in (
                lambda argument: argument.re if isinstance(argument, Parts) else argument,
                lambda argument: argument.im if isinstance(argument, Parts) else argument,
            )
        )
    )


def _product(target: Any, reals: Reals, a: Any, b: Any) -> Parts:
    if isinstance(b, complex):
        b = Parts(b.real, b.imag)
    if not isinstance(a, Parts):
        return Parts(reals(target, a, b.re), reals(target, a, b.im))
    if not isinstance(b, Parts):
        return Parts(reals(target, a.re, b), reals(target, a.im, b))
    return Parts(
        reals(aten.sub.Tensor, reals(target, a.re, b.re), reals(target, a.im, b.im)),
        reals(aten.add.Tensor, reals(target, a.re, b.im), reals(target, a.im, b.re)),
    )


RULES.update({target: functools.partial(_by_parts, target) for target in _BY_PARTS})
RULES.update({target: functools.partial(_product, target) for target in _PRODUCTS})


@computes(aten.add.Tensor, aten.sub.Tensor)
def _added(reals: Reals, a: Any, b: Any, alpha: Any = 1) -> Parts | None:
    if isinstance(alpha, complex):
        return None
    a, b = reals.whole(a), reals.whole(b)
    return Parts(*(reals(reals.node.target, x, y, alpha=alpha) for x, y in ((a.re, b.re), (a.im, b.im))))


@computes(aten.div.Tensor)
def _quotient(reals: Reals, a: Any, b: Any) -> Parts:
    if isinstance(b, complex):
        b = Parts(*map(functools.partial(reals, aten.full_like.default, a.re), (b.real, b.imag)))
    if not isinstance(b, Parts):
        return Parts(reals(aten.div.Tensor, a.re, b), reals(aten.div.Tensor, a.im, b))
    a = reals.whole(a)
    larger = reals(aten.maximum.default, *(reals(aten.abs.default, part) for part in (b.re, b.im)))
    b = Parts(*(reals(aten.div.Tensor, part, larger) for part in (b.re, b.im)))  # squares neither overflow nor vanish
    squares = reals(aten.add.Tensor, *(reals(aten.mul.Tensor, part, part) for part in (b.re, b.im)))
    product = _product(aten.mul.Tensor, reals, a, _conjugate(reals, b))
    return Parts(
        *(reals(aten.div.Tensor, reals(aten.div.Tensor, part, squares), larger) for part in (product.re, product.im))
    )


@computes(aten.reciprocal.default)
def _reciprocal(reals: Reals, z: Parts) -> Parts:
    return _quotient(reals, reals(aten.ones_like.default, z.re), z)


@computes(aten._conj.default, aten.conj_physical.default, aten._conj_physical.default)
def _conjugate(reals: Reals, z: Parts) -> Parts:
    return Parts(z.re, reals(aten.neg.default, z.im))


@computes(aten.resolve_conj.default, aten.resolve_neg.default)
def _resolved(reals: Reals, z: Parts) -> Parts:
    del reals
    return z


@computes(aten.complex.default)
def _complex(reals: Reals, re: Node, im: Node) -> Parts | None:
    del reals
    return Parts(re, im) if _value(re).shape == _value(im).shape else None


@computes(aten.polar.default)
def _polar(reals: Reals, magnitude: Node, angle: Node) -> Parts:
    turns = (aten.cos.default, aten.sin.default)
    return Parts(*(reals(aten.mul.Tensor, magnitude, reals(turn, angle)) for turn in turns))


@computes(aten.exp.default)
def _exponential(reals: Reals, z: Parts) -> Parts:
    return _polar(reals, reals(aten.exp.default, z.re), z.im)


@computes(aten.view_as_complex.default)
def _view_as_complex(reals: Reals, x: Node) -> Parts:
    return Parts(*(reals(aten.select.int, x, -1, part) for part in (0, 1)))


@computes(aten.view_as_real.default)
def _view_as_real(reals: Reals, z: Parts) -> Node:
    last = _value(z.re).dim()
    for user in list(reals.node.users):  # as `z.real` and `z.imag` are traced
        if user.target is aten.select.int and user.args[1] in (last, -1):
            user.replace_all_uses_with(z.im if user.args[2] in (1, -1) else z.re)
    return reals(aten.stack.default, [z.re, z.im], -1)


@computes(aten.real.default)
def _real(reals: Reals, z: Parts) -> Any:
    del reals
    return z.re


@computes(aten.imag.default)
def _imag(reals: Reals, z: Parts) -> Any:
    del reals
    return z.im


@computes(aten.abs.default)
def _magnitude(reals: Reals, z: Parts) -> Node:
    """``larger * sqrt(1 + (smaller / larger) ** 2)``: the squares of large numbers would be infinite."""
    re, im = (reals(aten.abs.default, part) for part in (z.re, z.im))
    larger, smaller = reals(aten.maximum.default, re, im), reals(aten.minimum.default, re, im)
    ratio = reals(aten.div.Tensor, smaller, larger)
    root = reals(aten.sqrt.default, reals(aten.add.Tensor, reals(aten.mul.Tensor, ratio, ratio), 1.0))
    product = reals(aten.mul.Tensor, larger, root)
    nonzero = reals(aten.where.self, reals(aten.eq.Scalar, larger, 0.0), larger, product)  # 0 / 0 is no number
    infinite = reals(aten.logical_or.default, *(reals(aten.eq.Scalar, part, torch.inf) for part in (re, im)))
    return reals(aten.where.self, infinite, reals(aten.full_like.default, larger, torch.inf), nonzero)


@computes(aten.angle.default)
def _angle(reals: Reals, z: Parts) -> Node:
    return reals(aten.atan2.default, z.im, z.re)


@computes(aten._to_copy.default, aten.to.dtype)
def _converted(reals: Reals, x: Any, *args: Any, **kwargs: Any) -> Any:
    if not _is_complex(reals.node.meta["val"]):
        return reals(reals.node.target, x.re, *args, **kwargs)
    if isinstance(x, Parts):
        return Parts(*(reals(reals.node.target, part, *args, **kwargs) for part in (x.re, x.im)))
    return reals.whole(reals(reals.node.target, x, *args, **kwargs))


@computes(aten.zeros.default, aten.ones.default, aten.ones_like.default)
def _created(reals: Reals, of: Any, **kwargs: Any) -> Parts:
    return reals.whole(reals(reals.node.target, of.re if isinstance(of, Parts) else of, **kwargs))


@computes(aten.full.default)
def _full(reals: Reals, size: Any, number: Any, **kwargs: Any) -> Parts:
    number = reals.whole(number)
    return Parts(*(reals(aten.full.default, size, part, **kwargs) for part in (number.re, number.im)))


@computes(aten.sym_size.int)
def _size(reals: Reals, z: Parts, dim: int) -> Node:
    return reals(aten.sym_size.int, z.re, dim)
