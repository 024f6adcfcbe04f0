"""Models that GgmlQuantizer quantized: integers from layer to layer, and quantized eager's steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.frontends.aten.grids import ops_of
from tests.frontends.aten.test_quantized_network import Residual, is_named
from tests.helpers import Calls, lowered, run_session, session
from torch import Tensor, fx, nn
from torch.nn import functional as F
from torchao.quantization.pt2e import allow_exported_model_train_eval, move_exported_model_to_train
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e, prepare_qat_pt2e

from executorch_ggml.quant.pt2e import GgmlQuantizer, int8_config

INTEGER = {
    *("quantized_conv_2d_nhwc", "quantized_linear", "quantized_binary", "quantized_pool_2d_nhwc", "lookup"),
    *("quantize", "dequantize", "reshape", "permute", "cont", "concat", "pool_2d_nhwc", "max_pool_2d_nhwc"),
}


class Mobile(nn.Module):
    """MobileNet's layers: depthwise convolutions, bounded and smooth functions, squeeze and excitation."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16)
        self.depthwise, self.point = nn.Conv2d(16, 16, 3, 1, 1, groups=16), nn.Conv2d(16, 16, 1)
        self.squeeze, self.excite = nn.Conv2d(16, 8, 1), nn.Conv2d(8, 16, 1)
        self.grouped, self.head = nn.Conv2d(16, 24, 3, groups=4), nn.Linear(24, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.hardswish(self.norm(self.stem(x)))
        y = F.relu6(self.depthwise(x))
        y = y * F.hardsigmoid(self.excite(torch.relu(self.squeeze(F.adaptive_avg_pool2d(y, 1)))))
        x = x + self.point(y)
        x = torch.cat([x[:, :8], F.avg_pool2d(x, 3, 1, 1)[:, 8:]], 1)
        x = F.interpolate(F.silu(x), scale_factor=2)
        return self.head(F.hardtanh(self.grouped(x), -1.0, 2.0).mean((2, 3)))


class Encoder(nn.Module):
    """BERT's layers: linear layers in int8; norms and attention in floats."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)
        self.first, self.second = nn.LayerNorm(32), nn.LayerNorm(32)

    def forward(self, x: Tensor) -> Tensor:
        heads = self.qkv(x).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(heads[0], heads[1], heads[2])
        x = self.first(x + self.out(attended.transpose(1, 2).flatten(2)))
        return self.second(x + self.down(F.gelu(self.up(x))))


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "residual": (Residual, (1, 3, 50, 38)),
    "mobile": (Mobile, (2, 3, 21, 18)),
    "encoder": (Encoder, (2, 7, 32)),
}


def quantized(name: str, **config: bool) -> tuple[fx.GraphModule, Tensor]:
    make, shape = MODELS[name]
    torch.manual_seed(0)
    model, x = make().eval(), torch.randn(shape)
    quantizer = GgmlQuantizer(int8_config(**config))
    qat = config.get("qat", False)
    graph: Any = torch.export.export(model.train() if qat else model, (x,)).module()
    prepared: Any = (prepare_qat_pt2e if qat else prepare_pt2e)(graph, quantizer)
    if qat:
        move_exported_model_to_train(prepared)
        prepared(x).square().mean().backward()
    with torch.no_grad():
        prepared(x)
        prepared(x * 0.7)
    converted: Any = convert_pt2e(prepared)
    allow_exported_model_train_eval(converted)  # in place
    converted.eval()  # returns nothing
    return converted, x


class Following(fx.Interpreter):
    """Quantized eager, which goes on with our integers after it has compared its own with them."""

    def __init__(self, module: fx.GraphModule, ours: dict[fx.Node, Tensor]) -> None:
        super().__init__(module)
        self.ours = ours
        self.off: list[int] = []

    def run_node(self, node: fx.Node) -> Any:
        value = super().run_node(node)
        if node not in self.ours:
            return value
        self.off.append(int((value.int() - self.ours[node].int()).abs().max()))
        return self.ours[node]


def check_steps(module: fx.GraphModule, x: Tensor) -> int:
    """Each integer is at most one step from what eager makes of the same inputs; how many roundings there are."""
    nodes = [node for node in module.graph.nodes if is_named(node, "quantize_per_tensor")]
    (output,) = module.graph.find_nodes(op="output")
    result = output.all_input_nodes[0]
    output.args = ((*nodes, result),)
    module.graph.set_codegen(fx.graph.CodeGen())
    module.recompile()
    with torch.no_grad():
        *integers, ours = run_session(session(lowered(Calls(module), (x,))), (x,))
        eager = Following(module, dict(zip(nodes, integers, strict=True)))
        *_, expected = eager.run(x)
    assert max(eager.off) <= 1
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)
    return len(eager.off)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_static(name: str, per_channel: bool, symmetric: bool) -> None:
    module, x = quantized(name, per_channel=per_channel, symmetric=symmetric)
    if symmetric:
        zeros = {node.args[2] for node in module.graph.nodes if is_named(node, "quantize_per_tensor")}
        assert zeros == {0}
    assert check_steps(module, x) > 3


@pytest.mark.parametrize("name", ["residual", "mobile"])
def test_nothing_between_layers_is_widened(name: str) -> None:
    module, x = quantized(name)
    graph = lowered(Calls(module), (x,))
    count = Counter(node.op for node in graph.nodes)
    assert count["quantize"] == 1  # the input
    assert count["dequantize"] == 0  # the last layer gives floats
    assert not {"conv_2d", "conv_2d_nhwc", "linear", "add", "mul", "binary", "sum", "pool_2d"} & ops_of(graph)
    assert count["quantized_conv_2d_nhwc"] + count["quantized_linear"] == {"residual": 10, "mobile": 7}[name]


def test_encoder_widens_for_norms_and_attention_alone() -> None:
    module, x = quantized("encoder")
    graph = lowered(Calls(module), (x,))
    count = Counter(node.op for node in graph.nodes)
    assert count["quantized_linear"] == 4
    assert count["lookup"] == 1  # GELU
    assert count["linear"] == count["dequantize"] == 0
    assert count["quantize"] == 3  # what layers read of the input, attention and the first norm


@pytest.mark.parametrize("name", MODELS)
def test_dynamic(name: str) -> None:
    module, x = quantized(name, dynamic=True)
    with torch.no_grad():
        expected = module(x)
    graph = lowered(Calls(module), (x,))
    assert "quantized_linear" in ops_of(graph)
    (result,) = run_session(session(graph), (x,))
    assert float((result - expected).abs().max()) <= 0.02 * float(expected.abs().max())


@pytest.mark.slow  # torchao traces some hundred patterns of batch norms
@pytest.mark.parametrize("name", ["residual", "mobile"])
def test_trained(name: str) -> None:
    module, x = quantized(name, qat=True)
    assert not any("batch_norm" in str(node.target) for node in module.graph.nodes)
    assert check_steps(module, x) > 3


def test_a_part_can_stay_in_floats() -> None:
    torch.manual_seed(0)
    x = torch.randn(MODELS["residual"][1])
    quantizer = GgmlQuantizer().set_filter_function(lambda node: "head" not in str(node.meta.get("nn_module_stack")))
    prepared: Any = prepare_pt2e(torch.export.export(Residual().eval(), (x,)).module(), quantizer)
    prepared(x)
    converted: Any = convert_pt2e(prepared)
    allow_exported_model_train_eval(converted)
    graph = lowered(Calls(converted), (x,))
    assert "linear" in ops_of(graph)
    assert "quantized_linear" not in ops_of(graph)
