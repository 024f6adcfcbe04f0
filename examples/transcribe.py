"""What is said in a sound: Whisper's features, its encoder and its decoder, which keeps keys and values, on ggml.

python examples/transcribe.py --dial 5550123                                a small Whisper hears a telephone's keys
python examples/transcribe.py --checkpoint openai/whisper-tiny speech.wav   one that was trained on speech
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
    import numpy as np
    import numpy.typing as npt

    from executorch_ggml.llm import Generator

    Samples = npt.NDArray[np.float32]


def read_sound(path: Path, rate: int) -> Samples:
    """The samples of a .wav file from -1 to 1, at a rate; channels are averaged."""
    import numpy as np
    from scipy.io import wavfile
    from scipy.signal import resample_poly

    try:
        own, samples = wavfile.read(path)
    except (OSError, ValueError) as error:
        sys.exit(f"{path}: {error}")
    scale = 1.0 if samples.dtype.kind == "f" else float(np.iinfo(samples.dtype).max)
    middle = 128 if samples.dtype == np.uint8 else 0
    sound = (samples.astype(np.float64) - middle).reshape(len(samples), -1).mean(axis=1) / (scale - middle)
    resampled: Samples = resample_poly(sound, rate, own).astype(np.float32)
    return resampled


class Transcriber:
    """A Whisper with what comes before and after it."""

    def __init__(self, checkpoint: str | Path, folder: Path) -> None:
        """Export a checkpoint to a program in a folder."""
        from transformers import AutoFeatureExtractor, AutoTokenizer, WhisperForConditionalGeneration

        from executorch_ggml import llm

        self.extractor: Any = pretrained(AutoFeatureExtractor, checkpoint)
        self.tokenizer: Any = pretrained(AutoTokenizer, checkpoint)
        self.model: Any = pretrained(WhisperForConditionalGeneration, checkpoint, dtype="float32").eval()
        path = folder / "whisper.pte"
        llm.export(self.model, max_seq_len=self.model.config.max_target_positions, cache_type="f32").save(str(path))
        self.generator: Generator = llm.Generator(path)

    def features(self, sound: Samples) -> list[Any]:
        """Those of each part of a sound, as long as the model hears at once (30 seconds)."""
        size, rate = self.extractor.n_samples, self.extractor.sampling_rate
        parts = [sound[first : first + size] for first in range(0, len(sound), size)]
        return [self.extractor(part, sampling_rate=rate, return_tensors="np").input_features[0] for part in parts]

    def tokens(self, features: Any) -> list[int]:
        """What the decoder makes of a part, the most likely token each time."""
        return list(self.generator.stream_tokens(features))

    def transcribe(self, sound: Samples) -> str:
        """The text of all parts."""
        made = [self.tokenizer.decode(self.tokens(part), skip_special_tokens=True) for part in self.features(sound)]
        return " ".join(text.strip() for text in made)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what is said in each file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sounds", nargs="*", type=Path, help=".wav files")
    parser.add_argument("--checkpoint", help="a Whisper: a folder, or a name on Hugging Face's hub")
    parser.add_argument("--dial", default="5550123", help="the keys to press where no files are given: 0-9, * and #")
    args = parser.parse_args(arguments)
    quiet()
    need("scipy", "transformers")
    from examples.stand_ins import dial_tones

    if args.checkpoint and not args.sounds:
        parser.error("--checkpoint: give .wav files to transcribe")
    with TemporaryDirectory(prefix="executorch-ggml-example-") as folder:
        transcriber = Transcriber(args.checkpoint or dial_tones.FOLDER, Path(folder))
        for path in args.sounds:
            print(f"{path.name}: {transcriber.transcribe(read_sound(path, transcriber.extractor.sampling_rate))}")
        if not args.sounds:
            try:
                sound = dial_tones.dialled(args.dial)
            except ValueError as error:
                parser.error(f"--dial {error}")
            print(f"dialled: {args.dial}\nheard:   {transcriber.transcribe(sound)}")


if __name__ == "__main__":
    main()
