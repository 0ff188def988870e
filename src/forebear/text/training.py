"""Making a tokenizer from text: counts or merges are learned from all of it, or from a sample whose size is stated."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from forebear.errors import BadInput
from forebear.text import bytepair, characters, vocabulary, wordpiece, words
from forebear.text.blueprint import BERT, GPT2, normalizer_of
from forebear.text.segmentation import Segmenter
from forebear.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from forebear.text.once import Once

LIMIT = 200_000_000
AUTOMATIC = "automatic"
BLOCK = 1 << 16  # characters; a sample is drawn in blocks no longer than this, so that one huge text is sampled too


class Sample:
    """The texts to learn from, counting what passes.

    Where the whole (`total` characters) is larger than `limit`, each block is in or out by a hash of its content:
    the same whatever the order of texts, and spread over all of them. Without a known total the first `limit`
    characters are taken, and the report says so.
    """

    def __init__(self, texts: Iterable[str], limit: int, total: int | None) -> None:
        if limit < 1:
            raise BadInput(f"a limit of {limit} characters leaves nothing to learn from", remedy="give a limit above 0")
        self._texts, self._limit, self._total = texts, limit, total
        self.texts = self.seen = self.taken = 0
        self._how = "all"

    def __iter__(self) -> Iterator[str]:
        rate = 1.0 if self._total is None else self._limit / max(self._total, 1)
        for text in self._texts:
            self.texts += 1
            self.seen += len(text)
            if rate < 1:
                self._how = "by hash of content"
                for begin in range(0, len(text), BLOCK):
                    block = text[begin : begin + BLOCK]
                    if not self.taken or _chance(block) < rate:
                        self.taken += len(block)
                        yield block
            elif self._total is None and self.taken + len(text) > self._limit:
                self._how = "the beginning"
                text = text[: self._limit - self.taken]
                self.taken += len(text)
                yield text
                return
            else:
                self.taken += len(text)
                yield text

    def report(self) -> dict[str, Any]:
        """What was learned from; `of` is None where the end of the text was not reached."""
        whole = None if self._how == "the beginning" else self.seen
        return {"characters": self.taken, "of": whole, "texts": self.texts, "sample": self._how, "limit": self._limit}


def _chance(text: str) -> float:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") / (1 << 64)


def train(
    kind: str,
    texts: Iterable[str],
    *,
    size: int | None = None,
    min_count: int | None = None,
    lower: bool | None = None,
    normalise: Sequence[str] = (),
    split: str = "punctuation",
    segmenter: Segmenter | str | None = AUTOMATIC,
    specials: Mapping[str, str] | None = None,
    limit: int = LIMIT,
    total_characters: int | None = None,
    once: Once | None = None,
) -> Tokenizer:
    """A tokenizer of one of the four kinds, learned from the texts; the same texts give the same file.

    None stands for the kind's own number. `lower` is BERT's switch for WordPiece (on unless told otherwise) and the
    step "lower" for the others (off). `split` and `segmenter` concern words: Chinese is cut by `segmenter`, by a
    plain one unless told otherwise, by none for None. `specials` is role → token, ids from 0 in that order. Where
    spaces part words, `once` may pass the texts and count them on their way.
    """
    ways = {"words": _words, "characters": _characters, "wordpiece": _wordpiece, "bytepair": _bytepair}
    if kind not in ways:
        raise BadInput(f"no kind of tokenizer named {kind!r}", remedy=f"the kinds are: {', '.join(ways)}")
    for name, number in (("size", size), ("min_count", min_count)):
        if number is not None and number < 1:
            raise BadInput(f"{name} is {number}", remedy=f"give a {name} above 0")
    chosen = dict(specials if specials is not None else GPT2 if kind == "bytepair" else BERT)
    least = len(set(chosen.values())) + (256 if kind == "bytepair" else 1)
    if size is not None and size < least:
        raise BadInput(f"size is {size}", remedy=f"{kind} needs at least {least}, of which some are special tokens")
    normalizer_of(normalise)  # speaks up about an unknown step before any work is done
    if kind != "wordpiece" and lower and "lower" not in normalise:
        normalise = (*normalise, "lower")
    sample = Sample(texts, limit, total_characters)
    options = {"size": size, "min_count": min_count, "specials": chosen, "normalise": tuple(normalise)}
    if kind == "words":
        options |= {"split": split, "segmenter": segmenter, "once": once}
    if kind == "wordpiece":
        options["lower"] = "lower" in normalise or lower is not False
    made = ways[kind](sample, **options)
    if not sample.taken:
        raise BadInput("there is no text to learn a tokenizer from", remedy="check the paths, --format and --encoding")
    return made


def _trained(sample: Sample, min_count: int, size: int | None, covered: float | None = None) -> dict[str, Any]:
    told = sample.report() | {"min_count": min_count, "size_asked": size}
    if covered is not None:
        told["coverage"] = round(covered, 6)
    return {"trained": told}


def _words(
    sample: Sample,
    *,
    size: int | None,
    min_count: int | None,
    specials: dict[str, str],
    normalise: tuple[str, ...],
    split: str,
    segmenter: Segmenter | str | None,
    once: Once | None,
) -> Tokenizer:
    size, min_count = size or words.SIZE, min_count or words.MIN_COUNT
    cutter = segmenter if isinstance(segmenter, Segmenter) else None
    if segmenter == AUTOMATIC and split != "spaces":
        cutter = Segmenter()
    if split == "spaces" and cutter is None and not normalise:
        return _spaced_words(sample, size, min_count, specials, once)
    assert once is None
    counts, segmented = words.count(sample, split=split, normalise=normalise, segmenter=cutter)
    kept = vocabulary.ordered(counts, specials=specials.values(), size=size, min_count=min_count)
    blueprint = words.blueprint(
        kept,
        specials=specials,
        normalise=normalise,
        split=split,
        segmenter=cutter if segmented or isinstance(segmenter, Segmenter) else None,
        facts=_trained(sample, min_count, size, vocabulary.coverage(counts, kept)),
    )
    return Tokenizer(blueprint)


def _spaced_words(sample: Sample, size: int, min_count: int, specials: dict[str, str], once: Once | None) -> Tokenizer:
    """The same where nothing but white space parts words: what was counted is remembered for encoding."""
    whole: dict[str, Any] = {"specials": specials, "normalise": (), "split": "spaces"}
    if once is None:
        spoken = words.count_spaced(sample)
    else:
        deque(sample, maxlen=0)  # they pass
        spoken = once.spoken
    if not words.are_plain(spoken.words):
        counts = words.pieces_of(spoken, "spaces")
        kept = vocabulary.ordered(counts, specials=specials.values(), size=size, min_count=min_count)
        facts = _trained(sample, min_count, size, vocabulary.coverage(counts, kept))
        return Tokenizer(words.blueprint(kept, segmenter=None, facts=facts, **whole))
    kept, ids = spoken.ordered(specials=specials.values(), size=size, min_count=min_count)
    covered = int(spoken.times[ids >= 0].sum()) / total if (total := int(spoken.times.sum())) else 1.0
    facts = _trained(sample, min_count, size, covered)
    made = Tokenizer(words.blueprint(kept, segmenter=None, facts=facts, **whole))
    if once is None:
        made.remember(spoken.words, ids)
    else:
        once.ids = ids
    return made


def _characters(
    sample: Sample, *, size: int | None, min_count: int | None, specials: dict[str, str], normalise: tuple[str, ...]
) -> Tokenizer:
    min_count = min_count or characters.MIN_COUNT
    counts = characters.count(sample, normalise)
    kept = vocabulary.ordered(counts, specials=specials.values(), size=size, min_count=min_count)
    facts = _trained(sample, min_count, size, vocabulary.coverage(counts, kept))
    return Tokenizer(characters.blueprint(kept, specials=specials, normalise=normalise, facts=facts))


def _wordpiece(
    sample: Sample,
    *,
    size: int | None,
    min_count: int | None,
    specials: dict[str, str],
    normalise: tuple[str, ...],
    lower: bool,
) -> Tokenizer:
    size, min_count = size or wordpiece.SIZE, min_count or wordpiece.MIN_COUNT
    counts = wordpiece.count(sample, lower=lower, normalise=normalise)
    tokens = wordpiece.learn(counts, size=size, min_count=min_count, specials=specials)
    facts = _trained(sample, min_count, size)
    return Tokenizer(wordpiece.blueprint(tokens, specials=specials, lower=lower, normalise=normalise, facts=facts))


def _bytepair(
    sample: Sample, *, size: int | None, min_count: int | None, specials: dict[str, str], normalise: tuple[str, ...]
) -> Tokenizer:
    size, min_count = size or bytepair.SIZE, min_count or bytepair.MIN_COUNT
    learned, merges = bytepair.learn(sample, size=size, min_count=min_count, specials=specials, normalise=normalise)
    facts = _trained(sample, min_count, size)
    return Tokenizer(bytepair.blueprint(learned, merges, specials=specials, normalise=normalise, facts=facts))
