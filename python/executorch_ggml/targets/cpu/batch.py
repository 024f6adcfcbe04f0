"""Batches: which symbol counts samples that do not depend on each other, so that a run may compute them apart.

Given::

    symbol s0: input 0 dim 0, 0 to 32
    input %x: f32[64, 10, s0, 1]
    %0 = reshape(%x, ne=(64, 10*s0, 1, 1))
    %1 = linear(%0, @weight)
    output y: %1 as [s0, 10, 64]

Result::

    symbol s0: input 0 dim 0, 0 to 32, batch

A value is of the batch if one of its dims, the axis, is a multiple of the symbol, and the others do not depend on it.
Along the axis the samples lie one after the other, once or, as in ``n, s0, c`` taken as one dim, ``n`` times. A node
keeps samples apart if it gives the part of its result that is of some samples for the parts of its operands that are.
Ops without a rule here are taken to mix samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from ...ir.dims import free_symbols, is_one, product, quotient, same
from ...ir.graph import Graph, Node, Port, Symbol, Value
from ...ir.op import Dim, Dims
from ...ir.ops import OPS
from ...ir.verify import attribute_sizes
from ...passes.rewrite import input_of, present


class Place(NamedTuple):
    """Where samples lie: along an axis, and how often all of them do, one after the other."""

    axis: int
    times: Dim


Places = dict[Value | None, Place]  # by value of the batch
Rule = Callable[[Node, Places, int], bool]  # whether the result is of the batch along this axis


def run(graph: Graph) -> Graph:
    """The graph with the symbol of its batch marked, if it has one."""
    batch = None if graph.states else next((entry for entry in graph.symbols if _Samples(entry).are_apart(graph)), None)
    return replace(graph, symbols=[replace(entry, batch=entry is batch) for entry in graph.symbols])


class _Samples:
    """What a symbol counts along the first dims of inputs and outputs."""

    def __init__(self, entry: Symbol) -> None:
        self._entry = entry
        self._places: Places = {}

    def are_apart(self, graph: Graph) -> bool:
        """Whether all outputs are of the batch, and no node mixes samples."""
        counts = self._entry.dim == 0 and self._entry.offset == 0
        return (
            counts
            and all(self._take(port) for port in graph.inputs)
            and all(self._follow(node) for node in graph.nodes)
            and all(self._is_given_apart(port) for port in graph.outputs)
        )

    def _take(self, port: Port) -> bool:
        if not self._is_in(port.value.ne):
            return True
        axis = self._axis(port.value.ne)
        if axis is None or not self._is_in_order(port, axis):
            return False
        self._places[port.value] = Place(axis, 1)
        return True

    def _is_given_apart(self, port: Port) -> bool:
        place = self._places.get(port.value)
        return place is not None and is_one(place.times) and self._is_in_order(port, place.axis)

    def _is_in_order(self, port: Port, axis: int) -> bool:
        """Whether each sample is in one piece, behind the one before."""
        outermost = all(is_one(size) for size in port.value.ne[axis + 1 :])
        return outermost and bool(port.shape) and self._is_multiple(port.shape[0]) and not self._is_in(port.shape[1:])

    def _follow(self, node: Node) -> bool:
        of_batch = [value for value in present(node.inputs) if value in self._places]
        if not of_batch and not self._is_in([*node.output.ne, *attribute_sizes(node)]):
            return True
        axis, rule = self._axis(node.output.ne), _RULES.get(node.op)
        if axis is None or rule is None or not self._attributes_are_dims(node) or not rule(node, self._places, axis):
            return False
        times = self._places[of_batch[0]].times if of_batch else 1
        if node.op == "reshape":
            times = quotient(_repeats(of_batch[0].ne, self._places[of_batch[0]]), product(node.output.ne[axis + 1 :]))
        if times is None or not self._is_multiple(node.output.ne[axis], times):
            return False
        self._places[node.output] = Place(axis, times)
        return True

    def _is_in(self, sizes: Sequence[Dim]) -> bool:
        return self._entry.symbol in free_symbols(sizes)

    def _is_multiple(self, size: Dim, times: Dim = 1) -> bool:
        part = quotient(size, product([times, self._entry.symbol]))
        return part is not None and not self._is_in([part])

    def _axis(self, ne: Dims) -> int | None:
        axes = [axis for axis, size in enumerate(ne) if self._is_in([size])]
        return axes[0] if len(axes) == 1 and self._is_multiple(ne[axes[0]]) else None

    def _attributes_are_dims(self, node: Node) -> bool:
        """Whether only that attribute depends on the symbol which says the result's dims."""
        dims = node.output.ne if "ne" in node.spec.attr_names else ()
        return all(any(same(size, n) for n in dims) for size in attribute_sizes(node) if self._is_in([size]))


