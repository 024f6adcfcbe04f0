"""From traced methods of a model to one ExecuTorch program."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from executorch.exir import ExecutorchProgramManager
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.nn.modules.conv import _ConvNd
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only
from transformers import PreTrainedModel

from .._export import check_kernels, executorch_config, to_executorch
from ..frontends.aten.weights import StoredWeight, WeightSource
from ..ir.dtypes import DType
from ..partition import GgmlPartitioner
from ..partition.edge import lowered_to_edge
from ..partition.functional import decomposed
from ..partition.kernels import ANY_KERNEL
from ..progress import stage
from .attention import exported_functions
from .metadata import METHODS, TOKENIZER_KEY
from .rotary import kept_rotary

if TYPE_CHECKING:
    from .tokenizer import Tokenizer

HALVES = (torch.float16, torch.bfloat16)


class _Halves:
    """The matrices of a model in half precision as they are, for a module that has memory without values for them."""

    def __init__(self, matrices: Mapping[str, Tensor], weights: WeightSource | None) -> None:
        self.matrices = matrices
        self._weights = weights

    def find(self, name: str, parameter: Tensor) -> StoredWeight | None:
        """A matrix as the model has it, or as other weights do; what these say of all else."""
        matrix = self.matrices.get(name)
        if matrix is None:
            return None if self._weights is None else self._weights.find(name, parameter)
        stored = _as_it_is(matrix) if self._weights is None else self._weights.find(name, matrix)
        return None if stored is None else replace(stored, replaces=True)


def _as_it_is(matrix: Tensor) -> StoredWeight:
    dtype = DType.from_torch(matrix.dtype)
    assert dtype is not None
    by_columns = StoredWeight(dtype, lambda: _bytes(matrix.mT))
    return StoredWeight(dtype, lambda: _bytes(matrix), transposed=lambda: by_columns)


def _bytes(parameter: Tensor) -> Tensor:
    return parameter.detach().contiguous().reshape(-1).view(torch.uint8)


class _OfTheModel:
    """A weight source that is asked by the names that parameters have in the model, not in the module around it."""

    def __init__(self, weights: WeightSource) -> None:
        self._weights = weights

    def find(self, name: str, parameter: Tensor) -> StoredWeight | None:
        return self._weights.find(name.removeprefix("model."), parameter)


def in_float32(model: PreTrainedModel, weights: WeightSource | None) -> tuple[PreTrainedModel, WeightSource | None]:
    """A model in half precision as one that computes in float32, and its matrices as what is stored.

    The matrices of that model have sizes but no values, and take no memory: they are read from the first one's while
    the program is written, and while :func:`with_values` lasts.
    """
    if model.dtype not in HALVES:
        return model, weights
    of_convolutions = {id(module.weight) for module in model.modules() if isinstance(module, _ConvNd)}
    matrices = {
        name: parameter
        for name, parameter in model.named_parameters(remove_duplicate=False)
        if parameter.dim() > 1
        and parameter.dtype in HALVES
        and id(parameter) not in of_convolutions
        and (weights is None or weights.find(name, parameter) is not None)
    }
    hollow: dict[int, Any] = {id(matrix): _without_values(matrix) for matrix in matrices.values()}
    return copy.deepcopy(model, hollow).float(), _Halves(matrices, weights)


def _without_values(matrix: Tensor) -> nn.Parameter:
    """Float32 zeros of the same sizes. NumPy asks the system for them, which gives memory to what is written alone."""
    return nn.Parameter(torch.from_numpy(np.zeros(matrix.shape, np.float32)), requires_grad=False)


class _Widening(TorchFunctionMode):
    """Has functions read other tensors, in float32, in place of some."""

    def __init__(self, tensors: Mapping[int, Tensor]) -> None:
        super().__init__()
        self._tensors = tensors

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        args, kwargs = tree_map_only(Tensor, self._widened, (args, kwargs or {}))
        return func(*args, **kwargs)

    def _widened(self, tensor: Tensor) -> Tensor:
        half = self._tensors.get(id(tensor))
        return tensor if half is None else half.detach().float()


def with_values(model: PreTrainedModel, weights: WeightSource | None) -> AbstractContextManager[Any]:
    """Have the float32 model of :func:`in_float32` compute with its matrices' values, each widened while it is read."""
    if not isinstance(weights, _Halves):
        return nullcontext()
    parameters = model.named_parameters(remove_duplicate=False)
    return _Widening({id(value): weights.matrices[name] for name, value in parameters if name in weights.matrices})


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
        core = {name: decomposed(program) for name, program in programs.items()}
        edge = lowered_to_edge(core, partitioner, constant_methods=metadata)
    if tokenizer is not None:
        edge._named_data_store.add_named_data(TOKENIZER_KEY, tokenizer.to_bytes())
    check_kernels(edge, partitioner)
    _warn_of_what_is_left(partitioner)
    return to_executorch(edge)


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
