"""Runs native tests and programs on x86 CPUs that this machine is not, in Bochs: ``python -m tests.emulators.x86``.

Prints a table, and fails where a test does. Where the emulator cannot be fetched or compiled, or this is no Linux on
x86-64, it says so and exits with 0.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shlex
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.emulators import calls
from tests.emulators.rows import Row, report
from tools.foreign_packages import ROOT, UnavailableError

from tools import bochs

BUILD = ROOT / "build" / "x86"
PROGRAMS = BUILD / "programs"
NATIVE = ROOT / "build" / "dev"
RUNNER = ROOT / "build" / "examples" / "run_pte"
# Bochs's CPUs, and the level of our kernels that is the best for each.
CPUS = {
    "sapphire_rapids": "amx",
    "tigerlake": "avx512vnni",
    "corei7_skylake_x": "avx512",
    "arrow_lake": "avxvnni",
    "corei7_haswell_4770": "avx2",
    "corei7_ivy_bridge_3770k": "generic",
}
QUICK_CPUS = ("sapphire_rapids",)
# Other native tests ask nothing of the CPU.
TESTS = ("cpu_test", "strided_copy_test", "kernels_*_test")
QUICK_PROGRAMS = ("llama", "mobilenet_v2", "mlp_q4_k", "layers_bf16", "mobilenet_v2_int8", "llama_q4_k")
# A test runs its kernels on every level that a CPU has, so that the first covers those of the others, but for how
# their CPUs are recognized. One case of so many (tests/native/instruction_sets.h): Bochs computes floats in software.
STRIDE, OTHERS_STRIDE = 23, 101
SECONDS = 3600.0


class Command(NamedTuple):
    """A program that runs in the guest, and what it must print."""

    name: str
    arguments: Sequence[str]
    prints: str = ""

    @property
    def program(self) -> Path:
        """Its file."""
        return Path(self.arguments[0])

    def shell(self) -> str:
        """Lines of a script that say where its output begins, and how it ended."""
        return f"echo '=== {self.name}'\n{shlex.join(self.arguments)}\necho \"=== $?\"\n"

    def passed(self, output: str) -> bool:
        """Whether it ended well, by the output of the script; a level of kernels that fails its trial is no success."""
        found = re.search(rf"^=== {re.escape(self.name)}\n(.*?)^=== 0$", output, re.MULTILINE | re.DOTALL)
        return found is not None and self.prints in found[1] and "===" not in found[1] and "is not used" not in found[1]


class Job(NamedTuple):
    """Commands that run one after another on one CPU."""

    cpu: str
    what: str
    commands: Sequence[Command]
    variables: Mapping[str, str]
    data: Sequence[Path] = ()

    def run(self, machine: bochs.Machine) -> Row:
        """Start the machine, run the commands, and see which succeeded. The output stays in the job's folder."""
        start = time.monotonic()
        folder = BUILD / f"{self.cpu}-{self.what.replace(' ', '-')}"
        files = self._files()
        cd = machine.write_cd(folder, files, self._script(files))
        output = machine.run_cd(cd, self.cpu, SECONDS)
        cd.unlink()
        failed = [command.name for command in self.commands if not command.passed(output)]
        return Row(self.cpu, self.what, len(self.commands) - len(failed), failed, time.monotonic() - start)

    def _files(self) -> dict[str, Path]:
        """Programs, their libraries and data, at the paths that they have here."""
        programs = sorted({command.program for command in self.commands})
        files = bochs.libraries([*programs, *ggml_libraries()])
        return files | {str(path): path for path in (*programs, *ggml_libraries(), *self.data)}

    def _script(self, files: Iterable[str]) -> str:
        folders = sorted({str(Path(path).parent) for path in files if ".so" in path})
        variables = {"LD_LIBRARY_PATH": ":".join(folders), **self.variables}
        exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
        return exports + "".join(command.shell() for command in self.commands)


def ggml_libraries() -> list[Path]:
    """ggml's libraries, one for each kind of CPU among them."""
    import libggml

    return sorted((Path(libggml.__file__).parent / "lib").glob("libggml*.so*"))


def native_tests(cpu: str, stride: int) -> Job:
    """The native tests that depend on the CPU; of their cases one of `stride`."""
    tests = sorted(path for pattern in TESTS for path in NATIVE.glob(pattern))
    if not tests:
        raise SystemExit(f"no native tests in {NATIVE}: make native-test")
    printed = {"cpu_test": f"kernels of {CPUS[cpu]}, 0 failures"}
    commands = [Command(path.name, [str(path)], printed.get(path.name, "")) for path in tests]
    return Job(cpu, "native tests", commands, {"EXECUTORCH_GGML_TEST_STRIDE": str(stride)})


def programs(cpu: str) -> Job:
    """Every exported call, against eager's numbers from this machine."""
    every = calls.read_list(PROGRAMS)
    commands = [Command(call.name, [str(RUNNER), *calls.arguments(PROGRAMS, call)]) for call in every]
    return Job(cpu, "programs", commands, {}, [PROGRAMS])


def jobs(quick: bool) -> Iterator[Job]:
    """All that is run, or the quick part."""
    for cpu in QUICK_CPUS if quick else CPUS:
        yield native_tests(cpu, STRIDE if cpu in QUICK_CPUS and not quick else OTHERS_STRIDE)
        yield programs(cpu)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description="Run native tests and programs on emulated x86 CPUs.")
    parser.add_argument("--quick", action="store_true", help="one CPU, fewer cases and programs")
    quick: bool = parser.parse_args().quick
    start = time.monotonic()
    try:
        if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
            raise UnavailableError("the programs that are run are those of this machine, which is no Linux on x86-64")
        machine = bochs.find()
    except UnavailableError as reason:
        print(f"x86: skipped: {reason}")
        return 0
    calls.export(PROGRAMS, QUICK_PROGRAMS if quick else ())
    print(f"x86: emulator and programs ready in {time.monotonic() - start:.0f} s", flush=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return report(pool.map(lambda job: job.run(machine), jobs(quick)), f"{BUILD.relative_to(ROOT)}/*/output.txt")


if __name__ == "__main__":
    sys.exit(main())
