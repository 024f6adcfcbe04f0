"""Low precision as a choice: layers against eager PyTorch that rounds the same numbers and sums in f32."""

from __future__ import annotations

import copy
import functools
import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from tests.helpers import assert_same, decomposed, exported, for_cpu
from torch import Tensor, nn
from torch.nn import functional as F

import executorch_ggml
from executorch_ggml import GgmlPartitioner
from executorch_ggml.cli import main
from executorch_ggml.frontends.aten import Lowering
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.ir.graph import Graph
from executorch_ggml.ir.interpreter import Interpreter
from executorch_ggml.ir.serialize import serialize
from executorch_ggml.ir.verify import verify
from executorch_ggml.passes import run_passes
from executorch_ggml.passes.dynamic_integers import LEAST
from executorch_ggml.runtime import Session
from executorch_ggml.targets import for_targets

HALVES = {"bf16": torch.bfloat16, "f16": torch.float16}
halves = pytest.mark.parametrize("precision", HALVES)
LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose2d)
NEXT = {
    "f16": 3e-4,
    "bf16": 2e-3,
}  # what a sum's last bits change where they decide how it is rounded for the next layer
SUMS = 3e-6  # of the largest output: what the order of sums in f32 changes; bf16 rounds to 4e-3, f16 to 5e-4


def to_half(x: Tensor, precision: str) -> Tensor:
    return x.to(HALVES[precision]).float()


def is_depthwise(module: nn.Module) -> bool:
    return isinstance(module, nn.modules.conv._ConvNd) and module.groups == module.in_channels != 1


def in_halves(model: nn.Module, precision: str, *, activations: bool = True) -> nn.Module:
    """The model with what its layers multiply rounded, but for depthwise convolutions."""
    model = copy.deepcopy(model)
    for module in model.modules():
        if isinstance(module, LAYERS) and not is_depthwise(module):
            module.weight = nn.Parameter(
                to_half(module.weight.detach(), precision)
            )  # an embedding may share the old one
            if activations:
                module.register_forward_pre_hook(lambda _, args: (to_half(args[0], precision),))
    return model


def int8_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Rows of both operands in int8, exact sums."""
    x_scale = x.abs().amax(-1, keepdim=True).clamp_min(LEAST) * torch.tensor(1 / 127)
    w_scale = weight.abs().amax(1).clamp_min(LEAST) / 127
    integers = torch.round(x / x_scale).clamp(-127, 127).double()
    weights = torch.round(weight / w_scale[:, None]).clamp(-127, 127).double()
    y = (integers @ weights.T).float() * w_scale * x_scale
    return y if bias is None else y + bias


def in_int8(model: nn.Module) -> nn.Module:
    """The model with its linear layers in int8."""
    model = copy.deepcopy(model)
    for module in model.modules():
        if isinstance(module, nn.Linear):
            bound = lambda x, module=module: int8_linear(x, module.weight, module.bias)
            module.forward = bound  # type: ignore[method-assign]
    return model


def run(path: Path, *inputs: Tensor) -> Any:
    return executorch_ggml.load(path)(*inputs)


@pytest.fixture
def saved(tmp_path: Path) -> Callable[..., Path]:
    """Writes a model's program."""

    def save(model: nn.Module, inputs: tuple[Any, ...], **options: Any) -> Path:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.pte"
        options.setdefault("report_error", False)
        executorch_ggml.export(model.eval(), inputs, **options).save(str(path))
        return path

    return save


class Rows(nn.Module):
    """A linear layer over rows in three dims, with an activation that the layer takes in."""

    def __init__(self, inputs: int, outputs: int, *, bias: bool = True) -> None:
        super().__init__()
        self.layer = nn.Linear(inputs, outputs, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.layer(x))


