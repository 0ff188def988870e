"""Threads inside compiled loops that wait for each other, without going back to Python in between."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

from forebear.kernels.compiling import inlined

intrinsic: Any = extending.intrinsic
OPEN = 1 << 62  # a gate at which nobody waits
PATIENCE = 2000  # looks before the processor is left to others: with more threads than cores they would wait for us


@intrinsic
def _arrive(typing: Any, gate: Any) -> Any:
    """gate[0] += 1, whoever else does the same; what was written before is seen by all who look later."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, values[0]).data
        one = ir.Constant(ir.IntType(64), 1)
        return builder.atomic_rmw("add", data, one, "seq_cst")

    return types.int64(gate), build


@intrinsic
def _arrived(typing: Any, gate: Any) -> Any:
    """gate[0] as it is now."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, values[0]).data
        return builder.load_atomic(data, "seq_cst", 8)

    return types.int64(gate), build


@intrinsic
def _let_others(typing: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(32), [])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(), build


@inlined
def wait(gate, threads, times):
    """Returns when all threads came here so many times; gate is an int64 array that begins with 0."""
    _arrive(gate)
    looks = 0
    while _arrived(gate) < threads * times:
        looks += 1
        if looks > PATIENCE:
            _let_others()
