"""Tensors that lie in memory in another order than that of their dims: within delegates, between them, outside."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import ExecutorchBackendConfig, to_edge, to_edge_transform_and_lower
from executorch.exir.passes import MemoryPlanningPass
from executorch.runtime import Runtime
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import TOLERANCE, as_list, assert_all_same, delegated, delegates_of, exported, ints, left_of, rand
from torch import Tensor, nn
from torch.export import Dim

import executorch_ggml
from executorch_ggml import GgmlPartitioner
from executorch_ggml.frontends.aten import LOWERINGS

LAST = torch.channels_last
LAST_3D = torch.channels_last_3d
FORMATS = {4: LAST, 5: LAST_3D}
FLIP = torch.ops.aten.flip.default

X = rand(2, 3, 4, 5)
VOLUME = rand(2, 3, 4, 2, 5)


def last(tensor: Tensor) -> Tensor:
    """The tensor, channels last."""
    return tensor.contiguous(memory_format=FORMATS[tensor.dim()])


def layouts(tensor: Tensor) -> Iterator[Tensor]:
    """A tensor in all the ways that it may lie: contiguous, channels last, transposed, with gaps."""
    yield tensor.contiguous()
    yield last(tensor) if tensor.dim() in FORMATS else tensor
    yield tensor.transpose(0, -1).contiguous().transpose(0, -1)
    yield torch.stack([tensor, tensor], -1)[..., 0]


def strides_of(tensor: Tensor) -> list[int]:
    """The strides that matter: those of dims of one element do not."""
    return [stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size != 1]


def assert_same_layout(actual: Any, expected: Any, tolerance: float = TOLERANCE) -> None:
    """Values and strides."""
    assert_all_same(actual, expected, tolerance)
    assert list(map(strides_of, as_list(actual))) == list(map(strides_of, as_list(expected)))


def check(
    function: Callable[..., Any], *args: Tensor, path: Path, delegates: int = 1, tolerance: float = TOLERANCE
) -> None:
    """Nothing is left outside; the outputs' strides are eager's, however the inputs lie when it is called."""
    made = delegated(function, args, path)
    assert made.left == []
    assert len(made.delegates) == delegates
    module = made.load()
    with torch.no_grad():
        expected = function(*args)
    for inputs in zip(*map(layouts, args), strict=True):
        assert_same_layout(module(*inputs), expected, tolerance)
    if all(x.is_contiguous() or x.is_contiguous(memory_format=LAST) for x in args):
        stock = Runtime.get().load_program(made.path).load_method("forward")
        assert stock is not None
        assert_same_layout(stock.execute(args), as_list(expected), tolerance)


# ------------------------------------------------------------------------------------------------ made inside a model

INSIDE: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "to": (lambda x: (x * 2).to(memory_format=LAST) + 1, (X,)),
    "clone": (lambda x: x.clone(memory_format=LAST), (X,)),
    "contiguous": (lambda x: x.contiguous(memory_format=LAST).relu(), (X,)),
    "and-back": (lambda x: (x.contiguous(memory_format=LAST) * 2).contiguous().view(2, -1) + 1, (X,)),
    "zeros-like": (lambda x: torch.zeros_like(x, memory_format=LAST) + x, (X,)),
    "full-like": (lambda x: torch.full_like(x, 2.5, memory_format=LAST) * x, (X,)),
    "empty-like": (lambda x: torch.empty_like(x, memory_format=LAST).fill_(2) * x, (X,)),
    "empty": (lambda x: torch.empty(2, 3, 4, 5, memory_format=LAST).copy_(x) * 3, (X,)),
    "both": (lambda x: (x + 1, (x + 1).to(memory_format=LAST), x.to(memory_format=LAST).sum(1)), (X,)),
    "tokens": (lambda x: (x * 2).to(memory_format=LAST).permute(0, 2, 3, 1).view(2, 4, 15) + 1, (X,)),
    "half": (lambda x: x.to(torch.float16, memory_format=LAST), (X,)),
    "bfloat16": (lambda x: x.to(torch.bfloat16, memory_format=LAST), (X,)),
    "integers": (lambda n: (n.to(memory_format=LAST) + 1, (n > 0).to(memory_format=LAST)), (ints(2, 3, 4, 5),)),
    "to-float": (lambda n: n.to(torch.float32, memory_format=LAST) / 2, (ints(2, 3, 4, 5, dtype=torch.uint8),)),
    "one-channel": (lambda x: x.to(memory_format=LAST) * 2, (rand(2, 1, 4, 5),)),
    "one-pixel": (lambda x: x.to(memory_format=LAST) * 2, (rand(2, 7, 1, 1),)),
    "3d": (lambda x: (x * 2).to(memory_format=LAST_3D) + 1, (VOLUME,)),
    "3d-contiguous": (lambda x: x.contiguous(memory_format=LAST_3D), (VOLUME,)),
    "3d-zeros-like": (lambda x: torch.zeros_like(x, memory_format=LAST_3D) + x, (VOLUME,)),
}


@pytest.mark.parametrize("name", INSIDE)
def test_made_inside(name: str, tmp_path: Path) -> None:
    function, args = INSIDE[name]
    check(function, *args, path=tmp_path)


def test_as_strided_of_channels_last(tmp_path: Path) -> None:
    """It reads memory, whose order is not that of the dims."""
    check(lambda x: torch.as_strided(x, (4, 3), (5, 2), 1) + 1, last(X), path=tmp_path)


# ------------------------------------------------------------------------------------------------------ given as input


GIVEN: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "elementwise": (lambda x: x * 2 + 1, (last(X),)),
    "itself": (lambda x: (x, x + 1), (last(X),)),
    "clone": (lambda x: x.clone() * 2, (last(X),)),
    "tokens": (lambda x: (x * 2).permute(0, 2, 3, 1).view(2, 4, 15) + 1, (last(X),)),
    "two": (lambda x, y: (x + y, y + x), (last(X), X + 1)),
    "cat": (lambda x, y: torch.cat([x, y], 1), (last(X), last(X))),
    "large": (lambda x: x * 2, (last(rand(1, 67, 33, 41)),)),
    "3d": (lambda x: x * 2 + 1, (last(VOLUME),)),
    "3d-clone": (lambda x: x.clone() + 1, (last(VOLUME),)),
}


@pytest.mark.parametrize("name", GIVEN)
def test_given_as_input(name: str, tmp_path: Path) -> None:
    function, args = GIVEN[name]
    check(function, *args, path=tmp_path)


@pytest.mark.parametrize("order", [(1, 0), (5, 2, 0, 3, 1, 4), (3, 2, 1, 0), (0, 2, 1)], ids=str)
def test_an_order_that_is_no_memory_format(order: tuple[int, ...], tmp_path: Path) -> None:
    """What the model makes of it is contiguous: ExecuTorch has no words for other orders."""
    x = rand(*range(2, 2 + len(order))).permute(order)
    made = delegated(lambda x: (x.clone() + 1, x.relu()), (x,), tmp_path)
    assert (made.left, len(made.delegates)) == ([], 1)
    for inputs in layouts(x):
        assert_same_layout(made.load()(inputs), (x.contiguous() + 1, x.contiguous().relu()))


def test_a_program_that_is_edge_already(tmp_path: Path) -> None:
    edge = to_edge(exported(lambda x: (x * 2).to(memory_format=LAST) + 1, (X,))).to_backend(GgmlPartitioner())
    assert left_of(edge) == []
    path = tmp_path / "edge.pte"
    edge.to_executorch().save(str(path))
    assert_same_layout(executorch_ggml.load(path)(X), last(X) * 2 + 1)


# ------------------------------------------------------------------------------------------------------ vision models


def converted(model: nn.Module, memory_format: torch.memory_format) -> nn.Module:
    return model.eval().to(memory_format=memory_format)  # type: ignore[call-overload] # torch's types lack it


class Residual(nn.Module):
    """What vision models are made of."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        self.deep = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.SiLU(), nn.Conv2d(8, 8, 1))
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        x = self.stem(x)
        x = nn.functional.max_pool2d(x + self.deep(x), 2, ceil_mode=True)
        return x, self.up(nn.functional.interpolate(x, scale_factor=2)), x.mean((2, 3))


