"""``op_support_limits()``: the operator table, less what a backend does not take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .data_types import DATA_TYPES
from .operators import OPERATORS, OperatorSpec
from .operators.shapes import MAX_RANK
from .operators.spec import Chosen, Same, Tensor, TypeName, camel_case

MAX_BYTES = 2**31 - 1


def op_support_limits(executor: Any) -> dict[str, Any]:
    """The specification's MLOpSupportLimits.

    An executor that takes less than the specification allows has a ``data_types(operator, tensor, data_types)``, which
    gives those of ``data_types`` that it takes.
    """
    everything = _limits(frozenset(DATA_TYPES), (0, MAX_RANK))
    limits: dict[str, Any] = {
        "preferredInputLayout": getattr(executor, "preferred_input_layout", "nchw"),
        "maxTensorByteLength": MAX_BYTES,
        "input": everything,
        "constant": everything,
        "output": everything,
    }
    for spec in OPERATORS.values():
        limits[spec.spec_name] = {camel_case(t.name): _tensor(executor, spec, t) for t in spec.tensors + spec.outputs}
    return limits


def allowed_types(spec: OperatorSpec, tensor: Tensor) -> frozenset[str]:
    """The data types that the specification allows an operand or result."""
    if isinstance(tensor.types, Same):
        other = next(t for t in spec.tensors if tensor.types.tensor == t.name)
        return allowed_types(spec, other)
    if isinstance(tensor.types, Chosen):
        option = spec.option_by_name[tensor.types.option]
        assert isinstance(option, TypeName)
        return option.types
    return tensor.types


def allowed_ranks(spec: OperatorSpec, tensor: Tensor) -> tuple[int, int]:
    """The ranks that the specification allows an operand or result."""
    if isinstance(tensor.ranks, Same):
        return allowed_ranks(spec, next(t for t in spec.tensors if tensor.ranks.tensor == t.name))
    return tensor.ranks


def _tensor(executor: Any, spec: OperatorSpec, tensor: Tensor) -> Mapping[str, Any]:
    types = allowed_types(spec, tensor)
    fewer = getattr(executor, "data_types", None)
    return _limits(types if fewer is None else fewer(spec.name, tensor.name, types), allowed_ranks(spec, tensor))


def _limits(types: frozenset[str], ranks: tuple[int, int]) -> dict[str, Any]:
    return {
        "dataTypes": [name for name in DATA_TYPES if name in types],
        "rankRange": {"min": ranks[0], "max": ranks[1]},
    }
