"""Entities from text to corpus and run: parts, workers, cache keys, old corpora, cleaned text, command-line options."""

import json
import pickle

import numpy as np
import pytest

from forebear.cli.main import main
from forebear.data.cleaning import CleaningRules, clean_documents, write_documents
from forebear.data.corpus import shards
from forebear.data.corpus.corpus import CORPUS_FILE, Corpus
from forebear.data.corpus.prepare import prepare_corpus
from forebear.data.entities import EntityDictionary
from forebear.data.io.document import Document
from forebear.data.io.text_formats import TextFormat
from forebear.data.io.text_ledger import Ledger
from forebear.data.segmentation import Segmenter
from forebear.data.source import TextSource, prepare_source, reopen_corpus
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError
from story_corpus import corpus_entities, folder_contents, read_documents

TAGGED = TextFormat(format="tagged")
TRAINING_TEXT = "江泽民在北京大学见了 Ann Smith of New York and Yahoo! today. 我们是大学生。"
TOKENIZERS = {
    "wordpiece": train_tokenizer("wordpiece", [TRAINING_TEXT] * 3, size=300, min_count=1, lower=False),
    "characters": train_tokenizer("characters", [TRAINING_TEXT]),
    "bytepair": train_tokenizer("bytepair", [TRAINING_TEXT] * 3, size=400, min_count=1),
}


def test_entities_do_not_depend_on_parts_and_shards(tmp_path, monkeypatch):
    (tmp_path / "t.txt").write_text("她说。\n\n" + "\n".join(f"第{n}天江泽民去了New York。" for n in range(300)))
    lines = "\n".join("江/nr 泽民/nr 去/v 了/u [New/ns York/ns]ns 。/w" for _ in range(300))
    (tmp_path / "tagged.txt").write_text("她/r 说/v 。/w\n\n" + lines)
    for file, reading, dictionary in (
        ("t.txt", TextFormat(), EntityDictionary(("江泽民", "New York"))),
        ("tagged.txt", TAGGED, None),
    ):
        corpora = {}
        for part in (1 << 20, 400):
            monkeypatch.setattr("forebear.data.io.document.PART_CHARACTERS", part)
            monkeypatch.setattr(shards, "SHARD_CHARACTERS", 2 * part)
            to = tmp_path / f"{file} {part}"
            corpus = prepare_corpus(
                [tmp_path / file], TOKENIZERS["wordpiece"], text_format=reading, entities=dictionary, to=to
            )
            corpora[part] = corpus
            assert len(corpus.documents) == 3
            assert corpus.metadata["counts"]["entities"] == 600
            assert set(corpus_entities(corpus)) == {"江泽民", "New York"}
        unsplit, in_parts = corpora.values()
        assert unsplit.key != in_parts.key
        assert np.array_equal(unsplit.entities, in_parts.entities)
        assert np.array_equal(unsplit.words, in_parts.words)


@pytest.mark.sample(1)
@pytest.mark.parametrize("form", ["text", "tagged"])
def test_entities_do_not_depend_on_the_number_of_workers(tmp_path, monkeypatch, form):
    monkeypatch.setattr(shards, "SHARD_CHARACTERS", 100)
    line = {"text": "{}江泽民。 Ann went to New York.", "tagged": "{}/m 江/nr 泽民/nr 。/w Ann/nr went/v"}[form]
    (tmp_path / "t.txt").write_text("\n\n".join(line.format(n) for n in range(60)))
    options = {"text_format": TextFormat(format=form), "entities": EntityDictionary(("江泽民", "New York", "New"))}
    folders = []
    for workers in (1, 2, 5):
        to = tmp_path / f"{workers}"
        corpus = prepare_corpus([tmp_path / "t.txt"], TOKENIZERS["bytepair"], to=to, workers=workers, **options)
        assert corpus.metadata["counts"]["entities"] == 120
        folders.append(folder_contents(to))
    assert folders[0] == folders[1] == folders[2]


