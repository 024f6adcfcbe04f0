"""Random valid calls of every operator, for the tests that compare executors."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from executorch_ggml.webnn.data_types import DATA_TYPES, integer_range, numpy_type
from executorch_ggml.webnn.limits import allowed_ranks, allowed_types
from executorch_ggml.webnn.operators import OPERATORS

Array = np.ndarray[Any, Any]


@dataclass
class Given:
    """An operand to make."""

    data_type: str
    contents: Array
    constant: bool = False


@dataclass
class Call:
    """A call to make: operands (or lists of them) and options by name."""

    operator: str
    operands: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)


class Dice:
    """Random choices, from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)

    def size(self, high: int = 4) -> int:
        """A dimension."""
        return self.random.randint(1, high)

    def shape(self, low: int, high: int) -> list[int]:
        """A shape of a rank from ``low`` to ``high``."""
        return [self.size() for _ in range(self.random.randint(low, high))]

    def flag(self) -> bool:
        """True or False."""
        return self.random.random() < 0.5

    def of(self, *choices: Any) -> Any:
        """One of several."""
        return self.random.choice(choices)

    def narrowed(self, shape: list[int]) -> list[int]:
        """A shape that broadcasts to ``shape``."""
        cut = self.random.randint(0, len(shape))
        return [1 if self.random.random() < 0.3 else size for size in shape[cut:]]

    def array(self, data_type: str, shape: list[int], low: float = -4, high: float = 4) -> Array:
        """Contents: floats between two limits, integers with the ends of their range among them."""
        if data_type in ("float32", "float16"):
            return self.numbers.uniform(low, high, shape).astype(data_type)
        least, most = integer_range(data_type)
        near = self.numbers.integers(max(least, -9), min(most, 9), shape, endpoint=True)
        made = near.astype(numpy_type(data_type))
        ends = self.numbers.random(shape) < 0.1
        return np.where(ends, np.array(self.of(least, most), made.dtype), made).astype(made.dtype)

    def given(self, data_type: str, shape: list[int], low: float = -4, high: float = 4, **how: bool) -> Given:
        """An operand."""
        return Given(data_type, self.array(data_type, shape, low, high), **how)

    def indices(self, shape: list[int], size: int) -> Given:
        """Indices, of which some are negative and some out of range."""
        data_type = self.of("int32", "int64", "uint32")
        low = 0 if data_type == "uint32" else -size - 1
        return Given(data_type, self.numbers.integers(low, size + 1, shape).astype(data_type), constant=self.flag())


Maker = Callable[[Dice, str, str], Call]
_MAKERS: dict[str, Maker] = {}


def _makes(*names: str) -> Callable[[Maker], Maker]:
    def add(maker: Maker) -> Maker:
        for name in names:
            _MAKERS[name] = maker
        return maker

    return add


def call(name: str, data_type: str, seed: int) -> Call:
    """A random call of an operator, its first operand of a data type."""
    return _MAKERS.get(name, _alike)(Dice(seed), name, data_type)


def data_types(name: str) -> list[str]:
    """The data types that an operator's first operand may have."""
    spec = OPERATORS[name]
    return [data_type for data_type in DATA_TYPES if data_type in allowed_types(spec, spec.tensors[0])]


def _alike(dice: Dice, name: str, data_type: str) -> Call:
    """Elementwise functions: all operands broadcast, options are left as they are."""
    spec = OPERATORS[name]
    low = 0.1 if name in ("log", "sqrt", "pow", "reciprocal") else -4.0
    shape = dice.shape(max(1, allowed_ranks(spec, spec.tensors[0])[0]), 5)
    operands = {}
    for index, tensor in enumerate(spec.tensors):
        operands[tensor.name] = dice.given(data_type, shape if index == 0 else dice.narrowed(shape), low)
    if dice.flag() and len(spec.tensors) == 2:
        a, b = spec.tensors
        operands[a.name], operands[b.name] = operands[b.name], operands[a.name]
    return Call(name, operands)


@_makes("elu", "leaky_relu")
def _alpha(dice: Dice, name: str, data_type: str) -> Call:
    return Call(name, {"input": dice.given(data_type, dice.shape(0, 5))}, {"alpha": dice.of(0.5, 1.0, -2.0)})


