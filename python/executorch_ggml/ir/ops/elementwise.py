"""Elementwise ops. On the CPU the project's vectorized kernels run them (NaN-exact); elsewhere ggml's do."""

from __future__ import annotations

from .._lazy import F, torch
from ..op import op

_UNARY = {"a": "f32 rows"}
_BINARY = {"a": "number", "b": "number"}
_BROADCAST = ("same_type(a, b)", "broadcasts_to(b.ne, a.ne)")
_FLOATS = {"a": "f32", "b": "f32"}


@op(20, inputs=_BINARY, result="a", checks=_BROADCAST, kernel="add", stock="is_f32(a)")
def add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``a + b``, ``b`` broadcast over ``a`` (``ggml_add``)."""
    return a + b


@op(21, inputs=_BINARY, result="a", checks=_BROADCAST, kernel="sub", stock="is_f32(a)")
def sub(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``a - b``, ``b`` broadcast over ``a`` (``ggml_sub``)."""
    return a - b


@op(22, inputs=_BINARY, result="a", checks=_BROADCAST, kernel="mul", stock="is_f32(a)")
def mul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``a * b``, ``b`` broadcast over ``a`` (``ggml_mul``)."""
    return a * b


@op(23, inputs=_FLOATS, result="a", checks=_BROADCAST, kernel="div")
def div(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``a / b``, ``b`` broadcast over ``a`` (``ggml_div``)."""
    return a / b


@op(30, inputs=_UNARY, result="a", kernel="sqr")
def sqr(a: torch.Tensor) -> torch.Tensor:
    """``a * a`` (``ggml_sqr``)."""
    return a * a


@op(31, inputs=_UNARY, result="a", kernel="sqrt")
def sqrt(a: torch.Tensor) -> torch.Tensor:
    """Square root (``ggml_sqrt``)."""
    return torch.sqrt(a)


@op(32, inputs=_UNARY, result="a", kernel="log")
def log(a: torch.Tensor) -> torch.Tensor:
    """Natural logarithm (``ggml_log``)."""
    return torch.log(a)


@op(33, inputs=_UNARY, result="a", kernel="sin")
def sin(a: torch.Tensor) -> torch.Tensor:
    """Sine (``ggml_sin``)."""
    return torch.sin(a)


@op(34, inputs=_UNARY, result="a", kernel="cos")
def cos(a: torch.Tensor) -> torch.Tensor:
    """Cosine (``ggml_cos``)."""
    return torch.cos(a)


@op(35, inputs=_UNARY, result="a", kernel="abs")
def abs(a: torch.Tensor) -> torch.Tensor:
    """Absolute value (``ggml_abs``)."""
    return torch.abs(a)


@op(36, inputs=_UNARY, result="a", kernel="sgn")
def sgn(a: torch.Tensor) -> torch.Tensor:
    """Sign: -1, 0 or 1 (``ggml_sgn``)."""
    return torch.sign(a)


@op(37, inputs=_UNARY, result="a", kernel="neg")
def neg(a: torch.Tensor) -> torch.Tensor:
    """``-a`` (``ggml_neg``)."""
    return -a


@op(38, inputs=_UNARY, result="a", kernel="tanh")
def tanh(a: torch.Tensor) -> torch.Tensor:
    """Hyperbolic tangent (``ggml_tanh``)."""
    return torch.tanh(a)


@op(39, inputs=_UNARY, result="a", kernel="elu")
def elu(a: torch.Tensor) -> torch.Tensor:
    """ELU with alpha 1 (``ggml_elu``)."""
    return F.elu(a)


@op(40, inputs=_UNARY, result="a", kernel="relu")
def relu(a: torch.Tensor) -> torch.Tensor:
    """``max(a, 0)``, NaN kept (``ggml_relu``)."""
    return torch.relu(a)


@op(41, inputs=_UNARY, result="a", kernel="sigmoid")
def sigmoid(a: torch.Tensor) -> torch.Tensor:
    """Logistic function (``ggml_sigmoid``)."""
    return torch.sigmoid(a)


@op(42, inputs=_UNARY, result="a", kernel="gelu")
def gelu(a: torch.Tensor) -> torch.Tensor:
    """GELU, tanh form (``ggml_gelu``)."""
    return F.gelu(a, approximate="tanh")


