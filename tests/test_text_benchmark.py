"""The text benchmark runs on a small text, and checks that our ids equal those of the peer."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_text_benchmark_runs(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join(f"Sentence number {n}. 第{n}句话，很短。 And one more!" for n in range(3000)))
    command = [sys.executable, ROOT / "benchmarks" / "text.py", "--quick", "--size", "500", "--text", text]
    process = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
    assert process.returncode == 0, process.stderr
    assert "ours/encode_batch" in process.stdout
