"""A residual network that PT2E quantized: the only steps that differ from eager's are those of numbers between two."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.frontends.aten.grids import ops_of
from tests.helpers import Calls, lowered, run_session, session
from torch import Tensor, fx, nn
from torch.nn import functional

from benchmarks import int8

BETWEEN = 1e-3  # how far from the middle of two steps float32 sums may take the other one


class Block(nn.Module):
    """Two convolutions and what is added to them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1)
        self.beside = nn.Identity() if stride == 1 else nn.Conv2d(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = self.second(torch.relu(self.first_norm(self.first(x))))
        return torch.relu(y + self.beside(x))


class Residual(nn.Module):
    """ResNet's layers."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 7, 2, 3)
        self.blocks = nn.Sequential(Block(16, 16, 1), Block(16, 40, 2), Block(40, 64, 2))
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.max_pool2d(torch.relu(self.stem(x)), 3, 2, 1)
        return self.head(self.blocks(x).mean((2, 3)))


def is_named(node: Any, name: str) -> bool:
    return isinstance(node, fx.Node) and node.op == "call_function" and f".{name}" in str(node.target)


class Rounded:
    """What a `quantize_per_tensor` node rounds, in float64 from the integers before it."""

    def __init__(self, node: fx.Node, values: dict[fx.Node, Tensor]) -> None:
        self.values = values
        arguments: Any = node.args
        source, self.scale, self.zero, self.low, self.high, _ = arguments
        self.source = source
        if is_named(source, "relu"):
            self.low, (self.source,) = self.zero, source.all_input_nodes

    def integers(self, node: fx.Node) -> Tensor:
        return self.values[node].double()

    def numbers(self, node: fx.Node) -> Tensor:
        """What a node dequantizes."""
        arguments: Any = node.args
        integers, scale, zero = arguments[:3]
        if is_named(node, "dequantize_per_channel"):
            return self.integers(integers) * self.integers(scale).reshape(-1, *[1] * (self.values[node].dim() - 1))
        return (self.integers(integers) - zero) * scale

    def steps(self) -> Tensor | None:
        """The number in steps of the result, within its bounds; None for what is no layer and no sum."""
        node = self.source
        if [is_named(value, "dequantize") for value in node.all_input_nodes[:2]] != [True, True]:
            return None
        x, y = (self.numbers(value) for value in node.all_input_nodes[:2])
        how: Any = node.args[3:]
        bias = None if len(node.all_input_nodes) < 3 else self.integers(node.all_input_nodes[2])
        if is_named(node, "conv2d"):
            exact = functional.conv2d(x, y, bias, *how)
        elif is_named(node, "linear"):
            exact = functional.linear(x, y, bias)
        elif is_named(node, "add"):
            exact = x + y
        else:
            return None
        return (exact / self.scale + self.zero).clamp(self.low, self.high)


def farthest(nodes: list[fx.Node], values: dict[fx.Node, Tensor]) -> Iterator[float]:
    """Of each layer and sum how far its integers are from the numbers that they round, at most."""
    for node in nodes:
        steps = Rounded(node, values).steps()
        if steps is not None:
            yield float((values[node] - steps).abs().max())


class Recording(fx.Interpreter):
    """Keeps what each node gives."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.values: dict[fx.Node, Tensor] = {}

    def run_node(self, node: fx.Node) -> Any:
        self.values[node] = super().run_node(node)
        return self.values[node]


@pytest.mark.parametrize("seed", [0, 1])
def test_layers_part_from_eager_between_two_steps_alone(seed: int) -> None:
    torch.manual_seed(seed)
    x = torch.randn(1, 3, 90, 70)
    module = int8.quantized(Residual().eval(), int8.calibration((x,)))
    assert isinstance(module, fx.GraphModule)
    nodes = [node for node in module.graph.nodes if is_named(node, "quantize_per_tensor")]
    (output,) = module.graph.find_nodes(op="output")
    output.args = ((*nodes, output.all_input_nodes[0]),)
    module.graph.set_codegen(fx.graph.CodeGen())  # of the outputs as they are now
    module.recompile()
    eager = Recording(module)
    with torch.no_grad():
        *_, expected = eager.run(x)
        graph = lowered(Calls(module), (x,))
        *integers, result = run_session(session(graph), (x,))
    assert {"quantized_conv_2d_nhwc", "quantized_linear", "quantized_binary"} <= ops_of(graph)
    values = eager.values | dict(zip(nodes, integers, strict=True))

    layers = [*farthest(nodes, eager.values)]
    assert len(layers) == 13  # 9 convolutions, a linear layer, 3 sums
    assert max(layers) <= 0.5 + BETWEEN
    assert max(farthest(nodes, values)) <= 0.5 + BETWEEN
    for node in nodes:
        differing = int((values[node] != eager.values[node]).sum())
        assert differing <= max(1, 0.01 * values[node].numel())
    # Those few are multiplied by the layers after them: no bound of one step follows for the end.
    step = Rounded(nodes[-1], values).scale
    assert float((result - expected).abs().max()) <= 2.01 * step
