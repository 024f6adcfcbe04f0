"""Bad input of every kind ends in an exception that names the thing, and the process and the session live on."""

from __future__ import annotations

import base64
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy
import torch
from executorch.runtime import Runtime
from executorch_ggml.ir._generated import ggml_ir_generated as fb
from tests.runtime.damage_programs import WAYS
from torch import Tensor, nn

import executorch_ggml
from executorch_ggml.ir.builder import Builder
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.ir.graph import Graph, IRError
from executorch_ggml.ir.op import IR_VERSION
from executorch_ggml.ir.ops.spatial import Activation, Epilogue, Window2d, Window3d
from executorch_ggml.ir.serialize import deserialize, serialize
from executorch_ggml.ir.storage import Storage, StorageLayout
from executorch_ggml.runtime import Module, Session

ROOT = Path(__file__).resolve().parents[2]
HEADER = struct.Struct("<4sIQ")

# A program of IR version 1: a convolution of one pixel.
VERSION_1 = (
    "RUdHTVx+jHV4AgAAAAAAACAAAABHR0lSAAAWACgAJAAgABwAGAAUABAADAAIAAQAFgAAACQAAAD8AAAA/AAAAPwAAAA4AQAAtAEA"
    "ADACAAA0AgAAAQAAAAEAAAAUAAAAAAAOABgAFwAQAAwACAAEAA4AAAAUAAAAAgAAABQAAABAAAAAAAAAUAAAAAAAAAAAAwAAAAAA"
    "AAABAAAA/////wAAHgB0AFAASABAADgAMAAAAAAAKAAgABgAEAAIAAcAHgAAAAAAAAIBAAAAAAAAAAEAAAAAAAAAAQAAAAAAAAAB"
    "AAAAAAAAAAEAAAAAAAAAAQAAAAAAAAABAAAAAAAAAAEAAAAAAAAAAQAAAAAAAAAFAAAAAAAAAAQAAAAAAAAAAgAAAAAAAAABAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAEAAAAEAAAAuv///wwAAAACAAAAJAAAAAMAAAACAAAAAAAAAAQAAAAAAAAABQAAAAAAAAAAAAAAAQAA"
    "AHkAAAACAAAASAAAABAAAAAAAAoAEAAMAAgABAAKAAAADAAAAAEAAAAQAAAAAQAAADMAAAAAAAAABgAAAHdlaWdodAAAAAAKAAwA"
    "CAAAAAQACgAAAAgAAAAkAAAAAwAAAAIAAAAAAAAABAAAAAAAAAADAAAAAAAAAAAAAAABAAAAeAAAAAMAAAAAAAAAAAAAAAMAAAAA"
    "AAAABAAAAAAAAAACAAAAAAAAAAEAAAAAAAAAAAAAAAAAAAAzAAAAAAAAAAEAAAAAAAAAAQAAAAAAAAABAAAAAAAAAAAAAAAAAAAA"
    "BQAAAAAAAAAEAAAAAAAAAAIAAAAAAAAAAQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
)

Damage = Callable[[Any], None]


def table_and_scale() -> Graph:
    """Rows of a table by number, and an f32 matrix times a constant."""
    build = Builder()
    table = build.constant("table", DType.F32, (4, 10, 1, 1))
    index = build.input("index", DType.I64, (3,), (3, 1, 1, 1))
    x = build.input("x", DType.F32, (3, 4), (4, 3, 1, 1))
    build.origin = "pick"
    rows = build.emit("get_rows", table, build.emit("to_index", index, size=10, wrap=True))
    build.origin = "times"
    build.output("y", build.emit("mul", rows, x), (3, 4))
    return build.finish()


IR = serialize(table_and_scale())
TABLE = np.arange(40, dtype=np.float32)
INDEX = np.array([1, 9, -1])
X = np.full((3, 4), 2.0, np.float32)
EXPECTED = TABLE.reshape(10, 4)[INDEX] * 2.0


def sealed(body: bytes) -> bytes:
    """A body with the header that goes with it."""
    return HEADER.pack(b"EGGM", zlib.crc32(body), len(body)) + body


def changed(change: Damage, ir: bytes = IR) -> bytes:
    """The program with a change to the unpacked form of its graph."""
    program = fb.ProgramT.InitFromPackedBuf(ir[HEADER.size :], 0)
    change(program.graphs[0])
    return packed(program)


def packed(program: Any) -> bytes:
    """An unpacked program's bytes."""
    builder = fb.flatbuffers.Builder(1 << 12)
    builder.Finish(program.Pack(builder), b"GGIR")
    return sealed(bytes(builder.Output()))


