"""ggml's ops on every device beside its CPU: ``python -m tests.devices.support``.

Writes ``docs/devices_support.md``. Each case of :mod:`.operators` is computed on each device that takes all its nodes;
an answer that is not the CPU's is an error. ``--check`` only says whether the page has the cases that there are now.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import hashlib
import importlib.util
import itertools
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from executorch_ggml import devices
from executorch_ggml.devices import GgmlDevice
from executorch_ggml.frontends.ggml import UnsupportedError, translate
from executorch_ggml.ir.graph import Graph as IrGraph
from executorch_ggml.ir.graph import IRError, Node

from .cases import Case
from .ggml import BF16, Graph, Tensor, backend, call
from .operators import FAMILIES
from .operators.family import QUANTIZED_TYPES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "devices_support.md"
NAMES = ("torch", "mlx", "compiled:openvino", "compiled:onnxruntime")
PACKAGES = dict(zip(NAMES, ("torch", "mlx", "openvino", "onnxruntime"), strict=True))

TOGETHER = 24  # cases in a graph

Array = np.ndarray[Any, Any]


class Watched(GgmlDevice):
    """A device, which also says whether it ran, and why it takes no node."""

    def __init__(self, device: GgmlDevice) -> None:
        self.device = device
        self.name = f"watched-{device.name.replace(':', '-')}"
        self.runs = 0
        self.failures: list[str] = []
        self.reasons: list[str] = []

    def supports(self, node: Node) -> bool:
        made = self.device.supports(node)
        if not made:
            reason = self.device.refusal(node) if hasattr(self.device, "refusal") else "refused"
            self.reasons.append(f"{reason}")
        return made

    def plan(self, graph: IrGraph) -> Any:
        try:
            plan = self.device.plan(graph)
        except Exception as error:
            self.failures.append(f"{type(error).__name__}: {error}")
            raise

        def run(inputs: Sequence[Array]) -> Sequence[Array]:
            try:
                made = plan(inputs)
            except Exception as error:
                self.failures.append(f"{type(error).__name__}: {error}")
                raise
            self.runs += 1
            return made

        return run


@functools.cache
def watched(name: str) -> Watched:
    """The device of a name, registered."""
    device = Watched(devices.get(name))
    devices.register(device)
    devices.load()
    return device


def installed(name: str) -> bool:
    """Whether what a device needs is there."""
    return importlib.util.find_spec(PACKAGES[name]) is not None


@dataclass
class Outcome:
    """What a device did with a case: ``taken``, and then ``fault`` is what was wrong; or else the reasons."""

    taken: bool
    fault: str = ""
    reasons: list[str] = field(default_factory=list)


_untranslated: list[str] = []


def _note_reasons() -> None:
    """Let the translation of ggml's nodes note why it refuses one."""
    inner = translate.Translator.translate

    def noting(self: translate.Translator) -> translate.Translation:
        try:
            return inner(self)
        except (UnsupportedError, IRError) as error:
            _untranslated.append(str(error))
            raise

    if inner.__name__ != "noting":
        translate.Translator.translate = noting  # type: ignore[method-assign] # it notes, and raises as before


def outcomes(group: Sequence[Case], name: str) -> list[Outcome | None]:
    """Compute cases on a device, each that it takes, in one graph; None where ggml's CPU cannot compute a case."""
    device = watched(name)
    _note_reasons()
    right, _ = _computed(group, backend("CPU"), list)
    device.failures.clear()
    before = device.runs
    made, reasons = _computed(group, backend(device.name), lambda: _taken(_untranslated) + _taken(device.reasons))
    fault = ""
    if any(outputs is not None for outputs in made) and (device.failures or device.runs == before):
        if len(group) > 1:  # which of them?
            return [outcome for case in group for outcome in outcomes([case], name)]
        fault = "; ".join(device.failures) or "it was not computed there"
    found: list[Outcome | None] = []
    for case, wanted, outputs, why in zip(group, right, made, reasons, strict=True):
        if wanted is None:
            found.append(None)
        elif outputs is None:
            found.append(Outcome(taken=False, reasons=why))
        else:
            found.append(Outcome(taken=True, fault=fault or _difference(outputs, wanted, case.tolerance)))
    return found


