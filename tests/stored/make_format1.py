"""How tests/stored/format1 was made: run folders, corpora and comparisons of format 1, and the answers they give.

Kept as documentation. It works with the code of commit 38532c9 only, by the command line and the public API of then:

    git worktree add /tmp/format1-code 38532c9
    PYTHONPATH=/tmp/format1-code/src:tests python tests/stored/make_format1.py /tmp/format1-work

Every command runs in the working folder with relative paths. The code writes some absolute paths nevertheless (the
corpus and the parent of a run); in the stored copies the working folder is replaced by @WORK@, and `unpack` puts the
real folder back. What is stored is one archive, files.tar.xz, because most files are the same in many folders. Left out
are pages (comparisons write them again), corpora in the cache that no unfinished run learns from, and the checkpoints
of finished runs but those of CHECKPOINTS. Rows of letter groups that none of its words has are zero: there are 200,000.
The answers are those of what is stored, unpacked.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shlex
import shutil
import signal
import sys
import tarfile
from pathlib import Path

from format1_answers import (
    ANSWERS,
    ARCHIVE,
    COMPARISONS,
    CORPORA,
    PLACEHOLDER,
    SENTENCES,
    TEXT_FILES,
    UNKNOWN,
    answers,
    comparison_answers,
    corpus_answers,
    listing,
    resumed,
    unpack,
)

CHECKPOINTS = ("gpt2", "ngram")  # finished runs that keep theirs

TINY = "--held-out 0.15 --keep 1 --quiet"
STEPS = f"--steps 24 --evaluate-every 8 --batch 96 --rate 0.01 --threads 1 --seed 3 --device cpu {TINY}"
SHAPE = "--width 8 --depth 1 --heads 2"
RECURRENT = "--width 8 --inner 8 --depth 1 --context 8"
SPELLED = "--filters 1:4,2:4 --characters 4 --highways 1 --longest 12"
ENGLISH, HAN, PAIRS = "texts/english.txt", "texts/chinese.txt", "texts/pairs.tsv"

FINISHED = {
    "ngram": f"pretrain ngram {ENGLISH} --order 3 --tokenizer words --batch 300 {TINY}",
    "ngram-chinese": f"pretrain ngram {HAN} --order 3 --smoothing witten-bell --batch 300 {TINY}",
    "onehot": f"pretrain onehot {ENGLISH} --batch 300 {TINY}",
    "hmm": f"pretrain hmm {ENGLISH} --states 4 --epochs 6 --batch 300 {TINY}",
    "crf": f"pretrain crf texts/tags.conll --to finished/crf --epochs 12 {TINY}",
    "nnlm": f"pretrain nnlm {ENGLISH} --width 8 --inner 8 --context 3 {STEPS}",
    "rnn": f"pretrain rnn {ENGLISH} {RECURRENT} {STEPS}",
    "lstm": f"pretrain lstm {ENGLISH} {RECURRENT} --dropout 0.1 {STEPS}",
    "word2vec": f"pretrain word2vec {ENGLISH} --threads 1 --width 8 --min-count 1 --epochs 3 --batch 300 {TINY}",
    "word2vec-subwords": f"pretrain word2vec {ENGLISH} --threads 1 --width 4 --min-count 2 --subwords --phrases 1"
    f" --output tree --architecture cbow --epochs 2 --batch 300 {TINY}",
    "glove": f"pretrain glove {ENGLISH} --threads 1 --width 8 --min-count 1 --epochs 3 --batch 300 {TINY}",
    "seq2seq": f"pretrain seq2seq --pairs {PAIRS} --width 8 --inner 8 --depth 1 --context 24 {STEPS}",
    "seq2seq_attention": f"pretrain seq2seq_attention --pairs {PAIRS} --width 8 --inner 8 --depth 1 --context 24"
    f" {STEPS}",
    "cnn_rnn": f"pretrain cnn_rnn {ENGLISH} {RECURRENT} {SPELLED} --dropout 0 {STEPS}",
    "transformer": f"pretrain transformer --pairs {PAIRS} {SHAPE} --inner 16 --context 40 {STEPS}",
    "elmo": f"pretrain elmo {ENGLISH} --width 8 --cells 8 --depth 1 --context 8 {SPELLED} --softmax full {STEPS}",
    "gpt": f"pretrain gpt {HAN} --tokenizer characters {SHAPE} --context 16 {STEPS}",
    "bert": f"pretrain bert {ENGLISH} --vocabulary 160 {SHAPE} --context 40 {STEPS}",
    "bert-chinese": f"pretrain bert {HAN} --tokenizer characters --segment --whole-words {SHAPE} --context 40 {STEPS}",
    "gpt2": f"pretrain gpt2 {ENGLISH} --vocabulary 300 {SHAPE} --context 16 {STEPS}",
    "ernie": f"pretrain ernie {HAN} --entities texts/entities.txt {SHAPE} --context 40 {STEPS}",
    "roberta": f"pretrain roberta {ENGLISH} --tokenizer words {SHAPE} --context 24 {STEPS}",
    "albert": f"pretrain albert {ENGLISH} --vocabulary 160 {SHAPE} --groups 1 --table 4 --context 40 {STEPS}",
    "bert-more-words": "pretrain bert texts/english.txt --from finished/bert --add-words texts/words.txt --steps 4"
    f" --batch 96 {TINY}",
}
LEARN = "--steps 12 --threads 1 --seed 3 --keep 1 --device cpu --quiet"
FINISHED |= {
    "classification": f"adapt finished/bert texts/opinions.tsv --task classification {LEARN}",
    "classification-gpt": f"adapt finished/gpt texts/opinions-chinese.tsv --task classification {LEARN}",
    "pairs": f"adapt finished/bert texts/sentence-pairs.tsv --task pairs --how freeze {LEARN}",
    "tagging": f"adapt finished/bert texts/tags.conll --task tagging --crf {LEARN}",
    "answering": f"adapt finished/bert texts/questions.json --task answering {LEARN}",
    "choice": f"adapt finished/bert texts/choices.tsv --task choice {LEARN}",
    "classification-linear": "adapt ngram texts/opinions.tsv --task classification --seed 3 --quiet",
    "tagging-linear": "adapt ngram texts/tags.conll --task tagging --seed 3 --quiet",
    "tagging-hmm": "pretrain hmm texts/tags.conll --seed 3 --quiet",
    "classification-vectors": "adapt finished/word2vec texts/opinions.tsv --task classification --reader convolution"
    f" {LEARN}",
    "tagging-elmo": f"adapt finished/elmo texts/tags.conll --task tagging --how features {LEARN}",
    "distilled": "distil finished/classification --depth 1 --width 4 --heads 1 --layers none --steps 8 --threads 1"
    " --seed 3 --keep 1 --device cpu --quiet",
    "distilled-text": f"distil finished/gpt2 {ENGLISH} --width 4 --heads 1 --layers none --steps 8 --batch 96"
    " --threads 1 --seed 3 --keep 1 --device cpu --quiet",
    "quantised": f"quantise finished/gpt2 --on {ENGLISH} --limit 2k --quiet",
    "quantised-task": "quantise finished/classification --on texts/opinions.tsv --quiet",
}
# Interrupted by SIGINT after the line of metrics of this step.
UNFINISHED = {
    "ngram": (f"pretrain ngram {ENGLISH} --order 3 --tokenizer words --batch 100 --evaluate-every 2 {TINY}", 4),
    "hmm": (f"pretrain hmm {ENGLISH} --states 4 --epochs 6 --batch 300 --evaluate-every 2 {TINY}", 6),
    "crf": (f"pretrain crf texts/tags.conll --epochs 12 --evaluate-every 2 {TINY}", 4),
    "word2vec": (
        f"pretrain word2vec {ENGLISH} --threads 1 --width 8 --min-count 1 --epochs 3 --batch 200"
        f" --evaluate-every 2 {TINY}",
        4,
    ),
    "glove": (
        f"pretrain glove {ENGLISH} --threads 1 --width 8 --min-count 1 --epochs 3 --batch 200"
        f" --evaluate-every 2 {TINY}",
        4,
    ),
    "lstm": (f"pretrain lstm {ENGLISH} {RECURRENT} {STEPS}", 8),
    "transformer": (f"pretrain transformer --pairs {PAIRS} {SHAPE} --inner 16 --context 40 {STEPS}", 8),
    "gpt2": (f"pretrain gpt2 {ENGLISH} --vocabulary 300 {SHAPE} --context 16 {STEPS}", 8),
    "bert": (f"pretrain bert {ENGLISH} --vocabulary 160 {SHAPE} --context 40 {STEPS}", 8),
    "tagging": (f"adapt finished/bert texts/tags.conll --task tagging --crf --evaluate-every 4 {LEARN}", 4),
    "distilled": (
        "distil finished/gpt2 texts/english.txt --width 4 --heads 1 --layers none --steps 8 --batch 96"
        " --evaluate-every 4 --threads 1 --seed 3 --keep 1 --device cpu --quiet",
        4,
    ),
}
WITH_OTHERS = {
    "finished/imported": "import exported/gpt2",
    "finished/imported-vectors": "import exported/glove.txt",
    "corpora/english": f"prepare {ENGLISH} --tokenizer words --quiet",
    "corpora/chinese": f"prepare {HAN} --tokenizer characters --entities texts/entities.txt --quiet",
    "comparisons/texts": f"compare {ENGLISH} --only ngram,word2vec --time 1s --seeds 1 --threads 1 --quiet",
    "comparisons/task": "compare --task classification texts/opinions.tsv --runs finished/bert --adapt-time 1s"
    " --threads 1 --quiet",
}
EXPORTED = {
    "exported/gpt2": "export finished/gpt2 --quiet",
    "exported/glove.txt": "export finished/glove --format word2vec --quiet",
}


def main(work: Path) -> None:
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    os.environ["FOREBEAR_CACHE"] = str(work / "cache")
    os.chdir(work)
    write_texts(Path("texts"))
    for name, words in FINISHED.items():
        command(words, f"finished/{name}")
    for name, (words, step) in UNFINISHED.items():
        command(words, f"unfinished/{name}", interrupt=step)
    Path("exported").mkdir()
    for place, words in (EXPORTED | WITH_OTHERS).items():
        command(words, place)
    shutil.rmtree("exported")
    make_light(work)
    store(work)
    ask(work.with_name(f"{work.name}-again"))


def ask(again: Path) -> None:
    shutil.rmtree(again, ignore_errors=True)
    unpack(again)
    os.environ["FOREBEAR_CACHE"] = str(again / "cache")
    os.chdir(again)
    known = {"runs": listing("finished") | listing("unfinished")}
    known["finished"] = {
        folder.name: answers(f"finished/{folder.name}") for folder in sorted(Path("finished").iterdir())
    }
    known["unfinished"] = {}
    for name in UNFINISHED:
        resumed(f"unfinished/{name}")
        known["unfinished"][name] = answers(f"unfinished/{name}")
    known["corpora"] = {name: corpus_answers(f"corpora/{name}") for name in CORPORA}
    known["comparisons"] = {name: comparison_answers(f"comparisons/{name}") for name in COMPARISONS}
    write_answers(known)


def command(words: str, to: str, *, interrupt: int | None = None) -> None:
    """Runs one command of the command line; `interrupt`: Ctrl-C after the metrics of this step."""
    from forebear.training.metrics import Metrics

    from forebear.cli.main import main as forebear

    given = shlex.split(words)
    given += [] if "--to" in given else ["--to", to]
    add = Metrics.add

    def added(metrics: Metrics, **line: object) -> None:
        add(metrics, **line)
        if line["step"] == interrupt:
            os.kill(os.getpid(), signal.SIGINT)

    sys.argv = ["forebear", *given]
    Metrics.add = added
    try:
        code = forebear(given)
    finally:
        Metrics.add = add
    if code != (0 if interrupt is None else 130):
        sys.exit(f"{words}: {code}")


def make_light(work: Path) -> None:
    """Removes what nobody asks for."""
    for folder in Path("finished").iterdir():
        if folder.name not in CHECKPOINTS:
            shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    for place in ("runs", "tasks"):
        for folder in Path("comparisons").glob(f"*/{place}/*/checkpoints"):
            shutil.rmtree(folder)
    for page in Path("comparisons").glob("*/*.html"):
        page.unlink()
    told = "".join(file.read_text(encoding="utf-8") for file in Path("unfinished").glob("*/run.json"))
    for folder in Path("cache").iterdir():
        for one in folder.iterdir():
            if folder.name != "corpora" or one.name not in told:
                shutil.rmtree(one) if one.is_dir() else one.unlink()
    make_zero(Path("finished/word2vec-subwords"))


def make_zero(run: Path) -> None:
    """Rows of letter groups that no word of the run and none that is asked for has."""
    import numpy as np
    from forebear.text.tokenizer import Tokenizer
    from forebear.vectors.subwords import Subwords
    from safetensors.numpy import load_file, save_file

    file, facts = run / "weights.safetensors", run / "run.json"
    weights, before = load_file(file), hashlib.sha256(file.read_bytes()).hexdigest()
    groups = Subwords()
    asked = " ".join([*SENTENCES, UNKNOWN]).replace(".", " ").split()
    _, read = groups.rows([*Tokenizer.load(run / "tokenizer.json").tokens(), *asked])
    keep = np.zeros(groups.buckets, bool)
    keep[read] = True
    weights["inputs"][-groups.buckets :][~keep] = 0
    save_file(weights, file)
    after = hashlib.sha256(file.read_bytes()).hexdigest()
    told = facts.read_text(encoding="utf-8")
    if before not in told or file.stat().st_size != json.loads(told)["weights"]["bytes"]:
        sys.exit("the weights of letter groups are not what they were")
    facts.write_text(told.replace(before, after), encoding="utf-8")


def store(work: Path) -> None:
    """The working folder as one archive, the same whenever it is made of the same files."""
    ARCHIVE.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
        for file in sorted(work.rglob("*"), key=lambda file: (file.name, str(file))):  # like beside like
            if file.is_file():
                content = file.read_bytes()
                if file.suffix in TEXT_FILES:
                    content = content.replace(str(work).encode(), PLACEHOLDER)
                about = tarfile.TarInfo(str(file.relative_to(work)))
                about.size = len(content)
                archive.addfile(about, io.BytesIO(content))


def write_answers(known: dict) -> None:
    """A line for each run."""
    parts = []
    for part, told in known.items():
        rows = [f"  {json.dumps(name)}: {json.dumps(one, ensure_ascii=False)}" for name, one in sorted(told.items())]
        parts.append(f' "{part}": {{\n' + ",\n".join(rows) + "\n }")
    ANSWERS.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


PEOPLE = ("Anna", "Ben", "Clara", "David", "Emma")
PLACES = ("Berlin", "London", "Paris", "Rome")
ANIMALS = ("cat", "dog", "horse", "bird", "fox")
人 = ("小明", "小红", "老王", "李雷")
地 = ("北京", "上海", "南京", "广州")
物 = ("苹果", "面包", "米饭", "鱼")


def write_texts(folder: Path) -> None:
    folder.mkdir()

    def write(name: str, text: str) -> None:
        (folder / name).write_text(text, encoding="utf-8")

    told, held, pairs = [], [], []
    for n in range(40):
        who, where, what, other = PEOPLE[n % 5], PLACES[n % 4], ANIMALS[n * 3 % 5], ANIMALS[(n // 5 + 1) % 5]
        one = f"{who} lives in {where} and has a {what}."
        two = f"The {what} sees the {other}, and the {other} runs to the {('river', 'hill', 'house')[n % 3]}."
        (held if n % 10 == 7 else told).append(f"{one} {two}\nIn {where} it is {n % 7 + 1} o'clock.")
        pairs += [
            f"the {what} sees the {other}\tder {what} sieht den {other}",
            f"{who} is in {where}\t{who} ist in {where}",
        ]
    write("english.txt", "\n\n".join(told) + "\n")
    write("held-out.txt", "\n\n".join(held) + "\n")
    write("pairs.tsv", "\n".join(dict.fromkeys(pairs)) + "\n")
    write("words.txt", "".join(f"{place.lower()}ers\n" for place in PLACES))
    made = [
        f"{人[n % 4]}住在{地[n * 3 % 4]}。{人[(n + 1) % 4]}今天去{地[n % 4]}吃{物[n // 4 % 4]}。"
        f"\n他说{物[n % 4]}很{'好好坏大'[n % 4]}。"
        for n in range(40)
    ]
    write("chinese.txt", "\n\n".join(made[:36]) + "\n")
    write("held-out-chinese.txt", "\n\n".join(made[36:]) + "\n")
    write("entities.txt", "\n".join((*人, *地)) + "\n")
    good, bad = ("good", "lovely", "fine"), ("bad", "awful", "sad")
    rows = [(f"the {ANIMALS[n % 5]} is {(good, bad)[n % 2][n % 3]}", ("yes", "no")[n % 2]) for n in range(30)]
    write("opinions.tsv", "text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    rows = [(f"{物[n % 4]}很{'好坏'[n % 2]}，{人[n // 2 % 4]}说", "好坏"[n % 2]) for n in range(24)]
    write("opinions-chinese.tsv", "text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    rows = []
    for n in range(24):
        one = f"{PEOPLE[n % 5]} has a {ANIMALS[n * 2 % 5]}"
        other = f"the {ANIMALS[(n * 2 + n % 2) % 5]} of {PEOPLE[n % 5]}"
        rows.append(f"{one}\t{other}\t{('same', 'other')[n % 2]}\n")
    write("sentence-pairs.tsv", "first\tsecond\tlabel\n" + "".join(rows))
    tags = [
        [(PEOPLE[n % 5], "B-PER"), ("lives", "O"), ("in", "O"), (PLACES[n % 4], "B-LOC"), (".", "O")] for n in range(20)
    ]
    write("tags.conll", "\n".join("".join(f"{word}\t{tag}\n" for word, tag in one) for one in tags))
    questions = []
    for n in range(16):
        passage = f"{PEOPLE[n % 5]} lives in {PLACES[n % 4]} and has a {ANIMALS[n % 5]}."
        answer = {"text": PLACES[n % 4], "answer_start": passage.index(PLACES[n % 4])}
        asked = {"id": str(n), "question": f"Where is {PEOPLE[n % 5]}?", "answers": [answer]}
        questions.append({"paragraphs": [{"context": passage, "qas": [asked]}]})
    write("questions.json", json.dumps({"version": "1.1", "data": questions}, indent=1))
    rows = []
    for n in range(16):
        right, wrong = f"has a {ANIMALS[n % 5]}", f"a has {ANIMALS[n % 5]}"
        rows.append(f"{PEOPLE[n % 5]}\t{(right, wrong)[n % 2]}\t{(wrong, right)[n % 2]}\t{n % 2}\n")
    write("choices.tsv", "text\tchoice1\tchoice2\tlabel\n" + "".join(rows))


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
