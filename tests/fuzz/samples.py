"""Arguments for each overload: the calls that PyTorch's own operator tests (OpInfo) make, recorded."""

from __future__ import annotations

import functools
import random
import re
import warnings
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.overrides import TorchFunctionMode
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import SEED
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from executorch_ggml.frontends.aten.registry import PRESERVED

aten = torch.ops.aten

LARGEST = 4096  # elements of a sample's tensors
PER_OPINFO = 64  # samples that are recorded of one operator test

# Operator tests that have another name than the overload whose arguments they make.
TESTS = {
    "_adaptive_avg_pool2d": ["adaptive_avg_pool2d"],
    "_adaptive_avg_pool3d": ["adaptive_avg_pool3d"],
    "_cdist_forward": ["cdist"],
    "_log_softmax": ["log_softmax"],
    "_native_batch_norm_legit_no_training": ["batch_norm"],
    "_softmax": ["softmax"],
    "_to_copy": ["to", "float", "int", "bool", "long", "half"],
    "_to_dim_order_copy": ["to", "float", "int"],
    "_clone_dim_order": ["clone"],
    "convolution": ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"],
    "div": ["div", "true_divide"],
    "index": ["__getitem__", "index_put"],
    "linear": ["linear", "bilinear"],
    "max_pool2d_with_indices": ["max_pool2d", "adaptive_max_pool2d"],
    "native_group_norm": ["group_norm"],
    "native_layer_norm": ["layer_norm"],
    "reshape": ["reshape", "view"],
    "upsample_bilinear2d": ["interpolate", "upsample_bilinear"],
    "upsample_nearest2d": ["interpolate", "upsample_nearest"],
    "constant_pad_nd": ["pad"],
    "where": ["where"],
}


PLACING = frozenset({"device", "layout", "pin_memory", "non_blocking", "generator"})


class Sample(NamedTuple):
    """The arguments of one call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def plain(overload: OpOverload) -> str:
    """An overload's name without what marks a variant of the same function."""
    name = overload._schema.name.split("::")[1]
    return re.sub(r"_copy$", "", name) if name not in TESTS else name


@functools.cache
def _by_name() -> dict[str, list[OpInfo]]:
    found: dict[str, list[OpInfo]] = defaultdict(list)
    for info in op_db:
        names = [info.name, *(alias.name for alias in info.aliases)]
        for name in {name.rsplit(".", 1)[-1] for name in names}:
            found[name].append(info)
    return found


def tests_of(overload: OpOverload) -> list[OpInfo]:
    """The operator tests whose calls are this overload's."""
    name = plain(overload)
    table = _by_name()
    names = TESTS.get(name, [name, name.lstrip("_"), f"__{name}__"])
    return [info for candidate in dict.fromkeys(names) for info in table.get(candidate, ())]


class _Recorder(TorchDispatchMode):
    """Keeps the calls that reach the kernels, and with `_Composites`, those of ops that are lowered whole."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[OpOverload, list[Sample]] = defaultdict(list)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.keep(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))

    def keep(self, overload: OpOverload, args: Any, kwargs: Any) -> None:
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if any(tensor.is_complex() or tensor.numel() > LARGEST or tensor.layout != torch.strided for tensor in tensors):
            return
        args, kwargs = tree_map_only(Tensor, lambda tensor: tensor.detach().clone().contiguous(), (args, kwargs))
        self.calls[overload].append(_as_exported(overload, args, kwargs))


def _as_exported(overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sample:
    """Arguments as an export has them: at their positions, numbers for lists in lists, and no devices and layouts."""
    schema = overload._schema.arguments
    positional = [argument for argument in schema if not argument.kwarg_only]
    places = [i for i, argument in enumerate(positional) if i < len(args) or argument.name in kwargs]
    rest = positional[len(args) : max(places, default=-1) + 1]
    made = (*args, *(kwargs.get(argument.name, argument.default_value) for argument in rest))
    made = tuple(_listed(argument, value) for argument, value in zip(positional, made, strict=False))
    named = {argument.name for argument in schema if argument.kwarg_only} - PLACING
    return Sample(made, {name: value for name, value in kwargs.items() if name in named and value is not None})


def _listed(argument: Any, value: Any) -> Any:
    return [value] if isinstance(value, int) and "List[int]" in str(argument.type) else value


class _Composites(TorchFunctionMode):
    """Sees the ops that are composed of others before they fall apart."""

    def __init__(self, recorder: _Recorder, overloads: list[OpOverload]) -> None:
        super().__init__()
        self.recorder = recorder
        self.by_name = defaultdict(list)
        for overload in overloads:
            self.by_name[overload._schema.name.split("::")[1]].append(overload)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        for overload in self.by_name.get(getattr(func, "__name__", ""), ()):
            try:
                overload(*args, **kwargs)
            except Exception:
                continue
            self.recorder.keep(overload, args, kwargs)
        return func(*args, **kwargs)


COMPOSITES = [
    *PRESERVED,
    aten.reshape.default,
    aten.flatten.using_ints,
]


@functools.cache
def _recorded(index: int, dtype: torch.dtype) -> dict[OpOverload, list[Sample]]:
    info = op_db[index]
    recorder = _Recorder()
    torch.manual_seed(index)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in _samples(info, dtype):
            try:
                with _Composites(recorder, COMPOSITES), recorder:
                    info.op(sample.input, *sample.args, **sample.kwargs)
            except Exception:
                continue
    return recorder.calls


def _samples(info: OpInfo, dtype: torch.dtype) -> Iterator[Any]:
    if dtype not in info.supported_dtypes("cpu"):
        return
    # Not `info.sample_inputs`, which looks through the whole stack for a test case at each sample.
    made = iter(info.sample_inputs_func(info, "cpu", dtype, False))
    for _ in range(PER_OPINFO):
        _seed(SEED)
        sample = next(made, None)
        if sample is None:
            return
        yield sample


def _seed(seed: int) -> None:
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


@functools.cache
def _indices() -> dict[int, int]:
    return {id(info): index for index, info in enumerate(op_db)}


@functools.cache
def samples(overload: OpOverload, dtype: torch.dtype) -> tuple[Sample, ...]:
    """Calls of an overload, or of the one that makes views where this one copies, from tests for a type."""
    found: list[Sample] = []
    for info in tests_of(overload):
        calls = _recorded(_indices()[id(info)], dtype)
        for name in same_arguments(overload):
            found += calls.get(name, [])
    return tuple(found)


def same_arguments(overload: OpOverload) -> list[OpOverload]:
    """The overload and those that are called alike."""
    name, variant = overload._schema.name.split("::")[1], overload._overloadname
    found = [overload]
    for other in {re.sub(r"_copy$", "", name), name + "_copy", {"_clone_dim_order": "clone"}.get(name, name)}:
        packet = getattr(aten, other, None)
        if packet is not None and variant in packet.overloads():
            found.append(getattr(packet, variant))
    return list(dict.fromkeys(found))


def spread(found: tuple[Sample, ...], count: int) -> list[Sample]:
    """So many of them, from first to last."""
    step = max(len(found) / count, 1)
    return [found[int(place * step)] for place in range(min(count, len(found)))]
