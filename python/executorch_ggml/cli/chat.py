"""``executorch-ggml chat``: a conversation with a language model's program."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from .generate import conversation, generator_of, loading, sampling, summary

_CLEAR, _END = "/clear", "/exit"


@click.command("chat", short_help="Talk with a language model.")
@loading
@click.option("--system", help="The system's message.")
@sampling
def command(
    program: Path,
    tokenizer: Path | None,
    data: Path | None,
    gguf: tuple[Path, ...],
    device: str,
    threads: int,
    system: str | None,
    **choice: Any,
) -> None:
    """Talk with a language model: a line is a message, /clear begins anew, /exit or the end of input ends it.

    The part of the conversation that the key-value cache holds already is not read again.
    """
    generator = generator_of(program, tokenizer, data, gguf, device, threads)
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