class Scaled(nn.Module):
    """A 1x1 convolution of an image whose channels are multiplied with a factor each, as by squeeze-and-excitation."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.layer = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.layer(x.mean((2, 3), keepdim=True).sigmoid() * x))


def _models() -> dict[str, tuple[nn.Module, tuple[int, ...]]]:
    """Models with the shapes of their inputs; whoever imports this, the weights are the same."""
    torch.manual_seed(0)
    return {
        "linear": (Rows(67, 33), (2, 5, 67)),
        "linear without bias": (Rows(1, 1, bias=False), (1, 1)),
        "wide linear": (Rows(515, 130), (9, 515)),
        "conv": (nn.Conv2d(3, 20, 3, stride=2, padding=1), (2, 3, 11, 9)),
        "conv of one channel": (nn.Conv2d(1, 7, 5, stride=2, padding=2), (2, 1, 13, 12)),
        "conv of large images": (nn.Conv2d(34, 9, 5, stride=2, padding=2), (2, 34, 80, 70)),  # rounded strip by strip
        "conv 1x1": (nn.Conv2d(19, 35, 1), (1, 19, 7, 5)),
        "by winograd": (nn.Conv2d(18, 33, 3, padding=1), (1, 18, 19, 17)),
        "grouped": (nn.Conv2d(12, 18, 3, groups=3, dilation=2, bias=False), (2, 12, 9, 8)),
        "depthwise": (
            nn.Sequential(nn.Conv2d(21, 21, 3, groups=21, padding=1), nn.Conv2d(21, 6, 1)),
            (2, 21, 7, 6),
        ),
        "transposed": (nn.ConvTranspose2d(6, 10, 4, stride=2, padding=1, groups=2), (1, 6, 5, 7)),
        "transposed depthwise": (
            nn.Sequential(nn.ConvTranspose2d(6, 6, 3, stride=2, groups=6), nn.Conv2d(6, 4, 2)),
            (1, 6, 4, 4),
        ),
        "conv 1d": (nn.Conv1d(5, 9, 4, padding=2), (3, 5, 13)),
        "conv 3d": (nn.Conv3d(2, 5, 3, padding=1), (1, 2, 4, 5, 6)),
        "scaled": (Scaled(37, 18), (3, 37, 9, 7)),
    }


with torch.random.fork_rng():
    MODELS = _models()

ROUND_SUMS = ("depthwise", "transposed depthwise", "scaled")
"""Models whose last layer rounds what depends on the order of sums."""


def assert_rounded(name: str, actual: Tensor, expected: Tensor, precision: str) -> None:
    """The same; but sums next to a tie may be rounded to either side by the last layer, as their order decides."""
    assert_same(actual, expected, NEXT[precision] if name in ROUND_SUMS else SUMS)
    bound = SUMS * float(expected.abs().max())
    assert float(((actual - expected).abs() > bound).double().mean()) < 0.1


class Each(nn.Module):
    """Some models in one program, each on an input of its own."""

    def __init__(self, models: Iterable[nn.Module]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(model(x) for model, x in zip(self.models, inputs, strict=True))


def run_each(models: Iterable[nn.Module], inputs: Sequence[Tensor], **options: Any) -> tuple[Tensor, ...]:
    """What one program of all the models gives for their inputs."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "models.pte"
        program = executorch_ggml.export(Each(models).eval(), tuple(inputs), report_error=False, **options)
        program.save(str(path))
        return tuple(run(path, *inputs))


@functools.cache
def rounded_operands(precision: str) -> dict[str, tuple[Tensor, Tensor]]:
    """Each model's input and output."""
    torch.manual_seed(0)
    inputs = [torch.randn(shape) for _, shape in MODELS.values()]
    outputs = run_each((model for model, _ in MODELS.values()), inputs, precision=precision)
    return dict(zip(MODELS, zip(inputs, outputs, strict=True), strict=True))


@halves
@pytest.mark.parametrize("name", MODELS)
def test_operands_are_rounded(name: str, precision: str) -> None:
    x, actual = rounded_operands(precision)[name]
    assert_rounded(name, actual, in_halves(MODELS[name][0], precision)(x), precision)


@halves
def test_rounding_of_what_is_multiplied_shows(precision: str, saved: Callable[..., Path]) -> None:
    """The tolerance of these tests tells rounded activations from others."""
    torch.manual_seed(0)
    model, shape = MODELS["linear"]
    x = torch.randn(shape)
    actual = run(saved(model, (x,), precision=precision), x)
    for other in (model, in_halves(model, precision, activations=False)):
        with pytest.raises(AssertionError, match="off by"):
            assert_same(actual, other(x), SUMS)


