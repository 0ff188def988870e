"""The vectors of one word in many sentences, grouped by likeness: whether a run tells the meanings of a word apart."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.io.reader import TextFormat
from forebear.data.sentences import SentenceMode
from forebear.embeddings.lexicon import unit_rows
from forebear.errors import InputError
from forebear.inference.embed import TOKEN_TABLE_TENSOR, is_word_table
from forebear.inspection.agreement import ClusterAgreement
from forebear.inspection.embedding_space import pca_plane
from forebear.inspection.grouping import (
    MIN_OCCURRENCES,
    SAME_VECTOR_DISTANCE,
    Clustering,
    cluster_vectors,
    cosine_distances,
    cut_tree,
    order_by_size,
    ward_tree,
)
from forebear.inspection.occurrences import (
    Occurrence,
    OccurrenceSample,
    SenseText,
    find_occurrences,
    read_sense_texts,
)

if TYPE_CHECKING:
    from forebear.inference.embed import LayerChoice
    from forebear.inference.run import Run
    from forebear.nn.encoder import Encoder

# The vectors that a run has for the occurrences of a word: in context, from a table, or before it looks around.


TOGETHER = 32  # sentences that are read at once: of one-hot vectors those of all their words take much room


@dataclass(frozen=True, eq=False)
class OccurrenceVectors:
    """name         of the run, and which of its vectors these are
    occurrences  those that have one
    vectors      (n, D) of length 1
    static       whether they cannot know what stands around
    """

    name: str
    occurrences: tuple[Occurrence, ...]
    vectors: np.ndarray
    static: bool = False


def contextual_vectors(run: Run, found: OccurrenceSample, layers: LayerChoice | None = None) -> OccurrenceVectors:
    """By the run's network, from all layers above the embedding or from these, or by its table of words."""
    if is_word_table(run):
        if layers is not None:
            what = "--layers means nothing to a table of words: it has no layers"
            raise InputError(what, file=run.folder.path, hint="leave it out")
        run.lexicon.find(found.word)  # where there is no vector, it is said which words are alike
        return _of(run, run.name, found, _by_words(run, found, {"zeros": True}), static=True)
    if run.folder.spec.learning == "counting":
        hint = "look at a run of vectors (word2vec, bert, …)"
        raise InputError("counts, and has no vectors", file=run.folder.path, hint=hint)
    run.require("embed")
    chosen = _above(run.model.encoder) if layers is None else layers
    return _of(run, f"{run.name}, {_named(chosen)}", found, _by_words(run, found, {"layers": chosen}))


def static_vectors(run: Run, found: OccurrenceSample) -> OccurrenceVectors:
    """The rows of the network's own table of tokens, or its layer 0 where it has none to be read: they know nothing of
    what stands around. Layer 0 of a Transformer knows places, though."""
    table = dict(run.model.named_parameters()).get(TOKEN_TABLE_TENSOR)
    if table is None:
        embedding = run.model.encoder.embedding
        placing = "none" if embedding is None else embedding.placing
        name = f"{run.name}, layer 0" + (", with places" if placing != "none" else "")
        return _of(run, name, found, _by_words(run, found, {"layers": 0}), static=placing == "none")
    rows = table.detach().float().cpu().numpy()
    return _of(run, f"{run.name}, its table", found, _by_tokens(run, found, rows), static=True)


def follows_spelling(of: OccurrenceVectors, equal: float) -> bool:
    """Whether a vector follows from how the word is written, so that nothing else can be told by it."""
    first: dict[str, np.ndarray] = {}
    for vector, one in zip(of.vectors, of.occurrences, strict=True):
        if np.abs(first.setdefault(one.surface, vector) - vector).max() > equal:
            return False
    return True


def _of(
    run: Run, name: str, found: OccurrenceSample, vectors: Iterator[np.ndarray | None], *, static: bool = False
) -> OccurrenceVectors:
    both = zip(found.occurrences, vectors, strict=True)
    kept = [(one, vector) for one, vector in both if vector is not None]
    if not kept:
        what = f"none of the places where {found.word!r} stands has tokens of its own"
        raise InputError(what, file=run.folder.path, hint="ask for a longer word, or a run with smaller tokens")
    units = unit_rows(np.stack([vector for _, vector in kept]).astype(np.float64))
    return OccurrenceVectors(name, tuple(one for one, _ in kept), units, static)


