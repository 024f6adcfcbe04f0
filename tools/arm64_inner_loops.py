"""Instructions per multiply-add of the inner loops of ARM64 kernels, from their disassembly; for docs/arm64.md.

    python -m tools.arm64_inner_loops OBJECT SYMBOL_PATTERN [OBJECT SYMBOL_PATTERN ...]

For each function whose demangled name matches, the innermost loop with the most multiply-adds is counted. Functions of
one kernel differ in their number of rows: the loop with the fewest instructions per multiply-add is printed.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

OBJDUMP = "aarch64-linux-gnu-objdump"

LINE = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)\s*(.*)$")
HEADER = re.compile(r"^[0-9a-f]+ <(.*)>:$")
TARGET = re.compile(r"\b([0-9a-f]+) <")


@dataclass(frozen=True)
class Instruction:
    address: int
    name: str
    operands: str

    @property
    def multiply_adds(self) -> int:
        """How many it computes, or 0."""
        if self.name in ("smmla", "ummla", "usmmla"):
            return 32
        if self.name in ("sdot", "udot", "usdot"):
            return 16
        if self.name in ("bfdot", "bfmmla"):
            return 8 if self.name == "bfdot" else 16
        if self.name in ("fmla", "fmls") and ".4s" in self.operands:
            return 4
        if re.fullmatch(r"[su]ml[as]?l2?|[su]mull2?", self.name):
            return 8 if self.operands.split(",")[0].endswith(".8h") else 4
        return 0

    @property
    def branches_to(self) -> int | None:
        if not re.fullmatch(r"b(\.\w+)?|cbn?z|tbn?z", self.name):
            return None
        target = TARGET.search(self.operands)
        return int(target.group(1), 16) if target else None


@dataclass(frozen=True)
class Loop:
    instructions: int
    multiply_adds: int
    loads: int

    @property
    def ratio(self) -> float:
        return self.instructions / self.multiply_adds


def functions(path: str, pattern: str) -> Iterator[tuple[str, list[Instruction]]]:
    listing = subprocess.run(
        [OBJDUMP, "-d", "-C", "--no-show-raw-insn", path], capture_output=True, text=True, check=True
    ).stdout
    name, body = "", list[Instruction]()
    for line in [*listing.splitlines(), "0 <>:"]:
        if header := HEADER.match(line):
            if body and re.search(pattern, name):
                yield name, body
            name, body = header.group(1), []
        elif match := LINE.match(line):
            body.append(Instruction(int(match.group(1), 16), match.group(2), match.group(3)))


def inner_loop(body: list[Instruction]) -> Loop | None:
    """The innermost loop with the most multiply-adds."""
    places = {instruction.address: i for i, instruction in enumerate(body)}
    spans = [
        (places[target], i)
        for i, instruction in enumerate(body)
        if (target := instruction.branches_to) is not None and target in places and places[target] <= i
    ]
    best = None
    for first, last in spans:
        if any((first <= a and b <= last) and (a, b) != (first, last) for a, b in spans):
            continue
        inside = body[first : last + 1]
        multiply_adds = sum(instruction.multiply_adds for instruction in inside)
        loads = sum(instruction.name.startswith(("ld", "st")) for instruction in inside)
        if multiply_adds > (best.multiply_adds if best else 0):
            best = Loop(len(inside), multiply_adds, loads)
    return best


def main(arguments: list[str]) -> None:
    for path, pattern in zip(arguments[::2], arguments[1::2], strict=True):
        loops = [(loop, name) for name, body in functions(path, pattern) if (loop := inner_loop(body)) is not None]
        if not loops:
            sys.exit(f"{path} has no loop of products in a function that matches {pattern!r}")
        loop, name = min(loops, key=lambda found: found[0].ratio)
        print(
            f"{loop.ratio:.4f} instructions a multiply-add ({loop.instructions} for {loop.multiply_adds}, "
            f"{loop.loads} loads and stores): {name[:120]}"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
