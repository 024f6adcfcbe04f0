"""Whole models: one delegate each, every compute node in it, any size within the bounds, the answers eager's.

The IR of some is compared line by line with the files in ``golden``: a refactoring leaves it as it is, a new lowering
shows its diff. ``python -m tests.test_models`` writes these files anew.
"""

import re
from pathlib import Path

import pytest
import torch
from executorch.exir import EdgeProgramManager, to_edge_transform_and_lower
from executorch.exir.lowered_backend_module import LoweredBackendModule
from tests import zoo

import executorch_ggml
from executorch_ggml import GgmlPartitioner
from executorch_ggml.ir.printer import to_text
from executorch_ggml.ir.serialize import deserialize

GOLDEN = Path(__file__).parent / "golden"

SIZES = {
    "bert": ({"batch": 1, "tokens": 7}, {"batch": 2, "tokens": 33}),
    "vit": ({"batch": 1}, {"batch": 2}),
    "llama": ({"tokens": 1}, {"tokens": 70}),
    "llama_masked": ({"batch": 1, "tokens": 5}, {"batch": 2, "tokens": 40}),
    "llama_packed": ({"tokens": 6}, {"tokens": 66}),
    "resnet18": ({"batch": 1}, {"batch": 2}),
    "mobilenet_v2": ({"batch": 1}, {"batch": 2}),
    "unet": ({"batch": 1}, {"batch": 2}),
    "lstm": ({"batch": 1}, {"batch": 5}),
    "gru": (),  # ExecuTorch's check of Edge programs fixes its batch at the example's; see test_gru_of_any_batch
}
SLOW = {"mobilenet_v2", "llama_packed", "llama_masked", "gru"}  # resnet18, llama and lstm stand for them


def test_every_model_is_tested() -> None:
    assert set(SIZES) == set(zoo.MODELS)
    assert {path.stem for path in GOLDEN.iterdir()} == {"bert", "llama", "lstm", "resnet18", "unet"}


def lowered(model: zoo.Model) -> tuple[EdgeProgramManager, GgmlPartitioner]:
    exported = torch.export.export(model.module, model.args, dynamic_shapes=model.dynamic_shapes)
    partitioner = GgmlPartitioner()
    return to_edge_transform_and_lower(exported, partitioner=[partitioner]), partitioner


def ir_text(edge: EdgeProgramManager) -> str:
    """The delegate's graph; symbols are numbered as they come, and constants lose the digest of their contents."""
    (delegate,) = (m for m in edge.exported_program().graph_module.children() if isinstance(m, LoweredBackendModule))
    text = re.sub(r"#[0-9a-f]{16}", "", to_text(deserialize(delegate.processed_bytes)))
    symbols = dict.fromkeys(re.findall(r"^symbol (\w+):", text, re.MULTILINE))
    for number, symbol in enumerate(symbols):
        text = re.sub(rf"\b{symbol}\b", f"n{number}", text)
    return text + "\n"


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in SIZES])
def test_model(name: str, tmp_path: Path) -> None:
    model = zoo.load(name, small=True)
    edge, partitioner = lowered(model)
    assert partitioner.refused == {}
    text = ir_text(edge)
    program = edge.to_executorch()
    plan = program.executorch_program.execution_plan[0]
    assert [delegate.id for delegate in plan.delegates] == ["GgmlBackend"]
    assert plan.operators == [], "calls outside the delegate"

    program.save(str(tmp_path / "model.pte"))
    module = executorch_ggml.load(tmp_path / "model.pte")
    for sizes in ({}, *SIZES[name], {}):
        inputs = zoo.resized(model, **sizes) if sizes else model.args
        with torch.no_grad():
            expected = model.module(*inputs)
        for ours, theirs in zip(_list(module(*inputs)), _list(expected), strict=True):
            error = (ours - theirs).abs().max() / theirs.abs().max()
            assert error < 1e-4, f"{name} {sizes}: {error}"
    golden = GOLDEN / f"{name}.txt"
    if golden.exists():
        assert text.splitlines() == golden.read_text().splitlines(), "if this is meant: python -m tests.test_models"


def test_gru_of_any_batch(tmp_path: Path) -> None:
    model = zoo.load("gru", small=True)
    program = executorch_ggml.export(model.module, model.args, dynamic_shapes=model.dynamic_shapes)
    program.save(str(tmp_path / "model.pte"))
    module = executorch_ggml.load(tmp_path / "model.pte")
    for batch in (1, 5, 8):
        inputs = zoo.resized(model, batch=batch)
        torch.testing.assert_close(_list(module(*inputs)), _list(model.module(*inputs)))


def _list(result: object) -> list[torch.Tensor]:
    return [result] if isinstance(result, torch.Tensor) else list(result)  # type: ignore[call-overload] # a tuple of them


if __name__ == "__main__":
    for path in GOLDEN.iterdir():
        path.write_text(ir_text(lowered(zoo.load(path.stem, small=True))[0]))
