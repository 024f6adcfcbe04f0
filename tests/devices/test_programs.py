"""The plug-in in programs that know nothing of this project: in C++, in a bare Python, and in llama.cpp."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import libggml
import numpy as np
import pytest
from tests.devices import older_glibc
from tests.gguf.models import make

from executorch_ggml.devices import library
from executorch_ggml.gguf import export_gguf
from executorch_ggml.ir.dtypes import DType

GGML = Path(libggml.__file__).parent
SOURCE = Path(__file__).parent / "mlp.cpp"
COMPILER = shutil.which("c++") or shutil.which("g++")

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")


def run(command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("EXECUTORCH_GGML")}
    return subprocess.run(
        command, env={**environment, **variables}, capture_output=True, text=True, check=False, timeout=600
    )


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = tmp_path_factory.mktemp("program") / "mlp"
    libraries = [f"-L{GGML / 'lib'}", "-lggml", "-lggml-base", f"-Wl,-rpath,{GGML / 'lib'}"]
    assert COMPILER is not None
    subprocess.run([COMPILER, "-std=c++17", f"-I{GGML / 'include'}", SOURCE, "-o", made, *libraries], check=True)
    return str(made)


@needs_compiler
@pytest.mark.parametrize("by_path", [False, True], ids=["ggml_backend_load", "GGML_BACKEND_PATH"])
def test_cpp(program: str, by_path: bool) -> None:
    variables = {"EXECUTORCH_GGML_PYTHON": sys.prefix}
    if by_path:
        done = run([program, str(GGML / "lib")], **variables, GGML_BACKEND_PATH=str(library()))
    else:
        done = run([program, str(GGML / "lib"), str(library())], **variables, EXECUTORCH_GGML_DEVICES="torch")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "devices: 1\n" in done.stdout
    assert "device torch: PyTorch" in done.stdout
    assert "failed" not in done.stderr


def _newest_ggml() -> Path | None:
    """The folder of the newest ggml that a package has: its device interface is version 3."""
    spec = importlib.util.find_spec("llama_cpp_py_sync")
    folder = os.environ.get("GGML_NEWEST") or (spec and spec.origin and str(Path(spec.origin).parent))
    return Path(folder) if folder else None


@needs_compiler
def test_version_3(tmp_path: Path) -> None:
    folder = _newest_ggml()
    if folder is None:
        pytest.skip(
            "no ggml with version 3 of the device interface: `make test-all` installs one (llama-cpp-py-sync), or set "
            "GGML_NEWEST to the folder of another"
        )
    sources = [SOURCE]
    if older_glibc.is_older():
        for path in folder.glob("libggml*.so.0"):
            older_glibc.copy_for_this_glibc(path, tmp_path)
        sources.append(older_glibc.C23_SOURCE)
        folder = tmp_path
    libraries = [folder / f"lib{name}.so.0" for name in ("ggml", "ggml-base", "ggml-cpu")]
    program = tmp_path / "mlp"
    assert COMPILER is not None
    options = ["-std=c++17", "-rdynamic", f"-I{GGML / 'include'}"]
    linking = [f"-Wl,-rpath,{folder}", "-Wl,--allow-shlib-undefined"]
    subprocess.run([COMPILER, *options, *sources, "-o", program, *libraries, *linking], check=True)
    variables = {"EXECUTORCH_GGML_PYTHON": sys.prefix, "EXECUTORCH_GGML_DEVICES": "torch"}
    done = run([str(program), str(folder), str(library())], **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "interface: 3\n" in done.stdout
    assert "device torch: PyTorch" in done.stdout
    assert "failed" not in done.stderr


@needs_compiler
def test_no_python(program: str) -> None:
    done = run([program, str(GGML / "lib"), str(library())], EXECUTORCH_GGML_PYTHON="/no/such/python")
    assert done.returncode == 3, done.stderr
    assert "devices: 0" in done.stdout
    assert "no Python: /no/such/python does not run; set EXECUTORCH_GGML_PYTHON" in done.stderr


@needs_compiler
def test_no_such_device(program: str) -> None:
    variables = {"EXECUTORCH_GGML_PYTHON": sys.prefix, "EXECUTORCH_GGML_DEVICES": "nothing"}
    done = run([program, str(GGML / "lib"), str(library())], **variables)
    assert done.returncode == 3, done.stderr
    assert "no device 'nothing'; there is" in done.stderr


# A Python that did not import us: ctypes alone.
BARE = """
import ctypes, sys
folder, plugin, device = sys.argv[1:]
base, ggml = (ctypes.CDLL(f"{folder}/{name}.so.0") for name in ("libggml-base", "libggml"))
ggml.ggml_backend_load_all_from_path(folder.encode())
ggml.ggml_backend_load.restype = ctypes.c_void_p
assert "executorch_ggml" not in sys.modules
assert ggml.ggml_backend_load(plugin.encode())
ggml.ggml_backend_dev_by_name.restype = ctypes.c_void_p
assert ggml.ggml_backend_dev_by_name(device.encode())
assert not hasattr(sys.modules["__main__"], "_executorch_ggml_attach")
assert ("torch" in sys.modules) == (device == "torch")
import executorch_ggml
assert callable(executorch_ggml.export)
print("done")
"""


@pytest.mark.parametrize("device", ["torch", "mlx"])
def test_bare_python(device: str) -> None:
    """What a device does not need is not imported."""
    if device == "mlx":
        pytest.importorskip("mlx.core")
    done = run([sys.executable, "-c", BARE, str(GGML / "lib"), str(library()), device], EXECUTORCH_GGML_DEVICES=device)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"


# llama.cpp, which has a ggml of its own: a model's layers on the CPU, then on the device. (Its cache is f16.)
LLAMA = """
import ctypes, os, sys
import numpy as np
import llama_cpp
path, plugin = sys.argv[1:]
loaded = {line.split()[-1] for line in open("/proc/self/maps") if "/libggml" in line}
ggml = ctypes.CDLL(next(name for name in loaded if "/libggml.so" in name))
ggml.ggml_backend_load.restype = ctypes.c_void_p
if not ggml.ggml_backend_load(plugin.encode()):
    print("refused")
    sys.exit()
