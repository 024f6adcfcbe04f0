"""``executorch-ggml generate``: text from a language model's program, as it is made."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import options
from .output import show

if TYPE_CHECKING:
    from ..llm import Generation, Generator

_SAMPLING = {
    "temperature": (float, 0.0, "0 takes the most likely token each time"),
    "top_k": (int, 0, "choose among this many tokens; 0: all"),
    "top_p": (float, 1.0, "choose among the fewest tokens with this probability together"),
    "min_p": (float, 0.0, "choose among tokens with at least this share of the best one's probability"),
    "repetition_penalty": (float, 1.0, "make tokens less likely that were there before"),
}


def loading(function: Callable[..., None]) -> Callable[..., None]:
    """The argument and the options that say which program to load and on what: the command gets what loads it."""

    @wraps(function)
    def with_loader(
        program: Path,
        tokenizer: Path | None,
        data: Path | None,
        gguf: tuple[Path, ...],
        device: str,
        threads: int,
        **others: Any,
    ) -> None:
        def load() -> Generator:
            from ..llm import Generator
            from ..runtime import set_num_threads

            set_num_threads(threads)
            return Generator(program, tokenizer=tokenizer, data_path=data, gguf=gguf, device=device)

        function(load, **others)

    command = with_loader
    for option in (
        options.threads,
        options.device,
        options.gguf,
        options.data,
        click.option("--tokenizer", type=options.FILE, help="tokenizer.json, folder or GGUF file (the program's)."),
        click.argument("program", type=options.FILE),
    ):
        command = option(command)
    return command


def sampling(function: options.Command) -> options.Command:
    """The options of how tokens are chosen, and when it ends."""
    for name, (kind, default, what) in reversed(_SAMPLING.items()):
        flag = f"--{name.replace('_', '-')}"
        function = click.option(flag, type=kind, default=default, metavar="X", help=f"{what} ({default:g}).")(function)
    for option in (
        click.option("--seed", type=int, help="The same text each time, where the temperature is not 0."),
        click.option("--stop", multiple=True, metavar="TEXT", help="Stop before this text; repeatable."),
        click.option("-n", "--max-new-tokens", type=int, metavar="N", help="Stop after so many tokens."),
    ):
        function = option(function)
    return function


@click.command("generate", short_help="Generate text with a program.")
@loading
@click.option("-p", "--prompt", help="The text to go on from (default: standard input).")
@click.option("--chat", is_flag=True, help="The prompt is a message to answer, by the chat template.")
@click.option("--system", help="With --chat: the system's message.")
@sampling
@options.as_json
def command(
    load: Callable[[], Generator],
    prompt: str | None,
    chat: bool,
    system: str | None,
    as_json: bool,
    **choice: Any,
) -> None:
    """Generate text with a language model's program; standard error says how fast it came."""
    if system is not None and not chat:
        raise click.UsageError("--system is the system's message of a conversation, which --chat begins")
    # A newline at the end of standard input is echo's and the keyboard's, not the text's.
    text = sys.stdin.read().removesuffix("\n") if prompt is None else prompt
    generator = load()
    begin: Callable[..., Generation] = generator.chat if chat else generator.stream
    generation = begin(conversation(text, system) if chat else text, **choice)
    for piece in generation:
        if not as_json:
            click.echo(piece, nl=False)
    if as_json:
        show(facts_of(generator, generation), as_json, ())
        return
    click.echo()
    click.echo(summary(generator, generation), err=True)


def conversation(text: str, system: str | None) -> list[dict[str, str]]:
    """A message of the user's, behind the system's."""
    begin = [] if system is None else [{"role": "system", "content": system}]
    return [*begin, {"role": "user", "content": text}]


def facts_of(generator: Generator, generation: Generation) -> dict[str, Any]:
    """What was generated, and the seconds that it took."""
    timing = generation.timing
    return {
        "text": generation.text,
        "tokens": generation.tokens,
        "finish": generation.finish,
        "load_seconds": generator.load_seconds,
        "prefill_tokens_per_second": timing.prefill_speed,
        "decode_tokens_per_second": timing.decode_speed,
        **vars(timing),
    }


def summary(generator: Generator, generation: Generation) -> str:
    """One line of how fast it came."""
    timing = generation.timing
    return (
        f"\nload {generator.load_seconds:.2f} s; "
        f"prompt {timing.prompt_tokens} tokens, {timing.prefill_speed:.1f} tokens/s; "
        f"first token after {timing.first_token_seconds:.3f} s; "
        f"generated {timing.new_tokens} tokens, {timing.decode_speed:.1f} tokens/s; ended by {generation.finish}"
    )
