"""Values of nodes in ExecuTorch's debug data: they are what eager computes, and show the layer that is wrong."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.devtools import Inspector
from executorch.extension.pybindings import portable_lib
from tests import zoo
from tests.devices import standin_device
from torch import nn

import executorch_ggml
from executorch_ggml.profiling import inspector, profile


@dataclass(frozen=True)
class Recorded:
    """What the Inspector makes of one call: its rows of values beside eager's, and our events."""

    rows: Any
    events: list[Any]

    @property
    def gaps(self) -> list[float]:
        return [max(gap) for gap in self.rows["gap"]]


def record(
    model: nn.Module, inputs: Sequence[Any], folder: Path, runs: nn.Module | None = None, **options: Any
) -> Recorded:
    """Export a model, run the program (of ``runs``, where that is another), and compare its values with the model's."""
    traced = executorch_ggml.export(model, tuple(inputs), generate_etrecord=True, **options)
    record = traced.get_etrecord()
    record.update_representative_inputs(tuple(inputs))
    record.save(str(folder / "etrecord"))
    program = traced if runs is None else executorch_ggml.export(runs, tuple(inputs), **options)
    program.save(str(folder / "model.pte"))
    return inspect(folder, inputs)


def inspect(folder: Path, inputs: Sequence[Any]) -> Recorded:
    module = executorch_ggml.load(folder / "model.pte", etdump=True, intermediate_outputs=True)
    module(*inputs)
    module.write_etdump(folder / "etdump", folder / "debug")
    return read(folder)


def read(folder: Path) -> Recorded:
    opened = inspector(folder / "etdump", etrecord=folder / "etrecord", debug_data=folder / "debug")
    events = [event for block in opened.event_blocks for event in block.events if event.is_delegated_op]
    return Recorded(opened.calculate_numeric_gap("MSE"), events)


class Images(nn.Module):
    """Convolutions, which have their channels innermost, a residual, pooling, and a transposed view at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.body = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8))
        self.down = nn.Conv2d(8, 5, 3, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        x = torch.relu(x + self.body(x))
        x = nn.functional.max_pool2d(self.down(x), 2)
        return (x * torch.sigmoid(x)).permute(0, 2, 3, 1).exp()


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.joined = nn.Linear(32, 96)
        self.out = nn.Linear(32, 32)
        self.norm = nn.LayerNorm(32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, _ = x.shape
        q, k, v = self.joined(self.norm(x)).view(batch, tokens, 3, 4, 8).permute(2, 0, 3, 1, 4).unbind(0)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return x + self.out(y.transpose(1, 2).reshape(batch, tokens, 32))


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


class Steps(nn.Module):
    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU]) -> None:
        super().__init__()
        self.steps = kind(6, 8, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.steps(x)[0]).tanh()


def _many_dims(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = (x.permute(5, 0, 3, 1, 2, 4) + y).sin()
    return z.flatten(1, 2).sum(-1).permute(1, 0, 3, 2).cos()


def _types(x: torch.Tensor, i: torch.Tensor) -> Any:
    picked = x.index_select(0, i)
    return picked.half() * 2, (picked > 0) & (picked < 1), i * 3 + 1, picked.argmax(-1)


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[torch.Size | Sequence[int], ...]]] = {
    "images": (Images, ((2, 3, 13, 11),)),
    "attention": (Attention, ((2, 5, 32),)),
    "lstm": (lambda: Steps(nn.LSTM), ((2, 3, 6),)),
    "many dims": (lambda: Function(_many_dims), ((2, 3, 1, 4, 5, 2), (2, 2, 4, 3, 1, 5))),
    "volumes": (lambda: nn.Sequential(nn.Conv3d(2, 3, 3), nn.ReLU(), nn.AvgPool3d(2)), ((1, 2, 6, 7, 8),)),
    "rows": (lambda: nn.Sequential(nn.Conv1d(4, 6, 3), nn.GELU(), nn.Softmax(-1)), ((2, 4, 9),)),
}
SLOW = {"lstm", "volumes", "rows"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in MODELS]
)
def test_values_are_those_of_eager(name: str, tmp_path: Path) -> None:
    """In whatever order and rank ggml has them."""
    build, shapes = MODELS[name]
    torch.manual_seed(0)
    model = build().eval()
    zoo.randomize_batch_norms(model)
    found = record(model, [torch.randn(*shape) for shape in shapes], tmp_path)
    assert len(found.gaps) >= 2
    assert max(found.gaps) < 1e-9, found.rows[["aot_ops", "gap"]]
    for event in found.events:
        assert len(event.debug_data) == (0 if event.name in ("no value", "copy to an output") else 1)


def test_values_of_other_types(tmp_path: Path) -> None:
    """Half floats, as float32, truth values and integers."""
    x, i = torch.randn(5, 7, generator=torch.Generator().manual_seed(0)), torch.tensor([4, 0, 3])
    found = record(Function(_types), (x, i), tmp_path)
    dtypes = {value.dtype for event in found.events for value in event.debug_data}
    assert dtypes == {torch.float32, torch.bool, torch.int64}
    assert max(found.gaps) == 0


def test_quantized_weights(tmp_path: Path) -> None:
    """The gap is that of the weights' rounding."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.SiLU(), nn.Linear(32, 4)).eval()
    found = record(model, (torch.randn(3, 64),), tmp_path, quantize="q8_0")
    assert len(found.gaps) == 3
    assert 0 < max(found.gaps) < 1e-4


