"""What manylinux_2_28 has of glibc and libstdc++, for the gcc of a newer system to compile and link against.

glibc's headers and link libraries are those that PyPI's `ziglang` has of every version. libstdc++'s headers are the
compiler's own; of its library two files are made: one to link against, with the symbols that the tag allows, and behind
it the compiler's static one, for what is newer. CMake gets all of it as a toolchain file.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tools.arm64_toolchain import find as find_arm64
from tools.foreign_packages import ROOT, UnavailableError, requirement, zig

GLIBC = (2, 28)
NEWEST = {"GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11)}
SYSROOTS = ROOT / ".cache" / "manylinux"
SCRIPT = Path(__file__)
# The libraries of glibc, by their file in zig's cache, and the name that `-l` asks for.
GLIBC_LIBRARIES = {
    "libm.so.6": "libm.so",
    "libpthread.so.0": "libpthread.so",
    "libdl.so.2": "libdl.so",
    "librt.so.1": "librt.so",
    "libutil.so.1": "libutil.so",
    "libresolv.so.2": "libresolv.so",
}
# A variable of glibc 2.32, for libstdc++'s headers and its static library: there may be other threads.
SINGLE_THREADED = ("include/sys/single_threaded.h", "static const char __libc_single_threaded = 0;\n")
NEWER_GLIBC = '__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;\n'
ELF_TYPES = {"FUNC": "STT_FUNC", "IFUNC": "STT_FUNC", "TLS": "STT_TLS"}


class Compiler(NamedTuple):
    """A gcc for Linux on `machine`, and the environment that it runs in."""

    machine: str
    c: str
    cpp: str
    environment: Mapping[str, str]

    def run(self, *arguments: str | Path, source: str = "") -> str:
        """Run the C++ compiler; what it printed."""
        command = [self.cpp, *map(str, arguments)]
        done = subprocess.run(command, env=self.environment, input=source, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}: {done.stderr}")
        return done.stdout + done.stderr

    def file(self, name: str) -> Path:
        """A library of the compiler's own."""
        return Path(self.run(f"-print-file-name={name}").strip()).resolve()


class Symbol(NamedTuple):
    """A symbol that a library defines."""

    name: str
    version: str
    type: str
    size: int


def allowed(version: str) -> bool:
    """Whether a version of libstdc++'s symbols is one that the tag allows."""
    name, _, number = version.partition("_")
    parts = number.split(".")
    return name in NEWEST and all(part.isdigit() for part in parts) and tuple(map(int, parts)) <= NEWEST[name]


def allowed_symbols(listing: str) -> list[Symbol]:
    """Of `readelf --dyn-syms --wide`, each defined symbol with its newest version that the tag allows."""
    line = re.compile(r"^ *\d+: [0-9a-f]+ +(\S+) (\w+) +(?:GLOBAL|WEAK|UNIQUE) +DEFAULT +\d+ (\S+?)@@?(\S+)$")
    newest: dict[str, Symbol] = {}
    for found in filter(None, map(line.match, listing.splitlines())):
        size, kind, name, version = found.groups()
        symbol = Symbol(name, version, ELF_TYPES.get(kind, "STT_OBJECT"), int(size, 0))
        if allowed(version) and (name not in newest or _order(newest[name].version) < _order(version)):
            newest[name] = symbol
    return list(newest.values())


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.partition("_")[2].split("."))


def assembly(symbols: Sequence[Symbol]) -> str:
    """A library's source that has symbols and nothing in them."""
    lines = []
    for number, symbol in enumerate(symbols):
        section = '.section .tbss,"awT",%nobits' if symbol.type == "STT_TLS" else ".data"
        lines += [
            section, f".globl s{number}", f".type s{number}, {symbol.type}", f".size s{number}, {symbol.size}",
            f"s{number}:", ".skip 1", f".symver s{number}, {symbol.name}@@{symbol.version}",
        ]  # fmt: skip
    return "\n".join(lines) + "\n"


def version_script(symbols: Sequence[Symbol]) -> str:
    """The linker's script with the versions of symbols."""
    first, *others = sorted({symbol.version for symbol in symbols})
    return "".join([f"{first} {{ local: s[0-9]*; }};\n", *(f"{version} {{ }};\n" for version in others)])


def make_libstdcpp(compiler: Compiler, folder: Path) -> None:
    """What `-lstdc++` finds: the symbols that the tag allows, and the static library for the others."""
    shared = compiler.file("libstdc++.so")
    listing = subprocess.run(["readelf", "--dyn-syms", "--wide", shared], check=True, capture_output=True, text=True)
    symbols = allowed_symbols(listing.stdout)
    (folder / "libstdc++.s").write_text(assembly(symbols))
    (folder / "libstdc++.map").write_text(version_script(symbols))
    compiler.run(
        "-shared", "-nostdlib", folder / "libstdc++.s", "-o", folder / "libstdc++.so.6",
        "-Wl,-soname,libstdc++.so.6", f"-Wl,--version-script,{folder / 'libstdc++.map'}",
    )  # fmt: skip
    compiler.run("-c", "-fPIC", "-x", "c", "-", "-o", folder / "newer_glibc.o", source=NEWER_GLIBC)
    archiver = compiler.run("-print-prog-name=ar").strip()
    archive = [archiver, "rcs", str(folder / "libnewer_glibc.a"), str(folder / "newer_glibc.o")]
    subprocess.run(archive, env=compiler.environment, check=True)
    static = shutil.copy(compiler.file("libstdc++.a"), folder / "libstdc++_newer.a")
    files = (folder / "libstdc++.so.6", static, folder / "libnewer_glibc.a")
    (folder / "libstdc++.so").write_text(f"GROUP ( {' '.join(map(str, files))} )\n")


