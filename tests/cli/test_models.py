"""``export``, ``run``, ``compare`` and ``explain`` of modules, from what names them to numbers."""

from __future__ import annotations

import json
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import executorch_ggml
from executorch_ggml.cli import main

MODELS = """
import torch
from torch import nn


def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), (torch.randn(2, 8),)


def picture():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 30 * 30, 5)), (torch.randn(1, 3, 32, 32),)


def named():
    class Scaled(nn.Module):
        def forward(self, x, scale):
            return x * scale

    return Scaled(), (torch.randn(2, 3),), {"scale": torch.randn(3)}


def sound():
    return nn.Conv1d(1, 2, 5), (torch.randn(1, 400),)


def largest():
    class Largest(nn.Module):
        def forward(self, x):
            return x.argmax(dim=1)

    return Largest(), (torch.randn(3, 5),)


def missing():
    import no_such_package


def nothing():
    return 3
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with functions that return models."""
    path = tmp_path_factory.mktemp("models") / "models_of_cli_tests.py"
    path.write_text(MODELS)
    return path


@pytest.fixture(scope="module")
def program(models: Path) -> Path:
    """A program with a symbolic batch."""
    path = models.with_name("small.pte")
    assert main(["export", f"{models}:small", "-o", str(path), "--dynamic", "batch=1:64"]) == 0
    return path


@pytest.fixture
def side_packages() -> None:
    """Makes torchvision, timm and Pillow importable where tests have them."""
    from tests import torchvision_cpu

    try:
        torchvision_cpu.torchvision_models()
    except ModuleNotFoundError as error:
        pytest.skip(str(error))


def facts(capsys: pytest.CaptureFixture[str]) -> Any:
    """The JSON object that a command printed."""
    return json.loads(capsys.readouterr().out)


def test_an_export_says_its_error(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["export", f"{models}:small", "-o", str(tmp_path / "m.pte"), "--precision", "bf16", "--check", "--json"]
    assert main([*line, "--device", "CPU"]) == 0
    said = facts(capsys)
    assert 1e-5 < said["error"] < 0.02
    assert said["bytes"] == (tmp_path / "m.pte").stat().st_size


def test_keyword_inputs_and_one_dim_of_one(models: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.pte"
    assert main(["export", f"{models}:named", "-o", str(path), "--dynamic", "x.0=1:9"]) == 0
    x, scale = torch.randn(9, 3), torch.randn(3)
    torch.testing.assert_close(executorch_ggml.load(path)(x, scale), x * scale)


def test_a_pt2_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, x = nn.Linear(3, 4).eval(), torch.randn(5, 3)
    shapes = ({0: torch.export.Dim("batch", max=16)},)
    torch.export.save(torch.export.export(model, (x,), dynamic_shapes=shapes), tmp_path / "m.pt2")
    assert main(["export", str(tmp_path / "m.pt2"), "-o", str(tmp_path / "m.pte"), "--check", "--json"]) == 0
    assert facts(capsys)["error"] < 1e-6
    more = torch.randn(16, 3)
    torch.testing.assert_close(executorch_ggml.load(tmp_path / "m.pte")(more), model(more))


def test_a_checkpoint_that_makes_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from transformers import ViTConfig, ViTForImageClassification

    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = ViTConfig(image_size=32, patch_size=8, **sizes)
    ViTForImageClassification(config).save_pretrained(tmp_path / "vit")
    assert main(["export", str(tmp_path / "vit"), "-o", str(tmp_path / "m.pte"), "--check", "--json"]) == 0
    assert facts(capsys)["error"] < 1e-5


def test_a_checkpoint_of_a_language_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 2}
    LlamaForCausalLM(LlamaConfig(vocab_size=96, **sizes)).save_pretrained(tmp_path / "llama")
    line = ["export", str(tmp_path / "llama"), "-o", str(tmp_path / "m.pte"), "--max-seq-len", "32", "--quantize"]
    assert main([*line, "q8_0", "--json"]) == 0
    assert facts(capsys)["max_seq_len"] == 32
    assert set(executorch_ggml.load(tmp_path / "m.pte").method_names) >= {"forward", "prefill", "decode"}


def test_files_go_in_and_out(models: Path, program: Path, tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "x.npz", x=x)
    (tmp_path / "x.json").write_text(json.dumps(x.tolist()))
    expected = executorch_ggml.load(program)(torch.from_numpy(x)).numpy()
    for suffix in ("npy", "npz", "json"):
        out = tmp_path / f"out.{suffix}"
        assert main(["run", str(program), "-i", str(tmp_path / f"x.{suffix}"), "-o", str(out)]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), expected)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["output_0"], expected)
    np.testing.assert_allclose(json.loads((tmp_path / "out.json").read_text())[0], expected)


@pytest.fixture(scope="module")
def same(models: Path) -> Path:
    """A program that returns what it is given, of any two sizes up to 8."""
    (models.parent / "same.py").write_text(
        "import torch\nclass Same(torch.nn.Module):\n    def forward(self, x):\n        return x * 1.0\n"
        "def same():\n    return Same(), (torch.randn(3, 4, 8),)\n"
    )
    assert main(["export", f"{models.parent}/same.py:same", "-o", str(models.with_name("same.pte"))]) == 0
    return models.with_name("same.pte")


