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

    from forebear.comparing.comparing import compare
    from forebear.inspecting.attributing import why
    from forebear.inspecting.distance import gradients
    from forebear.inspecting.layer_weights import layers
    from forebear.inspecting.lens import lens
    from forebear.inspecting.maps import attention
    from forebear.inspecting.norms import norms
    from forebear.inspecting.positions import positions
    from forebear.inspecting.projection import projection
    from forebear.inspecting.senses import senses
    from forebear.using.calling import adapt, import_run, load, pretrain, rerun, resume
    from forebear.using.distilling import distil
    from forebear.using.explaining import explain
    from forebear.using.listing import runs
    from forebear.using.mixing import mixed
    from forebear.using.quantising import quantise
    from forebear.using.run import Run

__version__ = "0.1.0"
__all__ = [
    "Run",
    "adapt",
    "attention",
    "compare",
    "distil",
    "explain",
    "gradients",
    "import_run",
    "layers",
    "lens",
    "load",
    "mixed",
    "norms",
    "positions",
    "pretrain",
    "projection",
    "quantise",
    "rerun",
    "resume",
    "runs",
    "senses",
    "why",
]

# Threads of torch wait for each other by spinning, for very many turns. Where another program wants the same cores,
# they wait for one that is not running: many times slower. Few turns cost nothing where nobody disturbs.
os.environ.setdefault("GOMP_SPINCOUNT", "2000")

guard_first_imports()

_PLACES = {
    "Run": "forebear.using.run",
    "attention": "forebear.inspecting.maps",
    "compare": "forebear.comparing.comparing",
    "distil": "forebear.using.distilling",
    "explain": "forebear.using.explaining",
    "gradients": "forebear.inspecting.distance",
    "layers": "forebear.inspecting.layer_weights",
    "lens": "forebear.inspecting.lens",
    "mixed": "forebear.using.mixing",
    "norms": "forebear.inspecting.norms",
    "positions": "forebear.inspecting.positions",
    "projection": "forebear.inspecting.projection",
    "quantise": "forebear.using.quantising",
    "runs": "forebear.using.listing",
    "senses": "forebear.inspecting.senses",
    "why": "forebear.inspecting.attributing",
    **dict.fromkeys(("adapt", "import_run", "load", "pretrain", "rerun", "resume"), "forebear.using.calling"),
}


def __getattr__(name: str) -> "Any":
    if name not in _PLACES:
        raise AttributeError(f"module 'forebear' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
