"""The predicates that op rows name in ``checks``; ``native/runtime/checks.h`` has the same ones over ggml tensors.

A check says whether a call is one that ggml (or a kernel) can make without aborting. Symbolic dims are given the
benefit of the doubt here: the runtime checks again with the sizes at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from .dims import is_one, product, same
from .dtypes import DType
from .graph import Value
from .op import Dim, Dims
from .ops.custom import BINARY_BOOL, REDUCE_BOOL, REDUCE_INDEX, BinaryKind, ReduceKind, UnaryKind
from .ops.indexing import SCAN_INDEX, ScanKind, ScatterKind
from .ops.spatial import OC_BLOCK, Window, Window2d, Window3d

FLOATS = frozenset({DType.F32, DType.F16, DType.BF16, DType.F64})
INTEGERS = frozenset({DType.I32, DType.I64})
CHECKS: dict[str, Callable[..., bool]] = {}


def _check(function: Callable[..., bool]) -> Callable[..., bool]:
    CHECKS[function.__name__] = function
    return function


def _known(*sizes: Dim) -> bool:
    return all(isinstance(size, int) for size in sizes)


def _equal(a: Dim, b: Dim) -> bool:
    return same(a, b) or not _known(a, b)


def _divides(a: Dim, b: Dim) -> bool:
    return not _known(a, b) or (a == 0 and b == 0) or (a != 0 and b % a == 0)


@_check
def same_type(a: Value, b: Value) -> bool:
    """One element type."""
    return a.dtype == b.dtype


@_check
def stores(state: Value, src: Value, axis: int) -> bool:
    """One element type; or whole rows of f32 that are quantized or rounded to f16."""
    rounds = state.dtype.is_quantized or state.dtype == DType.F16
    return state.dtype == src.dtype or (rounds and src.dtype == DType.F32 and axis > 0)


@_check
def keeps_rows(a: Value, axes: Sequence[int]) -> bool:
    """Rows of a quantized tensor stay rows."""
    return not a.dtype.is_quantized or axes[0] == 0


@_check
def whole_rows(a: Value, start: Dims, step: Sequence[int], ne: Dims) -> bool:
    """Rows of a quantized tensor are not cut."""
    return not a.dtype.is_quantized or (start[0] == 0 and step[0] == 1 and same(ne[0], a.ne[0]))


@_check
def f32_or_same_type(a: Value, b: Value) -> bool:
    """f32, or ``b``'s element type."""
    return a.dtype in (DType.F32, b.dtype)


@_check
def same_dims(a: Value, b: Value) -> bool:
    """One shape."""
    return all(_equal(m, n) for m, n in zip(a.ne, b.ne, strict=True))


@_check
def same_count(a: Value, ne: Dims) -> bool:
    """As many elements."""
    return _equal(a.count, product(ne))


@_check
def same_dims_but(a: Value, b: Value, dim: int) -> bool:
    """One shape apart from ``dim``."""
    return 0 <= dim < 4 and all(_equal(m, n) for i, (m, n) in enumerate(zip(a.ne, b.ne, strict=True)) if i != dim)


@_check
def permutation(axes: Sequence[int]) -> bool:
    """0, 1, 2, 3 in some order."""
    return sorted(axes) == [0, 1, 2, 3]


@_check
def view_inside(a: Value, start: Dims, step: Sequence[int], ne: Dims) -> bool:
    """The window lies inside ``a``."""
    if len(step) != 4 or any(s < 1 for s in step):
        return False
    for size, first, stride, count in zip(a.ne, start, step, ne, strict=True):
        if _known(size, first, count) and (first < 0 or count < 0):
            return False
        if _known(size, first, count) and count > 0 and first + stride * (count - 1) >= size:
            return False
    return True


@_check
def broadcasts_to(a: Value, b: Value | Dims) -> bool:
    """Every dim of ``a`` is that of ``b`` or 1."""
    target = b.ne if isinstance(b, Value) else b
    return a.ne == target or all(is_one(m) or _equal(m, n) for m, n in zip(a.ne, target, strict=True))


@_check
def broadcast_together(*values: Value) -> bool:
    """Per dim, all sizes that are not 1 are equal."""
    for sizes in zip(*(value.ne for value in values), strict=True):
        wide = [n for n in sizes if not is_one(n)]
        if any(not _equal(wide[0], n) for n in wide):
            return False
    return True


