"""Faults during corpus preparation: kills, full and read-only disks, concurrent preparation, more text than memory."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from forebear.data.corpus.corpus import Corpus
from forebear.data.tokenizers import pretokens

SCRIPT = """
import sys
from forebear.data.corpus import prepare, shards
from forebear.data.tokenizers.tokenizer import Tokenizer
if __name__ == "__main__":
    shards.SHARD_CHARACTERS = {shard}
    text, tokenizer, to, workers = sys.argv[1:5]
    prepare.prepare_corpus([text], Tokenizer.load(tokenizer), to=to, workers=int(workers))
"""


def folder_contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A text, a tokenizer, and a script that prepares the one with the other."""
    from forebear.data.tokenizers.train import train_tokenizer

    folder = tmp_path_factory.mktemp("work")
    draw = random.Random(5)
    words = "the cat sat on a mat 他 走 了 天气 很 好 。 and . then ! ran".split()
    documents = (" ".join(draw.choices(words, k=draw.randrange(1, 60))) for _ in range(6000))
    (folder / "text.txt").write_text("\n\n".join(documents))
    train_tokenizer("wordpiece", [" ".join(words)], size=300, min_count=1).save(folder / "tokenizer.json")
    (folder / "script.py").write_text(SCRIPT.format(shard=20_000))
    return folder


def start_preparation(work: Path, to: Path, workers: int) -> subprocess.Popen:
    command = [sys.executable, work / "script.py", work / "text.txt", work / "tokenizer.json", to, str(workers)]
    environment = {**os.environ, "FOREBEAR_CACHE": str(to.parent / "cache")}
    return subprocess.Popen(
        list(map(str, command)), env=environment, start_new_session=True, stderr=subprocess.PIPE, text=True
    )


def wait_for_errors(process: subprocess.Popen) -> str:
    _, complaint = process.communicate(timeout=120)
    return complaint


def kill_and_resume(moments: Sequence[int], work: Path, folder: Path) -> int:
    """Kills preparation at these moments, those below 10 at any time, the others after the first shard, and resumes it.

    Returns how many kills left finished shards.
    """
    start = time.monotonic()
    assert wait_for_errors(start_preparation(work, folder / "unbroken", 2)) == ""
    duration = time.monotonic() - start
    unbroken = folder_contents(folder / "unbroken")
    draw = random.Random(11)
    num_with_shards = 0
    for moment in moments:
        to = folder / f"broken {moment}"
        process = start_preparation(work, to, workers=1 + moment % 2)
        part = to.with_name(to.name + ".part")
        if moment < 10:  # anywhere, also before the first shard
            time.sleep(draw.uniform(0.1, 1.1) * duration)
        else:
            while process.poll() is None and not list(part.glob("shards/*.npz")):
                time.sleep(0.001)
            time.sleep(draw.uniform(0, 0.3) * duration)
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if moment % 4 < 2 else os.kill)(process.pid, signal.SIGKILL)
        process.wait()
        num_with_shards += len(list(part.glob("shards/*.npz"))) > 0
        assert not to.exists() or folder_contents(to) == unbroken
        assert wait_for_errors(start_preparation(work, to, workers=2 - moment % 2)) == ""
        assert folder_contents(to) == unbroken
        assert not part.exists()
    return num_with_shards


@pytest.mark.sample(1)
@pytest.mark.parametrize("moments", [(0, 3), (6, 9)])
def test_preparation_killed_at_random_moments_resumes_to_the_same_corpus(work, tmp_path, moments):
    kill_and_resume(moments, work, tmp_path)


@pytest.mark.slow
def test_preparation_killed_after_the_first_shard_reuses_shards(work, tmp_path):
    assert kill_and_resume((11, 14), work, tmp_path) > 0, (
        "the kills came too late: no shards were left to be used again"
    )


@pytest.mark.slow
def test_preparation_killed_at_twenty_moments_resumes_to_the_same_corpus(work, tmp_path):
    num_with_shards = kill_and_resume(range(20), work, tmp_path)
    assert num_with_shards >= 3, "the kills came too early to show that finished shards are used again"


def test_work_folder_left_by_a_killed_preparation_is_removed(work, tmp_path):
    wait_for_errors(start_preparation(work, tmp_path / "c", 1))
    (tmp_path / "c.part" / "shards").mkdir(parents=True)
    (tmp_path / "c.part" / "plan.json").write_text('{"key": "x"}')
    wait_for_errors(start_preparation(work, tmp_path / "c", 1))
    assert not (tmp_path / "c.part").exists()


def test_finished_shards_are_reused_and_damaged_ones_rewritten(work, tmp_path, monkeypatch):
    from forebear.data.corpus import prepare, shards
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.errors import ForebearError

    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(shards, "SHARD_CHARACTERS", 20_000)
    tokenizer = Tokenizer.load(work / "tokenizer.json")
    encoded = []
    write_shard = shards.ShardWriter.__call__

    def write_or_fail(writer, job):
        if len(encoded) == 5:
            raise ForebearError("the lights went out")
        encoded.append(job.path.name)
        return write_shard(writer, job)

    monkeypatch.setattr(shards.ShardWriter, "__call__", write_or_fail)
    with pytest.raises(ForebearError, match="lights"):
        prepare.prepare_corpus([work / "text.txt"], tokenizer, to=tmp_path / "c", workers=1)
    first_run, encoded[:] = list(encoded), ["a"] * 6  # six entries: never breaks off again
    damaged = tmp_path / "c.part" / "shards" / first_run[2]
    damaged.write_bytes(damaged.read_bytes()[:100])
    prepare.prepare_corpus([work / "text.txt"], tokenizer, to=tmp_path / "c", workers=1)
    second_run = encoded[6:]
    assert set(first_run) & set(second_run) == {first_run[2]}
    assert Corpus.open(tmp_path / "c").ledger.stage("read").outputs["documents"] == 6000


