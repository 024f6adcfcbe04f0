"""Storage layouts are bijections."""

import pytest
import torch
from tests.helpers import rand

from executorch_ggml.ir.storage import PLAIN, Storage, StorageLayout, pack, stored_count, unpack

KERNELS = [(5, 3, 2, 3, 1), (16, 4, 1, 1, 1), (34, 2, 3, 3, 2), (6, 1, 3, 3, 6), (1, 1, 1, 1, 1)]


@pytest.mark.parametrize(("oc", "ic", "kh", "kw", "groups"), KERNELS)
def test_kernels(oc: int, ic: int, kh: int, kw: int, groups: int) -> None:
    weight, layout = rand(oc, ic, kh, kw), StorageLayout(Storage.KERNEL_BLOCKS, groups)
    packed = pack(weight, layout)
    blocks = groups * -(-(oc // groups) // 16)
    assert packed.shape == (blocks * 16 * ic * kh * kw + ic,) == (stored_count((oc, ic, kh, kw), layout),)
    assert torch.equal(unpack(packed, (oc, ic, kh, kw), layout), weight)
    assert packed.count_nonzero() == weight.count_nonzero()


@pytest.mark.parametrize("shape", [(1, 1, 5, 7), (1, 1, 16, 3), (1, 1, 33, 1)], ids=str)
def test_matrices(shape: tuple[int, ...]) -> None:
    matrix, layout = rand(*shape), StorageLayout(Storage.MATRIX_BLOCKS)
    packed = pack(matrix, layout)
    assert packed[:2].tolist() == [matrix[0, 0, 0, 0], matrix[0, 0, 1, 0] if shape[2] > 1 else 0.0]
    assert torch.equal(unpack(packed, shape, layout), matrix)
    assert packed.numel() == stored_count(shape, layout)


@pytest.mark.parametrize(("oc", "ic", "kh", "kw", "groups"), KERNELS)
def test_int8_kernels(oc: int, ic: int, kh: int, kw: int, groups: int) -> None:
    weight = torch.randint(-128, 128, (oc, ic, kh, kw), dtype=torch.int8)
    layout = StorageLayout(Storage.KERNEL_BLOCKS, groups)
    packed = pack(weight, layout)
    assert packed.numel() == stored_count((oc, ic, kh, kw), layout, 1)
    assert torch.equal(unpack(packed, (oc, ic, kh, kw), layout), weight)
    blocks = groups * -(-(oc // groups) // 16)
    sums = packed.view(blocks, -1)[:, -64:].reshape(-1).view(torch.int32).view(groups, -1)[:, : oc // groups]
    assert torch.equal(sums.reshape(-1).long(), weight.long().sum((1, 2, 3)))


@pytest.mark.parametrize("shape", [(1, 1, 5, 7), (1, 1, 16, 8), (1, 1, 33, 1)], ids=str)
def test_int8_matrices(shape: tuple[int, ...]) -> None:
    matrix, layout = torch.randint(-128, 128, shape, dtype=torch.int8), StorageLayout(Storage.MATRIX_BLOCKS)
    packed = pack(matrix, layout)
    assert torch.equal(packed[: min(4, shape[3])], matrix[0, 0, 0, :4])
    assert torch.equal(unpack(packed, shape, layout), matrix)
    assert packed.numel() == stored_count(shape, layout, 1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("oc", "ic", "kh", "kw", "groups"), KERNELS)
def test_half_kernels(oc: int, ic: int, kh: int, kw: int, groups: int, dtype: torch.dtype) -> None:
    weight, layout = rand(oc, ic, kh, kw).to(dtype), StorageLayout(Storage.KERNEL_BLOCKS, groups)
    packed = pack(weight, layout)
    assert packed.numel() == stored_count((oc, ic, kh, kw), layout, 2)
    assert torch.equal(unpack(packed, (oc, ic, kh, kw), layout), weight)
    assert packed.count_nonzero() == weight.count_nonzero()


@pytest.mark.parametrize("shape", [(1, 1, 5, 7), (1, 1, 16, 8), (1, 1, 33, 1)], ids=str)
def test_half_matrices(shape: tuple[int, ...]) -> None:
    matrix, layout = rand(*shape).to(torch.bfloat16), StorageLayout(Storage.MATRIX_BLOCKS)
    packed = pack(matrix, layout)
    pair = min(2, shape[3])
    assert torch.equal(packed[:pair], matrix[0, 0, 0, :pair])
    assert packed[2] == (matrix[0, 0, 1, 0] if shape[2] > 1 else 0.0)
    assert torch.equal(unpack(packed, shape, layout), matrix)
    assert packed.numel() == stored_count(shape, layout, 2)


def test_depthwise() -> None:
    weight, layout = rand(5, 1, 3, 2), StorageLayout(Storage.DEPTHWISE, 5)
    packed = pack(weight, layout)
    assert torch.equal(packed[:5], weight[:, 0, 0, 0])
    assert torch.equal(unpack(packed, (5, 1, 3, 2), layout), weight)


def test_plain() -> None:
    weight = rand(2, 3, 1, 4)
    assert torch.equal(unpack(pack(weight, PLAIN), (2, 3, 1, 4), PLAIN), weight)
