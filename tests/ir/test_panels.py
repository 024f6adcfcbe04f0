"""Quantized matrices in panels: a bijection of ggml's own layout, the same bytes on every CPU."""

from __future__ import annotations

import hashlib

import pytest
import torch

from executorch_ggml import _session
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.ir.panels import has_panels, pack_panels, panels_bytes, unpack_panels

TYPES = (DType.Q4_0, DType.Q4_K, DType.Q6_K)
# Of matrices of 19 x 512 whose byte i is 37 * i + i // 251, in each type.
DIGESTS = {DType.Q4_0: "fccbc5877159fc80", DType.Q4_K: "0b91fb2bd755ed30", DType.Q6_K: "33738b6a950f4314"}


def test_types() -> None:
    assert tuple(dtype for dtype in DType if has_panels(dtype)) == TYPES


@pytest.mark.parametrize("width", [256, 1280])
@pytest.mark.parametrize("rows", [0, 1, 15, 16, 17, 40])
@pytest.mark.parametrize("dtype", TYPES)
def test_bijection(dtype: DType, rows: int, width: int) -> None:
    """Of all bytes, and not of those alone that a quantizer writes."""
    torch.manual_seed(rows)
    data, shape = torch.randint(0, 256, (dtype.nbytes(rows * width),), dtype=torch.uint8), (1, 1, rows, width)
    panels = pack_panels(data, dtype, shape)
    assert panels.numel() == panels_bytes(dtype, shape) <= -(-rows // 16) * 16 * dtype.nbytes(width) * 1.03
    assert torch.equal(unpack_panels(panels, dtype, shape), data)


@pytest.mark.parametrize("dtype", TYPES)
def test_bytes_are_the_same_everywhere(dtype: DType) -> None:
    index = torch.arange(dtype.nbytes(19 * 512))
    panels = pack_panels((37 * index + index // 251).to(torch.uint8), dtype, (19, 512))
    assert hashlib.sha256(panels.numpy().tobytes()).hexdigest()[:16] == DIGESTS[dtype]


def test_blocks_of_q4_0() -> None:
    """A panel of 2 rows of one block: 16 scales, then words of four weights and the four 16 after them, row by row."""
    block = torch.arange(18, dtype=torch.uint8)
    panels = pack_panels(torch.cat([block, block + 100]), DType.Q4_0, (2, 32))
    assert panels[:32].tolist() == [0, 1, 100, 101] + [0] * 28
    for four in range(4):
        words = panels[32 + 64 * four :][:64].tolist()
        assert words == [*range(2 + 4 * four, 6 + 4 * four), *range(102 + 4 * four, 106 + 4 * four)] + [0] * 56


@pytest.mark.parametrize(
    ("dtype", "rows", "width", "data", "panels", "message"),
    [
        (DType.Q8_0, 16, 32, 544, 544, "matrices of q8_0 have no panels"),
        (DType.Q4_0, 16, 32, 287, 288, "512 elements of q4_0 do not fit 287 bytes"),
        (DType.Q4_0, 16, 32, 288, 287, "panels of 287 bytes, expected 288"),
        (DType.Q4_K, 16, 32, 288, 288, "16 rows of 32 elements of q4_K are no matrix"),
        (DType.Q4_0, -16, 32, 288, 288, "-16 rows of 32 elements"),
    ],
)
def test_sizes_are_checked(dtype: DType, rows: int, width: int, data: int, panels: int, message: str) -> None:
    plain, packed = torch.zeros(data, dtype=torch.uint8).numpy(), torch.zeros(panels, dtype=torch.uint8).numpy()
    with pytest.raises(ValueError, match=message):
        _session.pack_panels(dtype.ggml_type, rows, width, plain, packed)
    with pytest.raises(ValueError, match=message):
        _session.unpack_panels(dtype.ggml_type, rows, width, packed, plain)