scores = []
for layers in (0, 99):
    sizes = {"n_ctx": 64, "n_batch": 64, "n_threads": 1, "n_gpu_layers": layers}
    model = llama_cpp.Llama(path, logits_all=True, verbose=False, **sizes)
    model.eval([1, 5, 7, 9, 3, 2])
    for token in (4, 8, 6):
        model.eval([token])
    scores.append(model.scores[:9].copy())
print(np.abs(scores[0] - scores[1]).max() / np.abs(scores[0]).max())
"""


@pytest.mark.skipif(importlib.util.find_spec("llama_cpp") is None, reason="llama-cpp-python is missing")
@pytest.mark.skipif(sys.platform != "linux", reason="finds llama.cpp's ggml by /proc")
@pytest.mark.parametrize(("dtype", "tolerance"), [(DType.F32, 1e-3), (DType.Q8_0, 2e-2)])
def test_llama_cpp(tmp_path: Path, dtype: DType, tolerance: float) -> None:
    export_gguf(make("llama"), tmp_path / "model.gguf", types=dtype, metadata={"tokenizer.ggml.model": "no_vocab"})
    done = run([sys.executable, "-c", LLAMA, str(tmp_path / "model.gguf"), str(library())], GGML_LOG_LEVEL="info")
    assert done.returncode == 0, done.stderr[-3000:]
    if done.stdout == "refused\n":
        assert "of the device interface; this library knows 2 and 3" in done.stderr
        pytest.skip("this llama.cpp's ggml is of another interface")
    assert float(np.float64(done.stdout)) < tolerance
    assert "failed" not in done.stderr
