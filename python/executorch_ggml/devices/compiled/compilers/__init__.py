"""External compilers, one module each, by name."""

from .compiler import CompileError, Compiler, get, names, register

__all__ = ["CompileError", "Compiler", "get", "names", "register"]
