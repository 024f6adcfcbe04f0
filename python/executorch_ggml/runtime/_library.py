"""The runtime library: loading it registers GgmlBackend with ExecuTorch."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from pathlib import Path

from .. import _session
from .session import DeviceNames, device_list

PACKAGE = Path(__file__).resolve().parents[1]
_SUFFIX = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
_PREFIX = "" if sys.platform == "win32" else "lib"


def library_path() -> Path:
    """Where the runtime library is."""
    name = f"{_PREFIX}executorch_ggml_runtime{_SUFFIX}"
    folders = (Path(_session.__file__).parent, PACKAGE)
    for folder in (folder / sub for folder in folders for sub in ("lib", ".")):
        if (folder / name).exists():
            return folder / name
    raise ImportError(f"{name} is not in {[str(folder) for folder in folders]}; build the project with `make setup`")


@functools.lru_cache(maxsize=1)
def load_delegate() -> ctypes.CDLL:
    """Load the runtime library, once; ``executorch.runtime`` then finds GgmlBackend."""
    library = ctypes.CDLL(str(library_path()))
    library.executorch_ggml_last_error.restype = ctypes.c_char_p
    library.executorch_ggml_set_device.argtypes = [ctypes.c_char_p]
    library.executorch_ggml_open_gguf.restype = ctypes.c_uint64
    library.executorch_ggml_open_gguf.argtypes = [ctypes.c_char_p]
    library.executorch_ggml_close_gguf.argtypes = [ctypes.c_uint64]
    if not library.executorch_ggml_is_registered():
        raise ImportError("ExecuTorch refused to register GgmlBackend: another copy of it is loaded already")
    return library


def last_error() -> str:
    """The delegate's last error message on this thread."""
    message: bytes = load_delegate().executorch_ggml_last_error()
    return message.decode(errors="replace")


def clear_error() -> None:
    """Forget the delegate's last error message on this thread."""
    load_delegate().executorch_ggml_clear_error()


def open_gguf(path: str) -> int:
    """Open a GGUF file for methods that are loaded until :func:`close_gguf` is called with its number."""
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path}: no such GGUF file")
    clear_error()
    number = int(load_delegate().executorch_ggml_open_gguf(os.fsencode(path)))
    if number == 0:
        raise RuntimeError(last_error())
    return number


def close_gguf(number: int) -> None:
    """Close a file for methods that are loaded from now on."""
    load_delegate().executorch_ggml_close_gguf(number)


def set_num_threads(threads: int) -> None:
    """CPU threads of the programs loaded from now on; 0 restores EXECUTORCH_GGML_NUM_THREADS, or one a core."""
    if threads < 0:
        raise ValueError(f"set_num_threads: {threads}, expected 0 or more")
    load_delegate().executorch_ggml_set_num_threads(threads)
    _session.set_default_threads(threads)


def set_device(device: DeviceNames) -> None:
    """The device of programs loaded from now on, or several; "" restores EXECUTORCH_GGML_DEVICE, or the CPU.

    ``"Vulkan0"``; ``"CUDA0=3,CUDA1=1"`` or ``{"CUDA0": 3, "CUDA1": 1}``, with a share of the weights and states each;
    ``["CUDA0", "CUDA1"]``, by free memory; ``"Vulkan0,cpu"``, where the CPU has what has no room elsewhere.
    """
    load_delegate().executorch_ggml_set_device(device_list(device).encode())


def get_num_threads() -> int:
    """CPU threads of the programs loaded from now on."""
    return int(_session.default_threads())