@halves
@pytest.mark.parametrize("name", ["linear", "conv", "depthwise"])
def test_stock_ops_round_too(name: str, precision: str) -> None:
    """The graph for ggml's other devices computes the same, in the op table's references."""
    torch.manual_seed(0)
    model, shape = MODELS[name]
    x = torch.randn(shape)
    graph = run_passes(Lowering(decomposed(exported(model.eval(), (x,)))).graph(), precision=precision)
    for each in for_targets(graph):
        verify(each)
        assert_same(Interpreter(each).run(x)[0], in_halves(model, precision)(x), SUMS, each.target.name)


def stored_graph(model: nn.Module, x: Tensor, precision: str | None) -> Graph:
    return for_cpu(run_passes(Lowering(decomposed(exported(model.eval(), (x,)))).graph(), precision=precision))


def ops_of(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


class Special(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


@halves
def test_numbers_that_are_not_finite(precision: str, saved: Callable[..., Path]) -> None:
    torch.manual_seed(0)
    model = Special()
    x = torch.randn(6, 8)
    x[0, 1], x[1, 2], x[2, 3], x[3, 4] = torch.nan, torch.inf, -torch.inf, 3.4e38  # the last: bf16 and f16 overflow
    actual = run(saved(model, (x,), precision=precision), x)
    assert_same(actual, in_halves(model, precision)(x), SUMS)
    assert not torch.isfinite(actual[:4]).all(1).any()


def attention_of_bfloats(
    q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, *, scale: float | None = None, **_: Any
) -> Tensor:
    """Attention over rounded numbers; of the softmax, its numerators are rounded too. Neither causal nor grouped."""
    q, k, v = (to_half(t, "bf16") for t in (q, k, v))
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if attn_mask is not None:
        scores = torch.where(attn_mask, scores, -torch.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
    numerators = torch.exp(scores - scores.amax(-1, keepdim=True))
    return to_half(numerators, "bf16") @ v / numerators.sum(-1, keepdim=True)


class Attention(nn.Module):
    """Products of computed tensors stay in f32, but those of attention in bf16."""

    attend: Callable[..., Tensor]

    def __init__(self, attend: Callable[..., Tensor] = F.scaled_dot_product_attention) -> None:
        super().__init__()
        self.qkv = nn.Linear(24, 72)
        self.out = nn.Linear(24, 24)
        self.attend = attend

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (3, 8)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return self.out(self.attend(q, k, v).transpose(1, 2).flatten(2)) @ x.transpose(1, 2)


@halves
@pytest.mark.parametrize("tokens", [5, 40])  # few rows, and so many that keys and values are packed
def test_products_of_computed_tensors(precision: str, tokens: int, saved: Callable[..., Path]) -> None:
    torch.manual_seed(0)
    model, x = Attention(), torch.randn(2, tokens, 24)
    actual = run(saved(model, (x,), precision=precision), x)
    rounding = Attention(attention_of_bfloats if precision == "bf16" else F.scaled_dot_product_attention)
    rounding.load_state_dict(model.state_dict())
    expected = in_halves(rounding, precision)
    # what attention gives is rounded to the next number of the half type where its last bits differ
    assert_same(actual, expected(x), 3e-4 if precision == "f16" else 2e-3)
    graph = stored_graph(model, x, precision)
    assert ops_of(graph).count("unary") == 2
    (attention,) = (node for node in graph.nodes if node.op == "attention")
    kinds = {value.dtype for value in attention.inputs[1:3] if value is not None}
    assert kinds == {DType.BF16 if precision == "bf16" else DType.F32}


def test_attention_over_a_cache_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Cached(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.kv = nn.Linear(16, 16), nn.Linear(16, 16)
            self.cache: Tensor
            self.register_buffer("cache", torch.zeros(1, 1, 32, 16))

        def forward(self, x: Tensor, position: Tensor) -> Tensor:
            self.cache.index_copy_(2, position, self.kv(x)[:, None])
            return F.scaled_dot_product_attention(self.q(x)[:, None], self.cache, self.cache)

    model, x, position = Cached().eval(), torch.randn(1, 3, 16), torch.tensor([4, 5, 6])
    partitioner = GgmlPartitioner(precision="bf16")
    edge = to_edge_transform_and_lower(torch.export.export(model, (x, position)), partitioner=[partitioner])
    edge.to_executorch().save(str(tmp_path / "model.pte"))
    actual = executorch_ggml.load(tmp_path / "model.pte")(x, position)
    assert_same(actual, in_halves(model, "bf16")(x, position), NEXT["bf16"])
    assert main(["inspect", "--summary", str(tmp_path / "model.pte")]) == 0
    summary = capsys.readouterr().out
    assert "attention x1" in summary
    assert "convert" not in summary


@halves
def test_one_rounding_serves_all_layers_that_read_it(precision: str) -> None:
    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(16, 8), nn.Linear(16, 5)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return F.relu(self.a(x)), F.gelu(self.b(x))

    graph = stored_graph(Branches(), torch.randn(3, 16), precision)
    assert ops_of(graph) == ["unary", "linear", "linear"]


@halves
def test_batch_norm_is_folded_before_weights_are_rounded(precision: str, saved: Callable[..., Path]) -> None:
    torch.manual_seed(0)
    conv, norm = nn.Conv2d(5, 7, 3), nn.BatchNorm2d(7)
    norm(torch.randn(9, 7, 4, 4) * 3 + 1)
    x = torch.randn(1, 5, 6, 6)
    actual = run(saved(nn.Sequential(conv, norm), (x,), precision=precision), x)
    folded = nn.utils.fuse_conv_bn_eval(conv.eval(), norm.eval())
    # folding in f64 and in f32 may round a weight to neighbours
    assert_same(actual, in_halves(folded, precision)(x), 2e-4 if precision == "f16" else 1e-3)


@pytest.mark.parametrize("precision", [*HALVES, "int8-dynamic"])
def test_dynamic_batch(precision: str, saved: Callable[..., Path]) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 7))
    batch = torch.export.Dim("batch", max=40)
    path = saved(model, (torch.randn(4, 20),), dynamic_shapes=({0: batch},), precision=precision)
    expected = in_int8(model) if precision == "int8-dynamic" else in_halves(model, precision)
    for n in (1, 2, 17, 40):
        x = torch.randn(n, 20)
        # a sum's last bit may decide how it is rounded for the second layer
        assert_same(run(path, x), expected(x), {"f16": 3e-4, "bf16": 2e-3, "int8-dynamic": 8e-3}[precision])


@pytest.mark.parametrize(("precision", "share"), [("bf16", 2), ("f16", 2), ("int8-dynamic", 4)])
def test_files_shrink(precision: str, share: int, saved: Callable[..., Path]) -> None:
    model, x = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)), torch.randn(1, 512)
    before = saved(model, (x,)).stat().st_size
    after = saved(model, (x,), precision=precision).stat().st_size
    weights = 2 * 512 * 512 * 4
    assert after < before - weights + weights // share + 12_000