@pytest.mark.parametrize("image", [rand(2, 3, 9, 12), last(rand(2, 3, 9, 12))], ids=["contiguous", "channels-last"])
def test_vision_model(image: Tensor, tmp_path: Path) -> None:
    """Its weights are channels last too: then convolutions' results are, whatever the image is."""
    check(converted(Residual(), LAST), image, path=tmp_path)


def test_a_model_of_volumes(tmp_path: Path) -> None:
    model = converted(nn.Sequential(nn.Conv3d(3, 4, 3, padding=1), nn.ReLU(), nn.AvgPool3d(2)), LAST_3D)
    made = delegated(model, (last(VOLUME),), tmp_path)
    assert (made.left, len(made.delegates)) == ([], 1)
    for volume in layouts(VOLUME):
        assert_all_same(made.load()(volume), model(VOLUME))


def test_sizes_that_vary(tmp_path: Path) -> None:
    model = converted(Residual(), LAST)
    sizes = {0: Dim("batch", min=1, max=4), 2: 2 * Dim("h", min=2, max=10), 3: 2 * Dim("w", min=2, max=10)}
    made = delegated(model, (last(rand(2, 3, 8, 12)),), tmp_path, dynamic=(sizes,))
    assert (made.left, len(made.delegates)) == ([], 1)
    module = made.load()
    for shape in ((2, 3, 8, 12), (1, 3, 4, 4), (4, 3, 20, 14), (3, 3, 8, 20)):
        for image in layouts(rand(*shape)):
            assert_same_layout(module(image), model(last(image)))


