"""What a command's argument MODEL names: a module with example inputs, or an exported program."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.util import module_from_spec, spec_from_file_location
from inspect import signature
from pathlib import Path
from typing import Any

import torch

from ..images import ImageInput, of_timm, of_torchvision
from ..progress import stage
from .checkpoints import class_of, pretrained

KINDS = (
    "torchvision:NAME or timm:NAME, package.module:FUNCTION or file.py:FUNCTION that returns a module and its example "
    "inputs, a .pt2 file of torch.export, or the folder of a transformers checkpoint"
)


@dataclass(frozen=True)
class Model:
    """A module in evaluation mode with example inputs; ``exported`` is what a .pt2 file has, with its own sizes.

    ``image`` says how images become its input, where the library that it is of knows.
    """

    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    exported: torch.export.ExportedProgram | None = None
    image: ImageInput | None = None


def model_of(name: str, *, random_weights: bool = False) -> Model:
    """The model that an argument names. Raises ValueError for what names none, with the forms that there are."""
    with stage(f"loading {name}"):
        return _model_of(name, random_weights)


def _model_of(name: str, random_weights: bool) -> Model:
    path = Path(name)
    if path.is_dir():
        return _checkpoint(path)
    if path.suffix == ".pt2":
        return _exported(path)
    if path.is_file():
        raise ValueError(f"{name}: not a GGUF file; expected that, or {KINDS}")
    library, colon, what = name.rpartition(":")
    if not colon:
        raise ValueError(f"{name}: expected {KINDS}")
    if library in _LIBRARIES:
        return _LIBRARIES[library](what, random_weights)
    return _from_function(library, what)


def import_code_of(name: str) -> None:
    """Import the code of the model that an argument names, so that it can be unpickled, and takes no time to import."""
    path = Path(name)
    library, colon, _ = name.rpartition(":")
    if path.is_dir():
        class_of(path)
    elif path.exists() or not colon:
        return
    elif library in _LIBRARIES:
        importlib.import_module(library)
    else:
        _module(library)


def with_inputs(model: Model, shapes: Sequence[str]) -> Model:
    """The model with random inputs of these shapes, like "1x3x224x224" or "1x128:int64", in place of its own."""
    if shapes and model.exported is not None:
        raise ValueError("--input-shape: a .pt2 file has the inputs that it was exported with")
    return replace(model, args=tuple(_random(text) for text in shapes), kwargs={}) if shapes else model


_SHAPE = re.compile(r"(?P<sizes>\d+(x\d+)*)?(:(?P<dtype>\w+))?")


def _random(text: str) -> torch.Tensor:
    match = _SHAPE.fullmatch(text)
    dtype = getattr(torch, (match["dtype"] if match else None) or "float32", None)
    if match is None or not isinstance(dtype, torch.dtype):
        raise ValueError(f"--input-shape {text}: expected sizes and a dtype, like 1x3x224x224 or 1x128:int64")
    sizes = [int(size) for size in (match["sizes"] or "").split("x") if size]
    return random_tensor(sizes, dtype, torch.Generator().manual_seed(0))


def random_tensor(sizes: Sequence[int], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Of the normal distribution, or integers below 2 for dtypes without fractions: any table has such rows."""
    if dtype.is_floating_point:
        return torch.randn(*sizes, generator=generator).to(dtype)
    return torch.randint(0, 2, tuple(sizes), generator=generator).to(dtype)


_DYNAMIC = re.compile(r"(?P<where>\w+)(\.(?P<dim>\d+))?=(?P<least>\d+):(?P<most>\d+)")


def with_dynamic(model: Model, texts: Sequence[str]) -> tuple[Model, Any]:
    """The model and what torch.export takes as its dynamic shapes.

    Texts are like "batch=1:64" (dim 0 of all inputs) or "x.2=16:512" (dim 2 of input x). An example input of size 1 in
    such a dim is repeated: torch.export takes that size for a constant.
    """
    if not texts:
        return model, None
    if model.exported is not None:
        raise ValueError("--dynamic: a .pt2 file has the sizes that it was exported with; give them to torch.export")
    bound = signature(model.module.forward).bind(*model.args, **model.kwargs)
    shapes: dict[str, Any] = {name: _no_dims(value) for name, value in bound.arguments.items()}
    for text in texts:
        match = _DYNAMIC.fullmatch(text)
        if match is None:
            raise ValueError(f"--dynamic {text}: expected batch=1:64 for all inputs, or INPUT.DIM=1:512")
        axis = int(match["dim"] or 0)
        name_of_dim = match["where"] + (f"_{axis}" if match["dim"] else "")
        dim = torch.export.Dim(name_of_dim, min=int(match["least"]), max=int(match["most"]))
        for name in list(shapes) if match["dim"] is None else [match["where"]]:
            tensor = bound.arguments.get(name)
            if not isinstance(tensor, torch.Tensor) or axis >= tensor.dim():
                raise ValueError(f"--dynamic {text}: no input {name} with a dim {axis}, there are {', '.join(shapes)}")
            shapes[name][axis] = dim
            if tensor.shape[axis] == 1:
                bound.arguments[name] = tensor.repeat_interleave(2, axis)
    return replace(model, args=bound.args, kwargs=bound.kwargs), shapes


