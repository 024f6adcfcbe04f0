"""Train a small model again: `python -m examples.stand_ins NAME`."""

from __future__ import annotations

import argparse
from importlib import import_module

from examples.common import quiet, use_torchvision

NAMES = ("detector", "dial_tones", "number_words", "segmenter", "sums")
VISION = ("detector", "segmenter")


def main() -> None:
    """Train the model of a name and write its weights."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=NAMES)
    name = parser.parse_args().name
    quiet()
    if name in VISION:
        use_torchvision()
    import_module(f"examples.stand_ins.{name}").main()


if __name__ == "__main__":
    main()
