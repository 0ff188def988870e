"""Vectors of the processor, written down once: what compiled loops over rows are built from.

Numba turns a loop into such instructions where it can, but keeps no dozen of sums in registers across two loops. Here
they are told to LLVM directly, in vectors of any processor; where it has narrower ones, LLVM takes several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target

FLOAT, INT = ir.FloatType(), ir.IntType(32)
WIDE = 16  # numbers in a vector of sums: fixed, since it decides the order in which a product is summed
# 32 registers of 16 numbers each; or else 16 of 8, or fewer
_TARGET: Any = cpu_target.target_context
MANY_REGISTERS = "+avx512f" in str(_TARGET.codegen().magic_tuple())
LOG2_E = 1.4426950408889634
FARTHEST = 60.0  # 2 to this power and beyond is as good as infinite beside 1
# 2^x between -1/2 and 1/2, the highest power first: wrong by less than what single precision can tell.
POWERS = (1.5403530e-4, 1.3333558e-3, 9.6181291e-3, 5.5504109e-2, 2.4022651e-1, 6.9314718e-1, 1.0)
ROUNDING = 12582912.0  # 1.5 · 2^23: added to a small number, it leaves the whole part in the lowest bits


class Lanes:
    """Instructions on vectors of so many numbers, put where the builder stands."""

    def __init__(self, context: Any, builder: Any, lanes: int = WIDE) -> None:
        self.context, self.builder, self.lanes = context, builder, lanes
        self.size = context.get_value_type(types.intp)
        self.vector, self.whole = ir.VectorType(FLOAT, lanes), ir.VectorType(INT, lanes)

    # -- arrays

    def number(self, value: int) -> Any:
        return ir.Constant(self.size, value)

    def array(self, kind: Any, value: Any) -> Any:
        return self.context.make_array(kind)(self.context, self.builder, value)

    def width(self, kind: Any, value: Any) -> Any:
        """The length of its rows."""
        return self.builder.extract_value(self.array(kind, value).shape, kind.ndim - 1)

    def place(self, start: Any, offset: Any) -> Any:
        return self.builder.gep(start, [offset])

    def row(self, table: Any, width: Any, ids: Any, which: Any) -> Any:
        """Where the row begins whose number stands in `ids`."""
        number = self.builder.sext(self.builder.load(self.place(ids, which)), self.size)
        return self.place(table, self.builder.mul(number, width))

    def loaded(self, start: Any, offset: Any) -> Any:
        place = self.builder.bitcast(self.place(start, offset), self.vector.as_pointer())
        return self.builder.load(place, align=4)

    def stored(self, value: Any, start: Any, offset: Any) -> None:
        place = self.builder.bitcast(self.place(start, offset), self.vector.as_pointer())
        self.builder.store(value, place, align=4)

    def steps(self, first: Any, last: Any, step: int) -> Any:
        """A loop over first, first + step, … below last."""
        return cgutils.for_range_slice(self.builder, first, last, self.number(step), self.size)

    def abreast(self, first: Any, last: Any, many: int, body: Callable[[list[Any]], None]) -> None:
        """The body for all columns between two, in steps of so many vectors at once, and then of what is left."""
        build, step = self.builder, many * self.lanes
        rest = build.srem(build.sub(last, first), self.number(step))
        end = build.sub(last, rest)
        with self.steps(first, end, step) as (column, _):
            body([build.add(column, self.number(one * self.lanes)) for one in range(many)])
        for left in range(1, many):
            with build.if_then(build.icmp_signed("==", rest, self.number(left * self.lanes))):
                body([build.add(end, self.number(one * self.lanes)) for one in range(left)])

    # -- vectors

    def constant(self, value: float) -> Any:
        return ir.Constant(self.vector, [value] * self.lanes)

    def spread(self, number: Any) -> Any:
        """A vector of one number, again and again."""
        empty = ir.Constant(self.vector, ir.Undefined)
        first = self.builder.insert_element(empty, number, ir.Constant(INT, 0))
        return self.builder.shuffle_vector(first, empty, ir.Constant(self.whole, [0] * self.lanes))

    def variable(self) -> Any:
        """A vector of zeros that changes in loops; LLVM keeps it in a register."""
        slot = cgutils.alloca_once(self.builder, self.vector)
        self.builder.store(self.constant(0.0), slot)
        return slot

    def fused(self, one: Any, other: Any, more: Any) -> Any:
        """one · other + more, rounded once where the processor can."""
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        function = cgutils.get_or_insert_function(self.builder.module, kind, f"llvm.fmuladd.v{self.lanes}f32")
        return self.builder.call(function, [one, other, more])

    def grow(self, slot: Any, one: Any, other: Any) -> None:
        self.builder.store(self.fused(one, other, self.builder.load(slot)), slot)

    def sums(self, vectors: Sequence[Any]) -> Any:
        """One vector of the sums of so many vectors: halves are added pair by pair, until each is one number."""
        made = [*vectors, *[self.constant(0.0)] * (self.lanes - len(vectors))]
        made = [made[place] for place in _owners(self.lanes)]
        block = self.lanes
        while len(made) > 1:
            low, high = _halves(self.lanes, block)
            pairs = zip(made[: len(made) // 2], made[len(made) // 2 :], strict=True)
            made, block = [self._folded(one, other, low, high) for one, other in pairs], block // 2
        return made[0]

    def _folded(self, one: Any, other: Any, low: list[int], high: list[int]) -> Any:
        parts = [
            self.builder.shuffle_vector(one, other, ir.Constant(self.whole, half + [self.lanes + at for at in half]))
            for half in (low, high)
        ]
        return self.builder.fadd(*parts)

    def likely(self, x: Any) -> Any:
        """1 / (1 + e^-x), to the last few bits; what is no number stays none."""
        build = self.builder
        power = build.fmul(x, self.constant(-LOG2_E))
        for sign, end in ((">", FARTHEST), ("<", -FARTHEST)):
            power = build.select(build.fcmp_ordered(sign, power, self.constant(end)), self.constant(end), power)
        shifted = build.fadd(power, self.constant(ROUNDING))
        rest = build.fsub(power, build.fsub(shifted, self.constant(ROUNDING)))
        grown = self.constant(POWERS[0])
        for factor in POWERS[1:]:
            grown = self.fused(grown, rest, self.constant(factor))
        exponent = build.shl(build.bitcast(shifted, self.whole), ir.Constant(self.whole, [23] * self.lanes))
        grown = build.bitcast(build.add(build.bitcast(grown, self.whole), exponent), self.vector)
        return build.fdiv(self.constant(1.0), build.fadd(self.constant(1.0), grown))


def _halves(lanes: int, block: int) -> tuple[list[int], list[int]]:
    """Places of the first and of the second half of each block."""
    starts, half = range(0, lanes, block), block // 2
    low = [start + at for start in starts for at in range(half)]
    return low, [place + half for place in low]


def _owners(lanes: int) -> list[int]:
    """Which vector to give in each place so that the sum of the first comes first, and so on."""
    made, block = [[number] * lanes for number in range(lanes)], lanes
    while len(made) > 1:
        low, _ = _halves(lanes, block)
        half = len(made) // 2
        made = [[made[one][at] for at in low] + [made[one + half][at] for at in low] for one in range(half)]
        block //= 2
    return [made[0].index(number) for number in range(lanes)]
