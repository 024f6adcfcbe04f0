"""A headless Chromium: the machine's, or the one that `make chromium` unpacks."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from tools.install_chromium import NAMES, environment

UNPACKED = Path(__file__).parents[2] / ".cache" / "chromium"


@contextmanager
def chromium() -> Iterator[Browser]:
    """Raises FileNotFoundError where there is none."""
    installed = next(filter(None, map(shutil.which, NAMES)), None)
    unpacked = UNPACKED / "usr" / "lib" / "chromium" / "chromium"
    if installed is None and not unpacked.is_file():
        raise FileNotFoundError("no Chromium: `make chromium`, or install Debian's package chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=installed or str(unpacked),
            args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
            env={} if installed else dict(environment(UNPACKED)),
        )
        yield browser
        browser.close()
