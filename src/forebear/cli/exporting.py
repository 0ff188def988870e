"""`forebear export`: a run becomes files that other programs read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from forebear.cli.printing import Speaking

if TYPE_CHECKING:
    from rich.console import Console


Form = Literal["huggingface", "arpa", "elmo", "onnx", "word2vec", "word2vec-binary", "glove", "fasttext", "safetensors"]


def exported(
    run: Path,
    /,
    *,
    to: Path,
    form: Annotated[Form | None, Parameter(name="--format")] = None,
    speaking: Speaking = Speaking(),
) -> None:
    """Write a run as a folder that transformers opens, an ONNX file, ARPA (n-gram), published ELMo, or word vectors.

    A run that was adapted to a task becomes a model for that task there, with its labels; what such a folder cannot say
    is told. An ONNX file takes padded batches of any size (input_ids, attention_mask, token_type_ids) and is compared
    with the run by ONNX Runtime before it gets its name; its tokenizer, and a .json that says how to use it, stand
    beside it. An ELMo becomes options.json, lm_weights.hdf5 and vocab.txt, as bilm-tf and AllenNLP read them (needs
    h5py: pip install 'forebear[elmo]'). Any run whose tokens are words can be written as a file of word vectors, packed
    where its name ends with .gz or .zst; safetensors keep words and counts as they are, and for the others white space
    in a word becomes _.

    ```
    forebear export runs/book --to book-gpt2
    forebear export runs/reviews --to reviews-bert
    forebear export runs/ngram --format arpa --to book.arpa
    forebear export runs/reviews --format onnx --to reviews.onnx
    forebear export runs/elmo --to elmo-published
    forebear export runs/words --format word2vec --to words.txt
    ```

    Parameters
    ----------
    run
        A run folder.
    to
        The folder or file to write.
    form
        huggingface, arpa, elmo, onnx; of word vectors word2vec (text, which gensim reads too), word2vec-binary, glove,
        fasttext or safetensors. [default: the first of these that the run can be written as]
    """
    from forebear.interop.word_vectors import FORMS
    from forebear.using import exchanging
    from forebear.using.run import Run

    opened = Run.open(run)
    chosen = form or exchanging.form_of(opened)
    if chosen in FORMS and not speaking.quiet and (before := exchanging.before_writing(opened, chosen, to)):
        print(f"note: {before}", file=sys.stderr)  # noqa: T201
    place = exchanging.exported(opened, chosen, str(to))
    facts = {"run": str(run), "format": chosen, "to": str(place), "notes": opened.notes}
    notes = [] if speaking.quiet else opened.notes
    speaking.tell(facts, lambda console: _draw(console, f"{chosen}: {place}", notes))


def _draw(console: Console, told: str, notes: list[str]) -> None:
    console.print(told, markup=False, soft_wrap=True)
    for note in notes:
        console.print(f"note: {note}", style="yellow", markup=False, soft_wrap=True)
