"""A report's graph in Graphviz' language."""

from __future__ import annotations

from collections.abc import Iterator

from .model import Kind, Method, Node, Report

_COLOURS = {
    Kind.GGML: "#cfe3f7",
    Kind.OUTSIDE: "#fbdcc0",
    Kind.OTHER: "#e3d7f2",
    Kind.INPUT: "#e8e8e8",
    Kind.OUTPUT: "#e8e8e8",
}


def to_dot(report: Report) -> str:
    """One digraph; a method is a cluster, and in it a delegate is one."""
    lines = ["digraph program {", '  node [shape=box, style="rounded,filled", fontname="sans-serif", fontsize=10];']
    for number, method in enumerate(report.methods):
        lines += _method(method, f"m{number}")
    return "\n".join([*lines, "}", ""])


def _method(method: Method, prefix: str) -> Iterator[str]:
    yield f"  subgraph cluster_{prefix} {{"
    yield f"    label={_quoted(method.name)};"
    parts = dict.fromkeys(node.part for node in method.nodes)
    for number, part in enumerate(parts):
        nodes = [node for node in method.nodes if node.part == part]
        if part:
            yield f"    subgraph cluster_{prefix}_{number} {{"
            yield f"      label={_quoted(part)};"
        for node in nodes:
            colour = _quoted(_COLOURS[node.kind])
            yield f"      {_quoted(f'{prefix}.{node.id}')} [label={_label(node)}, fillcolor={colour}];"
        if part:
            yield "    }"
    for edge in method.edges:
        ends = (_quoted(f"{prefix}.{end}") for end in (edge.source, edge.target))
        yield f"    {' -> '.join(ends)} [tooltip={_quoted(edge.value)}];"
    yield "  }"


def _label(node: Node) -> str:
    return _quoted("\n".join(filter(None, [node.op, node.module or node.name, node.result])))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
