"""Tests of ``quant.config``: which type each weight is stored in, and what programs then hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.helpers import assert_same, delegated, lowered, run_session, session
from torch import nn

import executorch_ggml
from executorch_ggml.ir.dims import product
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.ir.storage import PLAIN
from executorch_ggml.quant import TYPES, GgmlQuantConfig, Importance, dequantized, report

WIDE = (512, 512)


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(40, 256), nn.Linear(256, 96), nn.ReLU(), nn.Linear(96, 256, bias=False)).eval()


TOKENS = torch.tensor([[3, 39, 0, 7], [1, 2, 20, 30]])


@pytest.mark.parametrize("name", TYPES)
def test_every_type_by_name(name: str) -> None:
    made = GgmlQuantConfig(name).choice("weight", WIDE)
    assert made.dtype == (None if name == "f32" else TYPES[name])
    assert made.note == ""


@pytest.mark.parametrize(
    ("asked", "width", "taken"),
    [
        ("q2_k", 96, "iq4_nl"),
        ("q3_k", 96, "iq4_nl"),
        ("q4_k", 96, "q5_0"),
        ("q5_k", 96, "q5_1"),
        ("q6_k", 96, "q8_0"),
        ("iq2_s", 96, "iq4_nl"),
        ("tq2_0", 96, "q4_0"),
        ("q4_k", 100, "f16"),
        ("q8_0", 100, "f16"),
        ("mxfp4", 100, "f16"),
        ("bf16", 100, "bf16"),
    ],
)
def test_rows_that_do_not_fit_take_another_type(asked: str, width: int, taken: str) -> None:
    made = GgmlQuantConfig(asked).choice("weight", (64, width))
    assert made.dtype == TYPES[taken]
    assert made.note == (
        "" if asked == taken else f"not {asked}: rows of {width} are no multiple of {TYPES[asked].block}"
    )


def test_the_first_rule_that_matches_counts() -> None:
    config = GgmlQuantConfig(
        "q4_0", rules=[("*.norm", "f16"), ("head*", "q6_k"), ("*", "q5_0")], keep=["head.skip", "*.bias"]
    )
    chosen = {
        name: config.choice(name, WIDE).dtype for name in ("a.norm", "head.weight", "head.skip", "other", "a.bias")
    }
    assert chosen == {
        "a.norm": DType.F16,
        "head.weight": DType.Q6_K,
        "head.skip": None,
        "other": DType.Q5_0,
        "a.bias": None,
    }


def test_small_and_flat_parameters_are_kept_unless_a_rule_names_them() -> None:
    config = GgmlQuantConfig("q8_0", rules={"named*": "q4_0"}, min_elements=2000)
    assert config.choice("small", (32, 32)).note == "kept: 1024 elements, fewer than 2000"
    assert config.choice("flat", (4096,)).note == "kept: one dim"
    assert config.choice("named", (32, 32)).dtype == config.choice("named", (4096,)).dtype == DType.Q4_0
    assert GgmlQuantConfig(None).choice("any", WIDE).dtype is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"default": "q4"}, "no weight type is called 'q4'; there are f32, f16, bf16, q4_0"),
        ({"rules": {"*": "int8"}}, "no weight type is called 'int8'"),
        ({"rules": ["*"]}, r"a rule is a pair of a glob and a type, got '\*'"),
        ({"rules": [["a", "q8_0", "b"]]}, "a rule is a pair of a glob and a type"),
        ({"min_elements": -1}, "expected 0 or more"),
        ({"dtype": "q4_0"}, "has no dtype; it has default"),
    ],
)
def test_slips_are_found_at_once(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GgmlQuantConfig.of(fields)


def test_keep_is_a_list() -> None:
    with pytest.raises(TypeError, match="list of globs"):
        GgmlQuantConfig(keep="*.weight")


def test_json_says_the_same(tmp_path: Path) -> None:
    Importance().save(tmp_path / "importance.gguf")
    config = GgmlQuantConfig("q4_k", rules={"head*": "q6_k"}, min_elements=7, keep=("a*",))
    path = tmp_path / "config.json"
    path.write_text(config.to_json("importance.gguf"))
    assert GgmlQuantConfig.of(path) == GgmlQuantConfig.of(str(path)) == config
    assert GgmlQuantConfig.of(json.loads(config.to_json())) == config
    assert GgmlQuantConfig.of("q4_k") == GgmlQuantConfig("q4_k")
    assert GgmlQuantConfig.of(config) is config


def test_a_rule_without_a_parameter_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"no parameter is called 'head\*'; the model's are called 0.weight, 1.weight"):
        executorch_ggml.export(model(), (TOKENS,), quantize=GgmlQuantConfig("q8_0", rules={"head*": "q6_k"}))


def test_a_type_that_needs_importance_says_how_to_get_it() -> None:
    with pytest.raises(ValueError, match=r"1.weight: iq2_xs needs an importance matrix.*Importance.collect"):
        executorch_ggml.export(model(), (TOKENS,), quantize=GgmlQuantConfig("iq2_xs", keep=["0.*"]))


def test_values_beyond_float16_are_refused() -> None:
    weight = torch.zeros(4, 256)
    weight[0, 0] = 1e6
    for name in ("f16", "q8_0"):
        stored = GgmlQuantConfig(name, min_elements=0).find("w", weight)
        assert stored is not None
        with pytest.raises(ValueError, match=rf"w cannot be stored as {name}.*bf16"):
            stored.data()
    stored = GgmlQuantConfig("bf16").find("w", weight)
    assert stored is not None
    assert stored.values(weight.shape)[0, 0] == 999424


@pytest.mark.parametrize("name", ["q8_0", "q4_k", "q5_1", "iq4_xs", "mxfp4", "bf16"])
def test_programs_are_near_the_module_with_their_weights(name: str, tmp_path: Path) -> None:
    """Exactly its weights; the rest is what ggml's rounding of activations to 8 bits makes."""
    original, config = model(), GgmlQuantConfig(name)
    program = executorch_ggml.export(original, (TOKENS,), quantize=name)
    program.save(str(tmp_path / "model.pte"))
    loaded = executorch_ggml.load(tmp_path / "model.pte")
    wanted = dequantized(original, config)(TOKENS)
    error = (loaded(TOKENS) - wanted).square().mean().sqrt() / wanted.square().mean().sqrt()
    assert error < 0.015
    (graph,) = (made.graph() for made in [delegated(original, (TOKENS,), tmp_path, weights=config)])
    kept = sorted(constant.value.dtype.name for constant in graph.constants if product(constant.value.ne) > 1000)
    said = sorted(tensor.type.upper() for tensor in report(original, config, [TOKENS]).tensors)
    assert kept == said


