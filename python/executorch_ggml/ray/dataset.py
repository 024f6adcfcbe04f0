"""``Dataset.map_batches`` with actors whose CPUs and threads agree."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .columns import Array, Batch
from .program import PathOrBytes, shared

if TYPE_CHECKING:
    import ray.data


def map_batches(
    dataset: ray.data.Dataset,
    actor: type[Callable[[Batch], dict[str, Array]]],
    program: PathOrBytes,
    *,
    actors: int | tuple[int, int] = 1,
    num_threads: int = 1,
    batch_size: int = 32,
    ray_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> ray.data.Dataset:
    """Map a dataset with actors of a class, each with a program that it loads once.

    ``actors`` is their number, or the least and the most. Each computes on ``num_threads`` threads and takes as many of
    Ray's CPUs. A program's path has to be there on every node; its bytes are put into the object store once, and
    written to a file once a node. ``options`` are those of the class, ``ray_options`` more of ``Dataset.map_batches``.
    """
    try:
        import ray
        from ray.data import ActorPoolStrategy
    except ImportError as error:
        raise ImportError('Ray Data is not installed: pip install "executorch-ggml[ray]"') from error

    least, most = (actors, actors) if isinstance(actors, int) else actors
    if not 0 < least <= most or num_threads < 1:
        raise ValueError(
            f"actors {actors}, num_threads {num_threads}: expected 1 or more of each, the least before the most"
        )
    inspect.signature(actor).bind(program, num_threads=num_threads, **options)  # a TypeError here, not in each actor
    _warn_without_spare_cpu(ray, least * num_threads)
    return dataset.map_batches(
        actor,
        fn_constructor_args=(shared(program),),
        fn_constructor_kwargs={"num_threads": num_threads, **options},
        batch_size=batch_size,
        batch_format="numpy",
        compute=ActorPoolStrategy(size=actors)
        if isinstance(actors, int)
        else ActorPoolStrategy(min_size=least, max_size=most),
        num_cpus=num_threads,
        **(ray_options or {}),
    )


def _warn_without_spare_cpu(ray: Any, used: int) -> None:
    """Say where the actors take every CPU: tasks that read the dataset then wait for ever."""
    if not ray.is_initialized():
        ray.init()
    total = int(ray.cluster_resources().get("CPU", 0))
    if used >= total:
        warnings.warn(
            f"the actors take {used} of the cluster's {total} CPUs, and none is left for the tasks that read the "
            f"dataset, which wait until the cluster grows: take fewer actors, or ray.init(num_cpus={used + 1})",
            stacklevel=3,
        )
