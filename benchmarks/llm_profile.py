"""Where the time of a language model goes: how much of a call is which kind of work, from samples of Linux's ``perf``.

The programs are those of :mod:`benchmarks.llm`. ``perf`` looks at the process while it reads tokens, and not while it
loads. Work is told from functions' names, which must be in the library: ``pip install --no-build-isolation -C
install.strip=false -e .`` keeps them there.
"""

from __future__ import annotations

import argparse
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from benchmarks import results
from benchmarks.llm import OURS, TYPES, prepare, turn_of
from benchmarks.llm_engines import make_engine
from executorch_ggml.benchmark.worker import Worker

ATTACH_SECONDS = 0.5
HERTZ = 997
MOST_NAMELESS = 20.0
WORK = {
    "products": r"integer_product|stream_|wide_product|Prepacked|multiply_halves|::Tile<.*Dot"
    r"|pack<|mul_mat|vec_dot|BLAS",
    "8 bits": r"quantize<|quantize_row",
    "attention": r"attention|avx\w+::.*::Tile|score_|sum_rows|sum_few|softmax_block|floats_from_halves"
    r"|scale_into|scale_and_add|pack_columns|pack_rows",
    "norms": r"rms_norm",
    "element by element": r"zip|elementwise|Runs::|rotary|rotate_|map<|unary",
    "cache, copies": r"memmove|memcpy|memset|take_rows|scatter|update_state|halves_from_floats|dequantize|floats_from_",
    "waiting": r"ggml_barrier|ggml_graph_compute",
}
"""What of a function's name tells its work; the first that matches."""
REST = "else"
INTRODUCTION = """\
{threads} threads; the programs of "Language models". How long a call takes, and how much of it (percent of the samples
of all threads) goes to which work: products with the weights, rounding activations to 8 bits for them, attention (with
widening and packing what is cached), normalizations, what is done element by element (SwiGLU, residuals, weights of
normalizations, rotary embeddings), writing the cache and other copies, waiting for the other threads after each node,
and all else: Python, the embedding, copies of logits."""


def work_of(function: str) -> str:
    """The kind of work that a function does."""
    return next((work for work, pattern in WORK.items() if re.search(pattern, function)), REST)


def functions_of(report: str) -> dict[str, float]:
    """The percentage of each function, from perf's own report."""
    found: dict[str, float] = defaultdict(float)
    for line in report.splitlines():
        if match := re.match(r"\s*([\d.]+)%\s+\[.\]\s+(.+)", line):
            found[match[2].strip()] += float(match[1])
    return found


def shares(functions: Mapping[str, float]) -> dict[str, float]:
    """The percentage of each kind of work."""
    nameless = sum(share for function, share in functions.items() if function.startswith("0x"))
    if nameless > MOST_NAMELESS:
        raise SystemExit(f"{nameless:.0f} % of the time is in functions without names: install unstripped (see --help)")
    found = dict.fromkeys([*WORK, REST], 0.0)
    for function, share in functions.items():
        found[work_of(function)] += share
    return found


def sample(worker: Worker, part: str, seconds: float) -> tuple[float, dict[str, float]]:
    """The milliseconds of a part's fastest call, and the percentage of each kind of work in all of them."""
    turn_of(worker, part)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "samples"
        command = ["perf", "record", "-q", "-F", str(HERTZ), "-o", str(data), "-p", str(worker.pid)]
        durations: list[float] = []
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as perf:
            time.sleep(ATTACH_SECONDS)
            while sum(durations) < seconds:
                durations += turn_of(worker, part)
            perf.send_signal(signal.SIGINT)
        command = ["perf", "report", "-i", str(data), "--stdio", "-F", "overhead,sym", "--percent-limit", "0"]
        report = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return 1000 * min(durations), shares(functions_of(report))


def _milliseconds(duration: float) -> str:
    return f"{duration:.1f} ms" if duration < 100 else f"{duration:.0f} ms"


def main() -> None:
    from benchmarks.random_gguf import SHAPES, TINY

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.llm_profile",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--models", nargs="+", default=list(SHAPES), choices=[*SHAPES, *TINY], metavar="MODEL")
    parser.add_argument("--types", nargs="+", default=list(TYPES), metavar="TYPE")
    parser.add_argument("--parts", nargs="+", default=["prefill 512", "decode 16", "decode 2048"], metavar="PART")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each part")
    arguments = parser.parse_args()
    if shutil.which("perf") is None:
        parser.error("needs perf (Debian's package linux-perf)")
    rows = []
    for model in arguments.models:
        for kind in arguments.types:
            path = prepare(model, kind, [OURS])
            with Worker(OURS, arguments.threads, make_engine) as worker:
                worker.ask("load", str(path))
                for part in arguments.parts:
                    duration, found = sample(worker, part, arguments.seconds)
                    cells = [f"{share:.0f}" for share in found.values()]
                    rows.append([f"{model} {kind}, {part}", _milliseconds(duration), *cells])
                    print(*rows[-1], flush=True)
    table = results.markdown_table(["", "a call", *WORK, REST], rows)
    body = f"{INTRODUCTION.format(threads=arguments.threads)}\n\n{table}"
    print(f"\n{body}")
    if set(arguments.models) == set(SHAPES) and set(arguments.types) == set(TYPES):
        results.write_section("llm_profile", "Where the time of language models goes", body, results.RESULTS)


if __name__ == "__main__":
    main()
