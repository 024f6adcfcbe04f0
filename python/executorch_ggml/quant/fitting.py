"""What each type would cost each weight, and the types that keep to an error or a size."""

from __future__ import annotations

import glob
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from ..frontends.aten.weights import check_values
from .config import GgmlQuantConfig
from .names import all_names
from .report import TensorReport, line_of_table, tensor_reports


@dataclass(frozen=True)
class Sensitivity:
    """The report of each weight for each type that it could be stored in; prints as a table, the largest errors first.

    ``config`` has the rules that stay: a weight that one names has the same report for all types. ``names`` has all
    names of a weight, of a tied one several, and ``other_bytes`` is the size of the parameters that are no weights.
    """

    config: GgmlQuantConfig
    by_type: Mapping[str, tuple[TensorReport, ...]]
    names: Mapping[str, tuple[str, ...]]
    other_bytes: int

    def with_max_error(self, limit: float) -> GgmlQuantConfig:
        """The configuration that gives each weight the smallest type whose error is at most ``limit``.

        Raises ValueError for a weight that none of the types is good enough for.
        """
        for reports in self._weights():
            best = min(reports.values(), key=lambda report: report.error)
            if not best.error <= limit:
                raise ValueError(
                    f"{best.name}: no type keeps to an error of {limit:g}, the best of {', '.join(self.by_type)} has "
                    f"{best.error:.2g}; try f16 or f32 too, or allow a larger error"
                )
        return self._configuration(limit)

    def with_size(self, limit: int) -> GgmlQuantConfig:
        """The configuration whose parameters take at most ``limit`` bytes, with the smallest largest error of a weight.

        Raises ValueError where the smallest types take more.
        """
        least = max((min(report.error for report in reports.values()) for reports in self._weights()), default=0.0)
        errors = sorted({report.error for reports in self._weights() for report in reports.values()} | {least})
        errors = errors[bisect_left(errors, least) :]
        if (smallest := self._bytes(errors[-1])) > limit:
            raise ValueError(
                f"the parameters take {smallest} bytes or more in {', '.join(self.by_type)}, and are to take {limit}; "
                f"try smaller types too, such as q2_k or iq2_s, or allow more"
            )
        # The more error is allowed, the fewer bytes they take.
        return self._configuration(errors[bisect_left(errors, -limit, key=lambda error: -self._bytes(error))])

    def bytes(self, kind: str) -> int:
        """Size of all parameters in one type."""
        return self.other_bytes + sum(report.bytes for report in self.by_type[kind])

    def __str__(self) -> str:
        rows = [("parameter", "shape", *self.by_type)]
        for reports in sorted(self._weights(), key=_mean_error, reverse=True):
            first = next(iter(reports.values()))
            errors = (f"{report.error:.2%}" for report in reports.values())
            rows.append((first.name, "x".join(map(str, first.shape)), *errors))
        rows.append(("MiB of all parameters", "", *(f"{self.bytes(kind) / 2**20:.2f}" for kind in self.by_type)))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(line_of_table(row, widths, names=2).rstrip() for row in rows)

    def _weights(self) -> Iterator[dict[str, TensorReport]]:
        """The reports of each weight by type."""
        for reports in zip(*self.by_type.values(), strict=True):
            yield dict(zip(self.by_type, reports, strict=True))

    def _chosen(self, limit: float) -> Iterator[tuple[str, TensorReport]]:
        """Of each weight the smallest type with an error of at most ``limit``; there is one."""
        for reports in self._weights():
            fitting = ((kind, report) for kind, report in reports.items() if report.error <= limit)
            yield min(fitting, key=lambda item: (item[1].bytes, item[1].error))

    def _bytes(self, limit: float) -> int:
        return self.other_bytes + sum(report.bytes for _, report in self._chosen(limit))

    def _configuration(self, limit: float) -> GgmlQuantConfig:
        free = replace(self.config, default="q8_0")  # small weights and those that are kept have no type to choose
        chosen = (
            (name, kind)
            for kind, report in self._chosen(limit)
            for name in self.names[report.name]
            if free.choice(name, report.shape).dtype is not None
        )
        rules = [*self.config.rules, *((glob.escape(name), kind) for name, kind in chosen)]
        return replace(self.config, default=None, rules=rules)


def sensitivity(
    model: nn.Module, config: GgmlQuantConfig, types: Sequence[str], *args: Any, **kwargs: Any
) -> Sensitivity:
    """Quantize each weight to each of some types, in place of a configuration's default.

    With the arguments of a call, the weights that the call uses; else those of linear layers and embeddings.
    """
    check_values(model)
    by_type = {kind: tensor_reports(model, replace(config, default=kind), *args, **kwargs) for kind in types}
    reported = {report.name for reports in by_type.values() for report in reports}
    others = sum(parameter.nbytes for name, parameter in model.named_parameters() if name not in reported)
    return Sensitivity(config, by_type, all_names(model), others)


def _mean_error(reports: Mapping[str, TensorReport]) -> float:
    return sum(report.error for report in reports.values()) / len(reports)
