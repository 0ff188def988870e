"""A run in one's hands: what it can do is read off the names of its heads."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack, overload

import numpy as np

from forebear.data.corpus.subset import Subset, document_bounds
from forebear.data.source import trained_documents
from forebear.data.tokenizers.char_ids import base_tokenizer
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import InputError
from forebear.heads import CAPABILITY_PHRASES, head_capabilities
from forebear.objectives.masked_tokens import MaskedTokens
from forebear.settings.units import parse_count
from forebear.training.load_model import load_model, load_task_model
from forebear.training.run_folder import RunFolder

if TYPE_CHECKING:
    from forebear.data.corpus.corpus import Corpus
    from forebear.data.io.reader import TextFormat
    from forebear.embeddings.evaluation import AnalogyEval, NeighborEval, SimilarityEval
    from forebear.embeddings.lexicon import Analogy, AnalogyMethod, Lexicon, WordNeighbors
    from forebear.embeddings.word_table import WordVectors
    from forebear.inference.embed import EmbeddedText, EmbeddingPooling, LayerChoice, LongTextPolicy, PooledTexts
    from forebear.inference.fill import FilledText
    from forebear.inference.measure import ProgressFn, TaskEvaluation, TextEvaluation
    from forebear.inference.next import NextTokens
    from forebear.inference.predictor import CausalLM, Seq2Seq
    from forebear.inference.prompt_templates import LabelSpec, Shots
    from forebear.inference.prompting import PromptAnswer, PromptReply, ScoreUnit
    from forebear.inference.sampling import GenerationOptions
    from forebear.inference.score import ScoredText
    from forebear.inference.similarity import OutlierResult, SentenceNeighbors, Similarity
    from forebear.inference.stream_decode import GeneratedText
    from forebear.inference.translate import TranslatedText, TranslationOptions
    from forebear.nn.encoder import Encoder
    from forebear.nn.masked_lm import MaskedLM
    from forebear.nn.model import Model
    from forebear.tasks.classification import LabelPrediction
    from forebear.tasks.multiple_choice import ChoicePrediction
    from forebear.tasks.question_answering import AnswerPrediction
    from forebear.tasks.tagging import TagPrediction
    from forebear.tasks.task import Task

# A run that was opened: its folder, its network, and what of it answers which question.


_LOADING_LOCK = threading.RLock()  # cached_property has no lock from Python 3.12 on


class LoadedRun:
    """A run folder, opened: its network is loaded when it is first asked something."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.notes: list[str] = []

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Self:
        return cls(RunFolder.open(folder))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.folder.path)!r}, {self.folder.metadata['milestone']})"

    @property
    def name(self) -> str:
        return self.folder.path.name

    @property
    def metadata(self) -> dict[str, Any]:
        """Everything run.json says."""
        return self.folder.metadata

    @property
    def tokenizer(self) -> Tokenizer:
        return self.folder.tokenizer

    @property
    def vocabulary_tokenizer(self) -> Tokenizer:
        """For what is predicted: a word that is not in the vocabulary is the unknown token, also for a character CNN.

        The ids that such words get otherwise depend on earlier calls, and answers must not.
        """
        return base_tokenizer(self.tokenizer)

    @cached_property
    def task(self) -> Task | None:
        """What it was adapted to, if it was."""
        return self.folder.task

    @cached_property
    def network(self) -> Any:
        with _LOADING_LOCK:
            if (network_loaded := self.__dict__.get("network")) is not None:  # another thread was first
                return network_loaded
            network, notes = self._load_network()
            self.notes += [note for note in notes if note not in self.notes]
            return self.__dict__.setdefault("network", network)

    @property
    def model(self) -> Model:
        """The network of a run that has an encoder and heads: what counts, or is a table of words, has not."""
        return self.network

    @property
    def encoder(self) -> Encoder | None:
        """What turns inputs into states; None where the run counts, or is a table of words."""
        spec = self.folder.spec
        learner = spec.learning if self.task is None else spec.task_learner
        return self.model.encoder if learner == "descending" else None

    def _load_network(self) -> tuple[Any, list[str]]:
        spec, is_quantized = self.folder.spec, "quantised" in self.metadata
        if spec.learning == "counting" and self.task is None:
            from forebear.training.load_model import load_counted_model

            return load_counted_model(self.folder)
        weights, notes = self.folder.verified_weights()
        if self.task is not None:
            adaptation = self.folder.adaptation
            network = load_task_model(spec, self.tokenizer, self.task, adaptation, weights, quantized=is_quantized)
        else:
            heads = self.metadata.get("heads")
            network = load_model(spec, self.folder.tokenizers, weights, heads, quantized=is_quantized)
        return network, notes

    @property
    def heads(self) -> tuple[str, ...]:
        return tuple(self.network.heads)

    @property
    def num_parameters(self) -> int:
        return self.network.num_parameters

    @cached_property
    def predictor(self) -> CausalLM:
        """What answers score, next, generate and measure."""
        if "next" not in self.heads:
            raise InputError("does not predict the next token", file=self.folder.path, hint=self._capabilities_hint())
        if self.folder.spec.learning == "counting":
            return self.network
        from forebear.nn.causal_lm import causal_lm_for

        return causal_lm_for(self.network)

    @cached_property
    def masked_lm(self) -> MaskedLM:
        """What answers fill, and in its way score and measure, where tokens were hidden."""
        if "token" not in self.heads:
            raise InputError("does not find hidden tokens", file=self.folder.path, hint=self._capabilities_hint())
        from forebear.nn.masked_lm import MaskedLM

        start, end, mask = (self.tokenizer.special_roles[role] for role in ("start", "end", "mask"))
        return MaskedLM(self.network, start=start, end=end, mask=mask)

    @cached_property
    def translator(self) -> Seq2Seq:
        """What answers translate, and measures how well."""
        if "translation" not in self.heads:
            raise InputError("does not translate", file=self.folder.path, hint=self._capabilities_hint())
        from forebear.nn.seq2seq import seq2seq_for

        return seq2seq_for(self.network)

    @cached_property
    def word_table(self) -> WordVectors:
        """A vector for each word it knows, where its tokens are words."""
        from forebear.inference.embed import word_vectors_of

        return word_vectors_of(self)

    @cached_property
    def lexicon(self) -> Lexicon:
        """Those words, to be asked which are near, alike and odd."""
        from forebear.inference.embed import lexicon_for

        return lexicon_for(self)

    @cached_property
    def pooled_texts(self) -> PooledTexts:
        """Those words, of which vectors of texts are made."""
        from forebear.inference.embed import PooledTexts, word_matcher

        return PooledTexts(word_matcher(self))

    @property
    def scorer(self) -> CausalLM | MaskedLM:
        """What says how probable the tokens of a text are: each after those before it, or each among all others."""
        return self.masked_lm if "token" in self.heads else self.predictor

    @property
    def capabilities(self) -> tuple[str, ...]:
        """What it can be asked."""
        spec = self.folder.spec  # whatever the tokens of a table are, they are what it has vectors for
        has_words = spec.learning == "sweeping" or (spec.learns_from == "text" and self.tokenizer.kind == "words")
        return head_capabilities(self.heads, encodes=spec.learning != "counting", words=has_words)

    def require(self, verb: str) -> None:
        """Loads it, and says what is wrong with it, or that it cannot be asked that."""
        if verb not in self.capabilities:
            message = f"cannot be asked {CAPABILITY_PHRASES.get(verb, f'to {verb}')}"
            raise InputError(message, file=self.folder.path, hint=self._capabilities_hint())

    def _capabilities_hint(self) -> str:
        """A remedy: what it can be asked instead."""
        return f"it can be asked to: {', '.join(self.capabilities)}"

    def training_units(self, text: str) -> list[str]:
        """The texts that the run would learn this one as: its sentences, its lines, or itself."""
        from forebear.data.sentences import SentenceMode, split_sentences

        if self.text_unit != "sentence":
            return [text]
        source = (self.metadata.get("data") or {}).get("source")
        mode: SentenceMode = "lines" if source is None else source["sentences"]  # n-grams from elsewhere are of lines
        return [unit for unit in split_sentences(text, mode) if unit.strip()]

    @property
    def text_unit(self) -> str:
        """What the run takes for a text of its own: a document, or a sentence."""
        return self.folder.spec.unit