def _no_dims(value: Any) -> Any:
    return {} if isinstance(value, torch.Tensor) else None


def _from_function(where: str, function: str) -> Model:
    """What a function returns: (module, args) or (module, args, kwargs)."""
    found = getattr(_module(where), function, None)
    if not callable(found):
        raise ValueError(f"{where} has no function {function}")
    returned = found()
    if not isinstance(returned, tuple) or len(returned) not in (2, 3) or not isinstance(returned[0], torch.nn.Module):
        raise ValueError(f"{where}:{function} returned {type(returned).__name__}, expected (module, inputs)")
    module, args, *kwargs = returned
    return Model(module.eval(), tuple(args), dict(kwargs[0]) if kwargs else {})


def _module(where: str) -> Any:
    path = Path(where)
    if path.suffix == ".py":
        return _file(path)
    sys.path.insert(0, "")  # as `python -m` does
    try:
        return importlib.import_module(where)
    except ModuleNotFoundError as error:
        if error.name is None or not where.startswith(error.name):
            raise
        raise ValueError(f"{where}: no such module; expected {KINDS}") from error


def _file(path: Path) -> Any:
    """A file as a module, whatever modules are called like it; it imports those beside it, as a script does."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    sys.path.insert(0, str(path.parent.resolve()))
    spec = spec_from_file_location(f"_model_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # where classes look for the module that they are of
    spec.loader.exec_module(module)
    return module


def _exported(path: Path) -> Model:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    program = torch.export.load(path)
    if program.example_inputs is None:
        raise ValueError(f"{path}: it was saved without its example inputs")
    args, kwargs = program.example_inputs
    return Model(program.module(), tuple(args), dict(kwargs), program)


@contextmanager
def _downloading(name: str) -> Iterator[None]:
    """Have a failed download say what to do without it."""
    try:
        yield
    except OSError as error:
        raise ConnectionError(
            f"{name}: its weights could not be downloaded: {error}; --random-weights goes without"
        ) from error


def _torchvision(name: str, random_weights: bool) -> Model:
    from torchvision import models

    if name not in models.list_models():
        raise ValueError(f"torchvision has no model {name!r}; torchvision.models.list_models() lists them")
    image = of_torchvision(name)
    with _downloading(f"torchvision:{name}"):
        module = models.get_model(name, weights=None if random_weights else "DEFAULT")
    crop = getattr(models.get_weight(image.options["weights"]).transforms(), "crop_size", None)
    size = getattr(module, "image_size", None) or (crop[0] if crop else 224)  # vision transformers have one alone
    example = torch.randn(1, 3, size, size, generator=torch.Generator().manual_seed(0))
    return Model(module.eval(), (example,), image=image)


def _timm(name: str, random_weights: bool) -> Model:
    import timm

    if not timm.is_model(name):
        raise ValueError(f"timm has no model {name!r}; timm.list_models() lists them")
    with _downloading(f"timm:{name}"):
        module = timm.create_model(name, pretrained=not random_weights)
    image = of_timm(module)
    example = torch.randn(1, *image.options["input_size"], generator=torch.Generator().manual_seed(0))
    return Model(module.eval(), (example,), image=image)


_LIBRARIES: dict[str, Callable[[str, bool], Model]] = {"torchvision": _torchvision, "timm": _timm}


def _checkpoint(folder: Path) -> Model:
    """A model of ``transformers`` that reads images or tokens alone."""
    module = pretrained(folder)
    example = _EXAMPLES.get(module.main_input_name)
    if example is None:
        raise ValueError(
            f"{folder}: {type(module).__name__} reads {module.main_input_name}, for which no example is known here; "
            f"write a function that returns the module and its inputs, and pass package.module:FUNCTION"
        )
    return Model(module, (), {module.main_input_name: example(module.config)})


def _pixels(config: Any) -> torch.Tensor:
    height, width = config.image_size if isinstance(config.image_size, (list, tuple)) else (config.image_size,) * 2
    return torch.randn(1, config.num_channels, height, width, generator=torch.Generator().manual_seed(0))


_EXAMPLES: dict[str, Callable[[Any], torch.Tensor]] = {
    "pixel_values": _pixels,
    "input_ids": lambda _: torch.ones(1, 16, dtype=torch.int64),
}
