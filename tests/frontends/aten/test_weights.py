"""Tests of ``lower.weights``: linear layers and embeddings whose parameters are stored in another type."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from tests.helpers import delegated, lowered, run_interpreter, run_session, session
from torch import Tensor, nn

from executorch_ggml.frontends.aten import LOWERINGS
from executorch_ggml.frontends.aten.weights import StoredWeight
from executorch_ggml.ir.codec import dequantize, needs_importance, quantize
from executorch_ggml.ir.dtypes import DType

QUANTIZED = [dtype for dtype in DType if dtype.is_quantized]
STORED = [*QUANTIZED, DType.F16, DType.BF16]


@dataclass
class Store:
    """Stores every parameter of a module in one type."""

    module: nn.Module
    dtype: DType
    replaces: bool = False

    def find(self, name: str, parameter: Tensor) -> StoredWeight | None:
        if name.startswith("folded_"):
            return None
        weight = self.module.state_dict()[name]
        assert weight.shape == parameter.shape
        if weight.dim() < 2:
            return None
        return StoredWeight(self.dtype, lambda: self.encoded(weight), replaces=self.replaces)

    def encoded(self, weight: Tensor) -> Tensor:
        return quantize(weight, self.dtype, torch.ones(weight.shape[-1]) if needs_importance(self.dtype) else None)

    def decoded(self) -> dict[str, Tensor]:
        state = self.module.state_dict()
        stored = {name: w for name, w in state.items() if w.dim() > 1}
        return state | {name: dequantize(self.encoded(w), self.dtype, w.shape) for name, w in stored.items()}


class Layers(nn.Module):
    def __init__(self, features: int = 256, *, tied: bool = False) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.table = nn.Embedding(16, features)
        self.inner = nn.Linear(features, features)
        self.head = nn.Linear(features, 16, bias=False)  # rows enough for a packed layout
        if tied:
            self.head.weight = self.table.weight

    def forward(self, tokens: Tensor) -> Tensor:
        out: Tensor = self.head(self.inner(self.table(tokens)).relu())
        return out


def exact_rows(*shape: int) -> Tensor:
    """Rows that ggml's 8-bit blocks hold exactly: integers, 127 the largest."""
    values = torch.randint(-126, 127, shape, generator=torch.Generator().manual_seed(0)).float()
    values.view(-1, 32)[:, 0] = 127.0
    return values


