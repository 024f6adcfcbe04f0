"""Generate everything that follows from the op table: the schema, the C++ parameters and dispatch, the docs table.

Run as a script, without the package being built or torch being there:

    python python/executorch_ggml/ir/codegen.py --schema-out schema/ggml_ir.fbs --docs-out docs/ops.md --cpp-out DIR
    python python/executorch_ggml/ir/codegen.py --check     # the tracked files are what the table says
"""

from __future__ import annotations

import argparse
import dataclasses
import enum
import inspect
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

if __package__:
    from .cpp import camel, definition, expression, prototype
    from .dtypes import DType
    from .formulas import FORMULAS, Check, Expression
    from .op import IR_VERSION, OPS, AttrSpec, InputSpec, OpSpec, StructSpec
    from .storage import Storage
    from .target import Target
else:  # run as a script: import the table alone, not the package around it
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from ir.cpp import (  # type: ignore[import-not-found,no-redef] # by its path
        camel,
        definition,
        expression,
        prototype,
    )
    from ir.dtypes import DType  # type: ignore[import-not-found,no-redef] # by its path
    from ir.formulas import FORMULAS, Check, Expression  # type: ignore[import-not-found,no-redef] # by its path
    from ir.op import (  # type: ignore[import-not-found,no-redef] # by its path
        IR_VERSION,
        OPS,
        AttrSpec,
        InputSpec,
        OpSpec,
        StructSpec,
    )
    from ir.storage import Storage  # type: ignore[import-not-found,no-redef] # by its path
    from ir.target import Target  # type: ignore[import-not-found,no-redef] # by its path

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = ROOT / "schema" / "ggml_ir.fbs"
DOCS = ROOT / "docs" / "ops.md"
NOTICE = "Generated from the op table by python/executorch_ggml/ir/codegen.py; do not edit."


@dataclasses.dataclass(frozen=True)
class Selection:
    """What a runtime is built for: these ops and types alone, on the CPU. ``ops`` of None: all of them, on any device.

    ``kinds`` has the members that attributes have, by their enum; ``families`` the kernels (see :func:`~.op.op`);
    ``states`` is whether programs have some, ``batches`` whether they compute samples apart, and ``ggml`` whether ggml
    computes some nodes.
    """

    ops: frozenset[str] | None = None
    types: frozenset[DType] = frozenset(DType)
    kinds: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)
    families: frozenset[str] | None = None
    states: bool = True
    ggml: bool = True
    batches: bool = True

    @staticmethod
    def read(path: Path) -> Selection:
        """From the JSON that ``executorch-ggml build-runtime`` writes."""
        selected = json.loads(path.read_text())
        chosen = frozenset(selected["families"]) if "families" in selected else None
        enums_of_kinds = [kind.__name__ for kind in kinds()]
        for what, given, known in (
            ("ops", selected["ops"], OPS),
            ("kinds", selected.get("kinds", {}), enums_of_kinds),
            ("families", chosen or (), families()),
        ):
            unknown = sorted(set(given) - set(known))
            if unknown:
                raise ValueError(f"{path}: no {what} of this version: {', '.join(unknown)}")
        return Selection(
            frozenset(selected["ops"]),
            frozenset(DType[name.upper()] for name in selected["types"]),
            {name: frozenset(members) for name, members in selected.get("kinds", {}).items()},
            chosen,
            selected.get("states", True),
            selected.get("ggml", True),
            selected.get("batches", True),
        )

    def rows(self) -> list[OpSpec]:
        """The rows that are built."""
        return [spec for spec in ordered() if self.has_op(spec.name)]

    def has_op(self, name: str) -> bool:
        """Whether an op is built."""
        return self.ops is None or name in self.ops

    def has_family(self, name: str) -> bool:
        """Whether a family of kernels is built."""
        return self.families is None or name in self.families

    def members(self, kind: type[enum.IntEnum]) -> list[enum.IntEnum]:
        """The members of an attribute's enum that are built."""
        chosen = self.kinds.get(kind.__name__) if self.ops is not None else None
        return [member for member in kind if chosen is None or member.name.lower() in chosen]


