"""What a graph is made for. A program holds one graph for each target, and the runtime takes the one for its device."""

from __future__ import annotations

import enum


class Target(enum.IntEnum):
    """A target. The numbers are the wire format: append only."""

    CPU = 0  # the runtime's own kernels, weights in blocks
    GGML = 1  # stock ops of ggml, which its devices have
