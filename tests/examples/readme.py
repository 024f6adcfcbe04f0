"""The commands of examples/README.md."""

from __future__ import annotations

import re
import shlex

from tools.snippets import ROOT

README = ROOT / "examples" / "README.md"


def command(example: str) -> list[str]:
    """The arguments that the page's table runs an example with."""
    found = re.findall(rf"`python examples/{example}\.py([^`]*)`", README.read_text("utf-8"))
    assert len(found) == 1, f"{README}: expected one command with {example}.py"
    return shlex.split(found[0])
