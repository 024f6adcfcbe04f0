"""Formulas (``ir/formulas.py``) in C++."""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable, Mapping
from typing import Any

if __package__:
    from .formulas import FORMULAS, Expression, Formula
else:  # codegen.py runs as a script
    from ir.formulas import FORMULAS, Expression, Formula  # type: ignore[import-not-found,no-redef]

_PARAMETERS = {
    "Operand": "const Operand&",
    "Operand | None": "const Operand&",
    "Dims": "const Dims&",
    "Dim": "int64_t",
    "int": "int64_t",
    "float": "float",
    "bool": "bool",
    "tuple[int, ...]": "const Ints&",
}
_RESULTS = {"bool": "bool", "int": "int64_t", "Dim": "int64_t", "Dims": "Dims", "Result": "Operand"}
_COMPARISONS = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_ARITHMETIC = {
    ast.Add: "saturating_add",
    ast.Sub: "saturating_sub",
    ast.Mult: "saturating_mul",
    ast.FloorDiv: "floor_div",
    ast.Mod: "modulo",
}


def camel(name: str) -> str:
    """``LOGICAL_NOT`` -> ``LogicalNot``: the enumerators' spelling in C++."""
    return "".join(part.capitalize() for part in name.lower().split("_"))


def expression(column: Expression, names: Mapping[str, str]) -> str:
    """A column in C++, ``names`` being what its inputs and attributes are called there."""
    return _Translator(column.scope, names, column.text).of(column.tree)


def prototype(entry: Formula) -> str:
    """The declaration of a formula."""
    arguments = entry.definition.args.args
    parameters = ", ".join(f"{_parameter(entry, a)} {a.arg}" for a in arguments)
    assert entry.definition.returns is not None
    return f"[[maybe_unused]] static {_RESULTS[ast.unparse(entry.definition.returns)]} {entry.name}({parameters})"


def definition(entry: Formula) -> str:
    """A formula in C++."""
    body = [line for line in entry.definition.body if not _is_docstring(line)]
    if len(body) != 1 or not isinstance(body[0], ast.Return) or body[0].value is None:
        raise TypeError(f"formula {entry.name}: its body must be one return")
    names = {a.arg: a.arg for a in entry.definition.args.args}
    value = _Translator(entry.function.__globals__, names, entry.name).of(body[0].value)
    return f"{prototype(entry)} {{\n  return {value};\n}}\n"


def _parameter(entry: Formula, argument: ast.arg) -> str:
    annotation = "" if argument.annotation is None else ast.unparse(argument.annotation)
    if annotation in _PARAMETERS:
        return _PARAMETERS[annotation]
    if not isinstance(entry.function.__globals__.get(annotation), type):
        raise TypeError(f"formula {entry.name}: no C++ type for parameter {argument.arg}: {annotation}")
    return f"const {annotation}&"


def _is_docstring(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)


