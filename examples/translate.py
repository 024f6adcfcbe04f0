"""Text in another language: Marian's tokenizer, its encoder and its decoder, which keeps keys and values, on ggml.

python examples/translate.py "three hundred and forty-two"       a small Marian: numbers from English to German
python examples/translate.py --checkpoint Helsinki-NLP/opus-mt-en-de "How are you?"     any of OPUS-MT's models
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples.common import need, pretrained, quiet

if TYPE_CHECKING:
    from executorch_ggml.llm import Generator

TEXTS = ("forty-four", "three hundred and forty-two", "nine hundred and seventy-nine", "eight thousand and forty-five")
LONGEST = 128  # tokens, of a text and of its translation


class Translator:
    """A Marian with its tokenizer."""

    def __init__(self, checkpoint: str | Path, folder: Path) -> None:
        """Export a checkpoint to a program in a folder."""
        from transformers import AutoTokenizer, MarianMTModel

        from executorch_ggml import llm

        self.tokenizer: Any = pretrained(AutoTokenizer, checkpoint)
        self.model: Any = pretrained(MarianMTModel, checkpoint, dtype="float32").eval()
        most = min(LONGEST, self.model.config.max_position_embeddings)
        path = folder / "marian.pte"
        llm.export(self.model, max_seq_len=most, max_source_len=most, cache_type="f32").save(str(path))
        self.generator: Generator = llm.Generator(path)

    def tokens(self, text: str) -> list[int]:
        """What the decoder makes of a text, the most likely token each time."""
        return list(self.generator.stream_tokens(self.tokenizer(text)["input_ids"]))

    def translate(self, text: str) -> str:
        """The text in the other language."""
        translated: str = self.tokenizer.decode(self.tokens(text), skip_special_tokens=True)
        return translated


def main(arguments: Sequence[str] | None = None) -> None:
    """Print each text with its translation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs="*", help="by default some numbers that the small model has not seen")
    parser.add_argument("--checkpoint", help="a Marian: a folder, or a name on Hugging Face's hub")
    args = parser.parse_args(arguments)
    quiet()
    need("sentencepiece", "transformers")
    from examples.stand_ins import number_words

    if args.checkpoint and not args.texts:
        parser.error("--checkpoint: give texts to translate")
    with TemporaryDirectory(prefix="executorch-ggml-example-") as folder:
        translator = Translator(args.checkpoint or number_words.FOLDER, Path(folder))
        for text in args.texts or TEXTS:
            try:
                print(f"{text}\n  {translator.translate(text)}")
            except ValueError as error:
                sys.exit(f"{text!r}: {error}")


if __name__ == "__main__":
    main()
