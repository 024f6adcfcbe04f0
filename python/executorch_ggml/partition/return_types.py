"""Names for torch's named results (of max, sort, median …), so that a program may return one.

ExecuTorch writes the structure of a program's outputs by the names of its types, and torch registers these without.
"""

from __future__ import annotations

import torch
from torch.utils import _pytree as pytree


def name_return_types() -> None:
    """Register a serialized name for each type of `torch.return_types` that has none."""
    for name in dir(torch.return_types):
        cls = getattr(torch.return_types, name)
        known = pytree.SUPPORTED_SERIALIZED_TYPES.get(cls) if isinstance(cls, type) else None
        if known is not None and known.serialized_type_name == pytree.NO_SERIALIZED_TYPE_NAME_FOUND:
            full_name = f"torch.return_types.{name}"
            pytree.SUPPORTED_SERIALIZED_TYPES[cls] = known._replace(serialized_type_name=full_name)
            pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE[full_name] = cls
