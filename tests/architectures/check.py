"""One architecture end to end, in this process."""

from __future__ import annotations

import copy
import json
import re
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from tests.architectures.table import ARCHITECTURES
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

import executorch_ggml
from executorch_ggml.partition.partitioner import REFUSED_KEY

TOLERANCE = 1e-4  # of an output's magnitude; what has no fraction must be equal


class TensorsOnly(nn.Module):
    """A model that returns the tensors among its outputs, in order."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, **inputs: Tensor) -> tuple[Tensor, ...]:
        outputs = self.model(**inputs)
        return tuple(leaf for leaf in tree_leaves(_plain(outputs)) if isinstance(leaf, Tensor))


def _plain(outputs: Any) -> Any:
    """Outputs of transformers as the tuples that they are; the cache of a decoder is left out."""
    return outputs.to_tuple() if hasattr(outputs, "to_tuple") else outputs


def enliven(model: nn.Module) -> None:
    """Give what starts as ones, zeros or nearly so (norms, biases, gates, heads) values that show in the result."""
    for module in model.modules():
        mean, variance = (getattr(module, name, None) for name in ("running_mean", "running_var"))
        if isinstance(mean, Tensor) and isinstance(variance, Tensor):
            mean.normal_(0.0, 0.2)
            variance.uniform_(0.5, 1.5)
    for parameter in model.parameters():
        if parameter.is_floating_point() and parameter.numel() and float(parameter.max() - parameter.min()) < 1e-2:
            parameter.data += 0.1 * torch.randn_like(parameter)


def error(actual: Tensor, expected: Tensor) -> float:
    """How far off the worst element is, for the largest magnitude; infinite where types, shapes or NaN differ."""
    if (actual.dtype, actual.shape) != (expected.dtype, expected.shape):
        return float("inf")
    if not expected.dtype.is_floating_point:
        return 0.0 if torch.equal(actual, expected) else float("inf")
    finite = expected.isfinite()
    if not torch.equal(finite, actual.isfinite()) or not finite.any():
        return 0.0 if torch.equal(actual.nan_to_num(), expected.nan_to_num()) else float("inf")
    largest = float(expected[finite].abs().max())
    worst = float((actual[finite].double() - expected[finite].double()).abs().max())
    return worst / largest if largest else worst


def check_telling(outputs: tuple[Tensor, ...]) -> None:
    """Raise ValueError where outputs cannot tell right from wrong: where none is finite and differs within a batch."""
    floats = [output for output in outputs if output.is_floating_point() and output.isfinite().all()]
    if not any(len(output) == 1 or not torch.equal(output[0], output[1]) for output in floats if output.dim()):
        raise ValueError("the model's outputs do not depend on its inputs, or are not finite: choose other options")


def errors(actual: Any, expected: Any) -> dict[str, float]:
    """The largest error of all outputs of one element type."""
    found: dict[str, float] = {}
    for ours, theirs in zip(actual, expected, strict=True):
        dtype = str(theirs.dtype).removeprefix("torch.")
        found[dtype] = max(found.get(dtype, 0.0), error(ours, theirs))
    return found


def _in_float64(model: nn.Module, inputs: Mapping[str, Tensor], expected: Any) -> float | None:
    """How far eager itself is from its result in float64; None where the model does not run in it."""
    try:
        wide = {name: value.double() if value.is_floating_point() else value for name, value in inputs.items()}
        precise = copy.deepcopy(model).double()(**wide)
        found = errors([made.to(theirs.dtype) for made, theirs in zip(precise, expected, strict=True)], expected)
    except Exception:
        return None
    return max(found.values(), default=0.0)


@torch.no_grad()
def verdict(name: str) -> dict[str, Any]:
    """What became of an architecture: its outcome, and what `report.py` writes of it."""
    torch.manual_seed(0)
    module, inputs = ARCHITECTURES[name].build()
    enliven(module)
    model = TensorsOnly(module).eval()
    expected = model(**inputs)
    check_telling(expected)
    try:
        program = executorch_ggml.export(model, (), kwargs=dict(inputs))
    except Exception as refusal:
        if _is_exported(model, inputs):
            outcome = "refused" if isinstance(refusal, ValueError) else "failed"
        else:
            outcome = "not exported"
        return {"outcome": outcome, "reason": sentence(refusal)}
    found = _described(program.executorch_program.execution_plan[0])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pte"
        program.save(str(path))
        try:
            actual = executorch_ggml.load(path)(*inputs.values())
        except Exception as failure:
            return found | {"outcome": "cannot run", "reason": sentence(failure).replace(f"{path}: ", "")}
    found["error"] = errors([actual] if isinstance(actual, Tensor) else list(actual), expected)
    right = max(found["error"].values(), default=0.0) <= TOLERANCE
    found["eager"] = None if right else _in_float64(model, inputs, expected)
    return found | {"outcome": "right" if right else "wrong"}


def _is_exported(model: nn.Module, inputs: Mapping[str, Tensor]) -> bool:
    """Whether torch.export takes the model."""
    try:
        torch.export.export(model, (), dict(inputs))
    except Exception:
        return False
    return True


def _described(plan: Any) -> dict[str, Any]:
    """How many delegates a program has, and what stayed outside, with the reasons."""
    specs = [spec for delegate in plan.delegates for spec in delegate.compile_specs if spec.key == REFUSED_KEY]
    rows = json.loads(bytes(specs[0].value)) if specs else []
    left = Counter(f"{row['op'].removeprefix('aten.')}: {row['reason']}" for row in rows)
    return {"delegates": len(plan.delegates), "left": dict(left)}


def sentence(error: Exception) -> str:
    """An error's type and the first 500 characters of its message, in one line, with paths relative to the package."""
    text = re.sub(r"\S*/site-packages/", "", " ".join(str(error).split()))
    return f"{type(error).__name__}: {text}"[:500]
