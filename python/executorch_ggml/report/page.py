"""A report as one HTML page, which loads nothing from anywhere."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from .model import Report

_LIBRARIES = ("cytoscape.min.js", "dagre.min.js", "d3.min.js")
_SCRIPTS = ("page.js", "layout.js", "graph.js", "charts.js")


def to_html(report: Report) -> str:
    """The page. Its libraries' licences are in it."""
    template = Template(_asset("page.html"))
    libraries = "\n".join(f"<script>{_script(_asset(name))}</script>" for name in _LIBRARIES)
    scripts = "\n".join(f"<script>{_script(_asset(name))}</script>" for name in _SCRIPTS)
    return template.substitute(
        title=escape(report.program),
        style=_asset("page.css"),
        data=json.dumps(as_plain(report), separators=(",", ":")).replace("<", "\\u003c"),
        notice=escape(_asset("NOTICE")),
        libraries=libraries,
        scripts=scripts,
    )


def as_plain(report: Report) -> dict[str, Any]:
    """The report as JSON has it, where infinities and what is no number are text."""
    plain: dict[str, Any] = _finite(asdict(report))
    return plain


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _script(text: str) -> str:
    """Text that cannot end the element that it is in."""
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")
