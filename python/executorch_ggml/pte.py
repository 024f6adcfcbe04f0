"""What an ExecuTorch program's file says of itself: its methods, their inputs, delegates and kernel calls."""

from __future__ import annotations

import json
import os
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from executorch.exir._serialize._program import deserialize_pte_binary
from executorch.exir.schema import ScalarType, Tensor, TensorShapeDynamism
from executorch.exir.tensor import get_scalar_type

from .partition.partitioner import REFUSED_KEY
from .runtime.named_data import mapped, table_entries

GGUF_MAGIC = b"GGUF"
_EXECUTION_PLAN, _VALUES = 6, 8  # fields of the tables Program and ExecutionPlan


@dataclass(frozen=True)
class Port:
    """A tensor that a method takes or gives: its largest sizes, and whether they may be smaller."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    dynamic: bool

    def __str__(self) -> str:
        sizes = ", ".join(map(str, self.shape))
        return f"{str(self.dtype).removeprefix('torch.')}[{sizes}]{' or smaller' if self.dynamic else ''}"


def read_program(path: Path) -> tuple[Any, Callable[[Any], bytes]]:
    """The program's description, and a function from a delegate of it to its payload."""
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


def plan_of(path: Path, method: str) -> tuple[Any, Callable[[Any], bytes]]:
    """A method's description, and a function from a delegate to its payload. Raises ValueError for another method."""
    program, payload = read_program(path)
    plans = {plan.name: plan for plan in program.execution_plan}
    if method not in plans:
        raise ValueError(f"{path} has no method {method!r}, but {', '.join(sorted(plans))}")
    return plans[method], payload


def outside_calls(plan: Any) -> int:
    """How many kernel calls of a method ExecuTorch runs itself."""
    return sum(type(i.instr_args).__name__ == "KernelCall" for chain in plan.chains for i in chain.instructions)


def refusals(plan: Any) -> Counter[tuple[str, str]] | None:
    """Why calls stayed outside, as (op, reason), each with how often; None where the partitioner left nothing of it."""
    specs = [spec for delegate in plan.delegates for spec in delegate.compile_specs if spec.key == REFUSED_KEY]
    if not specs:
        return None
    return Counter((row["op"], row["reason"]) for row in json.loads(bytes(specs[0].value)))


def inputs_of(plan: Any) -> list[Port | None]:
    """The inputs of a method; None for those that are no tensors."""
    return [_port(plan.values[index].val) for index in plan.inputs]


def _port(value: Any) -> Port | None:
    if not isinstance(value, Tensor):
        return None
    return Port(
        get_scalar_type(value.scalar_type),
        tuple(value.sizes),
        value.shape_dynamism != TensorShapeDynamism.STATIC,
    )


def input_ports(path: str | os.PathLike[str], method: str) -> list[Port | None]:
    """The inputs of a method, read from the file without its weights; None for those that are no tensors.

    Raises ValueError where there is no such method, or the file is no program.
    """
    from executorch.exir._serialize.generated.executorch_flatbuffer.ExecutionPlan import ExecutionPlan
    from executorch.exir._serialize.generated.executorch_flatbuffer.Program import Program

    with mapped(path) as data:
        try:
            plans = {
                plan.Name().decode(): plan
                for plan in table_entries(Program.GetRootAs(data, 0)._tab, _EXECUTION_PLAN, ExecutionPlan)
            }
            if method in plans:
                return _ports(plans[method])
        except (struct.error, IndexError, TypeError, AttributeError) as error:
            raise ValueError(f"{os.fspath(path)}: a damaged program: {error}") from error
    raise ValueError(f"{os.fspath(path)} has no method {method!r}, but {', '.join(sorted(plans))}")


def _ports(plan: Any) -> list[Port | None]:
    from executorch.exir._serialize.generated.executorch_flatbuffer.EValue import EValue
    from executorch.exir._serialize.generated.executorch_flatbuffer.KernelTypes import KernelTypes
    from executorch.exir._serialize.generated.executorch_flatbuffer.Tensor import Tensor as TensorTable

    values = table_entries(plan._tab, _VALUES, EValue)
    ports: list[Port | None] = []
    for index in range(plan.InputsLength()):
        value = values[plan.Inputs(index)]
        if value.ValType() != KernelTypes.Tensor:
            ports.append(None)
            continue
        tensor = TensorTable()
        tensor.Init(value.Val().Bytes, value.Val().Pos)
        sizes = tuple(tensor.Sizes(dim) for dim in range(tensor.SizesLength()))
        dtype = get_scalar_type(ScalarType(tensor.ScalarType()))
        ports.append(Port(dtype, sizes, tensor.ShapeDynamism() != TensorShapeDynamism.STATIC))
    return ports
