"""Word senses: clustering the contextual vectors of a word's occurrences, and agreement with gold senses."""

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
from forebear.inspection.embedding_space import pca_plane
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

# --- Vectors of occurrences: contextual, or from a word table ---


SENTENCES_PER_BATCH = 32  # sentences per batch: one-hot vectors of all their words take much memory


@dataclass(frozen=True, eq=False)
class OccurrenceVectors:
    """name         run and layers of the vectors
    occurrences  occurrences that have a vector
    vectors      (n, D), unit length
    static       whether vectors do not depend on the context
    """

    name: str
    occurrences: tuple[Occurrence, ...]
    vectors: np.ndarray
    is_static: bool = False


def contextual_vectors(run: Run, sample: OccurrenceSample, layers: LayerChoice | None = None) -> OccurrenceVectors:
    """Vectors from a run's network (by default all layers above the embedding, averaged) or from its word table."""
    if is_word_table(run):
        if layers is not None:
            message = "--layers means nothing to a table of words: it has no layers"
            raise InputError(message, file=run.folder.path, hint="leave it out")
        run.lexicon.find(sample.word)  # raises an error with suggestions if there is no vector
        return _collect_vectors(run, run.name, sample, _word_vectors(run, sample, {"zeros": True}), is_static=True)
    if run.folder.spec.learning == "counting":
        hint = "look at a run of vectors (word2vec, bert, …)"
        raise InputError("counts, and has no vectors", file=run.folder.path, hint=hint)
    run.require("embed")
    layer_choice = _upper_layers(run.model.encoder) if layers is None else layers
    return _collect_vectors(
        run,
        f"{run.name}, {_describe_layers(layer_choice)}",
        sample,
        _word_vectors(run, sample, {"layers": layer_choice}),
    )


def static_vectors(run: Run, sample: OccurrenceSample) -> OccurrenceVectors:
    """Rows of the network's token embedding, or its layer 0 where there is no table; layer 0 of a Transformer includes
    positions.
    """
    table = dict(run.model.named_parameters()).get(TOKEN_TABLE_TENSOR)
    if table is None:
        embedding = run.model.encoder.embedding
        position_kind = "none" if embedding is None else embedding.placing
        name = f"{run.name}, layer 0" + (", with places" if position_kind != "none" else "")
        return _collect_vectors(
            run, name, sample, _word_vectors(run, sample, {"layers": 0}), is_static=position_kind == "none"
        )
    rows = table.detach().float().cpu().numpy()
    return _collect_vectors(run, f"{run.name}, its table", sample, _token_vectors(run, sample, rows), is_static=True)


def follows_spelling(occurrence_vectors: OccurrenceVectors, tolerance: float) -> bool:
    """Whether the vector depends on the spelling of the word only."""
    first: dict[str, np.ndarray] = {}
    for vector, occurrence in zip(occurrence_vectors.vectors, occurrence_vectors.occurrences, strict=True):
        if np.abs(first.setdefault(occurrence.surface, vector) - vector).max() > tolerance:
            return False
    return True


def _collect_vectors(
    run: Run, name: str, sample: OccurrenceSample, vectors: Iterator[np.ndarray | None], *, is_static: bool = False
) -> OccurrenceVectors:
    pairs = zip(sample.occurrences, vectors, strict=True)
    usable = [(occurrence, vector) for occurrence, vector in pairs if vector is not None]
    if not usable:
        message = f"none of the places where {sample.word!r} stands has tokens of its own"
        raise InputError(message, file=run.folder.path, hint="ask for a longer word, or a run with smaller tokens")
    units = unit_rows(np.stack([vector for _, vector in usable]).astype(np.float64))
    return OccurrenceVectors(name, tuple(occurrence for occurrence, _ in usable), units, is_static)


def _word_vectors(run: Run, sample: OccurrenceSample, options: dict[str, Any]) -> Iterator[np.ndarray | None]:
    """Mean vector of the words within an occurrence, or of those that overlap it."""
    for begin in range(0, len(sample.occurrences), SENTENCES_PER_BATCH):
        batch = sample.occurrences[begin : begin + SENTENCES_PER_BATCH]
        embedded = run.embed([occurrence.sentence for occurrence in batch], words=True, normalise=False, **options)
        for occurrence, text in zip(batch, embedded, strict=True):
            overlapping = [
                word for word in text.words or () if word.start < occurrence.end and word.end > occurrence.start
            ]
            contained = [
                word for word in overlapping if word.start >= occurrence.start and word.end <= occurrence.end
            ] or overlapping
            yield np.mean([word.vector for word in contained], axis=0) if contained else None


