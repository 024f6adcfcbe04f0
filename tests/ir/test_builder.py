from __future__ import annotations

import pytest
import torch

from executorch_ggml.ir.builder import Builder
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.ir.graph import IRError, Value
from executorch_ggml.ir.op import Dims
from executorch_ggml.ir.ops.spatial import Activation, Epilogue, PoolKind, Window, Window2d
from executorch_ggml.ir.printer import to_text
from executorch_ggml.ir.serialize import deserialize, serialize


def _input(builder: Builder, *shape: int, name: str = "x", dtype: DType = DType.F32) -> Value:
    ne = (*reversed(shape), 1, 1, 1, 1)[:4]
    return builder.input(name, dtype, shape, (ne[0], ne[1], ne[2], ne[3]))


def test_equal_calls_are_one_node() -> None:
    build = Builder()
    x = _input(build, 2, 3)
    assert build.emit("relu", x) is build.emit("relu", x)
    assert build.emit("relu", x) is not build.emit("silu", x)
    assert build.scalar(1.0, DType.F32) is build.scalar(1.0, DType.F32)
    assert build.scalar(0.0, DType.F32) is not build.scalar(-0.0, DType.F32)
    nan = float("nan")
    assert build.scalar(nan, DType.F32) is build.scalar(nan + 1, DType.F32)


def test_views_that_change_nothing_are_free() -> None:
    build = Builder()
    x = _input(build, 2, 3)
    assert build.reshape(x, (3, 2)) is x
    assert build.permute(build.permute(x, (1, 0, 2, 3)), (1, 0, 2, 3)) is x
    assert build.view(x, (0, 0, 0, 0), (3, 2)) is x
    assert build.broadcast(x, (3, 2)) is x
    assert build.convert(x, DType.F32) is x
    assert build.reshape(build.reshape(x, (6,)), (3, 2)) is x


def test_dense_copies_only_where_asked() -> None:
    build = Builder()
    x = _input(build, 2, 3)
    assert build.cont(x) is x
    turned = build.transpose(x)
    assert not turned.is_contiguous
    build.emit("unary", turned, kind=0)
    assert [node.op for node in build.graph.nodes] == ["permute", "unary"]
    build.emit("sqr", turned)
    assert [node.op for node in build.graph.nodes][2:] == ["cont", "sqr"]


def test_attributes_are_what_the_wire_has() -> None:
    build = Builder()
    made = build.emit("clamp", _input(build, 3), min=-1e300, max=0.1)
    assert made.producer is not None
    assert made.producer.attrs["min"] == float("-inf")
    assert made.producer.attrs["max"] == torch.tensor(0.1).item()


def test_struct_attributes() -> None:
    """Their numbers are as the wire has them, equal ones are one node, and the printer leaves out the defaults."""
    build = Builder()
    x, weight = _input(build, 3, 2, 4), build.constant("w", DType.F32, (3, 1, 1, 3))

    def call(low: float) -> Value:
        window = Window2d(Window(kernel=3, pad=1))
        epilogue = Epilogue(Activation.CLAMP, low, 0.1)
        return build.emit("conv_2d", x, weight, None, ne=(4, 2, 3, 1), window=window, groups=3, epilogue=epilogue)

    made = call(0.0)
    assert call(0.0) is made
    assert call(-0.0) is not made
    assert made.producer is not None
    assert made.producer.attrs["epilogue"].high == torch.tensor(0.1).item()
    build.output("y", made, (3, 2, 4))
    graph = build.finish()
    assert "window={w: {kernel: 3, pad: 1}}, groups=3, epilogue={activation: CLAMP, high: 0.1" in to_text(graph)
    assert deserialize(serialize(graph)).nodes[0].attrs == graph.nodes[0].attrs
    with pytest.raises(IRError, match=r"window is \(3, 3\), expected a Window2d"):
        build.emit("pool_2d", x, ne=(4, 2, 3, 1), kind=PoolKind.MAX, window=(3, 3), divisor=0)


def test_what_nothing_needs_goes() -> None:
    build = Builder()
    x = _input(build, 3)
    build.constant("unused", DType.F32, (3, 1, 1, 1))
    build.emit("silu", x)
    build.output("y", build.emit("relu", x), (3,))
    graph = build.finish()
    assert [node.op for node in graph.nodes] == ["relu"]
    assert not graph.constants


def test_writes_to_states_stay() -> None:
    build = Builder()
    state = build.state("count", DType.F32, (1, 1, 1, 1))
    build.emit("write_state", build.emit("add", state, build.scalar(1.0, DType.F32)), state)
    graph = build.finish()
    assert [node.op for node in graph.nodes] == ["fill", "add", "write_state"]
    assert [entry.key for entry in graph.states] == ["count"]


def test_one_key_is_one_constant() -> None:
    build = Builder()
    ne: Dims = (3, 1, 1, 1)
    assert build.constant("w", DType.F32, ne) is build.constant("w", DType.F32, ne)
    with pytest.raises(IRError, match=r"'w'.*again"):
        build.constant("w", DType.F16, ne)


def test_wrong_calls_name_the_op_and_what_is_wrong() -> None:
    build = Builder()
    x, y = _input(build, 2, 3), _input(build, 4, 5, name="y")
    i = _input(build, 2, name="i", dtype=DType.I32)
    with pytest.raises(IRError, match=r"mul_mat: a is f32.*b is f32.*expected b to have rows as long as a's"):
        build.emit("mul_mat", x, y)
    with pytest.raises(IRError, match=r"add: b is f32\[5, 4, 1, 1\], a is f32.*each dim of b to be that of a or 1"):
        build.emit("add", x, y)
    with pytest.raises(IRError, match=r"relu: input a is i32.*expected one of f32"):
        build.emit("relu", i)
    with pytest.raises(IRError, match="relu: input a is missing"):
        build.emit("relu", None)
    with pytest.raises(IRError, match="clamp: attributes"):
        build.emit("clamp", x, min=0.0)
    with pytest.raises(IRError, match=r"reshape: .*as many elements as a"):
        build.reshape(x, (7,))
    with pytest.raises(IRError, match=r"permute: axes is .*0, 1, 2 and 3 in some order"):
        build.permute(x, (0, 0, 1, 2))
    with pytest.raises(IRError, match=r"view: .*to lie inside a"):
        build.view(x, (2, 0, 0, 0), (2, 2))
    with pytest.raises(IRError, match=r"concat: .*one shape, apart from the dim"):
        build.emit("concat", x, y, dim=0)
