"""Where in the model's source a node comes from."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch.fx import Node

_FRAME = re.compile(r'File "(?P<path>[^"<]*)", line (?P<line>\d+), in (?P<function>.*)\n\s*(?P<code>.*)')
_TORCH = str(Path(torch.__file__).parent)


def source_line(node: Node) -> str:
    """``path:line, in function: code`` of the call that a node was traced from; "" where that is not known.

    It is the innermost call outside of torch's own modules.
    """
    frames = list(_FRAME.finditer(node.meta.get("stack_trace") or ""))
    outside = [frame for frame in frames if not frame["path"].startswith(_TORCH)]
    found = next(reversed(outside or frames), None)
    return "" if found is None else "{path}:{line}, in {function}: {code}".format(**found.groupdict()).strip()
