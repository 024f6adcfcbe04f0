"""A conversation with a language model on ggml: what was read of it before stays in the key-value cache.

python examples/chat.py "What is seven plus five?" "And that minus three?"       a small Llama that knows sums
python examples/chat.py --checkpoint Qwen/Qwen2.5-0.5B-Instruct --quantize q8_0 "Who wrote Faust?"
python examples/chat.py -i                                                       lines from the terminal
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples.common import need, pretrained, quiet

if TYPE_CHECKING:
    from executorch_ggml.llm import Generation, Generator

MESSAGES = ("What is seven plus five?", "And that minus three?", "And that plus eleven?")
CONTEXT = 2048  # tokens of a conversation, where the model takes so many


def load_model(checkpoint: str | Path, quantize: str | None, folder: Path) -> Generator:
    """Export a checkpoint with its tokenizer and chat template, and load it."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from executorch_ggml import llm
    from executorch_ggml.quant import GgmlQuantConfig

    model: Any = pretrained(AutoModelForCausalLM, checkpoint, dtype="float32").eval()
    path = folder / "chat.pte"
    llm.export(
        model,
        max_seq_len=min(CONTEXT, model.config.max_position_embeddings),
        weights=GgmlQuantConfig(quantize) if quantize else None,
        tokenizer=llm.Tokenizer.load(pretrained(AutoTokenizer, checkpoint)),
    ).save(str(path))
    return llm.Generator(path)


def converse(generator: Generator, questions: Iterable[str], **sampling: Any) -> Iterator[Generation]:
    """The answer to each question, as it is made; each is read to its end before the next question is asked."""
    messages = []
    for question in questions:
        messages.append({"role": "user", "content": question})
        answer = generator.chat(messages, **sampling)
        yield answer
        messages.append({"role": "assistant", "content": answer.text})


def _lines() -> Iterator[str]:
    """What is typed, up to the end of input."""
    while True:
        try:
            yield input("> ")
        except EOFError:
            return


def _echoed(questions: Iterable[str]) -> Iterator[str]:
    for question in questions:
        print(f"> {question}")
        yield question


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the answers as they are made."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("messages", nargs="*", default=MESSAGES, help="what to say, one after the other")
    parser.add_argument("-i", "--interactive", action="store_true", help="read messages from the terminal")
    parser.add_argument("--checkpoint", help="a language model: a folder, or a name on Hugging Face's hub")
    parser.add_argument("--quantize", metavar="TYPE", help="store weights in a type of ggml's, like q8_0 or q4_k")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 for the most likely token each time")
    args = parser.parse_args(arguments)
    quiet()
    need("jinja2", "transformers")
    from examples.stand_ins import sums

    with TemporaryDirectory(prefix="executorch-ggml-example-") as folder:
        generator = load_model(args.checkpoint or sums.FOLDER, args.quantize, Path(folder))
        questions = _lines() if args.interactive else _echoed(args.messages)
        for answer in converse(generator, questions, temperature=args.temperature):
            for piece in answer:
                print(piece, end="", flush=True)
            read, reused = answer.timing.prompt_tokens, answer.timing.reused_tokens
            print(f"\n  ({read} tokens read, {reused} in the cache, finish: {answer.finish})")


if __name__ == "__main__":
    main()
