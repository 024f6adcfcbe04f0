"""External compilers, one module each, by name."""

from .compiler import CompileError, Compiler, InputError, get, names, register

__all__ = ["CompileError", "Compiler", "InputError", "get", "names", "register"]