def test_entity_array_is_verified_and_survives_pickling(tmp_path):
    (tmp_path / "t.txt").write_text("江泽民。")
    corpus = prepare_corpus(
        [tmp_path / "t.txt"], TOKENIZERS["characters"], entities=EntityDictionary(("江泽民",)), to=tmp_path / "c"
    )
    corpus.verify()
    assert corpus.words is not None  # names imply words
    assert corpus_entities(pickle.loads(pickle.dumps(corpus))) == ["江泽民"]
    prepared_again = prepare_corpus(
        [tmp_path / "t.txt"], TOKENIZERS["characters"], entities=EntityDictionary(("江泽民",)), to=tmp_path / "c"
    )
    assert prepared_again.key == corpus.key


def test_corpora_without_entity_array_open(tmp_path, story_path, wordpiece_tokenizer):
    corpus = prepare_corpus([story_path], wordpiece_tokenizer, entities=EntityDictionary(("cat",)), to=tmp_path / "c")
    assert corpus.entities is not None
    metadata = json.loads((tmp_path / "c" / CORPUS_FILE).read_text())
    del metadata["arrays"]["entities"], metadata["counts"]["entities"]
    (tmp_path / "c" / CORPUS_FILE).write_text(json.dumps(metadata))
    (tmp_path / "c" / "entities.npy").unlink()
    old = Corpus.open(tmp_path / "c")
    old.verify()
    assert old.entities is None
    assert np.array_equal(old.ids, prepare_corpus([story_path], wordpiece_tokenizer).ids)


def test_corpus_key_changes_with_the_entity_dictionary(tmp_path, story_path, wordpiece_tokenizer):
    def key(*names: str) -> str:
        return prepare_corpus(
            [story_path],
            wordpiece_tokenizer,
            segmenter=Segmenter(),
            entities=EntityDictionary(names) if names else None,
        ).key

    keys = [key(), key("cat"), key("dog"), key("cat", "dog")]
    assert len(set(keys)) == 4
    assert key("dog", "cat", "cat") == keys[3]
    assert prepare_corpus([story_path], wordpiece_tokenizer, segmenter=Segmenter()).key == keys[0]
    (tmp_path / "tagged.txt").write_text("好/a")
    tagged_corpus = prepare_corpus([tmp_path / "tagged.txt"], wordpiece_tokenizer, text_format=TAGGED)
    assert tagged_corpus.metadata["made_from"]["entity_tags"] == ["nr", "ns", "nt", "nz"]


def test_entities_where_only_some_records_mark_them(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "SHARD_CHARACTERS", 5)
    records = [
        {"text": "江泽民见了她"},
        {"text": "江泽民见了她", "words": [1, 3, 5, 6], "entities": [[0, 3], [5, 6]]},
        {"text": "江泽民见了她", "words": [1, 3, 5, 6], "entities": [[0, 2]]},  # ends inside a word: ignored
        {"text": "江泽民见了她", "entities": [[0, 3]]},
        {"text": "江泽民见了她", "words": [6], "entities": [{"江泽民": 1}]},
        {"text": "江泽民见了她", "words": [1, 3, 5, 6], "entities": [[3, 5], [0, 3]]},
    ]
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, records)))
    corpus = prepare_corpus([tmp_path / "r.jsonl"], TOKENIZERS["characters"])
    assert corpus.entities is not None
    assert corpus.entities.tolist() == [0] * 6 + [1, 2, 2, 0, 0, 1] + [0] * 24


def test_entity_dictionary_is_read_and_refused_like_a_user_dictionary(tmp_path):
    (tmp_path / "names.txt").write_text("# persons\n江泽民 3 nr\nNew York\tns\n\n北京\n北京\n")
    assert EntityDictionary.from_file(tmp_path / "names.txt").entries == ("New York", "北京", "江泽民")
    with pytest.raises(InputError, match="cannot read the dictionary"):
        EntityDictionary.from_file(tmp_path / "none.txt")
    (tmp_path / "names.txt").write_bytes("好\n江".encode("gb18030"))
    with pytest.raises(InputError, match="not UTF-8"):
        EntityDictionary.from_file(tmp_path / "names.txt")
    (tmp_path / "names.txt").write_text("北京\n" + "很长" * 100)
    with pytest.raises(InputError, match="is no word") as caught:
        EntityDictionary.from_file(tmp_path / "names.txt")
    assert caught.value.line == 2


