"""Writes what follows from the operator table: the builder's methods and their documentation.

``python -m executorch_ggml.webnn.generate [--check]``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from .operators import OPERATORS, OperatorSpec
from .operators.spec import REQUIRED, Tensor

FOLDER = Path(__file__).resolve().parent
METHODS = FOLDER / "methods.py"

_HEAD = '''"""The operators as methods. Generated from the operator table by generate.py; do not edit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from .data_types import DataType
from .operand import MLOperand


class Operators:
    """Every operator of the specification. Options are keyword arguments, ``label`` names the operation in errors."""

    def _add(self, name: str, operands: dict[str, Any], options: dict[str, Any], label: str) -> list[MLOperand]:
        raise NotImplementedError
'''


def methods() -> str:
    """The text of methods.py."""
    return "\n".join([_HEAD, *(_method(spec) for spec in OPERATORS.values())])


def _method(spec: OperatorSpec) -> str:
    positional, keywords = [], []
    for parameter in spec.parameters:
        if _is_required(parameter):
            positional.append(f"{parameter.name}: {parameter.annotation}")
        else:
            keywords.append(_keyword(parameter))
    operands = ", ".join(f'"{tensor.name}": {tensor.name}' for tensor in spec.tensors)
    options = ", ".join(f'"{option.name}": {option.name}' for option in spec.options)
    call = f'self._add("{spec.name}", {{{operands}}}, {{{options}}}, label)'
    parameters = ", ".join(["self", *positional, "*", *keywords, 'label: str = ""'])
    lines = [
        f"    def {spec.name}({parameters}) -> {'list[MLOperand]' if spec.returns_list else 'MLOperand'}:",
        f'        """{_doc(spec)}"""',
        f"        return {call}{'' if spec.returns_list else '[0]'}",
        "",
    ]
    return "\n".join(lines)


def _is_required(parameter: Any) -> bool:
    return not parameter.optional if isinstance(parameter, Tensor) else parameter.default is REQUIRED


def _keyword(parameter: Any) -> str:
    default = None if isinstance(parameter, Tensor) else parameter.default
    annotation = parameter.annotation + (" | None" if default is None else "")
    text = {float("inf"): "math.inf", float("-inf"): "-math.inf"}.get(default) if isinstance(default, float) else None
    return f"{parameter.name}: {annotation} = {text or _literal(default)}"


def _literal(value: Any) -> str:
    return repr(value).replace("'", '"')


def _doc(spec: OperatorSpec) -> str:
    first, *rest = (" ".join(part.split()) for part in spec.doc.split("\n\n"))
    if not rest:
        return first
    indent = " " * 8
    paragraphs = [textwrap.fill(part, 119, initial_indent=indent, subsequent_indent=indent) for part in rest]
    return "\n\n".join([first, *paragraphs]) + f"\n{indent}"


def formatted(text: str) -> str:
    """As ruff writes it."""
    ruff = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(METHODS), "-"]
    return subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout


def main() -> int:
    """Write the file, or with --check say whether it is up to date."""
    parser = argparse.ArgumentParser(description="Generate the builder's methods from the operator table.")
    parser.add_argument("--check", action="store_true", help="fail if the file is out of date")
    text = formatted(methods())
    if parser.parse_args().check:
        stale = not METHODS.exists() or METHODS.read_text() != text
        if stale:
            print(f"{METHODS} is out of date: run make generate", file=sys.stderr)
        return int(stale)
    METHODS.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
