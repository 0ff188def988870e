"""Runs exported to and imported from other programs: transformers, KenLM and OpenAI's GPT compute the same."""

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
from forebear.training.ngram_store import NGRAM_STORE_FILE
from small_runs import open_small_run

FIXTURES = Path(__file__).parents[1] / "interop" / "fixtures"
SENTENCES = ["The cat sat by the mat.", "The old fox saw the dog", "A zebra sat."]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))


def test_exported_gpt2_scores_and_generates_as_in_transformers_and_back(tmp_path: Path):
    """transformers opens the exported folder, tokenizes alike, gives the same logits and generates the same text."""
    transformers = pytest.importorskip("transformers")
    import torch

    run = open_small_run("gpt2", tmp_path, tokenizer="bytepair", steps=30, context=32)
    assert main(["export", str(run.folder.path), "--format", "huggingface", "--to", str(tmp_path / "theirs")]) == 0
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "theirs").eval()
    hf_tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    end = run.tokenizer.special_roles["end"]
    for sentence in SENTENCES:
        ids = run.tokenizer.encode(sentence).ids
        assert hf_tokenizer(sentence, add_special_tokens=False)["input_ids"] == ids.tolist()
        row = np.append([end], ids).astype(np.int64)
        with torch.inference_mode():
            hf_log_probs = model(torch.from_numpy(row)[None]).logits[0].log_softmax(-1)
        expected = hf_log_probs[torch.arange(len(ids)), torch.from_numpy(ids.astype(np.int64))]
        assert run.predictor.score([row])[0] == pytest.approx(expected.numpy(), abs=1e-4)
    generated = run.generate("The cat", temperature=0, length=20)[0]
    prompt_ids = torch.tensor([[end, *run.tokenizer.encode("The cat").ids.tolist()]])
    hf_output = model.generate(prompt_ids, max_new_tokens=20, do_sample=False, pad_token_id=end)
    hf_ids = hf_output[0, prompt_ids.shape[1] :].tolist()
    assert list(generated.ids) == [token for token in hf_ids if token != end]

    assert main(["import", str(tmp_path / "theirs"), "--to", str(tmp_path / "back")]) == 0
    imported_run = Run.open(tmp_path / "back")
    assert [score.log_prob for score in imported_run.score(SENTENCES)] == [
        score.log_prob for score in run.score(SENTENCES)
    ]
    assert (imported_run.metadata["state"], imported_run.num_parameters) == ("finished", run.num_parameters)
    assert (tmp_path / "back" / "card.md").read_text().startswith("# GPT-2")


def test_imported_embedding_rows_without_a_token_are_dropped(tmp_path: Path):
    """Models often have 50,304 embedding rows for tokenizers of 50,257 tokens; transformers computes the reference."""
    transformers = pytest.importorskip("transformers")
    import torch

    run = open_small_run("gpt2", tmp_path, tokenizer="bytepair", steps=5)
    run.export(tmp_path / "theirs")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "theirs").eval()
    model.resize_token_embeddings(run.tokenizer.vocab_size + 7, mean_resizing=False)
    model.save_pretrained(tmp_path / "theirs")
    imported_run = fb.import_run(tmp_path / "theirs", to=tmp_path / "back")
    assert any("7 entries more" in note for note in imported_run.metadata["notes"])
    row = np.append([run.tokenizer.special_roles["end"]], run.tokenizer.encode(SENTENCES[0]).ids).astype(np.int64)
    with torch.inference_mode():
        hf_log_probs = model(torch.from_numpy(row)[None]).logits[0, -1, : run.tokenizer.vocab_size].log_softmax(-1)
    assert imported_run.predictor.next_log_probs([row])[0] == pytest.approx(hf_log_probs.numpy(), abs=1e-4)


