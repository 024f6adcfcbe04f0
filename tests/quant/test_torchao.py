"""Configurations of ``torchao.quantize_``: what each becomes, how far it is from eager, and docs' table of that."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
import torchao.quantization
from tests.helpers import delegated
from torch import nn
from torchao.quantization import MappingType, PerAxis, PerGroup, PerTensor, quantize_

from executorch_ggml.ir.dims import product

DOCS = Path(__file__).parents[2] / "docs" / "quantization.md"
BEGIN, END = "<!-- torchao: begin -->\n", "<!-- torchao: end -->"
EXACT, ROUNDED = 1e-5, 1e-2  # of the largest output: as eager; activations are rounded to blocks of 8 bits
NAMES = {name: getattr(torchao.quantization, name) for name in dir(torchao.quantization) if name.endswith("Config")}
NAMES |= {"PerAxis": PerAxis, "PerGroup": PerGroup, "PerTensor": PerTensor, "torch": torch}
NAMES |= {"ASYMMETRIC": MappingType.ASYMMETRIC, "bfloat16": torch.bfloat16}
NAMES |= {f"int{bits}": getattr(torch, f"int{bits}") for bits in (1, 2, 4, 5, 8)}


@dataclass(frozen=True)
class Case:
    """A configuration of linear layers of 256 inputs, and what a layer becomes."""

    config: str
    op: str
    weights: str
    error: float


WEIGHTS = "IntxWeightOnlyConfig(weight_dtype={}, granularity={}, scale_dtype=bfloat16)"
BOTH = "Int8DynamicActivationIntxWeightConfig(weight_dtype=int4, weight_granularity={}{})"
CASES = (
    Case("Int8WeightOnlyConfig()", "mul_mat", "q8_0", ROUNDED),
    Case("Int8WeightOnlyConfig(version=2, granularity=PerTensor())", "mul_mat", "q8_0", ROUNDED),
    Case("Int8WeightOnlyConfig(version=2, granularity=PerGroup(32))", "mul_mat", "f32", EXACT),
    Case("Int8DynamicActivationInt8WeightConfig()", "quantized_linear", "i8", EXACT),
    Case("Int8DynamicActivationInt8WeightConfig(act_mapping_type=ASYMMETRIC)", "quantized_linear", "i8", EXACT),
    Case("Int8DynamicActivationInt8WeightConfig(granularity=PerTensor())", "quantized_linear", "i8", EXACT),
    Case(WEIGHTS.format("int8", "PerGroup(32)"), "mul_mat", "q8_0", ROUNDED),
    Case(WEIGHTS.format("int5", "PerGroup(32)"), "mul_mat", "q5_0", ROUNDED),
    Case(WEIGHTS.format("int4", "PerGroup(32)"), "mul_mat", "q4_0", ROUNDED),
    Case(WEIGHTS.format("int4", "PerGroup(128)"), "mul_mat", "q4_0", ROUNDED),
    Case(WEIGHTS.format("int2", "PerGroup(32)"), "mul_mat", "q4_0", ROUNDED),
    Case("IntxWeightOnlyConfig(weight_dtype=int4, granularity=PerAxis(0))", "mul_mat", "q4_0", ROUNDED),
    Case("IntxWeightOnlyConfig(weight_dtype=int4, granularity=PerGroup(32))", "mul_mat", "q4_0", ROUNDED),
    Case(BOTH.format("PerGroup(32)", ", weight_scale_dtype=bfloat16"), "mul_mat", "q4_0", ROUNDED),
    Case(BOTH.format("PerGroup(128)", ", weight_scale_dtype=bfloat16"), "mul_mat", "q4_0", ROUNDED),
    Case(BOTH.format("PerAxis(0)", ""), "mul_mat", "q4_0", ROUNDED),
    Case(BOTH.format("PerGroup(32)", ""), "mul_mat", "q4_0", ROUNDED),
)


def table() -> str:
    """The cases as docs have them."""
    rows = ["| configuration | op of the IR | weights | error at most |", "| --- | --- | --- | --- |"]
    rows += [f"| `{case.config}` | `{case.op}` | `{case.weights}` | {case.error:g} |" for case in CASES]
    return "\n".join([*rows, ""])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.config)
def test_configuration(case: Case, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 96)).eval()
    quantize_(model, eval(case.config, NAMES))
    x = torch.randn(3, 256)
    made = delegated(model, (x,), tmp_path)
    assert made.left == []
    graph = made.graph()
    assert [node.op for node in graph.nodes if node.op in ("mul_mat", "linear", "quantized_linear")] == [case.op]
    matrices = [constant.value for constant in graph.constants if product(constant.value.ne) == 256 * 96]
    assert [matrix.dtype.name.lower() for matrix in matrices] == [case.weights]
    expected = model(x)
    assert (made.load()(x) - expected).abs().max() <= case.error * expected.abs().max()


def test_docs_have_the_table() -> None:
    text = DOCS.read_text("utf-8")
    assert text.partition(BEGIN)[2].partition(END)[0] == table()


if __name__ == "__main__":
    before, _, rest = DOCS.read_text("utf-8").partition(BEGIN)
    DOCS.write_text(before + BEGIN + table() + END + rest.partition(END)[2], "utf-8")