@halves
def test_depthwise_convolutions_stay_in_float32(precision: str, saved: Callable[..., Path]) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(6, 40, 1), nn.Conv2d(40, 40, 3, groups=40, padding=1), nn.Conv2d(40, 8, 1))
    x = torch.randn(2, 6, 9, 8)
    assert_same(run(saved(model, (x,), precision=precision), x), in_halves(model, precision)(x), NEXT[precision])
    graph = stored_graph(model, x, precision)
    dtypes = [node.inputs[1].dtype for node in graph.nodes if node.op == "conv_2d_nhwc" and node.inputs[1] is not None]
    half = DType.BF16 if precision == "bf16" else DType.F16
    assert dtypes == [half, DType.F32, half]
    assert ops_of(graph).count("unary") == 2
    with pytest.raises(ValueError, match="no layer with constant weights in float32"):
        saved(nn.Conv2d(40, 40, 3, groups=40), (torch.randn(1, 40, 5, 5),), precision=precision)


class Block(nn.Module):
    """A block of MobileNet, which the CPU computes strip by strip, and what else reads the inputs of its layers."""

    def __init__(self, *, watched: bool) -> None:
        super().__init__()
        self.widen, self.narrow = nn.Conv2d(10, 70, 1), nn.Conv2d(70, 10, 1)
        self.depthwise = nn.Conv2d(70, 70, 3, padding=1, groups=70)
        self.watched = watched

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        x = F.relu6(self.widen(x)) if self.watched else self.widen(x)
        hidden = F.hardswish(self.depthwise(x))
        y = self.narrow(hidden)
        return (y, hidden) if self.watched else (y,)


