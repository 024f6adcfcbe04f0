"""Tests of ``quant.importance``: what is measured, kept in files, and made of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from transformers import MixtralConfig, MixtralForCausalLM

from executorch_ggml.frontends.aten.ops.experts import expert_linear
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.quant import GgmlQuantConfig, Importance, dequantize, quantize
from executorch_ggml.quant.importance import Entry, used_weights
from gguf import GGUFReader


class Layers(nn.Module):
    """Linear layers that modules, functions and products make, an embedding, a convolution, and experts."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.inner = nn.Embedding(9, 32), nn.Linear(32, 64)
        self.loose = nn.Parameter(torch.randn(32, 64))
        self.experts = nn.Parameter(torch.randn(3, 16, 32))
        self.attention = nn.MultiheadAttention(32, 2, batch_first=True)
        self.conv = nn.Conv1d(32, 4, 3)
        self.unused = nn.Linear(8, 8)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.table(tokens)
        x = nn.functional.linear(self.inner(x), self.loose)
        x = self.attention(x, x, x)[0]
        first = x @ self.experts[1].t()
        every = torch.bmm(x.reshape(1, -1, 32).expand(3, -1, -1), self.experts.transpose(1, 2))
        return torch.cat([first.flatten(), every.flatten(), self.conv(x.transpose(1, 2)).flatten()])


TOKENS = torch.tensor([[3, 8, 0, 7, 7], [1, 2, 2, 3, 1]])


def test_sums_are_of_squares_by_column() -> None:
    model = Layers()
    made = Importance.collect(model, [TOKENS, (TOKENS[:1],)])
    inputs = torch.cat([model.table(TOKENS).reshape(-1, 32), model.table(TOKENS[:1]).reshape(-1, 32)]).detach()
    entry = made.entries["inner.weight"]
    torch.testing.assert_close(entry.sums[0], inputs.square().sum(0))
    assert entry.counts.tolist() == [15.0]
    torch.testing.assert_close(made.find("inner.weight", (64, 32)), inputs.square().mean(0))
    assert made.entries["experts"].counts.tolist() == [15.0, 30.0, 15.0]
    assert {"loose", "attention.in_proj_weight", "attention.out_proj.weight"} <= set(made.entries)
    assert "table.weight" not in made
    assert made.find("table.weight", (9, 32)) is None


@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad, torch.inference_mode])
def test_used_weights_are_what_a_call_reads(mode: type) -> None:
    with mode():
        used = used_weights(Layers(), TOKENS)
    assert set(used) == {
        "table.weight",
        "inner.weight",
        "loose",
        "experts",
        "attention.in_proj_weight",
        "attention.out_proj.weight",
        "conv.weight",
    }


def test_tied_weights_are_one() -> None:
    model = nn.Sequential(nn.Embedding(9, 32), nn.Linear(32, 9, bias=False))
    model[1].weight = model[0].weight
    made = Importance.collect(model, [TOKENS])
    assert list(made.entries) == ["0.weight", "1.weight"]
    assert made.entries["1.weight"] is made.entries["0.weight"]
    assert made.entries["0.weight"].counts.tolist() == [10.0]


class Chosen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 8, 32))

    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = expert_linear(x, self.weight, ids)
        return made


@pytest.mark.parametrize("shared", [False, True])
def test_experts_have_their_own_inputs(shared: bool) -> None:
    x, ids = torch.randn(5, 1 if shared else 2, 32), torch.tensor([[0, 2], [2, 3], [0, 3], [3, 2], [2, 0]])
    entry = Importance.collect(Chosen(), [(x, ids)]).entries["weight"]
    assert entry.counts.tolist() == [3.0, 0.0, 4.0, 3.0]
    wanted = torch.zeros(4, 32)
    for token, chosen in enumerate(ids.tolist()):
        for place, expert in enumerate(chosen):
            wanted[expert] += x[token, 0 if shared else place].square()
    torch.testing.assert_close(entry.sums, wanted)
    assert torch.equal(entry.means[1], torch.ones(32))  # no input reached it


def test_experts_of_transformers_are_seen() -> None:
    config = MixtralConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=4,
    )
    tokens = torch.randint(0, 64, (1, 20), generator=torch.Generator().manual_seed(0))
    found = []
    for experts in ("grouped_mm", "eager"):
        torch.manual_seed(0)
        config._experts_implementation = experts
        found.append(Importance.collect(MixtralForCausalLM(config).eval(), [tokens]))
    for name in ("gate_up_proj", "down_proj"):
        whole, single = (made.entries[f"model.layers.0.mlp.experts.{name}"] for made in found)
        assert whole.counts.sum() == 40
        torch.testing.assert_close((whole.sums, whole.counts), (single.sums, single.counts))


def test_files_are_llama_cpps(tmp_path: Path) -> None:
    made = Importance(
        {"a": Entry(torch.rand(1, 64), torch.tensor([7.0])), "b": Entry(torch.rand(3, 32), torch.ones(3))}
    )
    path = tmp_path / "importance.gguf"
    Importance(made.entries, ("words.txt",)).save(path)
    back = Importance.load(path, names={"b": "blk.0.ffn_up_exps.weight"})
    assert back.datasets == ("words.txt",)
    for name, other in (("a", "a"), ("b", "blk.0.ffn_up_exps.weight")):
        assert torch.equal(back.entries[other].sums, made.entries[name].sums)
        assert torch.equal(back.entries[other].counts, made.entries[name].counts)
    reader = GGUFReader(path)
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    assert [int(n) for n in tensors["b.in_sum2"].shape] == [32, 3]
    assert [int(n) for n in tensors["b.counts"].shape] == [1, 3]
    fields = {name: reader.fields[name].contents() for name in ("general.type", "imatrix.chunk_size")}
    assert fields == {"general.type": "imatrix", "imatrix.chunk_size": 512}
    assert "general.architecture" not in reader.fields


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    from gguf import GGUFWriter

    writer = GGUFWriter(tmp_path / "model.gguf", "llama")
    writer.add_tensor("a", np.zeros((2, 2), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ValueError, match="no importance matrix"):
        Importance.load(tmp_path / "model.gguf")


def test_of_another_model_is_refused() -> None:
    made = Importance({"w": Entry(torch.ones(1, 32), torch.ones(1))})
    with pytest.raises(ValueError, match="from another model"):
        made.find("w", (4, 64))


def test_weights_are_quantized_with_it() -> None:
    """Columns that matter are kept better, in a matrix and in each of several."""
    for shape in ((32, 256), (2, 32, 256)):
        weight = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        columns = torch.full((shape[0] if len(shape) == 3 else 1, 256), 1e-4)
        columns[:, ::16] = 1.0
        importance = Importance({"w": Entry(columns, torch.ones(len(columns)))})
        stored = GgmlQuantConfig("iq2_xxs", importance=importance).find("w", weight)
        assert stored is not None
        error = (dequantize(stored.data(), DType.IQ2_XXS, shape) - weight).square()
        alike = dequantize(quantize(weight, DType.IQ2_XXS, torch.ones(256)), DType.IQ2_XXS, shape) - weight
        assert error[..., ::16].mean() < 0.7 * alike.square()[..., ::16].mean()
