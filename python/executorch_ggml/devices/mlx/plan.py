"""A graph as one function of MLX arrays: built lazily node by node, evaluated once at the end."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

import mlx.core as mx
import numpy as np

from ...ir._lazy import session
from ...ir.arrays import Contents, as_numpy, contents
from ...ir.dtypes import DType
from ...ir.op import Writes
from ...targets.cpu import layout
from .arrays import from_numpy, kept, to_numpy
from .empty import empty_refusal, function_of_empty
from .quantized import Packed, pack
from .registry import MLX_TYPES, Function, entry_of, shape_of, taken_conditions
from .table import TABLE

if TYPE_CHECKING:
    from ...ir.graph import Constant, Graph, Node, State, Value


class _Step(NamedTuple):
    """One call: the function, the places of its arrays and of its result, and those that nothing reads after it."""

    function: Function
    inputs: tuple[int, ...]
    output: int
    done: tuple[int, ...]


class Plan:
    """A callable of one graph. Its constants are converted here, and what follows from them alone is computed here.

    A graph with states keeps them between calls; such a plan is not for several threads at once.
    """

    def __init__(self, graph: Graph, device: mx.Device, *, compiled: bool = False) -> None:
        _check(graph)
        graph = layout.run(graph)  # MLX has channels innermost too
        self._device = device
        self._given = [_conversion(port.value) for port in graph.inputs]
        self._outputs = [(port.shape, port.value.dtype) for port in graph.outputs]
        self._errors: list[Exception] = []
        with mx.stream(device):
            planner = _Planner(graph)
            self._states, self._results, self._steps = planner.states, planner.results, list(planner.steps())
            used = {*self._results, *(place for step in self._steps for place in step.inputs)}
            self._known = {place: known for place, known in planner.known.items() if place in used}
            self._first: list[Any] = [None] * planner.count
            for place, known in self._known.items():
                self._first[place] = known.array
        for place, state in zip(self._states, graph.states, strict=True):
            self._first[place] = _first_contents(state)
        self._call = mx.compile(self._traced) if compiled else self._traced

    def __call__(self, inputs: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        """The outputs for these inputs."""
        with mx.stream(self._device):
            given = zip(self._given, inputs, strict=True)
            results = self._call([convert(a) for convert, a in given], [self._first[place] for place in self._states])
            mx.eval(results)
            outputs, states, conditions = results
            for condition, error in zip(conditions, self._errors, strict=True):
                if not condition.item():
                    raise type(error)(*error.args)
            for place, state in zip(self._states, states, strict=True):
                self._first[place] = state
            return [to_numpy(array, dtype) for array, (_, dtype) in zip(outputs, self._outputs, strict=True)]

    def _traced(self, inputs: list[mx.array], states: list[mx.array]) -> tuple[list[mx.array], ...]:
        values = self._first.copy()
        for place, array in zip(self._states, states, strict=True):
            values[place] = array
        for place, array in enumerate(inputs):
            values[place] = array
        taken_conditions()
        for function, places, output, done in self._steps:
            values[output] = function(*[values[place] for place in places])
            for place in done:
                values[place] = None
        conditions = taken_conditions()
        self._errors = [error for _, error in conditions]
        outputs = [values[place].reshape(shape) for place, (shape, _) in zip(self._results, self._outputs, strict=True)]
        return outputs, [values[place] for place in self._states], [condition for condition, _ in conditions]


class _Known:
    """An array that constants decide, made when it is first needed."""

    def __init__(self, make: Callable[[], mx.array | Packed]) -> None:
        self._make: Callable[[], mx.array | Packed] | None = make

    @functools.cached_property
    def array(self) -> Any:
        """The array."""
        make, self._make = self._make, None  # which may hold what this is made of
        return None if make is None else make()


# Of the weights of ggml programs: all plans that have one share it as long as one of them is there.
_shared: WeakValueDictionary[Any, _Known] = WeakValueDictionary()


class _Planner:
    """Gives each value a place, computes what constants decide, and writes down the other calls."""

    def __init__(self, graph: Graph) -> None:
        self.calls: list[tuple[Function, tuple[int, ...], int]] = []
        self.known: dict[int, _Known] = {}
        self._keys: dict[int, tuple[Any, ...]] = {}  # of what is shared
        self.count = 0
        self._places: dict[Value, int] = {}
        for port in graph.inputs:
            self._place(port.value)
        self.states = [self._place(state.value) for state in graph.states]
        for constant in graph.constants:
            packed = constant.value.dtype.is_quantized and _is_read_packed(constant.value, graph)
            read = functools.partial(_contents, constant, packed=packed)
            identity = constant.data.identity if isinstance(constant.data, Contents) else None
            self._know(self._place(constant.value), None if identity is None else (identity, packed), read)
        for node in graph.nodes:
            self._node(node)
        self.results = [self._places[port.value] for port in graph.outputs]

    def _place(self, value: Value | None = None) -> int:
        """A new place, and whose it is."""
        if value is not None:
            self._places[value] = self.count
        self.count += 1
        return self.count - 1

    def _know(self, place: int, key: tuple[Any, ...] | None, make: Callable[[], mx.array | Packed]) -> None:
        self.known[place] = _Known(make) if key is None else _shared.setdefault(key, _Known(make))
        if key is not None:
            self._keys[place] = key

    def _is_packed(self, place: int, value: Value) -> bool:
        return value.dtype.is_quantized and place in self.known and isinstance(self.known[place].array, Packed)

    def _prepare(self, prepare: Callable[..., mx.array], node: Node, place: int) -> int:
        """A place for an input as the function wants it; made now of a constant."""
        prepared, prepare = self._place(), functools.partial(prepare, node=node)
        if place not in self.known:
            self._call(prepare, (place,), prepared, fold=False)
            return prepared
        key = self._keys.get(place)
        sizes = [value.ne[0] for value in (*node.inputs, node.output) if value is not None]
        about = (node.op, *sizes, repr(node.attrs))  # all that this may depend on
        raw = self.known[place]
        self._know(prepared, None if key is None else (key, about), lambda: _evaluated(prepare(raw.array)))
        return prepared

    def _node(self, node: Node) -> None:
        entry = TABLE[node.op]
        arrays = []
        for number, value in enumerate(node.inputs):
            if value is None:
                continue
            place, prepare = self._places[value], entry.prepare.get(number)
            if prepare is not None and not self._is_packed(place, value):
                place = self._prepare(prepare, node, place)
            arrays.append(place)
        output = self._place(node.output)
        writes = node.spec.writes is not Writes.NO
        self._call(_function(node), tuple(arrays), output, fold=not (entry.checks or writes))
        if writes:
            state = _written(node)
            shape = shape_of(state)
            self._call(lambda array: array.reshape(shape), (output,), self._places[state], fold=False)

    def _call(self, function: Function, places: tuple[int, ...], output: int, *, fold: bool) -> None:
        if fold and all(place in self.known for place in places):
            arrays = [self.known[place] for place in places]
            self._know(output, None, lambda: _evaluated(function(*(known.array for known in arrays))))
        else:
            self.calls.append((function, places, output))

    def steps(self) -> Iterator[_Step]:
        """The calls with the places that each is the last to read: MLX frees or reuses what nothing holds."""
        kept = {*self.results, *self.states, *self.known}
        last: dict[int, int] = {}
        for number, (_, places, _) in enumerate(self.calls):
            last.update(dict.fromkeys(places, number))
        for number, (function, places, output) in enumerate(self.calls):
            done = {place for place in places if last[place] == number}
            done |= {output} - last.keys()
            yield _Step(function, places, output, tuple(done - kept))


def refusal(node: Node) -> str | None:
    """Why a node is not computed here, or None where it is."""
    entry = entry_of(node.op)
    if entry is None:
        return "no MLX function"
    for value in (*node.inputs, node.output):
        if value is None:
            continue
        if value.dtype not in MLX_TYPES and not value.dtype.is_quantized:
            return f"{value.dtype.name.lower()} is no type of MLX's"
        if not all(isinstance(n, int) for n in value.ne):
            return f"{value} has symbolic dims"
    if node.output.dtype.is_quantized:
        return f"its result is {node.output.dtype.name.lower()}"
    return empty_refusal(node) or entry.refuses(node)


def _check(graph: Graph) -> None:
    """Refuse what a device is not asked for."""
    if graph.symbols:
        raise ValueError("mlx: the graph has symbolic dims, expected a graph of concrete sizes")
    reasons = {f"{node.op}: {reason}" for node in graph.nodes if (reason := refusal(node)) is not None}
    reasons |= {f"state {state.key}: {state.value}" for state in graph.states if state.value.dtype not in MLX_TYPES}
    if reasons:
        raise ValueError(f"mlx: not computed here: {'; '.join(sorted(reasons))}")


def _function(node: Node) -> Function:
    """The node's function, of those of its inputs that are there."""
    function = function_of_empty(node) or TABLE[node.op].make(node)
    if None not in node.inputs:
        return function
    present = [value is not None for value in node.inputs]

    def call(*arrays: mx.array) -> mx.array:
        rest = iter(arrays)
        return function(*(next(rest) if there else None for there in present))

    return call


