"""``executorch-ggml chat``: a conversation with a language model's program."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from .generate import conversation, facts_of, loading, sampling, summary
from .output import show_line

if TYPE_CHECKING:
    from ..llm import Generator

_CLEAR, _END = "/clear", "/exit"
_PROMPT = "> "


@click.command("chat", short_help="Talk with a language model.")
@loading
@click.option("--system", help="The system's message.")
@sampling
@click.option("--json", "as_json", is_flag=True, help="Print each answer as a JSON object in a line, and nothing else.")
def command(load: Callable[[], Generator], system: str | None, as_json: bool, **choice: Any) -> None:
    """Talk with a language model: a line is a message, /clear begins anew, /exit or the end of input ends it.

    The part of the conversation that the key-value cache holds already is not read again.
    """
    generator = load()
    messages = conversation("", system)[:-1]
    while (message := _message("" if as_json else _PROMPT)) != _END:
        if message == _CLEAR:
            messages = conversation("", system)[:-1]
            continue
        messages.append({"role": "user", "content": message})
        generation = generator.chat(messages, **choice)
        for piece in generation:
            if not as_json:
                click.echo(piece, nl=False)
        messages.append({"role": "assistant", "content": generation.text})
        if as_json:
            show_line(facts_of(generator, generation))
            continue
        click.echo()
        click.echo(summary(generator, generation), err=True)


def _message(prompt: str) -> str:
    """The next line that says something; the end of the conversation at the end of input."""
    click.echo(prompt, nl=False, err=True)
    for line in sys.stdin:
        if line.strip():
            return line.strip()
        click.echo(prompt, nl=False, err=True)
    return _END
