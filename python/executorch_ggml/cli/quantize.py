"""``executorch-ggml quantize``: a model with its weights in smaller types, and what that costs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..byte_sizes import parsed_bytes
from ..progress import stage
from . import options, progress
from .export import check_options, facts_of_file, is_language_model, lines_of_file
from .output import show

if TYPE_CHECKING:
    from ..llm import Tokenizer
    from ..quant import GgmlQuantConfig, Importance, QuantReport, Sensitivity
    from .models import Model

_TYPES = "q2_k,q3_k,q4_k,q5_k,q6_k,q8_0,f16"


class _Size(click.ParamType[int]):
    """Bytes, or KiB, MiB and GiB: 500M."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number of bytes."""
        if isinstance(value, int):
            return value
        try:
            return parsed_bytes(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command("quantize", short_help="Quantize a model, and say what it costs.")
@click.argument("model")
@click.option("-o", "--output", type=options.FILE, help="The .gguf or .pte file to write.")
@click.option("--type", "kind", metavar="TYPE|FILE", help="q8_0, q4_k ..., q4_k_m, or a GgmlQuantConfig's JSON.")
@click.option(
    "--max-error", type=click.FloatRange(min=0), metavar="X", help="Take the smallest type with at most this error."
)
@click.option("--target-size", type=_Size(), metavar="SIZE", help="Take the best types that fit: 500M, 1.5G.")
@click.option("--types", metavar="TYPE,TYPE", help=f"What these choose from, and --report compares ({_TYPES}).")
@click.option("--keep", multiple=True, metavar="PATTERN[=TYPE]", help="A type for some weights, or none; repeatable.")
@click.option("--imatrix", type=options.FILE, help="An importance matrix: llama.cpp's, or of --save-imatrix.")
@click.option(
    "--calibrate", type=options.FILE, multiple=True, help="Collect one on the inputs in a file or folder; repeatable."
)
@click.option("--save-imatrix", type=options.FILE, help="Write the importance matrix, for llama.cpp too.")
@click.option("--context", type=click.IntRange(min=1), default=512, show_default=True, help="Tokens of a text at once.")
@click.option("--report", is_flag=True, help="Print the error of each weight, and of the answers with --calibrate.")
@click.option("--save-config", type=options.FILE, help="Write the types as JSON, for --type and `export --quantize`.")
@options.for_modules
@options.for_language_models
@options.for_programs
@options.as_json
@click.pass_context
@progress.shown
def command(context: click.Context, /, model: str, output: Path | None, as_json: bool, **choice: Any) -> None:
    """Quantize the weights of a model, and write a GGUF file or a program.

    MODEL is what `export` takes. A GGUF file is written of a GGUF file or a checkpoint of a language model, a program
    (.pte) of any model. Without -o, nothing but what --report, --save-imatrix and --save-config ask for is done.

    The error of a weight is the root of its mean squared difference, relative to its values; with an importance matrix
    columns count by what they are multiplied with. --max-error gives each weight the smallest type that keeps to it,
    --target-size the types with which the largest error is smallest, for that size of all parameters. Calibration files
    are .txt for what reads tokens; .npy, .npz (inputs by name), .json, images and .wav for other models. Patterns are
    globs over names of parameters, or of a GGUF file's tensors.
    """
    language = is_language_model(Path(model))
    check_options(context, language)
    _check(context, model, output, language)
    if language:
        with stage(f"loading {model}"):
            source = _language_source(Path(model))
    else:
        source = _module_source(model, choice)
    importance, calls = _importance(source, choice)
    result = _quantized(source, importance, calls, choice)
    if choice["save_config"] is not None:
        _save(result.config, choice)
    written = {} if output is None else _write(source, result.config, output, choice)
    show({**written, **result.facts()}, as_json, [*result.lines(), *lines_of_file(written)])


def _check(context: click.Context, model: str, output: Path | None, language: bool) -> None:
    """Raise for options that do not go together, before anything takes time."""
    given = {name for name, value in context.params.items() if value is not None and value is not False and value != ()}
    chosen = [name for name in ("kind", "max_error", "target_size") if name in given]
    if len(chosen) > 1:
        raise click.UsageError("--type, --max-error and --target-size each say what weights are stored as: pass one")
    if not chosen and given & {"output", "save_config"}:
        raise click.UsageError("say what weights are stored as: --type TYPE, --max-error X or --target-size SIZE")
    if not given & {"output", "save_config", "save_imatrix", "report"}:
        raise click.UsageError(
            "there is nothing to do: pass -o FILE, --report, --save-imatrix FILE or --save-config FILE"
        )
    if "save_imatrix" in given and ("calibrate" not in given or "imatrix" in given):
        raise click.UsageError("--save-imatrix writes what --calibrate FILE collects")
    if {"imatrix", "calibrate"} <= given and "report" not in given:
        raise click.UsageError(
            "with --imatrix, --calibrate says what --report compares answers on: pass --report, or one"
        )
    if "types" in given and not given & {"max_error", "target_size", "report"}:
        raise click.UsageError("--types is for --max-error, --target-size and --report")
    _check_output(context, model, output, language)


def _check_output(context: click.Context, model: str, output: Path | None, language: bool) -> None:
    if output is None or output.suffix == ".gguf":
        for name in ("precision", "layout", "dynamic", "check", "max_seq_len", "chunk", "cache_type"):
            if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
                raise click.UsageError(f"--{name.replace('_', '-')} is for programs: -o FILE.pte")
    if output is None:
        return
    if output.suffix not in (".gguf", ".pte"):
        raise click.UsageError(f"-o {output}: expected a .gguf or a .pte file")
    if output.suffix == ".gguf" and not language:
        raise click.UsageError(
            f"-o {output}: GGUF files are of language models, and {model} is none; write a .pte file"
        )
    if not output.parent.is_dir():
        raise FileNotFoundError(f"{output.parent}: no such folder to write {output.name} to")
    if output.exists() and Path(model).is_file() and output.samefile(model):
        raise ValueError(f"{output} is the file to read; give another to write")


@dataclass(frozen=True)
class _Source:
    """A model that holds its values, with the tokenizers that a GGUF file and a program are written with."""

    model: Model
    shapes: Any = None
    """Dynamic ones."""
    is_language_model: bool = False
    pretrained: Any = None
    tokenizer: Tokenizer | None = None

    @property
    def module(self) -> Any:
        return self.model.module

    @property
    def example(self) -> Any:
        """The arguments of a call that uses all weights."""
        return self.model.kwargs or self.model.args


def _language_source(path: Path) -> _Source:
    import torch

    from .. import llm
    from ..gguf import load, tokenizer_of
    from .export_gguf import model_and_tokenizer
    from .models import Model

    pretrained = tokenizer = None
    if path.is_dir():
        module, pretrained = model_and_tokenizer(path)
        tokenizer = None if pretrained is None else llm.Tokenizer.load(pretrained)
    else:
        rebuilt = load(path, dequantize=True)
        module = rebuilt.module
        if "tokenizer.ggml.model" in rebuilt.file.metadata:
            tokenizer = llm.Tokenizer.load(tokenizer_of(rebuilt.file))
    example = {} if module.config.is_encoder_decoder else {"input_ids": torch.zeros(1, 2, dtype=torch.int64)}
    return _Source(Model(module, (), example), None, True, pretrained, tokenizer)


def _module_source(name: str, choice: Mapping[str, Any]) -> _Source:
    from .. import llm
    from .checkpoints import has_tokenizer
    from .export import model_and_shapes

    folder = Path(name)
    tokenizer = llm.Tokenizer.load(folder) if folder.is_dir() and has_tokenizer(folder) else None
    return _Source(*model_and_shapes(name, choice), False, None, tokenizer)


def _importance(source: _Source, choice: Mapping[str, Any]) -> tuple[Importance | None, list[Any]]:
    """The importance matrix that was asked for, and the calibration inputs."""
    from ..gguf.importance import load_importance, save_importance
    from ..quant import Importance
    from .calibration import calls_of

    files = choice["calibrate"]
    calls = calls_of(files, source.model, source.tokenizer, choice["context"]) if files else []
    if choice["imatrix"] is not None:
        return load_importance(choice["imatrix"], source.module), calls
    if not calls:
        return None, []
    importance = replace(Importance.collect(source.module, calls), datasets=tuple(map(str, files)))
    if choice["save_imatrix"] is not None:
        save_importance(importance, choice["save_imatrix"], source.module)
    return importance, calls


@dataclass(frozen=True)
class _Result:
    """What was found out: the types that were chosen, what each type would cost, and what the chosen ones do."""

    config: GgmlQuantConfig | None
    sensitivity: Sensitivity | None
    report: QuantReport | None

    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {}
        if self.sensitivity is not None:
            errors = {k: {t.name: t.error for t in found} for k, found in self.sensitivity.by_type.items()}
            facts["by_type"] = {k: {"bytes": self.sensitivity.bytes(k), "errors": each} for k, each in errors.items()}
        if self.report is not None:
            facts |= {"weights_bytes": self.report.bytes, "weights_bytes_before": self.report.bytes_before}
            facts |= {"bits_per_weight": self.report.bits_per_weight}
            facts |= {"quality": None if self.report.quality is None else asdict(self.report.quality)}
            facts |= {"tensors": [asdict(tensor) for tensor in self.report.tensors]}
        return facts

    def lines(self) -> list[str]:
        return [str(each) for each in (self.sensitivity, self.report) if each is not None]


def _quantized(source: _Source, importance: Importance | None, calls: list[Any], choice: Mapping[str, Any]) -> _Result:
    """The types that the options ask for, and the reports."""
    from ..quant import GgmlQuantConfig, arguments, report, sensitivity
    from .quantization import config_of, with_rules

    kind, limit, size = choice["kind"], choice["max_error"], choice["target_size"]
    config = GgmlQuantConfig() if kind is None else config_of(kind, source.module)
    config = _with_importance(with_rules(config, choice["keep"], source.module), importance)
    config.check(source.module)
    found = None
    if (kind is None and (choice["report"] or limit is not None or size is not None)) or choice["types"] is not None:
        types = (choice["types"] or _TYPES).split(",")
        base = _with_importance(with_rules(GgmlQuantConfig(), choice["keep"], source.module), config.importance)
        args, kwargs = arguments(source.example)
        found = sensitivity(source.module, base, types, *args, **kwargs)
    if kind is None:
        if limit is None and size is None:
            return _Result(None, found if choice["report"] else None, None)
        assert found is not None
        config = found.with_size(size) if limit is None else found.with_max_error(limit)
    if not choice["report"]:
        return _Result(config, None, None)
    costs = report(source.module, config, calls, example=source.example)
    by_error = sorted(costs.tensors, key=lambda tensor: tensor.error, reverse=True)
    return _Result(config, found, replace(costs, tensors=tuple(by_error)))


def _with_importance(config: GgmlQuantConfig, importance: Importance | None) -> GgmlQuantConfig:
    return config if importance is None else replace(config, importance=importance)


def _save(config: GgmlQuantConfig | None, choice: Mapping[str, Any]) -> None:
    """Write a configuration as JSON, with the path of its importance matrix from there."""
    assert config is not None
    file: Path = choice["save_config"]
    matrix = choice["imatrix"] or choice["save_imatrix"]
    path = None if matrix is None else os.path.relpath(matrix.resolve(), file.resolve().parent)
    file.write_text(config.to_json(importance=path) + "\n", "utf-8")


def _write(source: _Source, config: GgmlQuantConfig | None, output: Path, choice: Mapping[str, Any]) -> dict[str, Any]:
    from ..gguf import export_gguf
    from .export import write_language_model, write_module

    assert config is not None
    if output.suffix == ".gguf":
        export_gguf(source.module, output, types=config, tokenizer=source.pretrained)
        return facts_of_file(output, {})
    if source.is_language_model:
        return facts_of_file(output, write_language_model(source.module, config, source.tokenizer, output, choice))
    return facts_of_file(output, write_module(source.model, source.shapes, output, {**choice, "quantize": config}))
