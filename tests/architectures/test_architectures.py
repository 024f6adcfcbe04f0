"""Unfamiliar architectures: right, or refused with a reason; never wrong, and never a program that cannot run."""

import pytest
import torch
from tests.architectures.__main__ import PAGE
from tests.architectures.check import check_telling, error, sentence, verdict
from tests.architectures.report import BROKEN, names, page
from tests.architectures.run import run
from tests.architectures.table import ARCHITECTURES

QUICK = (
    "AlbertModel",
    "SiglipVisionModel",
    "PatchTSTModel",
    "LlavaForConditionalGeneration",  # asserts that its text has as many image tokens as the image
    "Qwen2MoeForCausalLM",
)


@pytest.mark.parametrize("name", QUICK)
def test_quick_architecture(name: str) -> None:
    found = verdict(name)
    assert (found["outcome"], found["delegates"], found["left"]) == ("right", 1, {}), found


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ARCHITECTURES if name not in QUICK])
def test_architecture(name: str) -> None:
    found = run(name)
    assert found["outcome"] not in BROKEN, found


def test_the_page_has_the_table() -> None:
    assert names(PAGE.read_text()) == list(ARCHITECTURES), "run make architectures"


def test_names_are_read_back() -> None:
    rows = [{"name": "timm a_b", "kind": "image", "outcome": "right", "left": {"x|y": 2}, "error": {"float32": 1e-7}}]
    assert names(page(rows)) == ["timm a_b"]


def test_a_sentence_names_files_within_their_packages() -> None:
    error = ValueError("/venv/lib/python3.11/site-packages/transformers/models/mimi.py:7, in forward:\n `a` depends")
    assert sentence(error) == "ValueError: transformers/models/mimi.py:7, in forward: `a` depends"


def test_error_sees_what_is_wrong() -> None:
    x = torch.tensor([1.0, -4.0, torch.inf])
    assert error(x, x) == 0
    assert error(x + torch.tensor([0.4, 0, 0]), x) == pytest.approx(0.1)
    assert error(x, torch.tensor([1.0, -4.0, 0])) == torch.inf
    assert error(x.int(), x) == torch.inf
    assert error(torch.tensor([1, 2]), torch.tensor([1, 3])) == torch.inf
    assert error(torch.tensor([torch.nan]), torch.tensor([torch.nan])) == 0
    assert error(torch.tensor([torch.nan, 1]), torch.tensor([1, torch.nan])) == torch.inf


def test_outputs_have_to_tell_something() -> None:
    check_telling((torch.tensor([[1.0], [2.0]]),))
    for useless in (torch.ones(2, 3), torch.tensor([[1.0], [torch.nan]]), torch.tensor([1, 2])):
        with pytest.raises(ValueError, match="do not depend on its inputs"):
            check_telling((useless,))
