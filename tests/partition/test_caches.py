"""Programs that nothing uses any more leave memory, with their weights: no cache of torch or ExecuTorch holds them."""

import gc
import weakref

import torch
from executorch.exir import to_edge_transform_and_lower
from torch import Tensor, nn

import executorch_ggml
from executorch_ggml.partition import GgmlPartitioner

ARGS = (torch.randn(2, 8),)


def layers() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)).eval()


def exported_and_dropped() -> "weakref.ref[Tensor]":
    model = layers()
    executorch_ggml.export(model, ARGS)
    return weakref.ref(model.get_parameter("0.weight"))


def lowered_and_dropped() -> "weakref.ref[Tensor]":
    model = layers()
    to_edge_transform_and_lower(torch.export.export(model, ARGS), partitioner=[GgmlPartitioner()]).to_executorch()
    return weakref.ref(model.get_parameter("0.weight"))


def test_export() -> None:
    weight = exported_and_dropped()
    gc.collect()
    assert weight() is None


def test_the_partitioner_leaves_nothing_of_the_program_before() -> None:
    weight = lowered_and_dropped()
    lowered_and_dropped()
    gc.collect()
    assert weight() is None
