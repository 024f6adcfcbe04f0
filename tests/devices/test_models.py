"""A Llama, a sentence encoder and a ResNet-18 on every device, as programs of ours and in a ggml program."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from benchmarks.device_models import MODELS, Files, write
from benchmarks.devices import CPU, DEVICES, GGUF, PTE, ROUTES, ShownWrongError, compile_program, show, start

from benchmarks import devices

# One of each, by which the others stand: `make test-all` runs them.
FAST = {
    ("encoder", PTE, "compiled:onnxruntime"),
    ("llama", GGUF, "compiled:openvino"),
    ("resnet18", GGUF, "mlx"),
}
EVERY = [case for case in product(MODELS, ROUTES, DEVICES) if case[2] != CPU]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    return compile_program(tmp_path_factory.mktemp("program"))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Files]:
    """Written when they are first asked for."""
    folder = tmp_path_factory.mktemp("models")

    class Written(dict[str, Files]):
        def __missing__(self, name: str) -> Files:
            self[name] = write(name, folder, small=True)
            return self[name]

    return Written()


@pytest.mark.parametrize(
    ("model", "route", "device"),
    [pytest.param(*case, marks=() if case in FAST else pytest.mark.slow) for case in EVERY],
)
def test_model(model: str, route: str, device: str, files: dict[str, Files], program: Path | None) -> None:
    """The eager answer, twice, and the second time from the cache."""
    if devices.missing(device):
        pytest.skip(f"{DEVICES[device]} is missing")
    if route == GGUF and program is None:
        pytest.skip("no C++ compiler")
    shown = show(files[model], route, device, None, program, 0.0)
    elsewhere = sum(shown.first.nodes.values()) - shown.first.nodes[device]
    # OpenVINO computes int64 as int32: what adds positions is left to the CPU.
    assert elsewhere == 0 or (device, route) == ("compiled:openvino", PTE)


def test_a_device_that_gives_a_graph_back_is_not_shown(tmp_path: Path, files: dict[str, Files]) -> None:
    unwritable = tmp_path / "file"
    unwritable.write_text("no folder")
    if devices.missing("compiled:onnxruntime"):
        pytest.skip("onnxruntime is missing")
    with pytest.raises(ShownWrongError, match=r"failed|on the CPU"):
        start(PTE, files["encoder"], "compiled:onnxruntime", unwritable, None)
