"""Programs that several tests read, exported once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.llm import models
from transformers import PreTrainedModel

from executorch_ggml import llm

Exported = tuple[PreTrainedModel, Path]


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Exported]:
    """A function from a family to a model of it and its program."""

    @cache
    def make(family: str, **options: Any) -> Exported:
        model = models.make(family)
        path = tmp_path_factory.mktemp(family) / "model.pte"
        options = {"max_seq_len": 600, "chunk": 64, "cache_type": "f32", "tokenizer": models.tokenizer(), **options}
        llm.export(model, **options).save(str(path))
        return model, path

    return make
