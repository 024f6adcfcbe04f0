"""Complex numbers are computed in reals, in the user's own flow of ExecuTorch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tests.helpers import check_delegate
from torch import Tensor, nn
from torch.export import Dim, export

import executorch_ggml
from executorch_ggml.partition.complex_numbers import in_reals


def rotated(x: Tensor, turns: Tensor) -> Tensor:
    """As Llama's rotary embedding turns neighbours."""
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(-2)


class Rotary(nn.Module):
    """With a table of complex numbers, as in the first Llama's code."""

    turns: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        angles = torch.outer(torch.arange(16.0), torch.tensor([1.0, 0.1, 0.01, 0.001]))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))

    def forward(self, x: Tensor) -> Tensor:
        return rotated(self.linear(x), self.turns[: x.shape[1]])


class Computed(nn.Module):
    """With angles that are computed, as in Llama 4."""

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        angles = positions[..., None].float() * torch.tensor([1.0, 0.1, 0.01, 0.001])
        return rotated(x, torch.polar(torch.ones_like(angles), angles) * 0.5)


def complex_nodes(program: torch.export.ExportedProgram) -> list[str]:
    values = [(node.name, node.meta.get("val")) for node in program.graph.nodes]
    return [name for name, value in values if isinstance(value, Tensor) and value.is_complex()]


def test_rotary_embeddings_with_a_complex_table(tmp_path: Path) -> None:
    others = [(torch.randn(2, length, 8),) for length in (1, 16)]
    shapes = ({1: Dim("length", max=16)},)
    check_delegate(Rotary().eval(), torch.randn(2, 5, 8), path=tmp_path, dynamic=shapes, others=others)


def test_the_caller_s_program_is_as_it_was() -> None:
    model, x = Rotary().eval(), torch.randn(2, 5, 8)
    program = export(model, (x,))
    assert complex_nodes(in_reals(program)) == []
    assert program.state_dict["turns"].is_complex()
    torch.testing.assert_close(program.module()(x), model(x))


def test_rotary_embeddings_with_computed_angles(tmp_path: Path) -> None:
    check_delegate(Computed().eval(), torch.randn(2, 5, 8), torch.arange(5).repeat(2, 1), path=tmp_path)


def test_explain() -> None:
    explained = executorch_ggml.explain(export(Rotary().eval(), (torch.randn(2, 5, 8),)))
    assert explained.refused == ()
    assert explained.delegates == 1


def test_a_program_without_complex_numbers_is_the_same() -> None:
    program = export(nn.Linear(3, 3), (torch.randn(2, 3),))
    assert in_reals(program) is program


def test_what_has_no_rule_stays() -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            z = torch.view_as_complex(x)
            return torch.view_as_real(torch.log(z)), (z * z).real

    x = torch.randn(3, 2)
    program = in_reals(export(Model(), (x,)))
    assert set(complex_nodes(program)) == {"view_as_complex", "log"}
    for result, expected in zip(program.module()(x), Model()(x), strict=True):
        torch.testing.assert_close(result, expected)


def test_a_constant_that_is_read_by_what_has_no_rule_stays() -> None:
    class Model(nn.Module):
        table: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.randn(3, dtype=torch.complex64))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            z = torch.view_as_complex(x)
            return torch.view_as_real(torch.log(self.table)), (z * self.table).abs()

    model, x = Model(), torch.randn(3, 2)
    for result, expected in zip(in_reals(export(model, (x,))).module()(x), model(x), strict=True):
        torch.testing.assert_close(result, expected)


