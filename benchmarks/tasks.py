"""Fine-tuning and prediction beside transformers: the same weights, the same examples, equal losses and logits.

    ./dev bench tasks                  with one thread
    ./dev bench tasks --threads 2      with two
    ./dev bench tasks --write          put the figures into both READMEs

Texts are sentences of SST-2 and reviews of ChnSentiCorp in ../shared/data (or $FOREBEAR_DATA), else the demo's, cut by
WordPiece learned from them; lengths are natural. Ours and theirs alternate in one process; ratios are medians of
rounds' ratios.
  fine-tuning  theirs is transformers' Trainer with its padding collator, fused AdamW and no dropout, in batches of 32
               examples; ours is the learner's step on the same examples in the same order; losses agree at every step
  prediction   from texts to probabilities, tokenising included; theirs is its tokenizer and model in batches of 32,
               padded to the longest: in the order of the texts, and sorted by length; logits agree
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "TRANSFORMERS_VERBOSITY": "error"}

import numpy as np
import torch
from side_by_side import DATA, alternated, machine, sgemm, write_figures
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DataCollatorWithPadding,
    PreTrainedTokenizerFast,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from forebear.data.labeled.examples import LabeledExample
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import train_tokenizer
from forebear.interop import huggingface
from forebear.models.bert import BertSpec
from forebear.tasks.classification import Classification
from forebear.tasks.task import predict_logits
from forebear.training.adaptation import Adaptation
from forebear.training.gradient_learner import DeviceConfig, GradientLearner
from forebear.training.settings import Recipe

TOGETHER = 32  # examples in a batch


@dataclass(frozen=True)
class Case:
    """Texts of a language, an encoder, and how many batches are trained on and texts predicted in a round."""

    label: str
    file: str
    fields: dict[str, Any]
    vocabulary: int
    steps: int
    texts: int
    column: int = 0

    def milestone(self) -> BertSpec:
        return BertSpec(**self.fields)


SMALL = {"width": 256, "depth": 4, "heads": 4, "context": 256}
MINI = {"width": 384, "depth": 6, "heads": 12, "context": 256}
CASES = [
    Case("English sentences, 4 blocks of 256", "sst2/train.tsv", SMALL, 8000, 6, 400),
    Case("English sentences, 6 blocks of 384", "sst2/train.tsv", MINI, 8000, 4, 200),
    Case("Chinese reviews, 4 blocks of 256", "chnsenticorp/train.tsv", SMALL, 8000, 3, 100, 1),
]
TINY = Case("tiny", "", {"width": 32, "depth": 1, "heads": 2, "context": 64}, 600, 2, 60)


def examples_of(case: Case, count: int) -> list[LabeledExample]:
    """Texts of natural length with two labels."""
    file = DATA / "tasks" / case.file
    if case.file and file.exists():
        rows = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()[1 : count + 1]]
        return [LabeledExample((row[case.column],), row[1 - case.column]) for row in rows]
    from forebear.demo.labeled_examples import demo_examples

    return [LabeledExample((one.text,), one.label) for one in demo_examples("coherence", count)]  # pyright: ignore[reportAttributeAccessIssue]


class Sides:
    """The same network twice, ours and theirs, with what each needs beside it."""

    def __init__(self, case: Case) -> None:
        self.examples = examples_of(case, max(TOGETHER * case.steps, case.texts))
        texts = [one.texts[0] for one in self.examples]
        self.tokenizer: Tokenizer = train_tokenizer("wordpiece", texts, size=case.vocabulary)
        self.task = Classification(labels=tuple(sorted({str(one.label) for one in self.examples})), windows=1)
        milestone = case.milestone()
        self.layout = milestone.input_format(self.tokenizer)
        network = Adaptation(dropout=0.0).build_model(milestone.build(self.tokenizer), self.task, self.layout)
        recipe = Recipe(steps=case.steps, rate=1e-4, decay=0.01, memory=0.999)
        self.learner = GradientLearner(network, recipe, DeviceConfig("cpu", torch.get_num_threads(), "float32"))
        self.learner.initialize()
        self.first = {name: tensor.clone() for name, tensor in network.tensors().items()}
        self.peer, self.peer_tokenizer = self._peer(milestone)

    def _peer(self, milestone: BertSpec) -> tuple[BertForSequenceClassification, PreTrainedTokenizerFast]:
        encoder = {name: one for name, one in self.first.items() if name.startswith("encoder.")}
        config, theirs = huggingface.to_hf_checkpoint("bert", asdict(milestone) | {"pairs": "none"}, encoder, {})
        named = {name if name.startswith("bert.") else f"bert.{name}": value.clone() for name, value in theirs.items()}
        named |= {f"bert.pooler.dense.{part}": self.first[f"heads.label.pool.{part}"] for part in ("weight", "bias")}
        named |= {f"classifier.{part}": self.first[f"heads.label.choose.{part}"] for part in ("weight", "bias")}
        still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "classifier_dropout": 0.0}
        peer = BertForSequenceClassification(BertConfig(**{**config, **still}, num_labels=len(self.task.labels)))
        missing, extra = peer.load_state_dict(named, strict=False)
        assert not missing, missing
        assert not extra, extra
        with tempfile.TemporaryDirectory() as folder:
            self.tokenizer.save(Path(folder) / "tokenizer.json")
            roles = {role: self.tokenizer.id_to_token(i) for role, i in self.tokenizer.special_roles.items()}
            fast = PreTrainedTokenizerFast(
                tokenizer_file=str(Path(folder) / "tokenizer.json"),
                cls_token=roles["start"],
                sep_token=roles["end"],
                pad_token=roles["padding"],
                model_max_length=milestone.context,
            )
        from tokenizers.processors import TemplateProcessing

        around = [
            (roles["start"], self.tokenizer.special_roles["start"]),
            (roles["end"], self.tokenizer.special_roles["end"]),
        ]
        fast.backend_tokenizer.post_processor = TemplateProcessing(f"{roles['start']} $A {roles['end']}", None, around)
        return peer, fast

    def reset(self) -> None:
        self.learner.model.load({name: tensor.clone() for name, tensor in self.first.items()})
        self.learner.build_optimizer()


# --- fine-tuning ---


class Clock(TrainerCallback):
    """When the first step began and the last one ended, and the loss of each."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.began = self.ended = 0.0

    def on_step_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        if state.global_step == 0:
            self.began = _clock()()

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        self.ended = _clock()()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **rest: Any) -> None:
        if logs and "loss" in logs:
            self.losses.append(logs["loss"])


