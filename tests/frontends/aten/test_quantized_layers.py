"""Layers between roundings compute in integers: eager's results to one step, on every instruction set here."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.frontends.aten.grids import RANGES, Grid, decomposed, grids, ops_of
from tests.helpers import lowered, run_interpreter, run_session, session
from torch import Tensor, nn

from executorch_ggml.ir.graph import Graph


class Weight(nn.Module):
    """Random int8 around 0, with one scale or one a channel."""

    def __init__(self, shape: tuple[int, ...], *, axis: int | None, seed: int) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(seed)
        self.axis = axis
        self.register_buffer("values", torch.randint(-127, 128, shape, generator=random).to(torch.int8))
        self.register_buffer("scales", torch.rand(shape[axis or 0], generator=random) * 0.01 + 0.001)
        self.register_buffer("zeros", torch.zeros(shape[axis or 0], dtype=torch.int64))

    def forward(self) -> Tensor:
        values, scales, zeros = (self.get_buffer(name) for name in ("values", "scales", "zeros"))
        if self.axis is None:
            return decomposed.dequantize_per_tensor(values, 0.0071, 0, -127, 127, torch.int8)
        return decomposed.dequantize_per_channel(values, scales, zeros, self.axis, -127, 127, torch.int8)


@dataclass(frozen=True)
class Convolution:
    """A case: what is convolved, how, and what comes after."""

    inputs: int = 3
    outputs: int = 5
    groups: int = 1
    size: tuple[int, int] = (7, 6)
    kernel: tuple[int, int] = (3, 3)
    stride: int = 1
    padding: int = 1
    dilation: int = 1
    transposed: bool = False
    per_channel: bool = True
    bias: bool = True
    clamp: tuple[float, float] | None = None
    x: Grid = field(default_factory=lambda: Grid(0.0371, 5))
    y: Grid | None = field(default_factory=lambda: Grid(0.05, -3))
    batch: int = 2
    seed: int = 0


class ConvolutionModel(nn.Module):
    """Rounding, the convolution, a clamp, rounding."""

    def __init__(self, case: Convolution) -> None:
        super().__init__()
        self.case = case
        inside = (case.outputs, case.inputs // case.groups)
        shape = (case.inputs, case.outputs // case.groups) if case.transposed else inside
        axis = None if not case.per_channel else 1 if case.transposed else 0
        self.weight = Weight((*shape, *case.kernel), axis=axis, seed=case.seed)
        self.bias = nn.Parameter(torch.randn(case.outputs)) if case.bias else None

    def forward(self, x: Tensor) -> Tensor:
        c = self.case
        x = c.x.of(x)
        if c.transposed:
            y = nn.functional.conv_transpose2d(
                x, self.weight(), self.bias, c.stride, c.padding, 0, c.groups, c.dilation
            )
        else:
            y = nn.functional.conv2d(x, self.weight(), self.bias, c.stride, c.padding, c.dilation, c.groups)
        y = y if c.clamp is None else torch.clamp(y, *c.clamp)
        return y if c.y is None else c.y.of(y)


def check(model: nn.Module, *inputs: Tensor, step: float | None, expected_op: str, dynamic: object = None) -> Graph:
    """Eager's results: floats to 1e-5 of the largest, steps but for few that lie between two."""
    model = model.eval()
    with torch.no_grad():
        expected = model(*inputs)
        graph = lowered(model, inputs, dynamic)
        assert expected_op in ops_of(graph)
        (result,) = run_session(session(graph), inputs)
    if step is None:
        torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5 * float(expected.abs().max() + 1e-6))
        return graph
    (reference,) = run_interpreter(graph, inputs)
    assert torch.equal(result, reference)  # to the bit, so that all instruction sets give the same numbers
    steps_off = ((result - expected) / step).abs()
    assert float(steps_off.max()) < 1.01
    assert float((steps_off > 0.5).float().mean()) <= 0.01 + 1 / expected.numel()
    return graph


def check_convolution(case: Convolution) -> Graph:
    torch.manual_seed(case.seed)
    x = torch.randn(case.batch, case.inputs, *case.size) * 3
    model = ConvolutionModel(case)
    tiles = case.kernel == (case.stride, case.stride) and case.padding == 0 and case.groups == 1
    spread = case.transposed and case.stride > 1 and not tiles  # floats leave out the zeros between the pixels
    op = "conv_2d_nhwc" if spread else "quantized_conv_2d_nhwc"
    return check(model, x, step=None if case.y is None else case.y.scale, expected_op=op)


