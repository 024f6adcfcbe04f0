"""Runs the cases on every executor that is available: ``python -m tests.webnn.wpt [executor ...] [-k operator]``.

Prints what does not pass and writes ``docs/webnn_conformance.md``.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from tests.webnn.wpt.cases import FOLDER, ROOT, cases, run
from tests.webnn.wpt.report import Verdict, page
from tests.webnn.wpt.tolerance import fault, superseded

from executorch_ggml import webnn
from executorch_ggml.webnn.registry import names

PAGE = ROOT / "docs" / "webnn_conformance.md"


def verdicts(executor: str, folder: Path, operators: tuple[str, ...]) -> list[Verdict]:
    """Every case's verdict on an executor."""
    context = webnn.ML().create_context(backend=executor)
    found = []
    for case in cases(folder, operators):
        if case.is_large or superseded(case):
            continue
        refused = False
        try:
            message = fault(case, run(case, context), folder)
        except webnn.OperationError as error:
            message, refused = str(error), True
        except Exception as error:  # whatever it is, the case has not passed
            message = f"{type(error).__name__}: {error}"
        found.append(Verdict(executor, case.suite, case.operator, case.name, message, refused))
        if message is not None:
            print(f"{executor} {case.operator} [{case.name}]: {message[:300]}")
    return found


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description="Run WebNN's conformance cases.")
    parser.add_argument("executors", nargs="*", help="which (all that are available)")
    parser.add_argument("-k", "--operator", action="append", default=[], help="only this operator; writes no page")
    parser.add_argument("--cases", type=Path, default=FOLDER, help="the folder with the cases")
    args = parser.parse_args()
    if not args.cases.is_dir():
        print(
            f"no WebNN conformance cases in {args.cases}: nothing to run (--cases or WEBNN_CASES says where they are)"
        )
        return 0
    found: list[Verdict] = []
    for executor in args.executors or names("executor"):
        try:
            found += verdicts(executor, args.cases, tuple(args.operator))
        except webnn.BackendUnavailable as error:
            print(f"{executor}: {error}")
    for executor in dict.fromkeys(verdict.executor for verdict in found):
        mine = [verdict for verdict in found if verdict.executor == executor]
        print(f"{executor}: {sum(verdict.passed for verdict in mine)} of {len(mine)}")
    if not args.operator and not args.executors:
        PAGE.write_text(page(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