EVERYTHING = Selection()


def load_table() -> None:
    """Import the op modules, which fill ``OPS``."""
    if __package__:
        from . import ops as _  # noqa: F401 - imported for the rows it declares
    else:
        import ir.ops  # type: ignore[import-not-found]  # noqa: F401 - as above, by its path


def ordered() -> list[OpSpec]:
    """All rows by wire number."""
    return [OPS[name] for name in OPS]


def attributes() -> Iterator[AttrSpec]:
    """Every op's attributes, the fields of a struct before it."""
    for spec in ordered():
        for attr in spec.attrs:
            yield from _with_fields(attr)


def _with_fields(attr: AttrSpec) -> Iterator[AttrSpec]:
    for field in attr.struct.fields if attr.struct else ():
        yield from _with_fields(field)
    yield attr


def enums() -> list[type[enum.IntEnum]]:
    """DType, Storage, Target, and every enum that an attribute uses, in order of first use."""
    return list(dict.fromkeys([DType, Storage, Target, *(attr.enum for attr in attributes() if attr.enum is not None)]))


def kinds() -> list[type[enum.IntEnum]]:
    """The enums that say what an op computes."""
    return [kind for kind in enums() if kind not in (DType, Storage, Target)]


def families() -> list[str]:
    """The families of kernels, in the order of the ops that they compute."""
    return list(dict.fromkeys(name for spec in ordered() for name in spec.families))


def structs() -> list[StructSpec]:
    """Every struct that an attribute uses, each after those that it is made of."""
    return list(dict.fromkeys(attr.struct for attr in attributes() if attr.struct is not None))


# ---------------------------------------------------------------------------------------------------------- schema

_FBS_TYPES = {"f32": "float", "i64": "long", "bool": "bool", "dim": "long", "dims": "Ne", "ints": "[long]"}

_SCHEMA_HEAD = """\
// {notice}
//
// The IR of executorch-ggml: graphs of calls to ggml's builders. Shapes are in ggml order (n0 innermost).
// A "sdim" is a long: a value >= 0 is a size, a value < 0 is expression -value - 1 of Graph.exprs.
// Numbers are append-only; the version is raised when a reader of the older one would go wrong.

namespace executorch_ggml.fb;

file_identifier "GGIR";
file_extension "ggir";
"""

_SCHEMA_TAIL = """\
// How an expression is computed; operands are sdims, except Const's a (a plain integer) and Symbol's a (its index).
enum ExprOp : ubyte { Const = 0, Symbol = 1, Add = 2, Mul = 3, FloorDiv = 4, Mod = 5, Min = 6, Max = 7 }

// Operands refer to earlier expressions only.
struct Expr { op:ExprOp; a:long; b:long; }

// A symbol is read off an input: size(input, dim) == scale * symbol + offset; dim -1 is the value of a scalar input.
// That of a batch counts samples which the graph computes apart, in equal parts of inputs' and outputs' first dims.
table Symbol { name:string; input:int; dim:int; scale:long = 1; offset:long = 0; min:long; max:long; batch:bool; }

// Four sdims, innermost first.
struct Ne { n0:long; n1:long; n2:long; n3:long; }

struct Value { dtype:DType; ne:Ne; }

// A tensor that crosses the boundary; shape is the caller's: outermost first, any rank, sdims.
table Port { name:string; value:int; shape:[long]; }

// Data that lives outside the graph, under key; how its elements lie there, and the groups of the convolution that a
// weight is of where that depends on them.
table Constant { key:string; value:int; storage:Storage; groups:long = 1; }

// A tensor that keeps its contents from run to run; initial is the key of its first contents, or empty for zeros.
table State { key:string; value:int; initial:string; }

// How a value becomes a tensor of the traced program: its elements in their order have the dims ne, dim i goes to
// axes[i], and the result has the shape (outermost first, any rank, sdims).
table TracedForm { ne:Ne; axes:[ubyte]; shape:[long]; }

// One call of a builder; an input of -1 is an optional one that is absent. A host node is computed on the CPU, before
// all that a device computes, and depends on leaves and other host nodes alone. Where its output is what the node of
// the traced program gives that it is named after, it says in which form.
table Node { op:Op; inputs:[int]; output:int; name:string; host:bool; traced:TracedForm; }

table Graph {
  symbols:[Symbol];
  exprs:[Expr];
  values:[Value];
  inputs:[Port];
  outputs:[Port];
  constants:[Constant];
  states:[State];
  nodes:[Node];
  target:Target;
}

// A graph for each target, all with the same inputs and outputs. Constants and states are the same by their keys. The
// version stays the first field, so that readers of any version find it.
table Program { version:uint; graphs:[Graph]; }

root_type Program;
"""


