"""A local Ray cluster, whose actor is killed in the middle: nothing is lost, and nothing is there twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import executorch_ggml
from executorch_ggml.ray import Predictor, map_batches

ray = pytest.importorskip("ray", reason='Ray Data is not installed: pip install "executorch-ggml[ray]"')

pytestmark = pytest.mark.slow  # a cluster starts in ten seconds

ROWS = 240


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100 << 20, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


def test_a_killed_actor(cluster: None, tmp_path: Path) -> None:
    """The actor's process is killed at its third batch; Ray starts another, which goes on."""

    class Mortal(Predictor):
        def __init__(self, program: Any, *, folder: str, **options: Any) -> None:
            super().__init__(program, **options)
            self.folder = Path(folder)
            (self.folder / f"{os.getpid()}.pid").touch()

        def __call__(self, batch: Any) -> Any:
            result = super().__call__(batch)
            if 120 in batch["id"] and not (self.folder / "killed").exists():
                (self.folder / "killed").write_text(str(os.getpid()))
                os.kill(os.getpid(), signal.SIGKILL)
            return result

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 4), nn.Tanh()).eval()
    program = executorch_ggml.export(model, (torch.zeros(16, 1),)).buffer
    rows = ray.data.range(ROWS, override_num_blocks=12).map_batches(
        lambda batch: {"id": batch["id"], "x": batch["id"][:, None] / ROWS}
    )
    options: dict[str, Any] = {"inputs": "x", "keep": ("id",), "key": "id", "folder": str(tmp_path)}
    results = map_batches(rows, Mortal, program, actors=1, batch_size=20, **options).take_all()

    killed = int((tmp_path / "killed").read_text())
    pids = {int(file.stem) for file in tmp_path.glob("*.pid")}
    assert killed in pids
    assert len(pids) == 2
    assert sorted(row["id"] for row in results) == list(range(ROWS))
    results.sort(key=lambda row: row["id"])
    expected = model(torch.arange(ROWS)[:, None] / ROWS).detach()
    torch.testing.assert_close(torch.from_numpy(np.stack([row["output"] for row in results])), expected)


def test_wrong_options(cluster: None) -> None:
    """They are errors before any actor starts."""
    rows = ray.data.range(4)
    with pytest.raises(TypeError, match="unexpected keyword argument 'input'"):
        map_batches(rows, Predictor, "model.pte", inputs="x", input="y")
    with pytest.raises(ValueError, match="actors 0"):
        map_batches(rows, Predictor, "model.pte", actors=0, inputs="x")
    with pytest.warns(UserWarning, match="the actors take 2 of the cluster's 2 CPUs"):
        map_batches(rows, Predictor, "model.pte", actors=2, inputs="x")
