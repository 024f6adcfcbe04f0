"""What `make cross` compiles with and for."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools.cross import SYSTEMS, System, native_tests

ROOT = Path(__file__).resolve().parents[2]
TOOLCHAINS = ROOT / "cmake" / "toolchains"


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_every_system_has_a_toolchain_file_and_tests(system: System) -> None:
    assert (TOOLCHAINS / f"zig-{system.name}.cmake").exists()
    assert "cpu_test" in native_tests(system)


@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        ("-march=armv8-a", "-mcpu=generic"),
        ("-march=armv8.2-a+dotprod+i8mm", "-mcpu=generic+v8_2a+dotprod+i8mm"),
        ("-mavx2", "-mavx2"),
    ],
)
def test_zig_is_told_of_extensions_in_its_own_way(tmp_path: Path, flag: str, expected: str) -> None:
    cmake = Path(sys.executable).with_name("cmake")
    command = [str(cmake), "-DEXECUTORCH_GGML_ZIG=/bin/echo", "-D_zig_target=any", "-P", str(TOOLCHAINS / "zig.cmake")]
    subprocess.run(command, cwd=tmp_path, check=True)
    compiler = tmp_path / "zig-c++"
    printed = subprocess.run([compiler, flag, "a b.cpp"], check=True, capture_output=True, text=True).stdout
    assert printed == f"c++ {expected} a b.cpp\n"


def test_zig_is_told_of_every_arm64_level() -> None:
    text = (ROOT / "cmake" / "IsaKernels.cmake").read_text()
    architectures = set(re.findall(r"-march=(armv[\w.-]+)", text))
    assert architectures
    for architecture in architectures:
        assert f"-march={architecture}*" in (TOOLCHAINS / "zig.cmake").read_text()
