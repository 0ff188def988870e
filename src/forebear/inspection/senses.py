"""Word senses: clustering the contextual vectors of a word's occurrences, and agreement with gold senses."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.io.text_formats import TextFormat
from forebear.data.sentences import SentenceMode
from forebear.errors import InputError
from forebear.inference.embed import TOKEN_TABLE_TENSOR, is_word_table
from forebear.inspection.occurrences import Occurrence, OccurrenceSample, SenseText, find_occurrences, read_sense_texts
from forebear.inspection.sense_clusters import (
    MIN_OCCURRENCES,
    SAME_VECTOR_DISTANCE,
    ClusterAgreement,
    Clustering,
    cluster_vectors,
    cosine_distances,
    cut_tree,
    order_by_size,
    ward_tree,
)
from forebear.inspection.word_vector_geometry import pca_plane
from forebear.numerics import mean_cosine, unit_rows

if TYPE_CHECKING:
    from forebear.inference.embed import LayerChoice
    from forebear.inference.run import Run

# --- Vectors of occurrences: contextual, or from a word table ---

SENTENCES_PER_BATCH = 32  # small: one-hot vectors of all their words take much memory


@dataclass(frozen=True, eq=False)
class OccurrenceVectors:
    """Vectors of the occurrences of a word.

    name         run and layers of the vectors
    occurrences  occurrences that have a vector
    vectors      (n, D), unit length
    is_static    whether vectors are independent of the context
    """

    name: str
    occurrences: tuple[Occurrence, ...]
    vectors: np.ndarray
    is_static: bool

    @cached_property
    def is_by_spelling(self) -> bool:
        """Whether the vector depends on the spelling of the word only."""
        first_vectors: dict[str, np.ndarray] = {}
        rows = zip(self.occurrences, self.vectors, strict=True)
        differences = (first_vectors.setdefault(occurrence.surface, vector) - vector for occurrence, vector in rows)
        return all(np.abs(difference).max() <= SAME_VECTOR_DISTANCE for difference in differences)


def contextual_vectors(run: Run, sample: OccurrenceSample, layers: LayerChoice | None = None) -> OccurrenceVectors:
    """Contextual vectors (by default the mean of all layers above the embedding), or the word vectors of the run."""
    if is_word_table(run):
        if layers is not None:
            message = "--layers means nothing to a table of words: it has no layers"
            raise InputError(message, file=run.folder.path, hint="leave it out")
        run.lexicon.find(sample.word)  # raises an error with suggestions if there is no vector
        return _collect_vectors(run, "", sample, _word_means(run, sample, zeros=True), is_static=True)
    if run.folder.spec.learning == "counting":
        hint = "look at a run of vectors (word2vec, bert, …)"
        raise InputError("counts, and has no vectors", file=run.folder.path, hint=hint)
    run.require("embed")
    if layers is None:
        encoder = run.model.encoder
        layers = list(range(1, encoder.depth + 1))
        if len({encoder.widths[layer] for layer in layers}) > 1:
            layers = [encoder.depth]
    return _collect_vectors(run, f", {_describe_layers(layers)}", sample, _word_means(run, sample, layers=layers))


def static_vectors(run: Run, sample: OccurrenceSample) -> OccurrenceVectors:
    """Rows of the network's token embedding; without one, its layer 0, to which positions may have been added."""
    embedding_weight = dict(run.model.named_parameters()).get(TOKEN_TABLE_TENSOR)
    if embedding_weight is None:
        embedding = run.model.encoder.embedding
        is_static = embedding is None or embedding.placing == "none"
        source = ", layer 0" if is_static else ", layer 0, with places"
        return _collect_vectors(run, source, sample, _word_means(run, sample, layers=0), is_static=is_static)
    token_vectors = embedding_weight.detach().float().cpu().numpy()
    return _collect_vectors(run, ", its table", sample, _token_means(run, sample, token_vectors), is_static=True)


def _collect_vectors(
    run: Run, source: str, sample: OccurrenceSample, vectors: Iterator[np.ndarray | None], *, is_static: bool = False
) -> OccurrenceVectors:
    pairs = zip(sample.occurrences, vectors, strict=True)
    with_vectors = [(occurrence, vector) for occurrence, vector in pairs if vector is not None]
    if not with_vectors:
        message = f"none of the places where {sample.word!r} stands has tokens of its own"
        raise InputError(message, file=run.folder.path, hint="ask for a longer word, or a run with smaller tokens")
    occurrences, rows = zip(*with_vectors, strict=True)
    return OccurrenceVectors(run.name + source, occurrences, unit_rows(np.stack(rows).astype(np.float64)), is_static)


