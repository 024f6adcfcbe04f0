"""A causal language model of ``transformers`` as a program that reads tokens and remembers them."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import torch
from executorch.exir import EdgeCompileConfig, ExecutorchProgramManager, to_edge_transform_and_lower
from torch import Tensor, nn
from transformers import PreTrainedModel

from ..export import executorch_config
from ..ir.dtypes import DType
from ..lower.weights import StoredWeight, WeightSource
from ..partition import GgmlPartitioner
from . import experts  # noqa: F401 - registers them
from .attention import exported_functions
from .cache import DTYPES, KeyValueCache, Place, check_size, make_rows, sliding_windows
from .metadata import METHODS, TOKENIZER_KEY
from .rotary import fixed_rotary, rope_types

if TYPE_CHECKING:
    from .tokenizer import Tokenizer


HALVES = (torch.float16, torch.bfloat16)


class CachedModel(nn.Module):
    """``(tokens int64 [1, n], input_pos int64 [1]) -> logits`` of the last token, or of all ``[1, n, vocabulary]``."""

    def __init__(self, model: PreTrainedModel, max_seq_len: int, cache_type: str, all_logits: bool) -> None:
        super().__init__()
        config = model.config.get_text_config()
        self.model = model
        self.max_seq_len = max_seq_len
        self.all_logits = all_logits
        self.sliding = sliding_windows(config)
        self.cache = make_rows(config, max_seq_len, cache_type)

    def forward(self, tokens: Tensor, input_pos: Tensor) -> Tensor:
        """Read tokens that come at a position, with all that was read before it in mind."""
        first = input_pos.item()
        check_size(first >= 0)
        check_size(first < self.max_seq_len)
        place = Place(input_pos, input_pos + torch.arange(tokens.shape[1]), first)
        cache = KeyValueCache(list(self.cache), self.sliding)  # type: ignore[arg-type] # a ModuleList has no item type
        cache.at(place)
        made = self.model(
            input_ids=tokens,
            position_ids=place.positions[None],
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=0 if self.all_logits else 1,
        )
        logits: Tensor = made.logits
        return logits if self.all_logits else logits.squeeze(1)


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
        return StoredWeight(dtype, lambda: given.detach().contiguous().reshape(-1).view(torch.uint8))


class _OfTheModel:
    """A weight source that is asked by the names that parameters have in the model, not in :class:`CachedModel`."""

    def __init__(self, weights: WeightSource) -> None:
        self._weights = weights

    def find(self, name: str, parameter: Tensor) -> StoredWeight | None:
        return self._weights.find(name.removeprefix("model."), parameter)


def export(
    model: PreTrainedModel,
    *,
    max_seq_len: int,
    chunk: int = 512,
    cache_type: Literal["f32", "f16", "q8_0"] = "f16",
    all_logits: bool = False,
    weights: WeightSource | None = None,
    tokenizer: Tokenizer | None = None,
) -> ExecutorchProgramManager:
    """Export a causal language model with its key-value cache; write the result with ``.save(path)``.

    The program has one method under the names ``forward``, ``prefill`` and ``decode``: it takes tokens (int64
    ``[1, n]``, up to ``chunk`` of them) and the first one's position (int64 ``[1]``, up to ``max_seq_len - n``) and
    gives the logits of the last token ``[1, vocabulary]``, or with ``all_logits`` of each of them. Its metadata
    methods (``get_max_seq_len``, ``get_eos_ids`` …) are those that ExecuTorch's own text runner asks for.

    ``weights`` says how parameters are stored (see :class:`executorch_ggml.GgmlPartitioner`), ``cache_type`` how keys
    and values are; a ``tokenizer`` goes into the file, where :class:`Generator` finds it. Rotary embeddings that are
    others for long texts (``longrope``) are those for texts of ``max_seq_len``. A model in half precision keeps its
    matrices as they are, but is computed in float32.
    """
    chunk = min(chunk, max_seq_len)
    _check(model, max_seq_len, chunk, cache_type)
    if model.dtype in HALVES:
        weights = _Halves(model) if weights is None else weights
        model = copy.deepcopy(model).float()
    states = {"cache.*": cache_type} if cache_type == "q8_0" else None
    source = None if weights is None else _OfTheModel(weights)
    partitioner = GgmlPartitioner(weights=source, state_types=states)
    module = CachedModel(model, max_seq_len, cache_type, all_logits)
    program = trace(module, chunk)
    edge = to_edge_transform_and_lower(
        program,
        partitioner=[partitioner],
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
        constant_methods=metadata(model, max_seq_len, chunk, tokenizer),
    )
    if tokenizer is not None:
        edge._named_data_store.add_named_data(TOKENIZER_KEY, tokenizer.to_bytes())
    _warn_of_what_is_left(partitioner)
    return _under_all_names(edge.to_executorch(executorch_config()))


def trace(module: CachedModel, chunk: int) -> torch.export.ExportedProgram:
    """The exported program, for any number of tokens up to ``chunk``."""
    example = (torch.zeros(1, chunk, dtype=torch.int64), torch.zeros(1, dtype=torch.int64))
    length = torch.export.Dim("length", min=1, max=chunk) if chunk > 1 else None
    model = module.model
    with torch.no_grad(), _evaluated(model), exported_functions(model), fixed_rotary(model, module.max_seq_len):
        return torch.export.export(module, example, dynamic_shapes=({1: length}, None), strict=False)


def metadata(model: PreTrainedModel, max_seq_len: int, chunk: int, tokenizer: Tokenizer | None) -> dict[str, Any]:
    """What ExecuTorch's text runner asks a program: there a sequence is what one call takes."""
    config = model.config.get_text_config()
    ids = {"get_bos_id": _ids(model, tokenizer, "bos_token")[:1], "get_eos_ids": _ids(model, tokenizer, "eos_token")}
    return {
        "get_max_seq_len": chunk,
        "get_max_context_len": max_seq_len,
        "get_vocab_size": config.vocab_size,
        "get_n_layers": config.num_hidden_layers,
        "use_kv_cache": True,
        "use_sdpa_with_kv_cache": False,
        "enable_dynamic_shape": chunk > 1,
        **{name: numbers for name, numbers in ids.items() if numbers},
    }


