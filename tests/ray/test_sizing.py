"""The calculator: bounds by cores and by bandwidth, memory, and its command."""

from __future__ import annotations

import sys

import pytest

from executorch_ggml.ray import sizing
from executorch_ggml.ray.sizing import Node, Workload, estimate

WORKLOAD = Workload(rate=10.0, bytes_per_item=1e9, program_bytes=3e9, actor_bytes=1e9, serial=0.2)


def test_bounds() -> None:
    assert estimate(WORKLOAD, Node(4, 100e9), 4, 1).rate == pytest.approx(40.0)
    one = estimate(WORKLOAD, Node(4, 100e9, object_store_bytes=2e9), 1, 4)
    assert one.rate == pytest.approx(10 / 0.4)
    assert (one.limit, one.memory) == ("cores", 6e9)
    bound = estimate(WORKLOAD, Node(4, 20e9), 4, 1)
    assert bound.rate == pytest.approx(20.0)
    assert (bound.limit, bound.memory) == ("bandwidth", 7e9)
    with pytest.raises(ValueError, match="4 actors of 2 threads, expected 1 to 4 threads in all"):
        estimate(WORKLOAD, Node(4, 20e9), 4, 2)


def test_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--rate", "10", "--memory-bytes", "1e9", "--cores", "4", "--bandwidth", "20e9", "--nodes", "3"]
    monkeypatch.setattr(sys, "argv", ["sizing", *arguments])
    sizing.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "calculated, not measured"
    assert [line.split()[0] for line in lines[2:]] == ["4", "2", "1"]
    assert "60.0   bandwidth" in lines[2]
