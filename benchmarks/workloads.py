"""What the benchmarks run: models of the zoo at the sizes they are timed at, and two probes of the framework."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from tests import torchvision_cpu, zoo
from torch import Tensor, nn
from torch.export import Dim

from benchmarks import int8
from executorch_ggml.benchmark.workload import Workload, one_node

if TYPE_CHECKING:
    from collections.abc import Callable

TOKENS = 128
BATCHES = (8, 32)
SEQUENCES = (512, 2048)
SENTENCES = (128, 113, 96, 74, 51, 33, 17, 6)
"""The lengths of the sentences of one batch."""

ADD = "add"
BIG = "big"


BIG_WIDTH = 4096
BIG_LAYERS = 8
BIG_BYTES = 4 * BIG_LAYERS * BIG_WIDTH * (BIG_WIDTH + 1)
"""Of its weights."""


def _big() -> Workload:
    """Some 540 MB of weights and next to no work beside reading them."""
    torch.manual_seed(0)
    layers = [nn.Linear(BIG_WIDTH, BIG_WIDTH) for _ in range(BIG_LAYERS)]
    args = (torch.randn(1, BIG_WIDTH),)
    return Workload(nn.Sequential(*layers).eval(), args)


MODELS: dict[str, Callable[[], zoo.Model]] = {
    **{name: partial(zoo.load, name) for name in ("bert", "llama", "vit", "unet", "lstm", "gru")},
    **{
        name: partial(zoo.torchvision_model, name, pixels=224)
        for name in ("resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3_small")
    },
    # For tests: they take a second.
    "tiny-bert": partial(zoo.load, "bert", small=True),
    "tiny-mobilenet_v2": partial(zoo.load, "mobilenet_v2", small=True),
}
VISION = ("vit", "resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3_small", "unet")


def _reaching(model: zoo.Model, **sizes: int) -> zoo.Model:
    """The same model whose dynamic dimensions reach up to those sizes at least."""

    def reaching(dim: Dim) -> Dim:
        return Dim(dim.__name__, min=dim.min, max=max(dim.max, sizes.get(dim.__name__, 0)))

    shapes = tuple({axis: reaching(dim) for axis, dim in dims.items()} for dims in model.dynamic_shapes)
    return model._replace(dynamic_shapes=shapes)


def _of(model: zoo.Model, args: tuple[Tensor, ...]) -> Workload:
    return Workload(model.module, args, model.args, model.dynamic_shapes)


def _sized(model: zoo.Model, batch: int = 1, tokens: int = TOKENS) -> Workload:
    return _of(_reaching(model, batch=batch, tokens=tokens), zoo.resized(model, batch=batch, tokens=tokens))


def _sentences(model: zoo.Model) -> Workload:
    """A batch of `SENTENCES`, each padded to the longest."""
    input_ids, _ = zoo.resized(model, batch=len(SENTENCES), tokens=max(SENTENCES))
    mask = (torch.arange(max(SENTENCES)) < torch.tensor(SENTENCES)[:, None]).to(torch.int64)
    return _of(model, (input_ids, mask))


def _in_int8(workload: Workload) -> Workload:
    assert workload.module is not None
    batches = int8.calibration(workload.args)
    quantized = int8.quantized(workload.module, batches)
    return replace(workload, int8=quantized, calibration=batches, step=int8.last_step(quantized))


def _at_batch(name: str, batch: int) -> Workload:
    return _sized(MODELS[name](), batch=batch)


def _at_tokens(name: str, tokens: int) -> Workload:
    return _sized(zoo.bert(max_tokens=tokens) if name == "bert" else MODELS[name](), tokens=tokens)


WORKLOADS: dict[str, Callable[[], Workload]] = {
    ADD: one_node,
    BIG: _big,
    **{name: partial(_at_batch, name, 1) for name in MODELS},
    **{f"{name}-int8": partial(lambda name: _in_int8(_at_batch(name, 1)), name) for name in MODELS},
    **{f"{name}-batch{batch}": partial(_at_batch, name, batch) for name in VISION for batch in BATCHES},
    "bert-sentences": lambda: _sentences(MODELS["bert"]()),
    **{
        f"{name}-tokens{tokens}": partial(_at_tokens, name, tokens)
        for name in ("bert", "llama")
        for tokens in SEQUENCES
    },
}


def load(name: str) -> Workload:
    """The workload of that name."""
    return WORKLOADS[name]()


def prepare() -> None:
    """Let a process unpickle the models' classes."""
    torchvision_cpu.torchvision_models()  # puts them where they are looked for
    zoo.register_causal_attention()