def _fbs_fields(attrs: Iterable[AttrSpec]) -> str:
    return " ".join(f"{attr.name}:{_FBS_TYPES.get(attr.kind, attr.kind)};" for attr in attrs)


def schema(selection: Selection = EVERYTHING) -> str:
    """The FlatBuffers schema; of a selection the verifier knows its ops alone, and readers read no others."""
    lines = [_SCHEMA_HEAD.format(notice=NOTICE)]
    for kind in enums():
        members = ", ".join(f"{camel(m.name)} = {m.value}" for m in kind)
        lines.append(f"enum {kind.__name__} : ubyte {{ {members} }}\n")
    lines += [f"struct {struct.cls.__name__} {{ {_fbs_fields(struct.fields)} }}\n" for struct in structs()]
    lines += [f"table {spec.class_name} {{ {_fbs_fields(spec.attrs)} }}".replace("{  }", "{}") for spec in ordered()]
    members = ",\n".join(f"  {spec.class_name} = {spec.number}" for spec in selection.rows())
    lines.append(f"\nunion Op {{\n{members}\n}}\n")
    lines.append(_SCHEMA_TAIL)
    return "\n".join(lines)


# ------------------------------------------------------------------------------------------------------------- C++

_CPP_TYPES = {
    "f32": "float",
    "i64": "int64_t",
    "bool": "bool",
    "dim": "int64_t",
    "dims": "std::array<int64_t, 4>",
    "ints": "Ints",
}


def _cpp_type(attr: AttrSpec) -> str:
    return _CPP_TYPES.get(attr.kind, attr.kind)


def ggml_types() -> str:
    """Ggml's numbers of the element types, in order."""
    return ", ".join(str(dtype.ggml_type) for dtype in DType)


def _cpp_struct(struct: StructSpec) -> str:
    """A struct with the defaults that it has in Python."""
    defaults = {field.name: field.default for field in dataclasses.fields(struct.cls)}
    fields = "".join(f"  {_cpp_type(field)} {field.name}{_cpp_default(field, defaults)};\n" for field in struct.fields)
    about = " ".join(line.strip() for line in inspect.cleandoc(struct.cls.__doc__ or "").splitlines()[:1])
    return f"// {about}\nstruct {struct.cls.__name__} {{\n{fields}}};\n"


def _cpp_default(field: AttrSpec, defaults: dict[str, Any]) -> str:
    value = defaults[field.name]
    if field.struct is not None or value is dataclasses.MISSING:
        return "{}"
    if field.enum is not None:
        return f" = {field.kind}::{camel(value.name)}"
    return f" = {str(value).lower()}{'f' if field.kind == 'f32' else ''}"


