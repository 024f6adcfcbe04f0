"""The session: IR run without ExecuTorch."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import sympy
import torch
from tests import helpers
from tests.helpers import decomposed
from torch import Tensor, nn
from torch.utils._sympy.functions import FloorDiv

import executorch_ggml
from executorch_ggml.frontends.aten import Lowering
from executorch_ggml.ir.builder import Builder
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.ir.graph import Graph
from executorch_ggml.ir.serialize import serialize
from executorch_ggml.passes import run_passes
from executorch_ggml.runtime import Session, States, list_devices

ROWS = torch.export.Dim("rows", max=512)


class Mixed(nn.Module):
    """Enough nodes that several threads take part."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 256), nn.Linear(256, 16)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.softmax(self.first(x), -1)) + x[:, :16]


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(0)
    return Mixed().eval().requires_grad_(False)


@pytest.fixture(scope="module")
def session(model: nn.Module) -> Session:
    exported = torch.export.export(model, (torch.randn(3, 64),), dynamic_shapes=({0: ROWS},))
    graph = run_passes(Lowering(decomposed(exported)).graph())
    constants = {}
    for constant in graph.constants:
        assert constant.data is not None
        constants[constant.key] = constant.stored()
    return Session(serialize(graph), constants, threads=2)


def test_numpy_and_torch(session: Session, model: nn.Module) -> None:
    x = torch.randn(5, 64)
    for given in (x, x.numpy()):
        (made,) = session.run(given)
        assert isinstance(made, np.ndarray)
        torch.testing.assert_close(torch.from_numpy(made), model(x))
    assert session.input_names == ["x"]
    assert len(session.output_names) == 1


def test_sizes_alternate_with_bounded_memory(session: Session, model: nn.Module) -> None:
    inputs = [torch.randn(rows, 64) for rows in (1, 7)]
    expected = [model(x) for x in inputs]
    for turn in range(1000):
        (made,) = session.run(inputs[turn % 2])
        torch.testing.assert_close(torch.from_numpy(made), expected[turn % 2])
    for rows in range(1, 40):
        session.run(torch.randn(rows, 64))
    assert session.prepared_count <= 8


def test_values_when_the_working_memory_grows(session: Session, model: nn.Module) -> None:
    for rows in (3, 100, 3, 512, 100, 3):
        x = torch.randn(rows, 64)
        (made,) = session.run(x)
        torch.testing.assert_close(torch.from_numpy(made), model(x))


def test_runs_from_several_threads(session: Session, model: nn.Module) -> None:
    inputs = [torch.randn(1 + rows % 5, 64) for rows in range(40)]
    expected = [model(x) for x in inputs]
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda x: session.run(x)[0], inputs))
    for ours, theirs in zip(made, expected, strict=True):
        torch.testing.assert_close(torch.from_numpy(ours), theirs)


def test_outputs_are_their_own_memory(session: Session) -> None:
    (first,) = session.run(torch.ones(2, 64))
    copy = first.copy()
    session.run(torch.zeros(2, 64))
    np.testing.assert_array_equal(first, copy)


def test_reset() -> None:
    builder = Builder()
    x = builder.input("x", DType.F32, (3,), (3, 1, 1, 1))
    total = builder.state("total", DType.F32, (3, 1, 1, 1), lambda: torch.tensor([1.0, 2.0, 3.0]))
    added = builder.emit("add", total, x)
    builder.emit("write_state", added, total)
    builder.output("sum", added, (3,))
    session = Session(serialize(builder.finish()), {"total": torch.tensor([1.0, 2.0, 3.0])})
    ones = np.ones(3, np.float32)
    assert [session.run(ones)[0].tolist() for _ in range(2)] == [[2, 3, 4], [3, 4, 5]]
    session.reset()
    assert session.run(ones)[0].tolist() == [2, 3, 4]


def _adder(count: int) -> bytes:
    builder = Builder()
    x = builder.input("x", DType.F32, (1,), (1, 1, 1, 1))
    total = builder.state("total", DType.F32, (count, 1, 1, 1), lambda: torch.ones(count))
    added = builder.emit("add", total, x)
    builder.emit("write_state", added, total)
    builder.output("sum", added, (count,))
    return serialize(builder.finish())


def test_shared_states() -> None:
    states, first = States(), {"total": torch.ones(2)}
    sessions = [Session(_adder(2), first, states=states) for _ in range(2)]
    alone = Session(_adder(2), first)
    one = np.ones(1, np.float32)
    assert [session.run(one)[0].tolist() for session in (*sessions, alone)] == [[2, 2], [3, 3], [2, 2]]
    del sessions[0]
    assert sessions[0].run(one)[0].tolist() == [4, 4]
    states.reset()
    assert [session.run(one)[0].tolist() for session in (*sessions, alone)] == [[2, 2], [3, 3]]
    with pytest.raises(RuntimeError, match=r"state total: .*\[3, 1, 1, 1\] here"):
        Session(_adder(3), {"total": torch.ones(3)}, states=states)