def _ids(model: PreTrainedModel, tokenizer: Tokenizer | None, token: str) -> list[int]:
    """The numbers of a special token, by the model's configurations and the tokenizer, each once."""
    configs = (getattr(model, "generation_config", None), model.config.get_text_config())
    found = [getattr(config, f"{token}_id", None) for config in configs]
    if tokenizer is not None:
        found += [tokenizer.id_of(token), *(tokenizer.eos_ids if token == "eos_token" else ())]
    flat = (number for ids in found for number in (ids if isinstance(ids, (list, tuple)) else [ids]))
    return list(dict.fromkeys(number for number in flat if number is not None))


def _check(model: PreTrainedModel, max_seq_len: int, chunk: int, cache_type: str) -> None:
    if cache_type not in DTYPES:
        raise ValueError(f"cache_type {cache_type!r}, expected one of {', '.join(DTYPES)}")
    if max_seq_len < 1 or chunk < 1:
        raise ValueError(f"max_seq_len {max_seq_len} and chunk {chunk}, expected 1 or more")
    config = model.config.get_text_config()
    if cache_type == "q8_0" and getattr(config, "attn_logit_softcapping", None):
        raise ValueError(
            "cache_type 'q8_0': this model bends its attention's scores, for which keys are read as floats"
        )
    if "dynamic" in rope_types(config):
        raise ValueError("rotary embeddings of type 'dynamic' change with the length of a text; a program's cannot")
    limit = getattr(config, "max_position_embeddings", None)
    if limit is not None and max_seq_len > limit:
        raise ValueError(f"max_seq_len {max_seq_len}, but the model was made for at most {limit} positions")


@contextmanager
def _evaluated(model: nn.Module) -> Iterator[None]:
    """Take dropout and the like out while a model is traced."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def _warn_of_what_is_left(partitioner: GgmlPartitioner) -> None:
    left = {name: why for name, why in partitioner.refused.items() if "read from a tensor" not in why}
    if left or partitioner.kept_buffers:
        warnings.warn(
            f"parts of the model stay with ExecuTorch, which is slow: {json.dumps(left | partitioner.kept_buffers)}",
            stacklevel=3,
        )


def _under_all_names(program: ExecutorchProgramManager) -> ExecutorchProgramManager:
    """The program with its one method under each of its names; there is one delegate in the file."""
    methods = dict.fromkeys(METHODS, program.exported_program())
    return ExecutorchProgramManager(methods, program._config_methods, executorch_config(), program._named_data)
