"""What models do on devices: two splits at most, all nodes there but the prologue, and right answers.

What is not reached is a strict xfail with what is missing: the change that reaches it fails here, and takes its reason
away. `python -m tests.devices.report` prints all figures. One of each kind is a default test.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest
from tests.devices import report, standin_device
from tests.devices.rpc_servers import has_rpc, server

RPC = "rpc"
DEVICES = ("standin:cuda", "standin:vulkan", "Vulkan0", RPC)
SPLITS = 2  # the CPU's prologue, and the device's
ERRORS = {"llama_f16": 2e-2, "llama_q8_0": 5e-2, "qwen3_q4_k": 2e-1, "whisper": 2e-2}
ERROR = 1e-3
DEFAULT = {("resnet18", "standin:cuda"), ("llama_f16", RPC)}
MISSING: dict[str, str] = {}  # by model


class Aim(NamedTuple):
    """A model on a device."""

    model: str
    device: str

    def __str__(self) -> str:
        return f"{self.model}-{self.device}"

    @property
    def marks(self) -> list[pytest.MarkDecorator]:
        missing = MISSING.get(self.model)
        marks = [] if self in DEFAULT else [pytest.mark.slow]
        return [*marks, pytest.mark.xfail(strict=True, reason=missing, raises=AssertionError)] if missing else marks


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
    with _device(aim.device) as device:
        rows = report.measure(aim.model, [device])
    for row in rows:
        assert not row.failure, row.failure
        assert row.error is None or row.error <= ERRORS.get(aim.model, ERROR)
        assert row.splits <= SPLITS
        assert row.on_device + row.in_prologue == row.nodes, row.on_cpu
    assert any(row.error is not None for row in rows)
