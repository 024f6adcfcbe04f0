"""How large the C++ runtime is that `executorch-ggml build-runtime` makes for a program: by owner, file and symbol.

    python -m benchmarks.runtime_size [model.pte...] [--levels avx2] [--symbols 15] [--keep build/size]

Builds the runtime for each program, links examples/cpp's `run_small` with it, and reads the linker's map: what is left
of the library after unused sections are dropped. Code and data are bytes of the file; zeroed memory is apart.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import executorch
import libggml

from benchmarks import results
from executorch_ggml.selection import build_runtime, selection_of

ROOT = Path(__file__).resolve().parents[1]
_SECTION = re.compile(r"^ (\.[\w.$]+|COMMON)(?:\s*\n)?\s+0x([0-9a-f]+)\s+0x([0-9a-f]+) (\S+)", re.MULTILINE)
_OURS = "libexecutorch_ggml_runtime.a"
_OTHERS = "Programs with nodes that ggml computes need libggml.so and its library for the CPU too."


@dataclass
class Sizes:
    """Bytes of our library in an executable."""

    code: int = 0
    data: int = 0
    zeroed: int = 0
    objects: Counter[str] = field(default_factory=Counter)
    symbols: Counter[str] = field(default_factory=Counter)

    @property
    def in_file(self) -> int:
        """What it adds to the file."""
        return self.code + self.data


def linked_sections(map_text: str) -> Iterator[tuple[str, int, str]]:
    """The sections that the linker kept: name, size and object file."""
    kept = map_text.split("Linker script and memory map", 1)[-1]
    for name, address, size, path in _SECTION.findall(kept):
        if int(address, 16) != 0 and int(size, 16) != 0:
            yield name, int(size, 16), path


def our_sizes(map_text: str) -> Sizes:
    """What of a link is of our library."""
    sizes = Sizes()
    for name, size, path in linked_sections(map_text):
        if _OURS not in path:
            continue
        if name.startswith(".bss") or name == "COMMON":
            sizes.zeroed += size
            continue
        if name.startswith((".debug", ".comment", ".note")):
            continue
        if name.startswith(".text"):
            sizes.code += size
        else:
            sizes.data += size
        sizes.objects[path.split("(")[-1].rstrip(")")] += size
        sizes.symbols[name] += size
    return sizes


def link_runner(runtime: Path, build: Path) -> Path:
    """examples/cpp's `run_small` with a runtime; the executable."""
    configure = ["cmake", "-G", "Ninja", "-S", str(ROOT / "examples" / "cpp"), "-B", str(build)]
    configure += [f"-DCMAKE_PREFIX_PATH={runtime.resolve()}", f"-DPython_EXECUTABLE={sys.executable}"]
    tools = Path(sys.executable).parent  # whose CMake is newer than a plain machine's
    environment = {**os.environ, "PATH": os.pathsep.join([str(tools), os.environ.get("PATH", "")])}
    for command in (configure, ["cmake", "--build", str(build), "--target", "run_small"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if done.returncode != 0:
            raise RuntimeError(done.stdout + done.stderr)
    return build / "run_small"


def demangled(symbols: list[str]) -> list[str]:
    """C++ names of sections that hold one function or variable each."""
    names = [re.sub(r"^\.(text|rodata|data)(\.rel\.ro|\.unlikely)?(\.local)?\.", "", name) for name in symbols]
    done = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True)
    return [
        name.replace("executorch_ggml::", "").replace("(anonymous namespace)::", "")
        for name in done.stdout.splitlines()
    ]


def library_bytes(path: Path) -> int:
    """Code and data of a shared library, without symbol tables."""
    done = subprocess.run(["size", str(path)], capture_output=True, text=True, check=True)
    text, data = done.stdout.splitlines()[1].split()[:2]
    return int(text) + int(data)


def peers() -> dict[str, int]:
    """The shared libraries that a runner loads beside ours."""
    torch = Path(executorch.__path__[0]) / "lib"
    ggml = next(folder for folder in sorted(Path(libggml.__path__[0]).glob("lib*")) if folder.is_dir())
    files = [torch / "libexecutorch.so", ggml / "libggml-base.so"]
    return {file.name: library_bytes(file) for file in files if file.exists()}


@dataclass(frozen=True)
class Measured:
    """A runtime for a program."""

    program: str
    levels: str
    ops: tuple[str, ...]
    sizes: Sizes

    def row(self) -> list[str]:
        """As the table has it."""
        sizes = (self.sizes.code, self.sizes.data, self.sizes.in_file, self.sizes.zeroed)
        return [self.program, self.levels or "all", ", ".join(self.ops), *(f"{size / 1000:.1f} KB" for size in sizes)]


def measure(program: Path, levels: str, folder: Path) -> Measured:
    """Build the runtime for a program in a folder, and link the runner with it."""
    selection = selection_of([program])
    build_runtime(selection, folder / "runtime", [level for level in levels.split(",") if level])
    runner = link_runner(folder / "runtime", folder / "runner")
    sizes = our_sizes(Path(f"{runner}.map").read_text())
    return Measured(program.stem, levels, tuple(selection.ops), sizes)


def print_largest(sizes: Sizes, count: int) -> None:
    """The largest functions and tables, and the largest files."""
    top = sizes.symbols.most_common(count)
    for (_, size), name in zip(top, demangled([name for name, _ in top]), strict=True):
        print(f"    {size:8d} {name[:110]}")
    for name, size in sizes.objects.most_common(count):
        print(f"    {size:8d} {name}")


def usual_programs(folder: Path) -> list[Path]:
    """An MLP, and MobileNetV2 on 224x224 pixels."""
    import torch
    from tests import zoo

    import executorch_ggml

    image = zoo.load("mobilenet_v2")
    mlp = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)).eval()
    models = {"mlp": (mlp, (torch.randn(4, 16),)), "mobilenet_v2": (image.module, image.args)}
    for name, (module, inputs) in models.items():
        executorch_ggml.export(module, inputs).save(str(folder / f"{name}.pte"))
    return [folder / f"{name}.pte" for name in models]


