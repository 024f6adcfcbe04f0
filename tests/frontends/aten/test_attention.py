from __future__ import annotations

import pytest
import torch
from tests.batches import check_case
from tests.helpers import (
    DYNAMIC,
    Case,
    assert_same,
    bools,
    check_program,
    decomposed,
    having,
    inf,
    op,
    rand,
    run_session,
    session,
)
from torch import Tensor, nn
from torch.nn import functional as F

from executorch_ggml.frontends.aten import Lowering
from executorch_ggml.frontends.aten.ops.attention import softcapped_attention
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.ir.graph import IRError
from executorch_ggml.ir.verify import verify
from executorch_ggml.passes import quantize_states, run_passes

aten = torch.ops.aten
SDPA = aten.scaled_dot_product_attention.default


def _hidden_rows(rows: int, columns: int) -> Tensor:
    """A mask that hides one row whole."""
    mask = bools(rows, columns)
    mask[0], mask[1] = False, True
    return mask


def _additive(*shape: int) -> Tensor:
    return torch.where(rand(*shape) > -0.5, rand(*shape), torch.tensor(-inf))


def _plain() -> list[Case]:
    q, k, v = rand(2, 4, 5, 8), rand(2, 4, 7, 8) * 2, rand(2, 4, 7, 8) + 1
    return [
        op(SDPA, q, k, v),
        op(SDPA, q, k, v, scale=0.3),
        op(SDPA, q, k, v, scale=-0.5),
        op(SDPA, q, k, v, is_causal=True),
        having(op(SDPA, q, k, v, is_causal=True, scale=0.3), name="causal-scale"),
        having(op(SDPA, q, k, v, is_causal=True, scale=-0.5), refused="scale -0.5"),
        having(op(SDPA, q, k, v, is_causal=True, scale=0.0), refused="scale 0.0"),
        having(op(SDPA, k, q, q, is_causal=True), name="causal-more-queries"),
        having(op(SDPA, q, k, rand(2, 4, 7, 3)), name="narrow-values"),
        having(op(SDPA, rand(3, 5, 8), rand(3, 7, 8), rand(3, 7, 8)), name="3-D"),
        having(op(SDPA, rand(5, 8), rand(7, 8), rand(7, 8)), name="2-D"),
        having(op(SDPA, rand(1, 1, 1, 1), rand(1, 1, 3, 1), rand(1, 1, 3, 1)), name="ones"),
        having(op(SDPA, rand(1, 2, 33, 40), rand(1, 2, 65, 40), rand(1, 2, 65, 40)), name="odd-sizes"),
        having(op(SDPA, q * 100, k * 100, v), name="sharp", tolerance=1e-4),
        having(op(SDPA, rand(2, 1, 2, 2, 3), rand(2, 1, 2, 2, 3), rand(2, 1, 2, 2, 3)), refused="four dims"),
        having(op(SDPA, q, k, v, None, 0.5), refused="dropout"),
        having(op(SDPA, rand(2, 3, 0), rand(2, 4, 0), rand(2, 4, 5)), refused="size 0"),
        *(having(op(SDPA, q.to(d), k.to(d), v.to(d)), name=str(d)) for d in (torch.float16, torch.bfloat16)),
        having(op(SDPA, q.double(), k.double(), v.double()), refused="one type"),
        having(op(SDPA, rand(2, 4, 5, 8), rand(1, 4, 7, 8), rand(1, 4, 7, 8)), refused="broadcast"),
    ]


def _masked() -> list[Case]:
    q, k, v = rand(2, 4, 5, 8), rand(2, 4, 7, 8), rand(2, 4, 7, 8)
    shapes = [
        (5, 7),
        (2, 4, 5, 7),
        (2, 1, 5, 7),
        (1, 4, 5, 7),
        (2, 1, 1, 7),
        (1, 7),
        (1, 1, 5, 7),
        (2, 1, 5, 1),
        (4, 5, 7),
    ]
    cases = [having(op(SDPA, q, k, v, bools(*s)), name=f"bool-{s}") for s in shapes]
    cases += [having(op(SDPA, q, k, v, _additive(*s)), name=f"float-{s}") for s in shapes]
    cases += [
        having(op(SDPA, q, k, v, _hidden_rows(5, 7)), name="hidden-row"),
        having(op(SDPA, q, k, v, torch.where(_hidden_rows(5, 7), 0.0, -inf)), name="hidden-row-float"),
        having(
            op(SDPA, q, k, v, torch.where(_hidden_rows(5, 7), 0.0, torch.finfo(torch.float32).min)),
            name="hidden-by-min",
        ),
        having(op(SDPA, q, k, v, _hidden_rows(5, 7), scale=-0.7), name="negative-scale"),
        having(op(SDPA, rand(5, 8), rand(7, 8), rand(7, 8), bools(5, 7)), name="2-D"),
        having(op(SDPA, rand(3, 5, 8), rand(3, 7, 8), rand(3, 7, 8), bools(3, 1, 7)), name="3-D"),
    ]
    return cases


