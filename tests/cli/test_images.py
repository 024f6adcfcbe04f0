"""Images as inputs: torchvision's and timm's own transforms, kept in the program; labels and the best classes."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import executorch_ggml
from executorch_ggml.cli import main
from executorch_ggml.cli.classes import best_classes
from executorch_ggml.images import IMAGE_KEY, ImageInput


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two pictures of different sizes, one a CMYK file, and programs of a model of each library."""
    from tests import torchvision_cpu

    try:
        torchvision_cpu.torchvision_models()
    except ModuleNotFoundError as error:
        pytest.skip(str(error))
    from PIL import Image

    folder = tmp_path_factory.mktemp("images")
    pixels = np.random.default_rng(0).integers(0, 255, (15, 20, 3), dtype=np.uint8)
    Image.fromarray(pixels).resize((400, 300)).save(folder / "wide.png")
    Image.fromarray(pixels).resize((220, 500)).convert("CMYK").save(folder / "high.jpg")
    for name in ("torchvision:resnet18", "timm:test_resnet"):
        library = name.partition(":")[0]
        line = ["export", name, "-o", str(folder / f"{library}.pte"), "--random-weights", "--dynamic", "batch=1:2"]
        with contextlib.redirect_stdout(io.StringIO()) as text:
            assert main([*line, "--check", "--json"]) == 0
        assert json.loads(text.getvalue())["error"] < 1e-5
    return folder


def test_random_inputs_are_of_the_largest_sizes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for library in ("torchvision", "timm"):
        said = run(capsys, folder / f"{library}.pte")
        assert said["outputs"][0]["shape"] == [2, 1000]
        assert "classes" not in said  # they are for files


