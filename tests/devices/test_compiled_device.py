"""The compiled device: what it does when compilers fail, and that whole models come out right."""

import importlib.util
import logging
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.helpers import assert_same, lowered
from tests.native.corpus_program import Program
from torch import Tensor, nn

from executorch_ggml import devices
from executorch_ggml.devices.compiled import (
    Cache,
    CompiledDevice,
    CompiledGraph,
    CompileError,
    Compiler,
    compile_graph,
    names,
)
from executorch_ggml.devices.compiled.compilers import get
from executorch_ggml.devices.compiled.compilers.axelera import AxeleraCompiler
from executorch_ggml.devices.compiled.compilers.command import CommandCompiler
from executorch_ggml.ir.arrays import as_numpy
from executorch_ggml.ir.graph import Graph
from executorch_ggml.ir.interpreter import Interpreter

# A compiler that keeps the model as it is, and what runs it, in TorchScript.
COMPILE = "import shutil, sys; shutil.copy(sys.argv[1], sys.argv[2])"
RUN = """
import sys, numpy, torch
given = numpy.load(sys.argv[2])
made = torch.jit.load(sys.argv[1])(*(torch.from_numpy(given[f"input_{i}"]) for i in range(len(given.files))))
numpy.savez(sys.argv[3], **{f"output_{i}": tensor.numpy() for i, tensor in enumerate(made)})
"""
PYTHON = shlex.quote(sys.executable)


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.linear(x), -1)


@pytest.fixture
def graph() -> Graph:
    torch.manual_seed(0)
    return lowered(Small().eval(), (torch.randn(3, 8),))


@pytest.fixture
def x() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache", limit=1 << 30)


def script(folder: Path, name: str, text: str) -> str:
    path = folder / f"{name}.py"
    path.write_text(textwrap.dedent(text))
    return f"{PYTHON} {shlex.quote(str(path))}"


def command_lines(folder: Path, compile: str = COMPILE, run: str = RUN) -> tuple[str, str]:
    """What CommandCompiler runs to compile and to compute: scripts, which are written into the folder."""
    return (
        f"{script(folder, 'compile', compile)} {{model}} {{artifact}}",
        f"{script(folder, 'run', run)} {{artifact}} {{inputs}} {{outputs}}",
    )


def command(folder: Path, compile: str = COMPILE, run: str = RUN) -> CommandCompiler:
    return CommandCompiler(*command_lines(folder, compile, run), ".pt")


def check_right(made: CompiledGraph, graph: Graph, x: np.ndarray) -> None:
    (output,) = made(x)
    (expected,) = Interpreter(graph).run(torch.from_numpy(x))
    assert_same(torch.from_numpy(np.array(output)), expected)


def test_command(graph: Graph, x: np.ndarray, cache: Cache, tmp_path: Path) -> None:
    made = compile_graph(graph, command(tmp_path), cache=cache, self_check=1e-5)
    check_right(made, graph, x)
    assert made.failure is None


