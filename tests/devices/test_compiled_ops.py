"""Every op that compiled devices claim, exported and run, against the op table's references."""

import importlib.util
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.devices.compiled_cases import Cases, corpus, covered, exported, kinds
from tests.helpers import TOLERANCE, TOLERANCES, assert_same

from executorch_ggml.devices.compiled import Cache, CompiledDevice, CompileError, GraphModule, formats, translations
from executorch_ggml.devices.compiled.module import boundary_dtype, example_inputs
from executorch_ggml.ir.arrays import as_numpy, as_torch
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.ir.graph import Graph
from executorch_ggml.ir.interpreter import Interpreter

COMPILERS = [
    pytest.param(name, marks=pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"{name} is not here"))
    for name in ("openvino", "onnxruntime")
]


@pytest.fixture(scope="module", params=[corpus, kinds], ids=["corpus", "kinds"])
def cases(request: pytest.FixtureRequest) -> Cases:
    torch.manual_seed(0)
    made: Cases = request.param()
    return made.supported(exported)


def check(cases: Cases, made: list[torch.Tensor]) -> None:
    """Each output as the interpreter has it; all that are not, at once. What is rounded to halves may be more exact."""
    wrong = []
    halves = {value for value in cases.graph.values() if value.dtype == DType.F16}
    for node in cases.graph.nodes:
        if not halves.isdisjoint(node.inputs):
            halves.add(node.output)
    expected = Interpreter(cases.graph).run(*cases.inputs)
    for port, actual, right in zip(cases.graph.outputs, made, expected, strict=True):
        try:
            tolerance = TOLERANCES[torch.float16] if port.value in halves else TOLERANCE
            assert_same(actual, right, tolerance, what=port.name)
        except AssertionError as error:
            wrong.append(f"{port.name}: {str(error)[:200]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_ops(cases: Cases, compiler: str, tmp_path: Path) -> None:
    device = CompiledDevice(compiler, cache=Cache(tmp_path / "cache"))
    part = cases.supported(device.supports)
    outputs = device.plan(part.graph)([as_numpy(tensor) for tensor in part.inputs])
    dtypes = [port.value.dtype for port in part.graph.outputs]
    check(part, [as_torch(np.array(array), dtype) for array, dtype in zip(outputs, dtypes, strict=True)])


@pytest.mark.parametrize("compiler", COMPILERS)
def test_every_claimed_op_has_a_case(compiler: str, tmp_path: Path) -> None:
    device = CompiledDevice(compiler, cache=Cache(tmp_path / "cache"))
    seen = covered(corpus().supported(device.supports)) | covered(kinds().supported(device.supports))
    assert set(translations.exported_ops()) <= seen


def test_translations(cases: Cases) -> None:
    """The forms that are exported equal the references, before any exporter."""
    module = GraphModule(cases.graph)
    made = module(*_given(cases))
    dtypes = [port.value.dtype.torch for port in cases.graph.outputs]
    check(cases, [tensor.to(dtype) for tensor, dtype in zip(made, dtypes, strict=False)])


def test_torchscript(cases: Cases, tmp_path: Path) -> None:
    module = GraphModule(cases.graph)
    path = tmp_path / "model.pt"
    formats.write(module, example_inputs(cases.graph), len(cases.graph.outputs) + module.guarded, path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit.load is deprecated
        made = torch.jit.load(path)(*_given(cases))
    dtypes = [port.value.dtype.torch for port in cases.graph.outputs]
    check(cases, [tensor.to(dtype) for tensor, dtype in zip(made, dtypes, strict=False)])


def test_torch_export(tmp_path: Path) -> None:
    torch.manual_seed(0)
    everything = corpus().supported(exported)
    families = ("views/", "rows/", "attention/", "convolution/", "gathering/", "indexing/", "scattering/", "pooling/")
    part = everything.having([port.name for port in everything.graph.outputs if port.name.startswith(families)])
    module = GraphModule(part.graph)
    path = tmp_path / "model.pt2"
    formats.write(module, example_inputs(part.graph), len(part.graph.outputs) + module.guarded, path)
    made = torch.export.load(path).module()(*_given(part))
    check(part, list(made[: len(part.graph.outputs)]))


def _given(cases: Cases) -> list[torch.Tensor]:
    ports = cases.graph.inputs
    return [tensor.to(boundary_dtype(port.value)) for tensor, port in zip(cases.inputs, ports, strict=True)]


def test_refuses_what_is_not_exported() -> None:
    with pytest.raises(CompileError, match="no outputs"):
        GraphModule(Graph())
    everything = corpus()
    refused = {node.op: translations.refusal(node) for node in everything.graph.nodes if not exported(node)}
    assert refused["scan"] == "scan is not exported"
    assert "empty" in str(refused["sqr"])
