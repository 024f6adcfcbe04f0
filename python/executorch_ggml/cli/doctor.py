"""``executorch-ggml doctor``: what is installed here, what it can use, and what is missing."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
from pathlib import Path
from typing import Any

import click

from .. import __version__
from . import options
from .output import show

_EXTRAS = ("demo", "llm", "vision", "ray", "bench", "webnn", "mlx", "compiled")


@click.command("doctor", short_help="Say what is installed, in use, and missing.")
@options.as_json
def command(as_json: bool) -> None:
    """Say which versions, CPU kernels and devices are in use, and what optional parts miss.

    Fails where a required package is missing or has another version than this was built for.
    """
    from packaging.requirements import Requirement

    required, optional = _requirements(Requirement)
    parts = {"executorch-ggml": list(required.values()), **optional}
    facts = {
        "executorch-ggml": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "packages": {name: _state(requirement) for name, requirement in required.items()},
        "extras": {extra: [each.name for each in _wrong(optional[extra])] for extra in _EXTRAS},
        "install": {part: _pip(wrong) for part, needs in parts.items() if (wrong := _wrong(needs))},
        **_engine(),
    }
    show(facts, as_json, _lines(facts))
    wrong = [f"{name} ({state})" for name, state in facts["packages"].items() if not state[0].isdigit()]
    if wrong:
        raise ValueError(f"{', '.join(wrong)}: {facts['install']['executorch-ggml']}")


def _requirements(parse: Any) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """The packages that this one needs, and those of each extra that people use."""
    required: dict[str, Any] = {}
    optional: dict[str, list[Any]] = {extra: [] for extra in _EXTRAS}
    for text in importlib.metadata.requires("executorch-ggml") or []:
        requirement = parse(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            required[requirement.name] = requirement
            continue
        for extra in _EXTRAS:
            if requirement.marker.evaluate({"extra": extra}):
                optional[extra].append(requirement)
    return required, optional


def _state(requirement: Any) -> str:
    """The installed version, or what is wrong with it."""
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return "missing"
    fits = requirement.specifier.contains(version, prereleases=True)
    return version if fits else f"is {version}, expected {requirement.specifier}"


def _wrong(requirements: list[Any]) -> list[Any]:
    """Those that are missing or have another version."""
    return [requirement for requirement in requirements if not _state(requirement)[0].isdigit()]


def _pip(requirements: list[Any]) -> str:
    """The command that installs packages."""
    extras = {each.name: f"[{','.join(sorted(each.extras))}]" if each.extras else "" for each in requirements}
    names = [f"{each.name}{extras[each.name]}{each.specifier}" for each in requirements]
    return f"pip install {shlex.join(names)}"


def _engine() -> dict[str, Any]:
    """The CPU's kernels, ggml's library, its variants, and the devices."""
    from ..runtime import cpu, get_num_threads, list_devices

    used = cpu()
    variants = sorted(path.name for path in Path(used.library).parent.glob("libggml-cpu*"))
    return {
        "cores": os.cpu_count(),
        "threads": get_num_threads(),
        "cpu": used._asdict(),
        "ggml_variants": variants,
        "devices": [device._asdict() for device in list_devices()],
        "environment": {key: value for key, value in os.environ.items() if key.startswith("EXECUTORCH_GGML_")},
    }


def _lines(facts: dict[str, Any]) -> list[str]:
    used = facts["cpu"]
    packages = (f"  {name} {state}" for name, state in facts["packages"].items())
    extras = (
        f"  {name}: {'missing ' + ', '.join(missing) + ': ' + facts['install'][name] if missing else 'complete'}"
        for name, missing in facts["extras"].items()
    )
    return [
        f"executorch-ggml {facts['executorch-ggml']}, Python {facts['python']}, {facts['system']}",
        "packages:",
        *packages,
        "optional parts:",
        *extras,
        f"CPU: {facts['cores']} cores, {facts['threads']} threads, kernels for {used['kernels']}",
        f"ggml's library: {Path(used['library']).name} ({used['library_isa']}), of {len(facts['ggml_variants'])}",
        "devices:",
        *(f"  {device['name']} ({device['kind']}): {device['description']}" for device in facts["devices"]),
        *(f"set: {key}={value}" for key, value in facts["environment"].items()),
    ]
