"""Arrays in and out of a session, and programs that a session or a module cannot take."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.helpers import DYNAMIC, assert_same, lowered, rand, run_session, session
from torch import Tensor, nn

import executorch_ggml
from executorch_ggml.ir.builder import Builder
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.ir.graph import Graph
from executorch_ggml.ir.serialize import serialize
from executorch_ggml.runtime import Session


def _joined(dtype: DType) -> Graph:
    builder = Builder()
    x = builder.input("x", dtype, (2, 3), (3, 2, 1, 1))
    builder.output("y", builder.emit("concat", x, x, dim=1), (4, 3))
    return builder.finish()


NUMPY = [dtype for dtype in DType if dtype != DType.BF16 and not dtype.is_quantized]


@pytest.mark.parametrize("dtype", NUMPY)
def test_every_dtype_in_and_out(dtype: DType) -> None:
    ready = Session(serialize(_joined(dtype)))
    x = rand(2, 3).abs().to(dtype.torch)
    for given in (x, x.numpy()):
        made = torch.from_numpy(ready.run(given)[0])
        assert_same(made, torch.cat([x, x]))


def test_bfloat16_comes_by_dlpack() -> None:
    builder = Builder()
    x = builder.input("x", DType.BF16, (3,), (3, 1, 1, 1))
    builder.output("y", builder.convert(x, DType.F32), (3,))
    given = rand(3).bfloat16()
    assert_same(torch.from_numpy(Session(serialize(builder.finish())).run(given)[0]), given.float())
    assert_same(
        torch.utils.dlpack.from_dlpack(Session(serialize(_joined(DType.BF16))).run(given.expand(2, 3).contiguous())[0]),
        given.expand(4, 3).contiguous(),
    )


@pytest.mark.parametrize(
    "wrong",
    [
        torch.ones(2, 3, dtype=torch.float64),
        torch.ones(2, 3, dtype=torch.int32),
        torch.ones(3, 2),
        torch.ones(6),
        torch.ones(1, 2, 3),
        torch.ones(()),
        torch.ones(2, 0),
    ],
)
def test_wrong_inputs_are_named(wrong: Tensor) -> None:
    ready = Session(serialize(_joined(DType.F32)))
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"input .*x"):
            ready.run(wrong)
    assert_same(torch.from_numpy(ready.run(torch.ones(2, 3))[0]), torch.ones(4, 3))


@pytest.mark.parametrize("wrong", [torch.ones(3, 2).t(), np.ones((2, 6), np.float32)[:, ::2], "text", None, [1.0]])
def test_what_is_no_dense_array_is_refused(wrong: Any) -> None:
    with pytest.raises((TypeError, RuntimeError)):
        Session(serialize(_joined(DType.F32))).run(wrong)


def test_a_wrong_number_of_inputs() -> None:
    ready = Session(serialize(_joined(DType.F32)))
    for given in ((), (torch.ones(2, 3), torch.ones(2, 3))):
        with pytest.raises(RuntimeError, match="inputs"):
            ready.run(*given)


def test_constants_are_checked_when_a_program_is_loaded() -> None:
    graph = lowered(nn.LayerNorm(4), (rand(2, 4),))
    data = serialize(graph)
    constants = {c.key: c.data().detach() for c in graph.constants if c.data is not None}
    key = next(iter(constants))
    with pytest.raises(RuntimeError, match=key):
        Session(data, {name: value for name, value in constants.items() if name != key})
    with pytest.raises(RuntimeError, match=key):
        Session(data, {**constants, key: torch.ones(3)})
    assert Session(data, constants).run(rand(2, 4))


def test_constants_may_lie_anywhere() -> None:
    """Used in place where they are aligned, copied where not: the answer is the same."""
    graph = lowered(nn.LayerNorm(5), (rand(2, 5),))
    expected = None
    for offset in range(4):
        constants = {}
        for constant in graph.constants:
            assert constant.data is not None
            values = constant.data().detach().reshape(-1)
            shifted = torch.empty(values.numel() + offset)[offset:]
            constants[constant.key] = shifted.copy_(values)
        made = Session(serialize(graph), constants).run(rand(2, 5))[0]
        expected = made if expected is None else expected
        np.testing.assert_array_equal(made, expected)


def test_two_sizes_alternate() -> None:
    ready = session(lowered(lambda x: x.softmax(-1) * x.shape[0], (rand(3, 4),), ({0: DYNAMIC, 1: DYNAMIC},)))
    for turn in range(400):
        x = rand(2 + turn % 2, 3)
        assert_same(run_session(ready, (x,))[0], x.softmax(-1) * x.shape[0])
    assert ready.prepared_count == 2
    for size in range(2, 30):
        x = rand(size, size)
        assert_same(run_session(ready, (x,))[0], x.softmax(-1) * size)
    assert ready.prepared_count <= 8


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_thread_counts_do_not_change_the_answer(threads: int) -> None:
    def program(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        return x @ w, x.sum(0), x.cumsum(1), torch.cat([x, x.exp()], 1), x.softmax(0), x.argmax(1)

    inputs = (rand(17, 33), rand(33, 9))
    made = run_session(session(lowered(program, inputs), threads=threads), inputs)
    for actual, expected in zip(made, program(*inputs), strict=True):
        assert_same(actual, expected)


def test_many_sessions_from_many_threads() -> None:
    graph = lowered(lambda x, w: (x @ w).relu().sum(1), (rand(8, 16), rand(16, 8)))
    x, w = rand(8, 16), rand(16, 8)
    expected = (x @ w).relu().sum(1)

    def work(number: int) -> None:
        ready = session(graph, threads=1 + number % 2)
        for _ in range(10):
            assert_same(run_session(ready, (x, w))[0], expected)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(12)))


def test_programs_that_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such program"):
        executorch_ggml.load(tmp_path / "missing.pte")
    (tmp_path / "text.pte").write_text("this is no program" * 100)
    with pytest.raises(RuntimeError):
        executorch_ggml.load(tmp_path / "text.pte")
    for data in (b"", b"EGGM", b"x" * 100):
        with pytest.raises(RuntimeError):
            Session(data)


def test_module_methods(tmp_path: Path) -> None:
    executorch_ggml.export(nn.ReLU(), (rand(3),)).save(str(tmp_path / "relu.pte"))
    module = executorch_ggml.load(tmp_path / "relu.pte")
    assert module.method_names == ["forward"]
    assert_same(module.run("forward", [rand(3)]), rand(3).relu())
    module.load_method("forward")
    for call in (lambda: module.run("backward", []), lambda: module.load_method("backward")):
        with pytest.raises(KeyError, match=r"no method 'backward', but \['forward'\]"):
            call()
    assert_same(module(rand(6)[::2]), rand(6)[::2].relu())
