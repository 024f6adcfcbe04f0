"""Buffers that a module mutates live in the delegate, from call to call."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from executorch.runtime import Runtime
from tests.helpers import assert_all_same, assert_same, delegates_of
from torch import Tensor, nn

import executorch_ggml
from executorch_ggml import GgmlPartitioner
from executorch_ggml._export import executorch_config
from executorch_ggml.ir.serialize import deserialize


class Counter(nn.Module):
    """Adds its input to a running total and gives the total from before and after."""

    total: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        before = self.total.clone()
        self.total.add_(x)
        return before, self.total * 2


class Swap(nn.Module):
    """Exchanges two buffers: neither write may be seen by the other."""

    a: Tensor
    b: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("a", torch.tensor([1.0, 2.0]))
        self.register_buffer("b", torch.tensor([10.0, 20.0]))

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.a.clone(), self.b.clone()
        self.a.copy_(b)
        self.b.copy_(a + x)
        return self.a - self.b


class Window(nn.Module):
    """Shifts a window of the last inputs along: the state is read by a view and written whole."""

    window: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.zeros(4, 2))

    def forward(self, x: Tensor) -> Tensor:
        self.window.copy_(torch.cat([self.window[1:], x]))
        return self.window.mean(0)


def _check(module: nn.Module, inputs: Tensor, tmp_path: Path, kept: tuple[str, ...] = ()) -> None:
    """Several calls must give what eager gives, and all buffers but `kept` be ggml's."""
    explanation = executorch_ggml.explain(torch.export.export(module, (inputs,)))
    assert sorted(explanation.buffers) == sorted(kept), str(explanation)
    executorch_ggml.export(module, (inputs,)).save(str(tmp_path / "model.pte"))
    ours = executorch_ggml.load(tmp_path / "model.pte")
    for step in range(4):
        x = inputs * (step + 1)
        made, expected = ours(x), module(x)
        pairs = [(made, expected)] if isinstance(expected, Tensor) else list(zip(made, expected, strict=True))
        for actual, wanted in pairs:
            assert_same(actual, wanted, what=f"step {step}")


def test_counter(tmp_path: Path) -> None:
    _check(Counter(), torch.tensor([0.5, -1.0, 2.0]), tmp_path)


def test_swap(tmp_path: Path) -> None:
    _check(Swap(), torch.tensor([0.25, -0.5]), tmp_path)


def test_window(tmp_path: Path) -> None:
    _check(Window(), torch.tensor([[1.0, -2.0]]), tmp_path)


class Returned(nn.Module):
    """What is written is returned as well, and so is what was there before."""

    total: Tensor
    steps: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.tensor([1.0, 2.0, 3.0]))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        before = self.total.clone()
        self.steps.add_(1)
        self.total.mul_(x)
        return self.total, before, self.steps


class Remembered(nn.Module):
    """The input is written as it is, and one buffer to another."""

    last: Tensor
    older: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.tensor([1.0, 2.0]))
        self.register_buffer("older", torch.tensor([3.0, 4.0]))

    def forward(self, x: Tensor) -> Tensor:
        change = x - self.last + self.older
        self.older.copy_(self.last)
        self.last.copy_(x)
        return change


def _refused(x: Tensor) -> Tensor:
    """Runs in ExecuTorch: ggml has no float64."""
    return (x.double() * 2).float()


class AcrossDelegates(nn.Module):
    """Written before an op of ExecuTorch, which reads what was written, and used after it."""

    total: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, x: Tensor) -> Tensor:
        self.total.add_(x)
        return self.total * _refused(self.total) + x


class ReadOutside(AcrossDelegates):
    """An op of ExecuTorch reads the buffer, and no delegate depends on it."""

    def forward(self, x: Tensor) -> Tensor:
        outside = self.total.double() * 2
        self.total.add_(x)
        return outside + self.total.double()


class AroundAnOp(AcrossDelegates):
    """What is written depends on an op of ExecuTorch that depends on the buffer."""

    def forward(self, x: Tensor) -> Tensor:
        self.total.copy_(_refused(self.total * 2) + x)
        return self.total + 1


class WrittenOutside(AcrossDelegates):
    """An op of ExecuTorch makes what is written."""

    def forward(self, x: Tensor) -> Tensor:
        before = self.total * 2
        self.total.copy_(_refused(x))
        return before


