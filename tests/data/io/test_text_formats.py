"""Files become documents: every format and division, undecodable bytes named by their offset, nothing lost."""

import gzip
import json
import os

import pytest
import zstandard
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from forebear.data.io import document as documents_module
from forebear.data.io.compression import GZIP, ZSTD
from forebear.errors import InputError
from story_corpus import read_documents, read_texts


@pytest.fixture
def file(tmp_path):
    def write(content, name="text.txt"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def test_blank_lines_separate_documents(file):
    path = file("\n\nfirst line\nsecond line\n \t\n\n第二篇\n\n\n\nthird")
    documents, ledger = read_documents(path)
    assert [d.text for d in documents] == ["first line\nsecond line", "第二篇", "third"]
    assert [d.line for d in documents] == [3, 7, 11]
    assert ledger.stage("read").outputs["documents"] == 3


def test_documents_may_be_files_or_lines(file):
    path = file("one\n\ntwo\nthree\n")
    assert read_texts(path, documents="files") == ["one\n\ntwo\nthree"]
    documents, ledger = read_documents(path, documents="lines")
    assert [(d.text, d.line) for d in documents] == [("one", 1), ("two", 3), ("three", 4)]
    assert ledger.drops["empty document"].examples[0]["line"] == 2


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_line_endings_and_byte_order_mark_are_removed(file, ending, bom):
    path = file(bom + ending.join(["中文一", "second", "", "third"]) + ending)
    assert read_texts(path) == ["中文一\nsecond", "third"]


@pytest.mark.parametrize("encoding", ["gb18030", "big5", "utf-16", "shift_jis"])
def test_other_encodings_are_decoded_across_blocks(file, encoding):
    content = "中文一，人山人海\n\n日本" * 50_000  # longer than a block: characters are split between blocks
    path = file(content.encode(encoding))
    assert "\n\n".join(read_texts(path, encoding=encoding)) == content


def test_unknown_encoding_is_refused():
    with pytest.raises(InputError, match="no text encoding is called 'klingon'"):
        read_texts(__file__, encoding="klingon")
    with pytest.raises(InputError, match="rot13"):
        read_texts(__file__, encoding="rot13")


@pytest.mark.parametrize("offset", [0, 7, (1 << 20) - 1, 1 << 20, (1 << 21) + 5])
def test_undecodable_byte_is_named_by_file_and_offset(file, offset):
    content = bytearray(b"some text\n" * 300_000)
    content[offset] = 0xFF
    path = file(bytes(content))
    with pytest.raises(InputError) as caught:
        read_texts(path)
    assert caught.value.byte == offset
    assert caught.value.file == str(path)
    assert "0xff" in str(caught.value)
    assert "--on-bad-bytes" in caught.value.hint
    replaced, ledger = read_documents(path, on_bad_bytes="replace")
    assert "".join(d.text for d in replaced).count("\ufffd") == 1
    assert ledger.repaired["replaced"].examples == [{"file": str(path), "byte": offset, "bytes": 1}]
    skipped, ledger = read_documents(path, on_bad_bytes="skip")
    assert "\ufffd" not in "".join(d.text for d in skipped)
    assert ledger.repaired["skipped"].count == 1


def test_undecodable_byte_of_gb18030_is_named_or_skipped(file):
    path = file("中文".encode("gb18030") + b"\xff" + "中文".encode("gb18030"))
    with pytest.raises(InputError) as caught:
        read_texts(path, encoding="gb18030")
    assert caught.value.byte == 4
    assert read_texts(path, encoding="gb18030", on_bad_bytes="skip") == ["中文中文"]


def test_truncated_last_character_is_an_undecodable_byte(file):
    with pytest.raises(InputError, match="byte 3"):
        read_texts(file(b"abc" + "中".encode()[:2]))


def test_compression_is_detected_by_content_not_by_name(file):
    plain = "第一篇\n\nsecond " + "x" * 3_000_000
    expected = read_texts(file(plain))
    assert read_texts(file(gzip.compress(plain.encode()), "a.txt.gz")) == expected
    assert read_texts(file(zstandard.compress(plain.encode()), "a.zst")) == expected
    assert read_texts(file(gzip.compress(plain.encode()), "no_suffix")) == expected
    two_members = gzip.compress(b"one\n\n") + gzip.compress(b"two")
    assert read_texts(file(two_members, "two.gz")) == ["one", "two"]
    two_frames = zstandard.compress(b"one\n\n") + zstandard.compress(b"two")
    assert read_texts(file(two_frames, "two.zst")) == ["one", "two"]


@pytest.mark.parametrize("name", ["cut.gz", "cut.zst"])
def test_truncated_compressed_file_is_refused(file, name):
    content = os.urandom(300_000).hex().encode()
    compressed = gzip.compress(content) if name.endswith("gz") else zstandard.compress(content)
    with pytest.raises(InputError, match="damaged or cut short"):
        read_texts(file(compressed[: len(compressed) // 2], name))


def test_corrupt_gzip_is_refused(file):
    compressed = bytearray(gzip.compress(os.urandom(200_000).hex().encode()))
    compressed[len(compressed) // 2] ^= 0xFF
    with pytest.raises(InputError, match="damaged"):
        read_texts(file(bytes(compressed), "bad.gz"))


def test_jsonl_text_field_is_read_also_nested(file):
    records = [{"text": "一\n\n二", "id": 1}, {"text": "", "id": 2}, {"text": "three 😀"}]
    path = file("\n".join(map(json.dumps, records)) + "\n\n", "a.jsonl")
    documents, ledger = read_documents(path)
    assert [(d.text, d.line) for d in documents] == [("一\n\n二", 1), ("three 😀", 3)]
    assert ledger.drops["empty document"].examples[0]["line"] == 2
    nested = file(json.dumps({"a": {"b": "deep"}}), "b.jsonl")
    assert read_texts(nested, field="a.b") == ["deep"]


@pytest.mark.parametrize(
    ("line", "message"),
    [("{", "not a JSON value"), ('{"body": "x"}', "it has: body"), ('{"text": 3}', "not text"), ('"x"', "it has: str")],
)
def test_malformed_records_are_named_by_line(file, line, message):
    path = file('{"text": "fine"}\n' + line, "a.jsonl")
    with pytest.raises(InputError, match=message) as caught:
        read_texts(path)
    assert caught.value.line == 2


def test_lone_surrogates_in_json_are_treated_as_bad_bytes(file):
    path = file('{"text": "a\\ud83db"}', "a.jsonl")
    with pytest.raises(InputError, match="half a character"):
        read_texts(path)
    assert read_texts(path, on_bad_bytes="replace") == ["a\ufffdb"]
    assert read_texts(path, on_bad_bytes="skip") == ["ab"]


def test_csv_and_tsv_columns_are_read_by_name_or_number(file):
    table = file('id,text\n1,"a, ""quoted""\ntwo lines"\n2,第二\n', "a.csv")
    documents, _ = read_documents(table)
    assert [(d.text, d.line) for d in documents] == [('a, "quoted"\ntwo lines', 2), ("第二", 4)]
    assert read_texts(table, column="id") == ["1", "2"]
    tabs = file('0\tsay "hi\n1\t好\n', "a.tsv")
    assert read_texts(tabs, column="2") == ['say "hi', "好"]
    with pytest.raises(InputError, match="no column is called 'text'"):
        read_texts(tabs)
    with pytest.raises(InputError, match="there is no column 3"):
        read_texts(tabs, column="3")


def test_malformed_tables_are_named_by_line(file):
    with pytest.raises(InputError, match="not well-formed CSV") as caught:
        read_texts(file('text\nfine\n"never closed\nmore\n', "a.csv"))
    assert caught.value.line == 3
    with pytest.raises(InputError, match="the row has 1 columns") as caught:
        read_texts(file("id,text\n1,x\n2\n", "b.csv"))
    assert caught.value.line == 3


def test_tagged_text_keeps_its_word_boundaries(file):
    path = file("迈向/v  充满/v  希望/n\n[中央/n  电台/n]nt  CCTV/nx  BBC/nx  //w", "a.txt")
    document = read_documents(path, format="tagged")[0][0]
    assert document.text == "迈向充满希望\n中央电台CCTV BBC/"
    assert document.word_ends == (2, 4, 6, 7, 9, 11, 15, 16, 19, 20)
    with pytest.raises(InputError, match="is not word/tag") as caught:
        read_texts(file("好/a\nplain\n"), format="tagged")
    assert caught.value.line == 2


def test_very_long_line_is_read_in_parts(file):
    path = file("word " * 4_000_000)  # 20 MB in one line
    documents, ledger = read_documents(path)
    assert "".join(d.text for d in documents) == "word " * 4_000_000
    assert max(len(d.text) for d in documents) <= 2 * documents_module.PART_CHARACTERS
    assert [d.part for d in documents] == list(range(len(documents)))
    assert ledger.stage("read").outputs["documents"] == 1
    lines, _ = read_documents(path, documents="lines")
    assert "".join(d.text for d in lines) == "word " * 4_000_000


def test_document_starting_with_nul_characters_is_kept(file):
    content = "\x00" * 3_000_000 + "then text"
    for division in ("blank", "files", "lines"):
        assert "".join(read_texts(file(content), documents=division)) == content


def test_long_tagged_lines_are_split_between_words(file, monkeypatch):
    monkeypatch.setattr("forebear.data.io.document.PART_CHARACTERS", 40)
    path = file("好/a  。/w  " * 100)
    for division in ("blank", "lines"):
        assert "".join(read_texts(path, format="tagged", documents=division)) == "好。" * 100


@pytest.mark.parametrize("content", ["", "\n\n\n", " \n\t\n", "\x00\x00", "\ufeff"])
def test_files_without_text_are_dropped_into_the_ledger(file, content):
    for division in ("blank", "files", "lines"):
        documents, ledger = read_documents(file(content), documents=division)
        assert documents == []
        stage = ledger.stage("read")
        assert stage.inputs["documents"] == sum(d["documents"] for d in stage.dropped.values()) >= 1


def test_nul_characters_are_kept(file):
    assert read_texts(file("a\x00b\n\nc")) == ["a\x00b", "c"]


def test_zstd_with_skippable_frames_and_long_windows_is_read(file):
    skippable_frame = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"note"
    assert read_texts(file(skippable_frame + zstandard.compress(b"text"), "a.zst")) == ["text"]
    parameters = zstandard.ZstdCompressionParameters(window_log=28, enable_ldm=True)
    assert read_texts(file(zstandard.ZstdCompressor(compression_params=parameters).compress(b"text " * 100), "b.zst"))


def test_utf_16_without_byte_order_mark_is_refused(file):
    with pytest.raises(InputError, match="cannot be read as utf-16"):
        read_texts(file("text".encode("utf-16-le")), encoding="utf-16")


@pytest.mark.parametrize("record", ['{"text": "x", "n": ' + "1" * 5000 + "}", "[" * 100_000])
def test_hostile_json_records_are_refused(file, record):
    with pytest.raises(InputError, match=r"not a JSON value|has no field"):
        read_texts(file(record, "a.jsonl"))


def test_carriage_returns_blank_rows_and_odd_column_names_in_tables(file):
    assert read_texts(file("a\rb\tc\n\nd\te\n", "a.tsv"), column="1") == ["a\rb", "d"]
    with pytest.raises(InputError, match="no column is called '²'"):
        read_texts(file("a,b\n", "b.csv"), column="²")


def test_skipped_bytes_are_in_the_ledger(file):
    path = file("文".encode() + b"\xff\xfe" + "文".encode())
    _, ledger = read_documents(path, on_bad_bytes="skip")
    stage = ledger.stage("read")
    assert stage.inputs["bytes"] == path.stat().st_size
    assert stage.dropped["bad bytes skipped"]["bytes"] == 2
    _, ledger = read_documents(path, on_bad_bytes="replace")
    assert ledger.stage("read").inputs["bytes"] == path.stat().st_size


@settings(max_examples=200, deadline=None)
@given(
    content=st.text(alphabet=st.sampled_from("a中 \n\r\t\ufeff\x00\u2028😀。")).map(str.encode)
    | st.binary(max_size=60),
    division=st.sampled_from(["blank", "files", "lines"]),
    policy=st.sampled_from(["replace", "skip"]),
)
def test_reader_ledger_balances_for_any_input(tmp_path_factory, content, division, policy):
    assume(content[:2] != GZIP and content[:4] != ZSTD)
    path = tmp_path_factory.mktemp("any") / "x.txt"
    path.write_bytes(content)
    documents, ledger = read_documents(path, documents=division, on_bad_bytes=policy)
    stage = ledger.stage("read")
    num_characters = sum(len(d.text) for d in documents)
    assert stage.outputs["characters"] == num_characters
    decoded = content.decode(errors="replace" if policy == "replace" else "ignore")
    assert stage.inputs["characters"] == len(decoded)
    assert "".join("".join(d.text for d in documents).split()) == "".join(
        "".join(decoded.replace("\ufeff", "", decoded.startswith("\ufeff")).split())
    ) or any("empty" in reason for reason in ledger.drops)


@settings(max_examples=30, deadline=None)
@given(
    lines=st.lists(st.text(alphabet="ab 中\n", max_size=40), max_size=20),
    block=st.integers(1, 20),
    part=st.integers(4, 30),
)
def test_documents_do_not_depend_on_block_and_part_size(tmp_path_factory, lines, block, part):
    path = tmp_path_factory.mktemp("any") / "x.txt"
    path.write_text("\n".join(lines))
    documents, _ = read_documents(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("forebear.data.io.sources.BLOCK_BYTES", block)
        patch.setattr("forebear.data.io.document.PART_CHARACTERS", part)
        pieces, _ = read_documents(path)
    joined, line_numbers = [], []
    for piece in pieces:
        if piece.part == 0:
            joined.append("")
            line_numbers.append(piece.line)
        joined[-1] += piece.text
    assert joined == [d.text for d in documents]
    assert line_numbers == [d.line for d in documents]
