"""Ahead of time: which nodes run in ggml, and the ExecuTorch backend that writes them into a program."""

from .backend import GgmlBackend
from .explain import Explanation, explain
from .partitioner import GgmlPartitioner
from .return_types import name_return_types

__all__ = ["Explanation", "GgmlBackend", "GgmlPartitioner", "explain"]

name_return_types()
