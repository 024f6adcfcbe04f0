"""Reads the text that the printer writes: graphs in tests and bug reports. Constants carry no data."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ._lazy import sympy
from .builder import Builder
from .dims import as_dim
from .dtypes import DType
from .graph import Graph, IRError, Value
from .op import AttrSpec, Dim, Dims
from .ops import OPS
from .storage import Storage, StorageLayout

_TYPE = r"(?P<dtype>\w+)\[(?P<ne>[^\]]*)\]"
_LEAF = re.compile(
    rf"(?P<kind>input|constant|state) [%@$](?P<name>\S+): {_TYPE}"
    r"(?: stored as (?P<storage>\w+)(?:, groups=(?P<groups>\d+))?)?"
)
_NODE = re.compile(
    rf"(?P<host>host )?(?P<result>%\w+) = (?P<op>\w+)\((?P<arguments>.*)\): {_TYPE}(?:\s+# (?P<name>.*))?"
)
_SYMBOL = re.compile(
    r"symbol (?P<name>\w+): input (?P<input>\d+) dim (?P<dim>-?\d+), (?P<min>\d+) to (?P<max>\d+)(?P<batch>, batch)?"
)
_OUTPUT = re.compile(r"output (?P<name>\S+): (?P<value>\S+) as \[(?P<shape>[^\]]*)\]")


def parse(text: str) -> Graph:
    """The graph that a text says; raises :class:`IRError` with the line that is not as the op table or the syntax says.

    An input's shape is its dims outermost first; blank lines and those that start with ``#`` are skipped.
    """
    reader = _Reader()
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        try:
            reader.read(stripped)
        except IRError as error:
            raise IRError(f"line {number}: {stripped}: {error}") from None
    return reader.builder.graph


class _Reader:
    def __init__(self) -> None:
        self.builder = Builder()
        self.values: dict[str, Value] = {}

    def read(self, line: str) -> None:
        """One line, by its first word."""
        readers: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], None]], ...] = (
            (_NODE, self._node),
            (_LEAF, self._leaf),
            (_SYMBOL, self._symbol),
            (_OUTPUT, self._output),
        )
        for pattern, read in readers:
            if match := pattern.fullmatch(line):
                read(match)
                return
        raise IRError("expected a symbol, a leaf, a node or an output as the printer writes them")

    def _symbol(self, match: re.Match[str]) -> None:
        symbol = sympy.Symbol(match["name"], integer=True, positive=True)
        bounds = {"min": int(match["min"]), "max": int(match["max"])}
        batch = match["batch"] is not None
        self.builder.symbol(symbol, int(match["input"]), int(match["dim"]), **bounds, batch=batch)

    def _leaf(self, match: re.Match[str]) -> None:
        dtype, ne, name = _dtype(match), self._four(match["ne"]), match["name"]
        if match["kind"] == "input":
            self.values[f"%{name}"] = self.builder.input(name, dtype, ne[::-1], ne)
        elif match["kind"] == "constant":
            value = self.values[f"@{name}"] = self.builder.constant(name, dtype, ne)
            constant = self.builder.constant_of(value)
            if constant is not None and match["storage"]:
                constant.storage = StorageLayout(Storage[match["storage"]], int(match["groups"] or 1))
        else:
            self.values[f"${name}"] = self.builder.state(name, dtype, ne)

    def _node(self, match: re.Match[str]) -> None:
        spec = OPS.get(match["op"])
        if spec is None:
            raise IRError(f"no op is called {match['op']}")
        arguments = _split(match["arguments"])
        inputs = [self._value(argument) for argument in arguments if "=" not in argument]
        texts = dict(argument.split("=", 1) for argument in arguments if "=" in argument)
        attrs = {attr.name: self._attr(attr, texts[attr.name]) for attr in spec.attrs if attr.name in texts}
        self.builder.origin = match["name"] or ""
        value = self.builder.emit(spec.name, *inputs, **attrs)
        declared = Value(_dtype(match), self._four(match["ne"]), value.strides)
        if str(value) != str(declared):
            raise IRError(f"the op gives {value}")
        if match["host"] and value.producer is not None:
            value.producer.host = True
        self.values[match["result"]] = value

    def _output(self, match: re.Match[str]) -> None:
        value = self._value(match["value"])
        assert value is not None
        self.builder.output(match["name"], value, [self._dim(size) for size in _split(match["shape"])])

    def _value(self, name: str) -> Value | None:
        if name == "none":
            return None
        if name not in self.values:
            raise IRError(f"nothing before it is called {name}")
        return self.values[name]

    def _attr(self, attr: AttrSpec, text: str) -> Any:
        if attr.struct is not None:
            texts = dict(part.split(": ", 1) for part in _split(text[1:-1]))
            fields = {field.name: field for field in attr.struct.fields}
            return attr.struct.cls(**{name: self._attr(fields[name], part) for name, part in texts.items()})
        items = _split(text.strip("()"))
        readers: dict[str, Callable[[], Any]] = {
            "f32": lambda: float(text),
            "i64": lambda: int(text),
            "bool": lambda: text == "True",
            "dim": lambda: self._dim(text),
            "dims": lambda: tuple(map(self._dim, items)),
            "ints": lambda: tuple(int(item) for item in items if item),  # one item has a comma behind it
        }
        return readers[attr.kind]() if attr.enum is None else attr.enum[text]

    def _four(self, text: str) -> Dims:
        sizes = [self._dim(size) for size in _split(text)]
        if len(sizes) != 4:
            raise IRError(f"{len(sizes)} dims, expected 4")
        return sizes[0], sizes[1], sizes[2], sizes[3]

    def _dim(self, text: str) -> Dim:
        symbols = {str(entry.symbol): entry.symbol for entry in self.builder.graph.symbols}
        named = {word for word in re.findall(r"[A-Za-z_]\w*", text) if word not in ("Mod", "Min", "Max", "floor")}
        if unknown := named - symbols.keys():
            raise IRError(f"size {text}: no symbol is called {', '.join(sorted(unknown))}")
        return as_dim(sympy.sympify(text, locals=symbols))


def _dtype(match: re.Match[str]) -> DType:
    name = match["dtype"].upper()
    if name not in DType.__members__:
        raise IRError(f"no element type is called {match['dtype']}")
    return DType[name]


def _split(text: str) -> list[str]:
    """What commas separate, but for those inside brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts] if text.strip() else []
