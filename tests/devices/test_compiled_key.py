"""Keys: anything that matters changes them, nothing else does, in any process."""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from executorch_ggml.devices.compiled.key import _token, graph_key
from executorch_ggml.ir.builder import Builder
from executorch_ggml.ir.dims import ne_of
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.ir.graph import Graph, IRError
from executorch_ggml.ir.ops.custom import BinaryKind

HOW: dict[str, Any] = {"compiler": "stand-in", "version": "1", "form": ".onnx", "options": {"level": "2"}}


def graph(
    *,
    names: str = "x",
    shape: tuple[int, int] = (2, 6),
    dtype: DType = DType.F32,
    scale: float = 2.0,
    kind: BinaryKind = BinaryKind.ADD,
    swapped: bool = False,
    weights: float = 1.0,
    weight_dtype: torch.dtype = torch.float32,
    turned: bool = False,
    outputs: int = 1,
    port: tuple[int, ...] | None = None,
) -> Graph:
    b = Builder()
    b.origin = names
    x = b.input(names, dtype, port or shape, ne_of(shape))
    y = b.input(names + "y", dtype, shape, ne_of(shape))
    weight = torch.arange(36).reshape(6, 6).to(weight_dtype) * weights
    w = b.constant(names + "w", DType.from_torch(weight_dtype) or DType.F32, ne_of((6, 6)), lambda: weight)
    a, c = (y, x) if swapped else (x, y)
    made = b.emit("binary", a, c, kind=kind)
    made = b.emit("mul_mat", b.transpose(w) if turned else w, b.convert(made, DType.F32))
    made = b.emit("scale_bias", made, s=scale, b=0.0)
    for number in range(outputs):
        b.output(f"{names}{number}", made, tuple(reversed(made.ne)))
    return b.finish()


def key(made: Graph, **changes: Any) -> str:
    return graph_key(made, **{**HOW, **changes})


CHANGES: dict[str, Callable[[], str]] = {
    "shape": lambda: key(graph(shape=(3, 6))),
    "dtype": lambda: key(graph(dtype=DType.I32)),
    "attribute": lambda: key(graph(scale=2.0000002)),
    "sign of zero": lambda: key(graph(scale=-0.0)),
    "zero": lambda: key(graph(scale=0.0)),
    "kind": lambda: key(graph(kind=BinaryKind.SUB)),
    "edges": lambda: key(graph(swapped=True)),
    "weights": lambda: key(graph(weights=1.0000001)),
    "weights' type": lambda: key(graph(weight_dtype=torch.float16)),
    "layout": lambda: key(graph(turned=True)),
    "outputs": lambda: key(graph(outputs=2)),
    "port": lambda: key(graph(port=(1, 2, 6))),
    "compiler": lambda: key(graph(), compiler="other"),
    "version": lambda: key(graph(), version="2"),
    "form": lambda: key(graph(), form=".pt"),
    "option": lambda: key(graph(), options={"level": "3"}),
    "option's name": lambda: key(graph(), options={"leve": "l2"}),
}


def test_what_matters() -> None:
    keys = {"as it is": key(graph())} | {name: make() for name, make in CHANGES.items()}
    assert len(set(keys.values())) == len(keys), keys


def test_names_do_not_matter() -> None:
    assert key(graph(names="another")) == key(graph())
    assert key(graph(), options={"a": "1", "b": "2"}) == key(graph(), options={"b": "2", "a": "1"})


def test_same_in_other_processes() -> None:
    line = "from tests.devices.test_compiled_key import graph, key; print(key(graph()))"
    for seed in ("0", "1"):
        run = subprocess.run(
            [sys.executable, "-c", line],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        assert run.stdout.strip().splitlines()[-1] == key(graph())


def test_sizes_must_be_known() -> None:
    b = Builder()
    state = b.state("s", DType.F32, (4, 1, 1, 1))
    b.output("y", b.emit("neg", state), (4,))
    with pytest.raises(IRError, match="symbols or states"):
        key(b.finish())


LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4), max_leaves=12)


def exact(value: object) -> object:
    """A value that is equal to another only if it is the same: 1, 1.0 and True are three."""
    if isinstance(value, list):
        return ("list", *map(exact, value))
    return type(value).__name__, repr(value)


@given(VALUES, VALUES)
def test_tokens_are_unambiguous(a: object, b: object) -> None:
    assert (_token(a) == _token(b)) == (exact(a) == exact(b))


@given(st.floats(width=32, allow_nan=False), st.floats(width=32, allow_nan=False))
def test_attributes(a: float, b: float) -> None:
    assert (key(graph(scale=a)) == key(graph(scale=b))) == (repr(a) == repr(b))