def selection_header(selection: Selection) -> str:
    """What the build has, as constants, which decide what the linker can drop."""
    types = sum(1 << dtype for dtype in selection.types)
    ops = "".join(f"constexpr bool {spec.name} = {str(selection.has_op(spec.name)).lower()};\n" for spec in ordered())
    built = "".join(_is_built(kind.__name__, selection.members(kind)) for kind in kinds())
    chosen = [number for number, name in enumerate(families()) if selection.has_family(name)]
    built += _is_built("Family", chosen)
    return (
        f'// {NOTICE}\n#pragma once\n\n#include <cstdint>\n\n#include "ops_generated.h"\n\n'
        "namespace executorch_ggml {\n\n"
        "// Whether this build has selected ops on the CPU alone, instead of all of them on any device.\n"
        f"constexpr bool kIsSelective = {str(selection.ops is not None).lower()};\n\n"
        "// The types that it has, a bit per DType.\n"
        f"constexpr uint64_t kBuiltTypes = 0x{types:x}ull;\n\n"
        "constexpr bool is_built(DType type) { return (kBuiltTypes >> static_cast<unsigned>(type) & 1u) != 0; }\n"
        "constexpr bool kHasQuantizedTypes = (kBuiltTypes >> static_cast<unsigned>(DType::Q40)) != 0;\n\n"
        "// Whether programs have states, whether they compute samples of a batch apart, and whether ggml's kernels\n"
        "// compute some of their nodes.\n"
        f"constexpr bool kHasStates = {str(selection.states).lower()};\n"
        f"constexpr bool kHasBatches = {str(selection.batches).lower()};\n"
        f"constexpr bool kHasGgmlKernels = {str(selection.ggml).lower()};\n\n"
        "// What attributes may say, and which kernels there are for some calls alone. Unknown numbers are others to\n"
        f"// refuse.\n{built}\n"
        f"// The ops.\nnamespace built {{\n{ops}}}  // namespace built\n\n"
        "}  // namespace executorch_ggml\n"
    )


def _is_built(name: str, members: Iterable[int]) -> str:
    mask = sum(1 << member for member in members)
    return (
        f"constexpr bool is_built({name} of) {{\n"
        f"  return static_cast<int>(of) > k{name}Max || (0x{mask:x}ull >> static_cast<unsigned>(of) & 1u) != 0;\n}}\n"
    )


def _cpp_enum(name: str, members: Mapping[str, int]) -> str:
    values = ", ".join(f"{camel(member)} = {value}" for member, value in members.items())
    return f"enum class {name} : uint8_t {{ {values} }};\nconstexpr int k{name}Max = {max(members.values())};\n"


def ops_header() -> str:
    """Enums, parameter structs and kernel declarations: what the kernels include. Knows nothing of FlatBuffers."""
    out = [f"// {NOTICE}\n#pragma once\n", "#include <array>\n#include <cstdint>\n", "struct ggml_tensor;\n"]
    out.append("namespace executorch_ggml {\n")
    out.append(f"constexpr uint32_t kIrVersion = {IR_VERSION};\n")
    out.append("// Up to four small integers.\nstruct Ints {\n  int64_t at[4] = {0, 0, 0, 0};\n  int size = 0;\n")
    out.append("  int64_t operator[](int i) const { return at[i]; }")
    out.append(
        "  const int64_t* begin() const { return at; }\n  const int64_t* end() const { return at + size; }\n};\n"
    )
    out += [_cpp_enum(kind.__name__, {member.name: member.value for member in kind}) for kind in enums()]
    out.append("// Kernels that compute some of an op's calls, by the column of its row.")
    out.append(_cpp_enum("Family", {name: number for number, name in enumerate(families())}))
    out.append("// The ops' numbers in programs.")
    out.append(_cpp_enum("OpKind", {spec.name: spec.number for spec in ordered()}))
    out.append(f"// The ggml_type that stores each DType.\nconstexpr int kGgmlTypes[] = {{{ggml_types()}}};\n")
    out += [_cpp_struct(struct) for struct in structs()]
    for spec in ordered():
        if spec.kernel and not _builder_chooses(spec):
            fields = "".join(f"  {_cpp_type(attr)} {attr.name};\n" for attr in spec.attrs)
            out.append(f"struct {spec.class_name}Params {{\n{fields}}};\n")
    out.append(
        "// Custom CPU nodes. `call` points to a KernelCall of the node's parameters; sources are dst->src[0..]."
    )
    out.append("namespace kernels {")
    kernels = dict.fromkeys(spec.kernel for spec in ordered() if spec.kernel)
    out += [f"void {kernel}(ggml_tensor* dst, int ith, int nth, void* call);" for kernel in kernels]
    out.append("}  // namespace kernels\n\n}  // namespace executorch_ggml\n")
    return "\n".join(out)


