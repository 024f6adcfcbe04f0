"""Control flow is ExecuTorch's, and what its bodies compute is ggml's: only the branch that is taken runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from executorch.exir.lowered_backend_module import LoweredBackendModule
from tests.helpers import assert_all_same
from torch import Tensor, nn
from torch._higher_order_ops.map import map as untyped_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.fx import GraphModule

import executorch_ggml
from executorch_ggml import GgmlPartitioner
from executorch_ggml._export import executorch_config
from executorch_ggml.partition.control_flow import graph_modules

map_over: Any = untyped_map  # its annotations do not fit its calls


def _calls(module: GraphModule) -> Iterator[str]:
    """What the bodies of control flow still call, by name; delegates are not looked into."""
    for node in module.graph.nodes:
        if node.op == "call_function" and "getitem" not in str(node.target):
            yield re.sub(r".*(aten\.\w+|call_delegate|cond|map_impl|scan).*", r"\1", str(node.target))


def check(
    model: nn.Module, *inputs: tuple[Any, ...], path: Path, bodies: int, left: tuple[str, ...] = (), dynamic: Any = None
) -> GraphModule:
    """Each input must give what eager gives, twice; each of so many bodies must be one delegate, but for `left`."""
    model = model.eval().requires_grad_(False)
    exported = torch.export.export(model, inputs[0], dynamic_shapes=dynamic)
    partitioner = GgmlPartitioner()
    config = EdgeCompileConfig(_check_ir_validity=False)  # see executorch_ggml.export
    edge = to_edge_transform_and_lower(exported, partitioner=[partitioner], compile_config=config)
    top = edge.exported_program().graph_module
    found = [sorted(_calls(body)) for body in graph_modules(top) if body is not top]
    assert len(found) == bodies
    outside = sorted(name for body in found for name in body if name != "call_delegate")
    assert outside == sorted(left), partitioner.refused
    assert all(body.count("call_delegate") <= 1 for body in found if "cond" not in body), found
    edge.to_executorch(executorch_config()).save(str(path / "model.pte"))
    module = executorch_ggml.load(path / "model.pte")
    for number, given in enumerate((*inputs, *inputs)):
        assert_all_same(module(*given), model(*given), what=f"inputs {number}")
    return top


class Branches(nn.Module):
    """A branch for each sign, each with weights of its own and constants."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = x * 2
        z = torch.cond(y.sum() > 0, lambda v: self.up(v).relu() + 1.5, lambda v: self.down(v - 3).tanh(), (y,))
        return z * 0.5 + y


def test_cond(tmp_path: Path) -> None:
    x = torch.rand(2, 4)
    check(Branches(), (x,), (-x,), path=tmp_path, bodies=2)


def test_cond_with_a_dynamic_size(tmp_path: Path) -> None:
    x = torch.rand(3, 4)
    batch = torch.export.Dim("batch", max=8)
    check(Branches(), (x,), (-x[:1],), (x.repeat(2, 1),), path=tmp_path, bodies=2, dynamic=({0: batch},))


class Nested(nn.Module):
    """Three ways: one branch has a cond of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        def inner(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
            return torch.cond(b.sum() > 0, lambda p, q: (p + q, q * 2), lambda p, q: (p - q, p.exp()), (a, b))

        return torch.cond(x.sum() > 0, inner, lambda a, b: (self.layer(a), b.abs() + a), (x, y))


def test_nested_cond(tmp_path: Path) -> None:
    x, y = torch.rand(2, 3) + 0.1, torch.rand(2, 3) + 0.1
    top = check(Nested(), (x, y), (x, -y), (-x, y), path=tmp_path, bodies=4, left=("cond",))
    assert "cond" in set(_calls(top))


class Passing(nn.Module):
    """One branch gives its input as it is."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.max() > 1, lambda v: v / 2, lambda v: v.clone(), (x,))


def test_a_branch_that_only_copies(tmp_path: Path) -> None:
    check(Passing(), (torch.full((3,), 4.0),), (torch.full((3,), 0.5),), path=tmp_path, bodies=2)


class Mixed(nn.Module):
    """A branch with an op that ggml refuses: float64."""

    def forward(self, x: Tensor) -> Tensor:
        def precise(v: Tensor) -> Tensor:
            return ((v + 1).double() * 2).float()

        return torch.cond(x.sum() > 0, precise, lambda v: v * 3, (x,))


def test_a_branch_with_a_refused_op(tmp_path: Path) -> None:
    x = torch.rand(3)
    model = Mixed().eval()
    exported = torch.export.export(model, (x,))
    explanation = executorch_ggml.explain(exported)
    assert any("float64" in str(verdict.reason) for verdict in explanation.refused)
    assert "cond: control flow is ExecuTorch's" in str(explanation)
    executorch_ggml.export(model, (x,)).save(str(tmp_path / "model.pte"))
    module = executorch_ggml.load(tmp_path / "model.pte")
    for given in (x, -x):
        assert_all_same(module(given), model(given))


