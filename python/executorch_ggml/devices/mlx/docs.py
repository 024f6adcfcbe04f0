"""Generates docs/devices_mlx.md from the table: ``python -m executorch_ggml.devices.mlx.docs``."""

from __future__ import annotations

import inspect
from pathlib import Path

from ...ir.ops import OPS
from . import table  # noqa: F401 - imported for the functions it declares
from .quantized import FORMATS
from .registry import entry_of

PAGE = Path(__file__).resolve().parents[4] / "docs" / "devices_mlx.md"

_HEAD = """<!-- Generated from the table by python/executorch_ggml/devices/mlx/docs.py; do not edit. -->

# The MLX device

Computes graphs with Apple's [MLX](https://github.com/ml-explore/mlx): on Macs on the GPU, elsewhere on the CPU.
`pip install ".[mlx]"` brings it; how ggml programs find a device is in [devices.md](devices.md).

<!-- not run: needs MLX and a program of your own -->
```python
from executorch_ggml.devices.mlx import MlxDevice, available, set_device

print(available())  # (True, "MLX 0.32.4 on cpu"), or (False, the reason)
set_device("cpu")  # or "gpu"; of the process, for plans made from then on; None is MLX's default
plan = MlxDevice().plan(graph)  # graph: executorch_ggml.ir.graph.Graph of concrete sizes
outputs = plan(inputs)  # numpy arrays, one an input
```

## How it runs

A plan calls one MLX function a node, which records it; all of a graph is evaluated at once at its end, and nothing in
between becomes a numpy array. Constants are converted when the plan is made, and so is all that follows from constants
alone. Views, permutations and broadcasts are strides; arrays are dropped where nothing reads them any more. Sums are in
f32, whatever the type of the operands, which are rounded to the type that ggml rounds them to; integers keep every bit.

Indices are checked in the run itself: one out of range raises IndexError, a division of an integer by zero
ZeroDivisionError, and states stay as they were; nothing outside of an array is read or written meanwhile.

Weights in {formats} are repacked to MLX's affine quantization, bit for bit, and multiplied as they are
(`mx.quantized_matmul`, `mx.gather_qmm`); activations are not rounded to 8 bits as on ggml's CPU. Other types have
blocks that MLX lacks: ggml dequantizes them to f32 when the plan is made, and they take four bytes an element.

## Settings

| | |
| --- | --- |
| `set_device(name)`, `MlxDevice(name)`, or the device name `mlx:gpu` | where plans made from then on compute |
| `MlxDevice(compile=...)`, or `EXECUTORCH_GGML_MLX_COMPILE=0` or `1` | whether graphs go through `mx.compile` |
| `OPENBLAS_NUM_THREADS`, `OMP_NUM_THREADS` | threads of matrix products on Linux; MLX's own CPU functions run on one |
| `MLX_ENABLE_TF32=0` | keeps full f32 products on GPUs that would round to TF32 |

`mx.compile` is on by default on the GPU alone. On the CPU it starts `g++` for every fused kernel when that is first
run, seconds each, and loads them from a folder in `/tmp` that MLX has for all; what it saves there is little.

## Limits

- Sizes are concrete: a graph with symbolic dims is refused.
- float64, `lgamma`, and what gives a quantized tensor, such as writing into a quantized cache, are left to the CPU.
- Half-precision weights take four bytes an element: MLX's products of halves round their sums to halves.
- On Linux MLX's CPU functions are slow: apart from matrix products, they use one thread. The device is for Macs.
- It was tested on Linux CPUs only.

## Ops

{count} of the {all} ops of the IR. What they compute is in [ops.md](ops.md).

| op | here |
| --- | --- |
"""


def _what(name: str) -> str:
    """The first line of the docstring of what makes an op's function, or how it is known."""
    entry = entry_of(name)
    assert entry is not None
    function = inspect.getclosurevars(entry.make).nonlocals.get("function", entry.make)
    module = getattr(function, "__module__", None) or ""
    lines = inspect.cleandoc(function.__doc__ or "").splitlines() if "executorch_ggml" in module else []
    return lines[0] if lines else f"`mx.{getattr(function, '__name__', name)}`"


def page() -> str:
    """The page's text."""
    names = [dtype.name.lower() for dtype in FORMATS]
    formats = f"{', '.join(names[:-1])} and {names[-1]}"
    rows = "".join(f"| `{name}` | {_what(name)} |\n" for name in OPS if entry_of(name))
    missing = [name for name in OPS if not entry_of(name)]
    rest = f"\nLeft to the CPU: {', '.join(f'`{name}`' for name in missing)}.\n" if missing else ""
    return _HEAD.format(formats=formats, count=len(OPS) - len(missing), all=len(OPS)) + rows + rest


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
