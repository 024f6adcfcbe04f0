"""Convolution and pooling of images."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from .module import computes

Tensor = torch.Tensor


def _turned(x: Tensor, layout: str, wanted: str) -> Tensor:
    return x if layout == wanted else x.permute([layout.index(letter) for letter in wanted])


def _padded(x: Tensor, padding: Sequence[int], value: float = 0.0) -> Tensor:
    top, bottom, left, right = padding
    return F.pad(x, [left, right, top, bottom], value=value) if any(padding) else x


@computes("conv2d")
def conv2d(
    input: Tensor,
    filter: Tensor,
    bias: Tensor | None = None,
    *,
    padding: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    input_layout: str,
    filter_layout: str,
) -> Tensor:
    """Convolution."""
    top, bottom, left, right = padding
    x = _turned(input, input_layout, "nchw")
    symmetric = top == bottom and left == right
    y = F.conv2d(
        x if symmetric else _padded(x, padding),
        _turned(filter, filter_layout, "oihw"),
        bias,
        list(strides),
        [top, left] if symmetric else 0,
        list(dilations),
        groups,
    )
    return _turned(y, "nchw", input_layout)


@computes("conv_transpose2d")
def conv_transpose2d(
    input: Tensor,
    filter: Tensor,
    bias: Tensor | None = None,
    *,
    padding: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    output_padding: Sequence[int],
    output_sizes: Sequence[int] | None,
    groups: int,
    input_layout: str,
    filter_layout: str,
) -> Tensor:
    """The whole transposed convolution, cut and filled up to the result's size."""
    x = _turned(input, input_layout, "nchw")
    weight = _turned(filter, filter_layout, "iohw")
    whole = F.conv_transpose2d(x, weight, None, list(strides), 0, 0, groups, list(dilations))
    for i in range(2):
        axis, before, after = 2 + i, padding[2 * i], padding[2 * i + 1]
        least = whole.shape[axis] - before - after
        size = least + output_padding[i] if output_sizes is None else output_sizes[i]
        more = before + size - whole.shape[axis]
        if more > 0:
            whole = F.pad(whole, [0, 0, 0, more] if i == 0 else [0, more])
        whole = whole.narrow(axis, before, size)
    y = whole if bias is None else whole + bias.reshape(-1, 1, 1)
    return _turned(y, "nchw", input_layout)


def _windows(
    x: Tensor, window: Sequence[int], strides: Sequence[int], dilations: Sequence[int], sizes: Sequence[int]
) -> Tensor:
    """Every window's elements in two dimensions at the end, from a padded image."""
    for i in range(2):
        axis, reach = 2 + i, (window[i] - 1) * dilations[i] + 1
        x = x.unfold(axis, reach, strides[i]).narrow(axis, 0, sizes[i])
        x = torch.ops.aten.slice.Tensor(x, -1, 0, reach, dilations[i])
    return x


def _pooled(
    input: Tensor,
    lowest: float,
    layout: str,
    window: Sequence[int],
    padding: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    rounding: str,
    output_sizes: Sequence[int] | None,
) -> tuple[Tensor, Tensor]:
    """Every window of an image, and of an image of ones, both padded."""
    x = _turned(input, layout, "nchw")
    sizes, more = [], list(padding)
    for i in range(2):
        reach = (window[i] - 1) * dilations[i] + 1
        room = x.shape[2 + i] + padding[2 * i] + padding[2 * i + 1] - reach
        size = -(-room // strides[i]) + 1 if rounding == "ceil" else room // strides[i] + 1
        size = output_sizes[i] if output_sizes is not None else size
        sizes.append(size)
        more[2 * i + 1] += max((size - 1) * strides[i] - room, 0)  # windows that reach beyond the padding
    filled = _windows(_padded(x, more, lowest), window, strides, dilations, sizes)
    ones = torch.ones([1, 1, *x.shape[2:]], dtype=x.dtype)
    return filled, _windows(_padded(ones, more), window, strides, dilations, sizes)


def _pool(name: str, lowest: float) -> None:
    def function(
        input: Tensor,
        window_dimensions: Sequence[int],
        padding: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int],
        layout: str,
        output_shape_rounding: str,
        output_sizes: Sequence[int] | None,
    ) -> Tensor:
        least = lowest if input.is_floating_point() or not lowest else torch.iinfo(input.dtype).min
        windows, ones = _pooled(
            input,
            least,
            layout,
            window_dimensions,
            padding,
            strides,
            dilations,
            output_shape_rounding,
            output_sizes,
        )
        if name == "max_pool2d":
            y = windows.amax([-1, -2])
        elif name == "l2_pool2d":
            y = (windows * windows).sum([-1, -2]).sqrt()
        else:
            y = windows.sum([-1, -2]) / ones.sum([-1, -2]).clamp(min=1)
        return _turned(y, "nchw", layout)

    computes(name, ordered=name == "max_pool2d")(function)


_pool("average_pool2d", 0.0)
_pool("l2_pool2d", 0.0)
_pool("max_pool2d", float("-inf"))
