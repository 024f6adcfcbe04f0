"""``executorch-ggml chat``: a conversation with a language model's program."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from .generate import conversation, loading, sampling, summary

if TYPE_CHECKING:
    from ..llm import Generator

_CLEAR, _END = "/clear", "/exit"


@click.command("chat", short_help="Talk with a language model.")
@loading
@click.option("--system", help="The system's message.")
@sampling
def command(load: Callable[[], Generator], system: str | None, **choice: Any) -> None:
    """Talk with a language model: a line is a message, /clear begins anew, /exit or the end of input ends it.

    The part of the conversation that the key-value cache holds already is not read again.
    """
    generator = load()
    messages = conversation("", system)[:-1]
    while (message := _message()) != _END:
        if message == _CLEAR:
            messages = conversation("", system)[:-1]
            continue
        messages.append({"role": "user", "content": message})
        generation = generator.chat(messages, **choice)
        for piece in generation:
            click.echo(piece, nl=False)
        click.echo()
        messages.append({"role": "assistant", "content": generation.text})
        click.echo(summary(generator, generation), err=True)


def _message() -> str:
    """The next line that says something; the end of the conversation at the end of input."""
    click.echo("> ", nl=False, err=True)
    for line in sys.stdin:
        if line.strip():
            return line.strip()
        click.echo("> ", nl=False, err=True)
    return _END
