"""Checks all architectures, or some, and writes docs/architectures.md: ``python -m tests.architectures [NAME ...]``.

The verdicts on the others are those of earlier runs. Prints what is not right, and fails where a result is wrong or a
program that was exported cannot run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.architectures.report import BROKEN, names, page
from tests.architectures.run import run
from tests.architectures.table import ARCHITECTURES

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "architectures.md"
VERDICTS = ROOT / "build" / "architectures.json"


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description="Check architectures end to end and write docs/architectures.md.")
    parser.add_argument("names", nargs="*", help="which (all)")
    parser.add_argument("-n", "--workers", type=int, default=os.cpu_count() or 1, help="how many processes at a time")
    parser.add_argument("--check", action="store_true", help="only check that the page has the table's architectures")
    args = parser.parse_args()
    if args.check:
        return _check()
    if unknown := [name for name in args.names if name not in ARCHITECTURES]:
        parser.error(f"no such architecture: {', '.join(unknown)}; there are {', '.join(ARCHITECTURES)}")
    known = {} if not args.names else _known()
    VERDICTS.parent.mkdir(exist_ok=True)
    with ThreadPoolExecutor(args.workers) as workers:
        for found in workers.map(run, args.names or ARCHITECTURES):
            known[found["name"]] = found
            VERDICTS.write_text(json.dumps(known, indent=1))
            if found["outcome"] != "right":
                print(f"{found['name']}: {found['outcome']}: {found.get('reason') or found['error']}", flush=True)
    PAGE.write_text(page([known[name] for name in ARCHITECTURES if name in known]))
    return int(any(found["outcome"] in BROKEN for found in known.values()))


def _known() -> dict[str, Any]:
    """The verdicts of earlier runs."""
    found: dict[str, Any] = json.loads(VERDICTS.read_text()) if VERDICTS.exists() else {}
    return found


def _check() -> int:
    listed = names(PAGE.read_text()) if PAGE.exists() else []
    if listed == list(ARCHITECTURES):
        return 0
    print("docs/architectures.md has other architectures than the table: run make architectures", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
