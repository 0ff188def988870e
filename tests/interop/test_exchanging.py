"""Runs to and from other programs: what they say is what we say, both ways."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest

import forebear as fb
from forebear.cli.main import main
from forebear.errors import InputError
from forebear.inference.run import Run
from forebear.interop import arpa, convert
from forebear.statistical.ngram import language_model
from forebear.training.load_model import NGRAM_STORE_FILE
from small_runs import opened

FIXTURES = Path(__file__).parents[1] / "interop" / "fixtures"
SENTENCES = ["The cat sat by the mat.", "The old fox saw the dog", "A zebra sat."]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))


def test_gpt2_to_transformers_and_back(tmp_path: Path):
    """transformers opens the exported folder, cuts text alike, gives the same logits and writes the same text."""
    transformers = pytest.importorskip("transformers")
    import torch

    run = opened("gpt2", tmp_path, tokenizer="bytepair", steps=30, context=32)
    assert main(["export", str(run.folder.path), "--format", "huggingface", "--to", str(tmp_path / "theirs")]) == 0
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "theirs").eval()
    cutter = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    end = run.tokenizer.special_roles["end"]
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
    assert [one.log_prob for one in back.score(SENTENCES)] == [one.log_prob for one in run.score(SENTENCES)]
    assert (back.metadata["state"], back.num_parameters) == ("finished", run.num_parameters)
    assert (tmp_path / "back" / "card.md").read_text().startswith("# GPT-2")


def test_a_table_that_was_rounded_up_loses_what_no_token_uses(tmp_path: Path):
    """Fast models have vocabularies of 50,304 for tokenizers of 50,257: what is left is transformers' own opinion."""
    transformers = pytest.importorskip("transformers")
    import torch

    run = opened("gpt2", tmp_path, tokenizer="bytepair", steps=5)
    run.export(tmp_path / "theirs")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "theirs").eval()
    model.resize_token_embeddings(run.tokenizer.vocab_size + 7, mean_resizing=False)
    model.save_pretrained(tmp_path / "theirs")
    back = fb.import_run(tmp_path / "theirs", to=tmp_path / "back")
    assert any("7 entries more" in note for note in back.metadata["notes"])
    row = np.append([run.tokenizer.special_roles["end"]], run.tokenizer.encode(SENTENCES[0]).ids).astype(np.int64)
    with torch.inference_mode():
        theirs = model(torch.from_numpy(row)[None]).logits[0, -1, : run.tokenizer.vocab_size].log_softmax(-1)
    assert back.predictor.next_log_probs([row])[0] == pytest.approx(theirs.numpy(), abs=1e-4)


def test_ngram_to_kenlm_and_back(tmp_path: Path):
    import kenlm

    run = opened("ngram", tmp_path)
    assert main(["export", str(run.folder.path), "--format", "arpa", "--to", str(tmp_path / "m.arpa")]) == 0
    model = kenlm.Model(str(tmp_path / "m.arpa"))
    for sentence in SENTENCES:
        scored = run.score(sentence, ends=True)[0]
        words = " ".join(run.tokenizer.encode(sentence).texts)
        theirs = [score for score, _, _ in model.full_scores(words)]
        assert [token.log_prob / math.log(10) for token in scored.tokens] == pytest.approx(theirs, abs=1e-5)
    assert main(["import", str(tmp_path / "m.arpa"), "--to", str(tmp_path / "back")]) == 0
    back = Run.open(tmp_path / "back")
    told = back.score([" ".join(run.tokenizer.encode(sentence).texts) for sentence in SENTENCES])
    for one, other in zip(told, run.score(SENTENCES), strict=True):
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-5)


CUT = {"gpt": "bytepair", "bert": "wordpiece", "ernie": "wordpiece", "roberta": "bytepair", "albert": "wordpiece"}
AUTO = {"next": "AutoModelForCausalLM", "token": "AutoModelForMaskedLM", "token pair": "AutoModelForPreTraining"}


