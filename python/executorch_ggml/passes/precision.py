"""Low precision as a choice: what layers of float32 are computed in, by name. ``run_passes`` takes one of them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial

from ..ir.dtypes import DType
from ..ir.graph import Graph
from . import dynamic_integers, half_products


@dataclass(frozen=True)
class Precision:
    """A pass that is run on request, and the passes without which it is none."""

    run: Callable[[Graph], Graph]
    applies: Callable[[Graph], bool]  # whether a graph has layers that it has changed
    needs: frozenset[str] = field(default=frozenset())


def _half(dtype: DType) -> Precision:
    return Precision(partial(half_products.run, half=dtype), half_products.applies, frozenset({"half_weights"}))


BEFORE = "half_weights"  # where they run among the passes: after all that is folded into weights

PRECISIONS: dict[str, Precision] = {
    "bf16": _half(DType.BF16),
    "f16": _half(DType.F16),
    "int8-dynamic": Precision(dynamic_integers.run, dynamic_integers.applies),
}


def check_precision(name: str | None, passes: Collection[str]) -> None:
    """Raise ValueError for a precision that there is none of, or that needs a pass which is switched off."""
    if name is None:
        return
    if name not in PRECISIONS:
        raise ValueError(f"precision {name!r}, expected one of {', '.join(PRECISIONS)}")
    if missing := PRECISIONS[name].needs - set(passes):
        raise ValueError(f"precision {name!r} needs the fusion {', '.join(sorted(missing))}, which is switched off")
