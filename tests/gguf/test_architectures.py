"""Models of every family, written as GGUF and rebuilt from it."""

from __future__ import annotations

import dataclasses
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.gguf.models import CONFIGS, FileMaker, logits, make, tokens

import executorch_ggml
from executorch_ggml import llm
from executorch_ggml.gguf import GgufError, GgufFile, export_gguf, known_architectures, load
from executorch_ggml.gguf.weights import values_of
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.quant import GgmlQuantConfig, Importance, dequantized, report
from executorch_ggml.quant.importance import Entry


def written(name: str, path: Path, **options: Any) -> tuple[Any, Path]:
    model = make(name)
    export_gguf(model, path, **{"types": DType.F32, **options})
    return model, path


@pytest.mark.parametrize("name", CONFIGS)
def test_a_rebuilt_model_computes_the_same(name: str, tmp_path: Path) -> None:
    model, path = written(name, tmp_path / "x.gguf")
    rebuilt = load(path, dequantize=True).module
    rebuilt.config._attn_implementation = "eager"
    assert type(rebuilt).__name__ == type(model).__name__.replace("Mistral", "Llama")
    ids = tokens()
    torch.testing.assert_close(logits(rebuilt, ids), logits(model, ids), rtol=1e-5, atol=1e-5)


def test_long_texts_turn_by_the_long_factors(tmp_path: Path) -> None:
    model, path = written("phi3-long", tmp_path / "x.gguf")
    rebuilt = load(path, dequantize=True).module
    rebuilt.config._attn_implementation = "eager"
    for length in (31, 32, 33, 48):
        ids = tokens(length)
        torch.testing.assert_close(logits(rebuilt, ids), logits(model, ids), rtol=1e-5, atol=1e-5)
    assert load(path).module.config.max_position_embeddings == 64
    for name in ("long", "short"):
        damaged = edited(path, tmp_path / "y.gguf", drop=f"rope_factors_{name}.weight")
        with pytest.raises(GgufError, match=f"tensor rope_factors_{name}.weight is missing"):
            load(damaged)


@pytest.mark.parametrize("name", ["llama", "mixtral", "qwen3", "gemma2", "phi3"])
def test_quantized_tensors_stay_as_they_are(name: str, tmp_path: Path) -> None:
    _, path = written(name, tmp_path / "x.gguf", types=DType.Q8_0)
    model = load(path)
    for parameter, value in model.module.named_parameters():
        stored = model.weights.find(f"outer.{parameter}", value)
        assert stored is not None
        tensor = model.weights.tensor(parameter)
        assert tensor is not None
        assert (
            stored.dtype
            == tensor.dtype
            == (DType.Q8_0 if value.dim() > 1 and "mlp.gate." not in parameter else DType.F32)
        )
        assert stored.data().data_ptr() == tensor.data.data_ptr()
    outside = load(path, external=True)
    stored = outside.weights.find("model.norm.weight", outside.module.model.norm.weight)
    assert stored is not None
    assert stored.key == f"gguf:{outside.file.id}/output_norm.weight"


def test_dequantized_values_are_those_of_the_gguf_package(tmp_path: Path) -> None:
    import gguf

    _, path = written("qwen3", tmp_path / "x.gguf", types=DType.Q4_0)
    ours = GgufFile(path)
    for theirs in gguf.GGUFReader(path).tensors:
        expected = gguf.quants.dequantize(theirs.data, theirs.tensor_type)
        assert np.array_equal(values_of(ours.tensors[theirs.name]).numpy(), expected)


def test_parameters_take_no_memory(tmp_path: Path) -> None:
    _, path = written("llama", tmp_path / "x.gguf")
    model = load(path).module
    assert model.lm_head.weight.device.type == "cpu"
    assert torch.equal(model.model.norm.weight, make("llama").model.norm.weight)


def test_values_that_are_not_there_are_not_used(tmp_path: Path) -> None:
    _, path = written("llama", tmp_path / "x.gguf")
    model = load(path)
    uses: list[Callable[[], object]] = [
        lambda: model.module(tokens()),
        lambda: llm.export(model.module, max_seq_len=16),
        lambda: llm.export(model.module, max_seq_len=16, weights=GgmlQuantConfig("q8_0")),
        lambda: executorch_ggml.export(torch.nn.Sequential(model.module), (tokens(),)),
        lambda: export_gguf(model.module, tmp_path / "y.gguf"),
        lambda: report(model.module, "q8_0"),
        lambda: dequantized(model.module, "q8_0"),
    ]
    for use in uses:
        with pytest.raises(ValueError, match=r"holds no values, they are in .*x.gguf: .* dequantize=True"):
            use()
    assert not (tmp_path / "y.gguf").exists()