@pytest.mark.sample(3)
@pytest.mark.parametrize("milestone", CUT)
def test_every_run_to_transformers_and_back(milestone: str, tmp_path: Path):
    """AutoTokenizer and AutoModel open it, cut a text and answer alike; back again it is the same to the bit."""
    transformers = pytest.importorskip("transformers")
    import torch

    run = opened(milestone, tmp_path, tokenizer=CUT[milestone], steps=3)
    assert main(["export", str(run.folder.path), "--to", str(tmp_path / "theirs")]) == 0
    model = getattr(transformers, AUTO[" ".join(run.heads)]).from_pretrained(tmp_path / "theirs").eval()
    cutter, roles = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs"), run.tokenizer.special_roles
    marks = {"gpt": ([], [])}.get(milestone, ([roles["start"]], [roles["end"]]))
    for sentence in SENTENCES:
        ids = [*marks[0], *run.tokenizer.encode(sentence).ids.tolist(), *marks[1]]
        theirs = cutter(sentence, return_tensors="pt")
        assert theirs["input_ids"][0].tolist() == ids
        assert ("token_type_ids" in theirs) == (milestone in ("bert", "ernie", "albert"))
        given = {"tokens": torch.tensor(ids), "lengths": torch.tensor([len(ids)])}
        with torch.inference_mode():
            found, wanted = run.network.logits(given), model(**theirs)
        for head, value in found.items():
            names = ("seq_relationship_logits", "sop_logits") if head == "pair" else ("prediction_logits", "logits")
            told = next(wanted[name] for name in names if name in wanted)
            torch.testing.assert_close(value, told if head == "pair" else told[0], rtol=0, atol=1e-4)
    back = fb.import_run(tmp_path / "theirs", to=tmp_path / "back")
    assert back.metadata["weights"]["sha256"] == _digest_of(run, tmp_path)
    assert (back.metadata["milestone"], back.heads, back.tokenizer.digest) == (
        milestone,
        run.heads,
        run.tokenizer.digest,
    )
    assert {name: back.metadata["fields"][name] for name in back.metadata["fields"]} == run.metadata["fields"]
    assert ((tmp_path / "theirs" / "vocab.txt").is_file()) == (CUT[milestone] == "wordpiece")


def _digest_of(run: Run, folder: Path) -> str:
    """Of its weights, written anew: a file of the same tensors is the same file."""
    from safetensors.torch import save_file

    from forebear.data.io.atomic import file_digest

    save_file(run.network.tensors(), folder / "again.safetensors")
    return file_digest(folder / "again.safetensors")


def test_pairs_and_masks_are_cut_as_in_training(tmp_path: Path):
    transformers = pytest.importorskip("transformers")
    for milestone in ("bert", "roberta"):
        folder = tmp_path / milestone
        folder.mkdir()
        run = opened(milestone, folder, tokenizer=CUT[milestone], steps=1)
        run.export(folder / "theirs")
        cutter, roles = transformers.AutoTokenizer.from_pretrained(folder / "theirs"), run.tokenizer.special_roles
        one, other = (run.tokenizer.encode(text).ids.tolist() for text in ("The cat sat.", "The dog"))
        theirs, (start, end) = cutter("The cat sat.", "The dog"), (roles["start"], roles["end"])
        between = [end] if milestone == "bert" else [end, end]
        assert theirs["input_ids"] == [start, *one, *between, *other, end]
        if milestone == "bert":
            assert theirs["token_type_ids"] == [0] * (len(one) + 2) + [1] * (len(other) + 1)
        text = f"The cat {run.tokenizer.id_to_token(roles['mask'])}."
        assert cutter(text)["input_ids"][1:-1] == run.tokenizer.encode(text, specials=True).ids.tolist()
        assert (cutter.mask_token_id, cutter.cls_token_id, cutter.sep_token_id) == (roles["mask"], start, end)
        assert cutter.model_max_length == run.metadata["fields"]["context"]