class _Translator:
    """Translates the expressions of one formula."""

    def __init__(self, scope: Mapping[str, Any], names: Mapping[str, str], where: str) -> None:
        self.scope = scope
        self.names = dict(names)
        self.where = where

    def of(self, node: ast.expr) -> str:
        """An expression in C++."""
        number = self._constant(node)
        if number is not None:
            return number
        method: Callable[[Any], str] | None = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise TypeError(f"formula {self.where}: {ast.unparse(node)} is not of the language")
        return method(node)

    def _constant(self, node: ast.expr) -> str | None:
        """A number that is known here."""
        if any(isinstance(part, ast.Name) and part.id in self.names for part in ast.walk(node)):
            return None
        if not all(
            isinstance(part, (ast.expr, ast.operator, ast.unaryop, ast.expr_context)) for part in ast.walk(node)
        ):
            return None
        if any(isinstance(part, (ast.Call, ast.Tuple, ast.Compare)) for part in ast.walk(node)):
            return None
        return _literal(eval(ast.unparse(node), dict(self.scope)))

    def _name(self, node: ast.Name) -> str:
        return self.names[node.id]

    def _attribute(self, node: ast.Attribute) -> str:
        if node.attr == "is_quantized":
            return f"is_quantized({self.of(node.value)})"
        return f"{self.of(node.value)}.{node.attr}"

    def _subscript(self, node: ast.Subscript) -> str:
        return f"at({self.of(node.value)}, {self.of(node.slice)})"

    def _unaryop(self, node: ast.UnaryOp) -> str:
        return f"{'!' if isinstance(node.op, ast.Not) else '-'}({self.of(node.operand)})"

    def _binop(self, node: ast.BinOp) -> str:
        return f"{_ARITHMETIC[type(node.op)]}({self.of(node.left)}, {self.of(node.right)})"

    def _boolop(self, node: ast.BoolOp) -> str:
        joined = (" && " if isinstance(node.op, ast.And) else " || ").join(map(self.of, node.values))
        return f"({joined})"

    def _ifexp(self, node: ast.IfExp) -> str:
        return f"({self.of(node.test)} ? {self.of(node.body)} : {self.of(node.orelse)})"

    def _tuple(self, node: ast.Tuple) -> str:
        """Dims, or a result's type and dims."""
        kind = {2: "Operand", 4: "Dims"}.get(len(node.elts))
        if kind is None:
            raise TypeError(f"formula {self.where}: {ast.unparse(node)} is neither dims nor a result")
        return f"{kind}{{{', '.join(map(self.of, node.elts))}}}"

    def _compare(self, node: ast.Compare) -> str:
        parts, left = [], node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            parts.append(self._comparison(left, operator, right))
            left = right
        return parts[0] if len(parts) == 1 else f"({' && '.join(parts)})"

    def _comparison(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> str:
        if isinstance(operator, (ast.Is, ast.IsNot)):
            return f"({self.of(left)}.tensor {'==' if isinstance(operator, ast.Is) else '!='} nullptr)"
        if isinstance(operator, (ast.In, ast.NotIn)):
            return ("" if isinstance(operator, ast.In) else "!") + self._membership(left, right)
        return f"({self.of(left)} {_COMPARISONS[type(operator)]} {self.of(right)})"

    def _membership(self, left: ast.expr, right: ast.expr) -> str:
        if isinstance(right, ast.Tuple):
            members = [self.of(each) for each in right.elts]
        elif isinstance(right, ast.Name) and right.id not in self.names:
            members = [str(_literal(member)) for member in sorted(self.scope[right.id])]
        else:
            return f"contains({self.of(right)}, {self.of(left)})"
        return f"({' || '.join(f'{self.of(left)} == {member}' for member in members)})"

    def _call(self, node: ast.Call) -> str:
        assert isinstance(node.func, ast.Name), ast.unparse(node)
        name = node.func.id
        if name in ("all", "any", "dims"):
            generator = node.args[0]
            assert isinstance(generator, ast.GeneratorExp), ast.unparse(node)
            return self._dims(generator) if name == "dims" else self._quantified(generator, name == "all")
        arguments = ", ".join(map(self.of, node.args))
        if name in ("min", "max"):
            return f"std::{name}<int64_t>({arguments})"
        if name == "abs":
            return f"std::abs({arguments})"
        if name == "len":
            return f"{arguments}.size"
        if name == "broadcast_dims":
            return f"{name}({{{arguments}}})"
        entry = FORMULAS.get(name)
        if entry is None:
            raise TypeError(f"formula {self.where}: there is no formula {name}")
        return f"{'self.' if entry.fact else ''}{name}({arguments})"

    def _quantified(self, generator: ast.GeneratorExp, all_of: bool) -> str:
        heads = [self._head(each) for each in generator.generators]
        holds = self.of(generator.elt)
        stop = f"if (!({holds})) return false;" if all_of else f"if ({holds}) return true;"
        return f"[&] {{ {' '.join(heads)} {stop} {'} ' * len(heads)}return {str(all_of).lower()}; }}()"

    def _dims(self, generator: ast.GeneratorExp) -> str:
        (loop,) = generator.generators
        if not isinstance(loop.target, ast.Name) or ast.unparse(loop.iter) != "range(4)":
            raise TypeError(f"formula {self.where}: dims are of an expression over range(4)")
        i = loop.target.id
        self.names[i] = i
        size = self.of(generator.elt)
        loops = f"for (int64_t {i} = 0; {i} < 4; ++{i}) ne[static_cast<size_t>({i})] = {size};"
        return f"[&] {{ Dims ne{{}}; {loops} return ne; }}()"

    def _head(self, loop: ast.comprehension) -> str:
        """The head of a loop, with an open brace."""
        targets = loop.target.elts if isinstance(loop.target, ast.Tuple) else [loop.target]
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        source = loop.iter
        call = source.func.id if isinstance(source, ast.Call) and isinstance(source.func, ast.Name) else ""
        if call == "range":
            assert isinstance(source, ast.Call)
            head = f"for (int64_t {names[0]} = 0; {names[0]} < {self.of(source.args[0])}; ++{names[0]}) {{"
        elif call == "zip":
            assert isinstance(source, ast.Call)
            sources = map(self.of, source.args)
            parts = " ".join(f"const int64_t {n} = {s}[of];" for n, s in zip(names, sources, strict=True))
            head = f"for (size_t of = 0; of < 4; ++of) {{ {parts}"
        elif isinstance(source, ast.Tuple):
            head = (
                f"for (const int64_t {names[0]} : {{{', '.join(f'int64_t{{{self.of(e)}}}' for e in source.elts)}}}) {{"
            )
        else:
            head = f"for (const int64_t {names[0]} : {self.of(source)}) {{"
        self.names |= {name: name for name in names}
        return head


def _literal(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}::{camel(value.name)}"
    if isinstance(value, int):
        return str(value) if abs(value) < 2**31 else f"INT64_C({value})"
    return f"{value!r}f" if isinstance(value, float) else None
