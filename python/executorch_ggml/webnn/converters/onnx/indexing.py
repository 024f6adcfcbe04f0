"""Reading and writing at indices, which are put in range first: ONNX fails where they are not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .writer import Value, Writer, emits


def _inside(w: Writer, indices: Value, sizes: Sequence[int] | int) -> Value:
    """Indices from 0 on; ``sizes`` is one number, or one for each place in the last dimension."""
    limits = np.asarray(sizes, np.int64)
    if indices.contents is not None:
        places = indices.contents.astype(np.int64)
        return w.constant(np.clip(np.where(places < 0, places + limits, places), 0, limits - 1), "int64")
    x = w.cast(indices, "int64")
    from_end = w.call("Add", x, w.constant(limits, "int64"))
    x = w.call("Where", w.call("Less", x, w.constant(0, "int64"), data_type="bool"), from_end, x, data_type="int64")
    return w.extreme("Min", w.extreme("Max", x, w.constant(0, "int64")), w.constant(limits - 1, "int64"))


@emits("gather")
def gather(w: Writer, input: Value, indices: Value, axis: int) -> Value:
    """Gather."""
    return w.call("Gather", input, _inside(w, indices, input.shape[axis]), shape=w.shape, axis=axis)


@emits("gather_elements")
def gather_elements(w: Writer, input: Value, indices: Value, axis: int) -> Value:
    """GatherElements."""
    return w.call("GatherElements", input, _inside(w, indices, input.shape[axis]), shape=w.shape, axis=axis)


@emits("gather_nd")
def gather_nd(w: Writer, input: Value, indices: Value) -> Value:
    """GatherND."""
    places = _inside(w, indices, input.shape[: indices.shape[-1]])
    return w.call("GatherND", input, places, shape=w.shape)


@emits("scatter_elements")
def scatter_elements(w: Writer, input: Value, indices: Value, updates: Value, axis: int) -> Value:
    """ScatterElements."""
    return w.call("ScatterElements", input, _inside(w, indices, input.shape[axis]), updates, axis=axis)


@emits("scatter_nd")
def scatter_nd(w: Writer, input: Value, indices: Value, updates: Value) -> Value:
    """ScatterND."""
    return w.call("ScatterND", input, _inside(w, indices, input.shape[: indices.shape[-1]]), updates)
