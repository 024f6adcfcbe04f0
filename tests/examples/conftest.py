"""The examples silence what they import, for the whole process."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _heard_again(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TRANSFORMERS_VERBOSITY", "error")
    before = logging.root.manager.disable
    yield
    logging.disable(before)
