"""Whether a text is cut into words already, with spaces around each, as corpora for language models often are."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from forebear.errors import ForebearError
from forebear.text.ledger import Ledger
from forebear.text.reading import Reading
from forebear.text.sources import find

LOOKED_AT = 1 << 18  # characters
ENOUGH = 20  # marks of punctuation, of which something can be told
MOST = 0.95  # of them stand alone
# Marks that stand alone, and those that stand at a word's end or open one. Within a word they tell nothing (1,000), nor
# does a full stop or a colon at its end (No., U.S.), unless a line ends there.
_ENDING, _OPENING = ',;!?)"，。；：！？）、', '("（'
MARKS = re.compile(
    rf"(?P<alone>(?<!\S)[.:{_ENDING}{_OPENING}](?!\S))|[{_ENDING}](?!\S)|[.:](?=[^\S\n]*$)|(?<!\S)[{_OPENING}]",
    re.MULTILINE,
)


def is_tokenised(paths: Sequence[str], reading: Reading) -> bool:
    """Told by the beginning of the text: punctuation stands between spaces there. What is piped in is not looked at."""
    if reading.format not in ("auto", "text") or "-" in paths:
        return False
    alone = marks = seen = 0
    try:
        for source in find(paths):
            if reading.form_of(source) != "text" or not os.path.isfile(source.path):
                return False
            for document in reading.read([source], Ledger()):
                for found in MARKS.finditer(document.text[: LOOKED_AT - seen]):
                    marks += 1
                    alone += found["alone"] is not None
                seen += len(document.text)
                if seen >= LOOKED_AT:
                    return marks >= ENOUGH and alone >= MOST * marks
    except ForebearError:
        return False  # whoever reads it will tell what is wrong with it
    return marks >= ENOUGH and alone >= MOST * marks
