"""torch's compiler, for those who ask for it: it has gained nothing on the processors where it was measured."""

from __future__ import annotations

import os

import torch

from forebear.errors import BadInput, ForebearError
from forebear.networks.model import Model
from forebear.networks.transformer import Block, Transformer


def compile_blocks(model: Model) -> None:
    """Has the feed-forward layers of a Transformer compiled, for any number of rows, and tries them once.

    Attention stays as it is: it is called for runs of rows of equal length, and every other batch would have to be
    compiled anew.
    """
    os.environ.setdefault("PYTHONSAFEPATH", "1")  # torch's compile workers must not import from the working folder
    encoder = model.encoder
    if not isinstance(encoder, Transformer):
        raise BadInput("only a Transformer's blocks can be compiled", remedy="leave --compile out")
    try:
        for block in encoder.blocks:
            assert isinstance(block, Block)
            block.feedforward = torch.compile(block.feedforward, dynamic=True)
            with torch.inference_mode():
                block.feedforward(torch.zeros(16, encoder.width, device=model.device))
    except Exception as error:  # whatever compilers and their drivers raise
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        remedy = "leave --compile out, or install a C++ compiler (g++) and Python's headers"
        raise ForebearError(f"torch cannot compile the network here: {reason}", remedy=remedy) from error