CONVOLUTIONS = [
    Convolution(),
    Convolution(clamp=(0.0, 6.0)),
    Convolution(y=None),
    Convolution(y=None, clamp=(0.0, float("inf")), bias=False),
    Convolution(inputs=16, outputs=40, kernel=(1, 1), padding=0, size=(9, 11)),
    Convolution(inputs=20, outputs=17, kernel=(1, 1), padding=0, stride=2),
    Convolution(inputs=6, outputs=34, groups=2, kernel=(3, 2), padding=0),
    Convolution(inputs=8, outputs=8, kernel=(3, 5), padding=2, dilation=2, size=(13, 15)),
    Convolution(inputs=19, outputs=19, groups=19, size=(8, 9)),
    Convolution(inputs=48, outputs=48, groups=48, size=(11, 13), stride=2),
    Convolution(inputs=84, outputs=84, groups=84, size=(4, 400)),  # some channels at a time
    Convolution(inputs=40, outputs=40, groups=40, kernel=(5, 5), padding=2, size=(14, 14)),
    Convolution(inputs=33, outputs=33, groups=33, kernel=(5, 5), padding=2, size=(9, 10), stride=2),
    Convolution(inputs=16, outputs=16, groups=16, kernel=(4, 2), padding=3, dilation=2),
    Convolution(inputs=4, outputs=8, groups=4, size=(5, 5)),
    Convolution(inputs=64, outputs=70, size=(6, 6), x=Grid(0.02, 128, torch.uint8), y=Grid(0.3, 7, torch.uint8)),
    Convolution(inputs=24, outputs=24, groups=24, x=Grid(0.02, 3, torch.uint8), y=Grid(0.1, 250, torch.uint8)),
    Convolution(per_channel=False, inputs=512, outputs=24, size=(4, 4)),
    Convolution(x=Grid(0.0371, -128), y=Grid(0.05, 127)),
    Convolution(size=(1, 1)),
    Convolution(batch=1, size=(224, 3), inputs=3, outputs=16, stride=2),
    Convolution(inputs=16, outputs=24, groups=2),
    Convolution(inputs=64, outputs=16, size=(80, 70)),  # its rows are arranged part by part
    Convolution(outputs=64, size=(31, 45), kernel=(7, 7), stride=2, padding=3),  # rows of the kernel are read as runs
    Convolution(outputs=33, size=(9, 16), kernel=(3, 3), x=Grid(0.02, 131, torch.uint8)),
    Convolution(batch=1, outputs=17, size=(300, 310), stride=2),  # its padded rows are copied part by part
    Convolution(inputs=5, outputs=20, size=(6, 9), kernel=(2, 5), padding=2),
    Convolution(inputs=1, outputs=9, size=(8, 5), kernel=(4, 1), padding=0),
    Convolution(outputs=8, size=(3, 4), kernel=(2, 2), padding=1, stride=3),
    Convolution(outputs=8, size=(2, 2), kernel=(3, 50), padding=25),  # more padding than image
    Convolution(inputs=8, outputs=8, kernel=(2, 2), padding=0, stride=2, transposed=True),
    Convolution(inputs=32, outputs=40, size=(17, 14)),
    Convolution(inputs=18, outputs=33, size=(9, 21), padding=2, x=Grid(0.02, 131, torch.uint8), clamp=(0.0, 6.0)),
    Convolution(inputs=130, outputs=16, size=(15, 4), padding=0, y=None),
    Convolution(inputs=20, outputs=20, groups=20, size=(7, 4), kernel=(7, 3), padding=3),
    Convolution(inputs=16, outputs=16, groups=16, size=(9, 9), kernel=(2, 5), stride=2, padding=1),
    Convolution(inputs=21, outputs=21, groups=21, size=(5, 9), kernel=(3, 5)),  # two rows at once, and a last one
]


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_convolution(case: Convolution) -> None:
    check_convolution(case)