def make_glibc(machine: str, folder: Path) -> list[Path]:
    """The link libraries of glibc; gives the folders of its headers."""
    compile_for = [str(zig()), "cc", "-target", f"{machine}-linux-gnu.{GLIBC[0]}.{GLIBC[1]}"]
    with tempfile.TemporaryDirectory() as cache:
        variables = {"ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache}
        source = Path(cache) / "empty.c"
        source.write_text("int main(void) { return 0; }\n")
        command = [*compile_for, str(source), "-o", str(source.with_suffix(""))]
        subprocess.run(command, env=os.environ | variables, check=True)
        for name in ("libc.so.6", "libld.so.2", "libc_nonshared.a", *GLIBC_LIBRARIES):
            shutil.copy(next(Path(cache).rglob(name)), folder / name)
    for name, link in GLIBC_LIBRARIES.items():
        (folder / link).symlink_to(name)
    files = (folder / name for name in ("libc.so.6", "libc_nonshared.a", "libld.so.2"))
    (folder / "libc.so").write_text(f"GROUP ( {' '.join(map(str, files))} )\n")
    name, text = SINGLE_THREADED
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text(text)
    search = subprocess.run(
        [*compile_for, "-E", "-v", "-x", "c", "/dev/null"], check=True, capture_output=True, text=True
    )
    found = re.findall(r"^ (\S+/libc/include/\S+)$", search.stderr, re.MULTILINE)
    return [folder / "include", *(Path(path).resolve() for path in found)]


def own_headers(compiler: Compiler) -> list[Path]:
    """The folders of headers that are the compiler's and libstdc++'s, and not the system's."""
    output = compiler.run("-E", "-v", "-x", "c++", "-")
    listed = output.partition("#include <...> search starts here:\n")[2].partition("End of search list")[0]
    folders = [Path(os.path.normpath(line.strip())) for line in listed.splitlines()]
    return [path for path in folders if "c++" in path.parts or re.search(r"/gcc[^/]*/.*/include$", str(path))]


def digest(*parts: str) -> str:
    """A name for what something was made from: another one where any part is."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def new_folder(folder: Path, pattern: str) -> None:
    """Make a folder in place of itself and of all beside it that match, which were made from something else."""
    for old in folder.parent.glob(pattern):
        shutil.rmtree(old)
    folder.mkdir(parents=True)


def toolchain(compiler: Compiler) -> Path:
    """CMake's toolchain file for a compiler; made again where the compiler, zig or this script is another one."""
    version = compiler.run("-dumpfullversion").strip()
    made_from = digest(version, requirement("ziglang"), SCRIPT.read_text())
    folder = SYSROOTS / f"{compiler.machine}-{made_from}"
    file = folder / "toolchain.cmake"
    if file.exists():
        return file
    new_folder(folder, f"{compiler.machine}-*")
    glibc = make_glibc(compiler.machine, folder)
    make_libstdcpp(compiler, folder)
    own = own_headers(compiler)
    plain = [path for path in own if "c++" not in path.parts]
    file.write_text(_toolchain_file(compiler, folder, [*plain, *glibc], [*own, *glibc]))
    return file


def _toolchain_file(compiler: Compiler, folder: Path, c: Sequence[Path], cpp: Sequence[Path]) -> str:
    flags = f"-D__GLIBC_MINOR__={GLIBC[1]} -nostdinc"
    system = ["set(CMAKE_SYSTEM_NAME Linux)", f"set(CMAKE_SYSTEM_PROCESSOR {compiler.machine})"]
    # zig's parts of glibc have debug information that names folders.
    link = f"-L{folder} -Wl,--strip-debug,--exclude-libs,libstdc++_newer.a:libnewer_glibc.a:libc_nonshared.a"
    return "\n".join(
        [
            f"# Written by tools/manylinux.py for {compiler.machine}.",
            *([] if compiler.machine == os.uname().machine else system),
            f'set(CMAKE_C_COMPILER "{compiler.c}")',
            f'set(CMAKE_CXX_COMPILER "{compiler.cpp}")',
            f'set(CMAKE_C_FLAGS_INIT "{flags} {" ".join(f"-isystem {path}" for path in c)}")',
            f'set(CMAKE_CXX_FLAGS_INIT "{flags} {" ".join(f"-isystem {path}" for path in cpp)}")',
            *(f'set(CMAKE_{kind}_LINKER_FLAGS_INIT "{link}")' for kind in ("SHARED", "MODULE")),
            # Programs are made for CMake's own checks alone: the compiler's libgcc_s asks for the newer glibc.
            f'set(CMAKE_EXE_LINKER_FLAGS_INIT "{link} -Wl,--allow-shlib-undefined")',
            "set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)",
            "",
        ]
    )


def compiler_for(machine: str) -> Compiler:
    """This machine's gcc, or the one that CC and CXX name; for another machine Debian's cross compiler."""
    if machine != os.uname().machine:
        debian = find_arm64()
        program = debian.prefix / "usr" / "bin" / f"{machine}-linux-gnu-"
        return Compiler(machine, f"{program}gcc", f"{program}g++", debian.environment)
    c, cpp = (shutil.which(os.environ.get(name, default)) for name, default in (("CC", "gcc"), ("CXX", "g++")))
    if c is None or cpp is None:
        raise UnavailableError("no gcc and g++ here")
    return Compiler(machine, c, cpp, dict(os.environ))
