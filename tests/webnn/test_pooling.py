"""Pooling whose windows may lie in the padding, on every backend: the specification's arithmetic, by hand."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from tests.webnn.running import context

from executorch_ggml.webnn import BackendUnavailable, OperationError
from executorch_ggml.webnn.registry import names

Array = np.ndarray[Any, Any]
KINDS = [("max_pool2d", kind) for kind in ("float32", "int8", "uint8", "int32", "uint32", "int64")]
KINDS += [("average_pool2d", "float32"), ("l2_pool2d", "float32"), ("max_pool2d", "float16")]
REFUSED = {("onnx", "max_pool2d", "int64")}


def lowest(data_type: str) -> Any:
    return -np.inf if data_type.startswith("float") else np.iinfo(data_type).min


def pooled(operator: str, x: Array, options: dict[str, list[int]]) -> Array:
    """The result, window by window."""
    (kh, kw), (sh, sw), (dh, dw) = options["window_dimensions"], options["strides"], options["dilations"]
    top, bottom, left, right = options["padding"]
    height, width = x.shape[2:]
    out_h = (height + top + bottom - (kh - 1) * dh - 1) // sh + 1
    out_w = (width + left + right - (kw - 1) * dw - 1) // sw + 1
    made = np.zeros((*x.shape[:2], out_h, out_w), np.float64 if operator != "max_pool2d" else x.dtype)
    for i in range(out_h):
        for j in range(out_w):
            rows = [r for r in (i * sh - top + k * dh for k in range(kh)) if 0 <= r < height]
            columns = [c for c in (j * sw - left + k * dw for k in range(kw)) if 0 <= c < width]
            seen = x[:, :, rows][:, :, :, columns].reshape(*x.shape[:2], -1)
            if operator == "max_pool2d":
                made[:, :, i, j] = seen.max(-1, initial=lowest(x.dtype.name))
            elif operator == "l2_pool2d":
                made[:, :, i, j] = np.sqrt((seen.astype(np.float64) ** 2).sum(-1))
            else:
                made[:, :, i, j] = seen.sum(-1) / max(seen.shape[-1], 1)
    return made.astype(x.dtype)


def cases() -> list[tuple[tuple[int, int], dict[str, list[int]]]]:
    """Images and options, half of them with windows that see no pixel."""
    dice = random.Random(3)
    found: list[tuple[tuple[int, int], dict[str, list[int]]]] = []
    while len(found) < 24:
        size = dice.randint(1, 3), dice.randint(1, 3)
        options = {
            "window_dimensions": [dice.randint(1, 3) for _ in range(2)],
            "padding": [dice.randint(0, 3) for _ in range(4)],
            "strides": [dice.randint(1, 2) for _ in range(2)],
            "dilations": [dice.randint(1, 3) for _ in range(2)],
        }
        room = [
            size[i] + sum(options["padding"][2 * i : 2 * i + 2]) - (options["window_dimensions"][i] - 1) * gap - 1
            for i, gap in enumerate(options["dilations"])
        ]
        if min(room) >= 0:
            found.append((size, options))
    return found


@pytest.mark.parametrize("backend", names("executor"))
@pytest.mark.parametrize(("operator", "data_type"), KINDS)
def test_windows_in_the_padding(backend: str, operator: str, data_type: str) -> None:
    try:
        on = context(backend)
    except BackendUnavailable as reason:
        pytest.skip(str(reason))
    numbers = np.random.default_rng(0)
    for size, options in cases():
        x = (numbers.integers(0, 100, (2, 3, *size)) + (0 if data_type[0] == "u" else -120)).astype(data_type)
        builder = on.create_graph_builder()
        made = getattr(builder, operator)(builder.input("x", list(x.shape), data_type), **options)
        try:
            graph = builder.build({"y": made})
        except OperationError:
            assert (backend, operator, data_type) in REFUSED
            continue
        np.testing.assert_allclose(
            on.compute(graph, {"x": x})["y"], pooled(operator, x, options), rtol=1e-6, err_msg=f"{size} {options}"
        )


@pytest.mark.parametrize("operator", ["max_pool2d", "average_pool2d", "l2_pool2d"])
def test_core_ml(operator: str) -> None:
    """Programs as they are written: running them needs macOS."""
    to_program = pytest.importorskip("executorch_ggml.webnn.converters.coreml").to_program
    builder = context("torch").create_graph_builder()
    x = builder.input("x", [1, 2, 2, 2])
    options: dict[str, Any] = {"window_dimensions": [2, 2], "padding": [3, 0, 0, 0]}
    program = to_program(builder.graph_info({"y": getattr(builder, operator)(x, **options)}))
    assert [op.op_type for op in program.functions["main"].operations].count("select") == 1