FAILURES = {
    "crash": ({"compile": "import os; os.abort()"}, "ended by signal"),
    "status": ({"compile": "raise SystemExit('no such operator')"}, "no such operator"),
    "hang": ({"compile": "import time; time.sleep(100)"}, "took longer than"),
    "nothing": ({"compile": ""}, "wrote no artifact"),
    "garbage": ({"compile": "import sys; open(sys.argv[2], 'wb').write(b'?')"}, "failed with status"),
    "wrong shape": (
        {"run": "import sys, numpy; numpy.savez(sys.argv[3], output_0=numpy.zeros((3, 5), 'float32'))"},
        r"float32\[3, 5\] as output 0, expected float32\[3, 4\]",
    ),
    "wrong type": ({"run": "import sys, numpy; numpy.savez(sys.argv[3], output_0=numpy.zeros((3, 4)))"}, "float64"),
    "no output": ({"run": "import sys, numpy; numpy.savez(sys.argv[3])"}, "0 outputs, expected 1"),
    "no file": ({"run": ""}, "is not what"),
    "wrong numbers": (
        {"run": "import sys, numpy; numpy.savez(sys.argv[3], output_0=numpy.ones((3, 4), 'float32'))"},
        "differs from the CPU's",
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failure(
    name: str,
    graph: Graph,
    x: np.ndarray,
    cache: Cache,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    scripts, reason = FAILURES[name]
    monkeypatch.setenv("EXECUTORCH_GGML_COMPILE_TIMEOUT", "1" if name == "hang" else "100")
    made = compile_graph(graph, command(tmp_path, **scripts), cache=cache, self_check=1e-3)
    for _ in range(2):
        check_right(made, graph, x)
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 1, caplog.text
    assert made.failure is not None
    assert re.search(reason, made.failure), made.failure
    kept = name in {"garbage", "no file"}  # whose artifact is whole, and is only found out when it runs
    assert len(cache.entries()) == int(kept)


@pytest.mark.parametrize("compiler", ["openvino", "onnxruntime"])
@pytest.mark.parametrize(
    ("what", "timeout", "reason"),
    [("os.abort()", "100", "ended by signal 6"), ("__import__('time').sleep(100)", "1", "took longer than 1 s")],
)
def test_a_package_that_crashes_or_hangs(
    compiler: str,
    what: str,
    timeout: str,
    reason: str,
    graph: Graph,
    x: np.ndarray,
    cache: Cache,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Compilers that are Python packages compile in a process of their own."""
    pytest.importorskip(compiler)
    monkeypatch.setenv("EXECUTORCH_GGML_COMPILE_TIMEOUT", timeout)
    (tmp_path / "sitecustomize.py").write_text(
        f"import os, sys\nif 'run_{compiler}.py' in ' '.join(sys.orig_argv): {what}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    made = compile_graph(graph, compiler, cache=cache)
    check_right(made, graph, x)
    assert reason in str(made.failure)
    assert not cache.entries()


def test_a_package_that_refuses(graph: Graph, x: np.ndarray, cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr("executorch_ggml.devices.compiled.formats.write", lambda *given: given[-1].write_bytes(b"?"))
    made = compile_graph(graph, "onnxruntime", cache=cache)
    check_right(made, graph, x)
    assert re.search("failed with status 1: onnxruntime: .*Protobuf", str(made.failure))


def test_no_program(graph: Graph, x: np.ndarray, cache: Cache) -> None:
    made = compile_graph(graph, CommandCompiler("no-such-compiler {model} {artifact}", "true", ".pt"), cache=cache)
    check_right(made, graph, x)
    assert "no program 'no-such-compiler' is found" in str(made.failure)


class Counting(Compiler):
    """Counts what is asked of it, and computes by TorchScript."""

    name = "counting"
    form = ".pt"

    def __init__(self) -> None:
        self.compiled = self.loaded = 0

    def version(self) -> str:
        return "1"

    def compile(self, model: Path, folder: Path) -> None:
        self.compiled += 1
        (folder / "model.pt").write_bytes(model.read_bytes())

    def load(self, folder: Path) -> Any:
        self.loaded += 1
        module = torch.jit.load(folder / "model.pt")
        return lambda inputs: [tensor.numpy() for tensor in module(*map(torch.from_numpy, inputs))]


def test_second_start_hits_the_cache(
    graph: Graph, x: np.ndarray, cache: Cache, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = Counting(), Counting()
    for compiler in (first, second):
        check_right(compile_graph(graph, compiler, cache=cache), graph, x)
    assert (first.compiled, second.compiled, second.loaded) == (1, 0, 1)
    (entry,) = cache.entries()
    (entry.folder / "model.pt").write_bytes(b"?")
    third = Counting()
    check_right(compile_graph(graph, third, cache=cache), graph, x)
    assert third.compiled == 1


PROCESS = """
import sys, torch, numpy
from pathlib import Path
from tests.devices.test_compiled_device import Small, CommandCompiler, compile_graph, Cache, lowered
folder, *lines = sys.argv[1:]
torch.manual_seed(0)
graph = lowered(Small().eval(), (torch.randn(3, 8),))
compiled = compile_graph(graph, CommandCompiler(*lines, ".pt"), cache=Cache(Path(folder), limit=1 << 30))
assert compiled.failure is None, compiled.failure
compiled(numpy.zeros((3, 8), "float32"))
"""


def test_processes_compile_once(tmp_path: Path) -> None:
    once = f"open({str(tmp_path / 'count')!r}, 'a').write('x'); import time; time.sleep(1); " + COMPILE
    line = [sys.executable, "-c", PROCESS, str(tmp_path / "cache"), *command_lines(tmp_path, once)]
    running = [subprocess.Popen(line) for _ in range(2)]
    assert [process.wait(300) for process in running] == [0, 0]
    assert (tmp_path / "count").read_text() == "x"


def test_index_out_of_range(cache: Cache) -> None:
    table = torch.randn(5, 4)
    graph = lowered(lambda i: nn.functional.embedding(i, table), (torch.tensor([0, 1]),))
    made = compile_graph(graph, Counting(), cache=cache)
    assert np.array_equal(made(np.array([4, 2]))[0], table[[4, 2]].numpy())
    with pytest.raises((IndexError, RuntimeError), match="range"):
        made(np.array([5, 0]))
    assert np.array_equal(made(np.array([1, 0]))[0], table[[1, 0]].numpy())
    assert made.failure is None


@pytest.mark.parametrize("compiler", ["openvino", "onnxruntime"])
def test_nan(compiler: str, cache: Cache, caplog: pytest.LogCaptureFixture) -> None:
    """NaN wins, and is last in order, whatever the compiler makes of it; the graph stays compiled."""
    pytest.importorskip(compiler)
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([[1, nan, -1, 0, inf, -inf], [-inf, nan, -inf, nan, -2, -5], [1, 2, 3, 4, 5, 6]])
    y = torch.tensor([[nan, 1, -1, nan, -inf, inf], [1, 2, 3, nan, -2, -6], [6, 5, 4, 3, 2, 1]])

    class Ordered(nn.Module):
        def forward(self, a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
            extremes = torch.maximum(a, b), torch.minimum(a, b), a.amax(-1), a.amin(-1), a.argmax(-1), a.argmin(-1)
            return *extremes, torch.sort(a, stable=True, dim=-1)[1], a > b, a >= b, a.sign(), torch.softmax(a, -1)

    graph = lowered(Ordered(), (x, y))
    made = compile_graph(graph, compiler, cache=cache)
    for inputs in ((x, y), (y, x), (torch.randn(3, 6), torch.randn(3, 6))):
        outputs = made(*map(as_numpy, inputs))
        for ours, theirs in zip(outputs, Ordered()(*inputs), strict=True):
            assert_same(torch.from_numpy(np.array(ours)), theirs)
    assert made.failure is None, caplog.text


def test_numbers_that_a_compiler_lacks_are_of_this_run_alone(cache: Cache, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("openvino")
    table = torch.randn(5, 4)
    graph = lowered(
        lambda i, j: nn.functional.embedding(i.minimum(j), table), (torch.tensor([0, 1]), torch.tensor([2, 3]))
    )
    made = compile_graph(graph, "openvino", cache=cache)
    for wide in (2**40, 4):
        (output,) = made(np.array([4, 2]), np.array([wide, wide]))
        assert np.array_equal(output, table[[4, 2]].numpy())
    assert made.failure is None
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_axelera(graph: Graph, x: np.ndarray, cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AXELERA_COMPILER", "no-axelera-here")
    made = compile_graph(graph, "axelera", cache=cache)
    check_right(made, graph, x)
    assert "install the Voyager SDK" in str(made.failure)
    stand_in = "import sys; from pathlib import Path; Path(sys.argv[4], 'model.axm').write_bytes(b'?')"
    monkeypatch.setenv("AXELERA_COMPILER", script(tmp_path, "axelera", stand_in))
    assert AxeleraCompiler().self_check
    made = compile_graph(graph, "axelera", cache=cache)
    check_right(made, graph, x)
    assert "is not installed: computing on the CPU" in str(made.failure)


def test_by_name() -> None:
    assert {"axelera", "command", "onnxruntime", "openvino"} <= set(names())
    if importlib.util.find_spec("onnxruntime") is not None:
        assert devices.get("compiled:onnxruntime").name == "compiled:onnxruntime"
    with pytest.raises(LookupError, match="no compiler 'gcc'; there is axelera"):
        get("gcc")


def test_unsupported(cache: Cache) -> None:
    graph = lowered(lambda x: torch.logcumsumexp(x, 0), (torch.randn(3, 4),))
    device = CompiledDevice(Counting(), cache=cache)
    assert not all(device.supports(node) for node in graph.nodes)
    with pytest.raises(CompileError, match="scan is not exported"):
        device.plan(graph)
    made = compile_graph(graph, Counting(), cache=cache)
    x = torch.randn(3, 4)
    assert_same(torch.from_numpy(np.array(made(as_numpy(x))[0])), torch.logcumsumexp(x, 0))


@pytest.mark.parametrize("compiler", ["openvino", "onnxruntime"])
@pytest.mark.parametrize("name", ["bert", "llama", "resnet18"])
def test_models(name: str, compiler: str, cache: Cache) -> None:
    pytest.importorskip(compiler)
    from tests import zoo

    model = zoo.load(name, small=True)
    graph = lowered(model.module, model.args)
    made = compile_graph(graph, compiler, cache=cache)
    assert made.failure is None
    (output,) = made(*map(as_numpy, model.args))
    assert_same(torch.from_numpy(np.array(output)), model.module(*model.args).detach(), 1e-4)


@pytest.mark.parametrize("compiler", ["onnxruntime", "openvino"])
def test_an_input_that_nothing_reads(compiler: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(compiler) is None:
        pytest.skip(f"{compiler} is missing")
    p = Program()
    unread, a = p.input(torch.ones(7)), p.input(torch.tensor([1.0, -2.0]))
    p.emit("neg", unread)
    p.build.output("made", p.emit("neg", a), (2,))
    run = compile_graph(p.build.graph, compiler, cache=Cache(tmp_path / "cache"))
    (made,) = run(np.ones(7, np.float32), np.array([1, -2], np.float32))
    np.testing.assert_array_equal(made, [-1, 2])
    assert run.failure is None