def _grouped() -> list[Case]:
    q, k, v = rand(2, 6, 5, 8), rand(2, 2, 7, 8), rand(2, 2, 7, 8)
    one = rand(2, 1, 7, 8)
    return [
        op(SDPA, q, k, v, enable_gqa=True),
        having(op(SDPA, q, one, one, enable_gqa=True), name="one-head"),
        having(op(SDPA, q, k, v, is_causal=True, enable_gqa=True), name="grouped-causal"),
        having(op(SDPA, q, k, v, bools(2, 1, 5, 7), enable_gqa=True), name="grouped-mask"),
        having(op(SDPA, q, k, v, bools(1, 6, 5, 7), enable_gqa=True), name="grouped-mask-per-head"),
    ]


def _symbolic() -> list[Case]:
    sizes = ({0: DYNAMIC, 2: DYNAMIC},) * 3

    def inputs(batch: int, length: int) -> tuple[Tensor, ...]:
        return tuple(rand(batch, 4, length, 8) + n for n in range(3))

    others = (inputs(1, 3), inputs(5, 2), inputs(2, 33))
    mask = (rand(2, 1, 6, 6) > -1, *(rand(n, 1, s, s) > -1 for n, s in ((1, 3), (5, 2), (2, 33))))
    masked = tuple((*given, m) for given, m in zip(others, mask[1:], strict=True))
    return [
        having(op(SDPA, *inputs(2, 6)), name="symbolic", dynamic=sizes, others=others),
        having(op(SDPA, *inputs(2, 6), is_causal=True), name="symbolic-causal", dynamic=sizes, others=others),
        having(
            op(SDPA, *inputs(2, 6), mask[0]),
            name="symbolic-mask",
            dynamic=(*sizes, {0: DYNAMIC, 2: DYNAMIC, 3: DYNAMIC}),
            others=masked,
        ),
    ]


def _softcapped() -> list[Case]:
    q, k, v = rand(2, 6, 5, 8) * 3, rand(2, 2, 7, 8), rand(2, 2, 7, 8) + 1
    return [
        op(softcapped_attention, q, k, v, None, 0.5, 1.5),
        having(op(softcapped_attention, q, k, v, bools(1, 1, 5, 7), 0.5, 1.5), name="bool"),
        having(op(softcapped_attention, q, k, v, _hidden_rows(5, 7), 0.5, 50.0), name="hidden-row"),
        having(op(softcapped_attention, q[:, :2].clone(), k, v, _hidden_rows(5, 7), -0.5, 2.0), name="negative-scale"),
        having(op(softcapped_attention, q, k, v, None, 0.5, 0.0), refused="capped at 0.0"),
        having(op(softcapped_attention, q, k, v, _additive(2, 1, 5, 7), 0.5, 1.0), name="float"),
        having(op(softcapped_attention, *(rand(2, 6, 8) for _ in range(3)), None, 0.5, 1.0), refused="over 3 dims"),
    ]


CASES = _plain() + _masked() + _grouped() + _symbolic() + _softcapped()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    check_case(case)


def test_heads_cut_from_one_projection() -> None:
    """Attention as models have it: heads are permuted views, the result is permuted back."""

    def program(x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (4, 8)).transpose(1, 2) for part in x.chunk(3, -1))
        made = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask[:, None, None, :].bool())
        return made.transpose(1, 2).flatten(2)

    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]])
    check_program(
        program,
        rand(2, 5, 96),
        mask,
        dynamic=({0: DYNAMIC, 1: DYNAMIC}, {0: DYNAMIC, 1: DYNAMIC}),
        others=((rand(1, 9, 96), torch.ones(1, 9, dtype=torch.int64)),),
    )


class FromCache(nn.Module):
    """Attention over the filled part of keys and values that are kept in f16, as a decoder's are."""

    def __init__(self, rows: int = 12, heads: int = 2, head: int = 16) -> None:
        super().__init__()
        self.register_buffer("keys", rand(rows, heads, head).half())
        self.register_buffer("values", rand(rows, heads, head).half())

    keys: Tensor
    values: Tensor

    def forward(self, query: Tensor, seen: Tensor) -> Tensor:
        keys, values = (kept[: seen.shape[1]].float().transpose(0, 1)[None] for kept in (self.keys, self.values))
        return F.scaled_dot_product_attention(query, keys, values, attn_mask=seen, enable_gqa=True)


@pytest.mark.parametrize("tokens", [1, 5])
def test_a_cache_in_f16_is_read_as_it_is(tokens: int) -> None:
    module, query, seen = FromCache().eval(), rand(1, 4, tokens, 16), torch.ones(tokens, 8, dtype=torch.bool).tril(3)
    graph = check_program(module, query, seen)
    assert "convert" not in [node.op for node in graph.nodes if node.output.ne[0] == 16]