def test_only_a_checkpoint_that_says_the_same_is_saved(tmp_path: Path) -> None:
    for name, dequantize in (("llama", True), ("gemma", True), ("qwen3-moe", True), ("qwen3", False)):
        _, path = written(name, tmp_path / "x.gguf")
        with pytest.raises(ValueError, match=r"x.gguf computes with tensors as the file has them"):
            load(path, dequantize=dequantize).module.save_pretrained(tmp_path / "checkpoint")
    _, path = written("qwen3", tmp_path / "x.gguf")
    rebuilt = load(path, dequantize=True).module
    rebuilt.save_pretrained(tmp_path / "checkpoint")
    again = type(rebuilt).from_pretrained(tmp_path / "checkpoint")
    torch.testing.assert_close(logits(again, tokens()), logits(rebuilt, tokens()))


def test_a_rebuilt_model_is_written_again(tmp_path: Path) -> None:
    for name in ("llama-3", "gemma2", "phi3-long"):
        _, path = written(name, tmp_path / "x.gguf", metadata={"general.name": "a model"})
        rebuilt = load(path, dequantize=True).module
        export_gguf(rebuilt, tmp_path / "again.gguf", types=DType.F32)
        first, again = GgufFile(path), GgufFile(tmp_path / "again.gguf")
        assert dict(first.metadata) == dict(again.metadata)
        assert first.tensors.keys() == again.tensors.keys()
        assert all(torch.equal(tensor.data, again.tensors[key].data) for key, tensor in first.tensors.items())


def test_no_window_as_converted_files_say_it(tmp_path: Path) -> None:
    _, path = written("phi3", tmp_path / "x.gguf")
    assert load(path).module.config.sliding_window is None
    changed = edited(path, tmp_path / "y.gguf", phi3__attention__sliding_window=0)
    assert load(changed).module.config.sliding_window is None


def edited(path: Path, out: Path, *, drop: str = "", rename: tuple[str, str] = ("", ""), **metadata: Any) -> Path:
    """A copy of a file with other metadata and tensors."""
    import gguf

    file = GgufFile(path)
    writer = gguf.GGUFWriter(out, metadata.pop("architecture", file.architecture))
    from executorch_ggml.gguf.writer import _add

    changes = {key.replace("__", "."): value for key, value in metadata.items()}
    for key, value in {**file.metadata, **changes}.items():
        if key != "general.architecture" and value is not None:
            _add(writer, key, value)
    for name, tensor in file.tensors.items():
        if name != drop:
            data = values_of(tensor).numpy()
            writer.add_tensor(rename[1] if name == rename[0] else name, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return out


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"llama__attention__causal": False}, "llama.attention.causal is false"),
        ({"architecture": "mamba"}, f"'mamba' is none of those that are known: {', '.join(known_architectures())}"),
        ({"llama__block_count": 2**31}, "block_count is 2147483648, and there are tensors of 2 layers"),
        ({"llama__block_count": 1}, "block_count is 1, and there are tensors of 2 layers"),
        ({"llama__embedding_length": 128}, "tensor token_embd.weight is .* expected"),
        ({"llama__feed_forward_length": 2**31}, "tensor .*ffn_.* expected"),
        ({"llama__attention__head_count": 0}, "head_count is 0, expected more than 0"),
        ({"llama__attention__head_count": 3}, "3 attention heads cannot share 2"),
        ({"llama__attention__head_count": [4, 4]}, "head_count is a list, expected a int"),
        ({"llama__attention__key_length": 15}, "attention.value_length|keys of 15 and values of 16"),
        ({"llama__attention__layer_norm_rms_epsilon": None}, "layer_norm_rms_epsilon is missing"),
        ({"llama__attention__layer_norm_rms_epsilon": float("inf")}, "layer_norm_rms_epsilon is inf"),
        ({"llama__rope__dimension_count": 8}, "turn 8 elements of a head, expected 16"),
        ({"llama__logit_scale": 0.5}, r"metadata llama.logit_scale is 0.5, which is not supported"),
        ({"llama__rope__scaling__type": "ntk"}, "rope.scaling.type is 'ntk'"),
        ({"llama__expert_count": 4, "llama__expert_used_count": 2}, "tensor blk.0.ffn_gate_inp.weight is missing"),
        ({"drop": "blk.1.ffn_up.weight"}, "tensor blk.1.ffn_up.weight is missing"),
        ({"drop": "token_embd.weight"}, "tensor token_embd.weight is missing"),
        ({"rename": ("blk.1.ffn_up.weight", "blk.1.ffn_down.scale")}, "tensor blk.1.ffn_up.weight is missing"),
        ({"rename": ("output.weight", "head.weight")}, "1 tensors have no place in LlamaForCausalLM: head.weight"),
    ],
)
def test_what_does_not_fit_is_named(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    _, path = written("llama", tmp_path / "x.gguf")
    with pytest.raises(GgufError, match=message):
        load(edited(path, tmp_path / "y.gguf", **changes))


def test_a_file_without_an_architecture(tmp_path: Path) -> None:
    with pytest.raises(GgufError, match=r"metadata general.architecture is missing"):
        load(FileMaker().tensor("t", [4], data=bytes(16)).write(tmp_path / "x.gguf"))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("gemma2", {"query_pre_attn_scalar": 144}, "query_pre_attn_scalar is 144"),
        ("gemma3", {"layer_types": ["full_attention"] * 6}, "one layer in 6 must have full attention"),
        ("qwen3-moe", {"norm_topk_prob": False}, "without norm_topk_prob"),
        ("qwen2-moe", {"mlp_only_layers": [0]}, "layers that have no experts"),
        ("llama", {"model_type": "mamba"}, "models of type 'mamba' cannot be written as GGUF"),
        ("llama", {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}}, "cannot say"),
    ],
)
def test_what_gguf_cannot_say_is_refused(name: str, change: dict[str, Any], message: str, tmp_path: Path) -> None:
    model = make(name)
    vars(model.config).update(change)
    if "model_type" in change:
        type(model.config).model_type, kept = change["model_type"], type(model.config).model_type
    try:
        with pytest.raises(ValueError, match=message):
            export_gguf(model, tmp_path / "x.gguf")
    finally:
        if "model_type" in change:
            type(model.config).model_type = kept


