"""An operand, as users of the builder hold it."""

from __future__ import annotations

from .graph_info import Operand


class MLOperand:
    """A tensor of the graph being built; ``builder`` is what builds it."""

    __slots__ = ("_builder", "_id", "_info", "_name")

    def __init__(self, builder: object, place: int, info: Operand, name: str = "") -> None:
        self._builder = builder
        self._id = place
        self._info = info
        self._name = name

    @property
    def data_type(self) -> str:
        """Its data type, such as "float32"."""
        return self._info.data_type

    @property
    def shape(self) -> list[int]:
        """Its dimensions, outermost first."""
        return list(self._info.shape)

    @property
    def name(self) -> str | None:
        """An input's name; None for other operands."""
        return self._name or None

    def __repr__(self) -> str:
        return f"MLOperand({self._name + ': ' if self._name else ''}{self._info})"
