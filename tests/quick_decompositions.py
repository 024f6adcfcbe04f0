"""Makes `run_decompositions` fast: two thirds of its time is one preparation, which is the same each time.

torch gives each of its seven hundred composite ops twenty kernels in Python for as long as a program is decomposed.
Here the kernels of an op are kept from the first time on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch._export.utils as export_utils
from torch._C import DispatchKey
from torch._ops import OpOverload
from torch._subclasses.fake_impls import op_implementations_dict as fake_rules
from torch.export import exported_program

COMPOSITE = DispatchKey.CompositeImplicitAutograd

_override_by_torch = exported_program._override_composite_implicit_decomp


class _Kernels(NamedTuple):
    before: dict[Any, Any]
    during: dict[Any, Any]
    fake_rule: Callable[..., Any]


_known: dict[OpOverload, _Kernels] = {}


def install() -> None:
    """For this process."""
    exported_program._override_composite_implicit_decomp = _override
    # The first looks up every composite op of torch. One that is registered later is known from its first call on.
    export_utils._materialize_cpp_cia_ops = functools.cache(export_utils._materialize_cpp_cia_ops)
    export_utils._check_valid_to_preserve = functools.cache(export_utils._check_valid_to_preserve)


@contextmanager
def _override(cia_ops_to_callable: Any) -> Iterator[Any]:
    """What torch's function of this purpose does."""
    decompositions: Mapping[OpOverload, Callable[..., Any]] = cia_ops_to_callable
    used = {op: _kernels(op, decomposition) for op, decomposition in decompositions.items()}
    for op, kernels in used.items():
        op.py_kernels.update(kernels.during)
        op.py_kernels[COMPOSITE] = decompositions[op]
        op._dispatch_cache.clear()
        fake_rules[op] = kernels.fake_rule
    try:
        yield
    finally:
        for op, kernels in used.items():
            op.py_kernels.clear()
            op.py_kernels.update(kernels.before)
            op._dispatch_cache.clear()
            fake_rules.pop(op, None)


def _kernels(op: OpOverload, decomposition: Callable[..., Any]) -> _Kernels:
    """What torch gives an op, tried out where the op's own kernels are not those of the last time."""
    own_rule = op in fake_rules
    if op not in _known or own_rule or _known[op].before != op.py_kernels:
        before = dict(op.py_kernels)
        with _override_by_torch({op: decomposition}):
            kernels = _Kernels(before, dict(op.py_kernels), fake_rules[op])
        if own_rule:  # torch drops it afterwards: the next time it makes another
            return kernels
        _known[op] = kernels
    return _known[op]
