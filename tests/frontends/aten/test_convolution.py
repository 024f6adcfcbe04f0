from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given as with_examples
from hypothesis import strategies as st
from tests.batches import check_case
from tests.helpers import (
    DYNAMIC,
    Case,
    Const,
    assert_all_same,
    assert_same,
    check_program,
    const,
    decomposed,
    delegated,
    exported,
    for_cpu,
    having,
    inf,
    nan,
    op,
    rand,
    run_interpreter,
    run_session,
    session,
)
from torch import Tensor, nn

from executorch_ggml.frontends.aten import Lowering
from executorch_ggml.passes import run_passes

aten = torch.ops.aten
CONV = aten.convolution.default


def _conv(
    x: Tensor,
    weight: Any,
    bias: Any = None,
    stride: Any = (1, 1),
    padding: Any = (0, 0),
    dilation: Any = (1, 1),
    transposed: bool = False,
    output_padding: Any = (0, 0, 0),
    groups: int = 1,
) -> Case:
    lists = [list(v) for v in (stride, padding, dilation)]
    case = op(CONV, x, weight, bias, *lists, transposed, list(output_padding)[: len(stride)], groups)
    suffix = ("t" if transposed else "") + ("" if bias is None else "b")
    label = f"{tuple(x.shape)}s{lists[0]}p{lists[1]}d{lists[2]}g{groups}{suffix}"
    return having(case, name=label)


def _plain() -> list[Case]:
    x = rand(2, 3, 9, 11)
    return [
        _conv(x, const(5, 3, 3, 3)),
        _conv(x, const(5, 3, 3, 3), const(5), padding=(1, 1)),
        _conv(x, const(5, 3, 1, 1), const(5)),
        _conv(x, const(17, 3, 3, 2), const(17), stride=(2, 3), padding=(2, 1)),
        _conv(x, const(4, 3, 2, 3), None, dilation=(2, 3)),
        _conv(x, const(4, 3, 3, 3), const(4), stride=(2, 2), padding=(3, 4), dilation=(2, 2)),
        _conv(x, const(33, 3, 5, 5), const(33), stride=(4, 4), padding=(2, 2)),
        _conv(x, const(5, 3, 9, 11)),
        _conv(x, const(5, 3, 3, 3), stride=[2], padding=[1], dilation=[1]),
        _conv(rand(2, 3, 9, 4), const(5, 3, 3, 3), stride=[2], padding=[2], dilation=[2]),
        _conv(rand(2, 6, 7, 8), const(4, 3, 3, 3), const(4), groups=2),
        _conv(rand(2, 6, 7, 8), const(9, 2, 3, 3), const(9), groups=3),
        _conv(rand(1, 40, 5, 5), const(40, 20, 3, 3), None, padding=(1, 1), groups=2),
        _conv(rand(0, 3, 5, 5), const(4, 3, 3, 3), const(4)),
        _conv(rand(1, 1, 1, 1), const(1, 1, 1, 1), const(1)),
        _conv(rand(3, 70, 3, 3), const(70, 70, 3, 3), const(70), padding=(1, 1)),
    ]


def _depthwise() -> list[Case]:
    x = rand(2, 19, 8, 7)
    return [
        _conv(x, const(19, 1, 3, 3), const(19), padding=(1, 1), groups=19),
        _conv(x, const(19, 1, 3, 5), None, stride=(2, 1), padding=(1, 2), dilation=(1, 1), groups=19),
        _conv(x, const(19, 1, 2, 2), const(19), dilation=(2, 3), groups=19),
        _conv(x, const(38, 1, 3, 3), const(38), groups=19),
        _conv(rand(1, 1, 6, 6), const(1, 1, 3, 3), const(1), groups=1),
    ]


def _one_dim() -> list[Case]:
    x = rand(2, 4, 13)
    return [
        _conv(x, const(5, 4, 3), const(5), [1], [1], [1], output_padding=[0]),
        _conv(x, const(6, 2, 4), None, [3], [2], [2], output_padding=[0], groups=2),
        _conv(x, const(4, 1, 3), const(4), [1], [1], [1], output_padding=[0], groups=4),
        _conv(x, const(4, 6, 3), const(6), [2], [1], [1], True, [1]),
        _conv(x, const(4, 3, 4), const(6), [3], [0], [2], True, [0], 2),
    ]


