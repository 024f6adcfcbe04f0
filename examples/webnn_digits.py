"""A network trained on handwritten digits, written again with the WebNN builder and run on every backend that is here.

Run it with `python examples/webnn_digits.py` where the package is installed; it trains for a few seconds first.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples.demo_support import digits as digits_demo
from examples.demo_support.webnn_networks import digits

from executorch_ggml import webnn
from executorch_ggml.webnn.registry import names


def main() -> None:
    """Train, write the graph to a file, and count on each backend how many digits are recognized."""
    data = digits_demo.load_digits()
    model = digits_demo.train(data)
    images, labels = data.test_images.numpy(), data.test_labels.numpy()
    print(f"torch: {np.mean(model(data.test_images).argmax(1).numpy() == labels):.2%} of {len(labels)} digits")

    builder = webnn.ML().create_context(accelerated=False).create_graph_builder()
    logits = digits(builder, builder.input("images", list(images.shape)), model)
    graph = builder.build({"digit": builder.arg_max(logits, 1)})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "digits.webnn"
        graph.save(path)
        print(f"{path.name}: {len(graph.info.operations)} operations, {path.stat().st_size} bytes of JSON")
        for name in names("executor"):
            try:
                context = webnn.ML().create_context(backend=name)
            except webnn.BackendUnavailable as reason:
                print(f"{name}: {reason}")
                continue
            found = context.compute(context.load(path), {"images": images})["digit"]
            print(f"{name}: {np.mean(found == labels):.2%}")


if __name__ == "__main__":
    main()