def _by_words(run: Run, found: OccurrenceSample, how: dict[str, Any]) -> Iterator[np.ndarray | None]:
    """The mean of the words that a place holds, or of those that reach into it."""
    for begin in range(0, len(found.occurrences), TOGETHER):
        some = found.occurrences[begin : begin + TOGETHER]
        told = run.embed([one.sentence for one in some], words=True, normalise=False, **how)
        for one, text in zip(some, told, strict=True):
            over = [word for word in text.words or () if word.start < one.end and word.end > one.start]
            inside = [word for word in over if word.start >= one.start and word.end <= one.end] or over
            yield np.mean([word.vector for word in inside], axis=0) if inside else None


def _by_tokens(run: Run, found: OccurrenceSample, rows: np.ndarray) -> Iterator[np.ndarray | None]:
    for one in found.occurrences:
        pieces = run.tokenizer.encode(one.sentence)
        told = zip(pieces.ids.tolist(), pieces.spans, strict=True)
        ids = [i for i, (begin, end) in told if begin < one.end and end > one.start]
        yield rows[ids].mean(0) if ids else None


def _above(encoder: Encoder) -> list[int]:
    """All layers above the embedding, or the last where they differ in width."""
    every = list(range(1, encoder.depth + 1))
    return every if len({encoder.widths[layer] for layer in every}) == 1 else [encoder.depth]


def _named(layers: LayerChoice) -> str:
    """Layers in words."""
    if isinstance(layers, int | np.integer):
        return f"layer {layers}"
    if not isinstance(layers, Sequence):
        return "layers " + ", ".join(f"{layer} × {weight:g}" for layer, weight in layers.items())
    if len(layers) == 1:
        return f"layer {layers[0]}"
    if len(layers) > 2 and list(layers) == list(range(layers[0], layers[0] + len(layers))):
        return f"mean of layers {layers[0]} to {layers[-1]}"
    return f"mean of layers {', '.join(map(str, layers[:-1]))} and {layers[-1]}"


MOST = 200  # occurrences, where nobody says how many
NEAR = 6  # characters to either side by which two sentences are worded alike
SHOWN = 4  # ways of writing a word that are told
SAME = "every occurrence has the same vector"
LOOKS_BACK = "looks back: what it makes of a word does not know what comes behind it"
SPELLED = "occurrences that are written alike have the same vector"
AROUND = ", whatever stands around"


@dataclass(frozen=True, eq=False)
class SenseCluster:
    """Occurrences that are alike.

    members   their numbers, the most typical first: those nearest to the mean of all
    cohesion  the mean cosine of two of them
    """

    members: tuple[int, ...]
    cohesion: float

    @classmethod
    def label(cls, vectors: np.ndarray, mine: np.ndarray) -> SenseCluster:
        order = np.argsort(-np.round(vectors @ vectors[mine].mean(0), 9), kind="stable")
        return cls(tuple(int(number) for number in order if mine[number]), mean_cosine(vectors[mine]))