@given(st.data())
def test_convolutions(data: st.DataObject) -> None:
    draw = data.draw
    groups = draw(st.sampled_from((1, 1, 2, 3)))
    depthwise = draw(st.booleans())
    inputs = draw(st.integers(1, 37)) if depthwise else groups * draw(st.integers(1, 20))
    kernel = (draw(st.integers(1, 5)), draw(st.integers(1, 5)))
    dilation, padding = draw(st.integers(1, 2)), draw(st.integers(0, 2))
    smallest = max((max(kernel) - 1) * dilation + 1 - 2 * padding, 1)
    check_convolution(
        Convolution(
            inputs=inputs,
            outputs=inputs if depthwise else groups * draw(st.integers(1, 40)),
            groups=inputs if depthwise else groups,
            size=(draw(st.integers(smallest, smallest + 11)), draw(st.integers(smallest, smallest + 11))),
            kernel=kernel,
            stride=draw(st.integers(1, 3)),
            padding=padding,
            dilation=dilation,
            per_channel=draw(st.booleans()),
            bias=draw(st.booleans()),
            clamp=draw(st.sampled_from((None, (0.0, 6.0), (-1.0, 1.0)))),
            x=draw(grids()),
            y=draw(st.none() | grids()),
            batch=draw(st.integers(1, 3)),
            seed=draw(st.integers(0, 3)),
        )
    )


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(
    ("stride", "kernel", "padding", "dilation"),
    [(2, (2, 2), 0, 1), (3, (3, 3), 0, 1), (2, (4, 3), 1, 1), (2, (2, 2), 1, 1), (1, (3, 3), 1, 2)],
)
def test_transposed_convolution(
    per_channel: bool, groups: int, stride: int, kernel: tuple[int, int], padding: int, dilation: int
) -> None:
    check_convolution(
        Convolution(
            inputs=6,
            outputs=4,
            groups=groups,
            kernel=kernel,
            stride=stride,
            padding=padding,
            dilation=dilation,
            transposed=True,
            per_channel=per_channel,
        )
    )


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("per_channel", [False, True])
def test_convolution_of_signals(transposed: bool, per_channel: bool) -> None:
    class Signals(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            axis = (1 if transposed else 0) if per_channel else None
            self.weight = Weight((6, 6, 5), axis=axis, seed=1)
            self.bias = nn.Parameter(torch.randn(6))

        def forward(self, x: Tensor) -> Tensor:
            function = nn.functional.conv_transpose1d if transposed else nn.functional.conv1d
            return Grid(0.05, -3).of(function(Grid(0.0371, 5).of(x), self.weight(), self.bias, 1, 1))

    torch.manual_seed(0)
    check(Signals(), torch.randn(2, 6, 17) * 3, step=0.05, expected_op="quantized_conv_2d_nhwc")


class Linear(nn.Module):
    """Rounding, a product, rounding."""

    def __init__(self, width: int, outputs: int, x: Grid, y: Grid | None) -> None:
        super().__init__()
        self.weight = Weight((outputs, width), axis=0, seed=1)
        self.bias = nn.Parameter(torch.randn(outputs))
        self.x, self.y = x, y

    def forward(self, x: Tensor) -> Tensor:
        y = nn.functional.linear(self.x.of(x), self.weight(), self.bias)
        return y if self.y is None else self.y.of(y)


@pytest.mark.parametrize("shape", [(1, 7), (3, 16), (2, 5, 33), (1, 300, 64), (0, 8)], ids=str)
@pytest.mark.parametrize("outputs", [1, 10, 33, 64])
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8], ids=str)
def test_linear(shape: tuple[int, ...], outputs: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.randn(shape) * 3
    for y in (None, Grid(0.05, 3)):
        model = Linear(shape[-1], outputs, Grid(0.03, 100 if dtype == torch.uint8 else -9, dtype), y)
        if 0 in shape:
            assert run_session(session(lowered(model, (x,))), (x,))[0].shape == (0, outputs)
        else:
            check(model, x, step=None if y is None else y.scale, expected_op="quantized_linear")


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16], ids=str)
def test_numbers_without_a_step(dtype: torch.dtype) -> None:
    """NaN, infinities and numbers far beyond the range, in whole vectors and in their rests."""
    limits = torch.iinfo(dtype)

    def rounded(x: Tensor) -> Tensor:
        return decomposed.quantize_per_tensor(x, 0.1, 5, limits.min, limits.max, dtype)

    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 1e30, -1e30, 0.05, 0.15] * 7)
    assert torch.equal(run_session(session(lowered(rounded, (x,))), (x,))[0], rounded(x))


