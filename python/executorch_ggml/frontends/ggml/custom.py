"""The custom nodes of this project's own graphs: they are IR nodes, which their program says."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from ...ir._generated import ggml_ir_generated as fb
from ...ir.dtypes import DType
from ...ir.graph import Value
from ...ir.ops import OPS
from ...ir.serialize import graph_of, unpacked_attr
from ...ir.target import Target
from .words import Tensor, UnsupportedError

_KEPT = 32  # programs


class CustomNodes:
    """Reads custom nodes. ``program`` and ``exprs`` give what the bridge has of them, by its numbers."""

    def __init__(self, program: Callable[[int], bytes | None], exprs: Callable[[int, int], list[int]]) -> None:
        self._bytes = program
        self._exprs = exprs
        self._programs: OrderedDict[int, Any] = OrderedDict()

    def leaf_dtypes(self, tensors: Sequence[Tensor]) -> dict[int, DType]:
        """The types of tensors that ggml has as 8-bit integers and the IR as bools or bytes."""
        dtypes: dict[int, DType] = {}
        for tensor in tensors:
            if tensor.op != "CUSTOM" or not _is_known(tensor):
                continue
            program, node = self._node(tensor)
            dtypes[tensor.index] = DType(program.values[node.output].dtype)
            inputs = [value for value in node.inputs if value >= 0]
            for source, value in zip([at for at in tensor.sources if at >= 0], inputs, strict=False):
                root = tensors[source].root
                dtype = DType(program.values[value].dtype)
                if tensors[root].role < 2 and dtype in (DType.BOOL, DType.U8):
                    dtypes[root] = dtype
        return dtypes

    def call(self, tensor: Tensor, sources: Sequence[Value]) -> tuple[str, list[Value | None], dict[str, Any]]:
        """The IR node: its op, its inputs, which are these sources, and its attributes."""
        if not _is_known(tensor):
            raise UnsupportedError("a custom node of another program")
        _, node = self._node(tensor)
        spec = OPS.by_number(node.opType)
        exprs = self._exprs(_session(tensor), tensor_number(tensor, 3))
        if spec is None:
            raise UnsupportedError(f"custom node of op #{node.opType}")
        given = iter(sources)
        inputs = [None if value < 0 else next(given) for value in node.inputs]

        def dim(wire: int) -> int:
            return int(wire) if wire >= 0 else exprs[-1 - wire]

        attrs = {attr.name: unpacked_attr(node.op, attr, dim) for attr in spec.attrs}
        return spec.name, inputs, attrs

    def label(self, tensor: Tensor) -> str:
        """What a node is called in its program, or where that is not known ggml's op and the node's number."""
        name = b""
        if tensor.op == "CUSTOM" and _is_known(tensor):
            with contextlib.suppress(UnsupportedError):
                name = self._node(tensor)[1].name or b""
        return name.decode(errors="replace") or f"{tensor.op}_{tensor.index}"

    def _node(self, tensor: Tensor) -> tuple[Any, Any]:
        session = _session(tensor)
        if session not in self._programs:
            data = self._bytes(session)
            if data is None:
                raise UnsupportedError("a custom node whose program is gone")
            self._programs[session] = graph_of(fb.ProgramT.InitFromPackedBuf(data, 0), Target.CPU)
            while len(self._programs) > _KEPT:
                self._programs.popitem(last=False)
        self._programs.move_to_end(session)
        program = self._programs[session]
        return program, program.nodes[tensor_number(tensor, 2)]


def tensor_number(tensor: Tensor, at: int) -> int:
    """A 64-bit parameter."""
    return int.from_bytes(tensor.params[8 * at : 8 * at + 8], "little", signed=True)


def _is_known(tensor: Tensor) -> bool:
    return tensor_number(tensor, 0) == 1


def _session(tensor: Tensor) -> int:
    return tensor_number(tensor, 1)
