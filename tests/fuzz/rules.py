"""How each argument is drawn: by ``op.name`` where an op has its own way, else by its name, or else by its type."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import torch
from tests.fuzz.draw import DTYPES, FLOATS, INDICES, Grower, Unfit
from tests.fuzz.program import Ref
from tests.fuzz.samples import tests_of
from torch._ops import OpOverload

Given = dict[str, Any]
Rule = Callable[[Grower, Given], Any]
LEAVE_OUT = object()
# Arguments that say nothing of the result, and those with no use in inference.
IGNORED = re.compile(
    "layout|device|pin_memory|memory_format|non_blocking|implicit|generator|half_to_float|scale_grad_by_freq|sparse|"
    "sparse_grad|dropout_p|cudnn_enabled?|momentum|dim_order|unsafe"
)
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register the rule of some arguments."""

    def register(function: Rule) -> Rule:
        for name in names:
            assert name not in RULES, name
            RULES[name] = function
        return function

    return register


def arguments_of(g: Grower, overload: OpOverload) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments for one call, as an export has them: positions filled with defaults, and no more than are needed."""
    given: Given = {"overload": overload}
    last = -1
    schema = overload._schema.arguments
    for place, argument in enumerate(schema):
        value = _drawn(g, argument, given)
        if value is LEAVE_OUT:
            value = argument.default_value
        elif not argument.kwarg_only:
            last = place
        given[argument.name] = value
    args = tuple(given[a.name] for a in schema[: last + 1] if not a.kwarg_only)
    kwargs = {a.name: given[a.name] for a in schema if a.kwarg_only and given[a.name] != a.default_value}
    return args, kwargs


def _drawn(g: Grower, argument: Any, given: Given) -> Any:
    name, kind, optional = argument.name, str(argument.type), argument.has_default_value()
    if optional and IGNORED.fullmatch(name):
        return LEAVE_OUT
    op = given["overload"]._schema.name.split("::")[1].removesuffix("_copy")
    own = RULES.get(f"{op}.{name}")
    if own is None and optional and g.chance(40):
        return LEAVE_OUT
    found = own or RULES.get(f"{name}: {kind}") or RULES.get(name) or RULES.get(f": {kind}")
    if found is None:
        if optional:
            return LEAVE_OUT
        raise Unfit
    return found(g, given)


@functools.cache
def dtypes_of(overload: OpOverload) -> tuple[torch.dtype, ...]:
    """The types that an op's operator tests are for."""
    known: set[torch.dtype] = set().union(*(info.supported_dtypes("cpu") for info in tests_of(overload)))
    return tuple(dtype for dtype in DTYPES if not known or dtype in known)


def first_of(given: Given) -> Ref | None:
    """The first tensor among the arguments."""
    lists = [value[0] for value in given.values() if isinstance(value, list) and value and isinstance(value[0], Ref)]
    return next((value for value in [*given.values(), *lists] if isinstance(value, Ref)), None)


def main(g: Grower, given: Given) -> torch.Tensor:
    """Its contents."""
    ref = first_of(given)
    if ref is None:
        raise Unfit
    return g.value(ref)


# ------------------------------------------------------------------------------------------------------------- by type


@rule(": number")
def _number(g: Grower, given: Given) -> float:
    x = first_of(given)
    if x is not None and not g.value(x).dtype.is_floating_point and g.chance(70):
        return g.one_of((2, 1, 0, -1, 3, -7, 100))
    return g.number()


@rule(": Optional[number]")
def _number_or_none(g: Grower, given: Given) -> float | None:
    return None if g.chance(30) else _number(g, given)


@rule(": float", ": Optional[float]")
def _float(g: Grower, given: Given) -> float:
    return g.one_of((1.0, 0.5, 2.0, 0.1, -1.0, 0.0))


@rule(": bool")
def _bool(g: Grower, given: Given) -> bool:
    return g.flip()


