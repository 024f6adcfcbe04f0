"""Models and single ops in f16 and bf16: delegated like in f32, and no less exact than torch in the same type."""

from __future__ import annotations

import copy
import importlib
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests import zoo
from tests.batches import check_case
from tests.helpers import (
    Case,
    assert_all_same,
    check_program,
    delegated,
    inf,
    lowered,
    nan,
    of_type,
    rand,
    run_session,
    session,
)
from torch import Tensor, nn

from executorch_ggml.frontends.aten import LOWERINGS
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.ir.graph import Graph

aten = torch.ops.aten

HALVES = [torch.float16, torch.bfloat16]
halves = pytest.mark.parametrize("dtype", HALVES, ids=str)
# torch rounds each partial product, and the averages of an averages' row; here the last number alone is rounded.
ROUGH = {aten.prod.default: 0.1, aten._adaptive_avg_pool3d.default: 0.02}

LEFT_OUT = {
    aten._native_batch_norm_legit_functional.default,  # torch traces another type than it gives
    aten.grid_sampler_2d.default,  # refused, with its reason
    aten.sort.default,  # rounding makes equals, whose order is nobody's promise
    aten.topk.default,
    # Refused in half types, each with its reason; quantization is computed from f32.
    torch.ops.executorch_ggml.dft.default,  # torch transforms no halves on the CPU either
    torch.ops.executorch_ggml.expert_linear.default,
    torch.ops.quantized_decomposed.quantize_per_channel.default,
    torch.ops.quantized_decomposed.quantize_per_token.default,
    torch.ops.quantized_decomposed.choose_qparams.tensor,
    torch.ops.quantized_decomposed.choose_qparams_symmetric.tensor,
    torch.ops.torchao.dequantize_affine.default,
}


def _cases() -> list[Case]:
    """The largest f32 case of each overload, in each half type that torch has a kernel for."""
    families = {function.__module__.rsplit(".", 1)[-1] for function in LOWERINGS.values()}
    largest: dict[object, Case] = {}
    for family in sorted(families):
        for case in importlib.import_module(f"tests.frontends.aten.test_{family}").CASES:
            if case.refused is None and case.dynamic is None and of_type(case, torch.float16) is not None:
                known = largest.setdefault(case.overload, case)
                largest[case.overload] = max(known, case, key=lambda c: sum(t.numel() for t in c.inputs))
    chosen = [case for overload, case in largest.items() if overload not in LEFT_OUT]
    halves = [half for case in chosen for dtype in HALVES if (half := of_type(case, dtype)) is not None]
    return [
        replace(half, tolerance=max(half.tolerance, ROUGH.get(half.overload, 0.0)))
        for half in halves
        if _has_kernel(half)
    ]


def _has_kernel(case: Case) -> bool:
    """Whether eager computes the case: torch has no half kernels of some ops, and then there is no reference."""
    try:
        case.module()(*case.inputs)
    except NotImplementedError:
        return False
    return True


@pytest.mark.parametrize("case", _cases(), ids=lambda case: case.id)
def test_overload(case: Case) -> None:
    check_case(case)


