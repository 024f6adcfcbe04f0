"""Where in the model's source a node comes from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import torch
from torch.fx import Node

_FRAME = re.compile(r'File "(?P<path>[^"<]*)", line (?P<line>\d+), in (?P<function>.*)\n\s*(?P<code>.*)')
_TORCH = str(Path(torch.__file__).parent)


class Frame(NamedTuple):
    """A call in the model's source."""

    path: str
    line: int
    function: str
    code: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}, in {self.function}: {self.code}".strip()


def source_frame(node: Node) -> Frame | None:
    """The call that a node was traced from, the innermost outside of torch's own modules; None where it is unknown."""
    frames = list(_FRAME.finditer(node.meta.get("stack_trace") or ""))
    outside = [frame for frame in frames if not frame["path"].startswith(_TORCH)]
    found = next(reversed(outside or frames), None)
    return None if found is None else Frame(found["path"], int(found["line"]), found["function"], found["code"])


def source_line(node: Node) -> str:
    """``path:line, in function: code`` of that call; "" where it is unknown."""
    frame = source_frame(node)
    return "" if frame is None else str(frame)