@_makes("hard_sigmoid", "linear")
def _alpha_beta(dice: Dice, name: str, data_type: str) -> Call:
    options = {"alpha": dice.of(0.5, 1.0, -2.0), "beta": dice.of(0.0, 0.25)}
    return Call(name, {"input": dice.given(data_type, dice.shape(0, 5))}, options)


@_makes("clamp")
def _clamp(dice: Dice, name: str, data_type: str) -> Call:
    options = {"min_value": dice.of(-2, 0, 1.5), "max_value": dice.of(2, 3.5)}
    kept = {key: value for key, value in options.items() if dice.flag()}
    return Call(name, {"input": dice.given(data_type, dice.shape(0, 5))}, kept)


@_makes("cast")
def _cast(dice: Dice, name: str, data_type: str) -> Call:
    target = dice.of(*DATA_TYPES)
    unsigned = target.startswith("u") and data_type.startswith("float")
    low, high = (0, 15) if unsigned else (-8, 7)  # beyond a type's range floats are implementation-defined
    return Call(name, {"input": dice.given(data_type, dice.shape(0, 5), low, high)}, {"data_type": target})


@_makes("where")
def _where(dice: Dice, name: str, data_type: str) -> Call:
    del data_type
    kind = dice.of(*(t for t in DATA_TYPES if "int4" not in t))
    shape = dice.shape(0, 5)
    operands = {
        "condition": dice.given("uint8", dice.narrowed(shape)),
        "true_value": dice.given(kind, shape),
        "false_value": dice.given(kind, dice.narrowed(shape)),
    }
    return Call(name, operands)


@_makes("concat")
def _concat(dice: Dice, name: str, data_type: str) -> Call:
    shape = dice.shape(1, 5)
    axis = dice.random.randrange(len(shape))
    shapes = [[dice.size() if i == axis else size for i, size in enumerate(shape)] for _ in range(dice.size(3))]
    return Call(name, {"inputs": [dice.given(data_type, each) for each in shapes]}, {"axis": axis})


@_makes("expand")
def _expand(dice: Dice, name: str, data_type: str) -> Call:
    shape = dice.shape(0, 5)
    return Call(name, {"input": dice.given(data_type, dice.narrowed(shape))}, {"new_shape": shape})


@_makes("pad")
def _pad(dice: Dice, name: str, data_type: str) -> Call:
    shape, mode = dice.shape(1, 4), dice.of("constant", "edge", "reflection")
    paddings = [[dice.random.randrange(size if mode == "reflection" else 3) for size in shape] for _ in range(2)]
    options = {"beginning_padding": paddings[0], "ending_padding": paddings[1], "mode": mode, "value": dice.of(0, 3)}
    return Call(name, {"input": dice.given(data_type, shape)}, options)


@_makes("reshape")
def _reshape(dice: Dice, name: str, data_type: str) -> Call:
    shape = dice.shape(0, 5)
    new = shape + [1] * dice.random.randrange(2)
    dice.random.shuffle(new)
    if len(new) > 1 and dice.flag():
        new = [new[0] * new[1], *new[2:]]
    return Call(name, {"input": dice.given(data_type, shape)}, {"new_shape": new})


@_makes("reverse")
def _reverse(dice: Dice, name: str, data_type: str) -> Call:
    shape = dice.shape(0, 5)
    return Call(name, {"input": dice.given(data_type, shape)}, _some_axes(dice, len(shape)))


def _some_axes(dice: Dice, rank: int) -> dict[str, Any]:
    if dice.random.random() < 0.2:
        return {}
    axes = list(range(rank))
    dice.random.shuffle(axes)
    return {"axes": axes[: dice.random.randint(0, rank)]}


@_makes("slice")
def _slice(dice: Dice, name: str, data_type: str) -> Call:
    shape = dice.shape(0, 5)
    starts = [dice.random.randrange(size) for size in shape]
    sizes = [dice.random.randint(1, size - start) for size, start in zip(shape, starts, strict=True)]
    options: dict[str, Any] = {"starts": starts, "sizes": sizes}
    if dice.flag():
        options["strides"] = [dice.size(3) for _ in shape]
    return Call(name, {"input": dice.given(data_type, shape)}, options)


@_makes("split")
def _split(dice: Dice, name: str, data_type: str) -> Call:
    shape = dice.shape(1, 5)
    axis = dice.random.randrange(len(shape))
    sizes = [dice.size() for _ in range(dice.size(3))]
    shape[axis] = sum(sizes)
    splits: Any = sizes
    if dice.flag():
        splits = len(sizes)
        shape[axis] = 2 * splits
    return Call(name, {"input": dice.given(data_type, shape)}, {"splits": splits, "axis": axis})


