"""Which ggml type each weight of a model is stored in: a default, rules by name, and what happens where none fits."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import torch

from ..frontends.aten.weights import StoredWeight
from ..ir.codec import needs_importance, quantize
from ..ir.dtypes import DType
from .importance import Importance
from .types import TYPES, fitting

LARGEST_F16 = 65504.0


@dataclass(frozen=True)
class Choice:
    """What a parameter is stored as (None: as it is), and why where that is not the type that was asked for."""

    dtype: DType | None
    note: str = ""


@dataclass(frozen=True)
class GgmlQuantConfig:
    """Which ggml type each weight is stored in; a :class:`~executorch_ggml.frontends.aten.weights.WeightSource`.

    ``default`` is the type of what no rule names, None for as it is. ``rules`` are (glob, type) pairs over parameter
    names, as in ``named_parameters``: the first that matches counts. A type is named as ggml names it (``"q4_k"``);
    ``"f32"`` keeps a parameter as it is, and so does a match in ``keep``, which comes before the rules. Parameters of
    fewer than ``min_elements`` elements, or of one dim, are kept too, but for those that a rule names.

    Where a row is no multiple of the type's block, the type that llama.cpp takes instead is used: of blocks of 32 for
    those of 256 (:func:`executorch_ggml.quant.fitting`), else f16. ``choice(...).note`` and the report say where.
    """

    default: str | None = "q8_0"
    rules: Sequence[tuple[str, str]] | Mapping[str, str] = ()
    min_elements: int = 1024
    keep: Sequence[str] = ()
    importance: Importance = field(default_factory=Importance)

    def __post_init__(self) -> None:
        rules = self.rules.items() if isinstance(self.rules, Mapping) else self.rules
        pairs = tuple(_pair(rule) for rule in rules)
        for kind in (self.default, *(kind for _, kind in pairs)):
            if kind is not None and kind not in TYPES:
                raise ValueError(f"no weight type is called {kind!r}; there are {', '.join(TYPES)}")
        if isinstance(self.keep, str):
            raise TypeError(f"keep is a list of globs, got the string {self.keep!r}")
        if self.min_elements < 0:
            raise ValueError(f"min_elements is {self.min_elements}, expected 0 or more")
        object.__setattr__(self, "rules", pairs)
        object.__setattr__(self, "keep", tuple(self.keep))

    # ---------------------------------------------------------------------------------------------------- choosing

    def choice(self, name: str, shape: Sequence[int]) -> Choice:
        """What a parameter of a name and shape is stored as."""
        if glob := next((glob for glob in self.keep if fnmatchcase(name, glob)), None):
            return Choice(None, f"kept by {glob!r}")
        ruled = next((kind for glob, kind in self._pairs() if fnmatchcase(name, glob)), None)
        if ruled is None and len(shape) < 2:
            return Choice(None, "kept: one dim")
        if ruled is None and (elements := _count(shape)) < self.min_elements:
            return Choice(None, f"kept: {elements} elements, fewer than {self.min_elements}")
        kind = self.default if ruled is None else ruled
        if kind is None or kind == "f32":
            return Choice(None)
        asked, width = TYPES[kind], int(shape[-1])
        taken = fitting(asked, width)
        return Choice(taken, "" if taken == asked else f"not {kind}: rows of {width} are no multiple of {asked.block}")

    def find(self, name: str, parameter: torch.Tensor) -> StoredWeight | None:
        """How a parameter is stored, or None: as it is. Its contents are read when the result's are asked for."""
        dtype = self.choice(name, parameter.shape).dtype
        if dtype is None or not parameter.dtype.is_floating_point:
            return None
        transposed = (lambda: self.find(name, parameter.t())) if parameter.dim() == 2 else None
        return StoredWeight(dtype, lambda: self.encoded(name, parameter, dtype), transposed=transposed)

    def encoded(self, name: str, parameter: torch.Tensor, dtype: DType) -> torch.Tensor:
        """A parameter's bytes in a type, with its importance matrix where there is one.

        Raises ValueError where the type needs one and there is none, and for values that the type cannot hold.
        """
        return encoded(name, parameter, dtype, self.importance)

    def unmatched(self, names: Iterable[str]) -> list[str]:
        """The globs of ``rules`` and ``keep`` that match none of the names: most likely slips of the pen."""
        known = list(names)
        globs = [*(glob for glob, _ in self._pairs()), *self.keep]
        return [glob for glob in dict.fromkeys(globs) if not any(fnmatchcase(name, glob) for name in known)]

    def check(self, model: torch.nn.Module) -> None:
        """Raise ValueError for a rule that matches no parameter of a model."""
        names = [name for name, _ in model.named_parameters(remove_duplicate=False)]
        if unmatched := self.unmatched(names):
            some = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
            raise ValueError(f"no parameter is called {', '.join(map(repr, unmatched))}; the model's are called {some}")

    def _pairs(self) -> tuple[tuple[str, str], ...]:
        assert isinstance(self.rules, tuple)
        return self.rules

    # -------------------------------------------------------------------------------------------------- other forms

    @classmethod
    def of(cls, quantization: GgmlQuantConfig | str | Path | Mapping[str, Any]) -> GgmlQuantConfig:
        """From a type's name, a path of a JSON file, JSON's contents, or a configuration as it is."""
        if isinstance(quantization, GgmlQuantConfig):
            return quantization
        if isinstance(quantization, Mapping):
            return cls._from_json(quantization)
        if isinstance(quantization, str) and not quantization.endswith(".json"):
            return cls(default=quantization)
        try:
            fields = json.loads(Path(quantization).read_text())
        except ValueError as error:
            raise ValueError(f"{quantization}: no JSON: {error}") from None
        if not isinstance(fields, dict):
            raise ValueError(f"{quantization}: a quantization is an object of JSON, got {type(fields).__name__}")
        return cls._from_json(fields, Path(quantization).parent)

    @classmethod
    def _from_json(cls, contents: Mapping[str, Any], folder: Path = Path()) -> GgmlQuantConfig:
        known = {"default", "rules", "min_elements", "keep", "importance"}
        if unknown := set(contents) - known:
            raise ValueError(f"a quantization has no {', '.join(sorted(unknown))}; it has {', '.join(sorted(known))}")
        fields = dict(contents)
        if isinstance(path := fields.get("importance"), str):
            fields["importance"] = Importance.load(folder / path)
        return cls(**fields)

    def to_json(self, importance: str | None = None) -> str:
        """As JSON that :meth:`of` takes; ``importance`` is the path that the matrices were saved to."""
        fields: dict[str, Any] = {"default": self.default, "rules": self.rules, "min_elements": self.min_elements}
        fields |= {"keep": self.keep} if self.keep else {}
        fields |= {"importance": importance} if importance is not None else {}
        return json.dumps(fields, indent=2)