# What a run answers by its vectors: of texts by any encoder, of words by a table.


class WithVectors(LoadedRun):
    """A run of which vectors are asked."""

    def embed(
        self,
        texts: str | Sequence[str],
        *,
        layers: LayerChoice | None = None,
        pooling: EmbeddingPooling = "mean",
        words: bool = False,
        long: LongTextPolicy | None = None,
        normalise: bool = True,
        zeros: bool = False,
    ) -> list[EmbeddedText]:
        """A vector for each text, and for each of its words: from any layer or mixture of layers, by itself the last,
        or from a table of words, which has none. A text of which a table knows no word is an error, or has `zeros`."""
        from forebear.inference.embed import embed_with_run

        text_list = [texts] if isinstance(texts, str) else list(texts)
        options: dict[str, Any] = {"layers": layers, "pooling": pooling, "long": long, "normalise": normalise}
        options["zeros"] = zeros
        return embed_with_run(self, text_list, words=words, **options)

    def vector(self, word: str) -> np.ndarray:
        """(D,) the numbers of a word as they were learned, or the mean of several words'; all of them, with their
        words, stand in `words`."""
        self.require("neighbours")
        return np.array(self.lexicon.find(word).vector, np.float32)

    @overload
    def neighbours(
        self, texts: str | Sequence[str], *, among: None = None, top: int | None = None, approximate: bool = False
    ) -> list[WordNeighbors]: ...

    @overload
    def neighbours(
        self,
        texts: str | Sequence[str],
        *,
        among: str | os.PathLike[str] | Sequence[str],
        top: int | None = None,
        approximate: bool = False,
        **how: Any,
    ) -> list[SentenceNeighbors]: ...

    def neighbours(
        self,
        texts: str | Sequence[str],
        *,
        among: str | os.PathLike[str] | Sequence[str] | None = None,
        top: int | None = None,
        approximate: bool = False,
        **how: Any,
    ) -> list[SentenceNeighbors] | list[WordNeighbors]:
        """The nearest texts (5) `among` some, or among the lines of a file; without, the nearest of its own words (10).

        `how` is what `embed` takes, or `vectors` for those that are searched.
        """
        from forebear.inference.similarity import reject_search_options, sentence_neighbors

        if among is None:
            reject_search_options(how)
            self.require("neighbours")
            return self.lexicon.neighbors(texts, 10 if top is None else top, approximate=approximate)
        return sentence_neighbors(self, texts, among, top=5 if top is None else top, approximate=approximate, **how)

    def similarity(self, first: str, second: str, **how: Any) -> Similarity:
        """How alike two words or texts are; `how` is what `embed` takes."""
        from forebear.inference.similarity import text_similarities

        return text_similarities(self, [(first, second)], **how)[0]

    def odd_one_out(self, texts: Sequence[str], **how: Any) -> OutlierResult:
        """Which of some words or texts is least like the others; `how` is what `embed` takes."""
        from forebear.inference.similarity import find_outlier

        return find_outlier(self, texts, **how)

    def analogy(
        self,
        first: str,
        second: str,
        third: str,
        *,
        top: int = 5,
        method: AnalogyMethod = "add",
        approximate: bool = False,
    ) -> Analogy:
        """The first is to the second as the third is to what? By its own words."""
        self.require("analogy")
        return self.lexicon.analogy(first, second, third, top=top, method=method, approximate=approximate)

    def measure_words(
        self,
        files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        most_frequent: int | None = None,
        method: AnalogyMethod = "add",
        encoding: str = "utf-8",
    ) -> list[SimilarityEval | AnalogyEval]:
        """How well its vectors agree with what people say of pairs of words, or solve analogies; a file each.

        Analogies are answered by the `most_frequent` words (30,000; 0 for all), by this `method`.
        """
        from forebear.inference.word_evaluation import evaluate_words

        paths = [files] if isinstance(files, str | os.PathLike) else list(files)
        return evaluate_words(self, paths, most_frequent=most_frequent, method=method, encoding=encoding)


