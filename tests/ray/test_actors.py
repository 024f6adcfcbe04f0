"""The actors of Ray Data, called without Ray: results against eager, shapes, types, and errors that name the row."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.llm import models
from tests.llm.conftest import Exported, exported
from torch import nn

import executorch_ggml
from executorch_ggml import llm
from executorch_ggml.ray import Embedder, ImagePredictor, Predictor, TextGenerator

__all__ = ["exported"]


class Sums(nn.Module):
    """A layer, and the sum of integers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.layer(x), ids.sum(1)


@pytest.fixture(scope="module", params=["fixed", "symbolic"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[nn.Module, Path]:
    torch.manual_seed(0)
    model = Sums().eval()
    shapes = ({0: torch.export.Dim("n", max=4)},) * 2 if request.param == "symbolic" else None
    path = tmp_path_factory.mktemp("sums") / "model.pte"
    example = (torch.randn(4, 3), torch.ones(4, 5, dtype=torch.int64))
    executorch_ggml.export(model, example, dynamic_shapes=shapes).save(str(path))
    return model, path


def predictor(path: Path, **options: object) -> Predictor:
    named = {"inputs": ("x", "ids"), "outputs": ("y", "total"), "keep": ("id",), "key": "id", **options}
    return Predictor(path, **named)  # type: ignore[arg-type]


def batch(rows: int, x: type = np.float32, ids: type = np.int64) -> dict[str, np.ndarray]:
    random = np.random.default_rng(rows)
    return {
        "id": np.array([f"row-{row}" for row in range(rows)]),
        "x": (random.standard_normal((rows, 3)) * 5).astype(x),
        "ids": random.integers(0, 9, (rows, 5)).astype(ids),
    }


@pytest.mark.parametrize("rows", [1, 3, 4, 5, 9])
@pytest.mark.parametrize(("x", "ids"), [(np.float32, np.int64), (np.float64, np.int8), (np.int32, np.uint16)])
def test_batches_are_split_and_padded(program: tuple[nn.Module, Path], rows: int, x: type, ids: type) -> None:
    model, path = program
    values = batch(rows, x, ids)
    y, total = model(torch.from_numpy(values["x"].astype(np.float32)), torch.from_numpy(values["ids"].astype(np.int64)))
    result = predictor(path)(values)
    assert list(result) == ["id", "y", "total"]
    torch.testing.assert_close(torch.from_numpy(result["y"]), y.detach())
    torch.testing.assert_close(torch.from_numpy(result["total"]), total)


def test_no_rows(program: tuple[nn.Module, Path]) -> None:
    result = predictor(program[1])(batch(0))
    assert [len(column) for column in result.values()] == [0, 0, 0]


def test_bytes_are_written_once(
    program: tuple[nn.Module, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    data = program[1].read_bytes()
    for _ in range(2):
        predictor(data)(batch(2))  # type: ignore[arg-type]
    (file,) = tmp_path.glob("*/*.pte")
    assert file.read_bytes() == data


def test_errors_name_the_row_and_the_column(program: tuple[nn.Module, Path]) -> None:
    actor = predictor(program[1])
    ragged = batch(6)
    ragged["x"] = np.array([np.zeros(3)] * 5 + [np.zeros(2)] + [None], dtype=object)[:6]
    with pytest.raises(
        ValueError, match=r"column 'x', row 5 of the batch \(row-5\): shape \[2\], (expected|but .*) \[3\]"
    ):
        actor(ragged)
    with pytest.raises(KeyError, match="no column 'ids', but 'id', 'x'"):
        actor({name: column for name, column in batch(2).items() if name != "ids"})
    with pytest.raises(TypeError, match=r"column 'ids': float32, but the program takes torch\.int64"):
        actor(batch(2, ids=np.float32))
    with pytest.raises(TypeError, match=r"column 'x', row 0 .*expected numbers"):
        actor({**batch(2), "x": np.array([["a", "b", "c"]] * 2)})
    with pytest.raises(ValueError, match="column 'x' is in the dataset already"):
        predictor(program[1], outputs=("x", "total"), keep=None)(batch(2))
    with pytest.raises(ValueError, match="2 outputs, but 1 columns"):
        predictor(program[1], outputs="y")(batch(2))
    with pytest.raises(ValueError, match="has 2 inputs, but 1 columns"):
        predictor(program[1], inputs="x")
    with pytest.raises(FileNotFoundError, match="no such program on node"):
        predictor(Path("nowhere.pte"))


def test_int32_range(tmp_path: Path) -> None:
    example = (torch.ones(2, 3, dtype=torch.int32),)
    executorch_ggml.export(nn.Flatten(), example).save(str(tmp_path / "ids.pte"))
    actor = Predictor(tmp_path / "ids.pte", inputs="ids")
    ids = np.array([[1, 2, 3], [4, 2**31, 6]])
    with pytest.raises(ValueError, match=r"column 'ids', row 1 of the batch: a number outside of torch.int32"):
        actor({"ids": ids})


class Counter(nn.Module):
    """Adds how often it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: torch.Tensor
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        return x + self.calls


def test_a_result_depends_on_its_row_alone(tmp_path: Path) -> None:
    executorch_ggml.export(Counter(), (torch.zeros(2, 1),)).save(str(tmp_path / "counter.pte"))
    actor = Predictor(tmp_path / "counter.pte", inputs="x")
    for _ in range(2):
        assert actor({"x": np.zeros((5, 1))})["output"].tolist() == [[1.0]] * 5


def test_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.torchvision_cpu import SIDE_FOLDER

    from executorch_ggml.images import IMAGENET_MEAN, IMAGENET_STD

    if importlib.util.find_spec("PIL") is None:
        monkeypatch.syspath_prepend(str(SIDE_FOLDER))
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    executorch_ggml.export(nn.Flatten(), (torch.zeros(2, 3, 4, 6),)).save(str(tmp_path / "pixels.pte"))
    pixels = np.random.default_rng(0).integers(0, 256, (3, 4, 6, 3), np.uint8)
    encoded = io.BytesIO()
    image.fromarray(pixels[1]).save(encoded, "PNG")
    mixed = np.empty(4, object)
    mixed[:] = [pixels[0], encoded.getvalue(), pixels[2], np.full((9, 8), 255, np.uint8)]
    result = ImagePredictor(tmp_path / "pixels.pte", keep=())({"image": mixed})["output"].reshape(4, 3, 4, 6)
    white = np.full((1, 4, 6, 3), 255, np.uint8)
    expected = (np.concatenate([pixels, white]) / 255 - IMAGENET_MEAN) / IMAGENET_STD
    np.testing.assert_allclose(result, expected.transpose(0, 3, 1, 2), rtol=1e-5, atol=1e-6)
    mixed[2] = b"no image"
    with pytest.raises(ValueError, match="column 'image', row 2 of the batch: cannot identify"):
        ImagePredictor(tmp_path / "pixels.pte")({"image": mixed})
    mixed[2] = np.zeros((4, 6, 3), np.float32)
    with pytest.raises(ValueError, match="row 2 of the batch: float32, expected an image of uint8"):
        ImagePredictor(tmp_path / "pixels.pte")({"image": mixed})


def test_embeddings(tmp_path: Path) -> None:
    path = tmp_path / "bert.pte"
    tokenizer = models.tokenizer()
    llm.export_encoder(
        models.make_encoder("bert"), pooling="mean", max_seq_len=16, max_batch=4, tokenizer=tokenizer
    ).save(str(path))
    texts = np.array(["a text", "x", "another one", "b", "c d e"], object)
    result = Embedder(path, key="text")({"text": texts})
    np.testing.assert_array_equal(result["embedding"], llm.Encoder(path).embed(texts.tolist()))
    with pytest.raises(ValueError, match=r"column 'text', row 1 of the batch \(w+\): text 0 has \d+ tokens"):
        Embedder(path, key="text")({"text": np.array(["x", "w" * 99], object)})
    with pytest.raises(TypeError, match="column 'text', row 1 of the batch: int, expected a text"):
        Embedder(path)({"text": np.array(["x", 3], object)})


def test_text_generation(exported: Callable[..., Exported]) -> None:
    path = exported("llama")[1]
    prompts = np.array(["A text", "A text to go on from", "x"], object)
    how = {"max_new_tokens": 12, "sampling": {"temperature": 0.9}, "seed": 3}
    result = TextGenerator(path, **how)({"prompt": prompts})  # type: ignore[arg-type]
    generator = llm.Generator(path)
    for row, prompt in enumerate(prompts):
        generator.reset()
        generation = generator.stream(prompt, max_new_tokens=12, seed=3, temperature=0.9)
        assert result["text"][row] == "".join(generation)
        assert (result["finish"][row], result["new_tokens"][row]) == (generation.finish, len(generation.tokens))
    reversed_rows = TextGenerator(path, **how)({"prompt": prompts[::-1]})  # type: ignore[arg-type]
    assert reversed_rows["text"][::-1].tolist() == result["text"].tolist()
    with pytest.raises(ValueError, match="column 'prompt', row 1 of the batch: the prompt has"):
        TextGenerator(path, max_new_tokens=1)({"prompt": np.array(["x", "y" * 4000], object)})