@_check
def not_negative(value: Any) -> bool:
    """Zero or more, each."""
    values = value if isinstance(value, tuple) else (value,)
    return all(v >= 0 for v in values if isinstance(v, float) or _known(v))


@_check
def small(value: Dim) -> bool:
    """Fits a C int, and is not negative."""
    return not _known(value) or 0 <= value < 2**31


@_check
def indexable(size: Dim) -> bool:
    """A size that i32 indices can address."""
    return not _known(size) or 0 < size < 2**31


@_check
def is_zero(value: float) -> bool:
    """Exactly 0."""
    return value == 0.0


@_check
def is_state(state: Value) -> bool:
    """A named state: the one kind of tensor that may be written to (the runtime tells it from the other leaves)."""
    return state.producer is None


@_check
def shows_state(state: Value) -> bool:
    """A named state, or a view of the whole of one (the runtime tells it from the other leaves)."""
    while state.producer is not None and state.producer.op in ("reshape", "update_state"):
        source = state.producer.inputs[0]
        assert source is not None
        state = source
    return state.producer is None


@_check
def takes_along(a: Value, index: Value, axis: int) -> bool:
    """A dim, and an index that apart from it broadcasts to ``a``."""
    sizes = enumerate(zip(index.ne, a.ne, strict=True))
    return 0 <= axis < 4 and all(i == axis or is_one(m) or _equal(m, n) for i, (m, n) in sizes)


@_check
def scatters_into(a: Value, index: Value, src: Value, ne: Dims, axis: int) -> bool:
    """A space that but for one dim is ``a``'s, to which index and source broadcast."""
    same = 0 <= axis < 4 and all(i == axis or _equal(m, n) for i, (m, n) in enumerate(zip(ne, a.ne, strict=True)))
    return same and broadcasts_to(index, ne) and broadcasts_to(src, ne)


@_check
def scatter_takes(kind: ScatterKind, a: Value) -> bool:
    """The function exists for the element type: writing for all."""
    return kind == ScatterKind.ASSIGN or a.dtype in INTEGERS or a.dtype == DType.F32


@_check
def sorts(a: Value, count: Dim) -> bool:
    """At most as many places as a row has elements, which 31 bits count."""
    fits = not _known(a.ne[0], count) or count <= a.ne[0]
    return fits and not_negative(count) and small(a.ne[0])


@_check
def scans(kind: ScanKind, a: Value, axis: int) -> bool:
    """A dim, and the function exists for the element type."""
    return 0 <= axis < 4 and (a.dtype == DType.F32 or kind == ScanKind.PROD or kind in SCAN_INDEX)


def _indexes(index: Value, size: Dim) -> bool:
    """Numbers that were checked to be less than a size."""
    producer = index.producer
    while producer is not None and producer.op in ("reshape", "cont", "view"):
        source = producer.inputs[0]
        producer = None if source is None else source.producer
    return producer is not None and producer.op == "to_index" and _equal(producer.attrs["size"], size)


@_check
def chooses(a: Value, ids: Value) -> bool:
    """Numbers of matrices that were checked to be there."""
    return _indexes(ids, a.ne[2])


@_check
def gathers_rows(a: Value, rows: Value) -> bool:
    """One matrix, and a line of row numbers that were range-checked against its height."""
    return _indexes(rows, a.ne[1]) and all(is_one(n) for n in (*a.ne[2:], *rows.ne[1:]))


@_check
def is_table(a: Value, rows: Value) -> bool:
    """One matrix, and row numbers in at most three dims."""
    return is_one(a.ne[2]) and is_one(a.ne[3]) and is_one(rows.ne[3])


@_check
def masks_rows(a: Value, mask: Value | None) -> bool:
    """A mask of ``a``'s rows, its batch dims dividing ``a``'s."""
    if mask is None:
        return True
    rows = _equal(mask.ne[0], a.ne[0]) and (not _known(mask.ne[1], a.ne[1]) or mask.ne[1] >= a.ne[1])
    return rows and _divides(mask.ne[2], a.ne[2]) and _divides(mask.ne[3], a.ne[3])


@_check
def multiplies(a: Value, b: Value) -> bool:
    """Inner dims equal, ``a``'s batch dims dividing ``b``'s."""
    return _equal(a.ne[0], b.ne[0]) and _divides(a.ne[2], b.ne[2]) and _divides(a.ne[3], b.ne[3])