def session(ir: bytes = IR, constants: dict[str, Any] | None = None) -> Session:
    return Session(ir, {"table": TABLE} if constants is None else constants)


def assert_good(ready: Session) -> None:
    np.testing.assert_array_equal(ready.run(INDEX, X)[0], EXPECTED)


# ---------------------------------------------------------------------------------------------------- inputs, session


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((INDEX, X.astype(np.float64)), r"input 1 \(x\): dtype float64, expected float32; convert it"),
        ((INDEX, X.astype(np.float16)), r"input 1 \(x\): dtype float16, expected float32"),
        ((INDEX.astype(np.int32), X), r"input 0 \(index\): dtype int32, expected int64"),
        ((INDEX, X.astype(np.complex64)), r"input 1 \(x\): its dtype is none of float32"),
        ((INDEX, X[None]), r"input 1 \(x\): shape \[1, 3, 4\] has 3 dims, expected 2"),
        ((INDEX, X[None, None, None]), r"input 1 \(x\): shape \[1, 1, 1, 3, 4\] has 5 dims, expected 2"),
        ((INDEX, X.reshape(12)), r"input 1 \(x\): shape \[12\] has 1 dims, expected 2"),
        ((INDEX, np.float32(2.0)), r"input 1 \(x\)"),
        ((INDEX, X[:2].copy()), r"input 1 \(x\): size 2 in dim 0, expected 3"),
        ((INDEX, np.zeros((3, 0), np.float32)), r"input 1 \(x\): size 0 in dim 1, expected 4"),
        ((INDEX, np.full((4, 3), 2.0, np.float32).T), r"input 1 \(x\) is not contiguous; call"),
        ((INDEX, np.full((3, 8), 2.0, np.float32)[:, ::2]), r"input 1 \(x\) is not contiguous"),
        ((INDEX, torch.full((4, 3), 2.0).t()), r"input 1 \(x\) is not contiguous"),
        ((INDEX, np.frombuffer(bytes(49), np.uint8)[1:].view(np.float32).reshape(3, 4)), r"input 1 \(x\): .*copy it"),
        ((INDEX, torch.zeros(3, 4, device="meta")), r"input 1 \(x\) is"),
        ((INDEX, [[1.0]]), r"input 1 \(x\) is a <class 'list'>, expected a numpy array"),
        ((INDEX, None), r"input 1 \(x\) is a <class 'NoneType'>"),
        ((INDEX, "x"), r"input 1 \(x\) is a <class 'str'>"),
        ((INDEX,), r"1 inputs, expected 2"),
        ((INDEX, X, X), r"3 inputs, expected 2"),
        ((), r"0 inputs, expected 2"),
        ((np.array([0, 10, 0]), X), r"pick: index 10 is out of range for size 10"),
        ((np.array([0, -11, 0]), X), r"pick: index -11 is out of range for size 10"),
        ((np.array([2**63 - 1, 0, -(2**63)]), X), r"pick: index -?9223372036854775\d+ is out of range for size 10"),
    ],
)
def test_session_input(inputs: tuple[Any, ...], message: str) -> None:
    ready = session()
    for _ in range(2):
        with pytest.raises(RuntimeError, match=message):
            ready.run(*inputs)
    assert_good(ready)


def test_read_only_inputs_and_constants_are_fine() -> None:
    table, x = TABLE.copy(), X.copy()
    table.flags.writeable = x.flags.writeable = False
    assert_good(session(constants={"table": table}))
    np.testing.assert_array_equal(session().run(INDEX, x)[0], EXPECTED)


