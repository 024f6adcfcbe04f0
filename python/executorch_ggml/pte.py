"""What an ExecuTorch program's file says of itself: its methods, their inputs, delegates and kernel calls."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from executorch.exir._serialize._program import deserialize_pte_binary
from executorch.exir.schema import Tensor, TensorShapeDynamism
from executorch.exir.tensor import get_scalar_type

from .partition.partitioner import REFUSED_KEY
from .runtime.program_file import Port

GGUF_MAGIC = b"GGUF"


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
