"""Processor intrinsics for kernels: prefetching, unaligned loads, bit casts and bit counts."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

PREFETCH_DISTANCE = 16  # steps ahead of which memory is asked for: it takes about as long to come


def _prefetch(typing: Any, array: Any, number: Any) -> Any:
    """Prefetch the memory at this index of an array, which may be out of bounds."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        array_struct = context.make_array(signature.args[0])(context, builder, values[0])
        byte = ir.IntType(8).as_pointer()
        index, small = builder.bitcast(builder.gep(array_struct.data, [values[1]]), byte), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, small, small, small])
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(ask, [index, small(0), small(3), small(1)])
        return context.get_dummy_value()

    return types.void(array, number), build


def _bits_as_float(typing: Any, bits: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.bitcast(values[0], ir.FloatType())

    return types.float32(types.uint32), build


def _float_as_bits(typing: Any, number: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.bitcast(values[0], ir.IntType(32))

    return types.uint32(types.float32), build


def _load_eight_bytes(typing: Any, array: Any, index: Any) -> Any:
    """Eight bytes of a byte array from this index on as one little-endian integer."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        array_struct = context.make_array(signature.args[0])(context, builder, values[0])
        at = builder.bitcast(builder.gep(array_struct.data, [values[1]]), ir.IntType(64).as_pointer())
        return builder.load(at, align=1)

    return types.uint64(array, index), build


def _count_trailing_zeros(typing: Any, bits: Any) -> Any:
    """Number of zero bits below the lowest set bit; 64 if there is none."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.cttz(values[0], ir.IntType(1)(0))

    return types.uint64(types.uint64), build


prefetch: Any = intrinsic(_prefetch)
load_eight_bytes: Any = intrinsic(_load_eight_bytes)
count_trailing_zeros: Any = intrinsic(_count_trailing_zeros)
bits_as_float: Any = intrinsic(_bits_as_float)
as_bits: Any = intrinsic(_float_as_bits)
