"""Contexts: which backend is taken, computing, tensors, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
import pytest
from tests.webnn.running import context

from executorch_ggml import webnn
from executorch_ggml.webnn import registry

Array = np.ndarray[Any, Any]


class Fake:
    """An executor of identities."""

    accelerators = True

    def __init__(self, *, accelerated: bool, power_preference: str) -> None:
        del accelerated, power_preference

    @classmethod
    def unavailable(cls, accelerated: bool) -> str | None:
        return None if not accelerated or cls.accelerators else "no GPU"

    def prepare(self, graph: webnn.GraphInfo) -> registry.Program:
        missing = {operation.name for operation in graph.operations} - {"identity"}
        if missing:
            raise webnn.OperationError(f"cannot {', '.join(sorted(missing))}")

        def run(inputs: Sequence[Array]) -> Sequence[Array]:
            return [array.copy() for array in inputs]

        return run


@pytest.fixture
def fake() -> Iterator[type[Fake]]:
    webnn.register_executor("fake", Fake)
    Fake.accelerators = True
    yield Fake
    del registry._registered["executor"]["fake"]


def test_the_first_that_is_available_is_taken() -> None:
    made = webnn.ML().create_context(accelerated=False)
    assert made.backend == registry.names("executor")[0]
    assert not made.accelerated


def test_an_accelerator_is_taken_where_there_is_one(fake: type[Fake]) -> None:
    for how in ({"accelerated": True}, {"device_type": "gpu"}, {"device_type": "npu"}):
        made = webnn.ML().create_context(**how, backend="fake")
        assert (made.backend, made.accelerated) == ("fake", True)
    fake.accelerators = False
    assert not webnn.ML().create_context(accelerated=True, backend="fake").accelerated


def test_a_backend_that_is_not_there() -> None:
    with pytest.raises(webnn.BackendUnavailable, match="no executor 'abacus'"):
        webnn.ML().create_context(backend="abacus")


def test_wrong_preferences() -> None:
    with pytest.raises(TypeError, match="device_type is 'tpu'"):
        webnn.ML().create_context(device_type="tpu")  # type: ignore[arg-type] # what is tested
    with pytest.raises(TypeError, match="power_preference is 'much'"):
        webnn.ML().create_context(power_preference="much")  # type: ignore[arg-type] # what is tested


def test_what_a_backend_lacks_is_told_at_build(fake: type[Fake]) -> None:
    del fake
    b = webnn.ML().create_context(backend="fake").create_graph_builder()
    with pytest.raises(webnn.OperationError, match="cannot relu"):
        b.build({"y": b.relu(b.input("x", [2]))})


def test_names_are_taken_once(fake: type[Fake]) -> None:
    with pytest.raises(ValueError, match="override=True"):
        webnn.register_executor("fake", fake)
    webnn.register_executor("fake", fake, override=True)


def test_others_register_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    here = EntryPoint("other", f"{__name__}:Fake", registry.GROUPS["executor"])
    monkeypatch.setattr(EntryPoint, "load", lambda point: {"other": Fake, "text": str}[point.name])
    there = EntryPoint("text", "builtins:str", registry.GROUPS["converter"])
    points = {point.group: [point] for point in (here, there)}
    monkeypatch.setattr(registry, "entry_points", lambda group: points[group])
    made = webnn.ML().create_context(backend="other")
    assert made.backend == "other"
    b = made.create_graph_builder()
    built = b.build({"y": b.identity(b.input("x", [2]))})
    assert "identity" in made.convert(built, "text")


@pytest.fixture
def graph() -> webnn.MLGraph:
    b = context("torch").create_graph_builder()
    return b.build({"sum": b.add(b.input("x", [2, 3]), b.input("y", [2, 3]))})


X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_the_example_of_the_specification() -> None:
    ml = webnn.ML()
    made = ml.create_context(accelerated=False)
    builder = made.create_graph_builder()
    x = builder.input("x", [2, 3], "float32")
    y = builder.input("y", [2, 3], "float32")
    built = builder.build({"output": builder.add(x, y)})
    np.testing.assert_array_equal(made.compute(built, {"x": X, "y": X})["output"], X + X)


def test_compute(graph: webnn.MLGraph) -> None:
    where = context("torch")
    other = np.asfortranarray(X)
    np.testing.assert_array_equal(where.compute(graph, {"x": X, "y": other})["sum"], 2 * X)
    np.testing.assert_array_equal(where.compute(graph, {"y": X.tolist(), "x": X.tobytes()})["sum"], 2 * X)
    target = np.empty_like(X)
    assert where.compute(graph, {"x": X, "y": X}, {"sum": target})["sum"] is target
    np.testing.assert_array_equal(target, 2 * X)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"x": X}, "inputs is"),
        ({"x": X, "y": X, "z": X}, "inputs is"),
        ({"x": X, "y": X[:1]}, r"input 'y' is float32\[1, 3\], expected float32\[2, 3\]"),
        ({"x": X, "y": X.astype(np.float64)}, "input 'y' is float64"),
        ({"x": X, "y": X.astype(">f4")}, "input 'y' is"),
        ({"x": X, "y": b"123"}, "input 'y' is 3 bytes, expected 24"),
    ],
)
def test_wrong_inputs(graph: webnn.MLGraph, inputs: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        context("torch").compute(graph, inputs)


def test_tensors(graph: webnn.MLGraph) -> None:
    where = context("torch")
    x, y, total = (where.create_tensor([2, 3], readable=True, writable=True) for _ in range(3))
    where.write_tensor(x, X)
    where.write_tensor(y, X.tobytes())
    where.dispatch(graph, {"x": x, "y": y}, {"sum": total})
    np.testing.assert_array_equal(where.read_tensor(total), 2 * X)
    into = np.zeros_like(X)
    assert where.read_tensor(total, into) is into
    assert into[1, 2] == 10


def test_wrong_tensors(graph: webnn.MLGraph) -> None:
    where = context("torch")
    x, y, total = (where.create_tensor([2, 3], readable=True, writable=True) for _ in range(3))
    with pytest.raises(TypeError, match="twice"):
        where.dispatch(graph, {"x": x, "y": x}, {"sum": total})
    with pytest.raises(TypeError, match="input 'y'"):
        where.dispatch(graph, {"x": x, "y": where.create_tensor([3, 2])}, {"sum": total})
    with pytest.raises(TypeError, match="outputs is"):
        where.dispatch(graph, {"x": x, "y": y}, {})
    with pytest.raises(TypeError, match="not readable"):
        where.read_tensor(where.create_tensor([1], writable=True))
    with pytest.raises(TypeError, match="not writable"):
        where.write_tensor(where.create_tensor([1], readable=True), X)
    with pytest.raises(TypeError, match="another context"):
        webnn.ML().create_context(backend="torch").read_tensor(x)
    x.destroy()
    with pytest.raises(TypeError, match="destroyed"):
        where.write_tensor(x, X)


def test_constant_tensors() -> None:
    where = context("torch")
    tensor = where.create_constant_tensor(X)
    b = where.create_graph_builder()
    built = b.build({"y": b.relu(b.constant(tensor))})
    tensor.destroy()
    np.testing.assert_array_equal(where.compute(built, {})["y"], X)
    with pytest.raises(TypeError, match="no constant one"):
        where.create_graph_builder().constant(where.create_tensor([1]))


def test_four_bit_inputs_are_packed_or_not() -> None:
    where = context("torch")
    b = where.create_graph_builder()
    built = b.build({"y": b.cast(b.input("x", [3], "int4"), "int32")})
    for given in (np.array([0x21, 0xFF], np.uint8), b"\x21\xff", np.array([1, 2, -1], np.int8)):
        assert where.compute(built, {"x": given})["y"].tolist() == [1, 2, -1]


def test_destroyed(graph: webnn.MLGraph) -> None:
    made = webnn.ML().create_context(backend="torch")
    with pytest.raises(TypeError, match="another context"):
        made.compute(graph, {})
    made.destroy()
    with pytest.raises(webnn.InvalidStateError):
        made.create_graph_builder()
    graph.destroy()
    with pytest.raises(webnn.InvalidStateError):
        context("torch").compute(graph, {"x": X, "y": X})


def test_converters() -> None:
    b = context("torch").create_graph_builder()
    built = b.build({"x": b.relu(b.input("x", [2]))})
    model = context("torch").convert(built, "onnx")
    assert [node.op_type for node in model.graph.node] == ["Relu", "Identity"]
    assert model.graph.output[0].name == "x_output"
    with pytest.raises(webnn.BackendUnavailable, match="no converter 'basic'"):
        context("torch").convert(built, "basic")
