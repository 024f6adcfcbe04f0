"""Runs ExecuTorch's backend test suite on this backend: ``python -m tests.conformance [operators] [models]``.

Prints what did not go well, writes ``docs/conformance.md``, and fails where a test fails.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.conformance.report import page, problems

ROOT = Path(__file__).resolve().parents[2]
VERDICTS = ROOT / "build" / "conformance"
PAGE = ROOT / "docs" / "conformance.md"
SUITES = ("operators", "models")
PACKAGE = "executorch.backends.test.suite"


def run(suite: str, workers: int, pattern: str) -> list[dict[str, Any]]:
    """One suite's verdicts, newly found; kept with those of earlier runs on other tests."""
    target = VERDICTS / "new.json"
    target.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "--no-header", "-p", "tests.conformance.plugin"]
    command += ["-c", str(ROOT / "tests/conformance/pytest.ini"), "--rootdir", str(ROOT), "--verdicts", str(target)]
    command += ["-n", str(workers), "-k", pattern, "--pyargs", f"{PACKAGE}.{suite}"]
    subprocess.run(command, cwd=ROOT, check=False)  # failing tests are told of below
    found = read(target)
    kept = {} if not pattern else {verdict["test"]: verdict for verdict in read(VERDICTS / f"{suite}.json")}
    every = kept | {verdict["test"]: verdict for verdict in found}
    (VERDICTS / f"{suite}.json").write_text(json.dumps(list(every.values()), indent=1))
    return found


def read(path: Path) -> list[dict[str, Any]]:
    """The verdicts in a file; none where there is no such file."""
    found: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    return found


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description="Run ExecuTorch's backend test suite on this backend.")
    parser.add_argument("suites", nargs="*", choices=[*SUITES, []], help="which (all)")
    parser.add_argument("-n", "--workers", type=int, default=os.cpu_count() or 1, help="how many processes")
    parser.add_argument(
        "-k", "--pattern", default="", help="only tests that match, as pytest's -k; the others keep their last verdict"
    )
    args = parser.parse_args()
    verdicts = [verdict for suite in args.suites or SUITES for verdict in run(suite, args.workers, args.pattern)]
    for line in problems(verdicts):
        print(line)
    PAGE.write_text(page([verdict for suite in SUITES for verdict in read(VERDICTS / f"{suite}.json")]))
    return int(not verdicts or any(verdict["outcome"] == "failed" for verdict in verdicts))


if __name__ == "__main__":
    sys.exit(main())
