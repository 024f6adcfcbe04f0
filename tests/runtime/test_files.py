"""Damaged .pte and .ptd files are refused with a reason, and what happens to a file after loading changes no answer."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir._serialize._flatbuffer_program import _flatbuffer_to_program
from executorch.exir.schema import Program
from tests.runtime.file_damage import Files, flatbuffer_size, make_files, rebuilt

import executorch_ggml
from executorch_ggml.runtime import Module

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("files")
    # XNNPACK trusts its own payloads: a damaged one is not ours to refuse.
    files = {name: each for name, each in make_files(path).items() if name != "mixed"}
    (path / "files.pkl").write_bytes(pickle.dumps(files))
    return path


@pytest.fixture(scope="module")
def files(folder: Path) -> dict[str, Files]:
    loaded: dict[str, Files] = pickle.loads((folder / "files.pkl").read_bytes())
    return loaded


def written(files: Files, folder: Path) -> tuple[Path, Path | None]:
    """The files on disk."""
    pte, ptd = folder / "model.pte", folder / "data.ptd"
    pte.write_bytes(files.pte)
    if files.ptd is None:
        return pte, None
    ptd.write_bytes(files.ptd)
    return pte, ptd


def answers(module: Module, files: Files) -> list[Any]:
    """What the calls give."""
    return [module.run(method, args) for method, args in files.calls]


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("name", ["rows", "weights", "control", "outside", "external", "methods"])
def test_good_files_load(files: dict[str, Files], tmp_path: Path, name: str, mmap: bool) -> None:
    pte, ptd = written(files[name], tmp_path)
    answers(executorch_ggml.load(pte, data_path=ptd, mmap=mmap), files[name])


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        ("pte", 180),
        ("ptd", 120),
        pytest.param("pte", 3000, marks=pytest.mark.slow),
        pytest.param("ptd", 2000, marks=pytest.mark.slow),
    ],
)
def test_damaged_files_end_no_process(folder: Path, kind: str, count: int) -> None:
    command = [sys.executable, "-m", "tests.runtime.damage_files", str(folder), kind, str(count)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert "refused" in done.stdout


def _plan(change: Callable[[Any], None]) -> Callable[[Program], None]:
    return lambda program: change(program.execution_plan[0])


def _first(plan: Any, kind: str) -> Any:
    return next(value.val for value in plan.values if type(value.val).__name__ == kind)


def _operator(plan: Any, name: str) -> Any:
    return next(operator for operator in plan.operators if operator.name == name)


def _call(plan: Any, kind: str) -> Any:
    return next(i.instr_args for i in plan.chains[0].instructions if type(i.instr_args).__name__ == kind)


def _constant_index(plan: Any) -> int:
    return next(
        index
        for index, value in enumerate(plan.values)
        if type(value.val).__name__ == "Tensor" and value.val.data_buffer_idx > 0 and value.val.allocation_info is None
    )


def _write_to_constant(plan: Any) -> None:
    calls = [i.instr_args for i in plan.chains[0].instructions if type(i.instr_args).__name__ == "KernelCall"]
    call = next(call for call in calls if type(plan.values[call.args[-1]].val).__name__ == "Tensor")
    call.args[-1] = _constant_index(plan)


def _endless_loop(plan: Any) -> None:
    jumps = [i.instr_args for i in plan.chains[0].instructions if type(i.instr_args).__name__ == "JumpFalseCall"]
    jumps[1].destination_instruction = 0  # its condition is a constant: it always jumps


def _without_memory(plan: Any) -> None:
    ports = {*plan.inputs, *plan.outputs}
    for index, value in enumerate(plan.values):
        if type(value.val).__name__ == "Tensor" and value.val.allocation_info is not None and index not in ports:
            value.val.allocation_info = None


def _set(target: Callable[[Any], Any], **fields: Any) -> Callable[[Any], None]:
    def change(plan: Any) -> None:
        for name, value in fields.items():
            setattr(target(plan), name, value)

    return change


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("outside", _plan(_write_to_constant), r"is a constant, which the operator would write to"),
        ("outside", _plan(_without_memory), r"is a tensor without memory"),
        ("outside", _plan(lambda plan: _call(plan, "KernelCall").args.pop()), r"with \d+ arguments, expected \d+"),
        ("outside", _plan(_set(lambda p: _call(p, "KernelCall"), op_index=99)), r"it calls operator 99 of"),
        ("outside", _plan(_set(lambda p: p.operators[0], name="x" * 200)), r"operator 0 has a name of 20\d bytes"),
        (
            "outside",
            _plan(_set(lambda p: _first(p, "Tensor"), dim_order=[1, 1])),
            r"a dim order that is no permutation",
        ),
        ("outside", _plan(_set(lambda p: _first(p, "Tensor"), sizes=[2**31 - 1, 4])), r"value \d+: "),
        ("outside", _plan(_set(lambda p: _first(p, "IntList"), items=[0])), r"item 0 of a list of integers is value 0"),
        ("outside", _plan(_set(lambda p: _first(p, "TensorList"), items=[10**6])), r"item 0 of a list of tensors"),
        ("outside", _plan(_set(lambda p: p, non_const_buffer_sizes=[0, -5])), r"a buffer of -5 bytes"),
        ("outside", _plan(_set(lambda p: p, non_const_buffer_sizes=[0, 2**60])), r"more than the \d+ of this machine"),
        ("outside", _plan(_set(lambda p: p, inputs=[10**6, 0])), r"input 0 is value 1000000"),
        ("control", _plan(_endless_loop), r"it jumps back to instruction 0, and nothing from there on sets"),
        ("control", _plan(_set(lambda p: _call(p, "JumpFalseCall"), destination_instruction=-1)), r"instruction -1 of"),
        ("control", _plan(_set(lambda p: _call(p, "JumpFalseCall"), cond_value_index=0)), r"which is no boolean"),
        (
            "control",
            _plan(_set(lambda p: _operator(p, "executorch_prim::sub"), name="executorch_prim::eq")),
            r"select_copy.int_out: argument 2: value \d+ is set to a boolean, which the operator does not take",
        ),
        ("rows", _plan(_set(lambda p: _call(p, "DelegateCall"), delegate_index=7)), r"it calls delegate 7 of 1"),
        ("rows", _plan(_set(lambda p: p.delegates[0].processed, index=77)), r"its payload is segment 77 of"),
        ("rows", lambda p: setattr(p.named_data[0], "segment_index", 99), r"named data .* is in segment 99 of"),
        ("rows", lambda p: setattr(p.segments[0], "offset", 2**50), r"segment 0 has \d+ bytes from byte"),
    ],
)
def test_a_damaged_program_is_refused_with_its_reason(
    files: dict[str, Files], tmp_path: Path, name: str, change: Callable[[Program], None], message: str
) -> None:
    pte = files[name].pte
    program = _flatbuffer_to_program(pte[: flatbuffer_size(pte)])
    change(program)
    path = tmp_path / "damaged.pte"
    path.write_bytes(rebuilt(program, pte))
    with pytest.raises((RuntimeError, KeyError), match=message) as raised:
        executorch_ggml.load(path).run("forward", files[name].calls[0][1])
    assert str(path) in str(raised.value)


def test_files_that_are_changed_after_loading(files: dict[str, Files], tmp_path: Path) -> None:
    pte, _ = written(files["rows"], tmp_path)
    module = executorch_ggml.load(pte)
    expected = answers(module, files["rows"])
    data = pte.read_bytes()
    start = data.index(b"EGGM")
    with pte.open("r+b") as file:  # the same file, which is mapped
        file.write(bytes(flatbuffer_size(data)))
        file.seek(start)
        file.write(bytes(600))
    torch.testing.assert_close(answers(module, files["rows"]), expected)
    index, x = files["rows"].calls[0][1]
    torch.testing.assert_close(module(index[:2], x[:2]), expected[0][:2])  # the graph is made anew for these sizes


@pytest.mark.parametrize("name", ["rows", "weights", "external"])
def test_without_a_map_files_may_go(files: dict[str, Files], tmp_path: Path, name: str) -> None:
    pte, ptd = written(files[name], tmp_path)
    expected = answers(executorch_ggml.load(pte, data_path=ptd), files[name])
    module = executorch_ggml.load(pte, data_path=ptd, mmap=False)
    for path in (pte, ptd):
        if path is not None:
            path.write_bytes(b"")  # truncates the file that was loaded
    torch.testing.assert_close(answers(module, files[name]), expected)


def test_a_data_file_of_another_program(files: dict[str, Files], tmp_path: Path) -> None:
    pte, _ = written(files["external"], tmp_path)
    other = tmp_path / "other.ptd"
    ptd = files["weights"].ptd
    assert ptd is not None
    other.write_bytes(ptd)
    with pytest.raises(RuntimeError, match=rf"{pte}: forward: ExecuTorch's error 0x20 \(Error::NotFound\)"):
        executorch_ggml.load(pte, data_path=other).run("forward", files["external"].calls[0][1])
    with pytest.raises(RuntimeError, match=r"model\.pte: not an ExecuTorch data file: bytes 4 to 8 are \"ET12\""):
        executorch_ggml.load(pte, data_path=pte)
    with pytest.raises(FileNotFoundError, match=r"gone\.ptd: no such data file"):
        executorch_ggml.load(pte, data_path=tmp_path / "gone.ptd")