def _token_vectors(run: Run, sample: OccurrenceSample, rows: np.ndarray) -> Iterator[np.ndarray | None]:
    for occurrence in sample.occurrences:
        pieces = run.tokenizer.encode(occurrence.sentence)
        token_spans = zip(pieces.ids.tolist(), pieces.spans, strict=True)
        ids = [i for i, (begin, end) in token_spans if begin < occurrence.end and end > occurrence.start]
        yield rows[ids].mean(0) if ids else None


def _upper_layers(encoder: Encoder) -> list[int]:
    """All layers above the embedding, or the last one if their sizes differ."""
    layers = list(range(1, encoder.depth + 1))
    return layers if len({encoder.widths[layer] for layer in layers}) == 1 else [encoder.depth]


def _describe_layers(layers: LayerChoice) -> str:
    """Description of a layer choice."""
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
NEAR = 6  # characters of context on either side that identify near-duplicates
SHOWN = 4  # spellings listed
SAME = "every occurrence has the same vector"
LOOKS_BACK = "looks back: what it makes of a word does not know what comes behind it"
SAME_BY_SPELLING = "occurrences that are written alike have the same vector"
IN_ANY_CONTEXT = ", whatever stands around"


@dataclass(frozen=True, eq=False)
class SenseCluster:
    """A cluster of occurrences.

    members   indices, most typical first (nearest to the mean)
    cohesion  mean cosine of two members
    """

    members: tuple[int, ...]
    cohesion: float

    @classmethod
    def from_vectors(cls, vectors: np.ndarray, is_member: np.ndarray) -> SenseCluster:
        order = np.argsort(-np.round(vectors @ vectors[is_member].mean(0), 9), kind="stable")
        return cls(tuple(int(number) for number in order if is_member[number]), mean_cosine(vectors[is_member]))


@dataclass(frozen=True, eq=False)
class RunSenses:
    """Clusters of one run.

    points              (n, 2) principal components of the vectors
    explained_variance  share of variance per component
    static              whether vectors do not depend on the context
    spelling_agreement  whether vectors depend on the spelling only
    similarity          mean cosine of any two occurrences
    agreement           with gold senses: of these clusters, and of as many clusters as there are senses
    """

    name: str
    occurrences: tuple[Occurrence, ...]
    clustering: Clustering
    groups: tuple[SenseCluster, ...]
    points: np.ndarray
    explained_variance: tuple[float, float]
    is_static: bool
    is_by_spelling: bool
    similarity: float
    agreement: tuple[ClusterAgreement, ClusterAgreement] | None

    @property
    def conclusion(self) -> str:
        """The result in a few words."""
        clustering = self.clustering
        context_note = IN_ANY_CONTEXT if self.is_static else ""
        if clustering.num_distinct == 1:
            return SAME + context_note
        if self.is_by_spelling:
            surfaces = list(dict.fromkeys(occurrence.surface for occurrence in self.occurrences))[:SHOWN]
            return f"{SAME_BY_SPELLING}{context_note} ({', '.join(surfaces)})"
        if clustering.num_clusters > 1:
            groups = f"{clustering.num_clusters} groups, silhouette {clustering.silhouette:.2f}"
            return groups + self._baseline_note(clustering.num_clusters)
        if clustering.best is None:
            return "one group, as was asked"
        best = f"the best {clustering.best.num_clusters} have a silhouette of {clustering.best.silhouette:.2f}"
        return f"no groups beyond chance: {best}{self._baseline_note(clustering.best.num_clusters)}"

    def _baseline_note(self, groups: int) -> str:
        """Comparison of this number of clusters with random clouds."""
        candidate, baseline = (
            next((scored for scored in self.clustering.candidates if scored.num_clusters == groups), None),
            self.clustering.baseline,
        )
        if candidate is None or baseline is None:
            return ""
        return (
            f"; where they lie apart {candidate.separation:.2f}, clouds without groups up to {baseline.separation:.2f}"
        )

    @property
    def note(self) -> str:
        """A caveat, or ""."""
        if self.is_by_spelling:
            return self.conclusion
        return "no groups beyond chance" if self.clustering.candidates and self.clustering.num_clusters == 1 else ""

    def typical_occurrences(self, group: int, max_count: int) -> list[Occurrence]:
        """Most typical occurrences of a cluster without near-duplicates."""
        by_context: dict[tuple[str, str], Occurrence] = {}
        for member in self.groups[group].members if max_count else ():
            occurrence = self.occurrences[member]
            contexts = (
                occurrence.sentence[: occurrence.start][-NEAR:].casefold(),
                occurrence.sentence[occurrence.end :][:NEAR].casefold(),
            )
            by_context.setdefault(contexts, occurrence)
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
            agreement_, gold_agreement = self.agreement
            data |= {"agreement": agreement_.to_dict(), "agreement_in_as_many_groups": gold_agreement.to_dict()}
        data["explained_variance"] = [round(ratio, 4) for ratio in self.explained_variance]
        data["groups"] = [
            {"size": len(group.members), "cohesion": round(group.cohesion, 4)}
            | {"occurrences": [self._occurrence_dict(number) for number in group.members]}
            for group in self.groups
        ]
        return data

    def _occurrence_dict(self, number: int) -> dict[str, Any]:
        x, y = self.points[number].tolist()
        plot_data = {
            "x": round(x, 4),
            "y": round(y, 4),
            "silhouette": round(float(self.clustering.silhouettes[number]), 4),
        }
        return self.occurrences[number].to_dict() | plot_data


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
        senses: Gold sense of each text, which is then one sentence.
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
        sense_texts, sentences = (
            (SenseText(text, sense=sense) for text, sense in zip(texts, senses, strict=True)),
            "whole",
        )
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
    """The same for given occurrences."""
    vector_sets = [contextual_vectors(run, sample, layers)]
    if beside is not None:
        vector_sets += [contextual_vectors(other, sample) for other in beside]
    elif not is_word_table(run):
        vector_sets.append(static_vectors(run, sample))
    notes = list(sample.notes())
    for item in vector_sets:
        if num_missing := len(sample.occurrences) - len(item.occurrences):
            notes.append(f"{item.name}: {num_missing:,} occurrences have no vector of their own")
    notes += [f"{other.name} {LOOKS_BACK}" for other in (run, *(beside or ())) if _looks_back(other)]
    result, *others = [_cluster_occurrences(item, sample.word, groups) for item in vector_sets]
    for item in (result, *others):
        if groups is not None and item.clustering.num_clusters < groups:
            notes.append(
                f"{item.name}: no {groups} groups, as there are {item.clustering.num_distinct} different vectors"
            )
    labels = dict.fromkeys(item.sense for item in sample.occurrences if item.sense is not None)
    return SenseAnalysis(sample.word, result, tuple(others), tuple(labels), tuple(notes))