@dataclass(frozen=True, eq=False)
class RunSenses:
    """What one run makes of the occurrences.

    points     (n, 2) where their vectors lie in the plane in which they differ most
    shares     of the variance, what either direction shows
    static     whether they cannot know what stands around
    spelled    whether a vector follows from how the word is written
    alike      the mean cosine of any two
    agreement  with known meanings: of these groups, and of as many groups as there are meanings
    """

    name: str
    occurrences: tuple[Occurrence, ...]
    clustering_result: Clustering
    groups: tuple[SenseCluster, ...]
    points: np.ndarray
    explained_variance: tuple[float, float]
    static: bool
    spelling_agreement: bool
    similarity: float
    agreement: tuple[ClusterAgreement, ClusterAgreement] | None

    @property
    def conclusion(self) -> str:
        """In a few words, what the groups are worth."""
        found = self.clustering_result
        around = AROUND if self.static else ""
        if found.num_distinct == 1:
            return SAME + around
        if self.spelling_agreement:
            return (
                f"{SPELLED}{around} ({', '.join(list(dict.fromkeys(one.surface for one in self.occurrences))[:SHOWN])})"
            )
        if found.num_clusters > 1:
            return f"{found.num_clusters} groups, silhouette {found.silhouette:.2f}{self._chance(found.num_clusters)}"
        if found.best is None:
            return "one group, as was asked"
        best = f"the best {found.best.num_clusters} have a silhouette of {found.best.silhouette:.2f}"
        return f"no groups beyond chance: {best}{self._chance(found.best.num_clusters)}"

    def _chance(self, groups: int) -> str:
        """Beside the silhouette of so many groups: what sets them apart, and what that is of clouds."""
        own, chance = (
            next((one for one in self.clustering_result.candidates if one.num_clusters == groups), None),
            self.clustering_result.baseline,
        )
        if own is None or chance is None:
            return ""
        return f"; where they lie apart {own.separation:.2f}, clouds without groups up to {chance.separation:.2f}"

    @property
    def note(self) -> str:
        """What is to be known of them beside their figures."""
        if self.spelling_agreement:
            return self.conclusion
        return (
            "no groups beyond chance"
            if self.clustering_result.candidates and self.clustering_result.num_clusters == 1
            else ""
        )

    def typical(self, group: int, most: int) -> list[Occurrence]:
        """The most typical of a group; one that stands between the same words as one before it is left out."""
        chosen: dict[tuple[str, str], Occurrence] = {}
        for member in self.groups[group].members if most else ():
            one = self.occurrences[member]
            sides = one.sentence[: one.start][-NEAR:].casefold(), one.sentence[one.end :][:NEAR].casefold()
            chosen.setdefault(sides, one)
            if len(chosen) == most:
                break
        return list(chosen.values())

    def to_dict(self) -> dict[str, Any]:
        found, silhouette = self.clustering_result, self.clustering_result.silhouette
        told: dict[str, Any] = {"name": self.name, "occurrences": len(self.occurrences), "verdict": self.conclusion}
        told |= {"distinct_vectors": found.num_distinct, "mean_cosine": round(self.similarity, 4)}
        told |= {"silhouette": None if silhouette is None else round(silhouette, 4)}
        told |= {"tried": [one.to_dict() for one in found.candidates]}
        told |= {"by_chance": None if found.baseline is None else found.baseline.to_dict()}
        if self.agreement is not None:
            own, known = self.agreement
            told |= {"agreement": own.to_dict(), "agreement_in_as_many_groups": known.to_dict()}
        told["explained_variance"] = [round(share, 4) for share in self.explained_variance]
        told["groups"] = [
            {"size": len(group.members), "cohesion": round(group.cohesion, 4)}
            | {"occurrences": [self._occurrence(number) for number in group.members]}
            for group in self.groups
        ]
        return told

    def _occurrence(self, number: int) -> dict[str, Any]:
        x, y = self.points[number].tolist()
        own = {
            "x": round(x, 4),
            "y": round(y, 4),
            "silhouette": round(float(self.clustering_result.silhouettes[number]), 4),
        }
        return self.occurrences[number].to_dict() | own


@dataclass(frozen=True, eq=False)
class SenseAnalysis:
    """A word, what a run makes of it, and beside it what others do, or the run itself before it looks around.

    known  the meanings that are known
    """

    word: str
    result: RunSenses
    others: tuple[RunSenses, ...]
    labels: tuple[str, ...]
    notes: tuple[str, ...]

    def labels_of(self, members: Sequence[int]) -> str:
        """How many of a group are of which meaning, the commonest first; nothing where that is not known."""
        counts = Counter(self.result.occurrences[member].sense for member in members)
        return ": " + ", ".join(f"{count:,} {sense}" for sense, count in counts.most_common()) if self.labels else ""

    def to_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = {"word": self.word, "senses": list(self.labels), "notes": list(self.notes)}
        return told | {"vectors": self.result.to_dict(), "beside": [one.to_dict() for one in self.others]}