def _type_mask(spec: InputSpec) -> str:
    return f"0x{sum(1 << dtype for dtype in spec.dtypes):x}ull"


def _op_info(spec: OpSpec) -> str:
    """A row's columns that the runtime reads as data."""
    rows = ", ".join(
        f'{{"{i.name}", {_type_mask(i)}, Layout::{i.layout.name.capitalize()}, {str(i.optional).lower()}}}'
        for i in spec.inputs
    )
    inputs = f"static constexpr InputSpec kInputs[] = {{{rows}}};\n      " if rows else ""
    columns = [
        f'"{spec.name}"',
        "kInputs" if rows else "nullptr",
        str(len(spec.inputs)),
        f"Moves::{camel(spec.moves.name)}",
        f"Writes::{camel(spec.writes.name)}",
        f"Empty::{camel(spec.empty.name)}",
        str(spec.reads_packed).lower(),
    ]
    return f"    case fb::Op::{spec.class_name}: {{\n      {inputs}return {{{', '.join(columns)}}};\n    }}"


def _decode(attr: AttrSpec) -> str:
    get = f"attrs->{attr.name}()"
    if attr.kind == "dim":
        return (
            f'      int64_t {attr.name} = 0;\n      if (!self.dim({get}, "{attr.name}", &{attr.name})) return nullptr;'
        )
    if attr.kind == "dims":
        return (
            f"      std::array<int64_t, 4> {attr.name}{{}};\n"
            f'      if (!self.dims({get}, "{attr.name}", &{attr.name})) return nullptr;'
        )
    if attr.kind == "ints":
        return f'      Ints {attr.name};\n      if (!self.ints({get}, "{attr.name}", &{attr.name})) return nullptr;'
    if attr.struct is not None:
        return (
            f"      {attr.kind} {attr.name};\n"
            f'      if (!read_struct(self, {get}, "{attr.name}", &{attr.name})) return nullptr;'
        )
    if attr.enum is not None:
        return (
            f"      {attr.kind} {attr.name}{{}};\n"
            f'      if (!self.choice({get}, k{attr.kind}Max, "{attr.name}", &{attr.name})) return nullptr;'
        )
    return f"      [[maybe_unused]] const auto {attr.name} = {get};"


def _struct_reader(struct: StructSpec) -> str:
    """C++ that reads a struct, and that says for messages what it holds."""
    name = struct.cls.__name__
    reads = [
        "  if (from == nullptr) return self.missing(attr);",
        *(f"  to->{field.name} = from->{field.name}();" for field in struct.fields if not (field.enum or field.struct)),
    ]
    for field in struct.fields:
        get, to = f"from->{field.name}()", f"&to->{field.name}"
        if field.struct is not None:
            reads.append(f'  if (!read_struct(self, &{get}, "{field.name}", {to})) return false;')
        if field.enum is not None:
            reads.append(f'  if (!self.choice({get}, k{field.kind}Max, "{field.name}", {to})) return false;')
    texts = ' + ", " + '.join(f'Attr("{field.name}", {_cpp_text(field)}).text()' for field in struct.fields)
    return "\n".join(
        [
            (
                f"template <class Self>\n[[maybe_unused]] static bool read_struct(Self& self, const fb::{name}* from, "
                f"const char* attr, {name}* to) {{"
            ),
            *reads,
            "  return true;\n}\n",
            f'[[maybe_unused]] static std::string text(const {name}& of) {{\n  return "(" + {texts} + ")";\n}}\n',
        ]
    )


def _enum_text(kind: type[enum.IntEnum]) -> str:
    """C++ that names an enum's members, for messages."""
    cases = "".join(f'    case {kind.__name__}::{camel(m.name)}: return "{m.name}";\n' for m in kind)
    return (
        f"[[maybe_unused]] static std::string text({kind.__name__} of) {{\n  switch (of) {{\n{cases}"
        f'  }}\n  return "?";\n}}\n'
    )


