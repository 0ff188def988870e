"""Every milestone of pre-trained language models, trained on your own text: pretrain, adapt, load, and ask the run.

    import forebear as fb
    run = fb.pretrain("gpt2", "book.txt", to="runs/book", time="5m")
    run.generate("Once")
    fb.load("runs/book").score(["a sentence", "another one"])
    fb.adapt("runs/book", "reviews.tsv", to="runs/reviews").classify("I loved it")

Names are looked up when they are first used, so that importing this costs nothing.
"""

import os  # nothing else from outside: with `python -m` the working folder is still on the search path here

from forebear.interrupts import guard_first_imports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from forebear.experiments.comparison.compare import compare
    from forebear.experiments.distill import distill
    from forebear.experiments.explain import explain_model
    from forebear.experiments.pretrain import adapt, import_run, load, pretrain, rerun, resume
    from forebear.experiments.quantize import quantize_run
    from forebear.inference.ensemble import evaluate_interpolation
    from forebear.inference.run import Run
    from forebear.inspection.attention import attention_maps
    from forebear.inspection.attribution import attribute
    from forebear.inspection.embedding_space import project_words, vector_norms
    from forebear.inspection.gradient_distance import gradient_reach
    from forebear.inspection.layer_weights import layer_weights
    from forebear.inspection.logit_lens import logit_lens
    from forebear.inspection.position_embeddings import position_table
    from forebear.inspection.senses import analyze_senses
    from forebear.training.run_folder import list_runs

__version__ = "0.1.0"
__all__ = [
    "Run",
    "adapt",
    "attention_maps",
    "compare",
    "distill",
    "explain_model",
    "gradient_reach",
    "import_run",
    "layer_weights",
    "logit_lens",
    "load",
    "evaluate_interpolation",
    "vector_norms",
    "position_table",
    "pretrain",
    "project_words",
    "quantize_run",
    "rerun",
    "resume",
    "list_runs",
    "analyze_senses",
    "attribute",
]

# Threads of torch wait for each other by spinning, for very many turns. Where another program wants the same cores,
# they wait for one that is not running: many times slower. Few turns cost nothing where nobody disturbs.
os.environ.setdefault("GOMP_SPINCOUNT", "2000")

guard_first_imports()

_PLACES = {
    "Run": "forebear.inference.run",
    "attention_maps": "forebear.inspection.attention",
    "compare": "forebear.experiments.comparison.compare",
    "distill": "forebear.experiments.distill",
    "explain_model": "forebear.experiments.explain",
    "gradient_reach": "forebear.inspection.gradient_distance",
    "layer_weights": "forebear.inspection.layer_weights",
    "logit_lens": "forebear.inspection.logit_lens",
    "evaluate_interpolation": "forebear.inference.ensemble",
    "vector_norms": "forebear.inspection.embedding_space",
    "position_table": "forebear.inspection.position_embeddings",
    "project_words": "forebear.inspection.embedding_space",
    "quantize_run": "forebear.experiments.quantize",
    "list_runs": "forebear.training.run_folder",
    "analyze_senses": "forebear.inspection.senses",
    "attribute": "forebear.inspection.attribution",
    **dict.fromkeys(("adapt", "import_run", "load", "pretrain", "rerun", "resume"), "forebear.experiments.pretrain"),
}


def __getattr__(name: str) -> "Any":
    if name not in _PLACES:
        raise AttributeError(f"module 'forebear' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