def test_a_state_is_declared_once() -> None:
    builder = Builder()
    for _ in range(2):
        total = builder.state("total", DType.F32, (2, 1, 1, 1))
        builder.output("sum", builder.emit("add", total, total), (2,))
    with pytest.raises(RuntimeError, match="state total is declared twice"):
        Session(serialize(builder.finish()))


def test_shared_states_from_several_threads() -> None:
    states = States()
    sessions = [Session(_adder(2), {"total": torch.ones(2)}, states=states) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda turn: sessions[turn % 4].run(np.ones(1, np.float32)), range(200)))
    assert sessions[0].run(np.zeros(1, np.float32))[0].tolist() == [201, 201]


def test_devices() -> None:
    kinds = [device.kind for device in list_devices()]
    assert kinds.count("cpu") == 1
    with pytest.raises(RuntimeError, match="no device nothing here; there is cpu"):
        Session(serialize(_identity()), device="nothing")


def test_thread_counts() -> None:
    executorch_ggml.set_num_threads(0)  # commands that ran in this process may have set it
    before = executorch_ggml.get_num_threads()
    try:
        executorch_ggml.set_num_threads(1)
        assert executorch_ggml.get_num_threads() == 1
        assert Session(serialize(_identity())).run(np.ones(2, np.float32))[0].tolist() == [1, 1]
    finally:
        executorch_ggml.set_num_threads(0)
    assert executorch_ggml.get_num_threads() == before
    with pytest.raises(ValueError, match="-1"):
        executorch_ggml.set_num_threads(-1)


def _identity() -> Graph:
    builder = Builder()
    x = builder.input("x", DType.F32, (2,), (2, 1, 1, 1))
    builder.output("x", x, (2,))
    return builder.finish()


def test_a_number_that_is_no_size_prepares_nothing_anew() -> None:
    """A position is data, as in a loop that decodes: one graph for all of them."""
    ready = helpers.session(helpers.lowered(lambda x, at: x + at, (torch.zeros(3), torch.tensor(0))))
    for at in range(20):
        (made,) = helpers.run_session(ready, (torch.ones(3), torch.tensor(at)))
        assert torch.equal(made, torch.full((3,), 1.0 + at))
    assert ready.prepared_count == 1


def test_a_number_that_matters_rounded_prepares_for_each_rounded_one() -> None:
    """As the filled part of a cache, which is read in steps."""
    builder, at = Builder(), sympy.Symbol("at", integer=True)
    x = builder.input("x", DType.F32, (16,), (16, 1, 1, 1))
    builder.input("at", DType.I64, (), (1, 1, 1, 1))
    builder.symbol(at, 1, -1, max=16)
    size = FloorDiv(at + 3, 4) * 4
    builder.output("y", builder.view(x, (0, 0, 0, 0), (size,)), (size,))
    ready, given = Session(serialize(builder.finish())), np.arange(16, dtype=np.float32)
    for number in [*range(17), *range(16, -1, -1)]:
        (made,) = ready.run(given, np.array(number))
        assert made.tolist() == list(range((number + 3) // 4 * 4))
    assert ready.prepared_count == 5
    with pytest.raises(RuntimeError, match="outside the 0 to 16"):
        ready.run(given, np.array(17))


def test_memory_use_has_what_is_computed_and_nothing_overlaps(session: Session) -> None:
    use = session.memory_use(np.zeros((5, 64), np.float32))
    assert use.bytes == max(block.offset + block.size for block in use.blocks)
    assert any(block.size == 5 * 256 * 4 for block in use.blocks)  # a multiple of 64: what the first layer gives
    for i, a in enumerate(use.blocks):
        assert 0 <= a.first <= a.last < len(use.steps)
        assert use.steps[a.first] == a.node
        for b in use.blocks[:i]:
            at_once = a.first <= b.last and b.first <= a.last
            assert not (at_once and a.offset < b.offset + b.size and b.offset < a.offset + a.size), (a, b)
    larger = session.memory_use(np.zeros((50, 64), np.float32))
    assert larger.bytes > use.bytes


def test_memory_use_is_that_of_the_worst_step() -> None:
    """The gap that a small tensor leaves is of no use to a larger one, were they placed one after the other."""
    builder = Builder()
    small = builder.emit("exp", builder.input("x", DType.F32, (64,), (64, 1, 1, 1)))
    wide = builder.emit("exp", builder.emit("concat", small, small, dim=0))
    builder.output("y", builder.emit("exp", wide), (128,))
    use = Session(serialize(builder.finish())).memory_use(np.zeros(64, np.float32))
    at_once = [sum(b.size for b in use.blocks if b.first <= step <= b.last) for step in range(len(use.steps))]
    assert use.bytes == max(at_once) == 2 * 128 * 4


def test_memory_use_after_runs_of_larger_inputs(session: Session) -> None:
    """Graphs of a session share memory, where each keeps its own places."""
    small = session.memory_use(np.zeros((2, 64), np.float32))
    session.run(np.zeros((500, 64), np.float32))
    assert session.memory_use(np.zeros((2, 64), np.float32)) == small


def test_memory_use_of_another_input_is_refused(session: Session) -> None:
    with pytest.raises(RuntimeError, match="input 0"):
        session.memory_use(np.zeros((5, 63), np.float32))