@halves
@pytest.mark.parametrize("watched", [False, True])
def test_blocks_in_strips(watched: bool, precision: str, saved: Callable[..., Path]) -> None:
    torch.manual_seed(0)
    model, x = Block(watched=watched), torch.randn(2, 10, 60, 50)
    results = executorch_ggml.load(saved(model, (x,), precision=precision))(x)
    results = results if isinstance(results, tuple) else (results,)
    for actual, expected in zip(results, in_halves(model, precision)(x), strict=True):
        assert_same(actual, expected, NEXT[precision])


@halves
def test_what_is_rounded_between_layers_in_strips(precision: str, saved: Callable[..., Path]) -> None:
    """Of integers all sums are exact: a result that is not rounded before the last layer shows, and no tie does."""
    torch.manual_seed(0)
    depthwise = nn.Conv2d(70, 70, 3, padding=1, groups=70)
    model = nn.Sequential(nn.Conv2d(10, 70, 1), depthwise, nn.Conv2d(70, 10, 1))
    for parameter in model.parameters():
        parameter.data = torch.randint(-4, 5, parameter.shape).float()
    x = torch.randint(-99, 100, (2, 10, 60, 50)).float()
    actual = executorch_ggml.load(saved(model, (x,), precision=precision))(x)
    assert torch.equal(actual, in_halves(model, precision)(x))
    assert not torch.equal(actual, model(x))