def _word_means(run: Run, sample: OccurrenceSample, **options: Any) -> Iterator[np.ndarray | None]:
    """The mean vector of the words in each occurrence, or of those that overlap it."""
    for batch_start in range(0, len(sample.occurrences), SENTENCES_PER_BATCH):
        batch = sample.occurrences[batch_start : batch_start + SENTENCES_PER_BATCH]
        embedded = run.embed([occurrence.sentence for occurrence in batch], words=True, normalise=False, **options)
        for occurrence, text in zip(batch, embedded, strict=True):
            start, end = occurrence.start, occurrence.end
            overlapping = [word for word in text.words or () if word.start < end and word.end > start]
            contained = [word for word in overlapping if word.start >= start and word.end <= end]
            vectors = [word.vector for word in contained or overlapping]
            yield np.mean(vectors, axis=0) if vectors else None


def _token_means(run: Run, sample: OccurrenceSample, token_vectors: np.ndarray) -> Iterator[np.ndarray | None]:
    """The mean vector of the tokens that overlap each occurrence."""
    for occurrence in sample.occurrences:
        encoding = run.tokenizer.encode(occurrence.sentence)
        tokens = zip(encoding.ids.tolist(), encoding.spans, strict=True)
        ids = [token_id for token_id, (start, end) in tokens if start < occurrence.end and end > occurrence.start]
        yield token_vectors[ids].mean(0) if ids else None


def _describe_layers(layers: LayerChoice) -> str:
    if isinstance(layers, int | np.integer):
        return f"layer {layers}"
    if not isinstance(layers, Sequence):
        return "layers " + ", ".join(f"{layer} × {weight:g}" for layer, weight in layers.items())
    if len(layers) == 1:
        return f"layer {layers[0]}"
    if len(layers) > 2 and list(layers) == list(range(layers[0], layers[0] + len(layers))):
        return f"mean of layers {layers[0]} to {layers[-1]}"
    return f"mean of layers {', '.join(map(str, layers[:-1]))} and {layers[-1]}"


MAX_OCCURRENCES = 200  # default maximum number of occurrences
NEAR_DUPLICATE_CHARACTERS = 6  # near-duplicates agree in so many characters of context on either side
MAX_LISTED_SPELLINGS = 4
SAME_VECTOR_NOTE = "every occurrence has the same vector"
CAUSAL_NOTE = "looks back: what it makes of a word does not know what comes behind it"
SAME_BY_SPELLING_NOTE = "occurrences that are written alike have the same vector"
ANY_CONTEXT_NOTE = ", whatever stands around"


@dataclass(frozen=True, eq=False)
class SenseCluster:
    """A cluster of occurrences.

    members   indices of occurrences, most typical (nearest to the mean) first
    cohesion  mean cosine of two members
    """

    members: tuple[int, ...]
    cohesion: float

    @classmethod
    def from_vectors(cls, vectors: np.ndarray, is_member: np.ndarray) -> SenseCluster:
        order = np.argsort(-np.round(vectors @ vectors[is_member].mean(0), 9), kind="stable")
        return cls(tuple(int(index) for index in order if is_member[index]), _similarity_within(vectors[is_member]))