@pytest.mark.parametrize("name", ["llama-3", "gemma3", "qwen2-moe", "phi3-long"])
def test_damaged_metadata_is_an_error_or_a_model(name: str, tmp_path: Path) -> None:
    """Numbers of the metadata and the table of tensors, changed at random."""
    _, path = written(name, tmp_path / "x.gguf")
    file, whole, draw = GgufFile(path), path.read_bytes(), random.Random(0)
    header = len(whole) - sum(tensor.data.numel() for tensor in file.tensors.values())
    numbers = (0, 1, 2, 3, 5, 64, 2**31, 2**32 - 1, 2**40, 2**63)
    for _ in range(200):
        damaged = bytearray(whole)
        place = draw.randrange(24, header - 8)
        damaged[place : place + 8] = struct.pack("<Q", draw.choice(numbers))
        path.write_bytes(damaged)
        try:
            load(path)
        except GgufError:
            continue


@pytest.mark.parametrize(
    ("value", "types", "message"),
    [
        (1e6, "f16", r"layers.1.mlp.up_proj.weight cannot be stored as f16"),
        (1e8, DType.Q8_0, r"layers.1.mlp.up_proj.weight cannot be stored as q8_0"),
        (float("nan"), "q4_0", r"layers.1.mlp.up_proj.weight cannot be stored as q4_0"),
        (1.0, GgmlQuantConfig(rules={"output.*": "q4_0"}), r"no parameter is called 'output.\*'"),
        (1.0, "q9", "no type or mixture is called 'q9'"),
    ],
)
def test_what_cannot_be_written_leaves_no_file(value: float, types: Any, message: str, tmp_path: Path) -> None:
    model = make("llama")
    model.model.layers[1].mlp.up_proj.weight[0, 0] = value
    with pytest.raises(ValueError, match=message):
        export_gguf(model, tmp_path / "x.gguf", types=types)
    assert list(tmp_path.iterdir()) == []


def test_a_file_may_take_its_own_place(tmp_path: Path) -> None:
    _, path = written("qwen3", tmp_path / "x.gguf", types="q8_0")
    before = load(path, dequantize=True).module
    export_gguf(before, path, types="f32")
    after = load(path, dequantize=True).module
    assert all(map(torch.equal, before.parameters(), after.parameters()))


def test_types_that_need_importance(tmp_path: Path) -> None:
    name = "model.layers.0.mlp.down_proj.weight"
    config = GgmlQuantConfig(default="f16", rules=[(name, "iq2_xxs")], min_elements=1)
    model = make("llama", intermediate_size=256)
    with pytest.raises(ValueError, match="iq2_xxs needs an importance matrix"):
        export_gguf(model, tmp_path / "x.gguf", types=config)
    importance = Importance({name: Entry(torch.ones(1, 256), torch.ones(1))})
    export_gguf(model, tmp_path / "x.gguf", types=dataclasses.replace(config, importance=importance))
    assert GgufFile(tmp_path / "x.gguf").tensors["blk.0.ffn_down.weight"].dtype == DType.IQ2_XXS


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16])
def test_half_files_compute_as_their_values_do(dtype: DType, tmp_path: Path) -> None:
    """Products round the other operand to the file's type, and nothing else."""
    _, path = written("qwen3", tmp_path / "x.gguf", types=dtype)
    model, expected = load(path), logits(load(path, dequantize=True).module, tokens(40))
    program = llm.export(model.module, max_seq_len=64, cache_type="f32", weights=model.weights, all_logits=True)
    program.save(str(tmp_path / "x.pte"))
    result = executorch_ggml.load(tmp_path / "x.pte")(tokens(40), torch.tensor([0]))
    tolerance = 0.002 if dtype == DType.F16 else 0.01
    torch.testing.assert_close(result, expected, rtol=0, atol=tolerance * float(expected.abs().max()))
    sizes = {tensor.dtype for tensor in model.file.tensors.values() if len(tensor.shape) > 1}
    assert sizes == {dtype}