class Run(WithVectors):
    """A run folder, opened: its network is loaded when it is first asked something."""

    def score(self, texts: str | Sequence[str], *, ends: bool = False) -> list[ScoredText]:
        """How probable each text is, in all and token by token."""
        from forebear.inference.score import score_texts

        return score_texts(self.scorer, self.vocabulary_tokenizer, texts, ends=ends)

    def totals(self, texts: Sequence[str], *, ends: bool = True) -> np.ndarray:
        """(n,) log P of each of very many texts, that it ends there included: the quick way."""
        from forebear.inference.score import text_log_probs

        return text_log_probs(self.predictor, self.vocabulary_tokenizer, texts, ends=ends)

    def fill(self, text: str, *, top: int = 5, tokens: int = 1) -> FilledText:
        """What stands in the blanks (____ or the mask) of the text; ____ hides so many `tokens`."""
        from forebear.inference.fill import fill_masks

        return fill_masks(self.masked_lm, self.vocabulary_tokenizer, text, top=top, tokens=tokens)

    def classify(self, texts: str | Sequence[str] | Sequence[tuple[str, str]]) -> list[LabelPrediction]:
        """What each text, or pair of texts, is, and how probable each label."""
        from forebear.inference import predict

        self.require("classify")
        return list(predict.predict(self, predict.labeled_examples(self, texts)))

    def tag(self, texts: str | Sequence[str | Sequence[str]]) -> list[TagPrediction]:
        """A tag for each word of each text (or list of words), in the scheme that it learned, and the names."""
        from forebear.inference import predict

        self.require("tag")
        return list(predict.format_predictions(self, predict.tagged_examples(self, texts)))

    def answer(self, question: str | Sequence[str], passage: str | Sequence[str]) -> list[AnswerPrediction]:
        """Where in its passage the answer to each question stands; one passage may serve all questions."""
        from forebear.inference import predict

        self.require("answer")
        return list(predict.predict(self, predict.question_examples(question, passage)))

    def translate(self, texts: str | Sequence[str], **how: Unpack[TranslationOptions]) -> list[TranslatedText]:
        """Each text in the other language, the best `best` versions of it."""
        from forebear.inference.translate import translate_texts

        return translate_texts(self.translator, self.folder.tokenizer_pair, texts, **how)

    def choose(self, text: str, choices: Sequence[str]) -> ChoicePrediction:
        """Which of the choices goes with the text best."""
        from forebear.inference import predict

        self.require("choose")
        return next(iter(predict.predict(self, predict.choice_examples(text, choices))))

    def evaluate(
        self, file: str | os.PathLike[str], *, on_bad_rows: str = "fail", on_bad_tags: str = "fail"
    ) -> TaskEvaluation:
        """How well it does its task on a file of labelled examples: figures, calibration, every mistake."""
        from forebear.inference.measure import evaluate_task

        if self.task is None:
            raise InputError("was adapted to no task", file=self.folder.path, hint=self._capabilities_hint())
        return evaluate_task(self, file, on_bad_rows=on_bad_rows, on_bad_tags=on_bad_tags)

    def next(
        self, text: str, *, top: int = 10, ends: bool = False, among: int | None = None, why: bool = False
    ) -> NextTokens:
        """What comes next, or what fills the blank (____) in the text; `why`: by which counts, of a run that counts."""
        from forebear.inference.next import next_tokens

        return next_tokens(self.predictor, self.vocabulary_tokenizer, text, top=top, ends=ends, among=among, why=why)

    def ask(
        self,
        texts: str | Sequence[str],
        *,
        labels: LabelSpec | None = None,
        choices: Sequence[str] | None = None,
        template: str | None = None,
        shots: Shots = (),
        calibrate: bool | None = None,
        neutral: str | None = None,
        per: ScoreUnit = "total",
    ) -> list[PromptAnswer]:
        """Which of the labels or choices completes each text best, without any training."""
        from forebear.inference.prompting import score_options

        options = {"template": template, "shots": shots, "calibrate": calibrate, "neutral": neutral, "per": per}
        return score_options(self.scorer, self.vocabulary_tokenizer, texts, labels=labels, choices=choices, **options)

    def summarise(self, texts: str | Sequence[str], *, cue: str | None = None, sentences: int = 3) -> list[PromptReply]:
        """What it writes after each text and a cue (TL;DR:)."""
        from forebear.inference.prompting import summarize

        return summarize(self.predictor, self.vocabulary_tokenizer, texts, cue=cue, sentences=sentences)

    def reply(self, texts: str | Sequence[str], *, shots: Shots, template: str | None = None) -> list[PromptReply]:
        """What it answers to each text after examples of answers."""
        from forebear.inference.prompting import generate_replies

        return generate_replies(self.predictor, self.vocabulary_tokenizer, texts, shots=shots, template=template)

    def generate(
        self,
        prompts: str | Sequence[str] = "",
        *,
        length: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        repetition_penalty: float | None = None,
        stop: str | Sequence[str] | None = None,
        seed: int | None = None,
        samples: int | None = None,
        beams: int | None = None,
        best: int | None = None,
        length_penalty: float | None = None,
        choices: Sequence[str] | None = None,
    ) -> list[GeneratedText]:
        """Continues each prompt by up to `length` (100) tokens.

        By chance: temperature 0.8, top_p 0.95, and the same `seed` (0) writes the same text; `samples` for each. With
        `beams`, by search: the `best` (1) of them. With `choices`, by the likeliest of these.
        """
        from forebear.inference.generate import generate_texts

        options = {"length": length, "temperature": temperature, "top_k": top_k, "top_p": top_p, "stop": stop}
        options |= {"repetition_penalty": repetition_penalty, "seed": seed, "samples": samples}
        options |= {"beams": beams, "best": best, "length_penalty": length_penalty, "choices": choices}
        return generate_texts(self.predictor, self.vocabulary_tokenizer, prompts, **options)

    def stream(self, prompt: str = "", **how: Unpack[GenerationOptions]) -> Iterator[str]:
        """The continuation of one prompt, piece by piece as it comes; takes the words of `generate`."""
        from forebear.inference.sampling import stream_text

        return stream_text(self.predictor, self.vocabulary_tokenizer, prompt, **how)

    def measure(
        self,
        texts: Subset | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        limit: str | int | None = None,
        reading: TextFormat | None = None,
        workers: int | None = None,
        preparing: ProgressFn | None = None,
        progress: ProgressFn | None = None,
    ) -> TextEvaluation | NeighborEval:
        """How well it predicts text files, a corpus of its tokenizer, or a portion of one; `limit` is in bytes. Word
        vectors predict no text: of them it is measured how well they know the company of its words.

        What was adapted to a task is asked with `examine`.
        """
        if self.task is not None:
            hint = "run.examine(FILE) measures how well it does the task"
            raise InputError(f"was adapted to {self.task.name}", file=self.folder.path, hint=hint)
        from forebear.inference.measure import evaluate_text, prepare_texts

        max_bytes = None if limit is None else parse_count(limit, "limit")
        if max_bytes is not None and max_bytes < 1:
            raise InputError(f"--limit is {limit}", hint="give a number of bytes above 0, such as 200k")
        subset = prepare_texts(self, texts, reading, workers, preparing)
        subset = subset if max_bytes is None else subset.first(max_bytes)
        if "token" in self.heads:
            from forebear.inference.measure import evaluate_masked_lm

            objective = self.folder.spec.objective(self.tokenizer)
            assert isinstance(objective, MaskedTokens)
            evaluation = evaluate_masked_lm(self.masked_lm, self.tokenizer, objective, subset, progress=progress)
        elif "next" in self.heads or "translation" in self.heads:  # the latter is refused there, with what it can do
            evaluation = evaluate_text(self.predictor, self.tokenizer, subset, unit=self.text_unit, progress=progress)
        else:
            from forebear.embeddings.evaluation import neighbor_eval

            evaluation = neighbor_eval(self.word_table, self.tokenizer, subset)
        if not isinstance(texts, str | os.PathLike | Sequence):  # a portion: who has it knows what it is
            return evaluation
        num_documents, num_bytes = self.learned_from(subset.corpus, evaluation.documents)
        return replace(evaluation, learned_from=num_documents, learned_bytes=num_bytes)

    def learned_from(self, corpus: Corpus, count: int) -> tuple[int | None, int | None]:
        """How many of the first documents it has learned from, and their bytes; None where nobody knows."""
        if self.metadata.get("data") is None:
            return None, None
        is_trained = trained_documents(self.metadata["data"], self.folder.recipe.held_out, corpus)
        if is_trained is None:
            return None, None
        trained = Subset(corpus, document_bounds(corpus)[:count][is_trained[:count]])
        return len(trained), trained.num_bytes

    def export(self, to: str | os.PathLike[str], *, format: str | None = None) -> Path:  # noqa: A002 - the command's word
        """Writes it as another program's files: a folder for transformers, an ARPA file for KenLM."""
        from forebear.interop.convert import default_export_format, export_run

        return export_run(self, format or default_export_format(self), os.fspath(to))
