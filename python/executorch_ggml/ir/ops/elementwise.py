"""Elementwise ops. On the CPU the project's vectorized kernels run them (NaN-exact); elsewhere ggml's do."""

from __future__ import annotations

from functools import partial

from .._lazy import F, torch
from ..op import op

elementwise = partial(op, along=())

_UNARY = {"a": "f32 rows"}
_BINARY = {"a": "number", "b": "number"}
_BROADCAST = ("same_type(a, b)", "broadcasts_to(b.ne, a.ne)")
_FLOATS = {"a": "f32", "b": "f32"}


@elementwise(20, inputs=_BINARY, result="a", checks=_BROADCAST, kernel="add", stock="is_f32(a)")
def add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``a + b``, ``b`` broadcast over ``a`` (``ggml_add``)."""
    return a + b


@elementwise(21, inputs=_BINARY, result="a", checks=_BROADCAST, kernel="sub", stock="is_f32(a)")
def sub(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``a - b``, ``b`` broadcast over ``a`` (``ggml_sub``)."""
    return a - b


@elementwise(22, inputs=_BINARY, result="a", checks=_BROADCAST, kernel="mul", stock="is_f32(a)")
def mul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``a * b``, ``b`` broadcast over ``a`` (``ggml_mul``)."""
    return a * b


@elementwise(23, inputs=_FLOATS, result="a", checks=_BROADCAST, kernel="div")
def div(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``a / b``, ``b`` broadcast over ``a`` (``ggml_div``)."""
    return a / b


@elementwise(30, inputs=_UNARY, result="a", kernel="sqr")
def sqr(a: torch.Tensor) -> torch.Tensor:
    """``a * a`` (``ggml_sqr``)."""
    return a * a


@elementwise(31, inputs=_UNARY, result="a", kernel="sqrt")
def sqrt(a: torch.Tensor) -> torch.Tensor:
    """Square root (``ggml_sqrt``)."""
    return torch.sqrt(a)


@elementwise(32, inputs=_UNARY, result="a", kernel="log")
def log(a: torch.Tensor) -> torch.Tensor:
    """Natural logarithm (``ggml_log``)."""
    return torch.log(a)


@elementwise(33, inputs=_UNARY, result="a", kernel="sin")
def sin(a: torch.Tensor) -> torch.Tensor:
    """Sine (``ggml_sin``)."""
    return torch.sin(a)


@elementwise(34, inputs=_UNARY, result="a", kernel="cos")
def cos(a: torch.Tensor) -> torch.Tensor:
    """Cosine (``ggml_cos``)."""
    return torch.cos(a)


@elementwise(35, inputs=_UNARY, result="a", kernel="abs")
def abs(a: torch.Tensor) -> torch.Tensor:
    """Absolute value (``ggml_abs``)."""
    return torch.abs(a)


@elementwise(36, inputs=_UNARY, result="a", kernel="sgn")
def sgn(a: torch.Tensor) -> torch.Tensor:
    """Sign: -1, 0 or 1 (``ggml_sgn``)."""
    return torch.sign(a)


@elementwise(37, inputs=_UNARY, result="a", kernel="neg")
def neg(a: torch.Tensor) -> torch.Tensor:
    """``-a`` (``ggml_neg``)."""
    return -a


@elementwise(38, inputs=_UNARY, result="a", kernel="tanh")
def tanh(a: torch.Tensor) -> torch.Tensor:
    """Hyperbolic tangent (``ggml_tanh``)."""
    return torch.tanh(a)


@elementwise(39, inputs=_UNARY, result="a", kernel="elu")
def elu(a: torch.Tensor) -> torch.Tensor:
    """ELU with alpha 1 (``ggml_elu``)."""
    return F.elu(a)


@elementwise(40, inputs=_UNARY, result="a", kernel="relu")
def relu(a: torch.Tensor) -> torch.Tensor:
    """``max(a, 0)``, NaN kept (``ggml_relu``)."""
    return torch.relu(a)


@elementwise(41, inputs=_UNARY, result="a", kernel="sigmoid")
def sigmoid(a: torch.Tensor) -> torch.Tensor:
    """Logistic function (``ggml_sigmoid``)."""
    return torch.sigmoid(a)


@elementwise(42, inputs=_UNARY, result="a", kernel="gelu")
def gelu(a: torch.Tensor) -> torch.Tensor:
    """GELU, tanh form (``ggml_gelu``)."""
    return F.gelu(a, approximate="tanh")


