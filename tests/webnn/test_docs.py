"""The documentation's code runs as it is printed."""

from __future__ import annotations

import numpy as np
from tools.snippets import ROOT, blocks


def test_the_example_runs() -> None:
    (code,) = blocks("python", ROOT / "docs" / "webnn.md")
    *lines, last = code.strip().splitlines()
    names: dict[str, object] = {}
    exec("\n".join(lines), names)
    np.testing.assert_array_equal(eval(last, names), np.full((2, 3), 2, np.float32))
