"""The documentation's code runs as it is printed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_example_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "webnn.md").read_text(), re.DOTALL)
    *lines, last = code.strip().splitlines()
    names: dict[str, object] = {}
    exec("\n".join(lines), names)
    np.testing.assert_array_equal(eval(last, names), np.full((2, 3), 2, np.float32))