def _repeats(ne: Dims, place: Place) -> Dim:
    """How often all samples lie one after the other in a value."""
    return product([place.times, *ne[place.axis + 1 :]])


# ------------------------------------------------------------------------------------------------------------- rules


def _lie_along(values: tuple[Value | None, ...], places: Places, axis: int) -> bool:
    """Whether those of the batch are along an axis, in one order, and the others are broadcast along it."""
    of_batch = [value for value in present(values) if value in places]
    return all(is_one(value.ne[axis]) for value in present(values) if value not in places) and all(
        places[value] == (axis, places[of_batch[0]].times) and same(value.ne[axis], of_batch[0].ne[axis])
        for value in of_batch
    )


def _in_any_order(node: Node, places: Places, axis: int) -> bool:
    """What computes the same in whatever order its dims are."""
    along = [node.attrs[dim] if isinstance(dim, str) else dim for dim in node.spec.along or ()]
    return axis not in along and _lie_along(node.inputs, places, axis)


def _by_rows(node: Node, places: Places, axis: int) -> bool:
    return axis != 0 and _lie_along(node.inputs, places, axis)


def _by_matrices(node: Node, places: Places, axis: int) -> bool:
    return axis > 1 and _lie_along(node.inputs, places, axis)


def _first_alone(node: Node, places: Places, axis: int) -> bool:
    """What has weights beside its first operand, with dims of their own."""
    return _lie_along(node.inputs[:1], places, axis) and not any(value in places for value in present(node.inputs[1:]))


def _layer(node: Node, places: Places, axis: int) -> bool:
    return axis != 0 and _first_alone(node, places, axis)


def _image(node: Node, places: Places, axis: int) -> bool:
    return axis == 3 and _first_alone(node, places, axis)


def _images(node: Node, places: Places, axis: int) -> bool:
    return axis == 3 and _lie_along(node.inputs, places, axis)


def _product(node: Node, places: Places, axis: int) -> bool:
    """``a``'s rows are the result's columns; its matrices are repeated over ``b``'s in blocks."""
    a, b = node.inputs
    if axis == 1:
        return a not in places and _lie_along((b,), places, axis)
    return _by_matrices(node, places, axis)


def _attention(node: Node, places: Places, axis: int) -> bool:
    """The batch is outermost, behind the heads, which move."""
    return axis == 3 and _lie_along(node.inputs, places, axis)


def _taken_rows(node: Node, places: Places, axis: int) -> bool:
    table, rows = node.inputs
    return table not in places and rows in places and places[rows].axis == axis - 1


def _reduced(node: Node, places: Places, axis: int) -> bool:
    return axis not in node.attrs["axes"] and _lie_along(node.inputs, places, axis)


def _along_axis(node: Node, places: Places, axis: int) -> bool:
    return axis != node.attrs["axis"] and _lie_along(node.inputs, places, axis)


def _permuted(node: Node, places: Places, axis: int) -> bool:
    x = node.inputs[0]
    return x in places and node.attrs["axes"][places[x].axis] == axis


def _reshaped(node: Node, places: Places, axis: int) -> bool:
    """Wherever the axis gets, the order of the elements stays."""
    return node.inputs[0] in places


def _whole(node: Node, places: Places, axis: int) -> bool:
    """What leaves that dim as it is."""
    return same(input_of(node.output, 0).ne[axis], node.output.ne[axis]) and _lie_along(node.inputs, places, axis)


def _viewed(node: Node, places: Places, axis: int) -> bool:
    return is_one(node.attrs["step"][axis]) and _whole(node, places, axis)


def _filled(node: Node, places: Places, axis: int) -> bool:
    return True


_RULES: dict[str, Rule] = {
    **{name: _in_any_order for name, spec in OPS.items() if spec.along is not None},
    **dict.fromkeys(("cont", "broadcast", "to_index"), _in_any_order),
    **dict.fromkeys(("norm", "rms_norm", "soft_max_ext", "sum_rows", "mean", "cumsum", "sort", "top_k"), _by_rows),
    **dict.fromkeys(("lstm_cell", "gru_cell"), _by_rows),
    "diag_mask_inf": _by_matrices,
    **dict.fromkeys(("linear", "quantized_linear"), _layer),
    **{
        f"{name}{layout}": _image
        for name in ("conv_2d", "quantized_conv_2d", "pool_2d", "quantized_pool_2d", "interpolate")
        for layout in ("", "_nhwc")
    },
    **dict.fromkeys(("grid_sample", "grid_sample_nhwc"), _images),
    "mul_mat": _product,
    "attention": _attention,
    **dict.fromkeys(("get_rows", "take_rows"), _taken_rows),
    "reduce": _reduced,
    "scan": _along_axis,
    "permute": _permuted,
    "reshape": _reshaped,
    "view": _viewed,
    "pad_ext": _whole,
    "fill": _filled,
}
