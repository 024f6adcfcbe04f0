"""A program of the corpus (make_corpus.py): an IR graph with the tensors that it is run on, and its file.

A file is little-endian: "EGGC"; u32 count of constants, each u32 size of key, key, u64 size, bytes; u32 count of
inputs, each u32 dtype, u32 rank, i64 sizes, u64 size, bytes; u32 count of expected outputs, each u32 dtype, u64 size,
bytes; u64 size of the IR, the IR.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import torch
from executorch_ggml.ir._generated import ggml_ir_generated as fb
from torch import Tensor

from executorch_ggml.ir.builder import Builder
from executorch_ggml.ir.codec import quantize
from executorch_ggml.ir.dims import ne_of
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.ir.graph import Graph, TracedForm, Value
from executorch_ggml.ir.interpreter import Interpreter
from executorch_ggml.ir.op import Dim
from executorch_ggml.ir.serialize import MAGIC, payload, serialize
from executorch_ggml.ir.storage import Storage, StorageLayout
from executorch_ggml.partition.backend import constant_data

AXES = ((0, 1, 2, 3), (2, 0, 1, 3), (3, 1, 0, 2))  # of forms

DTYPES = {dtype.torch: dtype for dtype in DType if not dtype.is_quantized}


@dataclass
class Program:
    """A graph in the making, with the tensors that it is run on."""

    build: Builder = field(default_factory=Builder)
    inputs: list[Tensor] = field(default_factory=list)
    constants: dict[str, Tensor] = field(default_factory=dict)

    def input(self, tensor: Tensor, shape: Sequence[Dim] | None = None) -> Value:
        """One more input, run on this tensor; ``shape`` is the declared one, where it has symbols."""
        declared = tuple(tensor.shape) if shape is None else tuple(shape)
        self.inputs.append(tensor)
        return self.build.input(f"x{len(self.inputs) - 1}", DTYPES[tensor.dtype], declared, ne_of(declared))

    def random(self, *shape: int) -> Value:
        """One more f32 input of random numbers."""
        return self.input(torch.randn(shape))

    def constant(self, tensor: Tensor, kind: Storage = Storage.PLAIN, groups: int = 1) -> Value:
        """A constant with these contents, stored in a layout."""
        key = f"c{len(self.constants)}"
        self.constants[key] = tensor
        value = self.build.constant(key, DTYPES[tensor.dtype], ne_of(tensor.shape), lambda: tensor)
        constant = self.build.constant_of(value)
        assert constant is not None
        constant.storage = StorageLayout(kind, groups)
        return value

    def quantized(self, dtype: DType, *shape: int, kind: Storage = Storage.PLAIN) -> Value:
        """A constant of random numbers in a quantized type, stored in a layout."""
        data, key = quantize(torch.randn(shape), dtype), f"c{len(self.constants)}"
        self.constants[key] = data
        value = self.build.constant(key, dtype, ne_of(shape), lambda: data)
        constant = self.build.constant_of(value)
        assert constant is not None
        constant.storage = StorageLayout(kind)
        return value

    def integers(self, *shape: int) -> Value:
        """One more f32 input, of numbers that ggml's blocks of 8-bit integers hold exactly."""
        tensor = torch.randint(-126, 127, shape).float()
        tensor.view(-1, 32)[:, 0] = 127.0
        return self.input(tensor)

    def emit(self, op: str, *inputs: Value | None, **attrs: Any) -> Value:
        """One more node, named after its op."""
        self.build.origin = op
        return self.build.emit(op, *inputs, **attrs)

    def output(self, *values: Value) -> None:
        """Give values to the caller, in their four dims reversed."""
        for value in values:
            self.build.output(f"y{len(self.build.graph.outputs)}", value, tuple(reversed(value.ne)))


def _raw(tensor: Tensor) -> bytes:
    flat = tensor.detach().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def _sized(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data


def with_defaults(ir: bytes) -> bytes:
    """The same IR with the fields that have default values written out, so that these can be damaged too."""
    packed = fb.ProgramT.InitFromPackedBuf(payload(ir), 0)
    builder = flatbuffers.Builder(1 << 12)
    builder.ForceDefaults(True)
    builder.Finish(packed.Pack(builder), b"GGIR")
    body = bytes(builder.Output())
    return struct.pack("<4sIQ", MAGIC, zlib.crc32(body), len(body)) + body


def _with_forms(graph: Graph) -> Graph:
    """The graph with a form for each node's output, as if it were that of a traced program."""
    for number, node in enumerate(graph.nodes):
        axes = AXES[number % len(AXES)]
        moved = dict(zip(axes, node.output.ne, strict=True))
        node.traced = TracedForm(node.output.ne, axes, tuple(moved[axis] for axis in (3, 2, 1, 0)))
    return graph


def container(p: Program) -> bytes:
    """A program's file."""
    graph = _with_forms(p.build.finish())
    expected = Interpreter(graph).run(*p.inputs)
    constants = {constant.key: constant for constant in graph.constants}
    constants |= {state.init.key: state.init for state in graph.states if state.init is not None}
    parts = [b"EGGC", struct.pack("<I", len(constants))]
    for key, constant in constants.items():
        assert constant.data is not None
        data = constant_data(constant).numpy().tobytes()
        parts += [struct.pack("<I", len(key)), key.encode(), _sized(data)]
    parts.append(struct.pack("<I", len(p.inputs)))
    for tensor in p.inputs:
        header = struct.pack(f"<II{tensor.dim()}q", DTYPES[tensor.dtype], tensor.dim(), *tensor.shape)
        parts += [header, _sized(_raw(tensor))]
    parts.append(struct.pack("<I", len(expected)))
    for tensor in expected:
        parts += [struct.pack("<I", DTYPES[tensor.dtype]), _sized(_raw(tensor))]
    return b"".join([*parts, _sized(with_defaults(serialize(graph)))])