def analyze_senses(
    run: Run,
    word: str,
    texts: str | os.PathLike[str] | Sequence[str],
    *,
    known: Sequence[str] | None = None,
    layers: LayerChoice | None = None,
    groups: int | None = None,
    most: int = MOST,
    beside: Sequence[Run] | None = None,
    sentences: SentenceMode = "split",
    reading: TextFormat | None = None,
) -> SenseAnalysis:
    """Groups the vectors of a word in the sentences of texts, or of a file.

    known   the meaning of the word in each text, which is then taken as one sentence
    layers  as `embed` takes them; by itself the mean of all above the embedding
    groups  so many; by itself as many as hang together best, or one
    most    occurrences at most, evenly chosen
    beside  runs to compare with; by itself the run's own vectors before it looks around
    """
    if isinstance(texts, str | os.PathLike):
        if known is not None:
            raise InputError("known meanings are of texts that are given one by one", hint="give a list of texts")
        given: Iterable[SenseText] = read_sense_texts([texts], reading or TextFormat())
    elif known is None:
        given = (SenseText(text) for text in texts)
    elif len(known) == len(texts):
        given, sentences = (SenseText(text, sense=sense) for text, sense in zip(texts, known, strict=True)), "whole"
    else:
        raise InputError(f"{len(known):,} meanings are known of {len(texts):,} texts", hint="give one for each")
    found = find_occurrences(word, given, most=most, sentences=sentences)
    return analyze_occurrences(run, found, layers=layers, groups=groups, beside=beside)


def analyze_occurrences(
    run: Run,
    found: OccurrenceSample,
    *,
    layers: LayerChoice | None = None,
    groups: int | None = None,
    beside: Sequence[Run] | None = None,
) -> SenseAnalysis:
    """`senses` of occurrences that were found."""
    every = [contextual_vectors(run, found, layers)]
    if beside is not None:
        every += [contextual_vectors(other, found) for other in beside]
    elif not is_word_table(run):
        every.append(static_vectors(run, found))
    notes = list(found.notes())
    for one in every:
        if lacking := len(found.occurrences) - len(one.occurrences):
            notes.append(f"{one.name}: {lacking:,} occurrences have no vector of their own")
    notes += [f"{other.name} {LOOKS_BACK}" for other in (run, *(beside or ())) if _looks_back(other)]
    own, *others = [_grouped(one, found.word, groups) for one in every]
    for one in (own, *others):
        if groups is not None and one.clustering_result.num_clusters < groups:
            notes.append(
                f"{one.name}: no {groups} groups, as there are {one.clustering_result.num_distinct} different vectors"
            )
    known = dict.fromkeys(one.sense for one in found.occurrences if one.sense is not None)
    return SenseAnalysis(found.word, own, tuple(others), tuple(known), tuple(notes))


def _looks_back(run: Run) -> bool:
    return not is_word_table(run) and run.model.encoder.sees == "past"


def _grouped(of: OccurrenceVectors, word: str, groups: int | None) -> RunSenses:
    vectors, count = of.vectors, len(of.occurrences)
    if count < MIN_OCCURRENCES:
        what = f"{word!r} stands in {count} places: too few to be grouped"
        raise InputError(what, hint=f"give text in which it stands at least {MIN_OCCURRENCES} times")
    spelled = follows_spelling(of, SAME_VECTOR_DISTANCE)
    grouping = cluster_vectors(vectors, 1 if groups is None and spelled else groups)
    parts = tuple(SenseCluster.label(vectors, grouping.labels == number) for number in range(grouping.num_clusters))
    points, shares = pca_plane(vectors)
    agreement = _agreement(vectors, grouping, [one.sense for one in of.occurrences if one.sense is not None])
    alike = mean_cosine(vectors)
    return RunSenses(of.name, of.occurrences, grouping, parts, points, shares, of.static, spelled, alike, agreement)


def mean_cosine(vectors: np.ndarray) -> float:
    """Of any two of them; of one alone, 1."""
    count = len(vectors)
    return float(((vectors.sum(0) ** 2).sum() - count) / (count * (count - 1))) if count > 1 else 1.0


def _agreement(
    vectors: np.ndarray, grouping: Clustering, known: Sequence[str]
) -> tuple[ClusterAgreement, ClusterAgreement] | None:
    if len(known) < len(vectors):
        return None
    kinds = min(len(set(known)), grouping.num_distinct)
    owners = order_by_size(cut_tree(ward_tree(cosine_distances(vectors)), kinds))
    return ClusterAgreement.from_clusters(grouping.labels, known), ClusterAgreement.from_clusters(owners, known)
