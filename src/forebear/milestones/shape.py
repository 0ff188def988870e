"""Of what numbers a milestone can be made: checked before anything is built, with the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from forebear.errors import BadInput
from forebear.text.blueprint import NAMES

if TYPE_CHECKING:
    from forebear.milestones.bert import Bert
    from forebear.milestones.gpt import Gpt
    from forebear.milestones.milestone import Milestone
    from forebear.milestones.transformer import Transformer
    from forebear.text.tokenizer import Tokenizer

ACTIVATIONS = ("gelu", "gelu-tanh", "relu")


def check(milestone: Bert | Gpt | Transformer) -> None:
    """An error where the numbers of a milestone make no Transformer."""
    values = {"width": milestone.width, "depth": milestone.depth, "heads": milestone.heads}
    values |= {"context": milestone.context, "epsilon": milestone.epsilon}
    for name, value in values.items():
        if not value > 0:
            raise BadInput(f"{name} is {value}", remedy="give a number above 0")
    if not 0 <= milestone.dropout < 1 or milestone.inner < 0:
        what = f"dropout {milestone.dropout}, inner {milestone.inner}"
        raise BadInput(what, remedy="give a dropout from 0 to below 1")
    if milestone.width % milestone.heads:
        remedy = f"choose heads that divide it, such as {max(1, milestone.width // 64)}"
        raise BadInput(f"a width of {milestone.width} cannot be shared by {milestone.heads} heads", remedy=remedy)


def within(milestone: Milestone, **borders: tuple[float, float | None]) -> None:
    """An error where a field is below the first of its borders, or above the second, if there is one."""
    for name, (least, most) in borders.items():
        if not least <= (value := getattr(milestone, name)) <= (float("inf") if most is None else most):
            remedy = f"give {least} or more" if most is None else f"give a number from {least} to {most}"
            raise BadInput(f"{name} is {value}", remedy=remedy)


def one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    """An error where a word is none of those that mean something."""
    if value not in known:
        raise BadInput(f"{name} is {value!r}", remedy=f"there are: {', '.join(known)}")


def roles(tokenizer: Tokenizer, needed: Sequence[str]) -> tuple[int, ...]:
    """The ids of special tokens for these roles; an error where the vocabulary lacks one."""
    for role in needed:
        if role not in tokenizer.roles:
            raise BadInput(
                f"the vocabulary has no token for the role {role!r}, such as {NAMES[role][0]}",
                remedy="have a tokenizer learned (--tokenizer wordpiece), or choose a vocabulary made for BERT",
            )
    return tuple(tokenizer.roles[role] for role in needed)