def tiny_bert(folder: Path, *, without: tuple[str, ...] = ()) -> Path:
    """A folder of transformers' without parts, and a vocabulary for it."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(FIXTURES / "bert", folder)
    (folder / "expected.safetensors").unlink()
    tensors = {name: value.clone() for name, value in load_file(folder / "model.safetensors").items()}
    kept = {name: value for name, value in tensors.items() if not name.startswith(without or ("-",))}
    save_file(kept, folder / "model.safetensors")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij", "##a", "##b"]
    (folder / "vocab.txt").write_text("\n".join(words))
    return folder


def test_an_encoder_alone_cannot_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Its heads are none, not random ones; what was left out is told, and kept."""
    source = tiny_bert(tmp_path / "theirs", without=("cls.",))
    assert main(["import", str(source), "--to", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().out
    assert "heads: none, an encoder only" in said
    assert "no head 'token'" in said
    assert "bert.pooler.dense.weight" in said
    run = Run.open(tmp_path / "run")
    assert (run.metadata["heads"], run.heads) == ([], ())
    assert not any(name.startswith("heads.") for name in run.network.tensors())
    with pytest.raises(InputError, match="does not find hidden tokens"):
        run.fill("a ____ b")
    assert "left out" in (tmp_path / "run" / "card.md").read_text()
    run.export(tmp_path / "out")
    assert json.loads((tmp_path / "out" / "config.json").read_text())["architectures"] == ["BertModel"]
    assert fb.import_run(tmp_path / "out", to=tmp_path / "back").metadata["weights"] == run.metadata["weights"]


@pytest.mark.parametrize(
    ("without", "heads", "name"),
    [
        ((), ["token", "pair"], "BertForPreTraining"),
        (("cls.seq", "bert.pooler"), ["token"], "BertForMaskedLM"),
        (("cls.predictions",), ["pair"], "BertForNextSentencePrediction"),
    ],
)
def test_a_run_has_the_heads_that_were_there(without, heads, name, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    source = tiny_bert(tmp_path / "theirs", without=without)
    assert main(["import", str(source), "--to", str(tmp_path / "run"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["heads"], told["report"]["heads"], told["report"]["left_out"]) == (heads, heads, {})
    assert set(told["report"]["missing"]) == {"token", "pair"} - set(heads)
    assert told["report"]["matched"] == len(_names(source))
    assert told["notes"][0] == f"{told['report']['matched']} names are those of BERT, and were read"
    run = Run.open(tmp_path / "run")
    assert list(run.heads) == heads
    run.export(tmp_path / "out")
    assert json.loads((tmp_path / "out" / "config.json").read_text())["architectures"] == [name]
    assert _names(tmp_path / "out") == _names(source)


def _names(folder: Path) -> set[str]:
    from safetensors import safe_open

    with safe_open(folder / "model.safetensors", "pt") as file:
        return set(file.keys())


def test_case_and_characters_as_the_folder_tells(tmp_path: Path):
    source = tiny_bert(tmp_path / "theirs")
    (source / "tokenizer_config.json").write_text('{"do_lower_case": false, "strip_accents": null}')
    run = fb.import_run(source, to=tmp_path / "cased")
    assert run.tokenizer.encode("A").ids.tolist() == [run.tokenizer.unk_id]
    (source / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    assert fb.import_run(source, to=tmp_path / "uncased").tokenizer.encode("A").texts == ["a"]
    (source / "tokenizer_config.json").write_text('{"do_lower_case": true, "tokenize_chinese_chars": false}')
    with pytest.raises(InputError, match="tokenize_chinese_chars is False") as caught:
        fb.import_run(source, to=tmp_path / "other")
    assert "tokenizer.json" in caught.value.hint
    (source / "tokenizer_config.json").unlink()
    (source / "vocab.txt").rename(source / "spiece.model")
    with pytest.raises(InputError, match=r"spiece\.model is SentencePiece's") as caught:
        fb.import_run(source, to=tmp_path / "other")
    assert "AutoTokenizer" in caught.value.hint
    assert not (tmp_path / "other").exists()


def test_a_vocabulary_larger_than_the_table_is_refused(tmp_path: Path):
    source = tiny_bert(tmp_path / "theirs")
    with open(source / "vocab.txt", "a") as file:
        file.write("\n##c")
    with pytest.raises(InputError, match="its tokenizer has 18 tokens, and its table only 17"):
        fb.import_run(source, to=tmp_path / "run")


def test_what_transformers_cannot_be_told_is_refused(tmp_path: Path):
    run = opened("gpt", tmp_path, tokenizer="bytepair", steps=1, inner=40)
    with pytest.raises(InputError, match="of transformers always has 128"):
        run.export(tmp_path / "other")
    assert not (tmp_path / "other").exists()
    run = opened("roberta", tmp_path, to="relu", tokenizer="bytepair", steps=1, activation="relu")
    with pytest.raises(InputError, match="hidden_act would be 'relu', and RoBERTa of transformers has 'gelu'"):
        run.export(tmp_path / "other")


def test_gpt_as_openai_published_it(tmp_path: Path, data: Path):
    """The weights of AllenNLP's fixture, with a tokenizer as Hugging Face publishes it for this architecture."""
    source = data / "weights/openai_gpt_fixture/transformer_small.tar.gz"
    archive = Path(shutil.copy(source, tmp_path / "model.tar.gz"))
    with pytest.raises(InputError, match=r"there is no tokenizer\.json; OpenAI's own vocabulary") as caught:
        convert.import_model(str(archive), str(tmp_path / "run"), heads=2)
    assert "openai-gpt" in caught.value.hint
    ordinary = {"<unk>": 0, "\n</w>": 1} | {f"{c}</w>": i for i, c in enumerate("abcdefghijklmnopqrstuvwx", 2)}
    vocabulary = ordinary | {c: i for i, c in enumerate("abcdefghijklmnopqrstuvwx", len(ordinary))}
    model = {"type": "BPE", "unk_token": "<unk>", "end_of_word_suffix": "</w>", "vocab": vocabulary, "merges": []}
    shape = {"version": "1.0", "normalizer": {"type": "BertNormalizer", "lowercase": True}, "model": model}
    shape["normalizer"] |= {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None}
    shape |= {"pre_tokenizer": {"type": "BertPreTokenizer"}, "decoder": {"type": "BPEDecoder", "suffix": "</w>"}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(shape))
    assert main(["import", str(archive), "--to", str(tmp_path / "run"), "--heads", "2"]) == 0
    run = Run.open(tmp_path / "run")
    assert (run.heads, run.num_parameters, run.tokenizer.special_roles) == (("next",), 3660, {"unknown": 0, "end": 1})
    assert run.tokenizer.encode("AB c").texts == ["a", "b</w>", "c</w>"]
    assert math.isfinite(run.score("ab c")[0].log_prob)
    run.export(tmp_path / "theirs")
    assert fb.import_run(tmp_path / "theirs", to=tmp_path / "back").metadata["weights"] == run.metadata["weights"]
    with pytest.raises(InputError, match="all others tell it"):
        convert.import_model(str(tmp_path / "theirs"), str(tmp_path / "x"), heads=2)
    (tmp_path / "theirs" / "tokenizer.json").unlink()
    (tmp_path / "theirs" / "vocab.json").write_text(json.dumps(vocabulary))
    (tmp_path / "theirs" / "merges.txt").write_text("#version: 0.2\n")
    with pytest.raises(InputError, match="pieces end words with </w>") as caught:
        convert.import_model(str(tmp_path / "theirs"), str(tmp_path / "x"))
    assert "tokenizer.json of openai-gpt" in caught.value.hint


def test_what_cannot_be_exchanged_is_refused(tmp_path: Path):
    run = opened("ngram", tmp_path)
    with pytest.raises(InputError, match="it can be written as: arpa"):
        convert.export_run(run, "huggingface", str(tmp_path / "x"))
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "a").write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        convert.export_run(run, "arpa", str(tmp_path / "there"))
    with pytest.raises(InputError, match="exists already"):
        convert.import_model(str(tmp_path / "nothing.arpa"), str(tmp_path / "there"))
    with pytest.raises(InputError, match="no such folder or file"):
        convert.import_model(str(tmp_path / "no where" / "x"), str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_a_large_arpa_file_is_written_again_also_where_its_table_was_lost(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(language_model, "BLOCK_NGRAMS", -1)
    convert.export_run(opened("ngram", tmp_path), "arpa", str(tmp_path / "first.arpa"))
    folder = convert.import_model(str(tmp_path / "first.arpa"), str(tmp_path / "back")).path
    for number, is_lost in enumerate((False, True)):
        if is_lost:
            (folder / NGRAM_STORE_FILE).unlink()
        run = Run.open(folder)
        assert run.next("The", why=True).candidates[0].explanation.steps[-1].log is not None
        again = convert.export_run(run, "arpa", str(tmp_path / f"again{number}.arpa"))
        one, other = (arpa.read_arpa(path) for path in (tmp_path / "first.arpa", again))
        assert one.words == other.words
        for mine, theirs in zip((*one.log_probs, *one.backoffs), (*other.log_probs, *other.backoffs), strict=True):
            np.testing.assert_allclose(mine, theirs, atol=1e-6)
        assert (folder / NGRAM_STORE_FILE).exists()
