"""How rows are put on the cores of a machine."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from benchmarks.side_by_side import lanes_of, one_of_each_core, run_all


def test_one_cpu_of_each_core(tmp_path: Path) -> None:
    for cpu, siblings in enumerate(["0,2", "1,3", "0,2", "1,3"]):
        folder = tmp_path / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{siblings}\n")
    assert one_of_each_core([3, 0, 2, 1], tmp_path) == [0, 1]
    assert one_of_each_core([2, 3], tmp_path) == [2, 3]


def test_cpus_are_cores_where_the_system_does_not_say(tmp_path: Path) -> None:
    assert one_of_each_core([0, 1, 2], tmp_path) == [0, 1, 2]


def test_a_lane_is_left_to_the_system() -> None:
    assert lanes_of(range(7), 2) == [[0, 1], [2, 3]]
    assert lanes_of([4, 5], 2) == [[4, 5]]
    with pytest.raises(ValueError, match="4 threads need as many cores; this process may use 2"):
        lanes_of([0, 1], 4)


@pytest.mark.skipif(shutil.which("taskset") is None, reason="taskset is missing")
def test_each_command_has_its_lane(tmp_path: Path) -> None:
    cpu = min(os.sched_getaffinity(0))
    says = "import os, sys; open(sys.argv[1], 'w').write(str(os.sched_getaffinity(0)))"
    good = [[sys.executable, "-c", says, str(tmp_path / name)] for name in ("a", "b")]
    bad = [sys.executable, "-c", "raise SystemExit(3)"]
    assert run_all([good[0], bad, good[1]], [[cpu]]) == [bad]
    assert {path.read_text() for path in tmp_path.iterdir()} == {str({cpu})}
