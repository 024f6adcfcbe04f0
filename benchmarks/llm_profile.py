"""Where the time of a language model goes: how much of a call is which kind of work, by the times of its nodes.

The programs are those of :mod:`benchmarks.llm`; :func:`executorch_ggml.profiling.profile` times their nodes.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import torch

from benchmarks import results
from benchmarks.llm import OURS, TYPES, prepare
from benchmarks.llm_engines import CHUNK, ENGINES
from executorch_ggml import set_num_threads
from executorch_ggml.profiling import NodeProfile, Profile, profile

CALLS = {"prefill": 3, "decode": 30}
WARMUP = 2
WORK: Mapping[str, tuple[str, ...]] = {
    "products": ("mul_mat", "linear"),
    "attention": ("attention",),
    "norms": ("rms_norm", "norm"),
    "element by element": ("add", "mul", "binary", "neg", "rotary", "cos", "sin", "silu", "swiglu_split"),
    "cache, copies": ("set_rows", "update_state", "get_rows", "take_rows", "select", "cont", "concat", "convert"),
}
"""The ops of each kind of work."""
REST, BETWEEN = "else", "between nodes"
INTRODUCTION = """\
{threads} threads; the programs of "Language models". How long a call takes (the median, without tracing), and how much
of a traced one (percent) goes to which nodes: products with the weights (with rounding or widening their operands),
attention (with widening and packing what is cached), normalizations, what is done element by element (SwiGLU,
residuals, rotary embeddings), writing the cache and other copies, and all others; and what no node has: starting
threads and waiting for them, copies at the program's border, tracing."""


def work_of(node: NodeProfile) -> str:
    """The kind of work of a node. An addition that is fused into a linear layer counts as the layer."""
    op = "linear" if any("linear" in name for name in node.joined) else node.op
    return next((work for work, ops in WORK.items() if op in ops), REST)


def shares(measured: Profile) -> dict[str, float]:
    """The percentage of each kind of work in the time of all traced calls."""
    found = dict.fromkeys([*WORK, REST], 0.0)
    for node in measured.nodes:
        found[work_of(node)] += 100 * node.total_ns / measured.total_ns
    return found | {BETWEEN: 100 * measured.unaccounted_ns / measured.total_ns}


def measure(path: str, part: str) -> Profile:
    """A program's nodes in a part: "prefill 512" reads tokens from the start, "decode 16" one behind so many."""
    kind, count = part.split()
    tokens, position = (int(count), 0) if kind == "prefill" else (1, int(count))
    if tokens > CHUNK:
        raise SystemExit(f"{part}: a call reads up to {CHUNK} tokens")
    inputs = torch.ones(1, tokens, dtype=torch.int64), torch.tensor([position])
    return profile(path, inputs, calls=CALLS[kind], warmup=WARMUP)


def _milliseconds(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e6:.{1 if nanoseconds < 1e8 else 0}f} ms"


def main() -> None:
    from benchmarks.random_gguf import SHAPES, TINY

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.llm_profile",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--models", nargs="+", default=list(SHAPES), choices=[*SHAPES, *TINY], metavar="MODEL")
    parser.add_argument("--types", nargs="+", default=list(TYPES), choices=TYPES, metavar="TYPE")
    parser.add_argument("--parts", nargs="+", default=["prefill 512", "decode 16", "decode 2048"], metavar="PART")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    set_num_threads(arguments.threads)
    rows = []
    for model in arguments.models:
        for kind in arguments.types:
            program = ENGINES[OURS].program(prepare(model, kind, [OURS]))
            for part in arguments.parts:
                measured = measure(str(program), part)
                cells = [f"{share:.0f}" for share in shares(measured).values()]
                rows.append([f"{model} {kind}, {part}", _milliseconds(measured.untraced_median_ns), *cells])
                print(*rows[-1], flush=True)
    table = results.markdown_table(["", "a call", *WORK, REST, BETWEEN], rows)
    body = f"{INTRODUCTION.format(threads=arguments.threads)}\n\n{table}"
    print(f"\n{body}")
    if set(arguments.models) == set(SHAPES) and set(arguments.types) == set(TYPES):
        results.write_section("llm_profile", "Where the time of language models goes", body, results.RESULTS)


if __name__ == "__main__":
    main()
