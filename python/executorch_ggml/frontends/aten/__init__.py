"""The ATen frontend: an exported (or Edge) program as the canonical IR; `ops/` has a function an overload."""

from . import ops
from .graph import Lowering
from .registry import LOWERINGS, Refused, lowers

__all__ = ["LOWERINGS", "Lowering", "Refused", "lowers", "ops"]