@_check
def multiplies_chosen(a: Value, b: Value, ids: Value) -> bool:
    """Matrices, their numbers for each token, and a row of ``b`` for each number or one for all of a token's."""
    outer = all(is_one(n) for n in (a.ne[3], b.ne[3], *ids.ne[2:]))
    rows = is_one(b.ne[1]) or _equal(b.ne[1], ids.ne[0])
    return outer and rows and _equal(a.ne[0], b.ne[0]) and _equal(b.ne[2], ids.ne[1])


@_check
def attends(q: Value, k: Value, v: Value, mask: Value | None) -> bool:
    """Shapes of ``ggml_flash_attn_ext``."""
    inner = _equal(q.ne[0], k.ne[0]) and _equal(k.ne[1], v.ne[1]) and _equal(k.ne[2], v.ne[2]) and k.dtype == v.dtype
    batch = _divides(k.ne[2], q.ne[2]) and _equal(k.ne[3], q.ne[3]) and _equal(v.ne[3], q.ne[3])
    masked = mask is None or (
        _equal(mask.ne[0], k.ne[1])
        and (not _known(mask.ne[1], q.ne[1]) or mask.ne[1] >= q.ne[1])
        and _divides(mask.ne[2], q.ne[2])
        and _divides(mask.ne[3], q.ne[3])
    )
    # ggml's scratch memory grows with the head's size, and it counts query rows in an int.
    sizes = all(not _known(n) or n <= 2**16 for n in (q.ne[0], v.ne[0]))
    rows = product(q.ne[1:])
    return inner and batch and masked and sizes and (not _known(rows) or rows < 2**31)


@_check
def slides(window: Window2d) -> bool:
    """A sliding window's numbers are sane and small."""
    return _slides(window.w) and _slides(window.h)


def _slides(window: Window) -> bool:
    positive = all(1 <= n < 2**24 for n in (window.kernel, window.stride, window.dilation, window.up))
    return positive and -(2**24) < window.pad < 2**24


@_check
def is_dense(window: Window2d) -> bool:
    """Windows over an input that is not spread out."""
    return window.w.up == window.h.up == 1


@_check
def reaches(x: Value, ne: Dims, window: Window2d) -> bool:
    """Places that windows touch, inside the image or out of it, are few enough to be counted in 64 bits."""
    if not _known(*x.ne, *ne):
        return True
    across = ne[1] * window.w.stride + window.w.kernel * window.w.dilation + abs(window.w.pad)
    down = ne[2] * window.h.stride + window.h.kernel * window.h.dilation + abs(window.h.pad)
    row: int = x.ne[0] * x.ne[1]
    return bool((down + x.ne[2] * x.ne[3]) * row < 2**59 and across * x.ne[0] < 2**59)


def _few_taps(window: Window2d) -> bool:
    """What a convolution keeps for each of a window's taps fits in little memory."""
    return window.w.kernel >= 1 and window.h.kernel >= 1 and window.w.kernel * window.h.kernel <= 2**16