def test_movement_of_integers() -> None:
    """Nothing is widened between two layers."""

    class Moved(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Weight((6, 8), axis=0, seed=1), Weight((4, 12), axis=0, seed=2)

        def forward(self, x: Tensor) -> Tensor:
            x = nn.functional.linear(Grid(0.05, 3).of(x), self.first())
            x = Grid(0.1, -5).of(x).transpose(0, 1).reshape(3, 12)
            x = Grid(0.1, -5).of(torch.cat([x, Grid(0.1, -5).of(x)]))
            return Grid(0.2, 0).of(nn.functional.linear(x, self.second()))

    torch.manual_seed(0)
    graph = check(Moved(), torch.randn(6, 8), step=0.2, expected_op="quantized_linear")
    assert [node.op for node in graph.nodes].count("dequantize") == 1


class Dynamic(nn.Module):
    """Rounding to a grid that the numbers choose: one for all, or one a row."""

    def __init__(self, by_rows: bool, symmetric: bool) -> None:
        super().__init__()
        self.by_rows, self.symmetric = by_rows, symmetric
        self.weight = Weight((9, 37), axis=0, seed=1)
        self.bias = nn.Parameter(torch.randn(9))

    def forward(self, x: Tensor) -> Tensor:
        limits = (-128, 127, torch.int8)
        if self.by_rows:
            scale = x.abs().amax(-1, keepdim=True) / 100
            zero = torch.zeros_like(scale) if self.symmetric else torch.round(x.amin(-1, keepdim=True))
            x = decomposed.quantize_per_token(x, scale, zero, *limits)
            x = decomposed.dequantize_per_token(x, scale, zero, *limits, torch.float32)
        else:
            choose = decomposed.choose_qparams_symmetric if self.symmetric else decomposed.choose_qparams
            grid = choose.tensor(x, -128, 127, 1e-6, torch.int8)
            x = decomposed.quantize_per_tensor.tensor(x, *grid, *limits)
            x = decomposed.dequantize_per_tensor.tensor(x, *grid, *limits)
        return nn.functional.linear(x, self.weight(), self.bias)


@pytest.mark.parametrize("by_rows", [False, True])
@pytest.mark.parametrize("symmetric", [False, True])
def test_dynamic_linear(by_rows: bool, symmetric: bool) -> None:
    torch.manual_seed(0)
    model = Dynamic(by_rows, symmetric)
    check(model, torch.randn(6, 37) * 3 + 1, step=None, expected_op="quantized_linear")


class DynamicConvolution(nn.Module):
    """Rounding to a grid that the numbers choose, and a convolution."""

    def __init__(self, symmetric: bool, dtype: torch.dtype, **how: int) -> None:
        super().__init__()
        self.choose = decomposed.choose_qparams_symmetric if symmetric else decomposed.choose_qparams
        self.dtype, self.how = dtype, how
        self.weight = Weight((6, 4 // how.get("groups", 1), 3, 2), axis=0, seed=1)
        self.bias = nn.Parameter(torch.randn(6))

    def forward(self, x: Tensor) -> Tensor:
        limits = (*RANGES[self.dtype], self.dtype)
        grid = self.choose.tensor(x, *RANGES[self.dtype], 1e-6, self.dtype)
        x = decomposed.quantize_per_tensor.tensor(x, *grid, *limits)
        x = decomposed.dequantize_per_tensor.tensor(x, *grid, *limits)
        return nn.functional.conv2d(x, self.weight(), self.bias, **self.how)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8], ids=str)
@pytest.mark.parametrize(
    "how", [{}, {"padding": 1}, {"padding": 2, "stride": 2, "dilation": 2}, {"padding": 1, "groups": 2}], ids=str
)
def test_dynamic_convolution(symmetric: bool, dtype: torch.dtype, how: dict[str, int]) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 4, 9, 8) * 3 + 1
    check(DynamicConvolution(symmetric, dtype, **how), x, step=None, expected_op="quantized_conv_2d_nhwc")


@pytest.mark.parametrize("stride", [1, 2])
def test_dynamic_convolution_of_any_size(stride: int) -> None:
    torch.manual_seed(0)
    width, height = torch.export.Dim("width", min=4, max=64), torch.export.Dim("height", min=4, max=64)
    model = DynamicConvolution(False, torch.int8, padding=1, stride=stride)
    x = torch.randn(2, 4, 10, 9)
    dynamic = ({2: height, 3: width},)
    check(model, x, step=None, expected_op="quantized_conv_2d_nhwc", dynamic=dynamic)


@pytest.mark.parametrize("width", [8, 512, 1100])
def test_products_of_integers(width: int) -> None:
    """As torchao's models multiply: eager's int32, also where float32 does not count so far."""

    class Product(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("values", torch.full((width, 16), 127, dtype=torch.int8))

        def forward(self, x: Tensor) -> Tensor:
            return torch._int_mm(x, self.get_buffer("values"))

    x = torch.full((17, width), -128, dtype=torch.int8)
    x[3] = torch.randint(-128, 128, (width,))
    graph = lowered(Product(), (x,))
    assert "quantized_linear" in ops_of(graph)
    assert torch.equal(run_session(session(graph), (x,))[0], Product()(x))


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8], ids=str)
@pytest.mark.parametrize("channels", [3, 77])
def test_max_pooling(dtype: torch.dtype, channels: int) -> None:
    grid = Grid(0.05, 100 if dtype == torch.uint8 else -20, dtype)

    class Pooled(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return grid.of(nn.functional.max_pool2d(grid.of(x), (3, 2), 2, (1, 0)))

    torch.manual_seed(0)
    x = torch.randn(2, channels, 9, 8) * 4
    graph = lowered(Pooled(), (x,))
    assert [node.op for node in graph.nodes].count("dequantize") == 1
    assert torch.equal(run_session(session(graph), (x,))[0], Pooled()(x))