@_makes("tile")
def _tile(dice: Dice, name: str, data_type: str) -> Call:
    shape = dice.shape(0, 4)
    return Call(name, {"input": dice.given(data_type, shape)}, {"repetitions": [dice.size(3) for _ in shape]})


@_makes("transpose")
def _transpose(dice: Dice, name: str, data_type: str) -> Call:
    shape = dice.shape(0, 6)
    order = list(range(len(shape)))
    dice.random.shuffle(order)
    options = {} if dice.random.random() < 0.2 else {"permutation": order}
    return Call(name, {"input": dice.given(data_type, shape)}, options)


@_makes("triangular")
def _triangular(dice: Dice, name: str, data_type: str) -> Call:
    options = {"upper": dice.flag(), "diagonal": dice.random.randint(-3, 3)}
    return Call(name, {"input": dice.given(data_type, dice.shape(2, 5))}, options)


@_makes("gather")
def _gather(dice: Dice, name: str, data_type: str) -> Call:
    shape = dice.shape(1, 4)
    axis = dice.random.randrange(len(shape))
    indices = dice.indices(dice.shape(0, 3), shape[axis])
    return Call(name, {"input": dice.given(data_type, shape), "indices": indices}, {"axis": axis})


@_makes("gather_elements", "scatter_elements")
def _elements(dice: Dice, name: str, data_type: str) -> Call:
    shape = dice.shape(1, 4)
    axis = dice.random.randrange(len(shape))
    count = dice.size(shape[axis]) if name == "scatter_elements" else dice.size(5)
    counts = [count if i == axis else size for i, size in enumerate(shape)]
    if name == "gather_elements":
        indices = dice.indices(counts, shape[axis])
        return Call(name, {"input": dice.given(data_type, shape), "indices": indices}, {"axis": axis})
    # Different places, since the order of writes to one place is open.
    places = np.argsort(dice.numbers.random(shape), axis).take(range(count), axis)
    indices = Given("int32", (places - dice.of(0, shape[axis])).astype(np.int32))
    operands = {"input": dice.given(data_type, shape), "indices": indices, "updates": dice.given(data_type, counts)}
    return Call(name, operands, {"axis": axis})


@_makes("gather_nd", "scatter_nd")
def _nd(dice: Dice, name: str, data_type: str) -> Call:
    shape = dice.shape(1, 4)
    depth = dice.random.randint(1, len(shape))
    outer = shape[:depth]
    if name == "gather_nd":
        batch = dice.shape(0, 2)
        indices = dice.indices([*batch, depth], min(outer))
        return Call(name, {"input": dice.given(data_type, shape), "indices": indices})
    every = np.stack(np.unravel_index(dice.numbers.permutation(int(np.prod(outer))), outer), -1)
    count = dice.size(len(every))
    indices = Given("int64", every[:count].astype(np.int64))
    updates = dice.given(data_type, [count, *shape[depth:]])
    return Call(name, {"input": dice.given(data_type, shape), "indices": indices, "updates": updates})


@_makes("matmul")
def _matmul(dice: Dice, name: str, data_type: str) -> Call:
    batch, (m, k, n) = dice.shape(0, 3), (dice.size(5), dice.size(5), dice.size(5))
    a, b = dice.given(data_type, [*batch, m, k]), dice.given(data_type, [*dice.narrowed(batch), k, n])
    return Call(name, {"a": a, "b": b})


@_makes("gemm")
def _gemm(dice: Dice, name: str, data_type: str) -> Call:
    m, k, n = dice.size(), dice.size(), dice.size()
    flip = dice.flag(), dice.flag()
    operands = {
        "a": dice.given(data_type, [k, m] if flip[0] else [m, k]),
        "b": dice.given(data_type, [n, k] if flip[1] else [k, n]),
    }
    if dice.flag():
        operands["c"] = dice.given(data_type, dice.narrowed([m, n]))
    options = {"alpha": dice.of(1, 0.5), "beta": dice.of(1, -2), "a_transpose": flip[0], "b_transpose": flip[1]}
    return Call(name, operands, options)