@dataclass(frozen=True, eq=False)
class RunSenses(OccurrenceVectors):
    """Vectors of one run and their clusters.

    agreement  with gold senses: of these clusters, and of as many clusters as there are senses
    """

    clustering: Clustering
    agreement: tuple[ClusterAgreement, ClusterAgreement] | None

    @cached_property
    def groups(self) -> list[SenseCluster]:
        labels = self.clustering.labels
        return [SenseCluster.from_vectors(self.vectors, labels == n) for n in range(self.clustering.num_clusters)]

    @cached_property
    def similarity(self) -> float:
        """Mean cosine of any two occurrences."""
        return _similarity_within(self.vectors)

    @cached_property
    def plane(self) -> tuple[np.ndarray, tuple[float, float]]:
        """(n, 2) principal components of the vectors, and the fraction of variance that each explains."""
        return pca_plane(self.vectors)

    @property
    def conclusion(self) -> str:
        """The result in a phrase."""
        clustering = self.clustering
        context_note = ANY_CONTEXT_NOTE if self.is_static else ""
        if clustering.num_distinct == 1:
            return SAME_VECTOR_NOTE + context_note
        if self.is_by_spelling:
            surfaces = list(dict.fromkeys(occurrence.surface for occurrence in self.occurrences))[:MAX_LISTED_SPELLINGS]
            return f"{SAME_BY_SPELLING_NOTE}{context_note} ({', '.join(surfaces)})"
        if clustering.num_clusters > 1:
            groups = f"{clustering.num_clusters} groups, silhouette {clustering.silhouette:.2f}"
            return groups + self._baseline_note(clustering.num_clusters)
        if clustering.best is None:
            return "one group, as was asked"
        best_note = f"the best {clustering.best.num_clusters} have a silhouette of {clustering.best.silhouette:.2f}"
        return f"no groups beyond chance: {best_note}{self._baseline_note(clustering.best.num_clusters)}"

    def _baseline_note(self, num_clusters: int) -> str:
        """The comparison of this number of clusters with random clouds."""
        candidates = {candidate.num_clusters: candidate for candidate in self.clustering.candidates}
        if num_clusters not in candidates or self.clustering.baseline is None:
            return ""
        separation, baseline_separation = candidates[num_clusters].separation, self.clustering.baseline.separation
        return f"; where they lie apart {separation:.2f}, clouds without groups up to {baseline_separation:.2f}"

    @property
    def note(self) -> str:
        """A caveat, or ""."""
        if self.is_by_spelling:
            return self.conclusion
        return "no groups beyond chance" if self.clustering.candidates and self.clustering.num_clusters == 1 else ""

    def typical_occurrences(self, cluster_id: int, max_count: int) -> list[Occurrence]:
        """The most typical occurrences of a cluster, without near-duplicates."""
        by_context: dict[tuple[str, str], Occurrence] = {}
        for member in self.groups[cluster_id].members if max_count else ():
            occurrence = self.occurrences[member]
            left, right = occurrence.before[-NEAR_DUPLICATE_CHARACTERS:], occurrence.after[:NEAR_DUPLICATE_CHARACTERS]
            by_context.setdefault((left.casefold(), right.casefold()), occurrence)
            if len(by_context) == max_count:
                break
        return list(by_context.values())

    def to_dict(self) -> dict[str, Any]:
        clustering, silhouette = self.clustering, self.clustering.silhouette
        data: dict[str, Any] = {"name": self.name, "occurrences": len(self.occurrences), "verdict": self.conclusion}
        data |= {"distinct_vectors": clustering.num_distinct, "mean_cosine": round(self.similarity, 4)}
        data |= {"silhouette": None if silhouette is None else round(silhouette, 4)}
        data |= {"tried": [candidate.to_dict() for candidate in clustering.candidates]}
        data |= {"by_chance": None if clustering.baseline is None else clustering.baseline.to_dict()}
        if self.agreement is not None:
            agreement, gold_agreement = self.agreement
            data |= {"agreement": agreement.to_dict(), "agreement_in_as_many_groups": gold_agreement.to_dict()}
        points, explained_variance = self.plane
        data["explained_variance"] = [round(ratio, 4) for ratio in explained_variance]
        coordinates = zip(*points.T.tolist(), self.clustering.silhouettes.tolist(), strict=True)
        occurrences = [
            occurrence.to_dict() | {"x": round(x, 4), "y": round(y, 4), "silhouette": round(value, 4)}
            for occurrence, (x, y, value) in zip(self.occurrences, coordinates, strict=True)
        ]
        data["groups"] = [
            {"size": len(group.members), "cohesion": round(group.cohesion, 4)}
            | {"occurrences": [occurrences[member] for member in group.members]}
            for group in self.groups
        ]
        return data


@dataclass(frozen=True, eq=False)
class SenseAnalysis:
    """Senses of a word by a run and, for comparison, by other runs or by the run's own static vectors.

    labels  gold senses
    """

    word: str
    result: RunSenses
    others: tuple[RunSenses, ...]
    labels: tuple[str, ...]
    notes: tuple[str, ...]

    def label_counts(self, members: Sequence[int]) -> str:
        """Counts of gold senses in a cluster, most frequent first; "" without gold senses."""
        counts = Counter(self.result.occurrences[member].sense for member in members)
        return ": " + ", ".join(f"{count:,} {sense}" for sense, count in counts.most_common()) if self.labels else ""

    def to_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = {"word": self.word, "senses": list(self.labels), "notes": list(self.notes)}
        return data | {"vectors": self.result.to_dict(), "beside": [result.to_dict() for result in self.others]}