def _transposed() -> list[Case]:
    x = rand(2, 6, 4, 5)
    return [
        _conv(x, const(6, 5, 2, 2), const(5), (2, 2), transposed=True),
        _conv(x, const(6, 5, 3, 3), const(5), (2, 2), (1, 1), transposed=True, output_padding=(1, 1)),
        _conv(x, const(6, 5, 3, 4), None, (3, 2), (1, 2), transposed=True, output_padding=(2, 1)),
        _conv(x, const(6, 5, 3, 3), None, (1, 1), (0, 0), (2, 3), transposed=True),
        _conv(x, const(6, 5, 3, 3), const(5), (2, 2), (1, 1), (2, 2), transposed=True, output_padding=(1, 1)),
        _conv(x, const(6, 4, 3, 3), const(8), (2, 2), (1, 1), transposed=True, output_padding=(0, 1), groups=2),
        _conv(x, const(6, 1, 3, 3), const(6), (2, 2), (1, 1), transposed=True, groups=6),
        _conv(x, const(6, 1, 3, 3), const(6), (1, 1), (1, 1), transposed=True, groups=6),
        _conv(x, const(6, 5, 1, 1), const(5), (2, 2), transposed=True, output_padding=(1, 0)),
        _conv(x, const(6, 5, 2, 2), const(5), (1, 1), (1, 1), transposed=True),
        _conv(rand(1, 6, 4, 5), const(6, 5, 2, 2), const(5), (3, 3), (2, 2), transposed=True),
    ]


