"""What an ETRecord knows of the ATen nodes that events are of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..frontends.aten.source import source_frame
from .records import Source

# The ATen nodes of an instruction, or of a delegate's node by its debug id.
Sources = Callable[[int, int | None], tuple[Source, ...]]


def no_sources(_instruction: int, _number: int | None) -> tuple[Source, ...]:
    """Without an ETRecord none is known."""
    return ()


def sources_of(etrecord: Path, method: str) -> Sources:
    """Look up the ATen nodes in an ETRecord file. Raises FileNotFoundError, and ValueError for another file."""
    from executorch.devtools.etrecord import parse_etrecord

    if not etrecord.is_file():
        raise FileNotFoundError(f"{etrecord}: no such ETRecord; export writes one with generate_etrecord=True")
    record = parse_etrecord(str(etrecord))
    nodes = _by_handle(record.edge_dialect_program, method)
    handles = (record._debug_handle_map or {}).get(method, {})
    delegates = (record._delegate_map or {}).get(method, {})

    def find(instruction: int, number: int | None) -> tuple[Source, ...]:
        if number is None:
            found = handles.get(str(instruction), handles.get(instruction))
        else:
            delegate = delegates.get(str(instruction), delegates.get(instruction, {}))
            mapping = delegate.get("delegate_map", {})
            found = mapping.get(str(number), mapping.get(number))
        wanted = [found] if isinstance(found, int) else found or []
        return tuple(nodes[handle] for handle in wanted if handle in nodes)

    return find


def _by_handle(program: Any, method: str) -> dict[int, Source]:
    if isinstance(program, dict):
        program = program[method]
    found: dict[int, Source] = {}
    for node in program.graph.nodes if program is not None else ():
        handle = node.meta.get("debug_handle")
        for own in (handle,) if isinstance(handle, int) else handle or ():
            found.setdefault(own, _source(node))
    return found


def _source(node: Any) -> Source:
    module, kind = next(reversed((node.meta.get("nn_module_stack") or {"": ("", "")}).values()))
    name = kind if isinstance(kind, str) else kind.__name__
    frame = source_frame(node)
    file, line, code = (frame.path, frame.line, frame.code) if frame is not None else ("", 0, "")
    return Source(node.name, _op(node), module, name.rpartition(".")[2], file, line, code)


def _op(node: Any) -> str:
    return str(getattr(node.target, "_op", node.target))