# ------------------------------------------------------------------------------------- between delegates, and outside


@pytest.fixture
def _without_flip(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flips stand for what ggml does not run: ExecuTorch has a kernel for them."""
    monkeypatch.delitem(LOWERINGS, FLIP)


@pytest.mark.usefixtures("_without_flip")
def test_an_op_of_executorch_between_delegates(tmp_path: Path) -> None:
    def program(x: Tensor) -> tuple[Tensor, ...]:
        y = torch.flip((x * 2).to(memory_format=LAST).tanh(), [2])
        return y + x.to(memory_format=LAST), torch.flip(y.contiguous(), [1]).relu()

    made = delegated(program, (X,), tmp_path)
    assert (made.left, len(made.delegates)) == ([str(FLIP)] * 2, 3)
    for x in layouts(X):
        assert_same_layout(made.load()(x), program(X))


def test_delegates_of_xnnpack_between(tmp_path: Path) -> None:
    def program(x: Tensor) -> Tensor:
        y = torch.nn.functional.hardswish(torch.asinh(x.to(memory_format=LAST)))
        return torch.asinh(y) * 2

    edge = to_edge_transform_and_lower(exported(program, (X,)), partitioner=[XnnpackPartitioner(), GgmlPartitioner()])
    backends = [delegate.backend_id for delegate in delegates_of(edge)]
    assert {"GgmlBackend", "XnnpackBackend"} == set(backends)
    path = tmp_path / "mixed.pte"
    edge.to_executorch().save(str(path))
    for x in layouts(X):
        assert_same_layout(executorch_ggml.load(path)(x), program(X))


class Remembers(nn.Module):
    """A state that is channels last."""

    state: Tensor

    def __init__(self, step: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.register_buffer("state", last(rand(1, 3, 4, 5)))
        self.step = step

    def forward(self, x: Tensor) -> Tensor:
        self.state.copy_(self.step(self.state) * 0.5 + x)
        return self.state * 2


@pytest.mark.parametrize("step", [torch.sin, lambda x: torch.flip(x, [1])], ids=["ggml's", "ExecuTorch's"])
@pytest.mark.usefixtures("_without_flip")
def test_states(step: Callable[[Tensor], Tensor], tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Remembers(step)
    module = delegated(model, (rand(1, 3, 4, 5),), tmp_path).load()
    for x in layouts(rand(1, 3, 4, 5)):
        assert_same_layout(module(x), model(x.contiguous()).clone())


class Constants(nn.Module):
    """Channels last constants: of a delegate, of ExecuTorch's, and given back."""

    plane: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("plane", last(rand(1, 3, 4, 5)))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return x + self.plane, self.plane, torch.flip(self.plane, [1]) + x


@pytest.mark.usefixtures("_without_flip")
def test_constants(tmp_path: Path) -> None:
    model = Constants()
    made = delegated(model, (X,), tmp_path)
    assert made.left == [str(FLIP)]
    for x in layouts(X):
        assert_all_same(made.load()(x), model(x))


def test_branches(tmp_path: Path) -> None:
    def program(condition: Tensor, x: Tensor) -> Tensor:
        result: Tensor = torch.cond(
            condition, lambda x: x.to(memory_format=LAST) * 2, lambda x: x.to(memory_format=LAST) + 1, (x,)
        )
        return result + 1

    module = delegated(program, (torch.tensor(True), X), tmp_path).load()
    for condition in (True, False):
        for x in layouts(X):
            assert_same_layout(module(torch.tensor(condition), x), last(X * 2 if condition else X + 1) + 1)


# ---------------------------------------------------------------------------------------------------- inputs of a call


def test_expanded_inputs(tmp_path: Path) -> None:
    module = delegated(lambda x, y: (x + y, x.exp()), (X, last(X)), tmp_path).load()
    line = rand(1, 1, 1, 5).expand(2, 3, 4, 5)
    assert_all_same(module(line, line), (line + line, line.exp()))


def test_inputs_whose_memory_is_not_planned(tmp_path: Path) -> None:
    """They are used in place, where they lie as the program says."""
    edge = to_edge_transform_and_lower(exported(lambda x: x * 2 + 1, (last(X),)), partitioner=[GgmlPartitioner()])
    planning = MemoryPlanningPass(alloc_graph_input=False)
    path = tmp_path / "unplanned.pte"
    edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning)).save(str(path))
    for x in layouts(X):
        assert_same_layout(executorch_ggml.load(path)(x), last(X) * 2 + 1)