@rule(": Tensor")
def _tensor(g: Grower, given: Given) -> Ref:
    return g.tensor(dtypes_of(given["overload"])) if first_of(given) is None else _beside(g, given)


@rule(": Optional[Tensor]")
def _tensor_or_none(g: Grower, given: Given) -> Ref | None:
    return None if g.chance(30) else _beside(g, given)


def _beside(g: Grower, given: Given) -> Ref:
    """A tensor that broadcasts with the first one, most of the time of the same type."""
    x = main(g, given)
    shape = list(x.shape)
    if g.chance(50):
        shape = shape[g.between(0, len(shape)) :]
        shape = [1 if g.chance(25) else size for size in shape]
        if g.chance(10):
            shape = [*g.shape((1, 2)), *shape]
    return g.shaped(shape, (x.dtype, x.dtype, x.dtype, *dtypes_of(given["overload"])))


# --------------------------------------------------------------------------------------------------------- dims, types


@rule("dim: int", "dim: Optional[int]", "dim0", "dim1", "axis", "axis0", "axis1")
def _dim(g: Grower, given: Given) -> int:
    rank = max(main(g, given).dim(), 1)
    return g.between(0, rank - 1) - (rank if g.flip() else 0)


@rule("unsqueeze.dim", "stack.dim")
def _new_dim(g: Grower, given: Given) -> int:
    rank = main(g, given).dim() + 1
    return g.between(0, rank - 1) - (rank if g.flip() else 0)


@rule("dim: List[int]", "dim: Optional[List[int]]", "dims: List[int]", "axis: List[int]")
def _dims(g: Grower, given: Given) -> list[int]:
    rank = main(g, given).dim()
    return [dim - (rank if g.chance(30) else 0) for dim in g.order(rank)[: g.between(0, rank)]]


@rule("permute.dims")
def _permutation(g: Grower, given: Given) -> list[int]:
    rank = main(g, given).dim()
    return [dim - (rank if g.chance(20) else 0) for dim in g.order(rank)]


@rule("flatten.start_dim")
def _flattened_from(g: Grower, given: Given) -> int:
    return _dim(g, given)


@rule("flatten.end_dim")
def _flattened_to(g: Grower, given: Given) -> int:
    rank = max(main(g, given).dim(), 1)
    return g.between(given["start_dim"] % rank, rank - 1) - (rank if g.flip() else 0)


@rule("dtype")
def _dtype(g: Grower, given: Given) -> Any:
    wanted = "_copy" in given["overload"].name() or first_of(given) is None or g.chance(40)
    return g.one_of(DTYPES) if wanted else None


@rule("correction")
def _correction(g: Grower, given: Given) -> Any:
    return g.one_of((1, 0, None, 2, 0.5))


@rule("approximate")
def _approximate(g: Grower, given: Given) -> str:
    return g.one_of(("none", "tanh"))


@rule("rounding_mode")
def _rounding(g: Grower, given: Given) -> str | None:
    return g.one_of(("floor", "trunc", None))


@rule("condition", "mask")
def _mask(g: Grower, given: Given) -> Ref:
    if first_of(given) is None:
        return g.tensor((torch.bool,))
    shape = list(main(g, given).shape)
    return g.shaped(shape[g.between(0, len(shape)) :] if g.chance(30) else shape, (torch.bool,))


# -------------------------------------------------------------------------------------------------------------- shapes


