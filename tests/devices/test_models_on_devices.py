"""What models are to do on devices: two splits, all nodes there, and right answers.

Each aim is a row. Those that are not reached are strict xfails with what is missing: the change that reaches one fails
here, and takes its reason away; then one of each kind is to be a default test.
`python -m tests.devices.report` prints all of today's figures.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest
from tests.devices import report, standin_device
from tests.devices.rpc_servers import has_rpc, server

RPC = "rpc"
CUSTOM = "layers are packed for the CPU's kernels at export, and other ops have no form but such a kernel"
INTEGERS = "its integer arithmetic is refused: only f32 runs on devices other than the CPU"


class Aim(NamedTuple):
    """A model on a device; ``missing`` is why it is not reached yet."""

    model: str
    device: str
    missing: str = ""
    splits: int = 2
    """The CPU's share before it, and the device's."""
    error: float = 1e-3


CUSTOM_MODELS = ("vit", "resnet18", "mobilenet_v2", "unet", "lstm", "gru")
QUANTIZED = {"llama_f16": 2e-2, "llama_q8_0": 5e-2, "qwen3_q4_k": 2e-1, "whisper": 2e-2}
AIMS = [
    Aim(model, device, CUSTOM if model in CUSTOM_MODELS else INTEGERS, error=QUANTIZED.get(model, 1e-3))
    for model in report.MODELS
    for device in ("standin:cuda", "standin:vulkan", "Vulkan0", RPC)
]


def _marks(aim: Aim) -> list[pytest.MarkDecorator]:
    xfail = pytest.mark.xfail(strict=True, reason=aim.missing, raises=AssertionError)
    return [pytest.mark.slow, *([xfail] if aim.missing else [])]


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
        if standin_device.library() is None:
            pytest.skip("the stand-in device is not built")
        yield name


@pytest.mark.parametrize("aim", [pytest.param(aim, id=f"{aim.model}-{aim.device}", marks=_marks(aim)) for aim in AIMS])
def test_model(aim: Aim) -> None:
    with _device(aim.device) as device:
        rows = report.measure(aim.model, [device])
    for row in rows:
        assert not row.failure, row.failure
        assert row.error is None or row.error <= aim.error
        assert row.splits <= aim.splits
        assert row.on_device == row.nodes, row.on_cpu
    assert any(row.error is not None for row in rows)
