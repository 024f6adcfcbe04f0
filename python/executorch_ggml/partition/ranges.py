"""Keeps the ranges of symbolic sizes as they were declared."""

from __future__ import annotations

from functools import partial
from typing import Any

import sympy
from torch._guards import detect_fake_mode
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import ShapeEnv


def keep_ranges(program: ExportedProgram) -> None:
    """Let no guard from here on narrow the range of an input's size.

    ExecuTorch's passes and ``to_executorch`` run modules on fake tensors. What torch asks there in order to choose a
    library (oneDNN takes some convolutions from 16 images on) it answers for the example, with a guard that ends a
    symbolic batch at 15: ExecuTorch would plan the memory for no more.
    """
    mode = detect_fake_mode([node.meta.get("val") for node in program.graph.find_nodes(op="placeholder")])
    if mode is not None and mode.shape_env is not None:
        # Torch's own switch (suppress_guards) would drop what is known of computed sizes too.
        mode.shape_env._update_var_to_range = partial(_update, mode.shape_env)  # type: ignore[method-assign]


def _update(env: ShapeEnv, symbol: sympy.Symbol, *args: Any, **kwargs: Any) -> None:
    """What :class:`ShapeEnv` does, for symbols that are new, and for those whose values are computed in the graph."""
    if symbol not in env.var_to_range or symbol not in env.backed_var_to_val:
        ShapeEnv._update_var_to_range(env, symbol, *args, **kwargs)
