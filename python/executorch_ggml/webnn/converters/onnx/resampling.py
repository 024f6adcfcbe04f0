"""Resizing of images."""

from __future__ import annotations

from collections.abc import Sequence

from .writer import Value, Writer, emits


@emits("resample2d")
def resample2d(
    w: Writer, input: Value, mode: str, scales: Sequence[float], sizes: Sequence[int], axes: Sequence[int]
) -> Value:
    """Resize, which wants the two dimensions last; 8-bit results of lines are rounded."""
    del scales
    others = [i for i in range(4) if i not in axes]
    order = [*others, *axes]
    nearest = mode == "nearest-neighbor"
    x = w.transpose(w.wide(input) if input.data_type == "float16" else input, order)
    x = x if nearest or x.is_float else w.cast(x, "float32")
    wanted = [*x.shape[:2], *sizes]
    output = w.call(
        "Resize",
        x,
        None,
        None,
        w.ints(wanted),
        shape=wanted,
        mode="nearest" if nearest else "linear",
        coordinate_transformation_mode="half_pixel",
        nearest_mode="round_prefer_floor",
    )
    output = output if nearest or input.is_float else w.call("Round", output)
    return w.transpose(output, [order.index(i) for i in range(4)])
