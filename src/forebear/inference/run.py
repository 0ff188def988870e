"""Run: a run folder opened for inference, one method per capability; the network is loaded at first use."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack, overload

import numpy as np

from forebear.capabilities import CAPABILITY_PHRASES, head_capabilities
from forebear.data.corpus.subset import Subset, document_bounds
from forebear.data.source import trained_documents
from forebear.data.tokenizers.char_ids import base_tokenizer
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import InputError
from forebear.objectives.masked_tokens import MaskedTokens
from forebear.settings.units import parse_count
from forebear.training.load_model import load_run_model
from forebear.training.run_folder import RunFolder

if TYPE_CHECKING:
    from forebear.data.corpus.corpus import Corpus
    from forebear.data.io.sources import Paths, ProgressFn
    from forebear.data.io.text_formats import TextFormat
    from forebear.embeddings.evaluation import AnalogyEval, NeighborEval, SimilarityEval
    from forebear.embeddings.lexicon import Analogy, AnalogyMethod, AnalogyOptions, Lexicon, WordNeighbors
    from forebear.embeddings.word_table import WordVectors
    from forebear.inference.embed import EmbeddedText, EmbeddingOptions, PooledTexts
    from forebear.inference.fill import FilledText
    from forebear.inference.generate import AllGenerationOptions
    from forebear.inference.generated_text import GeneratedText
    from forebear.inference.measure import TaskEvaluation, TextEvaluation
    from forebear.inference.next_tokens import TokenPrediction
    from forebear.inference.predictor_protocols import CausalLM, Seq2Seq
    from forebear.inference.prompt_templates import Shots
    from forebear.inference.prompted_generation import PromptReply
    from forebear.inference.prompting import PromptAnswer, PromptOptions
    from forebear.inference.sampling import GenerationOptions
    from forebear.inference.score import ScoredText
    from forebear.inference.similarity import OutlierResult, SentenceNeighbors, Similarity
    from forebear.inference.translate import TranslatedText, TranslationOptions
    from forebear.nn.encoder import Encoder
    from forebear.nn.masked_token_predictor import MaskedTokenPredictor
    from forebear.nn.model import Model
    from forebear.tasks.classification import LabelPrediction
    from forebear.tasks.multiple_choice import ChoicePrediction
    from forebear.tasks.question_answering import AnswerPrediction
    from forebear.tasks.tagging import TagPrediction
    from forebear.tasks.task import Task

_LOADING_LOCK = threading.RLock()  # cached_property has no lock since Python 3.12


class LoadedRun:
    """A run folder and its lazily loaded network, tokenizer and predictors."""

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
        """The contents of run.json."""
        return self.folder.metadata

    @property
    def tokenizer(self) -> Tokenizer:
        return self.folder.tokenizer

    @property
    def vocabulary_tokenizer(self) -> Tokenizer:
        """The tokenizer of predicted tokens: out-of-vocabulary words are the unknown token, also for a character CNN.

        A character CNN assigns ids to such words in order of appearance, and predictions must not depend on that.
        """
        return base_tokenizer(self.tokenizer)

    @cached_property
    def task(self) -> Task | None:
        """The task it was adapted to, if any."""
        return self.folder.task

    @cached_property
    def network(self) -> Any:
        with _LOADING_LOCK:
            if (loaded_network := self.__dict__.get("network")) is not None:  # loaded meanwhile by another thread
                return loaded_network
            network, notes = load_run_model(self.folder)
            self.notes += [note for note in notes if note not in self.notes]
            return self.__dict__.setdefault("network", network)

    @property
    def model(self) -> Model:
        """The network, typed as that of a neural run; for other runs it is their count-based model or word table."""
        return self.network

    @property
    def encoder(self) -> Encoder | None:
        """The encoder of a neural run; None for count-based models and word tables."""
        spec = self.folder.spec
        learner = spec.learning if self.task is None else spec.task_learner
        return self.model.encoder if learner == "descending" else None

    @property
    def heads(self) -> tuple[str, ...]:
        return tuple(self.network.heads)

    @property
    def num_parameters(self) -> int:
        return self.network.num_parameters

    def _require_head(self, head: str, message: str) -> None:
        if head not in self.heads:
            raise InputError(message, file=self.folder.path, hint=self._capabilities_hint())

    @cached_property
    def predictor(self) -> CausalLM:
        """The causal language model behind score, next, generate and measure."""
        self._require_head("next", "does not predict the next token")
        if self.folder.spec.learning == "counting":
            return self.network
        from forebear.nn.next_token_predictors import next_token_predictor_for

        return next_token_predictor_for(self.network)

    @cached_property
    def masked_lm(self) -> MaskedTokenPredictor:
        """The masked language model behind fill, and behind score and measure as pseudo-likelihood."""
        self._require_head("token", "does not find hidden tokens")
        from forebear.nn.masked_token_predictor import MaskedTokenPredictor

        start, end, mask = (self.tokenizer.special_roles[role] for role in ("start", "end", "mask"))
        return MaskedTokenPredictor(self.network, start_id=start, end_id=end, mask_id=mask)

    @cached_property
    def translator(self) -> Seq2Seq:
        """The sequence-to-sequence model behind translate."""
        self._require_head("translation", "does not translate")
        from forebear.nn.seq2seq import seq2seq_for

        return seq2seq_for(self.network)

    @cached_property
    def word_table(self) -> WordVectors:
        """The word vectors of the run, if its tokens are words."""
        from forebear.inference.embed import word_vectors_of

        return word_vectors_of(self)

    @cached_property
    def lexicon(self) -> Lexicon:
        """Queries on the word vectors: neighbors, analogies."""
        from forebear.inference.embed import lexicon_for

        return lexicon_for(self)

    @cached_property
    def pooled_texts(self) -> PooledTexts:
        """Text embeddings pooled from the word vectors."""
        from forebear.inference.embed import PooledTexts, word_matcher

        return PooledTexts(word_matcher(self))

    @property
    def scorer(self) -> CausalLM | MaskedTokenPredictor:
        """The masked or causal language model that scores the tokens of a text."""
        return self.masked_lm if "token" in self.heads else self.predictor

    @property
    def capabilities(self) -> tuple[str, ...]:
        """The names of the commands it supports."""
        spec = self.folder.spec  # the tokens of a word table are its words, whatever the tokenizer
        has_words = spec.learning == "sweeping" or (spec.learns_from == "text" and self.tokenizer.kind == "words")
        return head_capabilities(self.heads, encodes=spec.learning != "counting", words=has_words)

    def require(self, verb: str) -> None:
        """Load the run and raise InputError if it does not support this command."""
        if verb not in self.capabilities:
            message = f"cannot be asked {CAPABILITY_PHRASES.get(verb, f'to {verb}')}"
            raise InputError(message, file=self.folder.path, hint=self._capabilities_hint())

    def _capabilities_hint(self) -> str:
        return f"it can be asked to: {', '.join(self.capabilities)}"

    def training_units(self, text: str) -> list[str]:
        """The training units of a text: its sentences, its lines, or the text itself."""
        from forebear.data.sentences import SentenceMode, split_sentences

        if self.text_unit != "sentence":
            return [text]
        source = (self.metadata.get("data") or {}).get("source")
        mode: SentenceMode = "lines" if source is None else source["sentences"]  # imported n-grams: units are lines
        return [unit for unit in split_sentences(text, mode) if unit.strip()]

    @property
    def text_unit(self) -> str:
        """The unit that the run is trained on: a document or a sentence."""
        return self.folder.spec.unit


class VectorCommands(LoadedRun):
    """Methods of a run that use vectors of words and texts."""

    def embed(
        self, texts: str | Sequence[str], *, words: bool = False, **options: Unpack[EmbeddingOptions]
    ) -> list[EmbeddedText]:
        """Embed each text, and with `words` each of its words in context.

        Options:
            layers: Layer, list of layers, or weights by layer; default: the last. Word tables have no layers.
            pooling: How token vectors are combined (default "mean"); "sif" is for word tables.
            long: How texts beyond the maximum length are handled: "windows" (default) or "truncate".
            normalise: Whether to scale vectors to unit length (default True).
            zeros: Whether a text without known words gets zeros instead of an error (word tables only).
        """
        from forebear.inference.embed import embed_with_run

        return embed_with_run(self, [texts] if isinstance(texts, str) else list(texts), words=words, **options)

    def vector(self, word: str) -> np.ndarray:
        """(D,) the trained vector of a word, or the mean of several; `word_table` has all of them."""
        self.require("neighbours")
        return np.array(self.lexicon.find(word).vector, np.float32)

    @overload
    def neighbours(
        self, texts: str | Sequence[str], *, among: None = None, top: int | None = None, approximate: bool = False
    ) -> list[WordNeighbors]: ...

    @overload
    def neighbours(
        self, texts: str | Sequence[str], *, among: str | os.PathLike[str] | Sequence[str], **options: Any
    ) -> list[SentenceNeighbors]: ...

    def neighbours(
        self, texts: Any, *, among: Any = None, top: int | None = None, approximate: bool = False, **options: Any
    ) -> Any:
        """Find the nearest texts `among` others or the lines of a file (default 5), or the nearest words (default 10).

        `options` are those of `embed`, and `vectors`, a file of embeddings of the searched texts.
        """
        from forebear.inference.similarity import reject_search_options, sentence_neighbors

        if among is None:
            reject_search_options(options)
            self.require("neighbours")
            return self.lexicon.neighbors(texts, 10 if top is None else top, approximate=approximate)
        return sentence_neighbors(self, texts, among, top=5 if top is None else top, approximate=approximate, **options)

    def similarity(self, first: str, second: str, **options: Any) -> Similarity:
        """Cosine similarity of two words or texts; `options` are those of `embed`."""
        from forebear.inference.similarity import text_similarities

        return text_similarities(self, [(first, second)], **options)[0]

    def odd_one_out(self, texts: Sequence[str], **options: Any) -> OutlierResult:
        """Find the word or text least similar to the others; `options` are those of `embed`."""
        from forebear.inference.similarity import find_outlier

        return find_outlier(self, texts, **options)

    def analogy(self, first: str, second: str, third: str, **options: Unpack[AnalogyOptions]) -> Analogy:
        """Complete the analogy first : second = third : ? with words of the vocabulary.

        Options: `top` (5), `method` ("add" or "multiply") and `approximate`.
        """
        self.require("analogy")
        return self.lexicon.analogy(first, second, third, **options)

    def measure_words(
        self, files: Paths, *, most_frequent: int | None = None, method: AnalogyMethod = "add", encoding: str = "utf-8"
    ) -> list[SimilarityEval | AnalogyEval]:
        """Evaluate its vectors on files of word similarities or analogies.

        Analogies are answered with one of the `most_frequent` words (default 30,000; 0 for all).
        """
        from forebear.inference.similarity import evaluate_words

        paths = [files] if isinstance(files, str | os.PathLike) else list(files)
        return evaluate_words(self, paths, most_frequent=most_frequent, method=method, encoding=encoding)


class Run(VectorCommands):
    """A run folder, opened for inference; its network is loaded at first use."""

    def score(self, texts: str | Sequence[str], *, ends: bool = False) -> list[ScoredText]:
        """Log-probability of each text, in total and by token."""
        from forebear.inference.score import score_texts

        return score_texts(self.scorer, self.vocabulary_tokenizer, texts, ends=ends)

    def totals(self, texts: Sequence[str], *, ends: bool = True) -> np.ndarray:
        """(n,) log-probability of each of many texts, ends included; faster than `score`."""
        from forebear.inference.score import text_log_probs

        return text_log_probs(self.predictor, self.vocabulary_tokenizer, texts, ends=ends)

    def fill(self, text: str, *, top: int = 5, tokens: int = 1) -> FilledText:
        """Predict the blanks (____ or the mask token) of a text; ____ stands for this many `tokens`."""
        from forebear.inference.fill import fill_masks

        return fill_masks(self.masked_lm, self.vocabulary_tokenizer, text, top=top, tokens=tokens)

    def classify(self, texts: str | Sequence[str] | Sequence[tuple[str, str]]) -> list[LabelPrediction]:
        """Predict the label of each text or pair of texts, with probabilities."""
        from forebear.inference import task_predictions

        self.require("classify")
        return list(task_predictions.predict(self, task_predictions.text_examples(self, texts)))

    def tag(self, texts: str | Sequence[str | Sequence[str]]) -> list[TagPrediction]:
        """Tag the words of each text (or list of words), in the tag scheme of its training data."""
        from forebear.inference import task_predictions

        self.require("tag")
        return list(task_predictions.format_predictions(self, task_predictions.word_examples(self, texts)))

    def answer(self, question: str | Sequence[str], passage: str | Sequence[str]) -> list[AnswerPrediction]:
        """Answer each question with a span of its passage; one passage may serve all questions."""
        from forebear.inference import task_predictions

        self.require("answer")
        return list(task_predictions.predict(self, task_predictions.question_examples(question, passage)))

    def translate(self, texts: str | Sequence[str], **options: Unpack[TranslationOptions]) -> list[TranslatedText]:
        """Translate each text; with `best`, several hypotheses."""
        from forebear.inference.translate import translate_texts

        return translate_texts(self.translator, self.folder.tokenizer_pair, texts, **options)

    def choose(self, text: str, choices: Sequence[str]) -> ChoicePrediction:
        """Choose the option that fits the text best."""
        from forebear.inference import task_predictions

        self.require("choose")
        return next(iter(task_predictions.predict(self, task_predictions.choice_examples(text, choices))))

    def evaluate(
        self, file: str | os.PathLike[str], *, on_bad_rows: str = "fail", on_bad_tags: str = "fail"
    ) -> TaskEvaluation:
        """Evaluate its task on a file of labeled examples: metrics, calibration and mispredictions."""
        from forebear.inference.measure import evaluate_task

        if self.task is None:
            raise InputError("was adapted to no task", file=self.folder.path, hint=self._capabilities_hint())
        return evaluate_task(self, file, on_bad_rows=on_bad_rows, on_bad_tags=on_bad_tags)

    def next(
        self, text: str, *, top: int = 10, ends: bool = False, among: int | None = None, why: bool = False
    ) -> TokenPrediction:
        """Predict the next token, or the blank (____) in a text; `why` adds the counts behind n-gram probabilities."""
        from forebear.inference.next_tokens import next_tokens

        return next_tokens(self.predictor, self.vocabulary_tokenizer, text, top=top, ends=ends, among=among, why=why)

    def ask(self, texts: str | Sequence[str], **options: Unpack[PromptOptions]) -> list[PromptAnswer]:
        """Choose among `labels` or `choices` by prompting, without training on the task.

        Other options: template, shots, calibrate, neutral (the content-free text), per ("total", "token" or "byte").
        """
        from forebear.inference.prompting import score_options

        return score_options(self.scorer, self.vocabulary_tokenizer, texts, **options)

    def summarise(self, texts: str | Sequence[str], *, cue: str | None = None, sentences: int = 3) -> list[PromptReply]:
        """Summarize each text by continuing it after a cue (TL;DR:)."""
        from forebear.inference.prompted_generation import summarize

        return summarize(self.predictor, self.vocabulary_tokenizer, texts, cue=cue, sentences=sentences)

    def reply(self, texts: str | Sequence[str], *, shots: Shots, template: str | None = None) -> list[PromptReply]:
        """Generate a reply to each text after few-shot examples."""
        from forebear.inference.prompted_generation import generate_replies

        return generate_replies(self.predictor, self.vocabulary_tokenizer, texts, shots=shots, template=template)

    def generate(
        self, prompts: str | Sequence[str] = "", **options: Unpack[AllGenerationOptions]
    ) -> list[GeneratedText]:
        """Continue each prompt by up to `length` (100) tokens; `stop` strings are not part of the text.

        By default, `samples` of each prompt are drawn with `temperature` 0.8, `top_k`, `top_p` 0.95 and
        `repetition_penalty`, reproducibly by `seed` (0). With `beams`, the `best` (1) hypotheses of beam search with
        `length_penalty` are returned. With `choices`, each prompt continues with the most probable choice.
        """
        from forebear.inference.generate import generate_texts

        return generate_texts(self.predictor, self.vocabulary_tokenizer, prompts, **options)

    def stream(self, prompt: str = "", **options: Unpack[GenerationOptions]) -> Iterator[str]:
        """Stream the continuation of one prompt; takes the sampling options of `generate`."""
        from forebear.inference.sampling import stream_text

        return stream_text(self.predictor, self.vocabulary_tokenizer, prompt, **options)

    def measure(
        self,
        texts: Subset | Paths,
        *,
        limit: str | int | None = None,
        reading: TextFormat | None = None,
        workers: int | None = None,
        preparing: ProgressFn | None = None,
        progress: ProgressFn | None = None,
    ) -> TextEvaluation | NeighborEval:
        """Evaluate the language model on text files, a corpus of its tokenizer, or a subset of one.

        Word vectors are evaluated by neighbor accuracy instead. Runs adapted to a task have `evaluate`.

        Args:
            limit: Maximum number of bytes to measure.
            preparing: Progress callback of reading and tokenizing.
            progress: Progress callback of the measurement.
        """
        if self.task is not None:
            hint = "run.evaluate(FILE) measures how well it does the task"
            raise InputError(f"was adapted to {self.task.name}", file=self.folder.path, hint=hint)
        from forebear.inference.measure import evaluate_masked_lm, evaluate_text, prepare_texts

        max_bytes = None if limit is None else parse_count(limit, "limit")
        if max_bytes is not None and max_bytes < 1:
            raise InputError(f"--limit is {limit}", hint="give a number of bytes above 0, such as 200k")
        subset = prepare_texts(self, texts, reading, workers, preparing)
        subset = subset if max_bytes is None else subset.first(max_bytes)
        if "token" in self.heads:
            objective = self.folder.spec.objective(self.tokenizer)
            assert isinstance(objective, MaskedTokens)
            evaluation = evaluate_masked_lm(self.masked_lm, self.tokenizer, objective, subset, progress=progress)
        elif "next" in self.heads or "translation" in self.heads:  # `predictor` rejects translation models with a hint
            evaluation = evaluate_text(self.predictor, self.tokenizer, subset, unit=self.text_unit, progress=progress)
        else:
            from forebear.embeddings.evaluation import neighbor_eval

            evaluation = neighbor_eval(self.word_table, self.tokenizer, subset)
        if isinstance(texts, Subset):  # the caller knows whether it was training data
            return evaluation
        num_documents, num_bytes = self.learned_from(subset.corpus, evaluation.documents)
        return replace(evaluation, learned_from=num_documents, learned_bytes=num_bytes)

    def learned_from(self, corpus: Corpus, num_documents: int) -> tuple[int | None, int | None]:
        """How many of the first `num_documents` were training data, and their bytes; None if unknown."""
        data = self.metadata.get("data")
        is_trained = None if data is None else trained_documents(data, self.folder.recipe.held_out, corpus)
        if is_trained is None:
            return None, None
        trained_subset = Subset(corpus, document_bounds(corpus)[:num_documents][is_trained[:num_documents]])
        return len(trained_subset), trained_subset.num_bytes

    def export(self, to: str | os.PathLike[str], *, format: str | None = None) -> Path:  # noqa: A002 - the command's word
        """Export it in another format: a transformers folder, an ARPA file for KenLM, …"""
        from forebear.interop.convert import default_export_format, export_run

        return export_run(self, format or default_export_format(self), os.fspath(to))
