"""Cross-compiles for ARM64, and runs native tests and programs in QEMU: ``python -m tests.emulators.arm64 [--quick]``.

Prints a table, and fails where a test does. Where compiler, emulator or wheels are missing and cannot be
fetched, it says so and exits with 0.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.emulators import arm64_build as build
from tests.emulators import calls
from tests.emulators.rows import Row, report
from tools.arm64_toolchain import Toolchain, find
from tools.foreign_packages import ROOT, UnavailableError

PROGRAMS = build.BUILD / "programs"
LOGS = build.BUILD / "logs"
# QEMU's CPUs and what each adds. Newer releases have more of them: those that this one lacks are left out.
CPUS = {
    "cortex-a53": "NEON",
    "cortex-a76": "dot products, half floats",
    "neoverse-v1": "i8mm, bf16, SVE",
    "max": "all that QEMU has",
}
QUICK_CPUS = ("max", "cortex-a53")  # the slower one first: others of CI run beside it
# The quick part's tests by how many of their cases it runs, one in so many and others on each level
# (tests/native/instruction_sets.h): products have thousands.
QUICK_TESTS = {
    1: "^(kernels_(attention|bfloat_tiles|movement|reduction|tiles)_test|strided_copy_test|cpu_test)$",
    7: "^kernels_product_test$",
}
ALL_TESTS = {1: "_test$"}
QUICK_PROGRAMS = ("llama", "mobilenet_v2", "unet", "mlp_q4_k", "layers_bf16", "mobilenet_v2_int8", "llama_q4_k")
SMALL_PROGRAM = "mlp"


def available_cpus(tools: Toolchain, wanted: Sequence[str]) -> list[str]:
    """Those of the wanted CPUs that this QEMU emulates."""
    known = subprocess.run([*tools.qemu, "-cpu", "help"], capture_output=True, text=True, check=False).stdout.split()
    cpus = [cpu for cpu in wanted if cpu in known]
    if not cpus:
        raise RuntimeError(f"{tools.qemu[0]} names none of the CPUs {', '.join(wanted)}: nothing would be tested")
    return cpus


def native_tests(tools: Toolchain, cpu: str, pattern: str, stride: int) -> Row:
    """Native tests whose names match, on one CPU; of the cases of some, one of `stride`."""
    start = time.monotonic()
    results = LOGS / f"native-{cpu}-{stride}.xml"
    with (LOGS / f"native-{cpu}-{stride}.txt").open("w") as log:
        command = [str(build.TOOLS / "ctest"), "--test-dir", str(build.NATIVE), "--parallel", "2", "-R", pattern]
        command += ["--output-on-failure", "--output-junit", str(results)]
        environment = tools.environment | {"QEMU_CPU": cpu, "EXECUTORCH_GGML_TEST_STRIDE": str(stride)}
        subprocess.run(command, env=environment, stdout=log, stderr=subprocess.STDOUT, check=False)
    passed, failed = junit_results(results)
    what = "native tests" if stride == 1 else f"1 case in {stride}"
    return Row(cpu, what, passed, failed, time.monotonic() - start)


def junit_results(results: Path) -> tuple[int, list[str]]:
    """How many tests of a JUnit file passed, and the names of those that failed."""
    from xml.etree import ElementTree as Xml

    cases = Xml.parse(results).getroot().findall("testcase")
    if not cases:
        return 0, ["no test was found"]
    failed = [case.get("name", "") for case in cases if case.get("status") == "fail"]
    return sum(case.get("status") == "run" for case in cases), failed


def run_programs(tools: Toolchain, cpu: str) -> Row:
    """Every exported call on one CPU, against eager's numbers from this machine."""
    start = time.monotonic()
    failed = []
    every = calls.read_list(PROGRAMS)
    with (LOGS / f"programs-{cpu}.txt").open("w") as log:
        for call in every:
            command = [*tools.qemu, "-cpu", cpu, str(build.RUNNER), *calls.arguments(PROGRAMS, call)]
            result = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False)
            if result.returncode != 0:
                failed.append(call.name)
    return Row(cpu, "programs", len(every) - len(failed), failed, time.monotonic() - start)


def run_small(tools: Toolchain, cpu: str) -> Row:
    """The program that a runtime was built for, which the runner compares with eager's numbers, on one CPU."""
    start = time.monotonic()
    call = small_call()
    command = [*tools.qemu, "-cpu", cpu, str(build.SMALL_RUNNER)]
    command += [str(PROGRAMS / file) for file in (call.program, *call.inputs, call.expected)]
    with (LOGS / f"small-{cpu}.txt").open("w") as log:
        result = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False)
    failed = [call.name] if result.returncode != 0 else []
    return Row(cpu, "small runtime", 1 - len(failed), failed, time.monotonic() - start)


def small_call() -> calls.Call:
    """The call of the program that a runtime of its own is built for."""
    return next(call for call in calls.read_list(PROGRAMS) if call.program == f"{SMALL_PROGRAM}.pte")


def rows(tools: Toolchain, quick: bool) -> Iterator[Row]:
    """Run it all, or the quick part."""
    for cpu in available_cpus(tools, QUICK_CPUS if quick else list(CPUS)):
        for stride, tests in (QUICK_TESTS if quick else ALL_TESTS).items():
            yield native_tests(tools, cpu, tests, stride)
        yield run_programs(tools, cpu)
        if not quick:
            yield run_small(tools, cpu)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description="Cross-compile for ARM64, and run tests and programs in QEMU.")
    parser.add_argument("--quick", action="store_true", help="a part of the tests and programs, for CI")
    quick: bool = parser.parse_args().quick
    start = time.monotonic()
    try:
        tools = find()
        build.build_all(tools)
    except UnavailableError as reason:
        print(f"ARM64: skipped: {reason}")
        return 0
    print(f"ARM64: built in {time.monotonic() - start:.0f} s")
    start = time.monotonic()
    calls.export(PROGRAMS, QUICK_PROGRAMS if quick else ())
    print(f"ARM64: programs exported in {time.monotonic() - start:.0f} s", flush=True)
    LOGS.mkdir(exist_ok=True)
    if not quick:
        build.build_small(tools, PROGRAMS / small_call().program)
    return report(rows(tools, quick), str(LOGS.relative_to(ROOT)))


if __name__ == "__main__":
    sys.exit(main())