@halves
@pytest.mark.parametrize("name", ["llama", *(pytest.param(name, marks=pytest.mark.slow) for name in ("bert", "vit"))])
def test_model(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    """One delegate and nothing outside, weights of the model's type, and no further from the f32 model than eager."""
    model = zoo.load(name, small=True)
    half = copy.deepcopy(model.module).to(dtype)
    inputs = tuple(x.to(dtype) if x.is_floating_point() else x for x in model.args)
    made = delegated(half, inputs, tmp_path, model.dynamic_shapes)
    assert (len(made.delegates), made.left) == (1, []), made.partitioner.refused
    large = [c.value.dtype for c in made.graph().constants if math.prod(int(n) for n in c.value.ne) > 2000]
    assert set(large) == {DType.from_torch(dtype)}
    with torch.no_grad():
        exact, eager = model.module(*model.args), half(*inputs)
    ours = made.load()(*inputs)
    assert ours.dtype == eager.dtype
    assert _distance(ours, exact) <= 1.2 * _distance(eager, exact)


def _distance(a: Tensor, b: Tensor) -> float:
    return float((a.double() - b.double()).square().mean().sqrt())


@pytest.mark.parametrize("name", ["linear", "matmul", "add", "mul"])
def test_overflow_and_special_values(name: str) -> None:
    """f16 ends at 65504: what is beyond is infinite, as in torch; NaN, infinities and tiny numbers are kept."""
    large = torch.tensor([[200.0, 200.0, -300.0], [6e4, 1.0, 0.0], [inf, 1.0, 2.0], [nan, 0.0, 1.0], [6e-8, 0.0, 3e-5]])
    weight = torch.tensor([[400.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 1.0, 3e2]])
    functions: dict[str, Any] = {
        "linear": nn.Linear(3, 3),
        "matmul": torch.matmul,
        "add": lambda a, b: a + b[0] * 10,
        "mul": lambda a, b: a * b[0],
    }
    function = functions[name]
    inputs: tuple[Tensor, ...] = (large.half(), weight.half())
    if isinstance(function, nn.Linear):
        function.weight = nn.Parameter(weight)
        function.half()
        inputs = inputs[:1]
    check_program(function, *inputs)


@halves
def test_denormal_numbers(dtype: torch.dtype) -> None:
    tiny = torch.finfo(dtype).smallest_normal * torch.tensor([1.0, 0.5, 0.25, -0.125, 1.5])
    check_program(lambda x: (x * 1.0).neg().float() * 2.0**8, tiny.to(dtype))


def _ops(graph: Graph) -> Counter[str]:
    return Counter(node.op for node in graph.nodes)


def test_a_round_trip_of_types_is_none() -> None:
    x = rand(3, 4, dtype=torch.float16)
    assert _ops(lowered(lambda x: x.float().half().neg(), (x,))) == _ops(lowered(torch.neg, (x,)))
    rounding = lowered(lambda x: x.half().float(), (rand(3, 4),))
    assert _ops(rounding) == {"convert": 2}, "this one rounds"


@halves
def test_types_change_without_copies(dtype: torch.dtype) -> None:
    """A permuted or repeated tensor is converted as it lies."""
    graph = check_program(lambda x, y: x.permute(0, 3, 1, 2).float() + y.float().expand(2, 5, 3, 4),
                          rand(2, 3, 4, 5, dtype=dtype), rand(1, 5, 1, 1, dtype=dtype))  # fmt: skip
    assert "broadcast" not in _ops(graph)


@halves
def test_weights_stay_as_they_are(dtype: torch.dtype) -> None:
    model = nn.Sequential(nn.Conv2d(3, 20, 3), nn.ReLU(), nn.Flatten(), nn.Linear(80, 7)).to(dtype).eval()
    graph = check_program(model, rand(2, 3, 4, 4, dtype=dtype))
    large = {constant.value.dtype for constant in graph.constants if math.prod(constant.value.ne) > 20}
    assert large == {DType.from_torch(dtype)}
    assert _ops(graph)["relu"] == 0, "it is inside the convolution"


@halves
def test_autocast(dtype: torch.dtype) -> None:
    """Weights that a program casts are cast ahead of time."""

    class Cast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(30, 40), nn.GELU(), nn.LayerNorm(40), nn.Linear(40, 50))

        def forward(self, x: Tensor) -> Tensor:
            with torch.autocast("cpu", dtype):
                made: Tensor = self.layers(x)
            return made

    model = Cast().eval()
    x = rand(5, 30)
    graph = lowered(model, (x,))
    wide = {c.value.dtype for c in graph.constants if math.prod(c.value.ne) > 100}
    assert wide == {DType.from_torch(dtype)}
    with torch.no_grad():
        assert_all_same(run_session(session(graph), (x,)), model(x), tolerance=0.01)