def _evaluated(array: mx.array) -> mx.array:
    mx.eval(array)
    return array


def _written(node: Node) -> Value:
    """The state that a node writes to, which it may see in another shape."""
    state = node.inputs[0 if node.op == "update_state" else 1]
    while state is not None and state.producer is not None:
        state = state.producer.inputs[0]
    assert state is not None
    return state


# --------------------------------------------------------------------------------------------------------- leaves


def _conversion(value: Value) -> Callable[[np.ndarray[Any, Any]], mx.array]:
    """What makes an input's array of numpy's."""
    shape, dtype = shape_of(value), value.dtype
    if dtype.is_quantized:
        return lambda array: _dequantized(array.reshape(-1).copy(), value)
    return lambda array: from_numpy(array if array.shape == shape else array.reshape(shape), dtype)


def _is_read_packed(value: Value, graph: Graph) -> bool:
    readers = [(node, i) for node in graph.nodes for i, v in enumerate(node.inputs) if v is value]
    return all(i in TABLE[node.op].packed for node, i in readers)


def _contents(constant: Constant, *, packed: bool) -> mx.array | Packed:
    data, value = contents(constant), constant.value
    if not value.dtype.is_quantized:
        return kept(data.reshape(shape_of(value)), value.dtype)
    made = pack(data, value.dtype, shape_of(value)) if packed else None
    return _dequantized(data, value) if made is None else made


def _dequantized(data: np.ndarray[Any, Any], value: Value) -> mx.array:
    """By ggml's own function of the type."""
    made = np.empty(shape_of(value), np.float32)
    session.dequantize(value.dtype.ggml_type, np.ascontiguousarray(data).view(np.uint8), made.reshape(-1))
    return kept(made, DType.F32)


def _first_contents(state: State) -> mx.array:
    shape, init = shape_of(state.value), state.init
    if init is None or init.data is None:
        return _evaluated(mx.zeros(shape, MLX_TYPES[state.value.dtype]))
    return kept(as_numpy(init.data().reshape(shape).contiguous()), state.value.dtype)