# -- cleaned text


def test_cleaning_adjusts_entity_spans():
    document = Document("迈\u200b向ＡＢ\n\u200b\n希望了", "f", 1, 0, (3, 5, 6, 7, 8, 10, 11), ((0, 5), (6, 7), (8, 10)))
    (out,) = clean_documents([document], CleaningRules(nfkc=True), Ledger())
    assert [out.text[begin:end] for begin, end in out.entity_spans or ()] == ["迈向AB", "希望"]
    document = Document("一二\n三四五\n六", "f", 1, 0, (1, 2, 3, 6, 7, 8), ((0, 2), (2, 6), (3, 6), (7, 8)))
    (out,) = clean_documents([document], CleaningRules(drop_longer_lines=2), Ledger())
    assert [out.text[begin:end] for begin, end in out.entity_spans or ()] == ["一二", "六"]


def test_cleaned_jsonl_keeps_entities(tmp_path):
    (tmp_path / "t.txt").write_text("江/nr 泽民/nr 见/v 了/u\n\n北京/ns 人/n")

    def write_text(name: str) -> Ledger:
        documents, ledger = read_documents(tmp_path / "t.txt", format="tagged")
        write_documents(documents, tmp_path / name, ledger)
        return ledger

    write_text("o.jsonl")
    record = json.loads((tmp_path / "o.jsonl").read_text().splitlines()[0])
    assert record == {"text": "江泽民见了", "words": [1, 3, 4, 5], "entities": [[0, 3]]}
    from_tags, from_jsonl = (
        prepare_corpus([path], TOKENIZERS["characters"], text_format=text_format)
        for path, text_format in ((tmp_path / "t.txt", TAGGED), (tmp_path / "o.jsonl", TextFormat()))
    )
    assert np.array_equal(from_tags.ids, from_jsonl.ids)
    assert np.array_equal(from_tags.entities, from_jsonl.entities)
    lost = write_text("o.txt").stage("write").dropped
    assert lost["entities, which plain text does not mark"] == {"entities": 2}


# -- from source text to a run


def test_text_source_with_entity_dictionary_survives_json_and_detects_changes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.txt").write_text("江泽民。他在北京。")
    (tmp_path / "names.txt").write_text("江泽民\n")
    source = TextSource(("t.txt",), entities="names.txt")
    assert source.segmenter() == Segmenter()
    source_json = json.loads(json.dumps(source.to_dict()))
    assert source_json["entities"] == str(tmp_path / "names.txt")
    assert TextSource.from_dict(source_json) == TextSource(
        (str(tmp_path / "t.txt"),), entities=str(tmp_path / "names.txt")
    )
    del source_json["entities"]
    assert TextSource.from_dict(source_json).entities is None  # of a run from before there were any
    corpus = prepare_source(source, TOKENIZERS["characters"])
    assert corpus_entities(corpus) == ["江泽民"]
    data = {"source": source.to_dict(), "corpus": corpus.key, "folder": "gone"}
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "another"))
    assert reopen_corpus(data, TOKENIZERS["characters"]).key == corpus.key
    (tmp_path / "names.txt").write_text("北京\n")
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "a third"))
    with pytest.raises(InputError, match="has changed"):
        reopen_corpus(data, TOKENIZERS["characters"])


def test_prepare_command_prints_the_number_of_entities(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.txt").write_text("江泽民。他在北京。")
    (tmp_path / "names.txt").write_text("江泽民\n北京\n")
    arguments = ["prepare", "t.txt", "--tokenizer", "characters"]
    assert main([*arguments, "--entities", "names.txt"]) == 0
    assert "2 entities" in capsys.readouterr().out
    assert main([*arguments, "--entities", "names.txt", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"]["entities"] == 2
    assert main(arguments) == 0
    assert "entities" not in capsys.readouterr().out
    assert main([*arguments, "--entities", "none.txt"]) == 2
    assert "cannot read the dictionary" in capsys.readouterr().err
    for command in ("prepare", "pretrain", "preview"):
        assert main([command, "--help"]) == 0
        assert "--entities" in capsys.readouterr().out
