"""The names of a module's parameters, of which a tied one has several."""

from __future__ import annotations

from torch import nn


def all_names(module: nn.Module) -> dict[str, tuple[str, ...]]:
    """All names of each parameter, by the first of them."""
    first = {id(parameter): name for name, parameter in module.named_parameters()}
    names: dict[str, tuple[str, ...]] = dict.fromkeys(first.values(), ())
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names[first[id(parameter)]] += (name,)
    return names