def _cpp_text(field: AttrSpec, of: str = "of.") -> str:
    """What ``Attr`` is given of an attribute or field."""
    value = f"{of}{field.name}"
    return f"text({value})" if field.struct is not None or field.enum is not None else value


def _call(spec: OpSpec) -> str:
    arguments = ", ".join(["ctx", *(i.name for i in spec.inputs), *(a.name for a in spec.attrs)])
    return spec.call or f"ggml_{spec.name}({arguments})"


def _in_cpp(spec: OpSpec, column: Expression) -> str:
    """A column in C++, inputs being elements of ``of``."""
    names = {attr.name: attr.name for attr in spec.attrs} | {"result": "result"}
    return expression(column, names | {wanted.name: f"of[{n}]" for n, wanted in enumerate(spec.inputs)})


def _check(spec: OpSpec, check: Check) -> str:
    """A check, with what it expects and what it is given for the message."""
    inputs = {wanted.name: f"of[{n}]" for n, wanted in enumerate(spec.inputs)}
    attrs = {attr.name: _cpp_text(attr, "") for attr in spec.attrs}
    given = ", ".join(f'{{"{name}", {(inputs | attrs)[name]}}}' for name in check.used)
    return f'      if (!{_in_cpp(spec, check)}) return self.unmet("{check.expected}", {{{given}}});'


def _formulas(spec: OpSpec) -> list[str]:
    """What a row expects, gives and takes."""
    lines = [_check(spec, check) for check in spec.checks]
    lines.append(f"      if (!self.gives({_in_cpp(spec, spec.result)})) return nullptr;")
    if spec.work is not None:
        result = ["      const Operand result = self.result();"] if "result" in spec.work.used else []
        lines += [*result, f"      self.set_work({_in_cpp(spec, spec.work)});"]
    if spec.bound is not None:
        lines.append(f"      self.set_bound({spec.bound});")
    return lines


def _custom(spec: OpSpec) -> str:
    params = ", ".join(attr.name for attr in spec.attrs)
    inputs = ", ".join(i.name for i in spec.inputs)
    return f"self.custom(kernels::{spec.kernel}, {spec.class_name}Params{{{params}}}, {{{inputs}}})"


def _builder_chooses(spec: OpSpec) -> bool:
    """Whether a function of NodeBuilder makes the call, and fills in the kernel's parameters by itself."""
    return (spec.call or "").startswith("self.")


def _calls(spec: OpSpec) -> list[str]:
    """What computes a node: the row's kernel, or ggml."""
    if spec.call == "custom":
        return [f"      return {_custom(spec)};"]
    if spec.call == "replaced":
        return ["      return self.left_by_target();"]
    if not spec.kernel and spec.stock is not None:
        return [
            f"      if (!{_in_cpp(spec, spec.stock)}) return self.left_by_target();",
            f"      return {_call(spec)};",
        ]
    if not spec.kernel or _builder_chooses(spec):
        return [f"      return {_call(spec)};"]
    own = f"self.uses_kernels() && {spec.when}" if spec.when else "self.uses_kernels()"
    if spec.stock is not None:
        own = f"{f'({own})' if spec.when else own} || !{_in_cpp(spec, spec.stock)}"
    return [f"      if ({own}) return {_custom(spec)};", f"      return {_call(spec)};"]


def _dispatch(spec: OpSpec) -> str:
    lines = _formulas(spec)
    lines += [f"      [[maybe_unused]] ggml_tensor* {i.name} = in[{n}];" for n, i in enumerate(spec.inputs)]
    lines += _calls(spec)
    if any("of[" in line for line in lines):
        operands = ", ".join(f"self.operand({n})" for n in range(len(spec.inputs)))
        lines.insert(0, f"      const Operand of[] = {{{operands}}};")
    head = [f"    case fb::Op::{spec.class_name}: {{"]
    if spec.attrs:
        head.append(f"      const auto* attrs = node.op_as_{spec.class_name}();")
    return "\n".join([*head, *map(_decode, spec.attrs), *lines, "    }"])


