"""Formulas mean the same in Python and in C++, and give symbolic dims the benefit of the doubt."""

from __future__ import annotations

import ast
import enum
import importlib.metadata
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sympy

from executorch_ggml.ir import codegen, cpp
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.ir.formulas import FORMULAS, UNKNOWN, Expression, Formula, formula, holds
from executorch_ggml.ir.op import OPS
from executorch_ggml.ir.ops.matrix import multiplies
from executorch_ggml.ir.ops.movement import is_inside, same_count
from executorch_ggml.ir.ops.quantized import Requantize
from executorch_ggml.ir.ops.spatial import Window, Window2d, Window3d

RUNTIME = Path(__file__).resolve().parents[2] / "native" / "runtime"
CASES = 60  # of each formula


class Draw:
    """Random arguments of one call, which agree with each other often enough that checks hold."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.close = rng.random() < 0.6
        self.base = rng.choice(
            ([0] * 4, [1] * 4, [16, 16, 1, 1], *([rng.choice((1, 2, 3, 4, 6, 16)) for _ in range(4)],) * 4)
        )
        self.dtype = rng.choice(
            (DType.F32, DType.F32, DType.I32, DType.I64, DType.BOOL, DType.F16, DType.I8, DType.Q4_K)
        )
        self.makers: dict[str, Callable[[], Any]] = {
            "Operand": self.operand,
            "Operand | None": lambda: None if rng.random() < 0.3 else self.operand(),
            "Dims": self.dims,
            "Dim": lambda: min(abs(self.number()), 2**63 - 1),
            "int": self.number,
            "float": lambda: rng.choice((-1.0, -0.0, 0.0, 0.5, float("inf"), float("nan"))),
            "tuple[int, ...]": self.numbers,
            "Window": self.window,
            "Window2d": lambda: Window2d(self.window(), self.window()),
            "Window3d": lambda: Window3d(self.window(), self.window(), self.window()),
            "Requantize": self.requantize,
        }

    def dims(self) -> tuple[int, ...]:
        other = (0, 1, 2, 5, 2**16, 2**24, 2**31, 2**40)
        return tuple(n if self.close or self.rng.random() < 0.6 else self.rng.choice(other) for n in self.base)

    def operand(self) -> Any:
        dtype = self.dtype if self.rng.random() < 0.8 else self.rng.choice((DType.F32, DType.I64, DType.Q4_K))
        return SimpleNamespace(dtype=dtype, ne=self.dims())

    def number(self) -> int:
        other = (-(2**63), -1, 0, 1, 2, 3, 4, 2**16, 2**24, 2**31, 2**62, 2**63 - 1)
        return self.rng.choice(self.base if self.close else other)

    def numbers(self) -> tuple[int, ...]:
        if self.rng.random() < 0.5:
            return self.rng.choice(((1, 1, 1, 1), tuple(self.rng.sample(range(4), 4))))
        return tuple(self.rng.choice((0, 1, 2, 3, 4, -1)) for _ in range(self.rng.randrange(5)))

    def window(self) -> Window:
        if self.close:
            return Window(self.rng.choice((1, 1, 1, 2)))
        number = self.rng.choice
        return Window(number((0, 1, 3, 2**24)), number((1, 2)), number((-1, 0, 2**24)), number((1, 2)), number((1, 2)))

    def requantize(self) -> Requantize:
        dtype = self.rng.choice((DType.F32, DType.I8, DType.U8, DType.I32))
        bounds = (-129.0, -128.0, 0.0, 127.0, 255.0, 256.0)
        low, high = (self.rng.choice(bounds) for _ in range(2))
        return Requantize(dtype, self.rng.choice((-129, -1, 0, 5, 127, 255, 256)), min(low, high), max(low, high))

    def argument(self, annotation: str, entry: Formula) -> Any:
        maker = self.makers.get(annotation)
        return self.rng.choice(list(entry.function.__globals__[annotation])) if maker is None else maker()


def _cpp(value: Any, annotation: str) -> str:
    """A value as an argument in C++."""
    if annotation.startswith("Operand"):
        return "Operand{}" if value is None else f"Operand{{{_cpp(value.dtype, '')}, {_cpp(value.ne, 'Dims')}, &any}}"
    if annotation == "Dims":
        return f"Dims{{{', '.join(_cpp(n, 'int') for n in value)}}}"
    if annotation.startswith("tuple"):
        return f"Ints{{{{{', '.join(map(str, value))}}}, {len(value)}}}"
    if annotation == "Window":
        return f"Window{{{value.kernel}, {value.stride}, {value.pad}, {value.dilation}, {value.up}}}"
    if annotation in ("Window2d", "Window3d"):
        axes = (value.w, value.h, value.d) if annotation == "Window3d" else (value.w, value.h)
        return f"{annotation}{{{', '.join(_cpp(axis, 'Window') for axis in axes)}}}"
    if annotation == "Requantize":
        bounds = f"{_cpp(value.low, 'float')}, {_cpp(value.high, 'float')}"
        return f"Requantize{{{_cpp(value.dtype, '')}, {value.zero}, {bounds}}}"
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}::{cpp.camel(value.name)}"
    if isinstance(value, float):
        return {"inf": "__builtin_inff()", "nan": '__builtin_nanf("")'}.get(repr(value), f"{value!r}f")
    return "INT64_MIN" if value == -(2**63) else f"INT64_C({value})"


def _cases() -> list[tuple[str, str, int]]:
    """Calls of formulas, in C++, with what Python makes of them."""
    cases = []
    for entry in FORMULAS.values():
        if entry.primitive:
            continue
        rng = random.Random(entry.name)  # not changed by other formulas
        annotations = {a.arg: ast.unparse(a.annotation) for a in entry.definition.args.args if a.annotation}
        for _ in range(CASES):
            draw = Draw(rng)
            arguments = {name: draw.argument(annotation, entry) for name, annotation in annotations.items()}
            try:
                value = entry.function(*arguments.values())
            except (ZeroDivisionError, IndexError):
                continue  # the checks before it see to that
            written = ", ".join(_cpp(arguments[name], annotation) for name, annotation in annotations.items())
            call = f"{entry.name}({written})"
            dims = [(f"{call}[{i}]", n) for i, n in enumerate(value)] if isinstance(value, tuple) else [(call, value)]
            for one, number in dims:
                if number >= -(2**63):  # C++ stops at the largest number
                    cases.append((entry.name, one, min(int(number), 2**63 - 1)))
    return cases


def test_formulas_mean_the_same_in_cpp(tmp_path: Path) -> None:
    cases = _cases()
    formulas = [entry for entry in FORMULAS.values() if not entry.primitive]
    calls = "\n".join(f'  std::printf("%lld\\n", static_cast<long long>({call}));' for _, call, _ in cases)
    (tmp_path / "ops_generated.h").write_text(codegen.ops_header())
    source = tmp_path / "formulas.cpp"
    source.write_text(
        "\n".join(
            [
                '#include <cstdio>\n#include "formulas.h"\nnamespace executorch_ggml {\nstatic ggml_tensor any;',
                *(f"{cpp.prototype(entry)};" for entry in formulas),
                *map(cpp.definition, formulas),
                f"void run() {{\n{calls}\n}}\n}}\nint main() {{ executorch_ggml::run(); }}\n",
            ]
        )
    )
    ggml = importlib.metadata.distribution("libggml-python").locate_file("libggml/include")
    folders = [f"-I{folder}" for folder in (tmp_path, RUNTIME, ggml)]
    program = tmp_path / "formulas"
    subprocess.run(
        [
            "g++",
            "-std=c++17",
            "-O0",
            "-fsanitize=undefined",
            "-fno-sanitize-recover",
            *folders,
            str(source),
            "-o",
            str(program),
        ],
        check=True,
    )
    made = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout.split()
    wrong = [case for case, number in zip(cases, made, strict=True) if case[2] != int(number)]
    assert not wrong, wrong[:5]
    # Both answers are seen, but of are_sizes: sizes are none of them negative.
    answers = {name: {case[2] for case in cases if case[0] == name} for name, *_ in cases}
    assert [name for name, seen in answers.items() if len(seen) == 1] == ["are_sizes"]


def test_symbolic_dims_have_the_benefit_of_the_doubt() -> None:
    n = sympy.Symbol("n", integer=True, positive=True)
    wide, long = (SimpleNamespace(dtype=DType.F32, ne=ne) for ne in ((4, 3, 1, 1), (n, 2, 1, 1)))
    assert holds(multiplies, wide, long)
    assert not holds(multiplies, wide, SimpleNamespace(dtype=DType.F32, ne=(5, n, 1, 1)))
    assert holds(same_count, long, (4, 3, 1, 1))
    assert holds(is_inside, long, (0, 0, 0, 0), (1, 1, 1, 1), (n - 1, 2, 1, 1))
    assert not holds(is_inside, long, (0, 0, 0, 0), (1, 1, 1, 1), (n - 1, 3, 1, 1))
    assert 3 * UNKNOWN // 2 + 1 == 7
    assert abs(UNKNOWN - 1) % 2 < 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[n for n in a.ne]", "is not of the language"),
        ("n ** m", "KeyError|Pow"),
        ("unheard_of(n)", "no formula unheard_of"),
        ("(n, n, n)", "neither dims nor a result"),
    ],
)
def test_what_is_not_of_the_language_is_refused(text: str, message: str) -> None:
    column = Expression(text, ("a", "n", "m"), {})
    with pytest.raises((TypeError, KeyError), match=message):
        cpp.expression(column, {"a": "a", "n": "n", "m": "m"})


def test_a_formula_is_one_return_and_has_a_name_of_its_own() -> None:
    def long(n: int) -> bool:
        """Expects `n` to be small."""
        assert n >= 0
        return n < 3

    with pytest.raises(TypeError, match="formula long: its body must be one return"):
        cpp.definition(Formula(long))
    with pytest.raises(ValueError, match="formula multiplies is declared twice"):
        formula(multiplies)


def test_work_is_that_of_the_op() -> None:
    def work(op: str, **operands: Any) -> Any:
        column = OPS[op].work
        assert column is not None
        return column(operands)

    a, b = SimpleNamespace(ne=(8, 5, 1, 1)), SimpleNamespace(ne=(8, 3, 2, 1))
    assert work("mul_mat", a=a, b=b, result=SimpleNamespace(ne=(5, 3, 2, 1))) == 8 * 5 * 3 * 2
    windows = Window2d(Window(3), Window(kernel=0))
    x, inner = SimpleNamespace(ne=(9, 12, 4, 2)), SimpleNamespace(ne=(4, 9, 12, 2))
    assert work("pool_2d", x=x, ne=(7, 3, 4, 2), window=windows) == 4 * 7 * 3 * 2 * 3 * (12 // 3 + 2)
    assert work("pool_2d_nhwc", x=inner, ne=(4, 7, 3, 2), window=windows) == 4 * 7 * 3 * 2 * 3 * (12 // 3 + 2)