# ------------------------------------------------------------------------------------------------- constants, session


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({}, r"constant table: not among the 0 constants given"),
        ({"tables": TABLE}, r"constant table: not among the 1 constants given"),
        ({"table": TABLE[:39].copy()}, r"constant table: 156 bytes, expected 160 for f32\[4, 10, 1, 1\]"),
        ({"table": TABLE.astype(np.float64)}, r"constant table: 320 bytes, expected 160"),
        ({"table": np.zeros(0, np.float32)}, r"constant table: 0 bytes, expected 160"),
        ({"table": np.zeros(80, np.float32)[::2]}, r"constant table is not contiguous"),
        ({"table": None}, r"constant table is a <class 'NoneType'>, expected a numpy array"),
        ({"table": b"bytes"}, r"constant table"),
    ],
)
def test_session_constant(constants: dict[str, Any], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        session(constants=constants)
    assert_good(session())


def test_session_arguments() -> None:
    with pytest.raises(RuntimeError, match="no device warp here; there is cpu"):
        Session(IR, {"table": TABLE}, device="warp")
    with pytest.raises(RuntimeError, match="100000 threads: ggml takes at most"):
        Session(IR, {"table": TABLE}, threads=100000)
    with pytest.raises(ValueError, match="max_memory=0, expected 1 or more"):
        Session(IR, {"table": TABLE}, max_memory=0)
    with pytest.raises(TypeError):
        Session("not bytes", {"table": TABLE})  # type: ignore[arg-type] # what is tested
    assert_good(session())


# -------------------------------------------------------------------------------------------------------- IR, session


def _first_node(**fields: Any) -> Damage:
    def change(graph: Any) -> None:
        for name, value in fields.items():
            setattr(graph.nodes[0], name, value)

    return change


def _value(index: int, *ne: int) -> Damage:
    def change(graph: Any) -> None:
        wire = graph.values[index].ne
        wire.n0, wire.n1, wire.n2, wire.n3 = ne

    return change


def _set(path: str, value: Any) -> Damage:
    """Set ``a[0].b`` of the unpacked graph."""

    def change(graph: Any) -> None:
        *parents, last = path.split(".")
        target = graph
        for name in parents:
            target = getattr(target, name) if not name.isdigit() else target[int(name)]
        setattr(target, last, value)

    return change


def _of_graphs(*targets: int, version: int = IR_VERSION, rename: str = "") -> bytes:
    """A program with the graph once for each of these targets; in the last one a port has another name."""
    program = fb.ProgramT.InitFromPackedBuf(IR[HEADER.size :], 0)
    program.version = version
    program.graphs = [fb.ProgramT.InitFromPackedBuf(IR[HEADER.size :], 0).graphs[0] for _ in targets]
    for graph, target in zip(program.graphs, targets, strict=True):
        graph.target = target
    if rename:
        getattr(program.graphs[-1], rename)[0].name = "renamed"
    return packed(program)


def _append_expr(op: int, a: int, b: int) -> Damage:
    def change(graph: Any) -> None:
        entry = fb.ExprT()
        entry.op, entry.a, entry.b = op, a, b
        graph.exprs = [entry]
        graph.values[3].ne.n0 = -1

    return change


@pytest.mark.parametrize(
    ("ir", "message"),
    [
        (b"", "IR of 0 bytes, expected a header of 16 and more: not an executorch-ggml program"),
        (IR[:15], "IR of 15 bytes, expected a header of 16"),
        (b"EGGS" + IR[4:], "IR does not start with EGGM: not an executorch-ggml program"),
        (IR[:-1], "IR is truncated: .* bytes, its header says"),
        (IR[: len(IR) // 2], "IR is truncated"),
        (HEADER.pack(b"EGGM", 0, 2**64 - 1) + IR[16:], "IR is truncated"),
        (IR[:60] + bytes([IR[60] ^ 1]) + IR[61:], "IR is damaged: its checksum does not match; export the model again"),
        (sealed(b""), "IR is not a valid FlatBuffer"),
        (sealed(b"\0" * 64), "IR is not a valid FlatBuffer"),
        (sealed(IR[16:-8]), "IR is not a valid FlatBuffer|RuntimeError|value|IR version"),
        (_of_graphs(), "IR has no graph; export the model again"),
        (_of_graphs(version=3), f"IR version 3: this runtime reads version {IR_VERSION}; export the model again"),
        (_of_graphs(version=1), f"IR version 1: this runtime reads version {IR_VERSION}; export the model again"),
        (_of_graphs(0, 0), "two graphs are for target #0, expected one"),
        (_of_graphs(0, 7), "graph 1 is for target #7, unknown to this runtime; update executorch-ggml"),
        (_of_graphs(0, 1, rename="inputs"), "the inputs of the graphs for targets #0 and #1 differ"),
        (_of_graphs(0, 1, rename="outputs"), "the outputs of the graphs for targets #0 and #1 differ"),
        (changed(_set("inputs.0.value", 77)), "input 0 refers to value 77, expected 0 or more and less than 6"),
        (changed(_set("inputs.0.value", -1)), "input 0 refers to value -1"),
        (changed(_set("constants.0.value", 0)), "constant 0: value 0 is another input's"),
        (changed(_set("outputs.0.value", 99)), "output 0 refers to value 99"),
        (changed(_set("constants.0.key", "gone")), "constant gone: not among"),
        (changed(_set("values.0.dtype", 99)), "input 0 has element type #99, unknown to this runtime"),
        (changed(_set("inputs.0.shape", [3] * 17)), "input 0 has 17 dims, expected at most 16"),
        (changed(_append_expr(9, 1, 1)), "size expression 0: operator #9 is unknown"),
        (changed(_append_expr(2, -1, 1)), "size expression 0 refers to expression 0"),
        (changed(_append_expr(1, 5, 1)), "size expression 0 refers to symbol 5, expected 0 or more and less than 0"),
    ],
)
def test_session_refuses_to_load(ir: bytes, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        session(ir)
    assert_good(session())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_first_node(opType=13), r"op #13 is unknown to this runtime; update executorch-ggml"),
        (_first_node(inputs=[5]), r"node pick \(to_index\): input a is value 5, expected one that"),
        (_first_node(inputs=[-1]), r"node pick \(to_index\): input a is value -1"),
        (_first_node(inputs=[2**31 - 1]), r"node pick \(to_index\): input a is value 2147483647"),
        (_first_node(inputs=[0, 0]), r"node pick \(to_index\): 2 inputs, expected 1"),
        (_first_node(inputs=[1]), r"node pick \(to_index\): input a is float32, expected int32 or int64"),
        (_first_node(output=0), r"node pick \(to_index\): its output is value 0, expected one"),
        (_first_node(output=-3), r"node pick \(to_index\): its output is value -3"),
        (
            _set("nodes.0.op.size", 0),
            r"node pick \(to_index\): size is 0; expected size to be .* from 1 on; export the model again",
        ),
        (
            _set("nodes.0.op.size", 11),
            r"node pick \(get_rows\): rows is int32\[3, 1, 1, 1\], a is .*; expected rows to come from",
        ),
        (_set("nodes.0.op.size", -5), r"node pick \(to_index\): attribute size: .*expression 4, expected less than 0"),
        (
            _value(3, 4, 1, 1, 1),
            r"pick \(to_index\): gives int32\[3, 1, 1, 1\], but int32\[4, 1, 1, 1\] was declared",
        ),
        (
            _set("values.3.dtype", int(DType.I64)),
            r"pick \(to_index\): gives int32\[.*\], but int64\[.*\] was declared",
        ),
        (
            _value(5, 4, 4, 1, 1),
            r"times \(mul\): gives float32\[4, 3, 1, 1\], but float32\[4, 4, 1, 1\] was declared",
        ),
        (_value(5, 2**31 - 1, 2**31 - 1, 2**31 - 1, 2**31 - 1), r"node times \(mul\): its output: .* bytes, more than"),
        (_value(5, 2**31 - 1, 2**31 - 1, 1, 1), r"node times \(mul\): its output: .* bytes, more than"),
        (_value(5, 2**31, 1, 1, 1), r"node times \(mul\): its output: a size of 2147483648, expected 0 to 2147483647"),
        (_value(5, -7, 1, 1, 1), r"node times \(mul\): its output: .*expression 6, expected less than 0"),
        (_value(0, 100, 1, 1, 1), r"input 0 \(index\): shape \[3\], but the graph has i64\[100, 1, 1, 1\]"),
        (_set("outputs.0.shape", [3, 5]), r"output 0 \(y\): shape \[3, 5\], but the graph has f32\[4, 3, 1, 1\]"),
        (_set("outputs.0.shape", [2**31 - 1] * 3), r"output 0 \(y\): shape .* but the graph has"),
        (_set("inputs.1.shape", [3, -9]), r"a size refers to expression 8, expected less than 0"),
    ],
)
def test_session_refuses_to_run(change: Damage, message: str) -> None:
    ready = session(changed(change))
    for _ in range(2):
        with pytest.raises(RuntimeError, match=message):
            ready.run(INDEX, X)
    assert_good(session())


def image_program() -> bytes:
    """A convolution of one pixel and its activation, the weight in blocks."""
    build = Builder()
    x = build.input("x", DType.F32, (2, 4, 3), (3, 4, 2, 1))
    weight = build.constant("weight", DType.F32, (1, 1, 3, 5))
    stored = build.constant_of(weight)
    assert stored is not None
    stored.storage = StorageLayout(Storage.KERNEL_BLOCKS)
    build.origin = "blend"
    how = {"window": Window2d(), "groups": 1, "epilogue": Epilogue(Activation.SILU)}
    build.output("y", build.emit("conv_2d_nhwc", x, weight, None, ne=(5, 4, 2, 1), **how), (2, 4, 5))
    return serialize(build.finish())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set("nodes.0.op.window", None), "attribute window is missing; export the model again"),
        (_set("nodes.0.op.epilogue", None), "attribute epilogue is missing; export the model again"),
        (_set("nodes.0.op.epilogue.activation", 77), "attribute activation: no choice 77"),
        (
            _set("nodes.0.op.window.w.kernel", 0),
            r"window is \(w=\(kernel=0, stride=1, pad=0, dilation=1, up=1\), h=.*; expected window to have 1 to",
        ),
        (_set("nodes.0.op.window.h.pad", 2**40), r"window is .*pad=1099511627776.* less than 2\^24"),
        (_set("nodes.0.op.window.w.up", -1), r"window is .*up=-1.* from 1 on"),
        (
            _set("nodes.0.op.groups", 0),
            r"groups is 0.*; expected groups to divide the channels of planes\(x\)",
        ),
        (
            _set("nodes.0.op.window.w.kernel", 2),
            r"weight is float32\[1, 1, 3, 5\].*; expected weight to have the dims of window",
        ),
    ],
)
def test_session_refuses_struct_attributes(change: Damage, message: str) -> None:
    ready = Session(changed(change, image_program()), {"weight": np.ones(51, np.float32)})
    with pytest.raises(RuntimeError, match=rf"node blend \(conv_2d_nhwc\): {message}"):
        ready.run(np.ones((2, 4, 3), np.float32))