@_check
def convolves(x: Value, weight: Value, bias: Value | None, ne: Dims, window: Window2d, groups: int) -> bool:
    """Channels fit the groups, and the packed weight has the size that they need."""
    ic, oc = x.ne[0], ne[0]
    if not (_known(ic, oc, groups) and groups > 0 and ic % groups == 0 and oc % groups == 0):
        return False
    if not _few_taps(window) or oc > 2**26:
        return False
    blocks = groups * -(-(oc // groups) // OC_BLOCK)
    packed = blocks * OC_BLOCK * window.w.kernel * window.h.kernel * (ic // groups) + ic // groups
    return _equal(weight.count, packed) and (bias is None or _equal(bias.count, oc)) and _equal(x.ne[3], ne[3])


@_check
def convolves_depthwise(x: Value, weight: Value, bias: Value | None, ne: Dims, window: Window2d) -> bool:
    """One kernel a channel."""
    fits = _equal(x.ne[0], ne[0]) and _equal(x.ne[3], ne[3]) and _few_taps(window)
    fits = fits and _equal(weight.count, ne[0] * window.w.kernel * window.h.kernel)
    return fits and (bias is None or _equal(bias.count, ne[0]))


@_check
def pools(x: Value, ne: Dims) -> bool:
    """Channels and batch stay."""
    return _equal(x.ne[0], ne[0]) and _equal(x.ne[3], ne[3])


@_check
def pool_slides(window: Window2d | Window3d) -> bool:
    """As of a convolution, of a dense input; or an adaptive one (kernel 0), which has no gaps."""
    axes = (window.w, window.h, window.d) if isinstance(window, Window3d) else (window.w, window.h)
    adaptive = [axis.kernel == 0 and axis.dilation == 1 for axis in axes]
    sane = all(_slides(replace(axis, kernel=1) if even else axis) for axis, even in zip(axes, adaptive, strict=True))
    return sane and all(axis.up == 1 for axis in axes)


@_check
def pools_volumes(x: Value, ne: Dims, depth: Dim, out_depth: Dim) -> bool:
    """Channels and the number of volumes stay."""
    if not _known(depth, out_depth, x.ne[3], ne[3]):
        return _equal(x.ne[0], ne[0])
    whole = depth > 0 and out_depth > 0 and x.ne[3] % depth == 0 and ne[3] % out_depth == 0
    return _equal(x.ne[0], ne[0]) and whole and x.ne[3] // depth == ne[3] // out_depth


@_check
def samples(x: Value, grid: Value) -> bool:
    """Two numbers a place, a grid an image, and sizes that f32 can count."""
    small = all(not _known(n) or n <= 2**24 for n in x.ne[1:3])
    return small and _equal(grid.ne[0], 2) and _equal(grid.ne[3], x.ne[3])


@_check
def interpolates(a: Value, ne: Dims) -> bool:
    """Only the inner two dims change, from and to 1 to a million: ggml finds places in f32."""
    inner = all(not _known(n) or 0 < n <= 2**20 for n in (*a.ne[:2], *ne[:2]))
    return inner and _equal(a.ne[2], ne[2]) and _equal(a.ne[3], ne[3])


@_check
def unary_takes(kind: UnaryKind, a: Value) -> bool:
    """The function exists for the element type."""
    if kind in (UnaryKind.NEG, UnaryKind.ABS, UnaryKind.SIGN):
        return a.dtype != DType.BOOL
    if kind == UnaryKind.BITWISE_NOT:
        return a.dtype not in FLOATS
    return kind == UnaryKind.LOGICAL_NOT or a.dtype == DType.F32


@_check
def binary_takes(kind: BinaryKind, a: Value) -> bool:
    """The function exists for the element type."""
    if kind in BINARY_BOOL or kind in (BinaryKind.MAXIMUM, BinaryKind.MINIMUM):
        return True
    if kind in (BinaryKind.BITWISE_AND, BinaryKind.BITWISE_OR, BinaryKind.BITWISE_XOR):
        return a.dtype not in FLOATS
    if kind in (BinaryKind.SHIFT_LEFT, BinaryKind.SHIFT_RIGHT, BinaryKind.TRUNC_DIVIDE):
        return a.dtype in INTEGERS
    float_only = kind in (BinaryKind.DIV, BinaryKind.ATAN2, BinaryKind.HYPOT)
    return a.dtype == DType.F32 or (a.dtype in INTEGERS and not float_only)


@_check
def reduces(kind: ReduceKind, a: Value, axes: Sequence[int]) -> bool:
    """Axes are distinct dims, and the function exists for the element type."""
    if len(set(axes)) != len(axes) or not all(0 <= axis < 4 for axis in axes) or not axes:
        return False
    if kind in REDUCE_BOOL:
        return True
    if kind in REDUCE_INDEX:
        return len(axes) == 1 and a.dtype != DType.BOOL
    return a.dtype in FLOATS or (a.dtype in INTEGERS and kind != ReduceKind.MEAN)


@_check
def plain_type(dtype: DType) -> bool:
    """Not a quantized one."""
    return not DType(dtype).is_quantized


@_check
def number_type(dtype: DType) -> bool:
    """f32, i32 or i64."""
    return dtype in INTEGERS or dtype == DType.F32


@_check
def turns(x: Value, table: Value) -> bool:
    """Rows of pairs, with a table of angles as wide that repeats over the other dims."""
    even = not _known(x.ne[0]) or x.ne[0] % 2 == 0
    return even and _equal(x.ne[0], table.ne[0]) and broadcasts_to(table, x)


def failing_check(checks: Sequence[str], operands: dict[str, Any]) -> str | None:
    """The first of a row's checks that does not hold for these operands and attributes, or None."""
    for text in checks:
        name, arguments = _parsed(text)
        if not CHECKS[name](*[operands[argument] for argument in arguments]):
            return text
    return None


@cache
def _parsed(check: str) -> tuple[str, tuple[str, ...]]:
    name, _, arguments = check.partition("(")
    return name, tuple(argument.strip() for argument in arguments.rstrip(")").split(","))
