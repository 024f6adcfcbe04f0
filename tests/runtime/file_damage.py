"""Good .pte and .ptd files, and damaged forms of them: by bytes, and by what the fields mean."""

from __future__ import annotations

import copy
import dataclasses
import enum
import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir._serialize._flatbuffer_program import _flatbuffer_to_program, _program_to_flatbuffer
from executorch.exir._serialize._program import _ExtendedHeader, _insert_flatbuffer_header
from executorch.exir.schema import Program
from torch import Tensor, nn

from executorch_ggml import GgmlPartitioner
from executorch_ggml._export import executorch_config

Call = tuple[str, tuple[Any, ...]]


class Files(NamedTuple):
    """A program, the data file beside it, and calls of its methods."""

    pte: bytes
    ptd: bytes | None
    calls: list[Call]


# ------------------------------------------------------------------------------------------------------------ programs


class Rows(nn.Module):
    """An embedding and a linear layer, on any number of rows."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.linear = nn.Embedding(10, 8), nn.Linear(8, 4)

    def forward(self, index: Tensor, x: Tensor) -> Tensor:
        y: Tensor = self.linear(self.table(index) + x)
        return y


class Control(nn.Module):
    """A branch and a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = torch.cond(x.sum() > 0, lambda v: self.up(v).relu(), lambda v: self.down(v - 3), (x,))
        carry, steps = torch._higher_order_ops.scan(lambda c, row: (c + row, c * row), y[0], y)
        return carry, steps


class Outside(nn.Module):
    """Kernels of ExecuTorch's: lists of tensors, lists of sizes, optional arguments, a buffer that is kept."""

    total: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.ones(4))
        self.weight = nn.Parameter(torch.rand(4, 4))

    def forward(self, x: Tensor, index: Tensor) -> tuple[Tensor, ...]:
        a, b = x.split(2, dim=1)
        y = torch.cat([b, a], dim=1) @ self.weight
        self.total.add_(y.sum(0))
        values, order = torch.topk(y, 2)
        return y[index] + self.total, values, order, y.view(-1, 2).clamp(min=0.25), x.mean((0, 1), keepdim=True)


