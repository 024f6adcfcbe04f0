"""MobileNetV2 through WebNN: built with the builder (random weights), run on each backend, and converted to ONNX.

Run it with `python examples/webnn_mobilenet.py [--size 224] [--backend ggml]` where the package is installed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples.demo_support.webnn_networks import mobilenet

from executorch_ggml import webnn
from executorch_ggml.webnn.registry import names


def main() -> None:
    """Build once for each backend, compare with the first, and time it."""
    parser = argparse.ArgumentParser(description="MobileNetV2 through WebNN.")
    parser.add_argument("--size", type=int, default=224, help="pixels of the image's sides")
    parser.add_argument("--backend", action="append", help="only this one")
    parser.add_argument("--onnx", type=Path, help="write the model as ONNX as well")
    args = parser.parse_args()
    image = np.random.default_rng(1).standard_normal((1, 3, args.size, args.size)).astype(np.float32)
    expected = None
    for name in args.backend or names("executor"):
        try:
            context = webnn.ML().create_context(backend=name)
        except webnn.BackendUnavailable as reason:
            print(f"{name}: {reason}")
            continue
        builder = context.create_graph_builder()
        start = time.perf_counter()
        graph = builder.build({"classes": mobilenet(builder, builder.input("image", list(image.shape)))})
        built = time.perf_counter() - start
        classes = context.compute(graph, {"image": image})["classes"]
        expected = classes if expected is None else expected
        times = []
        for _ in range(10):
            start = time.perf_counter()
            context.compute(graph, {"image": image})
            times.append(time.perf_counter() - start)
        print(
            f"{name}: class {int(classes.argmax())}, {np.abs(classes - expected).max():.1e} from the first; "
            f"built in {built:.2f} s, {statistics.median(times) * 1e3:.1f} ms an image"
        )
        if args.onnx is not None:
            args.onnx.write_bytes(context.convert(graph, "onnx").SerializeToString())
            args.onnx = None


if __name__ == "__main__":
    main()
