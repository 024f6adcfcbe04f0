"""Golden replay: the IR of some models, line by line. A refactoring leaves it as it is; a new lowering shows its diff.

`python -m tests.test_golden` writes the files anew.
"""

import re
from pathlib import Path

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from executorch.exir.lowered_backend_module import LoweredBackendModule
from tests import zoo

from executorch_ggml import GgmlPartitioner
from executorch_ggml.ir.printer import to_text
from executorch_ggml.ir.serialize import deserialize

FOLDER = Path(__file__).parent / "golden"
MODELS = ("bert", "llama", "resnet18", "unet", "lstm")


def ir_text(name: str) -> str:
    """The delegate's graph; symbols are numbered as they come, and constants lose the digest of their contents."""
    model = zoo.load(name, small=True)
    exported = torch.export.export(model.module, model.args, dynamic_shapes=model.dynamic_shapes)
    graph = to_edge_transform_and_lower(exported, partitioner=[GgmlPartitioner()]).exported_program().graph_module
    (delegate,) = (module for module in graph.children() if isinstance(module, LoweredBackendModule))
    text = re.sub(r"#[0-9a-f]{16}", "", to_text(deserialize(delegate.processed_bytes)))
    symbols = dict.fromkeys(re.findall(r"^symbol (\w+):", text, re.MULTILINE))
    for number, symbol in enumerate(symbols):
        text = re.sub(rf"\b{symbol}\b", f"n{number}", text)
    return text + "\n"


@pytest.mark.parametrize("name", MODELS)
def test_golden(name: str) -> None:
    expected = (FOLDER / f"{name}.txt").read_text()
    assert ir_text(name).splitlines() == expected.splitlines(), "if this is meant: python -m tests.test_golden"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for model_name in MODELS:
        (FOLDER / f"{model_name}.txt").write_text(ir_text(model_name))