def _enum_fields(attr: AttrSpec, value: str) -> Iterator[tuple[type[enum.IntEnum], str]]:
    """The enums in an attribute, each with the C++ that reads it."""
    if attr.enum is not None:
        yield attr.enum, value
    for field in attr.struct.fields if attr.struct is not None else ():
        yield from _enum_fields(field, f"{value}.{field.name}()")


def _left_out_kinds(spec: OpSpec, selection: Selection) -> Iterator[str]:
    """C++ that finds what a call's attributes say and the build has left out."""
    for attr in spec.attrs:
        get = f"attrs->{attr.name}()"
        present = f"{get} != nullptr && " if attr.struct is not None else ""
        for kind, value in _enum_fields(attr, f"(*{get})" if attr.struct is not None else get):
            if kind not in kinds() or len(selection.members(kind)) == len(kind):
                continue
            member = f"static_cast<{kind.__name__}>({value})"
            yield f'      if ({present}!is_built({member})) return "{kind.__name__} " + text({member});'


def _left_out_families(spec: OpSpec, selection: Selection) -> Iterator[str]:
    """C++ that finds which of the kernels that the build has left out would compute a call."""
    missing = {name: condition for name, condition in spec.families.items() if not selection.has_family(name)}
    used = {name for condition in missing.values() for name in condition.used}
    for attr in spec.attrs:
        if attr.name not in used:
            continue
        if attr.struct is None:
            yield f"      const auto {attr.name} = attrs->{attr.name}();"
        else:
            yield f"      {attr.kind} {attr.name};"
            yield f'      if (!read_struct(lenient, attrs->{attr.name}(), "{attr.name}", &{attr.name})) return {{}};'
    if missing:
        operands = ", ".join(f"stored_operand(graph, node, {n})" for n in range(len(spec.inputs)))
        yield f"      const Operand of[] = {{{operands}}};"
    for name, condition in missing.items():
        yield f'      if ({_in_cpp(spec, condition)}) return "kernel {name}";'


def _left_out_case(spec: OpSpec, selection: Selection) -> str:
    checks = [*_left_out_kinds(spec, selection), *_left_out_families(spec, selection)]
    if not checks:
        return ""
    head = [f"    case fb::Op::{spec.class_name}: {{", f"      const auto* attrs = node.op_as_{spec.class_name}();"]
    return "\n".join([*head, *checks, "      break;", "    }"])


def _left_out(selection: Selection) -> str:
    """C++ that says what a node needs and the build has not; "" where it has all."""
    head = "std::string left_out([[maybe_unused]] const fb::Graph& graph, [[maybe_unused]] const fb::Node& node) {"
    if selection.ops is None:
        return f"{head}\n  return {{}};\n}}\n"
    names = {spec.number: spec.name for spec in ordered()}
    table = " ".join(f'"{names.get(number, "")}\\0"' for number in range(max(names) + 1))
    lines = [
        head,
        f"  static constexpr char kNames[] = {table};",
        "  if (op_info(node.op_type()).op == nullptr) return op_name(kNames, static_cast<int>(node.op_type()));",
        "  if (node.op() == nullptr) return {};",
        "  [[maybe_unused]] Lenient lenient;",
        "  switch (node.op_type()) {",
        *filter(None, (_left_out_case(spec, selection) for spec in selection.rows())),
        "    default:\n      return {};\n  }\n  return {};\n}\n",
    ]
    return "\n".join(lines)