def _volumes() -> list[Case]:
    x, y = rand(2, 4, 5, 6, 7), rand(1, 4, 5, 4, 6)
    cases = []
    for v in (x, y):
        cases += [
            _conv(v, const(6, 4, 3, 3, 3), const(6), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
            _conv(v, const(6, 4, 2, 3, 1), None, (2, 1, 3), (1, 0, 2), (2, 1, 1)),
            _conv(v, const(5, 4, 1, 3, 3), const(5), (2, 1, 1), (0, 1, 1), (1, 1, 1)),
            _conv(v, const(5, 4, 3, 1, 1), const(5), (2, 1, 1), (2, 0, 0), (2, 1, 1)),
            _conv(v, const(17, 4, 1, 1, 1), const(17), (1, 1, 1), (0, 0, 0), (1, 1, 1)),
            _conv(v, const(5, 4, 1, 1, 1), None, (2, 2, 2), (0, 0, 0), (1, 1, 1)),
            _conv(v, const(6, 2, 3, 2, 2), const(6), (1, 1, 1), (1, 0, 0), (1, 1, 1), groups=2),
            _conv(v, const(4, 1, 3, 3, 3), const(4), (2, 1, 1), (1, 1, 1), (1, 1, 1), groups=4),
            _conv(v, const(4, 1, 3, 1, 1), None, (1, 1, 1), (1, 0, 0), (1, 1, 1), groups=4),
            _conv(v, const(8, 1, 3, 2, 2), const(8), (1, 1, 1), (0, 0, 0), (1, 1, 1), groups=4),
            _conv(v, const(4, 6, 3, 3, 3), const(6), (2, 2, 2), (1, 1, 1), (1, 1, 1), True, (1, 0, 1)),
            _conv(v, const(4, 6, 2, 2, 2), const(6), (2, 2, 2), (0, 0, 0), (1, 1, 1), True),
            _conv(v, const(4, 3, 2, 3, 1), None, (3, 1, 2), (2, 1, 0), (1, 2, 1), True, (2, 0, 1), 2),
            _conv(v, const(4, 1, 3, 3, 3), None, (1, 1, 1), (0, 0, 0), (1, 1, 1), True, groups=4),
            _conv(v, const(4, 6, 2, 1, 1), const(6), (2, 1, 1), (1, 0, 0), (1, 1, 1), True),
        ]
    return [*cases, _conv(x, const(6, 4, 3, 3, 3), stride=[2], padding=[1], dilation=[1])]


def _refused() -> list[Case]:
    return [
        having(_conv(rand(1, 0, 4, 4), Const(rand(5, 0, 3, 3))), refused="without weights"),
        having(_conv(rand(1, 3, 4, 4).half(), Const(rand(5, 3, 3, 3))), refused="f16 with weights in f32"),
    ]


def _computed_weights() -> list[Case]:
    """Weights and biases that are inputs of the program."""
    x, line, volume = rand(2, 4, 9, 11), rand(2, 4, 13), rand(2, 4, 5, 6, 7)
    no_padding = (0, 0), (1, 1)
    cases = [
        _conv(x, rand(5, 4, 3, 3), rand(5), padding=(1, 1)),
        _conv(x, rand(40, 4, 2, 3), None, (2, 1), (0, 2), (1, 2)),
        _conv(x, rand(6, 2, 3, 3), rand(6), (1, 1), *no_padding, groups=2),
        _conv(x, rand(4, 1, 3, 3), rand(4), (2, 2), (1, 1), groups=4),
        _conv(x, rand(8, 1, 3, 3), None, (1, 1), (1, 1), groups=4),
        _conv(x, rand(17, 4, 1, 1)),
        _conv(x, rand(4, 5, 3, 2), rand(5), (2, 3), (1, 0), transposed=True),
        _conv(x, rand(4, 3, 2, 2), None, (2, 2), transposed=True, groups=2),
        _conv(x, rand(5, 4, 3, 3), const(5)),
        _conv(x, const(5, 4, 3, 3), rand(5)),
        _conv(x.half(), rand(5, 4, 3, 3).half(), rand(5).half()),
        _conv(x.bfloat16(), rand(4, 5, 3, 3).bfloat16(), None, (2, 2), transposed=True),
        _conv(line, rand(6, 2, 3), rand(6), (2,), (1,), (1,), groups=2),
        _conv(line, rand(4, 6, 4), None, (2,), (1,), (1,), True, (1,)),
        _conv(volume, rand(5, 4, 3, 3, 3), rand(5), (2, 2, 2), (1, 1, 1), (1, 1, 1)),
        _conv(volume, rand(5, 4, 3, 1, 1), rand(5), (1, 1, 1), (1, 0, 0), (1, 1, 1)),
        _conv(volume, rand(4, 1, 3, 3, 3), None, (1, 2, 2), (1, 1, 1), (1, 1, 1), groups=4),
        _conv(volume, rand(4, 5, 2, 2, 2), rand(5), (2, 2, 2), (0, 0, 0), (1, 1, 1), True),
    ]
    return [having(case, name=f"computed-{case.name}") for case in cases]


def _symbolic_volumes() -> list[Case]:
    one = ((rand(1, 4, 6, 7, 8),), (rand(1, 4, 9, 5, 4),))
    some = ((rand(1, 4, 6, 7, 8),), (rand(3, 4, 9, 5, 4),))
    cases = []
    for batch, others in ((1, one), (2, some)):
        x = rand(batch, 4, 5, 6, 7)
        sizes = ({2: DYNAMIC, 3: DYNAMIC, 4: DYNAMIC, **({0: DYNAMIC} if batch > 1 else {})},)
        made = [
            _conv(x, const(5, 4, 3, 3, 3), const(5), (2, 2, 2), (1, 1, 1), (1, 1, 1)),
            _conv(x, const(5, 4, 3, 1, 1), const(5), (1, 1, 1), (1, 0, 0), (1, 1, 1)),
            _conv(x, const(4, 1, 3, 3, 3), None, (1, 2, 2), (1, 1, 1), (1, 1, 1), groups=4),
            _conv(x, const(4, 5, 2, 2, 2), const(5), (2, 2, 2), (0, 0, 0), (1, 1, 1), True),
        ]
        cases += [having(case, dynamic=sizes, others=others) for case in made]
    return cases


def _symbolic() -> list[Case]:
    sizes = ({0: DYNAMIC, 2: DYNAMIC, 3: DYNAMIC},)
    others = ((rand(1, 4, 12, 9),), (rand(5, 4, 7, 30),))
    x = rand(2, 4, 8, 10)
    return [
        having(_conv(x, const(5, 4, 3, 3), const(5), padding=(1, 1)), dynamic=sizes, others=others),
        having(_conv(x, const(5, 4, 3, 3), const(5), (2, 2), (1, 1)), dynamic=sizes, others=others),
        having(_conv(x, const(4, 1, 3, 3), None, (2, 2), (1, 1), groups=4), dynamic=sizes, others=others),
        having(_conv(x, const(4, 5, 2, 2), const(5), (2, 2), transposed=True), dynamic=sizes, others=others),
    ]


CASES = [
    *_plain(),
    *_depthwise(),
    *_one_dim(),
    *_transposed(),
    *_volumes(),
    *_refused(),
    *_computed_weights(),
    *_symbolic(),
    *_symbolic_volumes(),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    check_case(case)


# ----------------------------------------------------------------------------------------------------------- fusions


def _statistics(norm: nn.Module) -> nn.Module:
    assert isinstance(norm, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d))
    assert norm.running_mean is not None
    assert norm.running_var is not None
    norm.running_mean.copy_(rand(norm.num_features))
    norm.running_var.copy_(rand(norm.num_features).abs() + 0.3)
    if norm.affine:
        norm.weight.data.copy_(rand(norm.num_features))
        norm.bias.data.copy_(rand(norm.num_features) - 1)
    return norm


CONVOLUTIONS = {
    "plain": lambda bias: nn.Conv2d(4, 6, 3, padding=1, bias=bias),
    "grouped": lambda bias: nn.Conv2d(4, 6, 3, groups=2, bias=bias),
    "depthwise": lambda bias: nn.Conv2d(6, 6, 3, groups=6, bias=bias),
    "transposed": lambda bias: nn.ConvTranspose2d(4, 6, 3, stride=2, bias=bias),
    "transposed-grouped": lambda bias: nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2, bias=bias),
}
ACTIVATIONS: list[Any] = [
    None,
    nn.ReLU(),
    nn.ReLU6(),
    nn.SiLU(),
    nn.Hardswish(),
    nn.GELU(),
    nn.GELU("tanh"),
    nn.Hardtanh(-0.3, 0.2),
    nn.LeakyReLU(),
    nn.Sigmoid(),
]