def _clock():
    return time.process_time if torch.get_num_threads() == 1 else time.perf_counter


class InOrder(Trainer):
    """Theirs, with the examples in the order of the file, as ours are here."""

    def _get_train_sampler(self, *given: Any) -> Any:
        return torch.utils.data.SequentialSampler(self.train_dataset)  # pyright: ignore[reportArgumentType]


def their_training(sides: Sides, steps: int) -> tuple[list[float], float]:
    """Their losses and seconds, from the first weights on."""
    texts = [one.texts[0] for one in sides.examples[: steps * TOGETHER]]
    encoded = sides.peer_tokenizer(texts, truncation=True)
    numbers = {label: number for number, label in enumerate(sides.task.labels)}
    rows = [
        {name: encoded[name][at] for name in ("input_ids", "attention_mask")} | {"labels": numbers[str(one.label)]}
        for at, one in enumerate(sides.examples[: steps * TOGETHER])
    ]
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            per_device_train_batch_size=TOGETHER,
            num_train_epochs=1,
            learning_rate=1e-4,
            lr_scheduler_type="constant",
            weight_decay=0.01,
            max_grad_norm=1.0,
            optim="adamw_torch_fused",
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        )
        collator = DataCollatorWithPadding(sides.peer_tokenizer)
        trainer = InOrder(sides.peer, arguments, train_dataset=rows, data_collator=collator, callbacks=[clock])  # pyright: ignore[reportArgumentType]
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return clock.losses, clock.ended - clock.began


def our_training(sides: Sides, steps: int) -> tuple[list[float], float]:
    rows = sides.task.encode(sides.examples[: steps * TOGETHER], sides.tokenizer, sides.layout)
    losses, began = [], _clock()()
    for step in range(steps):
        numbers = np.arange(step * TOGETHER, (step + 1) * TOGETHER)
        batch = rows.make_batch(numbers[np.argsort(rows.example_lengths[numbers], kind="stable")])
        losses.append(sum(sides.learner.step(batch, step, 1.0).values()))
    return losses, _clock()() - began