class OnState(nn.Module):
    """A branch reads a buffer that the module mutates."""

    total: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, x: Tensor) -> Tensor:
        new = torch.cond(x.sum() > 0, lambda t, v: t + v, lambda t, v: t * 0.5, (self.total.clone(), x))
        self.total.copy_(new)
        return new * 2


def test_cond_on_a_state(tmp_path: Path) -> None:
    model, x = OnState(), torch.rand(3)
    executorch_ggml.export(model, (x,)).save(str(tmp_path / "model.pte"))
    module = executorch_ggml.load(tmp_path / "model.pte")
    for step in range(4):
        given = x if step % 2 else -x
        assert_all_same(module(given), model(given), what=f"step {step}")


class Mapped(nn.Module):
    """A layer for each row, and a shared operand."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor, shift: Tensor) -> Tensor:
        return map_over(lambda row, s: torch.softmax(self.layer(row) + s, -1) * 2, x, shift) + 1


def test_map(tmp_path: Path) -> None:
    check(Mapped(), (torch.randn(3, 2, 4), torch.randn(4)), path=tmp_path, bodies=1)


def test_map_of_a_dynamic_size_is_refused() -> None:
    inputs = torch.randn(3, 2, 4), torch.randn(4)
    with pytest.raises(ValueError, match="ExecuTorch runs map on constant sizes only"):
        executorch_ggml.export(Mapped(), inputs, dynamic_shapes=({0: torch.export.Dim("rows", min=2, max=8)}, None))


class Scanned(nn.Module):
    """A recurrent layer: two carried tensors, two sequences, and a result for each step."""

    def __init__(self) -> None:
        super().__init__()
        self.step = nn.Linear(3, 3)

    def forward(self, h: Tensor, c: Tensor, x: Tensor, g: Tensor) -> Any:
        def cell(carry: tuple[Tensor, Tensor], now: tuple[Tensor, Tensor]) -> Any:
            h, c = carry
            x, g = now
            h = torch.tanh(self.step(h) + x)
            return (h, c * torch.sigmoid(g) + h), h * 2

        (h, c), every = scan(cell, (h, c), (x, g))
        return h, c, every


def test_scan(tmp_path: Path) -> None:
    h, c, x, g = torch.randn(3), torch.randn(3), torch.randn(5, 3), torch.randn(5, 3)
    check(Scanned(), (h, c, x, g), path=tmp_path, bodies=1)


def test_scan_over_a_dynamic_size(tmp_path: Path) -> None:
    h, c = torch.randn(3), torch.randn(3)
    inputs = [(h, c, torch.randn(steps, 3), torch.randn(steps, 3)) for steps in (4, 7, 2)]
    steps = {0: torch.export.Dim("steps", min=2, max=8)}
    check(Scanned(), *inputs, path=tmp_path, bodies=1, dynamic=(None, None, steps, steps))


class CondInScan(nn.Module):
    """Each step takes a branch by its own data."""

    def forward(self, h: Tensor, x: Tensor) -> Any:
        def cell(carry: Tensor, now: Tensor) -> tuple[Tensor, Tensor]:
            new = torch.cond(now.sum() > 0, lambda h, x: h + x, lambda h, x: h * 0.5, (carry, now))
            return new, new + 1

        return scan(cell, h, x)


def test_cond_in_scan(tmp_path: Path) -> None:
    check(CondInScan(), (torch.rand(3), torch.randn(6, 3)), path=tmp_path, bodies=3, left=("cond",))


class Loop(nn.Module):
    """A while loop, which ExecuTorch cannot emit."""

    def forward(self, x: Tensor) -> Any:
        return while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 2), (torch.zeros((), dtype=torch.int64), x))


class MapOfTwo(nn.Module):
    """A map over two tensors, which ExecuTorch cannot emit."""

    def forward(self, x: Tensor, y: Tensor) -> Any:
        return map_over(lambda pair: pair[0] + pair[1], (x, y))


@pytest.mark.parametrize(
    ("model", "count", "reason"),
    [(Loop(), 1, "ExecuTorch cannot run .*while_loop"), (MapOfTwo(), 2, "map with one mapped tensor and one result")],
)
def test_what_executorch_cannot_run(model: nn.Module, count: int, reason: str) -> None:
    inputs = tuple(torch.randn(4, 3) for _ in range(count))
    with pytest.raises(ValueError, match=reason):
        executorch_ggml.export(model, inputs)
    assert re.search(reason, str(executorch_ggml.explain(torch.export.export(model, inputs))))


def test_lowered_bodies_are_found(tmp_path: Path) -> None:
    x = torch.rand(2, 4)
    top = check(Branches(), (x,), path=tmp_path, bodies=2)
    bodies = [body for body in graph_modules(top) if body is not top]
    delegates = [m for body in bodies for m in body.children() if isinstance(m, LoweredBackendModule)]
    assert len(delegates) == 2