def _both_ways(module: nn.Module, *inputs: Tensor) -> set[str]:
    """Fused and unfused agree with eager; the ops of the fused program."""
    module.eval()
    program = decomposed(exported(module, inputs))
    fused, plain = for_cpu(run_passes(Lowering(program).graph())), for_cpu(Lowering(program).graph())
    expected = module(*inputs)
    for what, graph in (("fused", fused), ("unfused", plain)):
        assert_all_same(run_interpreter(graph, inputs), expected, 1e-4, f"{what}, interpreter")
        assert_all_same(run_session(session(graph), inputs), expected, 1e-4, f"{what}, session")
    assert len(fused.nodes) <= len(plain.nodes)
    return {node.op for node in fused.nodes}


@pytest.mark.parametrize("kind", CONVOLUTIONS)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("affine", [False, True])
def test_batch_norm_folds(kind: str, bias: bool, affine: bool) -> None:
    convolution = CONVOLUTIONS[kind](bias)
    module = nn.Sequential(convolution, _statistics(nn.BatchNorm2d(6, eps=1e-3, affine=affine)), nn.ReLU()).eval()
    x = rand(2, 6 if kind == "depthwise" else 4, 5, 7)
    assert _both_ways(module, x) <= {"conv_2d_nhwc", "permute", "cont"}


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
@pytest.mark.parametrize("kind", ["plain", "depthwise"])
def test_activation_inside(activation: Any, kind: str) -> None:
    layers = [CONVOLUTIONS[kind](True), *([] if activation is None else [activation])]
    _both_ways(nn.Sequential(*layers), rand(2, 6 if kind == "depthwise" else 4, 5, 7) * 3)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("kind", ["plain", "flat", "depthwise", "transposed"])
def test_three_dimensional_fold(kind: str, batch: int) -> None:
    first = {
        "plain": nn.Conv3d(4, 6, 3, padding=1),
        "flat": nn.Conv3d(4, 6, (3, 1, 1)),
        "depthwise": nn.Conv3d(6, 6, 3, groups=6),
        "transposed": nn.ConvTranspose3d(4, 6, 2, stride=2),
    }[kind]
    layers = [first, _statistics(nn.BatchNorm3d(6)), nn.SiLU(), nn.Conv3d(6, 3, 3, padding=1), nn.ReLU()]
    ops = _both_ways(nn.Sequential(*layers), rand(batch, 6 if kind == "depthwise" else 4, 5, 4, 7))
    is_sum = kind == "depthwise"  # of convolutions: nothing is folded into one
    assert ("mul" in ops, "silu" in ops) == (is_sum, is_sum)


def test_one_dimensional_fold() -> None:
    _both_ways(nn.Sequential(nn.Conv1d(3, 5, 3), _statistics(nn.BatchNorm1d(5)), nn.SiLU()), rand(2, 3, 9))


