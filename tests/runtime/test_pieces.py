"""ggml's own kernels in pieces: every op that is cut gives what its reference does, on any number of threads."""

from collections.abc import Callable

import pytest
import torch
from tests.helpers import assert_all_same, run_interpreter, run_session, session
from tests.native.corpus_program import Program

from executorch_ggml.ir.dtypes import DType
from executorch_ggml.ir.ops.spatial import ScaleMode

THREADS = (2, 3, 7)
ROUNDED = 0.05  # of products with quantized weights, which ggml multiplies with rounded rows
Make = Callable[[Program], None]


def _products(dtype: DType, columns: int, rows: int) -> Make:
    def make(p: Program) -> None:
        p.output(p.emit("mul_mat", p.quantized(dtype, columns, 256), p.random(rows, 256)))

    return make


def _float_product(p: Program) -> None:
    p.output(p.emit("mul_mat", p.constant(torch.randn(1000, 300)), p.random(1, 300)))
    p.output(p.emit("mul_mat", p.constant(torch.randn(37, 200).half()), p.random(61, 200)))


def _batched_products(p: Program) -> None:
    b = p.random(9, 5, 4, 130)
    p.output(*(p.emit("mul_mat", p.constant(torch.randn(*batch, 33, 130)), b) for batch in ((9, 5), (1, 5), (9, 1))))
    p.output(p.emit("mul_mat", p.constant(torch.randn(33, 130)), b))


def _experts(dtype: DType | None, columns: int) -> Make:
    def make(p: Program) -> None:
        ids = p.emit("to_index", p.input(torch.randint(0, 5, (42,))), size=5, wrap=True)
        rows = p.build.reshape(ids, (2, 21))
        shape = (5, columns, 256)
        weight = p.quantized(dtype, *shape) if dtype is not None else p.constant(torch.randn(shape))
        p.output(*(p.emit("mul_mat_id", weight, p.random(21, used, 256), rows) for used in (1, 2)))

    return make


def _softmax(p: Program) -> None:
    scores = p.random(3, 4, 31, 301)
    p.output(p.emit("soft_max_ext", scores, None, scale=0.5, max_bias=0.0))
    for shape in ((31, 301), (40, 301), (4, 31, 301), (3, 1, 31, 301), (3, 4, 31, 301)):
        mask = torch.where(torch.rand(shape) < 0.3, -torch.inf, 0.0)
        mask[..., 0] = 0.0
        p.output(p.emit("soft_max_ext", scores, p.constant(mask), scale=1.0, max_bias=0.0))
    heads = p.random(70, 1, 2003)
    p.output(p.emit("soft_max_ext", heads, p.constant(torch.zeros(1, 2003)), scale=1.0, max_bias=0.0))


def _sums(p: Program) -> None:
    for shape in ((500, 211), (3, 1, 60000), (7, 5, 3, 1100)):
        x = p.random(*shape)
        p.output(p.emit("sum_rows", x), p.emit("mean", x))


def _rows(p: Program) -> None:
    index = p.emit("to_index", p.input(torch.randint(-9, 9, (301,))), size=9, wrap=True)
    p.output(p.emit("get_rows", p.constant(torch.randn(9, 333)), index))
    p.output(p.emit("get_rows", p.quantized(DType.Q4_0, 9, 256), index))


def _images(p: Program) -> None:
    x = p.random(3, 5, 90, 70)
    p.output(*(p.emit("interpolate", x, ne=(99, 131, 5, 3), mode=mode) for mode in ScaleMode))
    p.output(p.emit("pad_ext", x, lead=(1, 0, 0, 0), trail=(2, 3, 0, 0)))
    p.output(p.emit("pad_ext", x, lead=(1, 2, 1, 1), trail=(0, 0, 0, 2)))
    p.output(p.emit("pad_ext", p.random(31, 90, 70), lead=(1, 2, 0, 0), trail=(0, 1, 0, 0)))


TYPES = (DType.Q4_0, DType.Q8_0, DType.Q4_K, DType.Q6_K, DType.IQ4_NL)
CASES: dict[str, tuple[Make, float]] = {
    **{f"{dtype.name} 1 row": (_products(dtype, 515, 1), ROUNDED) for dtype in TYPES},
    **{f"{dtype.name} 6 rows": (_products(dtype, 68, 6), ROUNDED) for dtype in TYPES},
    **{f"{dtype.name} 101 rows": (_products(dtype, 20, 101), ROUNDED) for dtype in TYPES},
    **{f"{dtype.name} experts": (_experts(dtype, 72), ROUNDED) for dtype in TYPES},
    "experts": (_experts(None, 71), 1e-4),
    "float products": (_float_product, 2e-3),
    "batched products": (_batched_products, 1e-4),
    "softmax": (_softmax, 1e-5),
    "sums": (_sums, 1e-4),
    "rows": (_rows, 0.0),
    "images": (_images, 1e-4),
}


@pytest.mark.parametrize("name", CASES)
def test_pieces(name: str) -> None:
    make, tolerance = CASES[name]
    torch.manual_seed(0)
    p = Program()
    make(p)
    graph, inputs = p.build.finish(), tuple(p.inputs)
    alone = run_session(session(graph, threads=1), inputs)
    assert_all_same(alone, run_interpreter(graph, inputs), tolerance)
    for threads in THREADS:
        ready = session(graph, threads=threads)
        for _ in range(3):
            assert_all_same(run_session(ready, inputs), alone, 1e-5)