THREE = torch.tensor([0.5, -1.0, 2.0])


@pytest.mark.parametrize("model", [Returned(), AcrossDelegates(), ReadOutside(), WrittenOutside()])
def test_buffers_that_are_also_used_outside(model: nn.Module, tmp_path: Path) -> None:
    _check(model, THREE, tmp_path)


def test_remembered(tmp_path: Path) -> None:
    _check(Remembered(), torch.tensor([0.25, -0.5]), tmp_path)


def test_a_buffer_that_executorch_keeps(tmp_path: Path) -> None:
    _check(AroundAnOp(), THREE, tmp_path, kept=("total",))


def test_another_load_starts_over(tmp_path: Path) -> None:
    x = torch.ones(3)
    executorch_ggml.export(Counter(), (x,)).save(str(tmp_path / "model.pte"))
    first = executorch_ggml.load(tmp_path / "model.pte")
    first(x)
    second = executorch_ggml.load(tmp_path / "model.pte")
    assert_same(second(x)[0], torch.tensor([1.0, 2.0, 3.0]))


class Cache(nn.Module):
    """Two methods over one cache; `decode` only reads `scale`, which `prefill` writes."""

    rows: Tensor
    scale: Tensor
    steps: Tensor

    def __init__(self, rows: int = 4) -> None:
        super().__init__()
        self.register_buffer("rows", torch.arange(3.0 * rows).reshape(rows, 3))
        self.register_buffer("scale", torch.ones(3), persistent=False)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def prefill(self, x: Tensor) -> Tensor:
        self.rows.copy_(self.rows + x)
        self.scale.mul_(2)
        return self.rows * self.scale

    def decode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.rows.copy_(torch.cat([self.rows[1:], x[None]]))
        self.steps.add_(1)
        return self.rows.sum(0) * self.scale, self.steps + 0


class Method(nn.Module):
    """One method of a module as a module of its own."""

    def __init__(self, model: nn.Module, name: str) -> None:
        super().__init__()
        self.model, self.name = model, name

    def forward(self, x: Tensor) -> Any:
        return getattr(self.model, self.name)(x)


METHODS = ("prefill", "decode")


def _export_methods(models: dict[str, nn.Module], path: Path, **options: Any) -> None:
    x = (torch.ones(3),)
    programs = {name: torch.export.export(Method(model, name), x) for name, model in models.items()}
    edge = to_edge_transform_and_lower(programs, partitioner=[GgmlPartitioner(**options)])
    program = edge.to_executorch(executorch_config())
    program.save(str(path))
    program.write_tensor_data_to_file(str(path.parent))