def report(measured: Sequence[Measured]) -> str:
    """The table of sizes, and the sizes of the shared libraries that the runner links."""
    header = ["program", "levels", "ops", "code", "data", "ours", "zeroed"]
    beside = ", ".join(f"{name} {size / 1000:.0f} KB" for name, size in peers().items())
    note = (
        "What is left of the static library in `examples/cpp`'s `run_small`, from the linker's map; 1 KB is 1000 bytes."
    )
    table = results.markdown_table(header, [each.row() for each in measured])
    return f"{note}\n\n{table}\n\nShared libraries beside it: {beside}. {_OTHERS}"


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "programs", nargs="*", type=Path, help="without any: an MLP and MobileNetV2, written into RESULTS.md"
    )
    parser.add_argument("--levels", help="instruction sets, like avx2 (all; without programs also one level alone)")
    parser.add_argument("--symbols", type=int, default=0, help="print so many of the largest functions and tables")
    parser.add_argument("--keep", type=Path, help="build there, and keep it for the next time")
    args = parser.parse_args()
    one = "neon" if platform.machine() in ("aarch64", "arm64") else "avx2"
    levels = [args.levels] if args.levels else [""] if args.programs else [one, ""]
    measured = []
    with tempfile.TemporaryDirectory() as scratch:
        for program in args.programs or usual_programs(Path(scratch)):
            for level in levels:
                folder = (args.keep or Path(scratch)) / f"{program.stem}-{level or 'all'}"
                measured.append(measure(program, level, folder))
                print(measured[-1].row(), flush=True)
                print_largest(measured[-1].sizes, args.symbols)
    text = report(measured)
    print(text)
    if not args.programs:
        results.write_section("runtime size", "Size of a runtime for given programs", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
