"""What crosses a delegate's boundary: outputs of every kind, types, ranks, sizes, shared constants and buffers."""

from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir import to_edge
from tests.helpers import assert_all_same, check_delegate, check_program, check_refused, delegated, exported, ints, rand
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F

from executorch_ggml import explain
from executorch_ggml.frontends.aten import LOWERINGS

LEFT = "aten.flip.default"
BOUNDED = Dim("n", min=1, max=64)


@pytest.fixture(autouse=True)
def _without_flip(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flips stand for what ggml does not run: ExecuTorch has a kernel for them."""
    monkeypatch.delitem(LOWERINGS, torch.ops.aten.flip.default)


def flipped(x: Tensor) -> Tensor:
    """An op that ggml does not run, and ExecuTorch's kernels do."""
    return torch.flip(x, [0])


def only_flipped(x: Tensor) -> Tensor:
    return flipped(x)


def softly(x: Tensor) -> Tensor:
    return flipped(x.relu())


# ---------------------------------------------------------------------------------------------------------- verdicts


def test_explanation_names_each_refusal_once() -> None:
    said = explain(exported(lambda x: flipped(flipped(x.relu()) + 1) + x.double().exp().float(), (rand(3, 4),)))
    reasons = {verdict.op: str(verdict.reason) for verdict in said.refused}
    assert reasons[LEFT] == "no lowering for this overload"
    assert "float64" in reasons["aten.exp.default"]
    assert f"[left to ExecuTorch x2] {LEFT}: no lowering for this overload" in str(said)


def test_explanation_of_an_edge_program() -> None:
    assert [verdict.op for verdict in explain(to_edge(exported(softly, (rand(3, 4),)))).refused] == [LEFT]


def test_explanation_of_something_else() -> None:
    with pytest.raises(TypeError, match=r"ExportedProgram.*got Linear"):
        explain(nn.Linear(2, 2))


def test_a_lowering_that_misses_the_trace_is_refused() -> None:
    """And says which shapes do not agree."""
    from executorch_ggml.frontends.aten import LOWERINGS, lowers
    from executorch_ggml.frontends.aten.context import Tensor as Lowered

    relu = torch.ops.aten.relu.default
    right = LOWERINGS[relu]
    lowers(relu, override=True)(lambda cx, a: Lowered(a.value, (1, 1)))
    try:
        said = explain(exported(torch.relu, (rand(2, 3),)))
    finally:
        lowers(relu, override=True)(right)
    assert [verdict.op for verdict in said.refused] == ["aten.relu.default"]


# -------------------------------------------------------------------------------------------------------- partitions


def test_several_delegates_around_an_op(tmp_path: Path) -> None:
    def program(x: Tensor) -> Tensor:
        return flipped(flipped(x.relu() * 2).exp() - x).tanh() + x

    check_delegate(program, rand(3, 4), path=tmp_path, partitions=3, left=[LEFT, LEFT])


def test_branches_around_an_op_make_no_cycle(tmp_path: Path) -> None:
    def program(x: Tensor) -> Tensor:
        y = x.relu()
        return flipped(y) * y.exp() + y

    check_delegate(program, rand(3, 4), path=tmp_path, partitions=2, left=[LEFT])


def test_nothing_to_delegate(tmp_path: Path) -> None:
    check_delegate(only_flipped, rand(3, 4), path=tmp_path, partitions=0, left=[LEFT])


class SharedWeight(nn.Module):
    """Weights that two delegates and ExecuTorch's own kernels read."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(4, 4, 1)
        self.register_buffer("matrix", rand(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        matrix = self.get_buffer("matrix")
        y = flipped(self.convolution(F.linear(x, matrix).t()[None])[0])
        z = F.linear(self.convolution(y[None])[0], matrix)
        return z + flipped(matrix)


def test_a_constant_of_several_delegates(tmp_path: Path) -> None:
    check_delegate(SharedWeight(), rand(4, 4), path=tmp_path, partitions=2, left=[LEFT, LEFT])


def test_float64_runs_between_two_delegates(tmp_path: Path) -> None:
    made = delegated(lambda x: (x.relu().double() * 3.0).float().tanh(), (rand(5),), tmp_path)
    assert any("float64" in reason for reason in made.partitioner.refused.values())
    torch.testing.assert_close(made.load()(rand(5)), (rand(5).relu() * 3).tanh())


# ---------------------------------------------------------------------------------------------------- kinds of outputs


class Outputs(nn.Module):
    """A result twice, an input, a constant that is also computed with, views of a result."""

    table: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", rand(2, 3))

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        z = x + y
        return z, x, z, self.table, z.t(), x * 2, z.view(-1), self.table + x


def test_what_may_be_an_output(tmp_path: Path) -> None:
    check_delegate(Outputs(), rand(2, 3), rand(2, 3) + 1, path=tmp_path)


class ReturnsItsWeight(nn.Module):
    """Weights that are outputs too stay with ExecuTorch, and are inputs of the delegate."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(2, 3, 2)
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.convolution(x).mean((2, 3))
        return self.layer(y), self.convolution.weight, self.layer.weight


def test_a_weight_that_is_an_output(tmp_path: Path) -> None:
    module = ReturnsItsWeight()
    made = delegated(module, (rand(1, 2, 4, 4),), tmp_path)
    assert made.left == []
    assert_all_same(made.load()(rand(1, 2, 4, 4)), module(rand(1, 2, 4, 4)))


def test_an_unused_input(tmp_path: Path) -> None:
    def program(x: Tensor, unused: Tensor) -> Tensor:
        del unused
        return x.relu() + 1

    check_delegate(program, rand(3), rand(2), path=tmp_path)


def test_every_dtype_crosses(tmp_path: Path) -> None:
    floats = [torch.float32, torch.float16, torch.bfloat16]
    dtypes = [*floats, torch.int32, torch.int64, torch.bool, torch.int8, torch.int16, torch.uint8]

    def program(*inputs: Tensor) -> list[Tensor]:
        return [torch.cat([x, x]) for x in inputs]

    check_delegate(program, *(rand(2, 3, dtype=d) for d in dtypes), path=tmp_path)


def test_every_rank_crosses(tmp_path: Path) -> None:
    shapes = [(), (1,), (2, 3), (2, 1, 3), (2, 3, 1, 2), (2, 1, 3, 2, 2), (1, 2, 1, 2, 3, 2)]
    check_delegate(lambda *xs: [x.tanh() * 2 for x in xs], *(rand(*s) for s in shapes), path=tmp_path)


def test_empty_tensors_cross(tmp_path: Path) -> None:
    def program(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return x + 1, torch.cat([x, y]), x.sum(0)

    check_delegate(program, rand(0, 3), rand(2, 3), path=tmp_path)


# ------------------------------------------------------------------------------------------------------------- sizes


def test_sizes_as_values(tmp_path: Path) -> None:
    """Computed with, filled in, and returned."""

    def program(x: Tensor) -> Any:
        return x / x.shape[0], x.shape[0] * 2, torch.full((x.shape[0],), x.shape[1])

    module = delegated(program, (rand(3, 4),), tmp_path, ({0: BOUNDED},)).load()
    for rows in (1, 3, 20):
        x = rand(rows, 4)
        quotient, double, full = module(x)
        torch.testing.assert_close(quotient, x / rows)
        assert int(double) == rows * 2
        torch.testing.assert_close(full, torch.full((rows,), 4))


def test_a_number_as_input(tmp_path: Path) -> None:
    """Export makes it part of the program."""
    module = delegated(lambda x, n: x * n, (rand(3), 2), tmp_path).load()
    torch.testing.assert_close(module(rand(3), 2), rand(3) * 2)


def test_a_symbolic_number_as_input() -> None:
    """ExecuTorch itself wants the exported number again; the runtime takes any."""

    def window(x: Tensor, start: int) -> Tensor:
        return x[:, start:].relu() + start

    dynamic: tuple[Any, ...] = ({}, Dim.DYNAMIC(min=1, max=8))
    check_program(window, rand(2, 9), 3, dynamic=dynamic, others=((rand(2, 9), 1), (rand(2, 9), 8)))


def test_sizes_that_are_no_integers_are_refused() -> None:
    """The IR's sizes are integers."""
    for function in (
        lambda x: x * x.shape[0] ** 0.5,
        lambda x: x / (x.shape[0] / 2),
        lambda x: x.clamp(max=x.shape[0] / 3),
    ):
        check_refused(function, rand(3, 4), reason=r"no lowering|no way to say|SymFloat", dynamic=({0: BOUNDED},))


class Attend(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return (x @ y.transpose(1, 2)).softmax(-1) @ y


def test_two_symbols(tmp_path: Path) -> None:
    rows, columns = Dim("rows", min=1, max=32), Dim("columns", min=1, max=32)
    others = ((rand(2, 1, 4), rand(2, 9, 4)), (rand(2, 30, 4), rand(2, 1, 4)))
    dynamic = ({1: rows}, {1: columns})
    check_delegate(Attend(), rand(2, 3, 4), rand(2, 5, 4), path=tmp_path, dynamic=dynamic, others=others)


def test_a_size_beyond_what_was_exported_is_an_error(tmp_path: Path) -> None:
    module = delegated(nn.ReLU(), (rand(3, 4),), tmp_path, ({0: BOUNDED},)).load()
    for wrong in (rand(65, 4), rand(3, 5), rand(3), rand(3, 4).double(), rand(3, 4).t()):
        for _ in range(2):
            with pytest.raises(RuntimeError, match=r"forward: "):
                module(wrong)
    torch.testing.assert_close(module(rand(64, 4)), rand(64, 4).relu())


def test_the_same_error_twice_says_the_same(tmp_path: Path) -> None:
    table = nn.Embedding(5, 3)
    module = delegated(table, (torch.tensor([1, 2]),), tmp_path).load()
    said = []
    for _ in range(2):
        with pytest.raises(RuntimeError, match="range") as caught:
            module(torch.tensor([1, 9]))
        said.append(str(caught.value))
    assert said[0] == said[1]
    with pytest.raises(RuntimeError) as caught:
        module(torch.tensor([1, 2, 3]))
    assert "range" not in str(caught.value), "an old message is not repeated"
    torch.testing.assert_close(module(torch.tensor([4, 0])), table(torch.tensor([4, 0])).detach())


# ----------------------------------------------------------------------------------------------------- shared buffers


class Stateful(nn.Module):
    total: Tensor
    steps: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.tensor([3.0, 4.0, 5.0]))
        self.register_buffer("steps", torch.zeros(1, dtype=torch.int64))


class AcrossDelegates(Stateful):
    """Read in one delegate, written in another: neither may keep a copy of its own."""

    def forward(self, x: Tensor) -> Tensor:
        y = flipped(x * 2 + self.total)
        self.total.add_(y.tanh())
        return y - self.total


class ReadOutside(Stateful):
    """Read by ExecuTorch's own kernels too."""

    def forward(self, x: Tensor) -> Tensor:
        seen = flipped(self.total)
        self.total.mul_(0.5).add_(x)
        return seen + self.total


class WrittenOutside(Stateful):
    def forward(self, x: Tensor) -> Tensor:
        y = self.total * 2
        self.total.copy_(flipped(x))
        return y


class WritesAnInput(Stateful):
    """What is written is no node's result."""

    def forward(self, x: Tensor) -> Tensor:
        before = self.total + 0
        self.total.copy_(x)
        return before


class WrittenTwice(Stateful):
    def forward(self, x: Tensor) -> Tensor:
        self.total.add_(x)
        made = self.total * 2
        self.total.mul_(made.sigmoid())
        self.steps.add_(1)
        return made + self.total + self.steps


class WrittenNotRead(Stateful):
    def forward(self, x: Tensor) -> Tensor:
        self.total.copy_(x * 2)
        return x + 1


class Returned(Stateful):
    """The buffer itself is an output."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.total.add_(x)
        return self.total, x * 2


@pytest.mark.parametrize(
    "kind", [AcrossDelegates, ReadOutside, WrittenOutside, WritesAnInput, WrittenTwice, WrittenNotRead, Returned]
)
def test_buffers_keep_what_a_run_wrote(kind: type[nn.Module], tmp_path: Path) -> None:
    module, eager = delegated(kind(), (rand(3),), tmp_path).load(), kind()
    for turn in range(4):
        x = rand(3) + turn
        expected = eager(x)
        kept = expected.clone() if isinstance(expected, Tensor) else tuple(t.clone() for t in expected)
        assert_all_same(module(x), kept, what=f"run {turn}")


# -------------------------------------------------------------------------------------- decompositions on the way


def test_casts_and_size_reads_disappear_on_the_way(tmp_path: Path) -> None:
    def program(x: Tensor, i: Tensor) -> tuple[Tensor, ...]:
        return x.to(torch.int64) + i, i.float() * x, x.type_as(i), i.to(torch.float16) / 3

    dynamic, others = ({0: BOUNDED}, {0: BOUNDED}), ((rand(7, 4), ints(7, 4)),)
    check_delegate(program, rand(3, 4) * 9, ints(3, 4), path=tmp_path, dynamic=dynamic, others=others)


def test_usual_functions_are_delegated_whole(tmp_path: Path) -> None:
    """What core ATen makes of them is covered."""
    f = nn.functional

    def program(x: Tensor) -> list[Tensor]:
        return [
            f.gelu(x),
            f.silu(x),
            f.softplus(x),
            f.hardswish(x),
            f.relu6(x),
            f.elu(x),
            f.leaky_relu(x),
            f.mish(x),
            f.softsign(x),
            f.logsigmoid(x),
            x.square(),
            x.std(-1),
            x.var(0),
            x.norm(dim=1),
            x.softmax(-1),
            x.log_softmax(0),
            x.clamp_min(0.1),
            x.chunk(2, 1)[1],
            torch.stack([x, x]),
            x.masked_fill(x > 0, 0.5),
            x.tril(),
            torch.addcmul(x, x, x),
            x.amax(1),
            x.flatten(),
            x.mT,
            f.normalize(x, dim=1),
            torch.einsum("ij,kj->ik", x, x),
            x.lerp(x + 1, 0.3),
            x.frac(),
        ]

    check_delegate(program, rand(4, 4), path=tmp_path)