def _check_methods(modules: list[executorch_ggml.Module], models: list[nn.Module]) -> None:
    """Run methods of several loaded programs in turn: each must do as its own model does."""
    for step in range(8):
        x = torch.tensor([0.5, -1.0, 2.0]) * (step - 3)
        name = METHODS[step // 3 % 2]
        for module, model in zip(modules, models, strict=True):
            assert_all_same(module.run(name, (x,)), getattr(model, name)(x), what=f"step {step}, {name}")
            x = x + 1


@pytest.mark.parametrize("weights_file", [None, "weights"])
def test_methods_share_states(tmp_path: Path, weights_file: str | None) -> None:
    model = Cache()
    path = tmp_path / "model.pte"
    _export_methods(dict.fromkeys(METHODS, model), path, weights_file=weights_file)
    data = None if weights_file is None else tmp_path / "weights.ptd"
    modules = [executorch_ggml.load(path, data_path=data) for _ in range(2)]
    for _ in range(2):
        _check_methods(modules, [copy.deepcopy(model) for _ in modules])
        for module in modules:
            module.reset_state()


def test_reset_is_of_one_module(tmp_path: Path) -> None:
    model = Cache()
    _export_methods(dict.fromkeys(METHODS, model), tmp_path / "model.pte")
    first, second = (executorch_ggml.load(tmp_path / "model.pte") for _ in range(2))
    reference = copy.deepcopy(model)
    x = torch.ones(3)
    for module in (first, second, reference):
        module.run("prefill", (x,)) if isinstance(module, executorch_ggml.Module) else module.prefill(x)
    first.reset_state()
    assert_all_same(second.run("decode", (x,)), reference.decode(x))
    assert_all_same(first.run("decode", (x,)), model.decode(x))


def test_two_modules_with_buffers_of_one_name(tmp_path: Path) -> None:
    models: dict[str, nn.Module] = {name: Cache() for name in METHODS}
    with pytest.warns(UserWarning, match="buffer model.rows of method decode is another tensor"):
        _export_methods(models, tmp_path / "model.pte")
    module = executorch_ggml.load(tmp_path / "model.pte")
    for step in range(4):
        x = torch.ones(3) * step
        for name, model in models.items():
            assert_all_same(module.run(name, (x,)), getattr(model, name)(x))


def test_copies_are_shared_by_name(tmp_path: Path) -> None:
    model = Cache()
    _export_methods({name: copy.deepcopy(model) for name in METHODS}, tmp_path / "model.pte", states_by_name=True)
    _check_methods([executorch_ggml.load(tmp_path / "model.pte")], [model])


def test_a_shared_state_has_one_shape(tmp_path: Path) -> None:
    models: dict[str, nn.Module] = {"prefill": Cache(4), "decode": Cache(5)}
    _export_methods(models, tmp_path / "model.pte", states_by_name=True)
    module = executorch_ggml.load(tmp_path / "model.pte")
    module.run("prefill", (torch.ones(3),))
    with pytest.raises(RuntimeError, match=r"state model.rows: .*\[3, 5, 1, 1\] here, .*\[3, 4, 1, 1\] where it was"):
        module.run("decode", (torch.ones(3),))


def test_programs_loaded_from_one_buffer(tmp_path: Path) -> None:
    model = Cache()
    _export_methods(dict.fromkeys(METHODS, model), tmp_path / "model.pte")
    contents = (tmp_path / "model.pte").read_bytes()
    for _ in range(2):
        program = Runtime.get().load_program(contents)
        methods = {name: program.load_method(name) for name in METHODS}
        reference = copy.deepcopy(model)
        for name in (*METHODS, *METHODS):
            x = torch.ones(3)
            method = methods[name]
            assert method is not None
            assert_all_same(method.execute([x]), getattr(reference, name)(x))


def test_zeros_are_not_written(tmp_path: Path) -> None:
    class Large(nn.Module):
        rows: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("rows", torch.zeros(1 << 18))

        def forward(self, x: Tensor) -> Tensor:
            self.rows.add_(x)
            return self.rows * 2

    _check(Large(), torch.ones(1), tmp_path)
    assert (tmp_path / "model.pte").stat().st_size < 1 << 16


class KeyCache(nn.Module):
    """A KV cache, written at positions in one of the ways that models do."""

    cache: Tensor

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.register_buffer("cache", torch.arange(2 * 16 * 4.0).reshape(1, 2, 16, 4))

    def forward(self, keys: Tensor, at: Tensor) -> Tensor:
        before = self.cache.sum() if self.how == "read before" else 0.0
        if self.how == "index_copy":
            self.cache.index_copy_(2, at, keys)
        elif self.how == "twice":
            self.cache[:, :, at] = keys
            self.cache[:, :, at - 1] = -keys
        elif self.how == "slice":
            self.cache[:, :, 3:6] = keys
        elif self.how == "rows":
            self.cache[0, :, at] = keys[0]
        else:
            self.cache[:, :, at] = keys
        return (self.cache * self.cache).sum(-1) + before


@pytest.mark.parametrize("how", ["index_put", "index_copy", "twice", "slice", "rows", "read before"])
def test_cache(how: str, tmp_path: Path) -> None:
    keys, at = torch.randn(1, 2, 3, 4), torch.tensor([1, 5, 15])
    module = KeyCache(how)
    program = torch.export.export(module, (keys, at))
    edge = to_edge_transform_and_lower(program, partitioner=[GgmlPartitioner()])
    (delegate,) = delegates_of(edge)
    ops = [node.op for node in deserialize(delegate.processed_bytes).nodes]
    assert ("update_state" in ops) == ("write_state" not in ops) == (how not in ("read before", "rows"))
    edge.to_executorch(executorch_config()).save(str(tmp_path / "model.pte"))
    ours = executorch_ggml.load(tmp_path / "model.pte")
    for step in range(4):
        assert_same(ours(keys + step, at - step % 2), module(keys + step, at - step % 2), what=f"step {step}")
