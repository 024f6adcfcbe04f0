"""``executorch-ggml build-runtime``: what it selects, and that what it builds runs those programs and no others."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.frontends.aten.test_quantized_layers import Convolution, ConvolutionModel
from tests.torchvision_cpu import torchvision_models
from torch import nn

import executorch_ggml
from executorch_ggml.ir.codegen import Selection, build_source, selection_header
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.ir.graph import Node, Value
from executorch_ggml.ir.op import OPS
from executorch_ggml.ir.ops.spatial import Activation
from executorch_ggml.selection import is_copied, selection_of, source_tree

ROOT = Path(__file__).parents[1]
LEVEL = "neon" if platform.machine() in ("aarch64", "arm64") else "avx2"
"""Beside generic kernels, which run where the CPU has no such level."""


class Sums(nn.Module):
    """Has an op that an MLP has not."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.cumsum(1)


class Flat(nn.Module):
    """Its output is a view of what a node computes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x).reshape(-1)


class Counter(nn.Module):
    """Has a state."""

    total: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(2, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        return self.total * 1.0


def saved(model: nn.Module, inputs: tuple[torch.Tensor, ...], path: Path) -> Path:
    """A program of a model, with its first input and what eager computes of it beside it."""
    executorch_ggml.export(model.eval(), inputs).save(str(path))
    path.with_suffix(".in").write_bytes(inputs[0].numpy().tobytes())
    with torch.no_grad():
        path.with_suffix(".out").write_bytes(model(*inputs).contiguous().numpy().tobytes())
    return path


@pytest.fixture(scope="module")
def mlp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10))
    return saved(model, (torch.randn(4, 16),), tmp_path_factory.mktemp("mlp") / "mlp.pte")


@pytest.fixture(scope="module")
def sums(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(Sums(), (torch.randn(2, 5),), tmp_path_factory.mktemp("sums") / "sums.pte")


def test_selects_what_programs_use(mlp: Path, sums: Path) -> None:
    selection = selection_of([mlp])
    assert selection.ops == ("linear",)
    assert selection.types == ("f32",)
    assert selection.kinds["Activation"] == ("clamp", "none")
    assert selection.kinds["BinaryKind"] == ()
    assert not selection.families
    assert not selection.states
    assert not selection.ggml
    assert set(selection_of([mlp, sums]).ops) > {"linear"}


@pytest.fixture(scope="module")
def convolutions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 5, padding=2, groups=32), nn.Hardswish()
    )
    return saved(model, (torch.randn(1, 16, 24, 24),), tmp_path_factory.mktemp("convolutions") / "convolutions.pte")


def test_selects_kernels(convolutions: Path) -> None:
    selection = selection_of([convolutions])
    assert selection.families == ("depthwise_5", "winograd")
    assert "hardswish" in selection.kinds["Activation"]
    assert "silu" not in selection.kinds["Activation"]


def test_selects_kernels_of_integers(tmp_path: Path) -> None:
    case = Convolution(inputs=16, outputs=24)
    program = saved(ConvolutionModel(case), (torch.randn(2, 16, 7, 6),), tmp_path / "convolution.pte")
    assert selection_of([program]).families == ("integer_winograd",)


def test_selects_states_and_ggml(tmp_path: Path) -> None:
    state = selection_of([saved(Counter(), (torch.randn(2, 5),), tmp_path / "counter.pte")])
    assert state.states
    flat = selection_of([saved(Flat(), (torch.randn(2, 5),), tmp_path / "flat.pte")])
    assert "reshape" in flat.ops
    assert not flat.ggml
    assert not flat.states
    softmax = selection_of([saved(nn.Softmax(-1), (torch.randn(2, 5),), tmp_path / "softmax.pte")])
    assert softmax.ggml
    assert any(OPS[name].may_run_in_ggml for name in softmax.ops)


def test_outputs_that_are_copied() -> None:
    leaf = Value(DType.F32, (5, 2, 1, 1), (1, 5, 10, 10))
    assert is_copied(leaf)

    def made_by(name: str, source: Value) -> Value:
        output = Value(DType.F32, source.ne, source.strides)
        output.producer = Node(OPS[name], (source,), {}, output, name)
        return output

    computed = made_by("relu", leaf)
    assert not is_copied(computed)
    assert not is_copied(made_by("reshape", computed))
    assert is_copied(made_by("reshape", leaf))
    assert is_copied(made_by("permute", computed))


def test_selection_is_read_as_it_was_written(convolutions: Path, tmp_path: Path) -> None:
    selection = selection_of([convolutions])
    (tmp_path / "selection.json").write_text(selection.to_json())
    again = Selection.read(tmp_path / "selection.json")
    assert again.ops == frozenset(selection.ops)
    assert again.families == frozenset(selection.families)
    assert [member.name for member in again.members(Activation)] == ["CLAMP", "HARDSWISH"]
    assert (again.states, again.ggml) == (False, False)
    (tmp_path / "selection.json").write_text('{"ops": ["linear"], "types": ["f32"]}')
    by_hand = Selection.read(tmp_path / "selection.json")
    assert by_hand.members(Activation) == list(Activation)
    assert by_hand.has_family("winograd")
    assert by_hand.states
    assert by_hand.ggml


def test_source_of_other_ops_is_left_out() -> None:
    source = build_source(Selection(frozenset({"linear"}), frozenset({DType.F32})))
    assert re.findall(r"case fb::Op::(\w+)", source) == ["Linear", "Linear"]
    assert "kIsSelective = true" in selection_header(Selection(frozenset({"linear"}), frozenset({DType.F32})))
    assert "kIsSelective = false" in selection_header(Selection())


def test_unknown_ops_are_refused(tmp_path: Path) -> None:
    (tmp_path / "selection.json").write_text('{"ops": ["linear", "nothing"], "types": ["f32"]}')
    with pytest.raises(ValueError, match="no ops of this version: nothing"):
        Selection.read(tmp_path / "selection.json")
    (tmp_path / "selection.json").write_text('{"ops": ["linear"], "types": ["f32"], "families": ["fast"]}')
    with pytest.raises(ValueError, match="no families of this version: fast"):
        Selection.read(tmp_path / "selection.json")


def test_folders_without_sources_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no source tree"):
        source_tree(tmp_path)


class Runner:
    """examples/cpp's ``run_small`` with a runtime for some programs."""

    def __init__(self, folder: Path, *programs: Path) -> None:
        command = [sys.executable, "-m", "executorch_ggml", "build-runtime", "-o", str(folder / "runtime")]
        command += [word for program in programs for word in ("--for", str(program))]
        self._call([*command, "--levels", LEVEL])
        tools = Path(sys.executable).parent
        cmake = shutil.which("cmake", path=str(tools)) or "cmake"
        self._call(
            [
                *(cmake, "-S", str(ROOT / "examples" / "cpp"), "-B", str(folder / "runner")),
                *(f"-DCMAKE_PREFIX_PATH={folder / 'runtime'}", f"-DPython_EXECUTABLE={sys.executable}"),
            ]
        )
        self._call([cmake, "--build", str(folder / "runner"), "--target", "run_small"])
        self.path = folder / "runner" / "run_small"

    @staticmethod
    def _call(command: list[str]) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def run(self, program: Path, *more: str) -> subprocess.CompletedProcess[str]:
        """Run a program on its input, beside what is expected of it."""
        command = [str(self.path), str(program), str(program.with_suffix(".in")), str(program.with_suffix(".out"))]
        return subprocess.run([*command, *more], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def mlp_runner(mlp: Path, tmp_path_factory: pytest.TempPathFactory) -> Runner:
    return Runner(tmp_path_factory.mktemp("runner"), mlp)


@pytest.mark.slow
def test_runs_without_allocating(mlp: Path, mlp_runner: Runner) -> None:
    done = mlp_runner.run(mlp)
    assert done.returncode == 0, done.stderr
    assert "largest difference" in done.stdout


@pytest.mark.slow
def test_op_that_was_left_out(sums: Path, mlp_runner: Runner) -> None:
    done = mlp_runner.run(sums)
    assert done.returncode == 1
    assert re.search(r"node cumsum: op cumsum was left out of this runtime", done.stderr)
    assert "executorch-ggml build-runtime --for" in done.stderr


@pytest.mark.slow
def test_kind_that_was_left_out(mlp_runner: Runner, tmp_path: Path) -> None:
    program = saved(nn.Sequential(nn.Linear(16, 8), nn.SiLU()), (torch.randn(2, 16),), tmp_path / "silu.pte")
    done = mlp_runner.run(program)
    assert done.returncode == 1
    assert re.search(r"node \w+: Activation SILU was left out of this runtime", done.stderr)


@pytest.mark.slow
def test_needs_no_library_of_ggml_but_its_base(mlp_runner: Runner) -> None:
    listed = subprocess.run(["readelf", "-d", str(mlp_runner.path)], capture_output=True, text=True, check=True).stdout
    assert "[libggml-base." in listed
    assert "[libggml." not in listed


@pytest.mark.slow
def test_arena_that_is_too_small(mlp: Path, mlp_runner: Runner) -> None:
    said = re.search(r"memory of the method: (\d+) bytes", mlp_runner.run(mlp).stdout)
    assert said is not None
    bytes_used = int(said.group(1))
    assert mlp_runner.run(mlp, "--arena", str(bytes_used + 64)).returncode == 0
    done = mlp_runner.run(mlp, "--arena", str(bytes_used // 2))
    assert done.returncode == 1
    assert "MemoryAllocationFailed" in done.stderr
    assert re.search(r"static memory of \d+ bytes is needed", done.stderr)


@pytest.mark.slow
def test_mobilenet(convolutions: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = torchvision_models().mobilenet_v2()
    program = saved(model, (torch.randn(1, 3, 224, 224),), tmp_path / "mobilenet.pte")
    runner = Runner(tmp_path, program)
    done = runner.run(program)
    assert done.returncode == 0, done.stderr
    refused = runner.run(convolutions)
    assert refused.returncode == 1
    assert re.search(r"node \w+: (kernel winograd|Activation HARDSWISH) was left out", refused.stderr)
