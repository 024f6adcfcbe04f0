"""Devices that compile whole graphs with an external compiler, and keep what it makes: ``compiled:<compiler>``."""

from .cache import Cache, CacheError
from .compilers import CompileError, Compiler, names, register
from .device import CompiledDevice, CompiledGraph, compile_graph
from .module import GraphModule

__all__ = [
    "Cache",
    "CacheError",
    "CompileError",
    "CompiledDevice",
    "CompiledGraph",
    "Compiler",
    "GraphModule",
    "compile_graph",
    "names",
    "register",
]
