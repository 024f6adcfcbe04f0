"""What each fusion is worth: models with all of them, beside the same models with one of them switched off.

All variants of a model are programs in one process and on the same threads; they take turns in rounds. Also measured
is a fusion that the lowering does not make: queries, keys and values as one product.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from torch import Tensor, nn

import executorch_ggml
from benchmarks import results, workloads
from executorch_ggml import GgmlPartitioner
from executorch_ggml._export import executorch_config
from executorch_ggml.partition.backend import ALL_FUSIONS, FUSIONS

MODELS = ("bert", "llama", "vit", "resnet18", "mobilenet_v2", "unet")
SETTLE_SECONDS = 0.03
"""Between two turns: thread pools go on polling for a moment after their last call."""
CONDITIONS = """\
{threads} threads, the models and sizes of the section above. How many times as fast a model is with all fusions as with
all but this one; nothing where the fusion is not found in the model. Two programs of the same model differ by up to 5 %
here, by where their memory lies."""
MERGED_CONDITIONS = """\
Queries, keys and values as one linear layer whose result is split into heads, over three layers (speed as a multiple
of three layers'): what a merge would gain, if anything. It is not made."""


@dataclass
class Variant:
    """One program, and its fastest call in each round: what a fusion gains is less than what a busy machine takes."""

    run: Callable[[], Any]
    contents: bytes = b""
    rounds: list[float] = field(default_factory=list)

    def speed(self, other: Variant) -> float:
        """How many times as fast as `other` this is."""
        return min(other.rounds) / min(self.rounds)


def program(
    module: nn.Module, args: Any, shapes: Any, inputs: tuple[Tensor, ...], fusions: frozenset[str], folder: Path
) -> Variant:
    """A module as a loaded program, lowered with these fusions."""
    exported = torch.export.export(module, args, dynamic_shapes=shapes)
    config = EdgeCompileConfig(_check_ir_validity=False)
    partitioner = GgmlPartitioner(fusions=fusions)
    edge = to_edge_transform_and_lower(exported, partitioner=[partitioner], compile_config=config)
    graph_module = edge.exported_program().graph_module
    contents = b"".join(getattr(graph_module, str(n.target)).processed_bytes for n in _delegates(graph_module))
    path = folder / f"{len(list(folder.iterdir()))}.pte"
    edge.to_executorch(executorch_config()).save(str(path))
    loaded = executorch_ggml.load(path)
    return Variant(lambda: loaded(*inputs), contents)


def _delegates(graph_module: torch.fx.GraphModule) -> list[torch.fx.Node]:
    return [n for n in graph_module.graph.find_nodes(op="get_attr") if "lowered_module" in str(n.target)]


def take_turns(variants: list[Variant], rounds: int, seconds: float) -> None:
    """Time the variants, each for a while in each round, the first one changing."""
    order = list(variants)
    for variant in order:
        variant.run()
    for _ in range(rounds):
        for variant in order:
            time.sleep(SETTLE_SECONDS)
            variant.rounds.append(_fastest_call(variant.run, seconds))
        order.append(order.pop(0))


def _fastest_call(run: Callable[[], Any], seconds: float) -> float:
    durations = []
    run()
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        start = time.perf_counter()
        run()
        durations.append(time.perf_counter() - start)
    return min(durations)


def fusions_of(name: str, rounds: int, seconds: float) -> dict[str, str]:
    """A model's cell for each fusion."""
    workload = workloads.load(name)
    module, inputs = workload.reference, workload.args
    examples = inputs if workload.examples is None else workload.examples
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        made = {
            off: program(module, examples, workload.dynamic_shapes, inputs, ALL_FUSIONS - {off}, Path(folder))
            for off in ("", *FUSIONS)
        }
        whole = made.pop("")
        found = {off: variant for off, variant in made.items() if variant.contents != whole.contents}
        take_turns([whole, *found.values()], rounds, seconds)
        return {off: f"{whole.speed(found[off]):.2f}x" if off in found else "" for off in FUSIONS}


class Separate(nn.Module):
    """Three linear layers on one input, each split into heads."""

    def __init__(self, width: int, head: int) -> None:
        super().__init__()
        self.head = head
        self.layers = nn.ModuleList([nn.Linear(width, width, bias=False) for _ in range(3)])

    def forward(self, x: Tensor) -> list[Tensor]:
        return [self.split(layer(x)).exp() for layer in self.layers]

    def split(self, x: Tensor) -> Tensor:
        """Heads before rows."""
        return x.view(*x.shape[:-1], -1, self.head).transpose(1, 2)


class Merged(Separate):
    """The same as one layer."""

    def __init__(self, width: int, head: int) -> None:
        super().__init__(width, head)
        self.layers = nn.ModuleList([nn.Linear(width, 3 * width, bias=False)])

    def forward(self, x: Tensor) -> list[Tensor]:
        return [self.split(part).exp() for part in self.layers[0](x).chunk(3, -1)]


def merged(rounds: int, seconds: float) -> str:
    """The speed of one layer for queries, keys and values beside three."""
    rows = []
    for width, head, tokens in ((384, 64, 128), (384, 64, 1), (2048, 64, 1)):
        inputs = (torch.randn(1, tokens, width),)
        with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
            variants = [
                program(kind(width, head).eval(), inputs, None, inputs, ALL_FUSIONS, Path(folder))
                for kind in (Separate, Merged)
            ]
            take_turns(variants, rounds, seconds)
        rows.append([str(width), str(tokens), f"{variants[1].speed(variants[0]):.2f}x"])
    return results.markdown_table(["width", "rows", "merged"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fusions", description=__doc__)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS, metavar="MODEL")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7, help="how often each variant gets its turn")
    parser.add_argument("--seconds", type=float, default=0.2, help="length of a turn")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    executorch_ggml.set_num_threads(arguments.threads)
    columns = {}
    for name in arguments.models:
        columns[name] = fusions_of(name, arguments.rounds, arguments.seconds)
        print(name, columns[name], flush=True)
    rows = [[off, *(columns[name][off] for name in columns)] for off in FUSIONS]
    body = "\n\n".join(
        [
            CONDITIONS.format(threads=arguments.threads),
            results.markdown_table(["fusion", *columns], rows),
            MERGED_CONDITIONS,
            merged(arguments.rounds, arguments.seconds),
        ]
    )
    print(body)
    if set(arguments.models) == set(MODELS):
        results.write_section("fusions", "Fusions", body, results.RESULTS)


if __name__ == "__main__":
    main()
