"""What loops tell the processor directly: which memory they will want soon, and what bits are to be taken for."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

PREFETCH_DISTANCE = 16  # steps ahead of which memory is asked for: it takes about as long to come


def _asked_of_memory(typing: Any, array: Any, number: Any) -> Any:
    """Asks memory for what stands at this number of an array, without waiting for it, even beyond its end."""

    def told(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        where = context.make_array(signature.args[0])(context, builder, given[0])
        byte = ir.IntType(8).as_pointer()
        place, small = builder.bitcast(builder.gep(where.data, [given[1]]), byte), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, small, small, small])
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(ask, [place, small(0), small(3), small(1)])
        return context.get_dummy_value()

    return types.void(array, number), told


def _taken_as_float(typing: Any, bits: Any) -> Any:
    def told(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.bitcast(given[0], ir.FloatType())

    return types.float32(types.uint32), told


def _taken_as_bits(typing: Any, number: Any) -> Any:
    def told(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.bitcast(given[0], ir.IntType(32))

    return types.uint32(types.float32), told


def _eight_bytes(typing: Any, array: Any, place: Any) -> Any:
    """The eight bytes of an array of them that begin at this place, as one number; the first are its lowest bits."""

    def told(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        where = context.make_array(signature.args[0])(context, builder, given[0])
        at = builder.bitcast(builder.gep(where.data, [given[1]]), ir.IntType(64).as_pointer())
        return builder.load(at, align=1)

    return types.uint64(array, place), told


def _zeros_below(typing: Any, bits: Any) -> Any:
    """How many zeros stand below the lowest one; 64 where there is none."""

    def told(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.cttz(given[0], ir.IntType(1)(0))

    return types.uint64(types.uint64), told


prefetch: Any = intrinsic(_asked_of_memory)
load_eight_bytes: Any = intrinsic(_eight_bytes)
count_trailing_zeros: Any = intrinsic(_zeros_below)
bits_as_float: Any = intrinsic(_taken_as_float)
as_bits: Any = intrinsic(_taken_as_bits)