def _looks_back(run: Run) -> bool:
    return not is_word_table(run) and run.model.encoder.sees == "past"


def _cluster_occurrences(occurrence_vectors: OccurrenceVectors, word: str, groups: int | None) -> RunSenses:
    vectors, count = occurrence_vectors.vectors, len(occurrence_vectors.occurrences)
    if count < MIN_OCCURRENCES:
        message = f"{word!r} stands in {count} places: too few to be grouped"
        raise InputError(message, hint=f"give text in which it stands at least {MIN_OCCURRENCES} times")
    is_by_spelling = follows_spelling(occurrence_vectors, SAME_VECTOR_DISTANCE)
    clustering = cluster_vectors(vectors, 1 if groups is None and is_by_spelling else groups)
    clusters = tuple(
        SenseCluster.from_vectors(vectors, clustering.labels == number) for number in range(clustering.num_clusters)
    )
    points, explained_variance = pca_plane(vectors)
    agreement = _sense_agreement(
        vectors,
        clustering,
        [occurrence.sense for occurrence in occurrence_vectors.occurrences if occurrence.sense is not None],
    )
    similarity = mean_cosine(vectors)
    return RunSenses(
        occurrence_vectors.name,
        occurrence_vectors.occurrences,
        clustering,
        clusters,
        points,
        explained_variance,
        occurrence_vectors.is_static,
        is_by_spelling,
        similarity,
        agreement,
    )


def mean_cosine(vectors: np.ndarray) -> float:
    """Mean cosine of two different unit vectors; 1 for a single one."""
    count = len(vectors)
    return float(((vectors.sum(0) ** 2).sum() - count) / (count * (count - 1))) if count > 1 else 1.0


def _sense_agreement(
    vectors: np.ndarray, clustering: Clustering, senses: Sequence[str]
) -> tuple[ClusterAgreement, ClusterAgreement] | None:
    if len(senses) < len(vectors):
        return None
    num_clusters = min(len(set(senses)), clustering.num_distinct)
    cluster_ids = order_by_size(cut_tree(ward_tree(cosine_distances(vectors)), num_clusters))
    return ClusterAgreement.from_clusters(clustering.labels, senses), ClusterAgreement.from_clusters(
        cluster_ids, senses
    )