class Steps(nn.Module):
    """One layer that is used several times, as in a recurrent network."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(40, 40)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(3):
            x = torch.tanh(self.layer(x)) * 1.7
        return x


@halves
def test_all_layers_of_one_weight_are_rounded(precision: str, saved: Callable[..., Path]) -> None:
    torch.manual_seed(0)
    model, x = Steps(), torch.randn(1, 40)
    assert_same(run(saved(model, (x,), precision=precision), x), in_halves(model, precision)(x), NEXT[precision])
    roundings = (ops_of(stored_graph(model, x, each)).count("unary") for each in (precision, None))
    assert next(roundings) == next(roundings) + 3


@pytest.mark.parametrize("shape", [(2, 5, 67), (1, 67), (40, 67)])
def test_int8_rows(shape: tuple[int, ...], saved: Callable[..., Path]) -> None:
    torch.manual_seed(0)
    model, x = Rows(67, 33, bias=False), torch.randn(shape) * torch.logspace(-6, 6, shape[-2])[:, None]
    path = saved(model, (x,), precision="int8-dynamic")
    actual, expected = run(path, x), in_int8(model)(x)
    for row, wanted in zip(actual.flatten(0, -2), expected.flatten(0, -2), strict=True):
        assert_same(row, wanted, SUMS)
    with pytest.raises(AssertionError, match="off by"):
        assert_same(actual, model(x), SUMS)


def test_int8_rows_that_are_not_finite(saved: Callable[..., Path]) -> None:
    torch.manual_seed(0)
    model, x = Special(), torch.randn(5, 8)
    x[0, 1], x[1, 2], x[2] = torch.nan, torch.inf, 0.0
    actual = run(saved(model, (x,), precision="int8-dynamic"), x)
    assert not torch.isfinite(actual[:2]).any()
    assert_same(actual[2:], in_int8(model)(x)[2:], SUMS)
    assert torch.equal(actual[2], model.layer.bias)


def test_int8_leaves_convolutions_in_float32(saved: Callable[..., Path]) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(64, 5))
    x = torch.randn(2, 3, 6, 6)
    assert_same(run(saved(model, (x,), precision="int8-dynamic"), x), in_int8(model)(x), 8e-3)
    assert ops_of(stored_graph(model, x, "int8-dynamic")).count("conv_2d_nhwc") == 1


@pytest.mark.parametrize("precision", [*HALVES, "int8-dynamic"])
def test_quantized_weights_keep_their_type(precision: str, saved: Callable[..., Path]) -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)), torch.randn(3, 64)
    config = executorch_ggml.quant.GgmlQuantConfig(default=None, rules={"0.weight": "q8_0"})
    path = saved(model, (x,), quantize=config, precision=precision)
    assert_same(run(path, x), model(x), 2e-2)
    with pytest.raises(ValueError, match="no layer with constant weights in float32"):
        saved(model, (x,), quantize="q8_0", precision=precision)


def test_half_models_have_no_layer_for_int8(saved: Callable[..., Path]) -> None:
    model, x = nn.Linear(16, 16).half(), torch.randn(3, 16).half()
    with pytest.raises(ValueError, match="precision 'int8-dynamic': no layer"):
        saved(model, (x,), precision="int8-dynamic")


HALF_LAYERS = {
    (inputs, bias, rows): nn.Linear(inputs, 35, bias=bias)
    for inputs, bias in ((66, False), (67, True))
    for rows in (1, 2, 7, 8, 33)
}


@functools.cache
def half_models(dtype: torch.dtype, precision: str) -> dict[tuple[int, bool, int], tuple[nn.Module, Tensor, Tensor]]:
    """The layers in a half type, with their inputs and outputs."""
    torch.manual_seed(0)
    layers = [copy.deepcopy(layer).to(dtype) for layer in HALF_LAYERS.values()]
    xs = [torch.randn(rows, inputs).to(dtype) for inputs, _, rows in HALF_LAYERS]
    outputs = run_each(layers, xs, precision=precision)
    return dict(zip(HALF_LAYERS, zip(layers, xs, outputs, strict=True), strict=True))


@halves
@pytest.mark.parametrize("dtype", HALVES.values(), ids=str)
@pytest.mark.parametrize("layer", HALF_LAYERS, ids=str)
def test_half_models(layer: tuple[int, bool, int], dtype: torch.dtype, precision: str) -> None:
    """Weights that a model has in a half type are rounded to the precision, and so is what they multiply."""
    model, x, actual = half_models(dtype, precision)[layer]
    expected = in_halves(copy.deepcopy(model).float(), precision)(x.float())
    assert_same(actual, expected.to(dtype), 2.0**-7 if dtype == torch.bfloat16 else 2.0**-10)


@halves
@pytest.mark.parametrize("stored", ["f16", "bf16"])
def test_weights_stored_in_halves(stored: str, precision: str, saved: Callable[..., Path]) -> None:
    """Of a model in float32, with what rounding twice gives, NaN and infinities; odd rows too."""
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(66, 33), nn.Linear(33, 130, bias=False)), torch.randn(9, 66)
    x[2, 5], x[4, 0] = float("nan"), float("inf")
    actual = run(saved(model, (x,), precision=precision, quantize=stored), x)
    for layer in model:
        assert isinstance(layer, nn.Linear)
        layer.weight = nn.Parameter(to_half(layer.weight.detach(), stored))
    assert_same(actual, in_halves(model, precision)(x), SUMS)


def test_errors(saved: Callable[..., Path]) -> None:
    x = torch.randn(2, 4)
    with pytest.raises(ValueError, match="precision 'fp8', expected one of bf16, f16, int8-dynamic"):
        saved(nn.Linear(4, 4), (x,), precision="fp8")
    with pytest.raises(ValueError, match="no layer with constant weights"):
        saved(nn.ReLU(), (x,), precision="bf16")
    with pytest.raises(ValueError, match="needs the fusion half_weights, which is switched off"):
        GgmlPartitioner(precision="f16", fusions=())


PARTITIONED = ("linear", "conv", "grouped", "depthwise", "transposed")


@functools.cache
def for_some_targets(targets: tuple[str, ...], precision: str) -> dict[str, tuple[Tensor, Tensor]]:
    """Some models' inputs and outputs, from a program of them all."""
    torch.manual_seed(0)
    models = [MODELS[name][0] for name in PARTITIONED]
    inputs = tuple(torch.randn(MODELS[name][1]) for name in PARTITIONED)
    partitioner = GgmlPartitioner(precision=precision, targets=targets)
    program = to_edge_transform_and_lower(exported(Each(models).eval(), inputs), partitioner=[partitioner])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pte"
        program.to_executorch().save(str(path))
        return dict(zip(PARTITIONED, zip(inputs, run(path, *inputs), strict=True), strict=True))


@halves
@pytest.mark.parametrize("name", PARTITIONED)
@pytest.mark.parametrize("targets", [("ggml",), ("cpu", "ggml")])
def test_partitioner(targets: tuple[str, ...], name: str, precision: str) -> None:
    """Programs for one target or both; in stock ops ggml itself multiplies."""
    x, actual = for_some_targets(targets, precision)[name]
    assert_rounded(name, actual, in_halves(MODELS[name][0], precision)(x), precision)


