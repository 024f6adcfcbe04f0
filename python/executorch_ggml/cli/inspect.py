"""``executorch-ggml inspect``: each delegate's graph in a program, and what stayed outside, with the reasons."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..ir.graph import Graph

GGUF_MAGIC = b"GGUF"


def register(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser("inspect", help="print the ggml graphs inside a .pte program")
    parser.add_argument("program", type=Path, help="the .pte file")
    parser.add_argument("--summary", action="store_true", help="leave the graphs' nodes out")
    parser.add_argument("--target", choices=("cpu", "ggml"), default="cpu", help="whose graphs to print (cpu)")
    parser.add_argument(
        "--device", help="say which nodes a device or several (CUDA0=3,CUDA1=1) compute, and what moves"
    )
    parser.add_argument("--gguf", type=Path, action="append", default=[], help="the file with the program's weights")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Print the program's methods, delegates and calls that ExecuTorch runs."""
    from ..ir.serialize import deserialize
    from ..ir.target import Target

    program, payloads = read_program(args.program)
    for plan in program.execution_plan:
        print(f"method {plan.name}: {len(plan.delegates)} delegates, {outside_calls(plan)} calls outside")
        for index, delegate in enumerate(plan.delegates):
            print(f"\ndelegate {index}: {delegate.id}")
            if delegate.id != "GgmlBackend":
                continue
            _print_delegate(deserialize(payloads(delegate), Target[args.target.upper()]), args.summary)
            if args.device is not None:
                print(_placement(payloads(delegate), args.device, args.gguf))
        for line in refusal_lines(plan):
            print(line)


def _print_delegate(graph: Graph, summary: bool) -> None:
    from ..ir.printer import to_text

    counts = Counter(node.op for node in graph.nodes)
    print(f"{len(graph.nodes)} nodes: " + ", ".join(f"{op} x{count}" for op, count in counts.most_common()))
    if not summary:
        print(to_text(graph))


def _placement(payload: bytes, device: str, gguf: Sequence[Path]) -> str:
    """What a device computes of a delegate, for inputs of the smallest sizes."""
    from ..ir.serialize import deserialize, targets_of
    from ..partition.placement import blank_constants, inputs_of_sizes, smallest_sizes
    from ..runtime import Session

    graph = deserialize(payload)
    sizes = smallest_sizes(graph)
    constants: dict[str, Any] = {}
    for target in targets_of(payload):
        constants |= blank_constants(deserialize(payload, target))
    session = Session(payload, constants, device=device, gguf=gguf)
    text = str(session.placement(*inputs_of_sizes(graph, sizes)))
    used = ", ".join(f"{symbol}={size}" for symbol, size in sizes.items())
    return text + (f"\n  (for {used})" if used else "")


def read_program(path: Path) -> tuple[Any, Any]:
    """The program's description, and a function from a delegate of it to its payload."""
    from executorch.exir._serialize._program import deserialize_pte_binary

    with path.open("rb") as file:
        if file.read(len(GGUF_MAGIC)) == GGUF_MAGIC:
            raise ValueError(f"{path} is a GGUF file and no program: `executorch-ggml export` makes one of it")
    data = path.read_bytes()
    try:
        program = deserialize_pte_binary(data).program
    except Exception as error:
        raise ValueError(f"{path} is not an ExecuTorch program: {error}") from error

    def payload(delegate: Any) -> bytes:
        return bytes(program.backend_delegate_data[delegate.processed.index].data)

    return program, payload


def outside_calls(plan: Any) -> int:
    """How many kernel calls of a method ExecuTorch runs itself."""
    return sum(type(i.instr_args).__name__ == "KernelCall" for chain in plan.chains for i in chain.instructions)


def refusal_lines(plan: Any) -> Iterator[str]:
    """Why calls stayed outside, aggregated: the partitioner left this in the delegates' compile specs."""
    from ..partition.partitioner import REFUSED_KEY

    specs = [spec for delegate in plan.delegates for spec in delegate.compile_specs if spec.key == REFUSED_KEY]
    if not specs:
        return
    rows = json.loads(bytes(specs[0].value))
    yield f"\n{len(rows)} nodes refused" + (":" if rows else "")
    for (op, reason), count in Counter((row["op"], row["reason"]) for row in rows).most_common():
        yield f"  [left to ExecuTorch x{count}] {op}: {reason}"