def _taken(notes: list[str]) -> list[str]:
    made = [*notes]
    notes.clear()
    return made


def _difference(outputs: Sequence[Array], right: Sequence[Array], tolerance: float) -> str:
    """What is wrong, or nothing."""
    for made, want in zip(outputs, right, strict=True):
        finite = np.isfinite(want)
        same = np.array_equal(np.isfinite(made), finite)
        if not same or not np.array_equal(made[~finite], want[~finite], equal_nan=True):
            return "infinities or NaN in other places"
        apart = np.abs(made[finite] - want[finite]).max(initial=0.0)
        largest = np.abs(want[finite]).max(initial=1e-6)
        if apart > tolerance * largest:
            return f"{apart / largest:.1e} of the largest magnitude apart"
    return ""


def _computed(
    group: Sequence[Case], on: int, notes: Callable[[], list[str]]
) -> tuple[list[list[Array] | None], list[list[str]]]:
    """The outputs of each case that the device takes, and the notes that asking left."""
    graph = Graph(on)
    built = [case.build(graph) for case in group]
    outputs = [[each] if isinstance(each, Tensor) else list(each) for each in built]
    graph.place()
    whole = ctypes.c_void_p(call("ggml_new_graph", graph.context))
    taken, noted = [], []
    for each in outputs:
        notes()
        taken.append(all(graph.supported(node) for node in _nodes(graph, each)))
        noted.append(notes())
        for output in each if taken[-1] else ():
            call("ggml_build_forward_expand", whole, output, result=None)
    if any(taken):
        status = call("ggml_backend_graph_compute", graph.backend, whole, result=ctypes.c_int)
        assert status == 0
    answers = [[_read(output) for output in each] if yes else None for each, yes in zip(outputs, taken, strict=True)]
    graph.close()
    return answers, noted


def _nodes(graph: Graph, outputs: Sequence[Tensor]) -> list[Tensor]:
    """What the outputs are computed by."""
    made = ctypes.c_void_p(call("ggml_new_graph", graph.context))
    for output in outputs:
        call("ggml_build_forward_expand", made, output, result=None)
    count = call("ggml_graph_n_nodes", made, result=ctypes.c_int)
    return [Tensor(graph, call("ggml_graph_node", made, ctypes.c_int(at))) for at in range(count)]