def test_a_program_has_the_same_bytes_each_time() -> None:
    first, second = (executorch_ggml.export(model(), (TOKENS,), quantize="q8_0").buffer for _ in range(2))
    assert first == second


class ByColumns(nn.Module):
    """Products with ``[in, out]`` weights, as GPT-2's; or with the same weights as linear layers have them."""

    def __init__(self, linear: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        up, down, self.bias = torch.randn(256, 512), torch.randn(512, 256) / 16, nn.Parameter(torch.randn(512))
        self.linear = linear
        self.up, self.down = (nn.Parameter(weight.t().contiguous() if linear else weight) for weight in (up, down))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.linear:
            return nn.functional.linear(nn.functional.linear(x, self.up, self.bias).relu(), self.down)
        return torch.addmm(self.bias, x, self.up).relu() @ self.down


@pytest.mark.parametrize("name", ["q4_k", "q8_0", "f16"])
def test_weights_that_are_read_by_columns_are_stored_so(name: str, tmp_path: Path) -> None:
    x = torch.randn(3, 256)
    modules = [ByColumns(linear) for linear in (False, True)]
    config = GgmlQuantConfig(name, importance=Importance.collect(modules[0], [x]))
    made = []
    for module in modules:
        executorch_ggml.export(module, (x,), quantize=config).save(str(tmp_path / "model.pte"))
        assert (tmp_path / "model.pte").stat().st_size < 2 * 256 * 512 * 2.1
        made.append(executorch_ggml.load(tmp_path / "model.pte")(x))
    assert torch.equal(*made)
    reports = [report(module, config, [x]) for module in modules]
    assert reports[0].tensors == reports[1].tensors
    assert [tensor.shape for tensor in reports[0].tensors] == [(512, 256), (256, 512)]
    columns, rows = (dict(dequantized(module, config, x).named_parameters()) for module in modules)
    assert all(torch.equal(columns[weight], rows[weight].t()) for weight in ("up", "down"))


class Image(nn.Module):
    """Convolutions of all kinds."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.deep, self.up = nn.Conv2d(16, 16, 3, groups=16), nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.last = nn.Conv2d(8, 32, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.first(x)))
        out: torch.Tensor = self.last(self.up(self.deep(x)))
        return out


def test_convolutions_are_kept_in_half_types() -> None:
    image, x = Image().eval(), torch.randn(1, 3, 9, 9)
    config = GgmlQuantConfig("q8_0", min_elements=0)
    graph = lowered(image, (x,), weights=config)
    blocked = [constant for constant in graph.constants if constant.storage != PLAIN]
    assert {constant.value.dtype for constant in blocked} == {DType.F16}
    (made,) = run_session(session(graph), (x,))
    assert_same(made, image(x), 2e-3)
    assert_same(made, dequantized(image, config, x)(x), 1e-3)  # norms are folded in before the rounding


def test_tied_weights_are_stored_once(tmp_path: Path) -> None:
    tied = nn.Sequential(nn.Embedding(64, 256), nn.Linear(256, 64, bias=False)).eval()
    tied[1].weight = tied[0].weight
    config = GgmlQuantConfig("q4_k", importance=Importance.collect(tied, [TOKENS]))
    made = delegated(tied, (TOKENS,), tmp_path, weights=config)
    size = DType.Q4_K.nbytes(64 * 256)
    assert size < made.path.stat().st_size < size + 8000
