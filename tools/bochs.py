"""A PC with AVX-512 and AMX that is emulated: Bochs, compiled here, and Debian's Linux to run programs in it.

QEMU emulates no more of x86 than AVX2. Bochs 3.0 has CPUs up to Sapphire Rapids; bochs-3.0.patch is for what its AMX
lacks: extended feature disable, without which Linux does not give tiles to programs, and signed bytes.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import socket
import subprocess
import tarfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tools.debian import Apt
from tools.foreign_packages import ROOT, UnavailableError

CACHE = ROOT / ".cache" / "bochs"
UNPACKED = CACHE / "debian"
SOURCE = "http://deb.debian.org/debian/pool/main/b/bochs/bochs_3.0+dfsg.orig.tar.xz"
SHA256 = "78f6c73d4a6472d5130a87ab9dc306d02c7c71ed8e25b3a8ef642e2a7acd282b"
PATCH = Path(__file__).with_name("bochs-3.0.patch")
OPTIONS = (
    "--enable-x86-64", "--enable-avx", "--enable-evex", "--enable-amx", "--enable-handlers-chaining",
    "--enable-fast-function-calls", "--enable-trace-linking", "--disable-show-ips", "--with-nogui", "CXXFLAGS=-O2",
)  # fmt: skip
PACKAGES = ("bochsbios", "busybox-static", "isolinux", "syslinux-common", "vgabios", "xorriso")
KERNEL = "linux-image-amd64"
# What Linux needs to read a CD, in the order of loading.
MODULES = ("scsi_common", "scsi_mod", "cdrom", "libata", "ata_piix", "sr_mod", "isofs")
# Bochs cannot come back from system management mode to page tables of five levels.
EXCLUDED = "la57"
# Linux hangs in Bochs where it copies memory by string instructions.
KERNEL_OPTIONS = "rdinit=/init console=ttyS0 loglevel=4 mitigations=off nokaslr clearcpuid=erms,fsrm"
INIT = f"""#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc none /proc
$b mount -t devtmpfs none /dev
for module in {" ".join(MODULES)}; do $b insmod /modules/$module.ko; done
$b mount -t iso9660 -o ro /dev/sr0 /cd
$b mount -t proc none /cd/proc
$b mount -t sysfs none /cd/sys
$b mount -t devtmpfs none /cd/dev
$b mount -t tmpfs none /cd/tmp
$b stty -F /dev/ttyS0 -opost
$b echo the commands start > /dev/ttyS0
$b chroot /cd /bin/busybox sh /commands > /dev/ttyS0 2>&1
$b stty -F /dev/ttyS0 opost  # which waits until all is sent
$b poweroff -f
"""
STARTED = "the commands start\n"
CRASH = re.compile(r"Oops: |Kernel panic")
ATTEMPTS = 4
START_SECONDS = 240.0  # until the commands run
BOOT = f"default linux\nlabel linux\n  kernel /boot/linux\n  append initrd=/boot/initrd {KERNEL_OPTIONS}\n"


class Machine(NamedTuple):
    """The emulator, and the folder that Debian's packages were unpacked into."""

    bochs: Path
    debian: Path

    def file(self, pattern: str) -> Path:
        """The one file of the packages with this path."""
        return next(self.debian.glob(pattern))

    def write_cd(self, folder: Path, files: Mapping[str, Path], commands: str) -> Path:
        """A CD that starts Linux and runs shell commands among files, which are given by their paths there."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "commands").write_text(commands)
        (folder / "isolinux.cfg").write_text(BOOT)
        self._write_initrd(folder / "initrd")
        empty = folder / "empty"
        empty.mkdir(exist_ok=True)
        of_linux = {
            "isolinux.bin": self.file("usr/lib/ISOLINUX/isolinux.bin"),
            "ldlinux.c32": self.file("usr/lib/syslinux/modules/bios/ldlinux.c32"),
            "isolinux.cfg": folder / "isolinux.cfg",
            "boot/linux": self.file("boot/vmlinuz-*"),
            "boot/initrd": folder / "initrd",
            "bin/busybox": self.file("bin/busybox"),
            "commands": folder / "commands",
            **dict.fromkeys(("proc", "sys", "dev", "tmp"), empty),
        }
        cd = folder / "cd.iso"
        boot = ["-b", "isolinux.bin", "-c", "boot.cat", "-no-emul-boot", "-boot-load-size", "4", "-boot-info-table"]
        paths = [f"{path.lstrip('/')}={file}" for path, file in {**of_linux, **files}.items()]
        self._run("xorriso", "-as", "mkisofs", "-quiet", "-r", "-f", "-o", str(cd), *boot, "-graft-points", *paths)
        return cd

    def run_cd(self, cd: Path, cpu: str, seconds: float) -> str:
        """What the commands of a CD print on one of Bochs's CPUs; where Linux crashes, or does not boot, once more."""
        for _ in range(ATTEMPTS):
            output = self._attempt(cd, cpu, seconds)
            cd.with_name("output.txt").write_text(output)
            if STARTED in output and not CRASH.search(output):
                break
        return output.partition(STARTED)[2]

    def _attempt(self, cd: Path, cpu: str, seconds: float) -> str:
        """All that the serial line says, until the machine is switched off or the time is up."""
        with socket.create_server(("127.0.0.1", 0)) as server, cd.with_name("bochs.txt").open("w") as log:
            settings = cd.with_name("bochsrc")
            settings.write_text(self._settings(cd, cpu, server.getsockname()[1]))
            command = [str(self.bochs), "-q", "-f", str(settings)]
            with subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT) as bochs:
                try:
                    server.settimeout(START_SECONDS)
                    with server.accept()[0] as line:
                        return read_line(line, seconds)
                except TimeoutError:
                    return ""
                finally:
                    bochs.kill()

    def _settings(self, cd: Path, cpu: str, port: int) -> str:
        return f"""megs: 1024
cpu: model={cpu}, ips=100000000, exclude_features="{EXCLUDED}"
romimage: file={self.file("usr/share/bochs/BIOS-bochs-latest")}
vgaromimage: file={self.file("usr/share/vgabios/vgabios.bin")}
ata0-master: type=cdrom, path={cd}, status=inserted
boot: cdrom
com1: enabled=1, mode=socket-client, dev=127.0.0.1:{port}
clock: sync=none
display_library: nogui
log: {cd.with_name("bochs.log")}
panic: action=fatal
"""

    def _run(self, program: str, *arguments: str) -> None:
        """Run a program of the packages."""
        libraries = self.debian / "usr" / "lib" / "x86_64-linux-gnu"
        environment = {**os.environ, "LD_LIBRARY_PATH": str(libraries)}
        command = [str(self.debian / "usr" / "bin" / program), *arguments]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise SystemExit(f"{program}: {result.stderr}")

    def _write_initrd(self, file: Path) -> None:
        """Write the files that Linux starts from, as a cpio archive."""
        root = file.with_name("initrd-files")
        shutil.rmtree(root, ignore_errors=True)
        for name in ("bin", "cd", "dev", "modules", "proc"):
            (root / name).mkdir(parents=True)
        busybox = shutil.copy(self.file("bin/busybox"), root / "bin")
        for module in MODULES:
            shutil.copy(self.file(f"lib/modules/*/kernel/**/{module}.ko"), root / "modules")
        (root / "init").write_text(INIT)
        (root / "init").chmod(0o755)
        names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
        with file.open("wb") as archive:
            command = [str(busybox), "cpio", "-o", "-H", "newc"]
            subprocess.run(
                command, cwd=root, input=names.encode(), stdout=archive, stderr=subprocess.DEVNULL, check=True
            )


