"""Assertions about the values of tensors are dropped, with what is computed for them."""

from __future__ import annotations

from pathlib import Path

import torch
from tests.helpers import check_delegate
from torch import Tensor, nn
from torch.export import export

import executorch_ggml
from executorch_ggml.partition.assertions import without_assertions


class Checked(nn.Module):
    """With a check as ``torch_compilable_check`` of transformers traces it."""

    def forward(self, x: Tensor) -> Tensor:
        torch._check_tensor_all(x > -10, lambda: "a value is too small")
        torch._assert_async((x < 10).any(), "all values are too large")
        return x.sin()


class Sized(nn.Module):
    """With a number that is read from a tensor, checked, and used as a size."""

    def forward(self, x: Tensor, count: Tensor) -> Tensor:
        size = count.item()
        torch._check(size >= 0)
        torch._check(size <= 3)
        return x[:size] * 2


def test_a_checked_tensor(tmp_path: Path) -> None:
    check_delegate(Checked(), torch.randn(3, 4), path=tmp_path)


def test_explain() -> None:
    explained = executorch_ggml.explain(export(Checked(), (torch.randn(3, 4),)))
    assert [verdict.op for verdict in explained.nodes] == ["aten.sin.default"]
    assert explained.refused == ()


def test_what_is_computed_for_assertions_alone_goes_with_them() -> None:
    program = export(Checked(), (torch.randn(3, 4),))
    calls = [node.target for node in without_assertions(program).graph.nodes if node.op == "call_function"]
    assert calls == [torch.ops.aten.sin.default]
    assert any(node.target is torch.ops.aten.item.default for node in program.graph.nodes)  # the caller's is as it was


def test_assertions_about_sizes_stay() -> None:
    program = export(Sized(), (torch.randn(3, 4), torch.tensor(2)))
    assert without_assertions(program) is program
    x = torch.randn(3, 4)
    assert torch.equal(program.run_decompositions({}).module()(x, torch.tensor(1)), x[:1] * 2)


def test_a_program_without_assertions_is_the_same() -> None:
    program = export(nn.Linear(3, 3), (torch.randn(2, 3),))
    assert without_assertions(program) is program


class Converts(nn.Module):
    """`to` is traced with an assertion; torch would rename an input of a builtin's name in a deep copy."""

    def forward(self, input: Tensor) -> Tensor:
        return input.to(torch.float32) * 2


def test_an_input_with_the_name_of_a_builtin(tmp_path: Path) -> None:
    check_delegate(Converts(), torch.randn(3).half(), path=tmp_path)