@_makes("batch_normalization", "instance_normalization")
def _normalization(dice: Dice, name: str, data_type: str) -> Call:
    batch = name == "batch_normalization"
    shape = dice.shape(1, 5) if batch else dice.shape(4, 4)
    options: dict[str, Any] = {"epsilon": dice.of(1e-5, 1e-2)}
    if batch:
        axis = options["axis"] = dice.random.randrange(len(shape))
    else:
        options["layout"] = dice.of("nchw", "nhwc")
        axis = options["layout"].index("c")
        shape = [size + 1 for size in shape]
    operands = {"input": dice.given(data_type, shape)}
    if batch:
        operands["mean"] = dice.given(data_type, [shape[axis]])
        operands["variance"] = dice.given(data_type, [shape[axis]], 0.5, 2)
    for optional in ("scale", "bias"):
        if dice.flag():
            operands[optional] = dice.given(data_type, [shape[axis]])
    return Call(name, operands, options)


@_makes("layer_normalization")
def _layer_normalization(dice: Dice, name: str, data_type: str) -> Call:
    shape = [size + 1 for size in dice.shape(0, 5)]
    options = _some_axes(dice, len(shape))
    axes = options.get("axes", range(1, len(shape)))
    operands = {"input": dice.given(data_type, shape)}
    for optional in ("scale", "bias"):
        if dice.flag():
            operands[optional] = dice.given(data_type, [shape[axis] for axis in axes])
    return Call(name, operands, options)


@_makes("softmax", "cumulative_sum", "arg_min", "arg_max")
def _along_axis(dice: Dice, name: str, data_type: str) -> Call:
    shape = dice.shape(1, 5)
    options: dict[str, Any] = {"axis": dice.random.randrange(len(shape))}
    if name == "cumulative_sum":
        options |= {"exclusive": dice.flag(), "reversed": dice.flag()}
    if name.startswith("arg"):
        options |= {"keep_dimensions": dice.flag(), "output_data_type": dice.of("int32", "int64")}
    return Call(name, {"input": dice.given(data_type, shape)}, options)


@_makes(*(name for name in OPERATORS if name.startswith("reduce")))
def _reduce(dice: Dice, name: str, data_type: str) -> Call:
    shape = dice.shape(0, 5)
    low = 0.1 if name == "reduce_log_sum" else -2
    options = _some_axes(dice, len(shape)) | {"keep_dimensions": dice.flag()}
    return Call(name, {"input": dice.given(data_type, shape, low, 2)}, options)


@_makes("dequantize_linear", "quantize_linear")
def _quantization(dice: Dice, name: str, data_type: str) -> Call:
    shape = [2 * size for size in dice.shape(0, 4)]
    blocks = [dice.of(1, 2, size) for size in shape]
    blocks = [size if n % size == 0 else 1 for size, n in zip(blocks, shape, strict=True)]
    if name == "dequantize_linear":
        kind = dice.of("float32", "float16")
        operands = {
            "input": dice.given(data_type, shape),
            "scale": dice.given(kind, blocks, 0.1, 2),
            "zero_point": Given(data_type, np.full(blocks, 3, numpy_type(data_type))),
        }
        return Call(name, operands)
    quantized = dice.of("uint8", "int8", "uint32", "int32", "uint4", "int4")
    operands = {
        "input": dice.given(data_type, shape, -40, 40),
        "scale": dice.given(data_type, blocks, 0.1, 2),
        "zero_point": Given(quantized, np.full(blocks, 3, numpy_type(quantized))),
    }
    return Call(name, operands)


def _layout(dice: Dice, sizes: dict[str, int], layouts: tuple[str, ...]) -> tuple[str, list[int]]:
    layout = dice.of(*layouts)
    return layout, [sizes[letter] for letter in layout]


