"""Telling the processor which row of a table will be wanted soon, so that it is there when it is."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def fetch(typing: Any, table: Any, row: Any, column: Any) -> Any:
    """Asks for the line that holds table[row, column]; nothing waits for it, and nothing changes by it."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = signature.args[0]
        array = context.make_array(kind)(context, builder, values[0])
        place = cgutils.get_item_pointer(context, builder, kind, array, list(values[1:]), wraparound=False)
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        form = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, form, "llvm.prefetch.p0i8")
        how = [ir.Constant(number, flag) for flag in (1, 3, 1)]  # to be written, to be kept near, no instructions
        builder.call(function, [builder.bitcast(place, byte), *how])
        return context.get_dummy_value()

    return types.void(table, types.intp, types.intp), build
