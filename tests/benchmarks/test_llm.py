"""What the benchmark of language models measures, and in which order."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.llm import Measured, Plan
from benchmarks.llm_engines import ENGINES
from benchmarks.llm_profile import WORK, shares

from executorch_ggml.ir.ops import OPS
from executorch_ggml.profiling import NodeProfile, Profile


def plan(prefills: tuple[int, ...] = (32, 128, 512), contexts: tuple[int, ...] = (16, 512, 2048)) -> Plan:
    return Plan(list(ENGINES), prefills, contexts, threads=2, rounds=2, repeats=2)


def test_parts_go_on_where_others_ended() -> None:
    prefills = ["prefill 32", "prefill 128", "prefill 512"]
    assert plan().order(0) == [*prefills, "decode 512", "decode 2048", "decode 16"]
    assert set(plan().order(0)) == set(plan().parts)


def test_what_reads_most_is_measured_once() -> None:
    assert set(plan().parts) - set(plan().order(1)) == {"decode 2048"}
    assert [plan().rounds_of(part) for part in ("prefill 128", "prefill 512", "decode 2048")] == [2, 1, 2]


def test_only_decoding_or_prefill() -> None:
    assert plan(prefills=()).order(0) == ["decode 16", "decode 512", "decode 2048"]
    assert plan(contexts=()).order(1) == ["prefill 32", "prefill 128", "prefill 512"]


def test_repeats_keep_every_part() -> None:
    first, second = Measured(times={"prefill 32": [2.0], "decode 2048": [0.5]}), Measured(times={"prefill 32": [1.0]})
    both = first.with_more(second)
    assert both.times == {"prefill 32": [2.0, 1.0], "decode 2048": [0.5]}
    assert both.rate("prefill 32") == 32.0
    assert both.rate("decode 2048") == 2.0


def test_engines_of_a_file() -> None:
    fitting = {kind: plan().engines_for(f"tiny {kind}") for kind in ("f16", "bf16", "q4_0", "q8_0")}
    assert fitting["f16"] == fitting["bf16"] == ["ggml", "ggml-bf16", "llama.cpp", "transformers"]
    assert fitting["q4_0"] == ["ggml", "ggml-panels", "llama.cpp", "xnnpack"]
    assert fitting["q8_0"] == ["ggml", "llama.cpp"]


def node(op: str, nanoseconds: float, joined: tuple[str, ...] = ()) -> NodeProfile:
    return NodeProfile(0, 0, op, op, "own", "f32", (1,), "CPU", (), 1, nanoseconds, nanoseconds, joined=joined)


def test_a_layer_s_work_is_that_of_its_product() -> None:
    fused = node("add", 20, ("aten_linear_default_3",))
    nodes = (node("linear", 30), node("mul_mat", 10), fused, node("attention", 10), node("add", 10), node("iota", 5))
    found = shares(Profile("", "forward", 1, 100, 100, 90, (), nodes))
    assert {work: share for work, share in found.items() if share} == pytest.approx(
        {"products": 60, "attention": 10, "element by element": 10, "else": 5, "between nodes": 15}
    )


def test_work_is_told_by_ops_of_the_table() -> None:
    assert {op for ops in WORK.values() for op in ops} <= set(OPS)


WORKERS = """
from pathlib import Path
from benchmarks.llm import Worker

class Libraries:
    def __init__(self, engine, threads, folder):
        pass

    def loaded(self):
        return "libggml" in Path("/proc/self/maps").read_text()

if __name__ == "__main__":
    for engine in ("llama.cpp", "ggml"):
        with Worker(engine, 1, Libraries) as worker:
            print(engine, worker.ask("loaded"))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the process's libraries are read from /proc")
def test_llama_cpp_has_its_process_without_our_ggml(tmp_path: Path) -> None:
    (tmp_path / "workers.py").write_text(WORKERS)
    root = Path(__file__).parents[2]
    run = subprocess.run(
        [sys.executable, tmp_path / "workers.py"],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    assert run.stdout.split("\n")[:2] == ["llama.cpp False", "ggml True"]