class Mixed(nn.Module):
    """Linear layers, which XNNPACK takes, and a running sum, which it does not."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.second(self.first(x).relu().cumsum(1).erf())
        return y


class Counter(nn.Module):
    """Adds to a state, and reads it."""

    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        self.count.add_(x)
        return self.count * 2


class Read(nn.Module):
    """Reads the state of a counter."""

    def __init__(self, counter: Counter) -> None:
        super().__init__()
        self.counter = counter

    def forward(self, x: Tensor) -> Tensor:
        return self.counter.count - x


def _lowered(
    programs: Any, partitioner: Any, path: Path, config: ExecutorchBackendConfig | None = None, ptd: str | None = None
) -> tuple[bytes, bytes | None]:
    program = to_edge_transform_and_lower(programs, partitioner=partitioner).to_executorch(
        config or executorch_config()
    )
    program.save(str(path / "model.pte"))
    if ptd is not None:
        program.write_tensor_data_to_file(str(path))
    return (path / "model.pte").read_bytes(), None if ptd is None else (path / f"{ptd}.ptd").read_bytes()


def make_files(folder: Path) -> dict[str, Files]:
    """The programs that are damaged, by name."""
    torch.manual_seed(0)

    def exported(model: nn.Module, args: tuple[Any, ...], dynamic: Any = None) -> Any:
        return torch.export.export(model.eval().requires_grad_(False), args, dynamic_shapes=dynamic, strict=False)

    files = {}
    rows = torch.export.Dim("rows", min=2, max=16)
    args: tuple[Any, ...] = (torch.tensor([1, 2, 9]), torch.linspace(-1, 1, 24).reshape(3, 8))
    dynamic = exported(Rows(), args, ({0: rows}, {0: rows}))
    files["rows"] = Files(*_lowered(dynamic, [GgmlPartitioner()], folder), [("forward", args)])
    weights = _lowered(dynamic, [GgmlPartitioner(weights_file="weights")], folder, ptd="weights")
    files["weights"] = Files(*weights, [("forward", args)])

    x = torch.rand(3, 4)
    calls = [("forward", (x,)), ("forward", (-x,))]
    files["control"] = Files(*_lowered(exported(Control(), (x,)), [GgmlPartitioner()], folder), calls)

    args = (torch.rand(4, 4), torch.tensor([3, 0, 1, 1]))
    any_rows = torch.export.Dim("any_rows", min=2, max=8)
    outside = exported(Outside(), args, ({0: any_rows}, None))
    files["outside"] = Files(*_lowered(outside, [], folder), [("forward", args)] * 2)
    external = ExecutorchBackendConfig(external_constants=True)
    files["external"] = Files(
        *_lowered(outside, [], folder, external, "_default_external_constant"), [("forward", args)]
    )

    args = (torch.rand(2, 8),)
    mixed = exported(Mixed(), args)
    partitioners = [XnnpackPartitioner(), GgmlPartitioner()]
    files["mixed"] = Files(*_lowered(mixed, partitioners, folder), [("forward", args)])

    counter = Counter()
    args = (torch.rand(3),)
    methods = {"forward": exported(counter, args), "read": exported(Read(counter), args)}
    calls = [("forward", args), ("read", args)]
    files["methods"] = Files(*_lowered(methods, {name: [GgmlPartitioner()] for name in methods}, folder), calls)
    return files


# -------------------------------------------------------------------------------------------------------------- damage

_EXTREMES = (
    0,
    1,
    2,
    3,
    8,
    63,
    64,
    255,
    1 << 16,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 40,
    1 << 62,
    (1 << 64) - 1,
)


def flatbuffer_size(file: bytes) -> int:
    """How many of a file's bytes are its FlatBuffer."""
    if file[8:12] == b"FH01":
        offset, size = struct.unpack_from("<QQ", file, 16)
        return int(offset + size)
    return int(struct.unpack_from("<Q", file, 16)[0]) if file[8:12] == b"eh00" else len(file)


def _put(data: bytearray, at: int, number: int, size: int) -> None:
    data[at : at + size] = (number % (1 << 8 * size)).to_bytes(size, "little")


def _flip(data: bytearray, size: int, rng: random.Random) -> None:
    for _ in range(rng.randint(1, 3)):
        data[rng.randrange(size)] ^= 1 << rng.randrange(8)


