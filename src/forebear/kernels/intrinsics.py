"""Processor intrinsics for kernels: prefetching, unaligned loads, bit casts and bit counts."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

PREFETCH_DISTANCE = 16  # steps between a prefetch and the use of the data, about the latency of memory


def emit_prefetch(builder: Any, pointer: Any, locality: int) -> None:
    """Prefetch data to be read, into the first (locality 3) or second (2) level cache."""
    byte_pointer, int32 = ir.IntType(8).as_pointer(), ir.IntType(32)
    signature = ir.FunctionType(ir.VoidType(), [byte_pointer, int32, int32, int32])
    function = cgutils.get_or_insert_function(builder.module, signature, "llvm.prefetch.p0")
    builder.call(function, [builder.bitcast(pointer, byte_pointer), int32(0), int32(locality), int32(1)])


def _element_pointer(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    """Pointer to an element of an array; the arguments are an array and an index."""
    return builder.gep(context.make_array(signature.args[0])(context, builder, values[0]).data, [values[1]])


def _prefetch(typing: Any, array: Any, index: Any) -> Any:
    """Prefetch the memory at this index of an array, which may be out of bounds."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        emit_prefetch(builder, _element_pointer(context, builder, signature, values), locality=3)
        return context.get_dummy_value()

    return types.void(array, index), build


def _bits_as_float(typing: Any, bits: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.bitcast(values[0], ir.FloatType())

    return types.float32(types.uint32), build


def _float_as_bits(typing: Any, value: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.bitcast(values[0], ir.IntType(32))

    return types.uint32(types.float32), build


def _load_eight_bytes(typing: Any, array: Any, index: Any) -> Any:
    """Eight bytes of a byte array from this index on as one little-endian integer."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = _element_pointer(context, builder, signature, values)
        return builder.load(builder.bitcast(pointer, ir.IntType(64).as_pointer()), align=1)

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
