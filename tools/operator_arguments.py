"""Writes native/files/operator_arguments.inc: what the kernels of the installed ExecuTorch expect as arguments.

python tools/operator_arguments.py [--check]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from executorch.extension.pybindings.portable_lib import _get_operator_names

PATH = Path(__file__).resolve().parents[1] / "native" / "files" / "operator_arguments.inc"

# Operators of ExecuTorch's interpreter that torch has no schema of.
OWN = {
    "executorch_prim::et_copy_index.tensor": "WTI",
    "executorch_prim::et_view.default": "TNW",
    "executorch_prim::floordiv.int": "SSV",
    "executorch_prim::mod.int": "SSV",
}

LETTERS = {
    "Tensor": "T",
    "number": "S",
    "Scalar": "S",
    "int": "I",
    "SymInt": "I",
    "float": "D",
    "bool": "B",
    "str": "X",
    "Device": "I",
    "Generator": "X",
    "List[Tensor]": "L",
    "List[Optional[Tensor]]": "P",
    "List[int]": "N",
    "List[SymInt]": "N",
    "List[float]": "F",
    "List[bool]": "Q",
}
WRITTEN = {"T": "W", "L": "M"}
RETURNED = {**WRITTEN, "S": "V", "I": "V", "D": "V", "B": "O"}


def letter(kind: torch._C.JitType, written: bool) -> str:
    """The letter of an argument; native/files/operator_arguments.h lists them."""
    text = kind.annotation_str
    optional = text.startswith("Optional[") and text.endswith("]")
    found = LETTERS[text[len("Optional[") : -1] if optional else text]
    if written:
        found = WRITTEN[found]
    return found.lower() if optional else found


def arguments(name: str) -> str:
    """The letters of an operator's arguments, and of what a call of it lists last: the value it returns."""
    if name in OWN:
        return OWN[name]
    packet, _, overload = name.partition(".")
    schema = torch._C._get_schema(packet, overload)
    letters = "".join(letter(a.type, a.alias_info is not None and a.alias_info.is_write) for a in schema.arguments)
    outputs = [a for a in schema.arguments if a.is_out] or schema.returns
    if len(outputs) == 1:
        return letters + RETURNED[letter(outputs[0].type, written=False)]
    return letters + ("M" if outputs else "")


def text() -> str:
    """The file's contents."""
    rows = [f'{{"{name}", "{arguments(name)}"}},' for name in sorted(_get_operator_names())]
    return "// Written by tools/operator_arguments.py.\n" + "\n".join(rows) + "\n"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail where the file is not up to date")
    if not parser.parse_args().check:
        PATH.write_text(text())
    elif PATH.read_text() != text():
        sys.exit(f"{PATH} is not up to date: run python tools/operator_arguments.py")


if __name__ == "__main__":
    main()
