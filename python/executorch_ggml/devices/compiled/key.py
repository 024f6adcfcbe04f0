"""The name of a compiled graph: a hash over everything that decides what it computes, and who compiled it how."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from typing import Any

import torch

from ...ir.graph import Constant, Graph, IRError, Port, Value
from ...ir.op import AttrSpec

EXPORT_VERSION = 2  # count up when translations change what is exported of the same graph


def graph_key(graph: Graph, *, compiler: str, version: str, form: str, options: Mapping[str, str]) -> str:
    """The key, in hexadecimal: the same for the same graph in every process, whatever its tensors are called.

    It covers ops, typed attributes, types, shapes, strides, edges, which values are inputs, outputs and constants in
    which order, the bytes of the constants, the compiler with its version and options, and what exports to it.
    """
    if graph.symbols or graph.states:
        raise IRError("a graph with symbols or states has no key: its sizes and contents are not known")
    digest = hashlib.sha256()
    exporter = (EXPORT_VERSION, torch.__version__)
    digest.update(_token(("executorch-ggml", exporter, compiler, version, form, sorted(options.items()))))
    numbers = {value: number for number, value in enumerate(graph.values())}
    digest.update(_token(("inputs", [_port(port, numbers) for port in graph.inputs])))
    digest.update(_token(("constants", len(graph.constants))))
    for constant in graph.constants:
        digest.update(_token((_value(constant.value), _contents(constant))))
    digest.update(_token(("nodes", len(graph.nodes))))
    for node in graph.nodes:
        edges = [None if value is None else numbers[value] for value in node.inputs]
        attrs = [(attr.name, _typed(attr, node.attrs[attr.name])) for attr in node.spec.attrs]
        digest.update(_token((node.op, node.spec.number, edges, attrs, _value(node.output))))
    digest.update(_token(("outputs", [_port(port, numbers) for port in graph.outputs])))
    return digest.hexdigest()


def _port(port: Port, numbers: Mapping[Value, int]) -> tuple[Any, ...]:
    return numbers[port.value], _value(port.value), [int(n) for n in port.shape]


def _value(value: Value) -> tuple[Any, ...]:
    return int(value.dtype), [int(n) for n in value.ne], [int(n) for n in value.strides]


def _contents(constant: Constant) -> bytes:
    if constant.data is None:
        raise IRError(f"constant {constant.key!r} has no data")
    tensor = constant.data().detach().contiguous().reshape(-1)
    raw = tensor.view(torch.uint8).numpy().data if tensor.numel() else memoryview(b"")
    return hashlib.sha256(_token(str(tensor.dtype))).digest() + hashlib.sha256(raw).digest()


def _typed(attr: AttrSpec, value: Any) -> Any:
    if attr.struct is not None:
        return [_typed(field, part) for field, part in attr.parts(value)]
    if attr.kind == "f32":
        return float(value)
    if attr.kind == "bool":
        return bool(value)
    return [int(n) for n in value] if attr.kind in {"dims", "ints"} else int(value)


def _token(value: Any) -> bytes:
    """A value in bytes from which it could be read back, so that two values never have the same."""
    if isinstance(value, (list, tuple)):
        return b"l%d:" % len(value) + b"".join(map(_token, value))
    if isinstance(value, (str, bytes)):
        kind, raw = (b"b", value) if isinstance(value, bytes) else (b"s", value.encode())
        return kind + b"%d:" % len(raw) + raw
    if isinstance(value, float):
        return b"d" + struct.pack(">d", value)
    if value is None or isinstance(value, bool):
        return {None: b"n", True: b"t", False: b"f"}[value]
    if isinstance(value, int):
        return b"i%d;" % value
    raise TypeError(f"a key is made of numbers and text, not of {type(value).__name__}")