def test_exported_ngram_scores_as_in_kenlm_and_back(tmp_path: Path):
    import kenlm

    run = open_small_run("ngram", tmp_path)
    assert main(["export", str(run.folder.path), "--format", "arpa", "--to", str(tmp_path / "m.arpa")]) == 0
    model = kenlm.Model(str(tmp_path / "m.arpa"))
    for sentence in SENTENCES:
        scored = run.score(sentence, ends=True)[0]
        words = " ".join(run.tokenizer.encode(sentence).texts)
        kenlm_scores = [score for score, _, _ in model.full_scores(words)]
        assert [token.log_prob / math.log(10) for token in scored.tokens] == pytest.approx(kenlm_scores, abs=1e-5)
    assert main(["import", str(tmp_path / "m.arpa"), "--to", str(tmp_path / "back")]) == 0
    imported_run = Run.open(tmp_path / "back")
    imported_scores = imported_run.score([" ".join(run.tokenizer.encode(sentence).texts) for sentence in SENTENCES])
    for actual, expected in zip(imported_scores, run.score(SENTENCES), strict=True):
        assert actual.log_prob == pytest.approx(expected.log_prob, abs=1e-5)


TOKENIZERS = {
    "gpt": "bytepair",
    "bert": "wordpiece",
    "ernie": "wordpiece",
    "roberta": "bytepair",
    "albert": "wordpiece",
}
AUTO_CLASSES = {
    "next": "AutoModelForCausalLM",
    "token": "AutoModelForMaskedLM",
    "token pair": "AutoModelForPreTraining",
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("model_name", TOKENIZERS)
def test_exported_run_gives_the_logits_of_transformers_and_back_bit_for_bit(model_name: str, tmp_path: Path):
    """AutoTokenizer and AutoModel open it, tokenize alike and give the same logits; imported again, it is identical."""
    transformers = pytest.importorskip("transformers")
    import torch

    run = open_small_run(model_name, tmp_path, tokenizer=TOKENIZERS[model_name], steps=3)
    assert main(["export", str(run.folder.path), "--to", str(tmp_path / "theirs")]) == 0
    model = getattr(transformers, AUTO_CLASSES[" ".join(run.heads)]).from_pretrained(tmp_path / "theirs").eval()
    hf_tokenizer, roles = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs"), run.tokenizer.special_roles
    boundary_ids = {"gpt": ([], [])}.get(model_name, ([roles["start"]], [roles["end"]]))
    for sentence in SENTENCES:
        ids = [*boundary_ids[0], *run.tokenizer.encode(sentence).ids.tolist(), *boundary_ids[1]]
        encoding = hf_tokenizer(sentence, return_tensors="pt")
        assert encoding["input_ids"][0].tolist() == ids
        assert ("token_type_ids" in encoding) == (model_name in ("bert", "ernie", "albert"))
        inputs = {"tokens": torch.tensor(ids), "lengths": torch.tensor([len(ids)])}
        with torch.inference_mode():
            logits, hf_outputs = run.network.logits(inputs), model(**encoding)
        for head, value in logits.items():
            names = ("seq_relationship_logits", "sop_logits") if head == "pair" else ("prediction_logits", "logits")
            expected = next(hf_outputs[name] for name in names if name in hf_outputs)
            torch.testing.assert_close(value, expected if head == "pair" else expected[0], rtol=0, atol=1e-4)
    imported_run = fb.import_run(tmp_path / "theirs", to=tmp_path / "back")
    assert imported_run.metadata["weights"]["sha256"] == weights_digest(run, tmp_path)
    assert (imported_run.metadata["milestone"], imported_run.heads, imported_run.tokenizer.digest) == (
        model_name,
        run.heads,
        run.tokenizer.digest,
    )
    fields = imported_run.metadata["fields"]
    assert {name: fields[name] for name in fields} == run.metadata["fields"]
    assert ((tmp_path / "theirs" / "vocab.txt").is_file()) == (TOKENIZERS[model_name] == "wordpiece")


def weights_digest(run: Run, folder: Path) -> str:
    """The digest of its weights, written again: a file of the same tensors has the same bytes."""
    from safetensors.torch import save_file

    from forebear.data.io.atomic import file_digest

    save_file(run.network.tensors(), folder / "again.safetensors")
    return file_digest(folder / "again.safetensors")


def test_exported_tokenizer_encodes_pairs_and_masks_as_in_training(tmp_path: Path):
    transformers = pytest.importorskip("transformers")
    for model_name in ("bert", "roberta"):
        folder = tmp_path / model_name
        folder.mkdir()
        run = open_small_run(model_name, folder, tokenizer=TOKENIZERS[model_name], steps=1)
        run.export(folder / "theirs")
        hf_tokenizer, roles = transformers.AutoTokenizer.from_pretrained(folder / "theirs"), run.tokenizer.special_roles
        first, second = (run.tokenizer.encode(text).ids.tolist() for text in ("The cat sat.", "The dog"))
        encoding, (start, end) = hf_tokenizer("The cat sat.", "The dog"), (roles["start"], roles["end"])
        separators = [end] if model_name == "bert" else [end, end]
        assert encoding["input_ids"] == [start, *first, *separators, *second, end]
        if model_name == "bert":
            assert encoding["token_type_ids"] == [0] * (len(first) + 2) + [1] * (len(second) + 1)
        text = f"The cat {run.tokenizer.id_to_token(roles['mask'])}."
        assert hf_tokenizer(text)["input_ids"][1:-1] == run.tokenizer.encode(text, specials=True).ids.tolist()
        assert (hf_tokenizer.mask_token_id, hf_tokenizer.cls_token_id, hf_tokenizer.sep_token_id) == (
            roles["mask"],
            start,
            end,
        )
        assert hf_tokenizer.model_max_length == run.metadata["fields"]["context"]


def write_tiny_bert(folder: Path, *, without: tuple[str, ...] = ()) -> Path:
    """A folder of transformers without the tensors of some prefixes, and a vocabulary for it."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(FIXTURES / "bert", folder)
    (folder / "expected.safetensors").unlink()
    tensors = {name: value.clone() for name, value in load_file(folder / "model.safetensors").items()}
    remaining = {name: value for name, value in tensors.items() if not name.startswith(without or ("-",))}
    save_file(remaining, folder / "model.safetensors")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij", "##a", "##b"]
    (folder / "vocab.txt").write_text("\n".join(words))
    return folder


def test_imported_encoder_without_heads_cannot_fill_masks(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Missing heads are not initialized randomly; skipped tensors are named and recorded."""
    source = write_tiny_bert(tmp_path / "theirs", without=("cls.",))
    assert main(["import", str(source), "--to", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr().out
    assert "heads: none, an encoder only" in printed
    assert "no head 'token'" in printed
    assert "bert.pooler.dense.weight" in printed
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
def test_imported_bert_has_the_heads_of_its_folder(
    without, heads, name, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    source = write_tiny_bert(tmp_path / "theirs", without=without)
    assert main(["import", str(source), "--to", str(tmp_path / "run"), "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert (output["heads"], output["report"]["heads"], output["report"]["left_out"]) == (heads, heads, {})
    assert set(output["report"]["missing"]) == {"token", "pair"} - set(heads)
    assert output["report"]["matched"] == len(tensor_names(source))
    assert output["notes"][0] == f"{output['report']['matched']} names are those of BERT, and were read"
    run = Run.open(tmp_path / "run")
    assert list(run.heads) == heads
    run.export(tmp_path / "out")
    assert json.loads((tmp_path / "out" / "config.json").read_text())["architectures"] == [name]
    assert tensor_names(tmp_path / "out") == tensor_names(source)


def tensor_names(folder: Path) -> set[str]:
    from safetensors import safe_open

    with safe_open(folder / "model.safetensors", "pt") as file:
        return set(file.keys())


def test_imported_tokenizer_follows_tokenizer_config(tmp_path: Path):
    source = write_tiny_bert(tmp_path / "theirs")
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


def test_import_refuses_vocabulary_larger_than_the_embedding(tmp_path: Path):
    source = write_tiny_bert(tmp_path / "theirs")
    with open(source / "vocab.txt", "a") as file:
        file.write("\n##c")
    with pytest.raises(InputError, match="its tokenizer has 18 tokens, and its table only 17"):
        fb.import_run(source, to=tmp_path / "run")


def test_export_refuses_fields_that_transformers_does_not_support(tmp_path: Path):
    run = open_small_run("gpt", tmp_path, tokenizer="bytepair", steps=1, inner=40)
    with pytest.raises(InputError, match="of transformers always has 128"):
        run.export(tmp_path / "other")
    assert not (tmp_path / "other").exists()
    run = open_small_run("roberta", tmp_path, to="relu", tokenizer="bytepair", steps=1, activation="relu")
    with pytest.raises(InputError, match="hidden_act would be 'relu', and RoBERTa of transformers has 'gelu'"):
        run.export(tmp_path / "other")


def test_openai_gpt_archive_is_imported_scored_and_exported(tmp_path: Path, data: Path):
    """The weights of AllenNLP's fixture, with a tokenizer as Hugging Face publishes it for this architecture."""
    source = data / "weights/openai_gpt_fixture/transformer_small.tar.gz"
    archive = Path(shutil.copy(source, tmp_path / "model.tar.gz"))
    with pytest.raises(InputError, match=r"there is no tokenizer\.json; OpenAI's own vocabulary") as caught:
        convert.import_model(str(archive), str(tmp_path / "run"), heads=2)
    assert "openai-gpt" in caught.value.hint
    word_end_tokens = {"<unk>": 0, "\n</w>": 1} | {f"{c}</w>": i for i, c in enumerate("abcdefghijklmnopqrstuvwx", 2)}
    vocabulary = word_end_tokens | {c: i for i, c in enumerate("abcdefghijklmnopqrstuvwx", len(word_end_tokens))}
    model = {"type": "BPE", "unk_token": "<unk>", "end_of_word_suffix": "</w>", "vocab": vocabulary, "merges": []}
    tokenizer_spec = {"version": "1.0", "normalizer": {"type": "BertNormalizer", "lowercase": True}, "model": model}
    tokenizer_spec["normalizer"] |= {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None}
    tokenizer_spec |= {
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": {"type": "BPEDecoder", "suffix": "</w>"},
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer_spec))
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


def test_import_and_export_refuse_wrong_format_and_existing_files(tmp_path: Path):
    run = open_small_run("ngram", tmp_path)
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


def test_imported_arpa_run_rebuilds_its_lost_table_and_exports_alike(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(language_model, "MIN_COMPILED_NGRAMS", -1)
    convert.export_run(open_small_run("ngram", tmp_path), "arpa", str(tmp_path / "first.arpa"))
    folder = convert.import_model(str(tmp_path / "first.arpa"), str(tmp_path / "back")).path
    for attempt, is_lost in enumerate((False, True)):
        if is_lost:
            (folder / NGRAM_STORE_FILE).unlink()
        run = Run.open(folder)
        assert run.next("The", why=True).candidates[0].evidence.steps[-1].log is not None
        exported_path = convert.export_run(run, "arpa", str(tmp_path / f"again{attempt}.arpa"))
        original, exported = (arpa.read_arpa(path) for path in (tmp_path / "first.arpa", exported_path))
        assert original.words == exported.words
        for actual, expected in zip(
            (*original.log_probs, *original.backoffs), (*exported.log_probs, *exported.backoffs), strict=True
        ):
            np.testing.assert_allclose(actual, expected, atol=1e-6)
        assert (folder / NGRAM_STORE_FILE).exists()
