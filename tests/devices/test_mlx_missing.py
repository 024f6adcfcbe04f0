"""Where MLX is not installed, the package imports and says so."""

import importlib

import pytest

from executorch_ggml.devices.mlx import MlxDevice, available


def test_without_mlx(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", missing)
    there, reason = available()
    assert not there
    assert "install mlx" in reason
    with pytest.raises(RuntimeError, match="install mlx"):
        MlxDevice()