@op(43, inputs=_UNARY, result="a", kernel="gelu_erf")
def gelu_erf(a: torch.Tensor) -> torch.Tensor:
    """GELU, exact form (``ggml_gelu_erf``)."""
    return F.gelu(a)


@op(44, inputs=_UNARY, result="a", kernel="silu")
def silu(a: torch.Tensor) -> torch.Tensor:
    """``a * sigmoid(a)`` (``ggml_silu``)."""
    return F.silu(a)


@op(45, inputs=_UNARY, result="a", kernel="hardswish")
def hardswish(a: torch.Tensor) -> torch.Tensor:
    """``a * relu6(a + 3) / 6`` (``ggml_hardswish``)."""
    return F.hardswish(a)


@op(46, inputs=_UNARY, result="a", kernel="hardsigmoid")
def hardsigmoid(a: torch.Tensor) -> torch.Tensor:
    """``relu6(a + 3) / 6`` (``ggml_hardsigmoid``)."""
    return F.hardsigmoid(a)


@op(47, inputs=_UNARY, result="a", kernel="exp")
def exp(a: torch.Tensor) -> torch.Tensor:
    """Exponential (``ggml_exp``)."""
    return torch.exp(a)


@op(48, inputs=_UNARY, result="a", kernel="expm1")
def expm1(a: torch.Tensor) -> torch.Tensor:
    """``exp(a) - 1`` (``ggml_expm1``)."""
    return torch.expm1(a)


@op(49, inputs=_UNARY, result="a", kernel="softplus")
def softplus(a: torch.Tensor) -> torch.Tensor:
    """``log(1 + exp(a))`` (``ggml_softplus``)."""
    return F.softplus(a)


@op(50, inputs=_UNARY, result="a", kernel="floor")
def floor(a: torch.Tensor) -> torch.Tensor:
    """Round down (``ggml_floor``)."""
    return torch.floor(a)


@op(51, inputs=_UNARY, result="a", kernel="ceil")
def ceil(a: torch.Tensor) -> torch.Tensor:
    """Round up (``ggml_ceil``)."""
    return torch.ceil(a)


@op(52, inputs=_UNARY, result="a", kernel="trunc")
def trunc(a: torch.Tensor) -> torch.Tensor:
    """Round towards zero (``ggml_trunc``)."""
    return torch.trunc(a)


@op(
    53,
    inputs=_UNARY,
    result="a",
    call="ggml_leaky_relu(ctx, a, negative_slope, false)",
    kernel="leaky_relu",
)
def leaky_relu(a: torch.Tensor, *, negative_slope: float) -> torch.Tensor:
    """``a`` where positive, else ``negative_slope * a`` (``ggml_leaky_relu``)."""
    return F.leaky_relu(a, negative_slope)


@op(54, inputs={"a": "f32 cont"}, result="a", kernel="scale_bias")
def scale_bias(a: torch.Tensor, *, s: float, b: float) -> torch.Tensor:
    """``a * s + b`` (``ggml_scale_bias``)."""
    return a * s + b


@op(55, inputs={"a": "f32 cont"}, result="a", call="ggml_clamp(ctx, ggml_cont(ctx, a), min, max)", kernel="clamp")
def clamp(a: torch.Tensor, *, min: float, max: float) -> torch.Tensor:
    """``a`` limited to [min, max], NaN kept (``ggml_clamp``, which works in place: the runtime copies first)."""
    return torch.clamp(a, min, max)


@op(
    56,
    inputs={"a": "f32 rows", "b": "f32 rows"},
    result="a",
    checks=("same_dims(a.ne, b.ne)",),
    kernel="swiglu_split",
)
def swiglu_split(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``silu(a) * b`` (``ggml_swiglu_split``)."""
    return F.silu(a) * b


@op(
    57,
    inputs={"a": "f32 rows", "b": "f32 rows"},
    result="a",
    checks=("same_dims(a.ne, b.ne)",),
    kernel="geglu_split",
)
def geglu_split(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``gelu(a) * b``, tanh form (``ggml_geglu_split``)."""
    return F.gelu(a, approximate="tanh") * b


@op(
    58,
    inputs={"a": "f32 rows", "b": "f32 rows"},
    result="a",
    checks=("same_dims(a.ne, b.ne)",),
    kernel="geglu_erf_split",
)
def geglu_erf_split(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``gelu(a) * b``, exact form (``ggml_geglu_erf_split``)."""
    return F.gelu(a) * b