def test_sizes_that_an_op_cannot_take() -> None:
    """A graph may be built with sizes that are not known: the run checks them, and other inputs may be the remedy."""
    build = Builder()
    n = sympy.Symbol("n", integer=True, positive=True)
    x = build.input("x", DType.F32, (2, n), (n, 2, 1, 1))
    build.symbol(n, 0, 1, min=1)
    build.origin = "head"
    weight = build.constant("weight", DType.F32, (4, 3, 1, 1))
    build.output("y", build.emit("mul_mat", weight, x), (2, 3))
    ready = Session(serialize(build.finish()), {"weight": np.ones(12, np.float32)})
    np.testing.assert_array_equal(ready.run(np.ones((2, 4), np.float32))[0], np.full((2, 3), 4, np.float32))
    message = (
        r"node head \(mul_mat\): a is float32\[4, 3, 1, 1\], b is float32\[5, 2, 1, 1\]; expected b to have rows as "
        r"long as a's, and batch dims that a's divide; give inputs of sizes that the model takes, or export it again"
    )
    with pytest.raises(RuntimeError, match=message):
        ready.run(np.ones((2, 5), np.float32))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set("constants.0.storage", 77), "constant weight: storage layout #77 is unknown to this runtime; update"),
        (_set("constants.0.storage", int(Storage.MATRIX_BLOCKS)), "constant weight: storage layout #1 .* does not fit"),
        (_set("constants.0.storage", int(Storage.DEPTHWISE)), "constant weight: storage layout #3 .* does not fit"),
        (_set("constants.0.storage", int(Storage.PLAIN)), "constant weight: 204 bytes, expected 60"),
        (_set("constants.0.groups", 0), "constant weight: storage layout #2 with 0 groups does not fit"),
        (_set("constants.0.groups", -5), "constant weight: storage layout #2 with -5 groups does not fit"),
        (_set("constants.0.groups", 5), "constant weight: 204 bytes, expected 972"),
        (_set("values.1.dtype", int(DType.I64)), "constant weight: storage layout #2 .* does not fit its type"),
        (_set("values.1.ne.n3", 2**31 - 1), "constant weight: .* bytes, (more than|expected)"),
        (_set("values.1.ne.n3", 2**40), "constant weight: a size of 1099511627776, expected"),
        (_set("outputs.0.value", 1), "constant weight: an output, which must be stored plain"),
    ],
)
def test_session_refuses_storage_layouts(change: Damage, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        Session(changed(change, image_program()), {"weight": np.ones(51, np.float32)})


def test_blocks_are_read_by_layers_alone() -> None:
    build = Builder()
    weight = build.constant("weight", DType.F32, (3, 5, 1, 1))
    stored = build.constant_of(weight)
    assert stored is not None
    stored.storage = StorageLayout(Storage.MATRIX_BLOCKS)
    build.origin = "twice"
    build.output("y", build.emit("add", weight, weight), (5, 3))
    ready = Session(serialize(build.finish()), {"weight": np.ones(51, np.float32)})
    with pytest.raises(RuntimeError, match=r"node twice \(add\): input a is a constant in storage layout #1"):
        ready.run()


@pytest.mark.parametrize("op", ["conv_2d", "max_pool_index"])
def test_what_a_target_should_have_replaced_is_an_error(op: str) -> None:
    """A convolution with an epilogue, and places of maxima, as a graph has them before a target."""
    build = Builder()
    x = build.input("x", DType.F32, (2, 3, 4), (4, 3, 2, 1))
    build.origin = "left"
    if op == "conv_2d":
        weight = build.input("w", DType.F32, (1, 2, 1, 1), (1, 1, 2, 1))
        how = {"window": Window2d(), "groups": 1, "epilogue": Epilogue(Activation.SILU)}
        y = build.emit(op, x, weight, None, ne=(4, 3, 1, 1), **how)
    else:
        y = build.emit(op, x, ne=(4, 3, 2, 1), depth=1, out_depth=1, window=Window3d())
    build.output("y", y, tuple(reversed(y.ne)))
    ready, image = Session(serialize(build.finish())), np.ones((2, 3, 4), np.float32)
    inputs = (image, np.ones((1, 2, 1, 1), np.float32)) if op == "conv_2d" else (image,)
    with pytest.raises(
        RuntimeError, match=rf"node left \({op}\): .*target should have replaced; export the model again"
    ):
        ready.run(*inputs)


def test_programs_of_the_version_before_are_refused_by_their_version() -> None:
    """A convolution as version 1 had it: its attributes are not in the places that this version reads."""
    ir = base64.b64decode(VERSION_1)
    with pytest.raises(RuntimeError, match=f"IR version 1: this runtime reads version {IR_VERSION}; export the model"):
        Session(ir, {"weight": np.ones(51, np.float32)})
    with pytest.raises(IRError, match=f"IR version 1: this build reads version {IR_VERSION}; export the model again"):
        deserialize(ir)


def test_names_of_any_bytes_do_not_hide_the_reason() -> None:
    ir = changed(_set("inputs.0.name", b"\xff\xfe"))
    ready = session(ir)
    assert ready.input_names[0] == "??"
    with pytest.raises(RuntimeError, match=r"input 0 \(\?\?\): dtype float32"):
        ready.run(X, X)


def test_five_dims_are_refused_where_the_graph_has_four() -> None:
    build = Builder()
    x = build.input("x", DType.F32, (2, 1, 1, 1, 3), (3, 1, 1, 2))
    build.output("y", build.emit("neg", x), (2, 1, 1, 1, 3))
    ready = Session(serialize(build.finish()))
    assert ready.run(np.ones((2, 1, 1, 1, 3), np.float32))[0].shape == (2, 1, 1, 1, 3)
    with pytest.raises(RuntimeError, match=r"input 0 \(x\): shape \[2, 3\] has 2 dims, expected 5"):
        ready.run(np.ones((2, 3), np.float32))


def _bounded(size: int) -> bytes:
    build = Builder()
    x = build.input("x", DType.F32, (1,), (1, 1, 1, 1))
    wide = build.broadcast(x, (size, 1, 1, 1))
    build.output("y", build.emit("sum_rows", build.emit("mul", wide, wide)), (1,))
    return serialize(build.finish())


def test_a_program_may_use_no_more_than_it_is_given() -> None:
    one = np.ones(1, np.float32)
    assert Session(_bounded(1000), max_memory=1 << 20, max_work=1 << 20).run(one)[0] == 1000.0
    with pytest.raises(RuntimeError, match=r"its output: float32\[.*\] needs 4000000 bytes, more than the 65536"):
        Session(_bounded(1000000), max_memory=1 << 16).run(one)
    with pytest.raises(RuntimeError, match="need 8068 bytes of working memory, more than the 6000"):
        Session(_bounded(1000), max_memory=6000).run(one)
    with pytest.raises(RuntimeError, match=r"need .* multiplications, more than the 1000 that a run may take"):
        Session(_bounded(1000), max_work=1000).run(one)


def test_sets_of_sizes_share_what_a_program_may_use() -> None:
    build = Builder()
    n = sympy.Symbol("n", integer=True, positive=True)
    x = build.input("x", DType.F32, (n,), (n, 1, 1, 1))
    build.symbol(n, 0, 0, min=1)
    build.output("y", build.emit("neg", build.emit("sqr", x)), (n,))
    ready = Session(serialize(build.finish()), max_memory=10000)

    def prepared_after(size: int) -> int:
        np.testing.assert_array_equal(ready.run(np.full(size, 3, np.float32))[0], np.full(size, -9, np.float32))
        return ready.prepared_count

    assert [prepared_after(size) for size in (500, 900, 1200)] == [1, 2, 3]  # alone they would need 10400 bytes
    assert [prepared_after(size) for size in range(1199, 1190, -1)] == [4, 5, 6, 7, 8, 8, 8, 8, 8]
    with pytest.raises(RuntimeError, match="more than the 10000 that a program may use"):
        ready.run(np.ones(2000, np.float32))


def test_states_may_use_no_more_than_the_machine_has() -> None:
    build = Builder()
    state = build.state("huge", DType.F32, (2**31 - 1, 2**20, 1, 1))
    x = build.input("x", DType.F32, (1,), (1, 1, 1, 1))
    build.output("y", build.emit("mul", x, build.view(state, (0, 0, 0, 0), (1, 1, 1, 1))), (1,))
    with pytest.raises(RuntimeError, match=r"state huge: float32\[.*\] needs \d+ bytes, more than the \d+ that"):
        Session(serialize(build.finish()))


def test_only_states_are_written_to() -> None:
    build = Builder()
    x = build.input("x", DType.F32, (4,), (4, 1, 1, 1))
    constant = build.constant("c", DType.F32, (4, 1, 1, 1))
    build.origin = "write"
    build.emit("write_state", x, constant)
    build.output("y", build.emit("neg", constant), (4,))
    ready = Session(serialize(build.finish()), {"c": np.zeros(4, np.float32)})
    with pytest.raises(
        RuntimeError, match=r"write \(write_state\): state is float32\[4, 1, 1, 1\]; expected .*named state"
    ):
        ready.run(np.ones(4, np.float32))


def test_a_deep_graph_does_not_exhaust_the_stack() -> None:
    build = Builder()
    y = build.input("x", DType.F32, (2,), (2, 1, 1, 1))
    for i in range(20000):
        y = build.emit("scale_bias", y, s=1.0, b=1.0 if i % 2 else -1.0)
    build.output("y", y, (2,))
    np.testing.assert_array_equal(Session(serialize(build.finish())).run(np.ones(2, np.float32))[0], np.ones(2))


# --------------------------------------------------------------------------------------------------------------- .pte


class Rows(nn.Module):
    """An embedding and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 8)
        self.linear = nn.Linear(8, 4)

    def forward(self, index: Tensor, x: Tensor) -> Tensor:
        y: Tensor = self.linear(self.table(index) + x)
        return y


ARGS = (torch.tensor([1, 2, 9]), torch.linspace(-1, 1, 24).reshape(3, 8))


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(0)
    return Rows().eval()


@pytest.fixture(scope="module")
def pte(model: nn.Module, tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = torch.export.Dim("rows", min=2, max=16)
    path = tmp_path_factory.mktemp("bad_input") / "rows.pte"
    executorch_ggml.export(model, ARGS, dynamic_shapes=({0: rows}, {0: rows})).save(str(path))
    return path


BAD_ARGS = [
    pytest.param((ARGS[0], ARGS[1].double()), "input 1: dtype torch.float64, expected torch.float32", id="float64"),
    pytest.param((ARGS[0].int(), ARGS[1]), "input 0: dtype torch.int32, expected torch.int64", id="int32"),
    pytest.param((ARGS[0], ARGS[1][None]), r"input 1: shape \[1, 3, 8\] has 3 dims, expected 2", id="rank"),
    pytest.param((ARGS[0], ARGS[1][None, None, None]), r"input 1: shape .* has 5 dims, expected 2", id="five-dims"),
    pytest.param((ARGS[0], torch.zeros(3, 9)), r"input 1.* size 9 in dim 1, expected (at most )?8", id="size"),
    pytest.param((ARGS[0], torch.zeros(4, 8)), r"input 1 \(x\): size 4 in dim 0, expected 3", id="sizes-disagree"),
    pytest.param(
        (torch.zeros(40, dtype=torch.long), torch.zeros(40, 8)), "size 40 in dim 0, expected at most 16", id="beyond"
    ),
    pytest.param((torch.tensor([1, 10, 3]), ARGS[1]), "index 10 is out of range for size 10", id="index"),
    pytest.param((ARGS[0],), "1 inputs given, expected 2", id="too-few"),
    pytest.param((*ARGS, ARGS[0]), "3 inputs given, expected 2", id="too-many"),
    pytest.param((ARGS[0], "x"), "input 1: a str, expected a torch tensor", id="text"),
    pytest.param((ARGS[0], None), "input 1: a NoneType, expected a torch tensor", id="none"),
    pytest.param((ARGS[0], 3), "input 1: a int, expected a torch tensor", id="number"),
]


def assert_same(outputs: Any, model: nn.Module) -> None:
    torch.testing.assert_close(outputs, model(*ARGS))


@pytest.mark.parametrize(("args", "message"), BAD_ARGS)
def test_module_input(pte: Path, model: nn.Module, args: tuple[Any, ...], message: str) -> None:
    module = executorch_ggml.load(pte)
    assert_same(module(*ARGS), model)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=rf"{pte}: forward: .*{message}"):
            module(*args)
    assert_same(module(*ARGS), model)


@pytest.mark.parametrize(("args", "message"), BAD_ARGS)
def test_stock_runtime_input(pte: Path, model: nn.Module, args: tuple[Any, ...], message: str) -> None:
    del message  # ExecuTorch's own exceptions carry a number; the delegate's message is in its log
    method = Runtime.get().load_program(pte).load_method("forward")
    assert method is not None
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"forward|execute|Unsupported python type"):
            method.execute(args)
    assert_same(method.execute(ARGS)[0], model)


def test_module_has_no_such_method(pte: Path) -> None:
    with pytest.raises(KeyError, match="has no method 'backward', but"):
        executorch_ggml.load(pte).run("backward", ARGS)


def _with_ir(pte: Path, change: Callable[[bytearray], None]) -> Path:
    """A copy of the program whose IR (as long as before) is changed."""
    data = bytearray(pte.read_bytes())
    start = data.index(b"EGGM")
    _, _, size = HEADER.unpack_from(data, start)
    ir = data[start : start + HEADER.size + size]
    change(ir)
    data[start : start + len(ir)] = ir
    path = pte.with_name("damaged.pte")
    path.write_bytes(data)
    return path


def _flip(ir: bytearray) -> None:
    ir[len(ir) // 2] ^= 4


def _newer(ir: bytearray) -> None:
    program = fb.Program.GetRootAs(bytes(ir[HEADER.size :]), 0)
    assert program.Version() == IR_VERSION
    offset = HEADER.size + program._tab.Pos + program._tab.Offset(4)
    ir[offset : offset + 4] = struct.pack("<I", 7)
    ir[: HEADER.size] = sealed(bytes(ir[HEADER.size :]))[: HEADER.size]


def _cut(ir: bytearray) -> None:
    ir[: HEADER.size] = HEADER.pack(b"EGGM", 0, 1 << 40)


def _rename_constant(ir: bytearray) -> None:
    at = ir.index(b"#", HEADER.size)
    ir[at : at + 1] = b"?"
    ir[: HEADER.size] = sealed(bytes(ir[HEADER.size :]))[: HEADER.size]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_flip, "IR is damaged: its checksum does not match; export the model again"),
        (_newer, f"IR version 7: this runtime reads version {IR_VERSION}; export the model again"),
        (_cut, "IR is truncated"),
        (_rename_constant, "constant .*: not in the program nor in its data file"),
    ],
)
def test_damaged_ir_in_a_pte(pte: Path, model: nn.Module, change: Callable[[bytearray], None], message: str) -> None:
    damaged = _with_ir(pte, change)
    with pytest.raises(RuntimeError, match=f"{damaged}: forward: {message}"):
        executorch_ggml.load(damaged)(*ARGS)
    program = Runtime.get().load_program(damaged)
    with pytest.raises(RuntimeError, match="Failed to load method forward"):
        program.load_method("forward")
    assert_same(executorch_ggml.load(pte)(*ARGS), model)


@pytest.mark.parametrize("content", [b"", b"ET12", b"\xfb\xff" * 3000, b"\0\0\0\0ET12" + b"\xff" * 200])
def test_a_file_that_is_no_program(tmp_path: Path, pte: Path, model: nn.Module, content: bytes) -> None:
    path = tmp_path / "other.pte"
    path.write_bytes(content)
    with pytest.raises(RuntimeError, match=str(path)):
        executorch_ggml.load(path)
    assert_same(executorch_ggml.load(pte)(*ARGS), model)


def test_a_truncated_pte(tmp_path: Path, pte: Path, model: nn.Module) -> None:
    path = tmp_path / "short.pte"
    path.write_bytes(pte.read_bytes()[: pte.stat().st_size // 2])
    with pytest.raises(RuntimeError, match=str(path)):
        executorch_ggml.load(path)(*ARGS)
    with pytest.raises(FileNotFoundError, match=r"gone\.pte: no such program"):
        executorch_ggml.load(tmp_path / "gone.pte")
    assert_same(executorch_ggml.load(pte)(*ARGS), model)


def test_the_module_keeps_what_it_was_given(pte: Path) -> None:
    module: Module = executorch_ggml.load(pte)
    x = ARGS[1].clone()
    module(ARGS[0], x)
    assert torch.equal(x, ARGS[1])


# ------------------------------------------------------------------------------------------------- thousands of times


@pytest.mark.parametrize("what", ["sessions", "pte"])
def test_thousands_of_damaged_programs(what: str, pte: Path) -> None:
    """In a process of its own with bounds on time and memory, so that a crash or a hang is a failed test."""
    command = [sys.executable, "-m", "tests.runtime.damage_programs", what, str(pte)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    ways = [line.split(":")[0] for line in done.stdout.splitlines()]
    assert ways == (["pte"] if what == "pte" else list(WAYS))