def build_source(selection: Selection = EVERYTHING) -> str:
    """The body of node_builder.cpp: formulas, what each op takes, and the decoder and dispatcher."""
    formulas = [entry for entry in FORMULAS.values() if not entry.primitive]
    parts = [f"// {NOTICE}\n", *(f"{prototype(entry)};" for entry in formulas), "", *map(definition, formulas)]
    parts += [
        *map(_enum_text, enums()),
        *map(_struct_reader, structs()),
        "OpInfo op_info(fb::Op op) {\n  switch (op) {",
    ]
    parts += [_op_info(spec) for spec in selection.rows()]
    parts.append("    default:\n      return {};\n  }\n}\n")
    parts.append("static ggml_tensor* dispatch(NodeBuilder& self, const fb::Node& node, ggml_tensor* const* in) {")
    parts.append("  [[maybe_unused]] ggml_context* ctx = self.context();\n  switch (node.op_type()) {")
    parts += [_dispatch(spec) for spec in selection.rows()]
    parts.append("    default:\n      return nullptr;\n  }\n}\n")
    parts.append(_left_out(selection))
    return "\n".join(parts)


# ------------------------------------------------------------------------------------------------------------ docs


def _types_text(spec: InputSpec) -> str:
    plain = sorted(t for t in spec.dtypes if not t.is_quantized)
    names = ["any"] if len(plain) == sum(not t.is_quantized for t in DType) else [t.name.lower() for t in plain]
    types = "/".join(names + ["quantized"] * (len(plain) < len(spec.dtypes)))
    return f"`{spec.name}{'?' if spec.optional else ''}` {types}"


def _first_sentence(doc: str) -> str:
    return re.split(r"\n\n", doc)[0].replace("\n", " ")


def docs_table() -> str:
    """The IR's op table in Markdown."""
    rows = ["| # | op | inputs | attributes | what | runs as |", "| --- | --- | --- | --- | --- | --- |"]
    for spec in ordered():
        inputs = ", ".join(_types_text(i) for i in spec.inputs) or "none"
        attrs = ", ".join(f"`{a.name}`" for a in spec.attrs) or "none"
        alone = spec.call == "custom" or (spec.kernel and _builder_chooses(spec))
        runs = "custom CPU kernel" if alone else "ggml; own kernel on CPU" if spec.kernel else "ggml"
        runs = "what targets make of it" if spec.call == "replaced" else runs
        rows.append(f"| {spec.number} | `{spec.name}` | {inputs} | {attrs} | {_first_sentence(spec.doc)} | {runs} |")
    about = f"{len(OPS)} ops. Shapes are in ggml order; `?` marks an optional input."
    head = f"<!-- {NOTICE} -->\n\n# The IR's ops\n\n{about}\n"
    return head + "\n" + "\n".join(rows) + "\n"


def write(path: Path, text: str) -> None:
    """Write a file only where it changes, so that the build does not redo what did not change."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def stale(files: Iterable[tuple[Path, str]]) -> list[Path]:
    """The tracked files that differ from what the table says."""
    return [path for path, text in files if not path.exists() or path.read_text() != text]


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description="Generate code and docs from the op table.")
    parser.add_argument("--schema-out", type=Path, help="write the FlatBuffers schema here")
    parser.add_argument("--cpp-out", type=Path, help="write ops_generated.h and build_generated.inc into this folder")
    parser.add_argument("--selection", type=Path, help="a JSON file with the ops and types that the code is limited to")
    parser.add_argument("--docs-out", type=Path, help="write the Markdown op table here")
    parser.add_argument("--check", action="store_true", help="fail if a tracked generated file is out of date")
    args = parser.parse_args()
    load_table()
    selection = Selection.read(args.selection) if args.selection else EVERYTHING
    if args.schema_out:
        write(args.schema_out, schema(selection))
    if args.docs_out:
        write(args.docs_out, docs_table())
    if args.cpp_out:
        write(args.cpp_out / "ops_generated.h", ops_header())
        write(args.cpp_out / "selection_generated.h", selection_header(selection))
        write(args.cpp_out / "build_generated.inc", build_source(selection))
    old = stale([(SCHEMA, schema()), (DOCS, docs_table())]) if args.check else []
    for path in old:
        print(f"{path.relative_to(ROOT)} is out of date: run {Path(__file__).relative_to(ROOT)}", file=sys.stderr)
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main())