def _read(tensor: Tensor) -> Array:
    if tensor.type == BF16:
        return (tensor.read(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if call("ggml_is_quantized", ctypes.c_int(tensor.type), result=ctypes.c_bool):
        return np.zeros(1)
    return tensor.read().astype(np.float64)


# ---------------------------------------------------------------------------------------------------------------- page


@dataclass
class Row:
    """An op's cases, how many of them each device takes, and why it takes no others."""

    cases: int = 0
    taken: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, set[str]] = field(default_factory=dict)  # by reason, whose

    def cells(self, names: Sequence[str]) -> list[str]:
        counts = [self.taken.get(name, 0) for name in names]
        shown = ["all" if count == self.cases else str(count) if count else "-" for count in counts]
        why = []
        for reason, whose in sorted(self.reasons.items()):
            of_all = len(whose) == len(names)
            why.append(
                reason
                if of_all
                else f"{', '.join(name.removeprefix('compiled:') for name in names if name in whose)}: {reason}"
            )
        return [str(self.cases), *shown, "; ".join(why)]


def cases() -> Iterator[tuple[str, Case]]:
    """All, by op."""
    for op, family in FAMILIES.items():
        for case in family():
            yield op, case


def digest() -> str:
    """What says that a page is of other cases."""
    names = "\n".join(f"{op}: {case.name} {case.tolerance}" for op, case in cases())
    return hashlib.sha256(names.encode()).hexdigest()[:16]


def groups(only: Callable[[str], bool], each: int = 1) -> Iterator[tuple[str, list[Case]]]:
    """Cases of one op, as many as are computed together; every so manieth of all."""
    chosen = ((op, case) for number, (op, case) in enumerate(cases()) if only(op) and number % each == 0)
    for op, found in itertools.groupby(chosen, key=lambda entry: entry[0]):
        yield from ((op, [case for _, case in part]) for part in _batched(found, TOGETHER))


def _batched(entries: Iterator[tuple[str, Case]], count: int) -> Iterator[list[tuple[str, Case]]]:
    while part := list(itertools.islice(entries, count)):
        yield part


def measure(names: Sequence[str], only: Callable[[str], bool], each: int = 1) -> tuple[dict[str, Row], list[str]]:
    """All rows, and what went wrong."""
    rows: dict[str, Row] = {}
    faults = []
    for op, group in groups(only, each):
        row = rows.setdefault(op, Row())
        for name in names:
            made = list(zip(group, outcomes(group, name), strict=True))
            for case, found in made:
                if found is None:
                    continue
                row.taken[name] = row.taken.get(name, 0) + (found.taken and not found.fault)
                for reason in found.reasons:
                    row.reasons.setdefault(_brief(reason), set()).add(name)
                if found.fault:
                    faults.append(f"{op}, {case.name}, {name}: {found.fault}")
                    print(faults[-1], file=sys.stderr, flush=True)
        row.cases += sum(found is not None for _, found in made)
        print(op, group[0].name, file=sys.stderr, flush=True)
    return {op: row for op, row in rows.items() if row.cases}, faults


def _brief(reason: str) -> str:
    """A reason without what is a single case's."""
    text = reason.split("\n", maxsplit=1)[0].replace("|", "/")
    if "; expected " in text:
        text = "a result of a quantized type" if "a quantized type" in text else text.partition("; ")[2]
    return _QUANTIZED.sub("of a quantized type", text)


_QUANTIZED = re.compile(rf"(is |of )?\b({'|'.join(QUANTIZED_TYPES)})\b")


_HEAD = """<!-- Generated by `python -m tests.devices.support`; do not edit. Cases: {digest} -->

# ggml's ops on the devices

How many of an op's cases ([tests/devices/operators](../tests/devices/operators): the types and kinds of shapes that
ggml's own backend tests have) a device computes; what it does not take is computed by ggml's CPU. Each answer was
compared with that CPU's: within 1e-5 of the largest magnitude in f32, more where ggml rounds to f16 or to 8 bits.

{total} cases; {summary}.

| op | cases | {names} | left to the CPU |
| --- | --: | {rules} | --- |
"""


def page(rows: dict[str, Row], names: Sequence[str]) -> str:
    """The page's text."""
    total = sum(row.cases for row in rows.values())
    summary = ", ".join(f"{sum(row.taken[name] for row in rows.values())} on `{name}`" for name in names)
    head = _HEAD.format(
        digest=digest(), total=total, summary=summary, names=" | ".join(names), rules=" | ".join("--:" for _ in names)
    )
    return head + "".join(f"| {op} | {' | '.join(row.cells(names))} |\n" for op, row in rows.items())


def is_current() -> bool:
    """Whether the page, where there is one, was written for the cases that there are."""
    return not PAGE.exists() or f"Cases: {digest()} " in PAGE.read_text(encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare the page's cases with those that there are")
    parser.add_argument("--devices", nargs="+", default=list(NAMES), help="others than all are not written")
    parser.add_argument("--ops", nargs="+", help="some ops alone, which are not written")
    parser.add_argument("--each", type=int, default=1, help="every so manieth case alone, which is not written")
    options = parser.parse_args()
    if options.check:
        if not is_current():
            print(f"{PAGE} is of other cases: python -m tests.devices.support", file=sys.stderr)
        return 0 if is_current() else 1
    missing = [name for name in options.devices if not installed(name)]
    if missing:
        print(f"not installed: {', '.join(missing)}", file=sys.stderr)
        return 1
    devices.load("torch")
    with tempfile.TemporaryDirectory() as folder:
        import os

        os.environ.setdefault("EXECUTORCH_GGML_CACHE", folder)
        rows, faults = measure(options.devices, lambda op: options.ops is None or op in options.ops, options.each)
    if options.ops is None and options.each == 1 and tuple(options.devices) == NAMES and not faults:
        PAGE.write_text(page(rows, NAMES), encoding="utf-8")
    else:
        print(page(rows, options.devices))
    print(f"{len(faults)} wrong", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
