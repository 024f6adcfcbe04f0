"""ExecuTorch's Inspector of a record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from executorch.devtools import Inspector


def inspector(
    etdump: str | Path, *, etrecord: str | Path | None = None, debug_data: str | Path | None = None, **options: Any
) -> Inspector:
    """Open the files that ``Module.write_etdump`` and ``get_etrecord().save`` wrote.

    ExecuTorch 1.5.1's own constructor takes each node of a delegate for one with as many outputs as the delegate, and
    ``calculate_numeric_gap`` then raises IndexError where those are several; here each has one.
    """
    opened = Inspector(
        etdump_path=str(etdump),
        etrecord=None if etrecord is None else str(etrecord),
        debug_buffer_path=None if debug_data is None else str(debug_data),
        **options,
    )
    for block in opened.event_blocks:
        for event in block.events:
            if event.is_delegated_op:
                event.num_outputs = 1
    return opened
