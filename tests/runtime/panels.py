"""Products with matrices and rows taken of them, plain and in panels: the same numbers to the last bit.

`python -m tests.runtime.panels` compares them on the instruction set that EXECUTORCH_GGML_CPU names.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from executorch_ggml.ir.builder import Builder
from executorch_ggml.ir.codec import quantize
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.ir.graph import Graph
from executorch_ggml.ir.panels import pack_panels
from executorch_ggml.ir.serialize import serialize
from executorch_ggml.ir.storage import PLAIN, Storage, StorageLayout
from executorch_ggml.runtime import Session

Array = np.ndarray[Any, Any]
TYPES = (DType.Q4_0, DType.Q4_K, DType.Q6_K)
PANELS = StorageLayout(Storage.PANELS)
WIDTH = 512
READS = ("product", "rows", "otherwise")


def graph(dtype: DType, rows: int, count: int, storage: StorageLayout, reads: tuple[str, ...] = READS[:2]) -> Graph:
    """A matrix that is multiplied with some rows, that rows are taken of, or that is read otherwise."""
    build = Builder()
    x = build.input("x", DType.F32, (count, WIDTH), (WIDTH, count, 1, 1))
    index = build.input("index", DType.I64, (3,), (3, 1, 1, 1))
    matrix = build.constant("matrix", dtype, (WIDTH, rows, 1, 1))
    stored = build.constant_of(matrix)
    assert stored is not None
    stored.storage = storage
    if "product" in reads:
        build.output("y", build.emit("mul_mat", matrix, x), (count, rows))
    if "rows" in reads:
        checked = build.emit("to_index", index, size=rows, wrap=True)
        build.output("z", build.emit("get_rows", matrix, checked), (3, WIDTH))
    if "otherwise" in reads:
        build.output("v", build.emit("mul_mat", build.view(matrix, (0, 0, 0, 0), (WIDTH, 1, 1, 1)), x), (count, 1))
    return build.finish()


def contents(dtype: DType, rows: int, storage: StorageLayout = PLAIN) -> Array:
    """Random numbers in a type and a layout."""
    data = quantize(torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(rows)), dtype)
    return (data if storage == PLAIN else pack_panels(data, dtype, (rows, WIDTH))).numpy()


def session(dtype: DType, rows: int, count: int, storage: StorageLayout, reads: tuple[str, ...] = READS[:2]) -> Session:
    """A session over such a graph."""
    program = serialize(graph(dtype, rows, count, storage, reads))
    return Session(program, {"matrix": contents(dtype, rows, storage)}, threads=2)


def inputs(rows: int, count: int) -> tuple[Array, Array]:
    """For a session of so many rows."""
    x = torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(count)).numpy()
    return x, np.array([rows - 1, 0, -1])


def check() -> None:
    """Raise where panels change a number."""
    for dtype in TYPES:
        for rows in (1, 16, 19, 70):
            for count in (1, 5, 33):
                for reads in (READS[:1], READS[1:2], READS[:2], READS):
                    ready = [session(dtype, rows, count, storage, reads) for storage in (PLAIN, PANELS)]
                    plain, packed = (each.run(*inputs(rows, count)) for each in ready)
                    for expected, result in zip(plain, packed, strict=True):
                        np.testing.assert_array_equal(result, expected, f"{dtype.name} {rows} x {count}, {reads}")


if __name__ == "__main__":
    check()
