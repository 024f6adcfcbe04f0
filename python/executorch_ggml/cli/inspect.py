"""``executorch-ggml inspect``: each delegate's graph in a program, and what stayed outside, with the reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import options
from .output import show

if TYPE_CHECKING:
    from ..ir.graph import Graph


@click.command("inspect", short_help="Print the ggml graphs inside a program.")
@click.argument("program", type=options.FILE)
@click.option("--summary", is_flag=True, help="Leave the graphs' nodes out.")
@click.option("--target", type=click.Choice(["cpu", "ggml"]), default="cpu", help="Whose graphs to print (cpu).")
@click.option("--device", help="Say which nodes a device or several (CUDA0=3,CUDA1=1) compute, and what moves.")
@click.option("--to", type=click.Choice(["json", "dot"]), help="Print the whole program's graph for other tools.")
@options.gguf
@options.as_json
def command(
    program: Path, summary: bool, target: str, device: str | None, to: str | None, gguf: tuple[Path, ...], as_json: bool
) -> None:
    """Print the ggml graphs inside a .pte program, and what stayed outside of them and why.

    With --to dot it is a Graphviz file, with --to json what `report` shows: nodes, edges, weights, planned memory.
    """
    if to is not None:
        if as_json or summary or device is not None or gguf or target != "cpu":
            raise click.UsageError("--to prints all of the program and takes no other option")
        _print_graph(program, to)
        return
    from ..ir.serialize import deserialize
    from ..ir.target import Target
    from ..pte import read_program

    described, payloads = read_program(program)
    methods = []
    for plan in described.execution_plan:
        delegates = []
        for delegate in plan.delegates:
            facts = {"backend": delegate.id}
            if delegate.id == "GgmlBackend":
                graph = deserialize(payloads(delegate), Target[target.upper()])
                facts |= _graph_facts(graph, summary)
                if device is not None:
                    facts["placement"] = _placement(payloads(delegate), device, gguf)
            delegates.append(facts)
        methods.append(_method_facts(plan, delegates))
    show({"methods": methods}, as_json, (line for method in methods for line in _lines(method)))


def _print_graph(program: Path, to: str) -> None:
    import json

    from ..report import as_plain, report_of, to_dot

    report = report_of(program)
    click.echo(to_dot(report) if to == "dot" else json.dumps(as_plain(report), indent=2), nl=to != "dot")


def _method_facts(plan: Any, delegates: list[dict[str, Any]]) -> dict[str, Any]:
    from ..pte import inputs_of, outside_calls, refusals

    refused = refusals(plan)
    return {
        "method": plan.name,
        "inputs": [str(port) for port in inputs_of(plan)],
        "delegates": delegates,
        "calls_outside": outside_calls(plan),
        "refused": None
        if refused is None
        else [{"op": op, "reason": reason, "count": count} for (op, reason), count in refused.most_common()],
    }


def _graph_facts(graph: Graph, summary: bool) -> dict[str, Any]:
    from ..ir.printer import to_text

    counts = Counter(node.op for node in graph.nodes)
    return {"nodes": len(graph.nodes), "ops": dict(counts.most_common()), "graph": None if summary else to_text(graph)}


def _lines(method: dict[str, Any]) -> Iterator[str]:
    yield f"method {method['method']}: {len(method['delegates'])} delegates, {method['calls_outside']} calls outside"
    for index, delegate in enumerate(method["delegates"]):
        yield f"\ndelegate {index}: {delegate['backend']}"
        if "nodes" not in delegate:
            continue
        yield f"{delegate['nodes']} nodes: " + ", ".join(f"{op} x{count}" for op, count in delegate["ops"].items())
        if delegate["graph"] is not None:
            yield delegate["graph"]
        if "placement" in delegate:
            yield delegate["placement"]
    if method["refused"] is not None:
        yield f"\n{sum(row['count'] for row in method['refused'])} nodes refused" + (":" if method["refused"] else "")
        for row in method["refused"]:
            yield f"  [left to ExecuTorch x{row['count']}] {row['op']}: {row['reason']}"


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