@_makes("conv2d", "conv_transpose2d")
def _convolution(dice: Dice, name: str, data_type: str) -> Call:
    groups, strides, dilations = dice.size(3), [dice.size(3), dice.size(3)], [dice.size(2), dice.size(2)]
    ins, outs = dice.size(2), dice.size(2)
    window, padding = [dice.size(3), dice.size(3)], [dice.random.randrange(3) for _ in range(4)]
    image = {"n": dice.size(2), "c": groups * ins, "h": 5 + dice.size(), "w": 5 + dice.size()}
    options: dict[str, Any] = {"groups": groups, "strides": strides, "dilations": dilations}
    filter_ = {"h": window[0], "w": window[1]}
    if name == "conv2d":
        options["padding"] = padding
        filter_ |= {"o": groups * outs, "i": ins}
        layout, shape = _layout(dice, filter_, ("oihw", "hwio", "ohwi", "ihwo"))
    else:
        options["padding"] = [min(n, 1) for n in padding]
        options["output_padding"] = [dice.random.randrange(stride) for stride in strides]
        filter_ |= {"i": groups * ins, "o": outs}
        layout, shape = _layout(dice, filter_, ("iohw", "hwoi", "ohwi"))
    options["filter_layout"] = layout
    options["input_layout"], input_shape = _layout(dice, image, ("nchw", "nhwc"))
    operands = {
        "input": dice.given(data_type, input_shape),
        "filter": dice.given(data_type, shape, constant=dice.flag()),
    }
    if dice.flag():
        operands["bias"] = dice.given(data_type, [groups * outs])
    return Call(name, operands, options)


@_makes("average_pool2d", "l2_pool2d", "max_pool2d")
def _pool(dice: Dice, name: str, data_type: str) -> Call:
    image = {"n": dice.size(2), "c": dice.size(3), "h": 4 + dice.size(), "w": 4 + dice.size()}
    layout, shape = _layout(dice, image, ("nchw", "nhwc"))
    options: dict[str, Any] = {"layout": layout}
    if dice.random.random() < 0.9:
        options["window_dimensions"] = [1 + dice.size(2), 1 + dice.size(2)]
        options["padding"] = [dice.random.randrange(2) for _ in range(4)]
        options["strides"] = [dice.size(2), dice.size(2)]
        options["dilations"] = [dice.size(2), dice.size(2)]
        options["output_shape_rounding"] = dice.of("floor", "ceil")
    return Call(name, {"input": dice.given(data_type, shape)}, options)


@_makes("resample2d")
def _resample(dice: Dice, name: str, data_type: str) -> Call:
    axes = dice.random.sample(range(4), 2)
    options: dict[str, Any] = {"mode": dice.of("nearest-neighbor", "linear"), "axes": axes}
    if dice.flag():
        options["sizes"] = [dice.size(7), dice.size(7)]
    else:
        options["scales"] = [dice.of(1.0, 2.0, 1.5), dice.of(1.0, 3.0)]
    return Call(name, {"input": dice.given(data_type, dice.shape(4, 4))}, options)


@_makes("gru", "gru_cell", "lstm", "lstm_cell")
def _recurrent(dice: Dice, name: str, data_type: str) -> Call:
    gates, cell = (3 if name.startswith("gru") else 4), name.endswith("cell")
    batch, features, hidden, steps = dice.size(), dice.size(), dice.size(), dice.size(3)
    options: dict[str, Any] = {"hidden_size": hidden}
    dirs: list[int] = []
    if not cell:
        direction = dice.of("forward", "backward", "both")
        options |= {"steps": steps, "direction": direction, "return_sequence": dice.flag()}
        dirs = [2 if direction == "both" else 1]
    options["layout"] = dice.of("zrn", "rzn") if gates == 3 else dice.of("iofg", "ifgo")
    if gates == 3:
        options["reset_after"] = dice.flag()
    if dice.flag():
        options["activations"] = [dice.of("relu", "sigmoid", "tanh") for _ in range(gates - 1)]
    operands = {
        "input": dice.given(data_type, [batch, features] if cell else [steps, batch, features], -1, 1),
        "weight": dice.given(data_type, [*dirs, gates * hidden, features], -1, 1, constant=True),
        "recurrent_weight": dice.given(data_type, [*dirs, gates * hidden, hidden], -1, 1, constant=True),
    }
    states = ["hidden_state"] if gates == 3 else ["hidden_state", "cell_state"]
    for state in states:
        if cell:
            operands[state] = dice.given(data_type, [batch, hidden], -1, 1)
        elif dice.flag():
            operands[f"initial_{state}"] = dice.given(data_type, [*dirs, batch, hidden], -1, 1)
    for optional, width in (("bias", gates), ("recurrent_bias", gates), ("peephole_weight", 3)):
        if dice.flag() and (optional != "peephole_weight" or gates == 4):
            operands[optional] = dice.given(data_type, [*dirs, width * hidden], -1, 1)
    return Call(name, operands, options)
