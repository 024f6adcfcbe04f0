"""``executorch-ggml export-gguf`` and ``export``: a checkpoint to GGUF, GGUF to a program, a program to text."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.gguf.models import SIZES
from tests.gguf.test_tokenizer import byte_level
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from executorch_ggml.cli import main
from executorch_ggml.gguf import GgufFile, load
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.llm import Generator


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=byte_level("llama-bpe"), eos_token="<|end|>")
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        **{**SIZES, "vocab_size": len(tokenizer), "num_hidden_layers": 1},
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        initializer_range=0.5,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def test_from_a_checkpoint_to_text(checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gguf, program = tmp_path / "x.gguf", tmp_path / "x.pte"
    assert main(["export-gguf", str(checkpoint), "-o", str(gguf), "--type", "f32"]) == 0
    options = ["--external-weights", "--max-seq-len", "64", "--chunk", "8", "--cache-type", "f32"]
    assert main(["export", str(gguf), "-o", str(program), *options]) == 0
    assert "texts of 64 tokens; its weights are in" in capsys.readouterr().out
    with pytest.raises(RuntimeError, match="lies in the GGUF file"):
        Generator(program).generate("Hello world", max_new_tokens=1)

    assert main(["generate", str(program), "-p", "Hello world"]) == 1
    assert "lies in the GGUF file" in capsys.readouterr().err

    generator = Generator(program, gguf=gguf)
    made = generator.stream("Hello world", max_new_tokens=12)
    for _ in made:
        pass
    model = LlamaForCausalLM.from_pretrained(checkpoint).eval()
    ids = torch.tensor([generator.tokenizer.encode("Hello world")])
    expected = model.generate(ids, max_new_tokens=12, do_sample=False)[0, ids.shape[1] :].tolist()
    assert made.tokens == expected[: len(made.tokens)]
    assert len(made.tokens) == 12 or made.finish == "eos"

    arguments = ["generate", str(program), "--gguf", str(gguf), "-p", "Hello world", "-n", "12"]
    assert main(arguments) == 0
    assert capsys.readouterr().out == made.text + "\n"


def test_precision_of_layers(checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    floats, halves = tmp_path / "f32.gguf", tmp_path / "f16.gguf"
    for gguf in (floats, halves):
        assert main(["export-gguf", str(checkpoint), "-o", str(gguf), "--type", gguf.stem]) == 0
    sizes: list[int] = []
    for precision in ("bf16", "int8-dynamic"):
        program = tmp_path / f"{precision}.pte"
        export = ["export", str(floats), "-o", str(program), "--max-seq-len", "64"]
        assert main([*export, "--precision", precision]) == 0
        sizes.append(program.stat().st_size)
        assert Generator(program).generate("Hello world", max_new_tokens=2) is not None
    assert floats.stat().st_size > sizes[0] > sizes[1]
    out = ["-o", str(tmp_path / "x.pte"), "--max-seq-len", "64"]
    assert main(["export", str(halves), *out, "--precision", "bf16"]) == 0
    assert Generator(tmp_path / "x.pte").generate("Hello world", max_new_tokens=2) is not None
    for gguf, precision, more in ((halves, "int8-dynamic", []), (floats, "bf16", ["--external-weights"])):
        assert main(["export", str(gguf), *out, "--precision", precision, *more]) == 1
        assert f"precision '{precision}': no layer with constant weights in float32" in capsys.readouterr().err


def test_other_types_of_a_file(checkpoint: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "x.gguf", tmp_path / "y.gguf"
    assert main(["export-gguf", str(checkpoint), "-o", str(first)]) == 0
    assert main(["export-gguf", str(first), "-o", str(second), "--type", "q4_0_q6_k"]) == 0
    tensors = GgufFile(second).tensors
    assert tensors["blk.0.ffn_up.weight"].dtype == DType.Q4_0
    assert tensors["blk.0.attn_norm.weight"].dtype == DType.F32
    assert tensors["output.weight"].dtype == DType.Q8_0  # rows of 64 are no blocks of 256
    assert GgufFile(first).metadata["tokenizer.ggml.tokens"] == GgufFile(second).metadata["tokenizer.ggml.tokens"]
    assert load(second).module.config.eos_token_id == load(first).module.config.eos_token_id


def test_types_by_rules(checkpoint: Path, tmp_path: Path) -> None:
    out, config = tmp_path / "x.gguf", tmp_path / "q.json"
    config.write_text('{"default": "q4_0", "rules": [["*.down_proj.weight", "q8_0"], ["*norm.weight", "f16"]]}')
    assert main(["export-gguf", str(checkpoint), "-o", str(out), "--config", str(config)]) == 0
    tensors = GgufFile(out).tensors
    assert tensors["blk.0.ffn_up.weight"].dtype == DType.Q4_0
    assert tensors["blk.0.ffn_down.weight"].dtype == DType.Q8_0
    assert tensors["blk.0.ffn_norm.weight"].dtype == DType.F32


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["export-gguf", "{folder}", "-o", "{tmp}/x.gguf", "--type", "q9"], "no type is called 'q9'; there are"),
        (["export-gguf", "{tmp}", "-o", "{tmp}/x.gguf"], "neither a GGUF file nor a folder with the checkpoint"),
        (
            ["export-gguf", "{folder}", "-o", "{tmp}/x.gguf", "--config", "{folder}/tokenizer.json"],
            "a quantization has",
        ),
        (["export-gguf", "{folder}", "-o", "{tmp}/x.gguf", "--config", "{folder}/model.safetensors"], "s: no JSON"),
        (["generate", "{folder}/config.json", "-p", "x"], "config.json: not an ExecuTorch program"),
        (["export", "{tmp}/none.gguf", "-o", "{tmp}/none/x.pte"], "none: no such folder to write x.pte to"),
        (["export", "{tmp}/none.gguf", "-o", "{tmp}/x.pte"], "none.gguf: no such GGUF file"),
        (["export", "{folder}/config.json", "-o", "{tmp}/x.pte"], "config.json: not a GGUF file"),
    ],
)
def test_errors_are_one_line(
    arguments: list[str], message: str, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([argument.format(folder=checkpoint, tmp=tmp_path) for argument in arguments]) == 1
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
