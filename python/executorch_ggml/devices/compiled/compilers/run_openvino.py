"""A program: ``run_openvino.py MODEL BLOB [NAME=VALUE ...]`` writes what OpenVINO's CPU plugin makes of a model."""

import sys
from pathlib import Path

import openvino


def main(model: str, blob: str, *options: str) -> None:
    """Compile a model file."""
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model), "CPU", dict(option.split("=") for option in options))
    Path(blob).write_bytes(compiled.export_model().getvalue())


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception as error:
        sys.exit(f"openvino: {error}")