def run(capsys: pytest.CaptureFixture[str], *line: str | Path) -> Any:
    """The JSON object that ``run`` prints."""
    assert main(["run", *map(str, line), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def opened(path: Path) -> Any:
    from PIL import Image

    return Image.open(path).convert("RGB")


def test_torchvision_s_transforms_and_labels(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from torchvision.models import ResNet18_Weights

    weights, files = ResNet18_Weights.DEFAULT, [folder / "wide.png", folder / "high.jpg"]
    expected = executorch_ggml.load(folder / "torchvision.pte")(
        torch.stack([weights.transforms()(opened(file)) for file in files])
    )
    said = run(capsys, folder / "torchvision.pte", "-i", files[0], "-i", files[1])
    np.testing.assert_array_equal(np.array(said["outputs"][0]["values"], np.float32), expected.numpy())
    probabilities = expected.softmax(1)
    for number, (row, indices) in enumerate(zip(said["classes"], expected.topk(5).indices.tolist(), strict=True)):
        shares = probabilities[number, indices].tolist()
        assert [each["class"] for each in row] == indices
        assert [each["label"] for each in row] == [weights.meta["categories"][index] for index in indices]
        assert [each["probability"] for each in row] == pytest.approx(shares, rel=1e-5)
    assert main(["run", str(folder / "torchvision.pte"), "-i", str(files[0]), "--top", "1"]) == 0
    assert f"%  {said['classes'][0][0]['label']}\n" in capsys.readouterr().out


def test_timm_s_transforms_and_labels(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import timm

    model = timm.create_model("test_resnet", pretrained=False)
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(model))
    expected = executorch_ggml.load(folder / "timm.pte")(transform(opened(folder / "wide.png"))[None])
    said = run(capsys, folder / "timm.pte", "-i", folder / "wide.png", "--top", "2")
    np.testing.assert_array_equal(np.array(said["outputs"][0]["values"], np.float32), expected.numpy())
    assert [each["class"] for each in said["classes"][0]] == expected.topk(2).indices[0].tolist()
    assert all(each["label"] for each in said["classes"][0])


def test_others_can_be_said(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from executorch_ggml.images import as_input

    program, picture = folder / "torchvision.pte", folder / "wide.png"
    said = run(capsys, program, "-i", picture, "--transforms", "resize")
    assert "classes" not in said
    resized = torch.from_numpy(as_input(opened(picture), (3, 224, 224)))[None]
    expected = executorch_ggml.load(program)(resized).numpy()
    np.testing.assert_array_equal(np.array(said["outputs"][0]["values"], np.float32), expected)
    names = [f"thing {index}" for index in range(1000)]
    (tmp_path / "labels.txt").write_text("\n".join(names))
    (tmp_path / "labels.json").write_text(json.dumps({str(index): name for index, name in enumerate(names)}))
    for file in ("labels.txt", "labels.json"):
        (best, *_), *_ = run(capsys, program, "-i", picture, "--labels", tmp_path / file)["classes"]
        assert best["label"] == f"thing {best['class']}"
    weights = "torchvision:ResNet50_Weights.IMAGENET1K_V2"  # resized to 232, not 256
    other = run(capsys, program, "-i", picture, "--transforms", weights)["outputs"]
    assert other != run(capsys, program, "-i", picture)["outputs"]


def test_an_input_of_another_size_keeps_the_share_that_is_cropped(folder: Path) -> None:
    from torchvision.models import ResNet18_Weights

    picture = opened(folder / "wide.png")
    found = ImageInput.named("torchvision:resnet18").array(picture, (1, 3, 112, 112))
    expected = ResNet18_Weights.DEFAULT.transforms(crop_size=112, resize_size=128)(picture)
    np.testing.assert_array_equal(found, expected.numpy())
    assert ImageInput.named("timm:test_resnet").array(picture, (1, 3, 96, 64)).shape == (3, 96, 64)
    assert ImageInput.named("torchvision:deeplabv3_resnet50").array(picture, (1, 3, 64, 96)).shape == (3, 64, 96)
    assert ImageInput.named("torchvision:fasterrcnn_resnet50_fpn").array(picture, (1, 3, 64, 96)).shape == (3, 64, 96)


def test_batch_inference_uses_them(folder: Path) -> None:
    from executorch_ggml.ray.predict import ImagePredictor

    program, pixels = folder / "torchvision.pte", np.asarray(opened(folder / "wide.png"))
    found = ImagePredictor(program)({"image": pixels[None]})["output"]
    array = ImageInput.named("torchvision:resnet18").array(opened(folder / "wide.png"), (3, 224, 224))
    np.testing.assert_array_equal(found, executorch_ggml.load(program)(torch.from_numpy(array)[None]).numpy())
    resized = ImagePredictor(program, mean=(0.5, 0.5, 0.5))({"image": pixels[None]})["output"]
    assert not np.array_equal(resized, found)


def test_a_program_keeps_them(folder: Path) -> None:
    found = ImageInput.of_program(folder / "torchvision.pte")
    assert found == ImageInput.named("torchvision:resnet18")
    assert ImageInput.from_bytes(found.to_bytes()) == found


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"library": "x", "options": {}, "labels": []}', b"\xff"])
def test_what_a_damaged_program_says_is_an_error(data: bytes, tmp_path: Path) -> None:
    layer, x = torch.nn.Linear(2, 2), (torch.zeros(1, 2),)
    executorch_ggml.export(layer, x, named_data={IMAGE_KEY: data or b" "}).save(str(tmp_path / "m.pte"))
    with pytest.raises(ValueError, match="image transforms are damaged"):
        ImageInput.of_program(tmp_path / "m.pte")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--transforms", "torchvision:nothing"], "torchvision has no model or weights 'nothing'"),
        (["--transforms", "timm:nothing"], "timm has no model 'nothing'"),
        (["--transforms", "keras"], "transforms 'keras': expected torchvision:NAME, timm:NAME or resize"),
        (["--labels", "{folder}/few.txt"], "there are 1 labels, and the program has 1000 classes"),
        (["--labels", "{folder}/wrong.json"], "wrong.json: expected a JSON list of labels"),
        (["-i", "{folder}/wide.png", "-i", "{folder}/wide.png"], "size 3 in dim 0, expected at most 2"),
    ],
)
def test_errors_say_what_to_do(
    options: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "few.txt").write_text("one")
    (folder / "wrong.json").write_text('{"a": 1}')
    line = [option.format(folder=folder) for option in options]
    assert main(["run", str(folder / "torchvision.pte"), "-i", f"{folder}/wide.png", "--top", "1", *line]) == 1
    assert message in capsys.readouterr().err


def test_probabilities_are_left_as_they_are() -> None:
    scores = [np.array([[0.1, 0.7, 0.2], [0.5, 0.25, 0.25]], np.float32)]
    first, second = best_classes(scores, ("a", "b", "c"), 2) or [[], []]
    assert [(each["label"], round(each["probability"], 6)) for each in first] == [("b", 0.7), ("c", 0.2)]
    assert [each["class"] for each in second] == [0, 1]
    assert best_classes(scores, (), None) is None
    with pytest.raises(ValueError, match=r"no output has a score for each class, \[batch, classes\]"):
        best_classes([np.zeros((2, 3, 4), np.float32)], (), 1)