# --- Clustering of vectors by Ward's method, compared with a baseline without clusters ---
#
# Any cloud of vectors can be cut in two, so clusters are compared with those of random clouds that have none: samples
# of one normal distribution with the same mean and covariance, cut in the same way (as in Liu et al. 2008). The quality
# of clusters is their silhouette (Rousseeuw 1987). In the directions in which clusters differ it must exceed the 95%
# quantile of the random clouds; in all directions, where noise hides the gap between few vectors, their mean.

NUM_RANDOM_CLOUDS = 40
BASELINE_QUANTILE = 0.95  # quantile of the random clouds
MAX_CLUSTERS = 8  # maximum number of clusters
MIN_OCCURRENCES = 4  # minimum number of vectors
SAME_VECTOR_DISTANCE = 1e-5  # distance below which vectors count as equal


@dataclass(frozen=True)
class ClusterCandidate:
    """A number of clusters with its silhouette, in all directions and in those in which the clusters differ."""

    num_clusters: int
    silhouette: float
    separation: float

    def to_dict(self) -> dict[str, Any]:
        data = {"silhouette": self.silhouette, "silhouette_apart": self.separation}
        return {"groups": self.num_clusters} | {name: round(value, 4) for name, value in data.items()}


@dataclass(frozen=True)
class SilhouetteBaseline:
    """Random clouds cut at their best: mean silhouette, and the 95% quantile in the directions in which clusters
    differ.
    """

    silhouette: float
    separation: float

    def to_dict(self) -> dict[str, Any]:
        return {
            "mean_silhouette": round(self.silhouette, 4),
            "silhouette_apart_of_one_in_twenty": round(self.separation, 4),
        }


@dataclass(frozen=True, eq=False)
class Clustering:
    """labels        (n,) cluster of each vector; 0 is the largest
    silhouettes   (n,) silhouette of each vector, from -1 to 1; zeros for one cluster
    num_distinct  number of distinct vectors
    candidates    numbers of clusters that were tried, from 2
    baseline      of random clouds; None if nothing was tried
    """

    labels: np.ndarray
    silhouettes: np.ndarray
    num_distinct: int
    candidates: tuple[ClusterCandidate, ...] = ()
    baseline: SilhouetteBaseline | None = None

    @property
    def num_clusters(self) -> int:
        return int(self.labels.max()) + 1

    @property
    def silhouette(self) -> float | None:
        """Mean silhouette; None for one cluster."""
        return float(self.silhouettes.mean()) if self.num_clusters > 1 else None

    @property
    def best(self) -> ClusterCandidate | None:
        """The number of clusters with the highest silhouette."""
        return max(self.candidates, key=lambda candidate: candidate.silhouette, default=None)


