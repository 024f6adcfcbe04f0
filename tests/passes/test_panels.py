"""Which matrices are stored in panels."""

from __future__ import annotations

import pytest

from executorch_ggml.ir.parser import parse
from executorch_ggml.ir.printer import to_text
from executorch_ggml.passes import panels

INPUTS = "input %x: f32[256, 9, 1, 1]\ninput %k: i64[4, 1, 1, 1]\n"
PRODUCT = "%0 = mul_mat(@w, %x): f32[20, 9, 1, 1]\noutput y: %0 as [9, 20]\n"
ROWS = (
    "%i = to_index(%k, size=20, wrap=True): i32[4, 1, 1, 1]\n"
    "%1 = get_rows(@w, %i): f32[256, 4, 1, 1]\n"
    "output z: %1 as [4, 256]\n"
)
OTHERWISE = (
    "%2 = view(@w, start=(0, 0, 0, 0), step=(1, 1, 1, 1), ne=(256, 10, 1, 1)): q4_k[256, 10, 1, 1]\n"
    "%3 = mul_mat(%2, %x): f32[10, 9, 1, 1]\n"
    "output v: %3 as [9, 10]\n"
)


def graph(reads: str, weight: str = "q4_k[256, 20, 1, 1]") -> str:
    return f"{INPUTS}constant @w: {weight}\n{reads}"


@pytest.mark.parametrize("weight", ["q4_0[256, 20, 1, 1]", "q4_k[256, 20, 1, 1]", "q6_k[256, 20, 1, 1]"])
@pytest.mark.parametrize("reads", [PRODUCT, ROWS, PRODUCT + ROWS])
def test_matrices_of_products_and_tables(reads: str, weight: str) -> None:
    given = parse(graph(reads, weight))
    text = to_text(given)
    packed = panels.run(given)
    assert to_text(packed) == text.replace(weight, f"{weight} stored as PANELS")
    assert panels.applies(packed)


@pytest.mark.parametrize(
    ("reads", "weight"),
    [
        (PRODUCT, "q8_0[256, 20, 1, 1]"),
        (PRODUCT, "f32[256, 20, 1, 1]"),
        (PRODUCT + OTHERWISE, "q4_k[256, 20, 1, 1]"),
        (PRODUCT + "output w: @w as [20, 256]\n", "q4_k[256, 20, 1, 1]"),
        (OTHERWISE, "q4_k[256, 20, 1, 1]"),
    ],
)
def test_others_stay_plain(reads: str, weight: str) -> None:
    given = parse(graph(reads, weight))
    text = to_text(given)
    packed = panels.run(given)
    assert to_text(packed) == text
    assert not panels.applies(packed)


def test_several_matrices_at_once_stay_plain() -> None:
    """Of a product of batches, and of a batch of matrices."""
    batch = "input %x: f32[256, 9, 2, 1]\nconstant @w: q4_0[256, 20, {}, 1]\n"
    batch += "%0 = mul_mat(@w, %x): f32[20, 9, 2, 1]\noutput y: %0 as [2, 9, 20]\n"
    for count in (1, 2):
        assert not panels.applies(panels.run(parse(batch.format(count))))


def test_weights_in_a_gguf_file_are_an_error() -> None:
    given = parse(graph(PRODUCT))
    given.constants[0].outside = True
    with pytest.raises(ValueError, match="layout 'cpu': w stays in its GGUF file"):
        panels.run(given)