def test_an_image_and_sound_come_out(
    same: Path, program: Path, side_packages: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, (3, 4, 8)).astype(np.float32) / 255
    pixels[0, 0, :3] = np.nan, 2, -1
    np.save(tmp_path / "x.npy", pixels)
    out = tmp_path / "out.png"
    assert main(["run", str(same), "-i", str(tmp_path / "x.npy"), "-o", str(out)]) == 0
    expected = (255 * pixels).round()
    expected[0, 0, :3] = 0, 255, 0
    np.testing.assert_array_equal(np.asarray(Image.open(out)).transpose(2, 0, 1), expected)
    np.save(tmp_path / "y.npy", np.linspace(-2, 2, 8, dtype=np.float32)[None])
    capsys.readouterr()
    assert main(["run", str(same), "-i", str(tmp_path / "x.npy"), "-o", str(tmp_path / "out.wav")]) == 1
    assert "is no sound, floats [samples]; write a .npy" in capsys.readouterr().err
    assert main(["run", str(program), "-i", str(tmp_path / "y.npy"), "-o", str(tmp_path / "out.wav")]) == 0
    samples = executorch_ggml.load(program)(torch.from_numpy(np.load(tmp_path / "y.npy"))).numpy()[0]
    with wave.open(str(tmp_path / "out.wav")) as file:
        written = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    np.testing.assert_array_equal(written, (samples.clip(-1, 1) * 32767).round())