def encoded(name: str, parameter: torch.Tensor, dtype: DType, importance: Importance) -> torch.Tensor:
    """A parameter's bytes in a type; ValueError as :meth:`GgmlQuantConfig.encoded` says."""
    if needs_importance(dtype) and name not in importance:
        raise ValueError(
            f"{name}: {dtype.name.lower()} needs an importance matrix, and there is none for it; collect one with "
            f"Importance.collect(model, calibration_inputs), load one with Importance.load(path) (`executorch-ggml "
            f"quantize --calibrate FILE` and `--imatrix FILE` do), or give it another type, such as iq2_s"
        )
    values = parameter.detach().to(torch.float32).contiguous()
    if dtype not in (DType.F32, DType.BF16) and not _within_f16(values):
        raise ValueError(
            f"{name} cannot be stored as {dtype.name.lower()}: it has values that float16, the type of the blocks' "
            f"scales, cannot hold; keep it, or give it bf16: rules=[({name!r}, 'bf16'), ...]"
        )
    try:
        return quantize(values, dtype, importance.find(name, values.shape))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _within_f16(values: torch.Tensor) -> bool:
    return values.numel() == 0 or bool(values.abs().max() <= LARGEST_F16)  # NaN, too, is no number below it


def _pair(rule: Any) -> tuple[str, str]:
    if isinstance(rule, str) or len(rule) != 2:
        raise ValueError(f"a rule is a pair of a glob and a type, got {rule!r}")
    return str(rule[0]), str(rule[1])


def _count(shape: Sequence[int]) -> int:
    return int(torch.Size(shape).numel())
