"""From traced methods of a model to one ExecuTorch program."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from executorch.exir import EdgeCompileConfig, ExecutorchProgramManager, to_edge_transform_and_lower
from torch import Tensor
from torch.export import ExportedProgram
from transformers import PreTrainedModel

from .._export import check_kernels, executorch_config
from ..frontends.aten.weights import StoredWeight, WeightSource
from ..ir.dtypes import DType
from ..partition import GgmlPartitioner
from ..partition.functional import decomposed
from ..partition.kernels import ANY_KERNEL
from ..partition.outlines import outline_delegates
from ..progress import stage
from .attention import exported_functions
from .metadata import METHODS, TOKENIZER_KEY
from .rotary import kept_rotary

if TYPE_CHECKING:
    from .tokenizer import Tokenizer

HALVES = (torch.float16, torch.bfloat16)


class _Halves:
    """The matrices of a model in half precision as they are; what is computed with them is in float32."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._parameters = dict(model.named_parameters(remove_duplicate=False))

    def find(self, name: str, parameter: Tensor) -> StoredWeight | None:
        """A parameter of two dims and more as the model has it."""
        del parameter
        given = self._parameters.get(name)
        dtype = None if given is None or given.dim() < 2 else DType.from_torch(given.dtype)
        if given is None or dtype is None:
            return None
        by_columns = StoredWeight(dtype, lambda: _bytes(given.mT))
        return StoredWeight(dtype, lambda: _bytes(given), transposed=lambda: by_columns)


def _bytes(parameter: Tensor) -> Tensor:
    return parameter.detach().contiguous().reshape(-1).view(torch.uint8)


class _OfTheModel:
    """A weight source that is asked by the names that parameters have in the model, not in the module around it."""

    def __init__(self, weights: WeightSource) -> None:
        self._weights = weights

    def find(self, name: str, parameter: Tensor) -> StoredWeight | None:
        return self._weights.find(name.removeprefix("model."), parameter)


def in_float32(model: PreTrainedModel, weights: WeightSource | None) -> tuple[PreTrainedModel, WeightSource | None]:
    """A model in half precision as one that computes in float32, and its matrices as what is stored."""
    if model.dtype not in HALVES:
        return model, weights
    return copy.deepcopy(model).float(), _Halves(model) if weights is None else weights


@contextmanager
def evaluated(model: PreTrainedModel) -> Iterator[None]:
    """Have a model compute neither dropout nor gradients."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)


@contextmanager
def called_with_cache(model: PreTrainedModel) -> Iterator[None]:
    """Have whatever a model has against being called with a cache be a ValueError that names it."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{type(model).__name__} does not work with this cache: {error}") from error


@contextmanager
def traceable(model: PreTrainedModel) -> Iterator[None]:
    """Have a model use this project's functions, and neither dropout nor gradients, while it is traced."""
    with stage("tracing"), evaluated(model), exported_functions(model), kept_rotary(model):
        yield


def lowered(
    programs: Mapping[str, ExportedProgram],
    *,
    weights: WeightSource | None,
    precision: str | None = None,
    layout: str | None = None,
    cache_type: str = "f32",
    metadata: Mapping[str, Any],
    tokenizer: Tokenizer | None,
) -> ExecutorchProgramManager:
    """The program of some methods, whose modules hold the model as ``model`` and its states as ``cache``."""
    states = {"cache.*": cache_type} if cache_type == "q8_0" else None
    partitioner = GgmlPartitioner(
        weights=None if weights is None else _OfTheModel(weights),
        precision=precision,
        layout=layout,
        state_types=states,
        own_kernels=ANY_KERNEL,
    )
    with stage("lowering"):
        edge = to_edge_transform_and_lower(
            {name: decomposed(program) for name, program in programs.items()},
            partitioner=[partitioner],
            compile_config=EdgeCompileConfig(_check_ir_validity=False),
            constant_methods=dict(metadata),
        )
    if tokenizer is not None:
        edge._named_data_store.add_named_data(TOKENIZER_KEY, tokenizer.to_bytes())
    outline_delegates(edge)
    check_kernels(edge, partitioner)
    _warn_of_what_is_left(partitioner)
    return edge.to_executorch(executorch_config())


def under_all_names(program: ExecutorchProgramManager) -> ExecutorchProgramManager:
    """The program with ``forward`` under each of its names; there is one delegate of it in the file."""
    methods = {name: program.exported_program(name) for name in program.methods}
    methods |= dict.fromkeys(METHODS, methods["forward"])
    return ExecutorchProgramManager(methods, program._config_methods, executorch_config(), program._named_data)


def _warn_of_what_is_left(partitioner: GgmlPartitioner) -> None:
    left = {name: why for name, why in partitioner.refused.items() if "read from a tensor" not in why}
    if left or partitioner.kept_buffers:
        warnings.warn(
            f"parts of the model stay with ExecuTorch, which is slow: {json.dumps(left | partitioner.kept_buffers)}",
            stacklevel=4,
        )
