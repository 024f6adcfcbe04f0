"""The short way from a language model of ``transformers`` to a program."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal

from executorch.exir import ExecutorchProgramManager
from transformers import PreTrainedModel

from ..frontends.aten.weights import WeightSource, check_values
from ..gguf.model import file_of
from ..quant import GgmlQuantConfig
from . import causal_lm, encoder_decoder
from .cache import DTYPES
from .metadata import SHORT_LENGTH, SHORT_METHOD
from .program import called_with_cache, in_float32, lowered, under_all_names, with_values
from .rotary import rope_types, short_limit
from .start import start_metadata

if TYPE_CHECKING:
    from .tokenizer import Tokenizer


def export(
    model: PreTrainedModel,
    *,
    max_seq_len: int,
    max_source_len: int | None = None,
    chunk: int = 512,
    cache_type: Literal["f32", "f16", "q8_0"] = "f16",
    all_logits: bool = False,
    weights: WeightSource | None = None,
    precision: str | None = None,
    layout: Literal["cpu"] | None = None,
    tokenizer: Tokenizer | None = None,
) -> ExecutorchProgramManager:
    """Export a causal or an encoder-decoder language model with its cache; write the result with ``.save(path)``.

    The program has one method under the names ``forward``, ``prefill`` and ``decode``: it takes tokens (int64
    ``[1, n]``, up to ``chunk`` of them) and the first one's position (int64 ``[1]``, up to ``max_seq_len - n``) and
    gives the logits of the last token ``[1, vocabulary]``, or with ``all_logits`` of each of them. Its metadata
    methods (``get_max_seq_len``, ``get_eos_ids`` …) are those that ExecuTorch's own text runner asks for.

    That of an encoder-decoder model has a method ``encode`` too. It takes the source: tokens (int64 ``[1, n]``, up to
    ``max_source_len``, by default ``max_seq_len``), or Whisper's features (float32 ``[1, mels, frames]``). What the
    decoder attends to stays in the program, and its number of rows is returned (int64 ``[1]``): the other method takes
    that as its third input, and reads these rows alone.

    ``weights`` says how parameters are stored (see :class:`executorch_ggml.GgmlPartitioner`), ``cache_type`` how keys
    and values are; ``precision`` is what layers are computed in whose weights are float32, or with "bf16" and "f16" of
    a half type (see the same; its error is not told here); ``layout="cpu"`` stores quantized matrices as the CPU reads
    them (again the same), which makes loading quick; a ``tokenizer`` goes into the file, where :class:`Generator` finds
    it. A model in half precision keeps its matrices as they are, but without a ``precision`` is computed in float32.

    A model with ``longrope`` rotates texts of up to ``original_max_position_embeddings`` tokens by other factors than
    longer ones. Where ``max_seq_len`` is more than that (a warning says so), the method above is for long texts: it
    uses their factors at all positions, as llama.cpp does with a context of ``max_seq_len``. A method
    ``forward_short`` is for the others, and refuses positions past them. :class:`Generator` picks the method by a
    text's length, and reads a text again that grows past the limit, as ``generate`` of transformers does.
    """
    chunk = min(chunk, max_seq_len)
    _check(model, max_seq_len, chunk, cache_type)
    if isinstance(weights, GgmlQuantConfig):
        weights.check(model)
    check_values(model, weights)
    if tokenizer is not None:
        tokenizer.check_fits(model.config.get_text_config(decoder=True).vocab_size)
    constants = metadata(model, max_seq_len, chunk, tokenizer)
    model, weights = in_float32(model, weights)
    if model.config.is_encoder_decoder:
        source = encoder_decoder.source_of(model, max_seq_len if max_source_len is None else max_source_len)
        constants |= {"get_max_source_len": source.example.shape[-1], **start_metadata(model)}
        with called_with_cache(model):
            cache = encoder_decoder.Memory(model, max_seq_len, source.rows, cache_type)
            programs = encoder_decoder.trace(model, cache, source, chunk, all_logits)
    elif max_source_len is not None:
        raise ValueError(f"max_source_len {max_source_len}, but {type(model).__name__} has no encoder")
    else:
        if file_of(model) is None:  # else its parameters are not there, and its family is known
            with with_values(model, weights):
                causal_lm.check(model, max_seq_len)
        module = causal_lm.CachedModel(model, max_seq_len, cache_type, all_logits)
        programs = causal_lm.trace(module, chunk)
        if SHORT_METHOD in programs:
            constants[SHORT_LENGTH] = limit = module.limit
            warnings.warn(
                f"{type(model).__name__} rotates texts of up to {limit} tokens by other factors than longer ones "
                f"(longrope): method forward uses those of long texts for all, {SHORT_METHOD} those of short texts; "
                f"llm.Generator picks by the text's length. Programs for texts of up to {limit} tokens alone are "
                f"exported with max_seq_len={limit}",
                stacklevel=2,
            )
    program = lowered(
        programs,
        weights=weights,
        precision=precision,
        layout=layout,
        cache_type=cache_type,
        metadata=constants,
        tokenizer=tokenizer,
    )
    return under_all_names(program)


def metadata(model: PreTrainedModel, max_seq_len: int, chunk: int, tokenizer: Tokenizer | None) -> dict[str, Any]:
    """What ExecuTorch's text runner asks a program: there a sequence is what one call takes."""
    config = model.config.get_text_config(decoder=True)
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
    if cache_type == "q8_0" and hasattr(config, "relative_attention_num_buckets"):
        raise ValueError(
            "cache_type 'q8_0': this model adds to its attention's scores, for which keys are read as floats"
        )
    if "dynamic" in rope_types(config):
        raise ValueError("rotary embeddings of type 'dynamic' change with the length of a text; a program's cannot")
    if model.config.is_encoder_decoder and short_limit(config) is not None:
        raise ValueError("rotary embeddings of type 'longrope' are not supported in encoder-decoder models")
    limits = (getattr(config, name, None) for name in ("max_target_positions", "max_position_embeddings"))
    limit = next((limit for limit in limits if limit is not None), None)
    if limit is not None and max_seq_len > limit:
        raise ValueError(f"max_seq_len {max_seq_len}, but the model was made for at most {limit} positions")