def cluster_vectors(vectors: np.ndarray, num_clusters: int | None = None) -> Clustering:
    """Cluster (n, D) unit vectors into this many clusters, or the best number, or one."""
    distances = cosine_distances(vectors)
    num_distinct = _count_distinct(distances)
    if num_clusters is not None and not 1 <= num_clusters <= len(vectors):
        raise InputError(
            f"--groups is {num_clusters}", hint=f"give from 1 to {len(vectors):,}, as many as there are vectors"
        )
    max_clusters = min(MAX_CLUSTERS, len(vectors) // 2, num_distinct)
    single_cluster = np.zeros(len(vectors), np.int64)
    if num_distinct == 1 or num_clusters == 1 or max_clusters < 2:
        return Clustering(single_cluster, np.zeros(len(vectors)), num_distinct)
    merges = ward_tree(distances)
    candidates, baseline = (
        _score_candidates(vectors, distances, merges, max_clusters),
        _random_baseline(vectors, max_clusters),
    )
    best = max(candidates, key=lambda single_cluster: single_cluster.silhouette)
    if num_clusters is None:
        num_clusters = (
            best.num_clusters if best.separation > baseline.separation and best.silhouette > baseline.silhouette else 1
        )
    labels = order_by_size(cut_tree(merges, min(num_clusters, num_distinct)))
    return Clustering(labels, silhouettes(distances, labels), num_distinct, candidates, baseline)


def cosine_distances(vectors: np.ndarray) -> np.ndarray:
    """(n, n) 1 - cosine of unit vectors, which is half their squared distance."""
    rows = vectors.astype(np.float64)
    squares = (rows**2).sum(1)
    return np.maximum(squares[:, None] + squares[None] - 2 * rows @ rows.T, 0.0) / 2


def ward_tree(distances: np.ndarray) -> np.ndarray:
    """(n - 1, 2) merges of two clusters, each given by a member, in the order of increasing cost.

    Ward's method by nearest-neighbor chains: mutual nearest neighbors are merged, in whatever order they are met.
    """
    distances, count = distances.copy(), len(distances)
    np.fill_diagonal(distances, np.inf)
    sizes, chain = np.ones(count), [0]
    merges: list[tuple[float, int, int]] = []
    while len(merges) < count - 1:
        if not chain:
            chain.append(int(np.flatnonzero(sizes)[0]))
        current = chain[-1]
        nearest = int(distances[current].argmin())
        if len(chain) < 2 or distances[current, nearest] < distances[current, chain[-2]]:
            chain.append(nearest)
            continue
        nearest = chain[-2]
        del chain[-2:]
        merges.append((float(distances[current, nearest]), current, nearest))
        joint_size = sizes[current] + sizes[nearest]
        new_distances = (
            (sizes[current] + sizes) * distances[current]
            + (sizes[nearest] + sizes) * distances[nearest]
            - sizes * distances[current, nearest]
        )
        new_distances = new_distances / (joint_size + sizes)  # distance to the merged cluster (Lance and Williams)
        new_distances[[current, nearest]] = np.inf
        sizes[current], sizes[nearest] = joint_size, 0
        distances[current], distances[:, current] = new_distances, new_distances
        distances[nearest], distances[:, nearest] = np.inf, np.inf
    return np.array([(first, second) for _, first, second in sorted(merges, key=lambda join: join[0])], np.int64)


def cut_tree(merges: np.ndarray, num_clusters: int) -> np.ndarray:
    """(n,) cluster labels when the tree is cut into this many clusters."""
    labels = np.arange(len(merges) + 1)
    for first, second in merges[: len(merges) + 1 - num_clusters].tolist():
        labels[labels == labels[second]] = labels[first]
    return np.unique(labels, return_inverse=True)[1]


def order_by_size(labels: np.ndarray) -> np.ndarray:
    """Relabel clusters by size, largest first; ties by first member."""
    _, first_rows, sizes = np.unique(labels, return_index=True, return_counts=True)
    return np.argsort(np.lexsort((first_rows, -sizes)))[labels]


def silhouettes(distances: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(n,) (b - a) / max(a, b): a is the mean distance within the cluster, b to the nearest other one; 0 for
    singletons.
    """
    if not labels.any():  # only one cluster
        return np.zeros(len(labels))
    members = np.eye(int(labels.max()) + 1)[labels]
    sizes, sums, rows = members.sum(0), distances @ members, np.arange(len(labels))
    within = sums[rows, labels] / np.maximum(sizes[labels] - 1, 1)
    between = np.where(members > 0, np.inf, sums / sizes)
    nearest_other = between.min(1)
    return np.where(
        sizes[labels] > 1, (nearest_other - within) / np.maximum(np.maximum(within, nearest_other), 1e-12), 0.0
    )


def project_to_means(vectors: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(n, clusters - 1) vectors projected onto the span of the cluster means."""
    center = vectors.mean(0)
    means = np.stack([vectors[labels == number].mean(0) for number in range(int(labels.max()) + 1)])
    return (vectors - center) @ np.linalg.svd(means - center, full_matrices=False)[2][: len(means) - 1].T


def _score_candidates(
    vectors: np.ndarray, distances: np.ndarray, merges: np.ndarray, max_clusters: int
) -> tuple[ClusterCandidate, ...]:
    """Candidates with 2 to `max_clusters` clusters."""
    labels, candidates = cut_tree(merges, max_clusters), []
    for count in range(max_clusters, 1, -1):
        compact_labels = np.unique(labels, return_inverse=True)[1]
        separations = silhouettes(cosine_distances(project_to_means(vectors, compact_labels)), compact_labels)
        candidates.append(
            ClusterCandidate(count, float(silhouettes(distances, compact_labels).mean()), float(separations.mean()))
        )
        first, second = merges[len(merges) + 1 - count]
        labels[labels == labels[second]] = labels[first]
    return tuple(candidates[::-1])


def _random_baseline(vectors: np.ndarray, max_clusters: int) -> SilhouetteBaseline:
    """Baseline from random unit vectors of a normal distribution with the same mean and covariance."""
    rows = vectors.astype(np.float64)
    center = rows.mean(0)
    _, lengths, directions = np.linalg.svd(rows - center, full_matrices=False)
    directions_scaled = (lengths / np.sqrt(len(rows) - 1))[:, None] * directions
    rng, best_candidates = np.random.default_rng(0), []
    for _ in range(NUM_RANDOM_CLOUDS):
        cloud = center + rng.normal(size=(len(rows), len(directions_scaled))) @ directions_scaled
        cloud /= np.maximum(np.linalg.norm(cloud, axis=1, keepdims=True), 1e-12)
        distances = cosine_distances(cloud)
        best_candidates.append(
            max(
                _score_candidates(cloud, distances, ward_tree(distances), max_clusters),
                key=lambda candidate: candidate.silhouette,
            )
        )
    return SilhouetteBaseline(
        float(np.mean([candidate.silhouette for candidate in best_candidates])),
        float(np.quantile([candidate.separation for candidate in best_candidates], BASELINE_QUANTILE)),
    )


def _count_distinct(distances: np.ndarray) -> int:
    remaining, count = np.ones(len(distances), bool), 0
    while remaining.any():
        remaining &= distances[remaining.argmax()] > SAME_VECTOR_DISTANCE**2  # distances are squared
        count += 1
    return count


# --- Agreement of clusters with gold senses: purity and the adjusted Rand index ---

NUM_SHUFFLES = 40  # shuffles for the random baseline


@dataclass(frozen=True)
class ClusterAgreement:
    """Agreement of clusters with gold senses.

    purity         share of occurrences with the majority sense of their cluster
    chance         the same for shuffled senses
    rand           adjusted Rand index
    merged_groups  the same with clusters of one majority sense merged
    """

    groups: int
    purity: float
    chance: float
    rand: float
    merged_groups: float

    @classmethod
    def from_clusters(cls, cluster_ids: np.ndarray, labels: Sequence[str]) -> ClusterAgreement:
        majority_ids = _contingency_table(cluster_ids, labels).argmax(1)[cluster_ids]
        scores = (
            purity(cluster_ids, labels),
            chance_purity(cluster_ids, labels),
            adjusted_rand_index(cluster_ids, labels),
        )
        return cls(int(cluster_ids.max()) + 1, *scores, adjusted_rand_index(majority_ids, labels))

    def to_dict(self) -> dict[str, Any]:
        data = {"purity": self.purity, "purity_by_chance": self.chance}
        data |= {"adjusted_rand_index": self.rand, "adjusted_rand_index_joined": self.merged_groups}
        return {"groups": self.groups} | {name: round(value, 4) for name, value in data.items()}


def purity(cluster_ids: np.ndarray, labels: Sequence[str]) -> float:
    """Share of occurrences with the majority sense of their cluster."""
    return float(_contingency_table(cluster_ids, labels).max(1).sum()) / len(cluster_ids)


def chance_purity(cluster_ids: np.ndarray, labels: Sequence[str]) -> float:
    """Mean purity for shuffled senses, which grows with the number of clusters."""
    rng, label_array = np.random.default_rng(0), np.array(labels)
    return float(np.mean([purity(cluster_ids, rng.permutation(label_array).tolist()) for _ in range(NUM_SHUFFLES)]))


def adjusted_rand_index(cluster_ids: np.ndarray, labels: Sequence[str]) -> float:
    """Adjusted Rand index (Hubert and Arabie 1985): agreement on pairs, corrected for chance.

    1 is a perfect match; 0 is chance level, and always the value of a single cluster.
    """

    def pairs(counts: np.ndarray) -> float:
        return float((counts * (counts - 1) / 2).sum())

    table = _contingency_table(cluster_ids, labels)
    same_pairs, cluster_pairs, label_pairs = pairs(table), pairs(table.sum(1)), pairs(table.sum(0))
    expected = cluster_pairs * label_pairs / max(pairs(np.array([len(cluster_ids)])), 1)
    maximum = (cluster_pairs + label_pairs) / 2
    return (same_pairs - expected) / (maximum - expected) if maximum > expected else float(same_pairs == maximum)


def _contingency_table(cluster_ids: np.ndarray, labels: Sequence[str]) -> np.ndarray:
    """(clusters, senses) counts."""
    label_ids = np.unique(np.array(labels), return_inverse=True)[1]
    table = np.zeros((int(cluster_ids.max()) + 1, int(label_ids.max()) + 1))
    np.add.at(table, (cluster_ids, label_ids), 1)
    return table