class Branches(nn.Module):
    """A convolution that more than one thing reads."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3)
        self.norm = _statistics(nn.BatchNorm2d(4))
        self.how = how

    def forward(self, x: Tensor) -> Any:
        y = self.convolution(x)
        if self.how == "residual":
            return self.norm(y).relu() + y
        if self.how == "returned":
            return y, y.relu()
        if self.how == "norm-returned":
            z = self.norm(y)
            return z, z.relu()
        if self.how == "two-activations":
            return y.relu() + torch.nn.functional.silu(y)
        if self.how == "activation-then-norm":
            return self.norm(y.relu())
        if self.how == "two-in-a-row":
            return torch.nn.functional.silu(y.relu())
        if self.how == "norm-twice":
            return self.norm(self.norm(y))
        return self.norm(y.transpose(2, 3)).relu()


@pytest.mark.parametrize(
    "how",
    [
        "residual",
        "returned",
        "norm-returned",
        "two-activations",
        "activation-then-norm",
        "two-in-a-row",
        "norm-twice",
        "transposed",
    ],
)
def test_what_else_reads_a_convolution(how: str) -> None:
    _both_ways(Branches(how), rand(2, 3, 6, 6))


def test_batch_norm_over_another_dim() -> None:
    """After squeeze the same memory has other channels: their number alone is equal."""

    class Squeezed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution = nn.Conv2d(3, 4, 3)
            self.norm = _statistics(nn.BatchNorm1d(4))

        def forward(self, x: Tensor) -> Tensor:
            made: Tensor = self.norm(self.convolution(x).squeeze(0))
            return made

    _both_ways(Squeezed(), rand(1, 3, 6, 8))


def test_one_weight_in_two_convolutions() -> None:
    """The constants made of a weight are told apart by what was made of them."""

    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(rand(4, 4, 3, 3))
            self.scale = nn.Parameter(rand(4))
            self.register_buffer("zeros", torch.zeros(4))
            self.register_buffer("ones", torch.ones(4))

        def forward(self, x: Tensor) -> Any:
            f = torch.nn.functional
            zeros, ones = self.get_buffer("zeros"), self.get_buffer("ones")
            y, z = f.conv2d(x, self.weight), f.conv2d(torch.cat([x, x], 1), self.weight, groups=2)
            up = f.conv_transpose2d(x, self.weight)
            a = f.batch_norm(y, zeros, ones, self.scale, zeros, eps=1e-5)
            b = f.batch_norm(z, zeros, ones, self.scale, zeros, eps=1.0)
            return a, b, up, f.conv_transpose2d(torch.cat([x, x], 1)[:, :4], self.weight, groups=2)

    _both_ways(Shared(), rand(1, 4, 5, 5))


def test_same_padding() -> None:
    _both_ways(nn.Sequential(nn.Conv2d(3, 4, (4, 3), padding="same"), nn.ReLU()), rand(1, 3, 7, 8))


def test_unbatched_image() -> None:
    check_program(nn.Conv2d(3, 4, 3), rand(3, 7, 8))


def test_special_values() -> None:
    x = rand(1, 2, 5, 5)
    x[0, 0, 0, 0], x[0, 1, 4, 4], x[0, 1, 0, 4] = nan, inf, -inf
    for activation in (nn.ReLU(), nn.ReLU6(), nn.Identity()):
        check_program(nn.Sequential(nn.Conv2d(2, 3, 2), activation), x)


def test_weights_that_the_program_changes_are_no_constants(tmp_path: Path) -> None:
    class Learns(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weight", rand(4, 3, 3, 3))

        def forward(self, x: Tensor) -> Tensor:
            weight = self.get_buffer("weight")
            made = torch.nn.functional.conv2d(x, weight)
            weight.mul_(0.5)
            return made

    model, x = Learns().eval(), rand(1, 3, 5, 5)
    ours = delegated(model, (x,), tmp_path)
    module = ours.load()
    assert (len(ours.delegates), ours.left) == (1, [])
    for _ in range(3):
        assert_same(module(x), model(x))


@with_examples(
    st.integers(1, 3),
    st.integers(1, 20),
    st.integers(1, 20),
    st.tuples(*[st.integers(1, 3)] * 2),
    st.tuples(*[st.integers(1, 3)] * 2),
    st.tuples(*[st.integers(0, 2)] * 2),
    st.tuples(*[st.integers(1, 2)] * 2),
    st.booleans(),
)
def test_convolution_property(
    n: int, ic: int, oc: int, kernel: Any, stride: Any, padding: Any, dilation: Any, transposed: bool
) -> None:
    weight = const(ic, oc, *kernel) if transposed else const(oc, ic, *kernel)
    case = _conv(rand(n, ic, 7, 9), weight, const(oc), stride, padding, dilation, transposed)
    case = having(case, layouts=False)
    if min(case.module()(*case.inputs)[0].shape) > 0:
        check_case(case)
