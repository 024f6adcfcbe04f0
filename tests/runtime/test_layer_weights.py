"""Layers' weights in a session: packed once where they come plain, used as they lie where they come in blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.helpers import rand
from torch import Tensor
from torch.nn import functional as F

from executorch_ggml.ir.builder import Builder
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.ir.graph import Graph, Value
from executorch_ggml.ir.op import Dims
from executorch_ggml.ir.ops.spatial import Epilogue, Window, Window2d
from executorch_ggml.ir.serialize import serialize
from executorch_ggml.ir.storage import PLAIN, Storage, StorageLayout, pack
from executorch_ggml.runtime import Session

Array = np.ndarray[Any, Any]
PADDED = Window2d(Window(3, pad=1), Window(3, pad=1))


def convolution(groups: int = 1, type: DType = DType.F32, storage: StorageLayout = PLAIN, read: bool = False) -> Graph:
    """20 to 20 channels of 6 by 5 pixels, and with ``read`` the weight itself as well."""
    build = Builder()
    x = build.input("x", DType.F32, (1, 5, 6, 20), (20, 6, 5, 1))
    weight = _weight(build, (3, 3, 20 // groups, 20), type, storage)
    y = build.emit("conv_2d_nhwc", x, weight, None, ne=(20, 6, 5, 1), window=PADDED, groups=groups, epilogue=Epilogue())
    build.output("y", y, (1, 5, 6, 20))
    if read:
        build.output("w", build.emit("scale_bias", weight, s=2.0, b=0.0), (20, 20 // groups, 3, 3))
    return build.finish()


def matrix(type: DType = DType.F32, storage: StorageLayout = PLAIN) -> Graph:
    """20 to 24 features."""
    build = Builder()
    x = build.input("x", DType.F32, (7, 20), (20, 7, 1, 1))
    weight = _weight(build, (20, 24, 1, 1), type, storage)
    build.output("y", build.emit("linear", x, weight, None, epilogue=Epilogue()), (7, 24))
    return build.finish()


def _weight(build: Builder, ne: Dims, type: DType, storage: StorageLayout) -> Value:
    weight = build.constant("weight", type, ne)
    stored = build.constant_of(weight)
    assert stored is not None
    stored.storage = storage
    return weight


def aligned(data: Array, by: int = 0) -> Array:
    """A copy that begins ``by`` bytes behind a multiple of 64."""
    space = np.zeros(data.nbytes + 128, np.uint8)
    begin = -space.ctypes.data % 64 + by
    place = space[begin : begin + data.nbytes].view(data.dtype).reshape(data.shape)
    place[...] = data
    return place


def channels_inside(image: Tensor) -> Array:
    return image.permute(0, 2, 3, 1).contiguous().numpy()


@pytest.mark.parametrize("type", [DType.F32, DType.F16])
@pytest.mark.parametrize("groups", [1, 2, 20])
def test_plain_weights_of_convolutions_are_packed_once(groups: int, type: DType) -> None:
    x, weight = rand(1, 20, 5, 6), rand(20, 20 // groups, 3, 3).to(type.torch)
    given = aligned(weight.numpy())
    session = Session(serialize(convolution(groups, type)), {"weight": given})
    expected = F.conv2d(x, weight.float(), padding=1, groups=groups)
    _is_packed_once(session, given, channels_inside(x), channels_inside(expected))


@pytest.mark.parametrize("type", [DType.F32, DType.F16])
def test_plain_weights_of_linear_layers_are_packed_once(type: DType) -> None:
    x, weight = rand(7, 20), rand(24, 20).to(type.torch)
    given = aligned(weight.numpy())
    session = Session(serialize(matrix(type)), {"weight": given})
    _is_packed_once(session, given, x.numpy(), F.linear(x, weight.float()).numpy())


def _is_packed_once(session: Session, given: Array, x: Array, expected: Array) -> None:
    given[...] = 0  # what is read at each run would see it
    for _ in range(2):
        np.testing.assert_allclose(session.run(x)[0], expected, rtol=1e-4, atol=1e-4)


def test_a_plain_weight_that_is_read_otherwise_too_stays() -> None:
    x, weight = rand(1, 20, 5, 6), rand(20, 20, 3, 3)
    session = Session(serialize(convolution(read=True)), {"weight": aligned(weight.numpy())})
    y, doubled = session.run(channels_inside(x))
    np.testing.assert_allclose(y, channels_inside(F.conv2d(x, weight, padding=1)), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(doubled, weight.numpy() * 2)


def test_layers_that_read_one_weight_in_two_layouts() -> None:
    build = Builder()
    x = build.input("x", DType.F32, (1, 5, 6, 1), (1, 6, 5, 1))
    weight = build.constant("weight", DType.F32, (3, 3, 1, 20))
    for groups in (1, 20):
        window = {"ne": (20, 6, 5, 1), "window": PADDED, "groups": groups, "epilogue": Epilogue()}
        x = build.emit("conv_2d_nhwc", x, weight, None, **window)
    build.output("y", x, (1, 5, 6, 20))
    data, image = rand(20, 1, 3, 3), rand(1, 1, 5, 6)
    given = aligned(data.numpy())
    session = Session(serialize(build.finish()), {"weight": given})
    expected = F.conv2d(F.conv2d(image, data, padding=1), data, padding=1, groups=20)
    _is_packed_once(session, given, channels_inside(image), channels_inside(expected))


LAYERS: list[tuple[Callable[..., Graph], tuple[int, ...], StorageLayout]] = [
    (convolution, (20, 20, 3, 3), StorageLayout(Storage.KERNEL_BLOCKS)),
    (matrix, (1, 1, 24, 20), StorageLayout(Storage.MATRIX_BLOCKS)),
]


@pytest.mark.parametrize("type", [DType.F32, DType.F16])
@pytest.mark.parametrize(("graph", "shape", "layout"), LAYERS)
def test_blocks_that_are_not_aligned_are_used_as_they_lie(
    graph: Callable[..., Graph], shape: tuple[int, ...], layout: StorageLayout, type: DType
) -> None:
    stored = pack(rand(*shape).to(type.torch), layout).contiguous().numpy()
    if type is DType.F32:
        stored[-shape[1] :] = 0.5  # what is read for pixels outside the image, which plain weights lack
    program, x = serialize(graph(type=type, storage=layout)), rand(1, 5, 6, 20)
    x = x if graph is convolution else rand(7, 20)
    of_aligned, of_others = (
        Session(program, {"weight": aligned(stored, by)}).run(x.numpy())[0] for by in (0, type.torch.itemsize)
    )
    np.testing.assert_array_equal(of_aligned, of_others)
    assert torch.as_tensor(of_others).isfinite().all()
