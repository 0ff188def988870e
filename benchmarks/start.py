"""From `import` to the first token: a small GPT-2 run beside the same model in transformers, each in a fresh process.

    ./dev bench start [--rounds 5]

The run is made here, on the demo's text, and exported; both sides load what they are given and continue one prompt by
one token, which must be the same. They alternate; figures are medians.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROMPT = "The value of the"
OURS = """
import sys, forebear as fb
run = fb.load(sys.argv[1])
print(run.generate(sys.argv[2], length=1, temperature=0)[0].ids[0])
"""
THEIRS = """
import sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
model, cut = AutoModelForCausalLM.from_pretrained(sys.argv[1]), AutoTokenizer.from_pretrained(sys.argv[1])
ids = torch.tensor([[model.config.eos_token_id, *cut(sys.argv[2], add_special_tokens=False)["input_ids"]]])
print(int(model.generate(ids, max_new_tokens=1, do_sample=False, pad_token_id=0)[0, -1]))
"""


def made(folder: Path) -> tuple[Path, Path]:
    """A small run, and the same for transformers."""
    import forebear as fb
    from forebear.demo import python_manual
    from forebear.interop.convert import export_run

    text = folder / "manual.txt"
    text.write_text("\n\n".join(python_manual.manual_documents()[:200]), encoding="utf-8")
    run = fb.pretrain("gpt2", text, to=folder / "run", size="tiny", vocabulary=2000, steps=20, batch=1024, threads=1)
    return folder / "run", export_run(run, "huggingface", str(folder / "theirs"))


def timed(code: str, folder: Path) -> tuple[float, str]:
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "OMP_NUM_THREADS": "1"}
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code, folder, PROMPT], capture_output=True, text=True, env=environment, check=True
    )
    return time.monotonic() - began, done.stdout.split()[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        os.environ["FOREBEAR_CACHE"] = f"{place}/cache"
        ours, theirs = made(Path(place))
        seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
        for _ in range(options.rounds + (options.rounds > 1)):
            one, other = timed(OURS, ours), timed(THEIRS, theirs)
            if one[1] != other[1]:
                sys.exit(f"the first token differs: ours {one[1]}, theirs {other[1]}")
            seconds["ours"].append(one[0])
            seconds["theirs"].append(other[0])
        mine, others = (told[-options.rounds :] for told in seconds.values())  # the first only warms up
        ratio = statistics.median(other / own for own, other in zip(mine, others, strict=True))
        told = f"import to first token: {statistics.median(mine):.2f} s, transformers {statistics.median(others):.2f} s"
        print(f"{told}   ours/theirs = {ratio:.2f} times as fast")


if __name__ == "__main__":
    main()