def test_random_inputs_are_the_same_each_time(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for seed in ("1", "1", "2"):
        assert main(["run", str(program), "--seed", seed, "--json"]) == 0
        texts.append(facts(capsys)["outputs"])
    assert texts[0] == texts[1] != texts[2]
    assert texts[0][0]["shape"] == [64, 4]


def test_an_image(models: Path, side_packages: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from PIL import Image

    program = tmp_path / "picture.pte"
    assert main(["export", f"{models}:picture", "-o", str(program)]) == 0
    Image.new("RGB", (50, 40), (255, 0, 0)).save(tmp_path / "red.png")
    capsys.readouterr()
    assert main(["run", str(program), "-i", str(tmp_path / "red.png"), "--json"]) == 0
    pixel = (torch.tensor([1.0, 0, 0]) - torch.tensor([0.485, 0.456, 0.406])) / torch.tensor([0.229, 0.224, 0.225])
    expected = executorch_ggml.load(program)(pixel.reshape(1, 3, 1, 1).expand(1, 3, 32, 32).contiguous())
    np.testing.assert_allclose(facts(capsys)["outputs"][0]["values"], expected, rtol=1e-4, atol=1e-5)


def test_integers_come_out_as_integers(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "m.pte"
    assert main(["export", f"{models}:largest", "-o", str(program)]) == 0
    capsys.readouterr()
    assert main(["run", str(program), "-o", str(tmp_path / "out.npy"), "--json"]) == 0
    assert facts(capsys)["outputs"][0]["dtype"] == "int64"
    assert np.load(tmp_path / "out.npy").dtype == np.int64


def test_sound(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "sound.pte"
    assert main(["export", f"{models}:sound", "-o", str(program)]) == 0
    samples = np.arange(-200, 200, dtype="<i2") * 100
    with wave.open(str(tmp_path / "x.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(samples.tobytes())
    capsys.readouterr()
    assert main(["run", str(program), "-i", str(tmp_path / "x.wav"), "--json"]) == 0
    expected = executorch_ggml.load(program)(torch.from_numpy(samples.astype(np.float32) / 32768)[None])
    np.testing.assert_allclose(facts(capsys)["outputs"][0]["values"], expected, rtol=1e-5)


def test_how_far_programs_are_apart(
    models: Path, program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    coarse = tmp_path / "coarse.pte"
    line = ["export", f"{models}:small", "-o", str(coarse), "--dynamic", "batch=1:64", "--precision", "bf16"]
    assert main(line) == 0
    capsys.readouterr()
    assert main(["compare", str(program), f"{models}:small", "--at-most", "1e-5", "--json"]) == 0
    (row,) = facts(capsys)["outputs"]
    assert row["error"] < 1e-6
    assert row["cosine"] == pytest.approx(1, abs=1e-6)
    assert main(["compare", str(coarse), str(program), "--at-most", "1e-5", "--json"]) == 3
    found = facts(capsys)
    assert 1e-5 < found["outputs"][0]["error"] < 0.02
    assert found["parting"]["op"] == "linear"  # the first layer with weights
    assert found["parting"]["error"] > 1e-5
    assert main(["compare", str(coarse), f"{models}:small", "--at-most", "1e-5", "--layers"]) == 3
    lines = capsys.readouterr().out.splitlines()
    layers = [line for line in lines if line.startswith("layer ")]
    assert layers
    assert lines[-1] == f"they part at {next(line for line in layers if '(linear)' in line)}"


def test_layers_of_a_program_with_an_etrecord(
    models: Path, program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its nodes are named as in the Edge program."""
    recorded = tmp_path / "recorded.pte"
    line = ["export", f"{models}:small", "-o", str(recorded), "--etrecord", str(tmp_path / "etrecord")]
    assert main(line) == 0
    capsys.readouterr()
    assert main(["compare", str(recorded), f"{models}:small", "--layers", "--json"]) == 0
    layers = facts(capsys)["layers"]
    assert [layer["op"] for layer in layers].count("linear") == 2
    assert all(layer["name"].startswith("aten_") and layer["error"] < 1e-6 for layer in layers)
    assert main(["compare", str(recorded), str(program), "--layers"]) == 1
    assert "no layers of the same names" in capsys.readouterr().err


def test_what_runs_in_ggml(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", f"{models}:small", "--input-shape", "7x8"]) == 0
    assert capsys.readouterr().out == "3 of 3 nodes run in ggml, in 1 delegate\n"


def test_the_doctor_finds_what_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    said = facts(capsys)
    assert said["packages"]["torch"] == torch.__version__
    assert said["cpu"]["kernels"]
    assert said["devices"][0]["kind"] == "cpu"
    assert set(said["install"]) == {extra for extra, missing in said["extras"].items() if missing}


def test_the_doctor_says_how_to_install_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    needs = ["torch==1.0", "click>=8.1", "no-such[b,a]>=3; extra == 'llm'", "no-other; extra == 'llm'"]
    monkeypatch.setattr("importlib.metadata.requires", lambda _name: needs)
    assert main(["doctor"]) == 1
    said = capsys.readouterr()
    assert "  llm: missing no-such, no-other: pip install 'no-such[a,b]>=3' no-other\n" in said.out
    assert "  webnn: complete\n" in said.out
    assert said.err == f"executorch-ggml: torch (is {torch.__version__}, expected ==1.0): pip install torch==1.0\n"


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        (["export", "{models}:nowhere", "-o", "{tmp}/x.pte"], 1, "has no function nowhere"),
        (["export", "{models}:nothing", "-o", "{tmp}/x.pte"], 1, "returned int, expected (module, inputs)"),
        (["export", "{models}:missing", "-o", "{tmp}/x.pte"], 1, "install its package (pip install no_such_package)"),
        (["export", "no.such.package:f", "-o", "{tmp}/x.pte"], 1, "no.such.package: no such module"),
        (["export", "resnet18", "-o", "{tmp}/x.pte"], 1, "resnet18: expected torchvision:NAME"),
        (
            ["export", "{models}:small", "-o", "{tmp}/x.pte", "--dynamic", "y.0=1:4"],
            1,
            "no input y with a dim 0, there are",
        ),
        (["export", "{models}:small", "-o", "{tmp}/x.pte", "--dynamic", "batch"], 1, "expected batch=1:64"),
        (["export", "{models}:small", "-o", "{tmp}/x.pte", "--input-shape", "2xb"], 1, "--input-shape 2xb: expected"),
        (["export", "{models}:small", "-o", "{tmp}/x.pte", "--chunk", "3"], 2, "--chunk is for language models"),
        (["export", "{tmp}/none.gguf", "-o", "{tmp}/x.pte", "--check"], 2, "--check is not for language models"),
        (
            ["export", "{models}:small", "-o", "{tmp}/x.pte", "--device", "CPU"],
            2,
            "says where --check runs the program",
        ),
        (
            ["export", "{models}:small", "-o", "{tmp}/x.pte", "--quantize", "q4_k_m"],
            1,
            "q4_k_m is a mixture for language models",
        ),
        (["compare", "{program}", "{program}", "--layers", "--device", "CPU"], 2, "--layers compares what the CPU"),
        (["run", "{program}", "--top", "5", "--labels", "{models}"], 1, "labels, and the program has 4 classes"),
        (["run", "{tmp}/none.pte"], 1, "none.pte: No such file or directory"),
        (["run", "/dev/null"], 1, "/dev/null: an empty file, and no program"),
        (["run", "{program}", "-i", "{models}"], 1, "expected a file of .npy"),
        (["run", "{program}", "-i", "{tmp}/none.npy"], 1, "none.npy: no such file"),
        (["run", "{program}", "-o", "{tmp}/x.txt"], 1, "x.txt: expected a file of .npy, .npz, .json"),
        (["run", "{program}", "-o", "{tmp}/none/x.npy"], 1, "none: no such folder to write x.npy to"),
        (["run", "{program}", "--method", "backward"], 1, "has no method 'backward', but forward"),
        (["compare", "{program}", "resnet18"], 1, "resnet18: expected torchvision:NAME"),
        (["run"], 2, "Missing argument 'PROGRAM'"),
        (["frobnicate"], 2, "No such command 'frobnicate'"),
    ],
)
def test_errors_say_what_to_do(
    line: list[str],
    code: int,
    message: str,
    models: Path,
    program: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([argument.format(models=models, program=program, tmp=tmp_path) for argument in line]) == code
    assert message in capsys.readouterr().err
    assert not (tmp_path / "x.pte").exists()