def compare_training(case: Case, rounds: int) -> list[str]:
    mine, others = [], []
    sides = Sides(case)
    first = {name: value.clone() for name, value in sides.peer.state_dict().items()}
    for turn in range(rounds + 1):
        sides.reset()
        sides.peer.load_state_dict(first)
        their_losses, theirs = their_training(sides, case.steps)
        our_losses, ours = our_training(sides, case.steps)
        worst = max(abs(one - other) for one, other in zip(our_losses, their_losses, strict=True))
        assert worst < 2e-3, f"{case.label}: losses differ by {worst}: {our_losses} and {their_losses}"
        if turn:
            mine.append(ours)
            others.append(theirs)
    tokens = int(
        sides.task.encode(sides.examples[: case.steps * TOGETHER], sides.tokenizer, sides.layout).example_lengths.sum()
    )
    share = 6 * tokens * _weights(case) / statistics.median(mine) / sgemm()
    return told(f"fine-tuning, {case.label}", case.steps * TOGETHER, mine, others, f"{share:.2f}")


def _weights(case: Case) -> float:
    """Weights that each token meets: in our last block only its keys and values; attention's products do not count."""
    own = case.milestone()
    return ((own.depth - 1) * 12 + 2) * own.width**2


# --- prediction ---


@torch.inference_mode()
def their_prediction(sides: Sides, texts: Sequence[str], *, sort: bool) -> np.ndarray:
    order = np.argsort([-len(text) for text in texts], kind="stable") if sort else np.arange(len(texts))
    found = np.empty((len(texts), len(sides.task.labels)), np.float32)
    sides.peer.eval()
    for at in range(0, len(texts), TOGETHER):
        numbers = order[at : at + TOGETHER]
        batch = sides.peer_tokenizer([texts[n] for n in numbers], truncation=True, padding=True, return_tensors="pt")
        logits = sides.peer(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        found[numbers] = logits.numpy()
    return found


def our_prediction(sides: Sides, texts: Sequence[str]) -> np.ndarray:
    examples = [LabeledExample((text,)) for text in texts]
    rows = sides.task.encode(examples, sides.tokenizer, sides.layout)
    logits = predict_logits(sides.learner.model, rows)
    sides.task.predictions(examples, rows, logits)
    return np.stack(logits["label"])


def compare_prediction(case: Case, rounds: int) -> list[list[str]]:
    sides = Sides(case)
    texts = [one.texts[0] for one in sides.examples[: case.texts]]
    cells = []
    for sort, how in ((False, "padded"), (True, "sorted by length")):
        mine, others = [], []
        for ours, theirs, our_seconds, their_seconds in alternated(
            lambda: our_prediction(sides, texts), lambda sort=sort: their_prediction(sides, texts, sort=sort), rounds
        ):
            worst = float(np.abs(ours - theirs).max())
            assert worst < 1e-4, f"{case.label}: logits differ by {worst}"
            mine.append(our_seconds)
            others.append(their_seconds)
        cells.append(told(f"prediction, {case.label}, theirs {how}", len(texts), mine, others, ""))
    return cells


def told(label: str, count: int, mine: list[float], others: list[float], share: str) -> list[str]:
    """Prints one comparison of examples a second; returns its cells."""
    ratio = statistics.median(other / own for own, other in zip(mine, others, strict=True))
    rates = [count / statistics.median(seconds) for seconds in (mine, others)]
    limit = f"   {share} of sgemm" if share else ""
    print(
        f"{label:76}{rates[0]:8,.1f} examples/s   theirs {rates[1]:8,.1f}   ours/theirs = {ratio:.2f}{limit}",
        flush=True,
    )
    return [label, f"{rates[0]:,.0f}", f"{ratio:.2f}", share or "–"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="put the figures into both READMEs")
    parser.add_argument("--quick", action="store_true", help="a tiny model and two rounds: a smoke test")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rounds, where = 2 if options.quick else options.rounds, machine(options.threads)
    print(where, flush=True)
    cases = [TINY] if options.quick else CASES
    rows = [compare_training(case, rounds) for case in cases]
    rows += [cells for case in cases for cells in compare_prediction(case, rounds)]
    if options.write:
        chinese = {"fine-tuning, ": "微调，", "prediction, ": "预测，", "English sentences": "英文句子"}
        chinese |= {
            "Chinese reviews": "中文评论",
            "theirs padded": "对方补齐",
            "theirs sorted by length": "对方按长度排序",
        }
        chinese |= {" blocks of ": " 层，宽 "}
        write_figures("tasks", rows, where, rounds, chinese)


if __name__ == "__main__":
    main()