def analyze_senses(
    run: Run,
    word: str,
    texts: str | os.PathLike[str] | Sequence[str],
    *,
    senses: Sequence[str] | None = None,
    layers: LayerChoice | None = None,
    groups: int | None = None,
    max_occurrences: int = MAX_OCCURRENCES,
    beside: Sequence[Run] | None = None,
    sentences: SentenceMode = "split",
    reading: TextFormat | None = None,
) -> SenseAnalysis:
    """Cluster the vectors of a word's occurrences in texts or in a file.

    Args:
        run: The run whose vectors are clustered.
        word: The word.
        texts: Texts, or the path of a file.
        senses: Gold sense of each text; each text is then one sentence.
        layers: As for `embed`; default: the mean of all layers above the embedding.
        groups: Number of clusters; default: the best number, or one.
        max_occurrences: Maximum number of occurrences, evenly sampled.
        beside: Runs to compare with; default: the run's own static vectors.
        sentences: How texts are split into sentences.
        reading: Format of the file.
    """
    if isinstance(texts, str | os.PathLike):
        if senses is not None:
            raise InputError("known meanings are of texts that are given one by one", hint="give a list of texts")
        sense_texts: Iterable[SenseText] = read_sense_texts([texts], reading or TextFormat())
    elif senses is None:
        sense_texts = (SenseText(text) for text in texts)
    elif len(senses) == len(texts):
        sense_texts = (SenseText(text, sense=sense) for text, sense in zip(texts, senses, strict=True))
        sentences = "whole"
    else:
        raise InputError(f"{len(senses):,} meanings are known of {len(texts):,} texts", hint="give one for each")
    sample = find_occurrences(word, sense_texts, max_occurrences=max_occurrences, sentences=sentences)
    return analyze_occurrences(run, sample, layers=layers, groups=groups, beside=beside)


def analyze_occurrences(
    run: Run,
    sample: OccurrenceSample,
    *,
    layers: LayerChoice | None = None,
    groups: int | None = None,
    beside: Sequence[Run] | None = None,
) -> SenseAnalysis:
    """Cluster the vectors of these occurrences; the arguments are those of `analyze_senses`."""
    vector_sets = [contextual_vectors(run, sample, layers)]
    if beside is not None:
        vector_sets += [contextual_vectors(other_run, sample) for other_run in beside]
    elif not is_word_table(run):
        vector_sets.append(static_vectors(run, sample))
    notes = list(sample.notes())
    for vectors in vector_sets:
        if num_missing := len(sample.occurrences) - len(vectors.occurrences):
            notes.append(f"{vectors.name}: {num_missing:,} occurrences have no vector of their own")
    for other_run in (run, *(beside or ())):
        if not is_word_table(other_run) and other_run.model.encoder.sees == "past":
            notes.append(f"{other_run.name} {CAUSAL_NOTE}")
    results = [_cluster_occurrences(vectors, sample.word, groups) for vectors in vector_sets]
    for result in results:
        if groups is not None and result.clustering.num_clusters < groups:
            reason = f"there are {result.clustering.num_distinct} different vectors"
            notes.append(f"{result.name}: no {groups} groups, as {reason}")
    result, *others = results
    labels = dict.fromkeys(occurrence.sense for occurrence in sample.occurrences if occurrence.sense is not None)
    return SenseAnalysis(sample.word, result, tuple(others), tuple(labels), tuple(notes))


def _cluster_occurrences(occurrence_vectors: OccurrenceVectors, word: str, groups: int | None) -> RunSenses:
    vectors, occurrences = occurrence_vectors.vectors, occurrence_vectors.occurrences
    if len(occurrences) < MIN_OCCURRENCES:
        message = f"{word!r} stands in {len(occurrences)} places: too few to be grouped"
        raise InputError(message, hint=f"give text in which it stands at least {MIN_OCCURRENCES} times")
    clustering = cluster_vectors(vectors, 1 if groups is None and occurrence_vectors.is_by_spelling else groups)
    senses, agreement = [occurrence.sense for occurrence in occurrences if occurrence.sense is not None], None
    if len(senses) == len(vectors):
        tree = ward_tree(cosine_distances(vectors))
        gold_labels = order_by_size(cut_tree(tree, min(len(set(senses)), clustering.num_distinct)))
        gold_agreement = ClusterAgreement.from_clusters(gold_labels, senses)
        agreement = ClusterAgreement.from_clusters(clustering.labels, senses), gold_agreement
    return RunSenses(occurrence_vectors.name, occurrences, vectors, occurrence_vectors.is_static, clustering, agreement)


def _similarity_within(vectors: np.ndarray) -> float:
    """Mean cosine of two different unit vectors; 1 for a single one."""
    return 1.0 if len(vectors) < 2 else float(mean_cosine(vectors.sum(0), len(vectors)) or 0)