class WithCache(nn.Module):
    """Attention that remembers: rows are written at their positions, and those that are filled are read."""

    def __init__(self, rows: int = 8, heads: int = 2, head: int = 64, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(rows, heads, head, dtype=dtype))
        self.register_buffer("values", torch.zeros(rows, heads, head, dtype=dtype))

    keys: Tensor
    values: Tensor

    def forward(self, query: Tensor, new: Tensor, positions: Tensor, seen: Tensor) -> Tensor:
        self.keys.index_copy_(0, positions, new.to(self.keys.dtype))
        self.values.index_copy_(0, positions, (new * 0.5).to(self.values.dtype))
        keys, values = (kept[: seen.shape[1]].float().transpose(0, 1)[None] for kept in (self.keys, self.values))
        return F.scaled_dot_product_attention(query, keys, values, attn_mask=seen, enable_gqa=True)


def _steps(head: int = 64) -> list[tuple[Tensor, ...]]:
    made: list[tuple[Tensor, ...]] = []
    for first, count in ((0, 3), (3, 1), (4, 1)):
        seen = torch.arange(8)[None] <= torch.arange(first, first + count)[:, None]
        made.append((rand(1, 4, count, head), rand(count, 2, head), torch.arange(first, first + count), seen))
    return made


def _program(module: nn.Module, head: int = 64) -> torch.export.ExportedProgram:
    length = torch.export.Dim.DYNAMIC(min=1, max=8)
    shapes = ({2: length}, {0: length}, {0: length}, {0: length})
    return decomposed(torch.export.export(module.eval(), _steps(head)[0], dynamic_shapes=shapes))


@pytest.mark.parametrize("head", [64, 7])
def test_a_cache_in_f16_is_written_as_it_is(head: int) -> None:
    module = WithCache(head=head, dtype=torch.float16)
    graph = run_passes(Lowering(_program(module, head)).graph())
    verify(graph)
    assert [node.op for node in graph.nodes].count("convert") == 1  # the mask
    ready = session(graph)
    for inputs in _steps(head):
        assert_same(run_session(ready, inputs)[0], module(*inputs))


def test_a_cache_in_q8_0_is_near() -> None:
    module = WithCache()
    graph = quantize_states.run(run_passes(Lowering(_program(module)).graph()), {"*": DType.Q8_0})
    verify(graph)
    assert [state.value.dtype for state in graph.states] == [DType.Q8_0] * 2
    ready = session(graph)
    for inputs in _steps():
        expected, (made,) = module(*inputs), run_session(ready, inputs)
        assert (made - expected).square().mean().sqrt() < 0.01 * expected.square().mean().sqrt()


def test_a_state_that_something_else_reads_is_not_quantized() -> None:
    class Read(WithCache):
        def forward(self, *inputs: Tensor) -> Tensor:
            return super().forward(*inputs) + self.keys.sum()

    program = decomposed(torch.export.export(Read().eval(), _steps()[0]))
    graph = run_passes(Lowering(program).graph())
    with pytest.raises(IRError, match=r"state keys in q8_0: \w+ \(\w+\) cannot read it so"):
        quantize_states.run(graph, {"keys": DType.Q8_0})
    with pytest.raises(IRError, match="multiples of 256"):
        quantize_states.run(graph, {"keys": DType.Q4_K})


class Written(nn.Module):
    """Attention written out, its heads in one batch or in two dims."""

    def __init__(self, batched: bool) -> None:
        super().__init__()
        self.batched = batched

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self.batched:
            q, k, v = (t.flatten(0, 1) for t in (q, k, v))
        return torch.softmax(q @ k.transpose(-1, -2) / 2.5, dim=-1) @ v


@pytest.mark.parametrize("batched", [True, False])
def test_attention_written_out_is_one_node(batched: bool) -> None:
    q, k, v = rand(2, 3, 5, 8), rand(2, 3, 7, 8), rand(2, 3, 7, 4)
    graph = check_program(Written(batched), q, k, v)
    assert "soft_max_ext" not in [node.op for node in graph.nodes]
    q[0, 0, 0] = inf  # of torch's scores all are -inf or NaN then
    check_program(Written(batched), q, -k.abs(), v)


def test_attention_that_gives_its_weights_too() -> None:
    def program(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        weights = torch.softmax(q @ k.transpose(-1, -2), dim=-1)
        return weights @ v, weights

    graph = check_program(program, rand(3, 5, 8), rand(3, 7, 8), rand(3, 7, 4))
    assert "attention" not in [node.op for node in graph.nodes]


@pytest.mark.parametrize("dim", [0, 1])
def test_a_softmax_over_other_dims_is_none(dim: int) -> None:
    def program(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.softmax(q @ k.transpose(-1, -2), dim=dim) @ v

    check_program(program, rand(3, 7, 8), rand(3, 7, 8), rand(3, 7, 4))
