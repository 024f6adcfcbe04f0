"""Write README.md's table of this project beside its peers, from benchmarks/RESULTS.md.

    python -m tools.peers_table [--check]

The figures are those of the first table of the first section of models: their milliseconds and the ratio to the fastest
peer, as they stand there.
"""

from __future__ import annotations

import argparse
import re

from tools.snippets import README, ROOT

RESULTS = ROOT / "benchmarks" / "RESULTS.md"
BEGIN, END = "<!-- peers: begin -->\n", "<!-- peers: end -->"
COLUMNS = ("model", "ggml (ours)", "XNNPACK", "eager", "ONNX Runtime", "OpenVINO", "best peer / ours")


def table(text: str) -> str:
    """The table, from the text of the results."""
    section = re.search(r"^## Models: (?P<machine>[^\n]+)$\n(?P<body>.*?)(?=^## )", text, re.MULTILINE | re.DOTALL)
    if section is None:
        raise SystemExit(f"{RESULTS} has no section of models; run `make bench BENCH=models`")
    found = re.search(r"(?:^\|.*\n)+", section["body"], re.MULTILINE)
    if found is None:
        raise SystemExit(f"{RESULTS}: the section of models has no table")
    lines = found[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    if missing := set(COLUMNS) - set(cells[0]):
        raise SystemExit(f"{RESULTS}: the table of models has no column {', '.join(sorted(missing))}")
    chosen = [cells[0].index(column) for column in COLUMNS]
    rows = [[re.sub(r" \(.*x\)", "", row[index]) for index in chosen] for row in cells[2:]]
    head = ["| " + " | ".join(COLUMNS) + " |", "| --- |" + " ---: |" * (len(COLUMNS) - 1)]
    return "\n".join([f"{section['machine']}:", "", *head, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Write README.md's table of peers.")
    parser.add_argument("--check", action="store_true", help="only see whether it is up to date")
    check: bool = parser.parse_args().check
    page = README.read_text("utf-8")
    before, rest = page.split(BEGIN, 1)
    _, after = rest.split(END, 1)
    written = before + BEGIN + table(RESULTS.read_text("utf-8")) + END + after
    if check and written != page:
        raise SystemExit("README.md: the table of peers is not that of benchmarks/RESULTS.md; run `make generate`")
    README.write_text(written, "utf-8")


if __name__ == "__main__":
    main()
