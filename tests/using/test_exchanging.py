"""Runs to and from other programs: what they say is what we say, both ways."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import forebear as fb
from forebear.cli.main import main
from forebear.errors import BadInput
from forebear.using import exchanging
from forebear.using.run import Run
from small_runs import opened

SENTENCES = ["The cat sat by the mat.", "The old fox saw the dog", "A zebra sat."]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))


def test_gpt2_to_transformers_and_back(tmp_path: Path):
    """transformers opens the exported folder, cuts text alike, gives the same logits and writes the same text."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    run = opened("gpt2", tmp_path, tokenizer="bytepair", steps=30, context=32)
    assert main(["export", str(run.folder.path), "--format", "huggingface", "--to", str(tmp_path / "theirs")]) == 0
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "theirs").eval()
    cutter = AutoTokenizer.from_pretrained(tmp_path / "theirs")
    end = run.tokenizer.roles["end"]
    for sentence in SENTENCES:
        ids = run.tokenizer.encode(sentence).ids
        assert cutter(sentence, add_special_tokens=False)["input_ids"] == ids.tolist()
        row = np.append([end], ids).astype(np.int64)
        with torch.inference_mode():
            theirs = model(torch.from_numpy(row)[None]).logits[0].log_softmax(-1)
        told = theirs[torch.arange(len(ids)), torch.from_numpy(ids.astype(np.int64))]
        assert run.predictor.score([row])[0] == pytest.approx(told.numpy(), abs=1e-4)
    ours = run.generate("The cat", temperature=0, length=20)[0]
    given = torch.tensor([[end, *run.tokenizer.encode("The cat").ids.tolist()]])
    written = model.generate(given, max_new_tokens=20, do_sample=False, pad_token_id=end)[0, given.shape[1] :].tolist()
    assert list(ours.ids) == [token for token in written if token != end]

    assert main(["import", str(tmp_path / "theirs"), "--to", str(tmp_path / "back")]) == 0
    back = Run.open(tmp_path / "back")
    assert [one.log_probability for one in back.score(SENTENCES)] == [
        one.log_probability for one in run.score(SENTENCES)
    ]
    assert (back.facts["state"], back.parameters) == ("finished", run.parameters)
    assert (tmp_path / "back" / "card.md").read_text().startswith("# GPT-2")


def test_a_table_that_was_rounded_up_loses_what_no_token_uses(tmp_path: Path):
    """Fast models have vocabularies of 50,304 for tokenizers of 50,257: what is left is transformers' own opinion."""
    import torch
    from transformers import AutoModelForCausalLM

    run = opened("gpt2", tmp_path, tokenizer="bytepair", steps=5)
    run.export(tmp_path / "theirs")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "theirs").eval()
    model.resize_token_embeddings(run.tokenizer.size + 7, mean_resizing=False)
    model.save_pretrained(tmp_path / "theirs")
    back = fb.import_run(tmp_path / "theirs", to=tmp_path / "back")
    assert any("7 entries more" in note for note in back.facts["notes"])
    row = np.append([run.tokenizer.roles["end"]], run.tokenizer.encode(SENTENCES[0]).ids).astype(np.int64)
    with torch.inference_mode():
        theirs = model(torch.from_numpy(row)[None]).logits[0, -1, : run.tokenizer.size].log_softmax(-1)
    assert back.predictor.follow([row])[0] == pytest.approx(theirs.numpy(), abs=1e-4)


def test_ngram_to_kenlm_and_back(tmp_path: Path):
    import kenlm

    run = opened("ngram", tmp_path)
    assert main(["export", str(run.folder.path), "--format", "arpa", "--to", str(tmp_path / "m.arpa")]) == 0
    model = kenlm.Model(str(tmp_path / "m.arpa"))
    for sentence in SENTENCES:
        scored = run.score(sentence, ends=True)[0]
        words = " ".join(run.tokenizer.encode(sentence).texts)
        theirs = [score for score, _, _ in model.full_scores(words)]
        assert [token.log_probability / math.log(10) for token in scored.tokens] == pytest.approx(theirs, abs=1e-5)
    assert main(["import", str(tmp_path / "m.arpa"), "--to", str(tmp_path / "back")]) == 0
    back = Run.open(tmp_path / "back")
    told = back.score([" ".join(run.tokenizer.encode(sentence).texts) for sentence in SENTENCES])
    for one, other in zip(told, run.score(SENTENCES), strict=True):
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-5)


def test_what_cannot_be_exchanged_is_refused(tmp_path: Path):
    run = opened("ngram", tmp_path)
    with pytest.raises(BadInput, match="it can be written as: arpa"):
        exchanging.exported(run, "huggingface", str(tmp_path / "x"))
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "a").write_text("mine")
    with pytest.raises(BadInput, match="exists already"):
        exchanging.exported(run, "arpa", str(tmp_path / "there"))
    with pytest.raises(BadInput, match="exists already"):
        exchanging.imported(str(tmp_path / "nothing.arpa"), str(tmp_path / "there"))
    with pytest.raises(BadInput, match="no such folder or file"):
        exchanging.imported(str(tmp_path / "no where" / "x"), str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()