@pytest.mark.parametrize(
    "example",
    [rand(5, 4, 3, 2).permute(3, 2, 1, 0), rand(2, 3, 1, 5).expand(2, 3, 4, 5), rand(2, 3, 4, 10)[..., ::2]],
    ids=["permuted", "expanded", "strided"],
)
def test_examples_that_no_memory_format_describes(example: Tensor, tmp_path: Path) -> None:
    """The program takes contiguous inputs then, in ExecuTorch's own runtime too."""
    path = tmp_path / "contiguous.pte"
    executorch_ggml.export(Doubles(), (example,)).save(str(path))
    stock = Runtime.get().load_program(path).load_method("forward")
    assert stock is not None
    assert_same_layout(stock.execute([X]), [X * 2])
    for x in layouts(X):
        assert_same_layout(executorch_ggml.load(path)(x), X * 2)


class Doubles(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


@given(st.permutations(range(4)), st.lists(st.integers(1, 5), min_size=4, max_size=4))
def test_inputs_in_any_order(doubles: executorch_ggml.Module, order: list[int], sizes: list[int]) -> None:
    x = rand(*sizes)
    lying = x.permute(order).contiguous().permute([order.index(d) for d in range(4)])
    assert_same_layout(doubles(lying), last(x) * 2)


@pytest.fixture(scope="module")
def doubles(tmp_path_factory: pytest.TempPathFactory) -> executorch_ggml.Module:
    """A program that takes and gives tensors of any sizes, channels last."""
    sizes = {dim: Dim(f"size{dim}", min=1, max=8) for dim in range(4)}
    return delegated(Doubles(), (last(X),), tmp_path_factory.mktemp("doubles"), dynamic=(sizes,)).load()