@pytest.fixture
def small_disk(tmp_path):
    """A small disk of its own; needs the right to mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(options: str) -> Path:
        process = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True)
        if process.returncode:
            pytest.skip("mounting a small disk needs root")
        return folder

    yield mount
    subprocess.run(["umount", str(folder)], capture_output=True)


@pytest.mark.sample(1)
@pytest.mark.parametrize("workers", [1, 2])
def test_full_disk_is_named_and_leaves_no_corpus(work, small_disk, workers):
    disk = small_disk("size=400k")
    complaint = wait_for_errors(start_preparation(work, disk / "c", workers))
    assert "No space left on device" in complaint
    assert "--to" in complaint
    assert not (disk / "c").exists()
    subprocess.run(["mount", "-o", "remount,size=100m", str(disk)], check=True)
    assert wait_for_errors(start_preparation(work, disk / "c", workers)) == ""
    assert len(Corpus.open(disk / "c").documents) == 6001


def test_read_only_target_is_named(work, small_disk):
    disk = small_disk("size=1m,ro")
    complaint = wait_for_errors(start_preparation(work, disk / "c", 1))
    assert "Read-only file system" in complaint
    assert "can be written" in complaint


def test_concurrent_preparations_make_one_corpus(work, tmp_path):
    processes = [start_preparation(work, tmp_path / "c", 1) for _ in range(2)]
    assert [wait_for_errors(process) for process in processes] == ["", ""]
    assert {path.name for path in tmp_path.iterdir()} <= {"c", "cache"}
    assert len(Corpus.open(tmp_path / "c").documents) == 6001


MEASURE_SCRIPT = """
import json, os, resource, sys
from forebear.data.corpus import prepare
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.io.text_formats import TextFormat
if __name__ == "__main__":
    text, tokenizer, to, division, workers = sys.argv[1:6]
    how = TextFormat(documents=division)
    corpus = prepare.prepare_corpus([text], Tokenizer.load(tokenizer), to=to, text_format=how, workers=int(workers))
    own = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))  # maxrss would be the caller's
    peak = [int(own.split()[1]), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss]
    print(json.dumps({"peak": peak, "tokens": len(corpus)}))
"""


def measure_preparation(work: Path, text: Path, division: str, workers: int) -> dict:
    (work / "measured.py").write_text(MEASURE_SCRIPT)
    to = text.with_suffix(f".{division}.{workers}.corpus")
    command = [sys.executable, work / "measured.py", text, work / "tokenizer.json", to, division, str(workers)]
    process = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=True, timeout=300)
    return json.loads(process.stdout)


def measure_repeated_text(
    work: Path, folder: Path, sizes: tuple[int, int], division: str, workers: int
) -> tuple[dict, dict]:
    """Measurements of preparing the text repeated so many times."""
    text = (work / "text.txt").read_text() + "\n\n"
    for name, times in zip(("few.txt", "many.txt"), sizes, strict=True):
        (folder / name).write_text(text * times)
    few, many = (measure_preparation(work, folder / name, division, workers) for name in ("few.txt", "many.txt"))
    assert many["tokens"] > 0.8 * sizes[1] / sizes[0] * few["tokens"]
    return few, many


@pytest.mark.slow
def test_memory_does_not_grow_from_six_to_fourteen_megabytes(work, tmp_path):
    small, large = measure_repeated_text(work, tmp_path, (8, 20), "blank", 1)
    assert large["peak"][0] <= 1.1 * small["peak"][0], (small, large)


@pytest.mark.slow
@pytest.mark.parametrize(("division", "workers"), [("blank", 2), ("lines", 1)])
def test_memory_does_not_grow_with_the_text(work, tmp_path, division, workers):
    size = len((work / "text.txt").read_text()) + 2
    times = -(-2 * workers * pretokens.COMPILE_AFTER // size)  # enough for every worker to have its loops compiled
    small, large = measure_repeated_text(work, tmp_path, (times, 3 * times), division, workers)
    for before, after in zip(small["peak"], large["peak"], strict=True):
        assert after <= 1.1 * before, (small, large)


def write_long_line(path: Path, megabytes: int) -> Path:
    with open(path, "w") as file:
        for _ in range(megabytes):
            file.write("the cat sat on a mat 他走了。 " * 33_000)
    assert path.stat().st_size > megabytes * 1_000_000
    return path


@pytest.mark.slow
def test_long_line_takes_bounded_memory(work, tmp_path):
    facts = measure_preparation(work, write_long_line(tmp_path / "line.txt", 12), "blank", 1)
    assert facts["tokens"] > 3_500_000
    assert facts["peak"][0] < 300_000, facts


@pytest.mark.slow
def test_line_of_a_hundred_megabytes_takes_bounded_memory(work, tmp_path):
    facts = measure_preparation(work, write_long_line(tmp_path / "line.txt", 100), "blank", 1)
    assert facts["tokens"] > 30_000_000
    assert facts["peak"][0] < 450_000, facts  # kB; the interpreter with numpy and tokenizers is about 100,000
