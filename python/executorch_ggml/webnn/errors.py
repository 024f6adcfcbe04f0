"""What can go wrong, by kind. Wrong arguments are TypeError, as in the specification."""

from __future__ import annotations


class BackendUnavailable(RuntimeError):  # noqa: N818 - a state more than a mistake
    """A backend that cannot run on this machine; the message says what it lacks."""


class InvalidStateError(RuntimeError):
    """A builder, graph, tensor or context that can no longer be used."""


class OperationError(RuntimeError):
    """A valid graph that a backend cannot do; the message names every operation that it cannot."""


class GraphFileError(ValueError):
    """A graph file that is damaged, or no graph file."""
