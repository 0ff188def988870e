"""Every milestone of pre-trained language models, trained on your own text: pretrain, adapt, load, and ask the run.

    import forebear as fb
    run = fb.pretrain("gpt2", "book.txt", to="runs/book", time="5m")
    run.generate("Once")
    fb.load("runs/book").score(["a sentence", "another one"])
    fb.adapt("runs/book", "reviews.tsv", to="runs/reviews").classify("I loved it")

Names are looked up when they are first used, so that importing this costs nothing.
"""

import os  # nothing else from outside: with `python -m` the working folder is still on the search path here

from forebear._version import __version__ as __version__
from forebear.interrupts import guard_first_imports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from forebear.experiments.comparison.compare import compare
    from forebear.experiments.distill import distill
    from forebear.experiments.explain_model import explain_model as explain
    from forebear.experiments.pretrain import adapt, import_run, load, pretrain, rerun, resume
    from forebear.experiments.quantize import quantize_run as quantize
    from forebear.inference.interpolation import evaluate_interpolation
    from forebear.inference.run import Run
    from forebear.inspection.attention import attention_maps
    from forebear.inspection.attribution import attribute
    from forebear.inspection.gradient_reach import gradient_reach
    from forebear.inspection.layer_weights import layer_weights
    from forebear.inspection.logit_lens import logit_lens
    from forebear.inspection.position_embeddings import position_table
    from forebear.inspection.senses import analyze_senses
    from forebear.inspection.word_vector_geometry import project_words, vector_norms
    from forebear.training.run_folder import list_runs as runs

# Threads of torch wait for each other by spinning. Where another program needs the same cores, long spinning makes them
# many times slower; short spinning costs nothing on an idle machine.
os.environ.setdefault("GOMP_SPINCOUNT", "2000")

guard_first_imports()

_PUBLIC = {  # name: module, or module:name where the names differ
    "Run": "forebear.inference.run",
    "adapt": "forebear.experiments.pretrain",
    "analyze_senses": "forebear.inspection.senses",
    "attention_maps": "forebear.inspection.attention",
    "attribute": "forebear.inspection.attribution",
    "compare": "forebear.experiments.comparison.compare",
    "distill": "forebear.experiments.distill",
    "evaluate_interpolation": "forebear.inference.interpolation",
    "explain": "forebear.experiments.explain_model:explain_model",
    "gradient_reach": "forebear.inspection.gradient_reach",
    "import_run": "forebear.experiments.pretrain",
    "layer_weights": "forebear.inspection.layer_weights",
    "load": "forebear.experiments.pretrain",
    "logit_lens": "forebear.inspection.logit_lens",
    "position_table": "forebear.inspection.position_embeddings",
    "pretrain": "forebear.experiments.pretrain",
    "project_words": "forebear.inspection.word_vector_geometry",
    "quantize": "forebear.experiments.quantize:quantize_run",
    "rerun": "forebear.experiments.pretrain",
    "resume": "forebear.experiments.pretrain",
    "runs": "forebear.training.run_folder:list_runs",
    "vector_norms": "forebear.inspection.word_vector_geometry",
}


def __getattr__(name: str) -> "Any":
    if name not in _PUBLIC:
        raise AttributeError(f"module 'forebear' has no attribute {name!r}")
    from importlib import import_module

    module, _, attribute = _PUBLIC[name].partition(":")
    return getattr(import_module(module), attribute or name)


def __dir__() -> list[str]:
    return [*_PUBLIC, "__version__"]
