"""Makes docs/images/report.png: ``python -m tests.report.screenshot``."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from tests.report import models
from tests.report.browser import chromium

import executorch_ggml
from executorch_ggml.report import report_of, to_html
from executorch_ggml.report.origins import origins_of_model

IMAGE = Path(__file__).parents[2] / "docs" / "images" / "report.png"


def main() -> None:
    """Write the image."""
    _, inputs = models.build()
    model = models.Blocks(4).eval()
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        program, page_file = Path(folder) / "blocks.pte", Path(folder) / "report.html"
        executorch_ggml.export(model, inputs).save(str(program))
        origins = {"forward": origins_of_model(torch.export.export(model, inputs))}
        page_file.write_text(to_html(report_of(program, origins)), encoding="utf-8")
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        page.goto(page_file.as_uri())
        page.fill("#search", "cumsum")
        page.keyboard.press("Enter")
        IMAGE.parent.mkdir(exist_ok=True)
        page.screenshot(path=IMAGE)


if __name__ == "__main__":
    main()