def read_line(line: socket.socket, seconds: float) -> str:
    """What comes by a serial line, until it is closed; nothing more where Linux has crashed, or is late."""
    text = ""
    end, late = time.monotonic() + seconds, time.monotonic() + START_SECONDS
    line.settimeout(1.0)
    while time.monotonic() < (end if STARTED in text else late):
        try:
            received = line.recv(1 << 16)
        except TimeoutError:
            continue
        if not received:
            break
        text += received.decode(errors="replace").replace("\r\n", "\n")
        if CRASH.search(text):
            break
    return text


def find() -> Machine:
    """The machine, compiled and unpacked in .cache; raises `UnavailableError` with the reason."""
    if not UNPACKED.exists():
        unpack_packages()
    built_of = hashlib.sha256(PATCH.read_bytes() + " ".join(OPTIONS).encode()).hexdigest()[:8]
    folder = CACHE / f"bochs-{built_of}"
    if not (folder / "bochs").exists():
        build(folder)
    return Machine(folder / "bochs", UNPACKED)


def unpack_packages() -> None:
    """Unpack Linux, what starts it, and what writes a CD."""
    apt = Apt(CACHE / "apt")
    apt.update(*PACKAGES, KERNEL)
    nothing_installed = Apt(apt.state, ("Dir::State::status=/dev/null",))  # it names this system's own kernel too
    needed = nothing_installed.needed(KERNEL)
    kernel = next(name for name in needed if name.startswith("linux-image-") and name != KERNEL)
    apt.unpack(sorted({*PACKAGES, *apt.needed(*PACKAGES), kernel}), UNPACKED)


def build(folder: Path) -> None:
    """Fetch Bochs's source, patch and compile it."""
    archive = CACHE / Path(SOURCE).name
    if not archive.exists():
        try:
            urllib.request.urlretrieve(SOURCE, archive)
        except OSError as reason:
            raise UnavailableError(f"cannot fetch {SOURCE}: {reason}") from reason
    if hashlib.sha256(archive.read_bytes()).hexdigest() != SHA256:
        archive.unlink()
        raise UnavailableError(f"{SOURCE} is not the file that it was")
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(archive) as source:
        source.extractall(CACHE, filter="data")
    (CACHE / "bochs-3.0").rename(folder)
    run_in(folder, "patch", "--quiet", "-p1", "-i", str(PATCH))
    run_in(folder, "./configure", *OPTIONS)
    run_in(folder, "make", f"-j{os.cpu_count() or 1}")


def run_in(folder: Path, *command: str) -> None:
    """Run a step of the build."""
    log = folder / "build.log"
    try:
        with log.open("a") as file:
            subprocess.run(command, cwd=folder, stdout=file, stderr=subprocess.STDOUT, check=True)
    except (OSError, subprocess.CalledProcessError) as reason:
        raise UnavailableError(f"Bochs is not built, see {log}: {reason}") from reason


def libraries(programs: Sequence[Path]) -> dict[str, Path]:
    """The shared libraries that programs need, by the paths at which the loader finds them."""
    command = ["ldd", *map(str, programs)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = {word for line in printed.splitlines() if ":" not in line for word in line.split() if word.startswith("/")}
    return {os.path.normpath(path): Path(path) for path in sorted(found)}