def float_session(model: nn.Module, x: Tensor, precision: str | None, dynamic: Any = None) -> Session:
    """A session of a program that was lowered without a precision."""
    graph = run_passes(Lowering(decomposed(exported(model.eval(), (x,), dynamic))).graph())
    graphs = for_targets(graph)
    constants = {entry.key: entry.stored() for each in graphs for entry in each.named_constants()}
    return Session(serialize(*graphs), constants, precision=precision)


@pytest.mark.parametrize("precision", [*HALVES, "int8-dynamic"])
@pytest.mark.parametrize("name", ["linear", "conv", "grouped", "depthwise", "transposed"])
def test_sessions(name: str, precision: str) -> None:
    torch.manual_seed(0)
    model, shape = MODELS[name]
    x = torch.randn(shape)
    if precision == "int8-dynamic" and name != "linear":
        with pytest.raises(ValueError, match="no layer has float32 weights"):
            float_session(model, x, precision)
        return
    (actual,) = float_session(model, x, precision).run(x)
    expected = in_int8(model) if precision == "int8-dynamic" else in_halves(model, precision)
    assert_same(torch.as_tensor(actual), expected(x), SUMS)


@pytest.mark.parametrize("precision", [*HALVES, "int8-dynamic"])
def test_sessions_of_whole_models(precision: str, saved: Callable[..., Path]) -> None:
    """Dynamic sizes, epilogues and views: the same numbers as from a program exported with the precision."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 6, 3, stride=2), nn.SiLU(), nn.Conv2d(6, 6, 1), nn.Flatten(), nn.Linear(150, 20), nn.GELU()
    )
    batch = torch.export.Dim("batch", max=9)
    x = torch.randn(2, 3, 11, 11)
    session = float_session(model, x, precision, ({0: batch},))
    path = saved(model, (x,), dynamic_shapes=({0: batch},), precision=precision)
    for n in (1, 2, 7):
        x = torch.randn(n, 3, 11, 11)
        (actual,) = session.run(x)
        torch.testing.assert_close(torch.as_tensor(actual), run(path, x), rtol=0, atol=0)


def test_sessions_of_bytes() -> None:
    """Constants may come as bytes; a program that has a precision keeps it."""
    torch.manual_seed(0)
    model, x = nn.Linear(9, 5), torch.randn(3, 9)
    graph = stored_graph(model, x, None)
    constants: dict[str, Any] = {
        entry.key: entry.stored().view(torch.uint8).numpy() for entry in graph.named_constants()
    }
    (actual,) = Session(serialize(graph), constants, precision="f16").run(x)
    assert_same(torch.as_tensor(actual), in_halves(model, "f16")(x), SUMS)
    graph = stored_graph(model, x, "bf16")
    constants = {entry.key: entry.stored() for entry in graph.named_constants()}
    with pytest.raises(ValueError, match="was exported with one, which it keeps"):
        Session(serialize(graph), constants, precision="f16")
    with pytest.raises(ValueError, match="precision='f16' on Vulkan0: export the program with it"):
        Session(serialize(graph), constants, precision="f16", device="Vulkan0")
    with pytest.raises(ValueError, match="expected one of bf16, f16, int8-dynamic"):
        Session(serialize(graph), constants, precision="f8")


class Counting(nn.Module):
    """A model whose call changes it, with an input by name and one that is no tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.calls: Tensor
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Tensor, *, shift: Tensor) -> tuple[Tensor, Tensor]:
        self.calls += 1
        return self.layer(x) + shift, self.calls + 0


def test_error_is_told(capsys: pytest.CaptureFixture[str], saved: Callable[..., Path]) -> None:
    torch.manual_seed(0)
    model, x, shift = Counting(), torch.randn(2, 8), torch.randn(8)
    saved(model, (x,), kwargs={"shift": shift}, precision="bf16", report_error=True)
    told = re.search(
        r"^precision bf16: largest error (\S+) of the largest output$", capsys.readouterr().err, re.MULTILINE
    )
    assert told is not None
    expected = model(x, shift=shift)[0]
    actual = in_halves(model, "bf16")(x, shift=shift)[0]
    assert float(told[1]) == pytest.approx(float((actual - expected).abs().max() / expected.abs().max()), rel=0.1)
    assert model.calls == 1  # of this test's own call
    saved(model, (x,), kwargs={"shift": shift}, precision="bf16")
    assert capsys.readouterr().err.count("precision") == 0
