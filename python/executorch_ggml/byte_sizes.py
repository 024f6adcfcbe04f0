"""Numbers of bytes as people write them."""

from __future__ import annotations

import re

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?")


def parsed_bytes(text: str) -> int:
    """The bytes in a text like 512, 500M, 1.5G or 8GiB; units are powers of 1024. Raises ValueError for another."""
    match = _SIZE.fullmatch(text.strip().lower())
    if match is None:
        raise ValueError(f"{text!r}: expected a number of bytes, like 500M or 1.5G")
    return int(float(match[1]) * _UNITS[match[2]])
