"""The command line: ``executorch-ggml <command>``.

Commands import what they run with when they run: torch and ExecuTorch take seconds, which ``--help`` should not.
Shell completion is click's: ``eval "$(_EXECUTORCH_GGML_COMPLETE=bash_source executorch-ggml)"`` (or ``zsh_source``,
``fish_source``).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from .. import __version__
from . import (
    bench,
    build_runtime,
    cache,
    chat,
    compare,
    devices,
    doctor,
    explain,
    export,
    export_gguf,
    generate,
    inspect,
    profile,
    quantize,
    report,
    rpc_server,
    run,
    webnn,
)
from .noise import quiet_dependencies

COMMANDS = (
    *(export, quantize, run, bench, profile, compare, inspect, report, explain, generate, chat),
    *(export_gguf, build_runtime, devices, rpc_server, cache, webnn, doctor),
)

# What files, options and memory may be to blame for; the runtime raises RuntimeError for programs that it cannot load.
_USERS = (OSError, ValueError, RuntimeError, MemoryError)
INTERRUPTED = 130


class _InOrder(click.Group):
    """A group that lists its commands in the order of the way from a model to its answers."""

    def list_commands(self, _context: click.Context) -> list[str]:
        return list(self.commands)


@click.group(cls=_InOrder, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="executorch-ggml", message="%(prog)s %(version)s")
def commands() -> None:
    """PyTorch models on ggml."""


for _module in COMMANDS:
    commands.add_command(_module.command)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command, and say how it ended.

    0 is success, 1 an error that a user can mend, which is one line on stderr, 2 a command line that is wrong, 130
    Ctrl-C. A command may fail with a number of its own (`compare`).
    """
    quiet_dependencies()
    try:
        result = commands.main(args=argv, prog_name="executorch-ggml", standalone_mode=False)
    except click.Abort:  # Ctrl-C, or the end of input where a command asks
        click.echo(err=True)
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what Python still writes at its end
        return 1
    except ModuleNotFoundError as error:
        click.echo(f"executorch-ggml: {error}: install its package (pip install {_package(error)})", err=True)
        return 1
    except _USERS as error:
        click.echo(f"executorch-ggml: {_message(error)}", err=True)
        return 1
    return result if isinstance(result, int) else 0


def _message(error: BaseException) -> str:
    """What went wrong, with the file before it as in our own errors."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


def _package(error: ModuleNotFoundError) -> str:
    """The package that brings the module that was not found."""
    module = (error.name or "").partition(".")[0]
    return {"PIL": "pillow"}.get(module, module)
