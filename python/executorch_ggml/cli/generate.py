"""``executorch-ggml generate``: text from a language model's program, as it is made."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..runtime import set_num_threads

if TYPE_CHECKING:
    from ..llm import Generation, Generator

_SAMPLING = {
    "temperature": (float, 0.0, "0 takes the most likely token each time"),
    "top_k": (int, 0, "choose among this many tokens; 0: all"),
    "top_p": (float, 1.0, "choose among the fewest tokens with this probability together"),
    "min_p": (float, 0.0, "choose among tokens with at least this share of the best one's probability"),
    "repetition_penalty": (float, 1.0, "make tokens less likely that were there before"),
}


def register(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser("generate", help="generate text with a language model's program")
    parser.add_argument("program", type=Path, help="the .pte file")
    parser.add_argument("-p", "--prompt", help="the text to go on from (default: standard input)")
    parser.add_argument("--chat", action="store_true", help="the prompt is a message to answer, by the chat template")
    parser.add_argument("--system", help="with --chat: the system's message")
    parser.add_argument("-n", "--max-new-tokens", type=int, metavar="N", help="stop after so many tokens")
    parser.add_argument("--stop", action="append", default=[], metavar="TEXT", help="stop before this text; repeatable")
    parser.add_argument("--seed", type=int, help="the same text each time, where the temperature is not 0")
    for name, (kind, default, what) in _SAMPLING.items():
        option, described = f"--{name.replace('_', '-')}", f"{what} (default: {default:g})"
        parser.add_argument(option, type=kind, default=default, metavar="X", help=described)
    parser.add_argument("--tokenizer", type=Path, help="tokenizer.json, folder or GGUF file (default: the program's)")
    parser.add_argument("--data", type=Path, help="the .ptd file with the weights, where they are apart")
    parser.add_argument("--gguf", type=Path, help="the GGUF file with the weights, where they were left there")
    parser.add_argument(
        "--device", default="", help="a device of ggml's, or several: CUDA0=3,CUDA1=1 (default: the CPU)"
    )
    parser.add_argument("--threads", type=int, default=0, help="CPU threads (default: one a core)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Print the text as it comes, and on standard error how fast it came."""
    from ..llm import Generator

    if args.system is not None and not args.chat:
        raise ValueError("--system is the system's message of a conversation, which --chat begins")
    # A newline at the end of standard input is echo's and the keyboard's, not the text's.
    prompt = sys.stdin.read().removesuffix("\n") if args.prompt is None else args.prompt
    set_num_threads(args.threads)
    generator = Generator(
        args.program, tokenizer=args.tokenizer, data_path=args.data, gguf=args.gguf or (), device=args.device
    )
    made = _started(generator, prompt, args)
    for piece in made:
        print(piece, end="", flush=True)
    print()
    print(_summary(generator, made), file=sys.stderr)


def _started(generator: Generator, prompt: str, args: argparse.Namespace) -> Generation:
    options = {name: getattr(args, name) for name in (*_SAMPLING, "max_new_tokens", "stop", "seed")}
    if not args.chat:
        return generator.stream(prompt, **options)
    system = [] if args.system is None else [{"role": "system", "content": args.system}]
    return generator.chat([*system, {"role": "user", "content": prompt}], **options)


def _summary(generator: Generator, generation: Generation) -> str:
    timing = generation.timing
    return (
        f"\nload {generator.load_seconds:.2f} s; "
        f"prompt {timing.prompt_tokens} tokens, {timing.prefill_speed:.1f} tokens/s; "
        f"first token after {timing.first_token_seconds:.3f} s; "
        f"generated {timing.new_tokens} tokens, {timing.decode_speed:.1f} tokens/s; ended by {generation.finish}"
    )