def _replace_word(data: bytearray, size: int, rng: random.Random) -> None:
    width = rng.choice((2, 4, 4, 8))
    at = rng.randrange(size // width) * width
    before = int.from_bytes(data[at : at + width], "little")
    number = rng.choice((rng.choice(_EXTREMES), before + rng.randint(-4, 4), rng.randrange(size), 0))
    _put(data, at, number, width)


def _copy_word(data: bytearray, size: int, rng: random.Random) -> None:
    width = rng.choice((2, 4, 8))
    source, target = (rng.randrange(size // width) * width for _ in range(2))
    data[target : target + width] = data[source : source + width]


def _truncate(data: bytearray, size: int, rng: random.Random) -> None:
    del data[rng.randrange(rng.choice((size, len(data)))) :]


def _damage_header(data: bytearray, size: int, rng: random.Random) -> None:
    number = rng.choice((rng.choice(_EXTREMES), rng.randrange(2 * len(data)), rng.randrange(size)))
    _put(data, rng.choice((0, 4, 8, 12, 16, 24, 32, 40)), number, rng.choice((4, 8)))


_BYTES: tuple[Callable[[bytearray, int, random.Random], None], ...] = (
    _flip,
    _flip,
    _replace_word,
    _replace_word,
    _replace_word,
    _copy_word,
    _truncate,
    _damage_header,
)


def damage_bytes(file: bytes, rng: random.Random) -> bytes:
    """The file with bytes of its head and its tables changed, or without its end."""
    data = bytearray(file)
    rng.choice(_BYTES)(data, flatbuffer_size(file), rng)
    return bytes(data)


def _fields(value: Any) -> Iterator[tuple[Any, Any]]:
    """All places in a tree of dataclasses and lists: what holds each, and its name or index there."""
    if dataclasses.is_dataclass(value) and not isinstance(value, enum.Enum):
        for field in dataclasses.fields(value):
            yield value, field.name
            yield from _fields(getattr(value, field.name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield value, index
            yield from _fields(item)


def _get(holder: Any, name: Any) -> Any:
    return holder[name] if isinstance(holder, list) else getattr(holder, name)


def _set(holder: Any, name: Any, value: Any) -> None:
    if isinstance(holder, list):
        holder[name] = value
    else:
        setattr(holder, name, value)


def _other(value: Any, rng: random.Random, alike: list[Any]) -> Any:
    """Something of the same type in place of a field's value."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int) and not isinstance(value, enum.Enum):
        return rng.choice((value + rng.choice((-2, -1, 1, 2)), rng.choice((0, 1, -1, 5, 100, 2**31 - 1, -(2**31)))))
    if isinstance(value, (str, bytes)):
        return rng.choice((value[:0], value[:-1], value * 30))
    if isinstance(value, list) and value:
        cut = rng.randrange(len(value))
        return rng.choice(([], value[:cut] + value[cut + 1 :], [*value, value[cut]], list(reversed(value))))
    return rng.choice(alike)


def damage_fields(program: Program, file: bytes, rng: random.Random) -> bytes:
    """The file with one to three fields of its program set to what they must not be, in a valid FlatBuffer."""
    changed = copy.deepcopy(program)
    for _ in range(rng.randint(1, 3)):
        fields = list(_fields(changed))
        holder, name = rng.choice(fields)
        value = _get(holder, name)
        alike = [_get(h, n) for h, n in _fields(program) if type(_get(h, n)) is type(value)] or [value]
        _set(holder, name, copy.deepcopy(rng.choice((_other(value, rng, alike), rng.choice(alike)))))
    return rebuilt(changed, file)


def rebuilt(program: Program, file: bytes) -> bytes:
    """A file with another program and the same segments."""
    header = _ExtendedHeader.from_bytes(file[8:])
    if not header.is_valid():
        return _program_to_flatbuffer(program).data
    flatbuffer = _program_to_flatbuffer(program).data
    room = 48  # of the header, in whole units of the alignment
    size = len(flatbuffer) + room
    base = -(-size // 128) * 128
    head = _ExtendedHeader(size, base, header.segment_data_size).to_bytes().ljust(room, b"\0")
    return _insert_flatbuffer_header(flatbuffer, "ET12", head).ljust(base, b"\0") + file[header.segment_base_offset :]


class Damager:
    """Damaged forms of one program's files: a number gives one form, always the same."""

    def __init__(self, name: str, files: Files, kind: str) -> None:
        self.name, self.files, self.kind = name, files, kind
        size = flatbuffer_size(files.pte)
        self._program = _flatbuffer_to_program(files.pte[:size])

    def damaged(self, number: int) -> Files:
        """The files with one of them damaged; ValueError where a damaged program cannot be written."""
        rng = random.Random(f"{self.name} {self.kind} {number}")
        if self.kind == "ptd":
            assert self.files.ptd is not None
            return self.files._replace(ptd=damage_bytes(self.files.ptd, rng))
        if rng.random() < 0.5:
            return self.files._replace(pte=damage_bytes(self.files.pte, rng))
        try:
            return self.files._replace(pte=damage_fields(self._program, self.files.pte, rng))
        except (TypeError, AttributeError, struct.error, AssertionError) as error:
            raise ValueError(f"no FlatBuffer for it: {error}") from error
