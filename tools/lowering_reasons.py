"""Reads from a lowering's source why it may refuse a call, so that the documentation can't drift from the code."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

PACKAGE = "executorch_ggml.frontends.aten"


def reasons(function: Callable[..., Any]) -> list[str]:
    """The messages of every ``Refused`` and ``IRError`` in a lowering and the functions of that package it calls."""
    found: dict[str, None] = {}
    seen: set[Callable[..., Any]] = set()
    waiting = [function]
    while waiting:
        current = waiting.pop(0)
        if current in seen or not inspect.isfunction(current) or not current.__module__.startswith(PACKAGE):
            continue
        seen.add(current)
        tree = ast.parse(textwrap.dedent(inspect.getsource(current)))
        found |= dict.fromkeys(_messages(tree))
        waiting += _called(current, tree)
    return list(found)


def _messages(tree: ast.AST) -> Iterator[str]:
    """What a ``Refused`` or ``IRError`` made here says; the keys of a table where it says one of these."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args):
            continue
        if node.func.id not in ("Refused", "IRError"):
            continue
        said = node.args[0]
        if isinstance(said, ast.Name):
            tables = [table for table in ast.walk(tree) if isinstance(table, ast.Dict)]
            yield from filter(None, (_text(key) for table in tables for key in table.keys))
        elif text := _text(said):
            yield text


def _text(node: ast.AST | None) -> str | None:
    """A string literal; of an f-string's values, their expressions in braces."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or "" for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return f"{{{ast.unparse(node.value)}}}"
    if isinstance(node, ast.BinOp):
        return (_text(node.left) or "") + (_text(node.right) or "")
    return None


def _called(function: Callable[..., Any], tree: ast.AST) -> list[Callable[..., Any]]:
    """The functions that a function names: its module's, what it closes over and its parameters' defaults."""
    known = dict(inspect.getclosurevars(function).globals) | dict(inspect.getclosurevars(function).nonlocals)
    known |= {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()}
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    return [known[name] for name in dict.fromkeys(names) if inspect.isfunction(known.get(name))]
