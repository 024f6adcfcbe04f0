"""What mkdocs does with this project's pages: includes, and links out of docs/.

A line ``--8<-- "path"`` is replaced by a file of the repository. A link out of docs/ becomes the name of the file,
which has to be there.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
INCLUDE = re.compile(r'^--8<-- "([^"]+)"$', re.MULTILINE)
OUTSIDE = re.compile(r"\[([^\]]*)\]\(\.\./([^)#]+)(?:#[^)]*)?\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The page with links to the repository as text. Raises FileNotFoundError for a link to nothing."""

    def named(link: re.Match[str]) -> str:
        text, path = link.groups()
        if not (ROOT / path).exists():
            raise FileNotFoundError(f"docs/{page.file.src_path}: a link to {path}, which is not in the repository")
        return text if text.strip("`") == path else f"{text} (`{path}`)"

    included = INCLUDE.sub(lambda include: (ROOT / include[1]).read_text("utf-8"), markdown)
    return OUTSIDE.sub(named, included.replace("](../docs/", "]("))