@pytest.mark.parametrize("dtype", STORED, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("rows", [1, 7, 33])
def test_linear_multiplies_what_is_stored(dtype: DType, rows: int) -> None:
    layer = nn.Linear(512, 24).eval()
    store = Store(layer, dtype)
    x = exact_rows(2, rows, 512)
    graph = lowered(layer, (x,), weights=store)
    assert dtype in [constant.value.dtype for constant in graph.constants]
    expected = nn.functional.linear(x, store.decoded()["weight"], layer.bias)
    scale = float(expected.abs().max())
    torch.testing.assert_close(run_interpreter(graph, (x,))[0], expected, rtol=0, atol=1e-5 * scale)
    torch.testing.assert_close(run_session(session(graph), (x,))[0], expected, rtol=0, atol=1e-5 * scale)


@pytest.mark.parametrize("dtype", STORED, ids=lambda dtype: dtype.name)
def test_embedding_reads_what_is_stored(dtype: DType) -> None:
    layer = nn.Embedding(9, 256)
    store = Store(layer, dtype)
    tokens = torch.tensor([[0, 8, 3], [3, 1, 7]])
    graph = lowered(layer, (tokens,), weights=store)
    expected = nn.functional.embedding(tokens, store.decoded()["weight"])
    for made in (run_interpreter(graph, (tokens,))[0], run_session(session(graph), (tokens,))[0]):
        torch.testing.assert_close(made, expected, rtol=0, atol=0)


def test_token_out_of_range_is_an_error() -> None:
    layer = nn.Embedding(9, 256)
    ready = session(lowered(layer, (torch.tensor([1, 2]),), weights=Store(layer, DType.Q4_0)))
    with pytest.raises(RuntimeError, match="index 9 is out of range for size 9"):
        ready.run(torch.tensor([0, 9]))


def rounded(x: Tensor) -> Tensor:
    """Activations of 8 bits with one scale a row: as coarse as any of ggml's types makes them, at 256 to a scale."""
    scales = x.abs().amax(-1, keepdim=True) / 127
    return (x / scales).round() * scales


def relative_error(x: Tensor, expected: Tensor) -> float:
    return float((x - expected).square().mean().sqrt() / expected.square().mean().sqrt())


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("dtype", [DType.Q4_0, DType.Q8_0, DType.Q6_K, DType.F16])
def test_programs_store_the_bytes(dtype: DType, tied: bool, tmp_path: Path) -> None:
    module = Layers(tied=tied).eval()
    store = Store(module, dtype)
    tokens = torch.arange(16)[torch.newaxis]
    made = delegated(module, (tokens,), tmp_path, weights=store)
    assert made.left == []
    quantized = Layers(tied=tied).eval()
    quantized.load_state_dict(store.decoded())
    expected = quantized(tokens)
    coarsest = quantized.head(rounded(quantized.inner(rounded(quantized.table(tokens))).relu()))
    assert relative_error(made.load()(tokens), expected) < 1.1 * relative_error(coarsest, expected)
    stored = dtype.nbytes(256 * 256) + dtype.nbytes(16 * 256) * (1 if tied else 2)
    assert stored < made.path.stat().st_size < stored + 20_000


def test_rows_that_are_no_whole_blocks_stay_as_they_are() -> None:
    layer = nn.Linear(48, 24).eval()

    class Wrong:
        def find(self, name: str, parameter: Tensor) -> StoredWeight | None:
            return StoredWeight(DType.Q4_0, lambda: torch.empty(0, dtype=torch.uint8))

    x = torch.randn(3, 48)
    graph = lowered(layer, (x,), weights=Wrong())
    torch.testing.assert_close(run_session(session(graph), (x,))[0], layer(x), rtol=1e-4, atol=1e-5)


def test_ops_that_cannot_read_blocks_get_the_modules_weights_unless_these_are_replaced() -> None:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 32))

        def forward(self, x: Tensor) -> Tensor:
            return x + self.weight

    module, x = Sum().eval(), torch.zeros(4, 32)
    for replaces in (False, True):
        store = Store(module, DType.Q4_0, replaces=replaces)
        (made,) = run_session(session(lowered(module, (x,), weights=store)), (x,))
        torch.testing.assert_close(made, store.decoded()["weight"] if replaces else module.weight.detach())


def test_small_products_are_not_packed_wrong() -> None:
    """Matrices of few rows have no packed layout; a batch of matrices is no matrix."""
    for features in (1, 3, 8, 16):
        layer = nn.Linear(256, features).eval()
        store = Store(layer, DType.Q4_K)
        x = exact_rows(5, 256)
        (made,) = run_session(session(lowered(layer, (x,), weights=store)), (x,))
        expected = nn.functional.linear(x, store.decoded()["weight"], layer.bias)
        torch.testing.assert_close(made, expected, rtol=0, atol=1e-5 * float(expected.abs().max()))
    assert [node.op for node in lowered(layer, (x,), weights=store).nodes] == ["mul_mat", "add"]


def test_what_stays_outside_finds_values_in_the_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(LOWERINGS, torch.ops.aten.flip.default)

    class Flipped(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return torch.flip(self.weight, [0]) + super().forward(x)

    module = Flipped(32, 32, bias=False).eval().requires_grad_(False)
    x = exact_rows(1, 32)
    delegated(module, (x,), tmp_path, weights=Store(module, DType.Q8_0))
    with pytest.raises(ValueError, match=r"aten.flip.default stays with ExecuTorch and reads weight, whose values are"):
        delegated(module, (x,), tmp_path, weights=Store(module, DType.Q8_0, replaces=True))