@elementwise(43, inputs=_UNARY, result="a", kernel="gelu_erf")
def gelu_erf(a: torch.Tensor) -> torch.Tensor:
    """GELU, exact form (``ggml_gelu_erf``)."""
    return F.gelu(a)


@elementwise(44, inputs=_UNARY, result="a", kernel="silu")
def silu(a: torch.Tensor) -> torch.Tensor:
    """``a * sigmoid(a)`` (``ggml_silu``)."""
    return F.silu(a)


@elementwise(45, inputs=_UNARY, result="a", kernel="hardswish")
def hardswish(a: torch.Tensor) -> torch.Tensor:
    """``a * relu6(a + 3) / 6`` (``ggml_hardswish``)."""
    return F.hardswish(a)


@elementwise(46, inputs=_UNARY, result="a", kernel="hardsigmoid")
def hardsigmoid(a: torch.Tensor) -> torch.Tensor:
    """``relu6(a + 3) / 6`` (``ggml_hardsigmoid``)."""
    return F.hardsigmoid(a)


@elementwise(47, inputs=_UNARY, result="a", kernel="exp")
def exp(a: torch.Tensor) -> torch.Tensor:
    """Exponential (``ggml_exp``)."""
    return torch.exp(a)


@elementwise(48, inputs=_UNARY, result="a", kernel="expm1")
def expm1(a: torch.Tensor) -> torch.Tensor:
    """``exp(a) - 1`` (``ggml_expm1``)."""
    return torch.expm1(a)


@elementwise(49, inputs=_UNARY, result="a", kernel="softplus")
def softplus(a: torch.Tensor) -> torch.Tensor:
    """``log(1 + exp(a))`` (``ggml_softplus``)."""
    return F.softplus(a)


@elementwise(50, inputs=_UNARY, result="a", kernel="floor")
def floor(a: torch.Tensor) -> torch.Tensor:
    """Round down (``ggml_floor``)."""
    return torch.floor(a)


@elementwise(51, inputs=_UNARY, result="a", kernel="ceil")
def ceil(a: torch.Tensor) -> torch.Tensor:
    """Round up (``ggml_ceil``)."""
    return torch.ceil(a)


@elementwise(52, inputs=_UNARY, result="a", kernel="trunc")
def trunc(a: torch.Tensor) -> torch.Tensor:
    """Round towards zero (``ggml_trunc``)."""
    return torch.trunc(a)


@elementwise(
    53,
    inputs=_UNARY,
    result="a",
    call="ggml_leaky_relu(ctx, a, negative_slope, false)",
    kernel="leaky_relu",
)
def leaky_relu(a: torch.Tensor, *, negative_slope: float) -> torch.Tensor:
    """``a`` where positive, else ``negative_slope * a`` (``ggml_leaky_relu``)."""
    return F.leaky_relu(a, negative_slope)


@elementwise(54, inputs={"a": "f32 cont"}, result="a", kernel="scale_bias")
def scale_bias(a: torch.Tensor, *, s: float, b: float) -> torch.Tensor:
    """``a * s + b`` (``ggml_scale_bias``)."""
    return a * s + b


@elementwise(
    55, inputs={"a": "f32 cont"}, result="a", call="ggml_clamp(ctx, ggml_cont(ctx, a), min, max)", kernel="clamp"
)
def clamp(a: torch.Tensor, *, min: float, max: float) -> torch.Tensor:
    """``a`` limited to [min, max], NaN kept (``ggml_clamp``, which works in place: the runtime copies first)."""
    return torch.clamp(a, min, max)


@elementwise(
    56,
    inputs={"a": "f32 rows", "b": "f32 rows"},
    result="a",
    checks=("same_dims(a.ne, b.ne)",),
    kernel="swiglu_split",
)
def swiglu_split(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``silu(a) * b`` (``ggml_swiglu_split``)."""
    return F.silu(a) * b


@elementwise(
    57,
    inputs={"a": "f32 rows", "b": "f32 rows"},
    result="a",
    checks=("same_dims(a.ne, b.ne)",),
    kernel="geglu_split",
)
def geglu_split(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``gelu(a) * b``, tanh form (``ggml_geglu_split``)."""
    return F.gelu(a, approximate="tanh") * b


@elementwise(
    58,
    inputs={"a": "f32 rows", "b": "f32 rows"},
    result="a",
    checks=("same_dims(a.ne, b.ne)",),
    kernel="geglu_erf_split",
)
def geglu_erf_split(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``gelu(a) * b``, exact form (``ggml_geglu_erf_split``)."""
    return F.gelu(a) * b
