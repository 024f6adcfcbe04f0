"""A device that computes with Apple's MLX (``mlx.core``). Without that package this imports, and says so when asked."""

from .device import MlxDevice, available, set_device

__all__ = ["MlxDevice", "available", "set_device"]
