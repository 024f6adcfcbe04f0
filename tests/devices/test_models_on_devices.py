"""What models and families of language models do on devices: two splits, all nodes but the prologue, right answers.

What the CPU computes all the same is in a table, which docs/devices_ggml.md has too: a change that takes more or less
there fails here. `python -m tests.devices.report` prints all figures. One of each kind is a default test.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest
from tests.devices import report, standin_device
from tests.devices.rpc_servers import has_rpc, server

RPC = "rpc"
DEVICES = ("standin:cuda", "standin:vulkan", "Vulkan0", RPC)
SPLITS = 2  # the CPU's prologue, and the device's
ERRORS = {"llama_f16": 2e-2, "llama_q8_0": 5e-2, "qwen3_q4_k": 5e-2, "whisper": 2e-2}
ERROR, FAMILY_ERROR = 1e-3, 2e-2  # f32; f16 caches
DEFAULT = {("resnet18", "standin:cuda"), ("family_mixtral", RPC)}
EXPERTS = {
    "top_k": "sorts, in PyTorch's order of equal numbers",
    "take": "picks the weights of the chosen experts",
    "to_index": "checks the numbers of the chosen experts",
}
BIASED = {
    "reduce": "finds rows of the mask with relative positions that hide all",
    "binary": "compares these with -inf",
    "select": "gives such rows zeros, as PyTorch does",
}
LEFT_TO_CPU = {
    "family_mixtral": EXPERTS,
    "family_qwen3_moe": EXPERTS,
    "family_t5": BIASED,
}
"""Ops that the CPU computes behind the prologue, and what they do, by model: each costs a copy there and back."""


class Aim(NamedTuple):
    """A model on a device."""

    model: str
    device: str

    def __str__(self) -> str:
        return f"{self.model}-{self.device}"

    @property
    def marks(self) -> list[pytest.MarkDecorator]:
        return [] if self in DEFAULT else [pytest.mark.slow]

    @property
    def error(self) -> float:
        """How far from eager it may be."""
        return ERRORS.get(self.model, FAMILY_ERROR if self.model.startswith("family_") else ERROR)


AIMS = [Aim(model, device) for model in report.MODELS for device in DEVICES]


@contextmanager
def _device(name: str) -> Iterator[str]:
    if name == RPC:
        if not has_rpc():
            pytest.skip("this ggml has no RPC")
        with server() as running:
            yield running.device
    elif name.startswith("Vulkan"):
        if not report.VULKAN.exists():
            pytest.skip("ggml-vulkan is missing: make vulkan")
        yield name
    else:
        standin_device.require()
        yield name


@pytest.mark.parametrize("aim", [pytest.param(aim, id=str(aim), marks=aim.marks) for aim in AIMS])
def test_model(aim: Aim) -> None:
    left = LEFT_TO_CPU.get(aim.model, {})
    with _device(aim.device) as device:
        rows = report.measure(aim.model, [device])
    for row in rows:
        assert not row.failure, row.failure
        assert row.error is None or row.error <= aim.error
        assert {reason.partition(":")[0] for reason in row.on_cpu} == set(left), row.on_cpu
        assert row.on_device + row.in_prologue + sum(row.on_cpu.values()) == row.nodes
        assert row.splits <= SPLITS + 2 * sum(row.on_cpu.values())
    assert any(row.error is not None for row in rows)


def test_the_docs_name_what_is_left_to_the_cpu() -> None:
    text = (report.ROOT / "docs" / "devices_ggml.md").read_text(encoding="utf-8")
    rows: dict[str, dict[str, str]] = {}
    for family, op, reason in re.findall(r"^\| `(\w+)` \| `(\w+)` \| (.+) \|$", text, re.MULTILINE):
        rows.setdefault(f"family_{family}", {})[op] = reason
    assert rows == LEFT_TO_CPU