@rule("view.size", "reshape.shape", "_unsafe_view.size", "view_copy.size", "_reshape.size")
def _reshaped(g: Grower, given: Given) -> list[Any]:
    """Dims that stand side by side become one, ones come in, and one size may be left open."""
    traced = g.program.symbols.values()
    groups: list[list[int]] = []
    for size in main(g, given).shape:
        if groups and g.chance(40):
            groups[-1].append(size)
        elif size in (4, 6) and g.chance(50):
            groups += [[2], [size // 2]]
        else:
            groups.append([size])
        if g.chance(15):
            groups.append([1])
    sizes: list[Any] = []
    for group in groups:
        if not any(size in traced for size in group):
            sizes.append(torch.Size(group).numel())
        else:
            sizes.append(g.said(group[0]) if len(group) == 1 else -1)
    if sizes.count(-1) > 1:
        raise Unfit
    if -1 not in sizes and sizes and 0 not in sizes and g.chance(30):
        sizes[g.between(0, len(sizes) - 1)] = -1
    return sizes


@rule("expand.size")
def _expanded(g: Grower, given: Given) -> list[Any]:
    shape = main(g, given).shape
    sizes = [g.one_of((2, 3, 1, 5, 0)) if n == 1 else -1 if g.chance(30) else g.said(n) for n in shape]
    return [*(g.said(size) for size in g.shape((0, 0, 1, 2))), *sizes]


@rule("size", "shape")
def _size(g: Grower, given: Given) -> list[Any]:
    return [g.said(size) for size in g.shape()]


@rule("repeat.repeats", "tile.dims")
def _repeats(g: Grower, given: Given) -> list[int]:
    return [g.one_of((1, 2, 3, 0)) for _ in range(main(g, given).dim() + g.one_of((0, 0, 1)))]


@rule("start: Optional[int]", "end: Optional[int]")
def _bound(g: Grower, given: Given) -> Any:
    return g.one_of((1, 0, None, 2, -1, -2, 3, 100, -100, 2**63 - 1))


@rule("step: int")
def _step(g: Grower, given: Given) -> int:
    return g.one_of((1, 2, 3, 7))


@rule("select.index", "select_scatter.index")
def _index(g: Grower, given: Given) -> int:
    x = main(g, given)
    size = int(x.shape[given["dim"]]) if x.dim() else 0
    return g.between(0, size - 1) - (size if g.flip() and size not in g.program.symbols.values() else 0)


@rule("start: int")
def _narrow_start(g: Grower, given: Given) -> int:
    return g.between(0, g.size(given["self"], given["dim"]))


@rule("length")
def _length(g: Grower, given: Given) -> int:
    return g.between(0, g.size(given["self"], given["dim"]) - given["start"])


@rule("split_size")
def _split_size(g: Grower, given: Given) -> int:
    return g.between(1, 6)


@rule("split.dim", "unbind.dim")
def _split_dim(g: Grower, given: Given) -> int:
    x = main(g, given)
    return g.one_of([dim for dim, size in enumerate(x.shape) if 0 < size < 8]) - (x.dim() if g.flip() else 0)


@rule("split_sizes")
def _split_sizes(g: Grower, given: Given) -> list[int]:
    x = main(g, given)
    given["at"] = g.between(0, x.dim() - 1)
    left = int(x.shape[given["at"]])
    sizes: list[int] = []
    while left > 0 and len(sizes) < 4:
        sizes.append(g.between(0, left))
        left -= sizes[-1]
    return [*sizes, left]


@rule("split_with_sizes.dim", "cat.dim")
def _drawn_dim(g: Grower, given: Given) -> int:
    return int(given["at"]) - (main(g, given).dim() if g.flip() else 0)


@rule("tensors")
def _tensors(g: Grower, given: Given) -> list[Ref]:
    first = g.tensor()
    shape = list(g.value(first).shape)
    stack = "cat" not in given["overload"].name()
    given["at"] = g.between(0, len(shape) - 1) if shape and not stack else 0
    found = [first]
    for _ in range(g.between(0, 3)):
        if shape and not stack:
            shape[given["at"]] = g.one_of((shape[given["at"]], 1, 2, 0, 3))
        found.append(g.shaped(shape, (g.value(first).dtype,) * 3 + DTYPES))
    return found


@rule("pad")
def _pad(g: Grower, given: Given) -> list[int]:
    return [g.one_of((1, 0, 2, -1, 3, -2)) for _ in range(2 * g.between(0, main(g, given).dim()))]


@rule("shifts")
def _shifts(g: Grower, given: Given) -> list[int]:
    given["count"] = g.between(1, 3)
    return [g.between(-9, 9) for _ in range(given["count"])]


@rule("roll.dims")
def _rolled(g: Grower, given: Given) -> list[int]:
    return [_dim(g, given) for _ in range(given["count"])]


@rule("diagonal: int", "offset: int", "k")
def _diagonal(g: Grower, given: Given) -> int:
    return g.one_of((0, 1, -1, 2, -3))


@rule("arange.start", "arange.end")
def _range(g: Grower, given: Given) -> float:
    return g.one_of((0, 1, 5, -3, 2, 0.5, 7.25))


@rule("arange.step")
def _range_step(g: Grower, given: Given) -> float:
    return g.one_of((1, 2, -1, 0.5, 3))


# ------------------------------------------------------------------------------------------------------------ indexing


def _indices(g: Grower, size: int, shape: Any, least: int | None = None) -> Ref:
    """Indices into so many things."""
    low = (0 if g.flip() else -size) if least is None else least
    if size == 0 and torch.Size(shape).numel():
        raise Unfit
    return g.input(shape, INDICES, low, max(size - 1, low), odd=False)


def _size_along(g: Grower, given: Given) -> int:
    x = main(g, given)
    return int(x.shape[given["dim"]]) if x.dim() else 1


@rule("index_select.index", "index_add.index", "index_copy.index", "index_fill.index")
def _selected(g: Grower, given: Given) -> Ref:
    return _indices(g, _size_along(g, given), g.shape((1, 0)), 0)


@rule("index: Tensor")
def _gathered(g: Grower, given: Given) -> Ref:
    x = main(g, given)
    at = given["dim"] % max(x.dim(), 1)
    shape = [g.between(0, 6) if dim == at else g.between(0, size) for dim, size in enumerate(x.shape)]
    return _indices(g, _size_along(g, given), shape, 0)


@rule("scatter.src", "scatter_add.src", "scatter_reduce.src")
def _scattered(g: Grower, given: Given) -> Ref:
    index = g.value(given["index"])
    return g.shaped([size + g.one_of((0, 0, 1)) for size in index.shape], (main(g, given).dtype,))


@rule("indices: List[Optional[Tensor]]")
def _many_indices(g: Grower, given: Given) -> list[Ref | None]:
    x = main(g, given)
    shape = list(g.shape((1, 0, 2, 3)))
    found: list[Ref | None] = []
    for size in x.shape[: g.between(1, max(x.dim(), 1))]:
        own = shape[g.between(0, len(shape)) :] if g.chance(30) else [1 if g.chance(20) else n for n in shape]
        found.append(None if g.chance(30) else _indices(g, size, own))
    if all(index is None for index in found):
        raise Unfit
    return found


@rule("index_put.values")
def _put(g: Grower, given: Given) -> Ref:
    shapes = [g.value(index).shape for index in given["indices"] if index is not None]
    shape = torch.broadcast_shapes(*shapes)
    return g.shaped(shape if g.flip() else [], (main(g, given).dtype,))


@rule("embedding.weight", "_embedding_bag.weight", "_embedding_bag_forward_only.weight")
def _table(g: Grower, given: Given) -> Ref:
    return g.shaped([g.one_of((3, 7, 1)), *g.shape((1,), (4, 1, 33))], DTYPES, constant=g.flip())


@rule("_embedding_bag.indices", "_embedding_bag_forward_only.indices")
def _bagged(g: Grower, given: Given) -> Ref:
    return _indices(g, g.size(given["weight"], 0), g.shape((1,)), 0)


@rule("_embedding_bag.offsets", "_embedding_bag_forward_only.offsets")
def _bags(g: Grower, given: Given) -> Ref:
    return g.input(g.shape((1,)), (g.value(given["indices"]).dtype,), 0, 0, odd=False)  # all but the last are empty


@rule("_embedding_bag.mode", "_embedding_bag_forward_only.mode")
def _bag_mode(g: Grower, given: Given) -> int:
    return g.one_of((0, 1, 2))


@rule("embedding.indices")
def _rows(g: Grower, given: Given) -> Ref:
    return _indices(g, g.size(given["weight"], 0), g.shape((1, 2, 0, 3)), 0)


# ------------------------------------------------------------------------------------------------------------ products


@rule("dft.x")
def _points(g: Grower, given: Given) -> Ref:
    return g.tensor((torch.float32,), (1, 2, 3))


@rule("dft.bins", "dft.period")
def _bins(g: Grower, given: Given) -> int:
    return g.between(1, 9)


@rule("dft.scale")
def _wave_height(g: Grower, given: Given) -> float:
    return g.one_of((1.0, 0.25, -2.0))


@rule("mm.self", "mat1")
def _matrix(g: Grower, given: Given) -> Ref:
    return g.tensor((*FLOATS, torch.int64, torch.int32), (2,))


@rule("bmm.self", "batch1")
def _matrices(g: Grower, given: Given) -> Ref:
    return g.tensor((*FLOATS, torch.int64), (3,))


@rule("mat2", "batch2")
def _second_matrix(g: Grower, given: Given) -> Ref:
    x = g.value(given.get("mat1") or given.get("batch1") or given["self"])
    return g.shaped([*x.shape[:-2], x.shape[-1], *g.shape((1,))], (x.dtype,), odd=False, constant=g.chance(30))


@rule("addmm.self", "baddbmm.self")
def _added(g: Grower, given: Given) -> Ref:
    return g.tensor(FLOATS, (1, 2))


@rule("linear.input")
def _features(g: Grower, given: Given) -> Ref:
    return g.tensor(FLOATS, (2, 1, 3, 4, 5))


@rule("linear.weight")
def _linear_weight(g: Grower, given: Given) -> Ref:
    x = main(g, given)
    given["out"] = g.one_of((3, 1, 2, 16, 33, 5))
    return g.shaped([given["out"], x.shape[-1]], (x.dtype,), odd=False, constant=not g.chance(20))


@rule("linear.bias")
def _linear_bias(g: Grower, given: Given) -> Ref | None:
    dtype = main(g, given).dtype
    return None if g.chance(30) else g.shaped([given["out"]], (dtype,), odd=False, constant=not g.chance(20))


@rule("expert_linear.x")
def _tokens(g: Grower, given: Given) -> Ref:
    return g.tensor((torch.float32,), (3,))


@rule("expert_linear.weight")
def _experts(g: Grower, given: Given) -> Ref:
    shape = [g.one_of((3, 1, 4)), g.one_of((3, 1, 2, 16, 33)), main(g, given).shape[2]]
    return g.shaped(shape, (torch.float32,), odd=False, constant=not g.chance(30))


@rule("expert_linear.ids")
def _chosen_experts(g: Grower, given: Given) -> Ref:
    tokens, k, _ = main(g, given).shape
    sizes = [g.one_of((5, 1)) if tokens == 1 else tokens, g.one_of((2, 1, 3)) if k == 1 or g.chance(10) else k]
    return _indices(g, g.size(given["weight"], 0), sizes, 0)


@rule("query")
def _query(g: Grower, given: Given) -> Ref:
    return g.tensor(FLOATS, (4, 3))


@rule("key")
def _key(g: Grower, given: Given) -> Ref:
    x = main(g, given)
    return g.shaped([*x.shape[:-2], g.one_of((*x.shape[-2:-1], 3, 1, 5)), x.shape[-1]], (x.dtype,), odd=False)


@rule("softcapped_attention.query")
def _capped_query(g: Grower, given: Given) -> Ref:
    return g.tensor(FLOATS, (4,))


@rule("softcap")
def _softcap(g: Grower, given: Given) -> float:
    return g.one_of((2.0, 0.5, 50.0, 0.0))


@rule("scaled_dot_product_attention.value", "softcapped_attention.value")
def _attention_value(g: Grower, given: Given) -> Ref:
    x = g.value(given["key"])
    return g.shaped([*x.shape[:-1], g.one_of((*x.shape[-1:], 4))], (x.dtype,), odd=False)


@rule("attn_mask")
def _attention_mask(g: Grower, given: Given) -> Ref | None:
    q, k = g.value(given["query"]), g.value(given["key"])
    shape = [*q.shape[:-1], k.shape[-2]]
    return None if g.flip() else g.shaped(shape[g.between(0, len(shape) - 2) :], (torch.bool, q.dtype), odd=False)


@rule("is_causal")
def _causal(g: Grower, given: Given) -> bool:
    return given.get("attn_mask") is None and g.flip()


# ------------------------------------------------------------------------------------------------------- normalization


@rule("normalized_shape")
def _normalized(g: Grower, given: Given) -> list[int]:
    shape = main(g, given).shape
    chosen = list(shape[len(shape) - g.between(1, len(shape)) :])
    if any(size in g.program.symbols.values() for size in chosen):
        raise Unfit
    return chosen


@rule(*(f"{op}.{name}" for op in ("layer_norm", "native_layer_norm", "rms_norm") for name in ("weight", "bias")))
def _row_weight(g: Grower, given: Given) -> Ref | None:
    dtype = main(g, given).dtype
    return None if g.chance(30) else g.shaped(given["normalized_shape"], (dtype,), odd=False, constant=g.flip())


@rule("num_groups")
def _groups(g: Grower, given: Given) -> int:
    x = main(g, given)
    return g.one_of([n for n in range(1, x.shape[1] + 1) if x.shape[1] % n == 0] if x.dim() > 1 else [])


@rule("train", "training")
def _in_inference(g: Grower, given: Given) -> bool:
    if given["overload"]._overloadname == "no_stats":
        return True  # eager would read statistics that are not there, and crash
    return "batch_norm" in given["overload"].name() and g.flip()


@rule("rrelu_with_noise_functional.noise")
def _noise(g: Grower, given: Given) -> Ref:
    x = main(g, given)
    return g.shaped(x.shape, (x.dtype,))


@rule("x2")
def _other_rows(g: Grower, given: Given) -> Ref:
    x = main(g, given)
    return g.shaped([*x.shape[:-2], *g.shape((1,)), *x.shape[-1:]], (x.dtype,))


_BATCH_NORMS = [f"_native_batch_norm_legit{variant}" for variant in ("", "_functional", "_no_training")]


@rule(
    *(f"{op}.{name}" for op in ["group_norm", *_BATCH_NORMS] for name in ("weight", "bias")),
    *(f"{op}.running_{name}" for op in _BATCH_NORMS for name in ("mean", "var")),
)
def _channel_weight(g: Grower, given: Given) -> Ref | None:
    x = main(g, given)
    if x.dim() < 2:
        raise Unfit
    return g.shaped([x.shape[1]], (x.dtype,), odd=False, constant=not g.chance(20))


@rule("native_group_norm.N")
def _batches(g: Grower, given: Given) -> Any:
    return g.said(main(g, given).shape[0]) if main(g, given).dim() > 1 else 1


@rule("native_group_norm.C")
def _channels(g: Grower, given: Given) -> int:
    return int(main(g, given).shape[1]) if main(g, given).dim() > 1 else 1


@rule("native_group_norm.HxW")
def _pixels(g: Grower, given: Given) -> int:
    return int(main(g, given).shape[2:].numel())


@rule("native_group_norm.group")
def _group(g: Grower, given: Given) -> int:
    return g.one_of([n for n in range(1, 8) if given["C"] % n == 0])


@rule("eps")
def _eps(g: Grower, given: Given) -> float:
    return g.one_of((1e-5, 0.5, 1e-12))


# -------------------------------------------------------------------------------------------------------------- images


def _slid(g: Grower, given: Given) -> int:
    """How many dims an op slides over."""
    name = given["overload"].name()
    return main(g, given).dim() - 2 if "convolution" in name else next((n for n in (1, 2, 3) if f"{n}d" in name), 2)


_POOLS = ("avg_pool{}d", "max_pool{}d", "max_pool{}d_with_indices", "_adaptive_avg_pool{}d", "adaptive_max_pool{}d")
_RESIZES = ("upsample_nearest{}d", "upsample_linear{}d", "upsample_bilinear{}d", "upsample_trilinear{}d")
_BORDERS = ("reflection_pad{}d", "replication_pad{}d", "adaptive_avg_pool{}d", "upsample_bicubic{}d")


@rule(*(f"{op.format(n)}.{x}" for op in _POOLS + _RESIZES + _BORDERS for n in (1, 2, 3) for x in ("self", "input")))
def _slid_over(g: Grower, given: Given) -> Ref:
    n = next(n for n in (1, 2, 3) if f"{n}d" in given["overload"].name())
    return g.tensor(FLOATS, (n + 2, n + 1))


@rule("reflection_pad1d.padding", "replication_pad1d.padding", "reflection_pad2d.padding", "replication_pad2d.padding")
@rule("reflection_pad3d.padding", "replication_pad3d.padding")
def _border(g: Grower, given: Given) -> list[int]:
    return [g.one_of((1, 0, 2)) for _ in range(2 * _slid(g, given))]


@rule("convolution.input")
def _image(g: Grower, given: Given) -> Ref:
    return g.tensor(FLOATS[:3], (4, 3, 5))


@rule("convolution.weight")
def _kernel(g: Grower, given: Given) -> Ref:
    x = main(g, given)
    channels = int(x.shape[1])
    given["grouped"] = g.one_of([n for n in (1, channels, 2) if n and channels % n == 0])
    given["turned"] = g.chance(25)
    given["out"] = given["grouped"] * g.one_of((1, 2, 3))
    outer, inner = (channels, given["out"]) if given["turned"] else (given["out"], channels)
    shape = [outer, inner // given["grouped"], *(g.one_of((1, 2, 3, 5)) for _ in x.shape[2:])]
    return g.shaped(shape, (x.dtype,), odd=False, constant=True)


@rule("convolution.bias")
def _convolution_bias(g: Grower, given: Given) -> Ref | None:
    dtype = main(g, given).dtype
    return None if g.flip() else g.shaped([given["out"]], (dtype,), odd=False, constant=True)


@rule("kernel_size", "stride")
def _kernel_size(g: Grower, given: Given) -> list[int]:
    return [g.one_of((2, 1, 3)) for _ in range(_slid(g, given))]


@rule("padding")
def _padding(g: Grower, given: Given) -> list[int]:
    return [g.one_of((0, 1, 2)) for _ in range(_slid(g, given))]


@rule("dilation")
def _dilation(g: Grower, given: Given) -> list[int]:
    return [g.one_of((1, 1, 2)) for _ in range(_slid(g, given))]


@rule("output_padding")
def _output_padding(g: Grower, given: Given) -> list[int]:
    return [g.one_of((0, 0, 1)) if given["turned"] else 0 for _ in range(_slid(g, given))]


@rule("transposed")
def _transposed(g: Grower, given: Given) -> bool:
    return bool(given["turned"])


@rule("groups")
def _convolution_groups(g: Grower, given: Given) -> int:
    return int(given["grouped"])


@rule("divisor_override")
def _divisor(g: Grower, given: Given) -> int | None:
    return g.one_of((None, 1, 3))


@rule("output_size")
def _output_size(g: Grower, given: Given) -> list[int] | None:
    optional = "vec" in given["overload"].name()
    return None if optional and g.flip() else [g.one_of((1, 2, 3, 5)) for _ in range(_slid(g, given))]


@rule("scale_factors")
def _scales(g: Grower, given: Given) -> list[float] | None:
    return None if given["output_size"] else [g.one_of((2.0, 1.5, 0.5)) for _ in range(_slid(g, given))]
