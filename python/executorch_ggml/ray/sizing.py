"""How much memory a node needs, and how many images or tokens a second it computes: a roofline, from one measurement.

    python -m executorch_ggml.ray.sizing --rate 30 --memory-bytes 2e8 --cores 64 --bandwidth 300e9 --nodes 100

Nothing here was measured on a cluster: it extrapolates from one actor on one thread.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass


@dataclass(frozen=True)
class Workload:
    """A program, as one actor with one thread runs it."""

    rate: float
    """Images or tokens a second of one actor on one thread."""
    bytes_per_item: float
    """Bytes read from memory for an image or a token: of a language model, its weights for each token."""
    program_bytes: float
    """The size of the file, which the actors of a node map and share."""
    actor_bytes: float
    """Memory of an actor's own: Python and torch, activations, a key-value cache."""
    serial: float = 0.05
    """The part of the time that more threads do not shorten."""


@dataclass(frozen=True)
class Node:
    """A machine."""

    cores: int
    bandwidth: float
    """Bytes a second that all cores together read from memory."""
    object_store_bytes: float = 0.0
    """What Ray's object store may take."""


@dataclass(frozen=True)
class Estimate:
    """What actors on a node need and compute."""

    rate: float
    """Items a second."""
    limit: str
    """What bounds the rate: ``cores`` or ``bandwidth``."""
    memory: float
    """Bytes."""


def estimate(workload: Workload, node: Node, actors: int, threads: int) -> Estimate:
    """What a number of actors with some threads each do on a node. Raises ValueError for more threads than cores."""
    if actors < 1 or threads < 1 or actors * threads > node.cores:
        raise ValueError(f"{actors} actors of {threads} threads, expected 1 to {node.cores} threads in all")
    speedup = 1 / (workload.serial + (1 - workload.serial) / threads)
    computed = actors * workload.rate * speedup
    read = node.bandwidth / workload.bytes_per_item
    memory = workload.program_bytes + actors * workload.actor_bytes + node.object_store_bytes
    return Estimate(min(computed, read), "cores" if computed <= read else "bandwidth", memory)


def main() -> None:
    """Print a table for one node, by actors and threads, and for a number of such nodes."""
    parser = argparse.ArgumentParser(prog="python -m executorch_ggml.ray.sizing", description=__doc__)
    parser.add_argument("--rate", type=float, required=True, help="items a second of one actor on one thread, measured")
    parser.add_argument("--memory-bytes", type=float, required=True, help="bytes read from memory for each item")
    parser.add_argument("--program-bytes", type=float, default=0.0, help="size of the program")
    parser.add_argument("--actor-bytes", type=float, default=7e8, help="memory of an actor's own (0.7 GB)")
    parser.add_argument(
        "--serial", type=float, default=0.05, help="part of the time that threads do not shorten (0.05)"
    )
    parser.add_argument("--cores", type=int, required=True, help="cores of a node")
    parser.add_argument("--bandwidth", type=float, required=True, help="bytes a second of a node's memory")
    parser.add_argument("--nodes", type=int, default=1)
    options = parser.parse_args()
    workload = Workload(options.rate, options.memory_bytes, options.program_bytes, options.actor_bytes, options.serial)
    node = Node(options.cores, options.bandwidth)
    print("calculated, not measured\nactors x threads   items/s a node   items/s in all   bound by    memory a node")
    for threads in sorted({2**power for power in range(options.cores.bit_length())} | {options.cores}):
        actors = options.cores // threads
        result = estimate(workload, node, actors, threads)
        print(
            f"{f'{actors} x {threads}':<16} {result.rate:>16.1f} {result.rate * options.nodes:>16.1f}   "
            f"{result.limit:<9} {result.memory / 1e9:>10.2f} GB"
        )


if __name__ == "__main__":
    main()
