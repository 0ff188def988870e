"""Example comparisons on a text, for the tests of the report, the plot and the verdict."""

from forebear.experiments.comparison.results import CompressionBaseline, TextComparison, TextComparisonRow, TextTrial


def trial(seconds, bits, seed=0, curve=(), **fields) -> TextTrial:
    fields = {"tokenizer": "words", "vocabulary": 500, "tokens": 1000, "finished": True, **fields}
    return TextTrial(seed, seconds=seconds, bits_per_byte=bits, curve=tuple(curve), **fields)


def row(name, year, *trials) -> TextComparisonRow:
    return TextComparisonRow(name, name.title(), year, f"the idea of {name}", "Someone", trials)


def comparison(*rows, **changes) -> TextComparison:
    metadata = {"bytes": 1_000_000, "held_out_bytes": 50_000, "machine": "2 cores", "forebear": "0", "when": "today"}
    fields = {
        "settings": {"budget": "2 min", "seeds": [0]},
        "facts": metadata,
        "rows": rows,
        "finished": True,
        **changes,
    }
    return TextComparison(("book.txt",), **fields)


COUNTS = row("counts", 1948, trial(2.0, 2.5))
NETWORK = row("network", 2019, trial(100.0, 2.0, curve=[(1, 6.0), (10, 3.0), (40, 2.4), (80, 2.1)]))
BASELINES = (
    CompressionBaseline("xz", 2.3, "a compressor"),
    CompressionBaseline("byte frequencies", 4.6, "counts of bytes"),
)
TWO_MODELS = comparison(NETWORK, COUNTS, yardsticks=BASELINES, limit=1.75, prompt="The")