def test_values_of_dynamic_sizes(tmp_path: Path) -> None:
    torch.manual_seed(0)
    batch = torch.export.Dim("batch", min=1, max=16)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6 * 5, 2)).eval()
    found = record(model, (torch.randn(5, 3, 8, 7),), tmp_path, dynamic_shapes=({0: batch},))
    assert len(found.gaps) >= 2
    assert max(found.gaps) < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo.MODELS)
def test_values_of_models(name: str, tmp_path: Path) -> None:
    model = zoo.load(name, small=True)
    torch.manual_seed(0)
    found = record(model.module, model.args, tmp_path)
    assert len(found.gaps) >= 2
    assert max(found.gaps) < 1e-9, found.rows[["aot_ops", "gap"]]


def test_the_wrong_layer_is_the_first_with_a_gap(tmp_path: Path) -> None:
    """Before it all is right."""
    torch.manual_seed(0)
    model = nn.Sequential(*(layer for _ in range(4) for layer in (nn.Conv2d(4, 4, 3, padding=1), nn.ReLU()))).eval()
    wrong = copy.deepcopy(model)
    with torch.no_grad():
        wrong.get_parameter("4.weight")[1] += 0.5
    found = record(model, (torch.randn(1, 4, 9, 9),), tmp_path, runs=wrong)
    large = [gap > 1e-6 for gap in found.gaps]
    assert large == [False, False, True, True]
    (names,) = found.rows["aot_ops"][2:3]
    assert names == ["conv2d_2", "relu_2"]


def test_executorchs_own_runtime_records_the_same(tmp_path: Path) -> None:
    """With its Python package instead of this one's."""
    torch.manual_seed(0)
    inputs = (torch.randn(2, 3, 13, 11),)
    ours = record(Images().eval(), inputs, tmp_path)
    module = portable_lib._load_for_executorch(str(tmp_path / "model.pte"), None, True, 1 << 24)
    module.run_method("forward", inputs)
    module.write_etdump_result_to_file(str(tmp_path / "etdump"), str(tmp_path / "debug"))
    theirs = read(tmp_path)
    assert theirs.gaps == ours.gaps
    assert list(theirs.rows["aot_ops"]) == list(ours.rows["aot_ops"])


def test_records_are_taken_once(tmp_path: Path) -> None:
    """Each has the runs since the one before."""
    executorch_ggml.export(nn.Tanh(), (torch.randn(4),)).save(str(tmp_path / "model.pte"))
    with pytest.raises(ValueError, match="etdump=True"):
        executorch_ggml.load(tmp_path / "model.pte", intermediate_outputs=True)
    with pytest.raises(RuntimeError, match="load the program with etdump=True"):
        executorch_ggml.load(tmp_path / "model.pte").etdump()
    module = executorch_ggml.load(tmp_path / "model.pte", etdump=True)
    for calls in (1, 3):
        for _ in range(calls):
            module(torch.randn(4))
        module.write_etdump(tmp_path / "etdump")
        (block,) = (b for b in Inspector(str(tmp_path / "etdump")).event_blocks if b.name == "Execute")
        (event,) = (event for event in block.events if event.is_delegated_op)
        assert event.perf_data is not None
        assert len(event.perf_data.raw) == calls


def test_values_on_a_device(tmp_path: Path) -> None:
    if standin_device.library() is None:
        pytest.skip("the stand-in device was not built")
    standin_device.load()
    torch.manual_seed(0)
    executorch_ggml.set_device("standin:cuda")
    try:
        found = record(Images().eval(), (torch.randn(2, 3, 13, 11),), tmp_path)
    finally:
        executorch_ggml.set_device("")
    assert any(
        '"device":"standin:cuda"' in text.decode() for e in found.events for text in e.raw_delegate_debug_metadatas
    )
    assert len(found.gaps) >= 4
    assert max(found.gaps) < 1e-9


def test_a_chain_of_layers_names_them(tmp_path: Path) -> None:
    """Its one event has the work and the sources of all its nodes, and no value of those inside it."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(16, 64, 1), nn.ReLU6(), nn.Conv2d(64, 64, 3, padding=1, groups=64), nn.ReLU6(), nn.Conv2d(64, 16, 1)
    ).eval()
    inputs = (torch.randn(1, 16, 64, 64),)
    found = record(model, inputs, tmp_path)
    (event,) = (e for e in found.events if b"joined" in e.raw_delegate_debug_metadatas[0])
    metadata = json.loads(event.raw_delegate_debug_metadatas[0])
    assert len(metadata["joined"]) == len(metadata["joined_nodes"]) == 2
    assert max(found.gaps) < 1e-9
    assert len(found.gaps) == 1
    (node,) = (node for node in profile(tmp_path / "model.pte", inputs, calls=2).nodes if node.joined)
    assert list(node.joined) == metadata["joined_nodes"]
    assert len(node.sources) == 3
    assert node.multiply_adds == 64 * 64 * (16 * 64 + 9 * 64 + 64 * 16)
