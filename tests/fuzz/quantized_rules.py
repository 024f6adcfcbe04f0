"""How the arguments of PyTorch's quantizing ops are drawn: scales and zero points that fit, constants or not."""

from __future__ import annotations

from typing import Any

import torch
from tests.fuzz.draw import FLOATS, Grower, Unfit
from tests.fuzz.program import Input, Ref
from tests.fuzz.rules import Given, first_of, main, rule

_STEPS = ("quantize_per_tensor", "quantize_per_channel", "quantize_per_token", "quantize_affine")
_BACK = (*(f"de{op}" for op in _STEPS), "dequantize_per_channel_group")
_CHOICES = ("choose_qparams", "choose_qparams_symmetric", "choose_qparams_affine")


def _quantizing(*names: str) -> list[str]:
    return [f"{op}.{name}" for op in (*_STEPS, *_BACK, *_CHOICES) for name in names]


@rule(*(f"{op}.input" for op in (*_STEPS, *_CHOICES)))
def _real(g: Grower, given: Given) -> Ref:
    return g.tensor(FLOATS, (2, 1, 3, 4))


@rule(*(f"{op}.input" for op in _BACK))
def _quantized(g: Grower, given: Given) -> Ref:
    ranks = (2,) if "group" in given["overload"].name() else (2, 1, 3, 4)
    return g.shaped(g.shape(ranks), (torch.int8,), constant=g.flip())


@rule(*_quantizing("quant_min"))
def _lowest(g: Grower, given: Given) -> int:
    return g.one_of((-128, -127, -8))


@rule(*_quantizing("quant_max"))
def _highest(g: Grower, given: Given) -> int:
    return 7 if given["quant_min"] == -8 else 127


@rule(*_quantizing("dtype", "input_dtype", "target_dtype"), "quantize_affine.output_dtype")
def _integers(g: Grower, given: Given) -> torch.dtype:
    return torch.int8


@rule(*(f"{op}.output_dtype" for op in _BACK))
def _real_dtype(g: Grower, given: Given) -> torch.dtype:
    return torch.float32


@rule(*_quantizing("eps"))
def _smallest_scale(g: Grower, given: Given) -> float:
    return g.one_of((2.0**-23, 1e-3))


@rule(*_quantizing("axis"))
def _channel(g: Grower, given: Given) -> int:
    """Of the scales, which are drawn before it."""
    return int(given["channel"])


@rule("choose_qparams_affine.mapping_type")
def _mapping(g: Grower, given: Given) -> str:
    return g.one_of(("ASYMMETRIC", "SYMMETRIC", "SYMMETRIC_NO_CLIPPING_ERR"))


@rule(*_quantizing("block_size"))
def _blocks(g: Grower, given: Given) -> list[int]:
    shape = list(main(g, given).shape)
    if any(size in g.program.symbols.values() for size in shape):
        raise Unfit
    at = g.between(0, len(shape) - 1)
    return g.one_of(([*(1 for _ in shape[:-1]), shape[-1]], shape, [*shape[:at], 1, *shape[at + 1 :]]))


@rule("dequantize_per_channel_group.group_size")
def _group(g: Grower, given: Given) -> int:
    return int(given["group"])


@rule("quantize_per_tensor.scale", "dequantize_per_tensor.scale")
def _scale(g: Grower, given: Given) -> Any:
    single = given["overload"]._overloadname == "tensor"
    return _scales_of(g, given) if single else g.one_of((0.125, 0.1, 1.0, 0.03))


@rule("quantize_per_tensor.zero_point", "dequantize_per_tensor.zero_point")
def _zero(g: Grower, given: Given) -> Any:
    single = given["overload"]._overloadname == "tensor"
    return _zeros_of(g, given) if single else g.one_of((0, 3, -5))


@rule(*_quantizing("scales"), "quantize_affine.scale", "dequantize_affine.scale")
def _scales_of(g: Grower, given: Given) -> Ref:
    shape = given["numbers"] = _numbers(g, given)
    values = torch.tensor([g.one_of((0.125, 0.1, 1.0, 0.03)) for _ in range(shape.numel())]).reshape(shape)
    return g.add_input(Input(values, tuple(shape), constant=_is_constant(g, given)))


@rule(*_quantizing("zero_points"), "quantize_affine.zero_point", "dequantize_affine.zero_point")
def _zeros_of(g: Grower, given: Given) -> Ref:
    shape = given["numbers"]
    values = torch.tensor([g.one_of((0, 3, -5)) for _ in range(shape.numel())], dtype=torch.int32).reshape(shape)
    return g.add_input(Input(values, tuple(shape), constant=_is_constant(g, given)))


def _is_constant(g: Grower, given: Given) -> bool:
    ref = first_of(given)
    return ref is not None and ref.name.startswith("x") and g.program.inputs[int(ref.name[1:])].constant


def _numbers(g: Grower, given: Given) -> torch.Size:
    """How many scales there are: one, one a channel, one a row, one a run, or one a block."""
    shape, op = main(g, given).shape, given["overload"].name()
    if any(size in g.program.symbols.values() for size in shape):
        raise Unfit
    if "affine" in op:
        return torch.Size(size // max(block, 1) for size, block in zip(shape, given["block_size"], strict=True))
    if "group" in op:
        given["group"] = g.one_of([n for n in (int(shape[-1]), 1, 2) if n and shape[-1] % n == 0])
        return torch.Size([*shape[:-1], shape[-1] // given["group"]])
    if "token" in op:
        return torch.Size([*shape[:-1], 1])
    if "channel" in op:
        given["channel"] = g.between(0, len(shape) - 1)
        return shape[given["channel"] : given["channel"] + 1]
    return torch.Size([1])
