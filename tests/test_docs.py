"""The pages of docs/ show code that runs as it is printed, in its order, in a folder of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools.snippets import README, ROOT, snippets

PAGES = {page.stem: page for page in sorted((ROOT / "docs").glob("*.md"))}
RUN = ("python", "sh")
OF_THEIR_OWN = {"devices", "webnn"}  # tests/devices/test_docs.py and tests/webnn/test_docs.py run these


def shown(page: Path) -> list[str]:
    """The languages of the snippets to run."""
    return [snippet.language for snippet in snippets(page) if snippet.language in RUN and not snippet.not_run]


@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if name not in OF_THEIR_OWN and shown(page)])
def test_page(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = PAGES[name]
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for snippet in snippets(page):
        if snippet.language not in RUN or snippet.not_run:
            continue
        if snippet.language == "python":
            exec(compile("\n" * (snippet.line - 1) + snippet.code, str(page), "exec", dont_inherit=True), names)
            continue
        done = subprocess.run(
            ["bash", "-euc", snippet.code], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{page}:{snippet.line}: {done.stdout}{done.stderr}"


def test_every_fence_is_read() -> None:
    """None is missed by the pattern, in README.md either; what is there unmarked is run by test_readme.py."""
    for page in (README, *PAGES.values()):
        opened = re.findall(r"^\s*```\w+", page.read_text("utf-8"), re.MULTILINE)
        assert len(opened) == len(snippets(page)), page
    unmarked = [snippet for snippet in snippets(README) if snippet.language == "sh" and not snippet.not_run]
    assert not unmarked, f"README.md:{unmarked[0].line}: say why it is not run"


def test_messages_are_the_code_s() -> None:
    """Each heading of the troubleshooting page is a message, or a part of one, that the code has."""
    folders = (ROOT / "python" / "executorch_ggml", ROOT / "native")
    files = [file for folder in folders for end in ("*.py", "*.cpp", "*.h") for file in folder.rglob(end)]
    source = re.sub(r'"\s*f?"', "", "\n".join(file.read_text("utf-8") for file in files))
    messages = re.findall(r"^### `(.+)`$", PAGES["troubleshooting"].read_text("utf-8"), re.MULTILINE)
    assert len(messages) > 9
    for message in messages:
        parts = [part.strip() for part in message.split("…") if part.strip()]
        missing = [part for part in parts if part not in source]
        assert not missing, f"{message}: not in the code: {missing}"