FUNCTIONS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "add": lambda a, b: a + b,
    "add a real": lambda a, b: a + b.real,
    "add a number": lambda a, b: a + 2.5,
    "add a complex number": lambda a, b: torch.add(a, 1 - 2j),
    "add a multiple": lambda a, b: torch.add(a, b, alpha=3),
    "subtract": lambda a, b: a - b,
    "subtract from a real": lambda a, b: b.imag - a,
    "multiply": lambda a, b: a * b,
    "multiply by a real": lambda a, b: a * b.real,
    "multiply a real": lambda a, b: b.real * a,
    "multiply by a number": lambda a, b: a * 0.5,
    "multiply by a complex number": lambda a, b: a * (1 + 0.5j),
    "divide": lambda a, b: a / b,
    "divide by a real": lambda a, b: a / (b.real + 3),
    "divide a real": lambda a, b: b.real / a,
    "divide by a complex number": lambda a, b: a / (1 + 0.5j),
    "reciprocal": lambda a, b: a.reciprocal(),
    "negate": lambda a, b: -a,
    "conjugate": lambda a, b: a.conj() * b,
    "conjugate physically": lambda a, b: torch.conj_physical(a) * b,
    "exponential": lambda a, b: torch.exp(a),
    "magnitude": lambda a, b: (a * b).abs(),
    "angle": lambda a, b: (a * b).angle(),
    "parts": lambda a, b: (a * b).real + (a * b).imag,
    "matrix product": lambda a, b: a @ b.mT,
    "product of one row": lambda a, b: a @ b[0],
    "sum": lambda a, b: a.sum(0) * b.mean(1, keepdim=True),
    "concatenate": lambda a, b: torch.cat([a, b.real, b], dim=1),
    "stack": lambda a, b: torch.stack([a, b], dim=1),
    "split": lambda a, b: a.split(2, dim=1)[1] * b.chunk(2, dim=1)[0],
    "unbind": lambda a, b: a.unbind(1)[0] * b[:, 1],
    "select rows": lambda a, b: a[torch.tensor([2, 0])] * b.flip(0)[1:],
    "choose": lambda a, b: torch.where(b.real > 0, a, b),
    "choose a real": lambda a, b: torch.where(b.real > 0, a, b.real),
    "move": lambda a, b: a.t().reshape(2, 6).expand(2, 2, 6).unsqueeze(0).squeeze(0).roll(1, 2),
    "write": lambda a, b: a.slice_scatter(b[:, :2], dim=1, start=1, end=3),
    "convert": lambda a, b: b.real.to(torch.complex64) * a,
    "create": lambda a, b: (
        torch.full((3, 4), 2 - 1j) * a + torch.zeros(3, 4, dtype=torch.complex64) + torch.ones_like(b)
    ),
}


class Functions(nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> dict[str, Tensor]:
        z, w = torch.view_as_complex(a), torch.complex(b[..., 0], b[..., 1])
        results = {name: function(z, w) for name, function in FUNCTIONS.items()}
        return {
            name: torch.view_as_real(result.resolve_conj()) if result.is_complex() else result
            for name, result in results.items()
        }


def test_rules() -> None:
    model, args = Functions(), (torch.randn(3, 4, 2), torch.randn(3, 4, 2))
    program = in_reals(export(model, args))
    assert complex_nodes(program) == []
    torch.testing.assert_close(program.module()(*args), model(*args))


def test_magnitudes_and_quotients_neither_overflow_nor_vanish() -> None:
    class Model(nn.Module):
        def forward(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
            a, b = torch.view_as_complex(a), torch.view_as_complex(b)
            return a.abs(), torch.view_as_real(b / a)

    numbers = (0.0, 1e-30, 1e30, -3.0, torch.inf, torch.nan)
    a = torch.tensor([[x, y] for x in numbers for y in numbers])
    b = a * torch.tensor([3.0, 0.5])
    magnitudes, quotients = in_reals(export(Model(), (a, b))).module()(a, b)
    expected = Model()(a, b)
    torch.testing.assert_close(magnitudes, expected[0], rtol=1e-6, atol=0, equal_nan=True)
    usual = a.isfinite().all(1) & (a != 0).any(1)
    torch.testing.assert_close(quotients[usual], expected[1][usual], rtol=1e-5, atol=0)
