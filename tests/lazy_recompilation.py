"""Makes a `torch.fx.GraphModule` compile its Python code when something first reads or calls it.

`recompile` does so at once, after each pass over a program; exports read graphs, and call nearly none of that code.
torch has `torch.fx._lazy_graph_module` for modules that are created as such: ExecuTorch's passes create others.
"""

from __future__ import annotations

import weakref
from typing import Any
from unittest.mock import patch

from torch.fx import GraphModule
from torch.fx.graph import _PyTreeCodeGen

_compile = GraphModule.recompile
_reduce = GraphModule.__reduce__

# What compiling sets in a module, beside the `forward` of its class.
_COMPILED = ("_code", "_lineno_map", "_prologue_start")


class _Forward:
    """Stands for `forward` in the class of a module, of which each has its own, until the code is compiled."""

    def __init__(self, module: GraphModule) -> None:
        self.module = weakref.ref(module)

    def __get__(self, instance: GraphModule | None, cls: type[GraphModule]) -> Any:
        module = self.module()
        assert module is not None
        _compile(module)
        return cls.forward if instance is None else instance.forward


class _Attribute:
    """What compiling sets in a module, for as long as it is not compiled."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: GraphModule | None, cls: type[GraphModule]) -> Any:
        if instance is None:
            return self
        _compile(instance)
        return instance.__dict__[self.name]


def install() -> None:
    """For this process."""
    changed = {"recompile": _recompile_later, "__reduce__": _reduce_compiled}
    for name, value in (changed | {name: _Attribute(name) for name in _COMPILED}).items():
        setattr(GraphModule, name, value)


def _recompile_later(module: GraphModule) -> None:
    codegen = module._graph._codegen
    if isinstance(codegen, _PyTreeCodeGen):
        module._in_spec, module._out_spec = codegen.pytree_info.in_spec, codegen.pytree_info.out_spec
    for name in _COMPILED:
        module.__dict__.pop(name, None)
    # mypy knows `forward` as a method; this is a descriptor that returns one.
    type(module).forward = _Forward(module)  # type: ignore[assignment]
    module._recompile_submodules()


def _reduce_compiled(module: GraphModule) -> Any:
    """`__reduce__`, which copies the module's attributes before it compiles."""
    with patch.object(GraphModule, "recompile", _compile):
        _compile(module)
        return _reduce(module)
