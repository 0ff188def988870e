"""SIMD operations of word2vec and GloVe in LLVM IR: sums, products and updates of a few table rows at a time.

Tables are (rows, width) float32 with a width that is a multiple of CACHE_LINE, as `aligned_table` makes them. Rows are
given by an int32 array from an offset on, one of which may be skipped: row i is ids[begin + i], and from i = skip on
ids[begin + i + 1]. A block has as many targets as the tuple `block_size` is long, so that its size is known at compile
time. The tests have each operation as a line of numpy.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils
from numba.core.registry import cpu_target

from forebear.kernels.intrinsics import emit_prefetch
from forebear.kernels.vector_tables import CACHE_LINE

# --- Vector instructions ---
# Numba vectorizes simple loops, but does not keep a dozen sums in registers across two loops. Here the instructions are
# emitted as LLVM IR; where the processor's vectors are narrower, LLVM uses several.

FLOAT, INT = ir.FloatType(), ir.IntType(32)
SUM_LANES = 16  # numbers in a vector of sums: fixed, since it decides the order in which a product is summed
# With AVX-512 there are 32 registers of 16 numbers; without, 16 registers of at most 8.
_TARGET: Any = cpu_target.target_context
HAS_AVX512 = "+avx512f" in str(_TARGET.codegen().magic_tuple())
LOG2_E = 1.4426950408889634
MAX_POWER = 60.0  # exponents are clipped: 1 is negligible relative to 2^60
# Polynomial of 2^x for |x| ≤ 1/2, the highest power first, exact to single precision.
EXP2_COEFFICIENTS = (1.5403530e-4, 1.3333558e-3, 9.6181291e-3, 5.5504109e-2, 2.4022651e-1, 6.9314718e-1, 1.0)
ROUNDING_MAGIC = 12582912.0  # 1.5 · 2^23: adding it rounds to an integer, held in the lowest bits


class SimdBuilder:
    """Emits LLVM instructions on vectors of `lanes` numbers."""

    def __init__(self, context: Any, builder: Any, lanes: int = SUM_LANES) -> None:
        self.context, self.builder, self.lanes = context, builder, lanes
        self.size_type = context.get_value_type(types.intp)
        self.vector, self.int_vector = ir.VectorType(FLOAT, lanes), ir.VectorType(INT, lanes)

    # -- arrays

    def number(self, value: int) -> Any:
        return ir.Constant(self.size_type, value)

    def array(self, kind: Any, value: Any) -> Any:
        return self.context.make_array(kind)(self.context, self.builder, value)

    def width(self, kind: Any, value: Any) -> Any:
        """The length of the rows of an array."""
        return self.builder.extract_value(self.array(kind, value).shape, kind.ndim - 1)

    def argument(self, kind: Any, value: Any) -> Any:
        """An argument of a kernel: arrays as data pointers, tuples as their length."""
        if isinstance(kind, types.Array):
            return self.array(kind, value).data
        return len(kind) if isinstance(kind, types.BaseTuple) else value

    def element_pointer(self, start: Any, offset: Any) -> Any:
        return self.builder.gep(start, [offset])

    def row_pointer(self, table: Any, width: Any, ids: Any, index: Any) -> Any:
        """Pointer to the row whose index is ids[index]."""
        row = self.builder.sext(self.builder.load(self.element_pointer(ids, index)), self.size_type)
        return self.element_pointer(table, self.builder.mul(row, width))

    def load(self, start: Any, offset: Any) -> Any:
        pointer = self.builder.bitcast(self.element_pointer(start, offset), self.vector.as_pointer())
        return self.builder.load(pointer, align=4)

    def store(self, value: Any, start: Any, offset: Any) -> None:
        pointer = self.builder.bitcast(self.element_pointer(start, offset), self.vector.as_pointer())
        self.builder.store(value, pointer, align=4)

    def step_loop(self, first: Any, last: Any, step: int) -> Any:
        """A loop over first, first + step, … below last."""
        return cgutils.for_range_slice(self.builder, first, last, self.number(step), self.size_type)

    def column_loop(self, first: Any, last: Any, num_vectors: int, body: Callable[[list[Any]], None]) -> None:
        """Loop over columns, `num_vectors` vectors at a time, then over the remainder."""
        build, step = self.builder, num_vectors * self.lanes
        rest = build.srem(build.sub(last, first), self.number(step))
        end = build.sub(last, rest)
        with self.step_loop(first, end, step) as (column, _):
            body([build.add(column, self.number(i * self.lanes)) for i in range(num_vectors)])
        for remaining in range(1, num_vectors):
            with build.if_then(build.icmp_signed("==", rest, self.number(remaining * self.lanes))):
                body([build.add(end, self.number(i * self.lanes)) for i in range(remaining)])

    # -- vectors

    def constant(self, value: float) -> Any:
        return ir.Constant(self.vector, [value] * self.lanes)

    def broadcast(self, number: Any) -> Any:
        """A vector with the same number in all lanes."""
        empty = ir.Constant(self.vector, ir.Undefined)
        first = self.builder.insert_element(empty, number, ir.Constant(INT, 0))
        return self.builder.shuffle_vector(first, empty, ir.Constant(self.int_vector, [0] * self.lanes))

    def variable(self) -> Any:
        """A vector variable, initially zero; LLVM keeps it in a register."""
        slot = cgutils.alloca_once(self.builder, self.vector)
        self.builder.store(self.constant(0.0), slot)
        return slot

    def fused_multiply_add(self, factor: Any, other_factor: Any, summand: Any) -> Any:
        """factor · other_factor + summand, rounded once where the processor can."""
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        function = cgutils.get_or_insert_function(self.builder.module, kind, f"llvm.fmuladd.v{self.lanes}f32")
        return self.builder.call(function, [factor, other_factor, summand])

    def accumulate_product(self, slot: Any, factor: Any, other_factor: Any) -> None:
        self.builder.store(self.fused_multiply_add(factor, other_factor, self.builder.load(slot)), slot)

    def horizontal_sums(self, vectors: Sequence[Any]) -> Any:
        """One vector of the sums of several vectors, by pairwise folding."""
        sums = [*vectors, *[self.constant(0.0)] * (self.lanes - len(vectors))]
        sums = [sums[index] for index in _input_order(self.lanes)]
        block = self.lanes
        while len(sums) > 1:
            low, high = _block_halves(self.lanes, block)
            pairs = zip(sums[: len(sums) // 2], sums[len(sums) // 2 :], strict=True)
            sums, block = [self._fold_pair(x, y, low, high) for x, y in pairs], block // 2
        return sums[0]

    def _fold_pair(self, x: Any, y: Any, low: list[int], high: list[int]) -> Any:
        masks = (ir.Constant(self.int_vector, half + [self.lanes + lane for lane in half]) for half in (low, high))
        return self.builder.fadd(*(self.builder.shuffle_vector(x, y, mask) for mask in masks))

    def sigmoid(self, x: Any) -> Any:
        """1 / (1 + e^-x), accurate to the last few bits; NaN stays NaN."""
        build = self.builder
        power = build.fmul(x, self.constant(-LOG2_E))
        for sign, end in ((">", MAX_POWER), ("<", -MAX_POWER)):
            power = build.select(build.fcmp_ordered(sign, power, self.constant(end)), self.constant(end), power)
        shifted = build.fadd(power, self.constant(ROUNDING_MAGIC))
        rest = build.fsub(power, build.fsub(shifted, self.constant(ROUNDING_MAGIC)))
        power_of_two = self.constant(EXP2_COEFFICIENTS[0])
        for factor in EXP2_COEFFICIENTS[1:]:
            power_of_two = self.fused_multiply_add(power_of_two, rest, self.constant(factor))
        exponent = build.shl(build.bitcast(shifted, self.int_vector), ir.Constant(self.int_vector, [23] * self.lanes))
        power_of_two = build.bitcast(build.add(build.bitcast(power_of_two, self.int_vector), exponent), self.vector)
        return build.fdiv(self.constant(1.0), build.fadd(self.constant(1.0), power_of_two))


def _block_halves(lanes: int, block: int) -> tuple[list[int], list[int]]:
    """Lane numbers of the first and of the second half of each block."""
    starts, half = range(0, lanes, block), block // 2
    low = [start + lane for start in starts for lane in range(half)]
    return low, [lane + half for lane in low]


def _input_order(lanes: int) -> list[int]:
    """The order of inputs for which the folded sums come out in order."""
    origins, block = [[number] * lanes for number in range(lanes)], lanes
    while len(origins) > 1:
        low, _ = _block_halves(lanes, block)
        half = len(origins) // 2
        origins = [[origins[i][lane] for lane in low] + [origins[i + half][lane] for lane in low] for i in range(half)]
        block //= 2
    return [origins[0].index(number) for number in range(lanes)]


MAX_BLOCK_TARGETS = 6  # the longest block, so that its sums stay in registers
ROWS_AT_ONCE = (4, 2, 1) if HAS_AVX512 else (1,)  # rows whose products with a block are summed at once
UPDATE_VECTORS = 2 if HAS_AVX512 else 1  # vectors of columns updated at once
ADD_VECTORS = 8  # vectors of columns that are only added up, or what is left of them: few long loops
ELEMENTWISE_LANES = SUM_LANES if HAS_AVX512 else SUM_LANES // 2  # numbers in a vector where nothing is summed across


def _intrinsic(num_lanes: int = SUM_LANES) -> Callable[[Callable[..., None]], Any]:
    """Make an operation callable from kernels, given a function that emits its instructions.

    The function receives a builder and the row length of the first argument, then the arguments by name: arrays as data
    pointers, tuples as their length.
    """

    def decorate(emit: Callable[..., None]) -> Any:
        _, _, *parameters = inspect.signature(emit).parameters.values()

        def define(typing: Any, *kinds: Any) -> Any:
            def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
                lanes = SimdBuilder(context, builder, num_lanes)
                emit(lanes, lanes.width(kinds[0], values[0]), *map(lanes.argument, kinds, values))
                return context.get_dummy_value()

            return types.void(*map(_argument_type, kinds)), build

        functools.update_wrapper(define, emit)
        typing_context = inspect.Parameter("typing", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        define.__dict__["__signature__"] = inspect.Signature([typing_context, *parameters])
        return extending.intrinsic(define)

    return decorate


def _argument_type(kind: Any) -> Any:
    """The type that a value is converted to: numbers of any width and literals share one compiled operation."""
    if isinstance(kind, types.Boolean):
        return types.boolean
    return types.intp if isinstance(kind, types.Integer) else kind


def _row_pointer(lanes: SimdBuilder, width: Any, table: Any, ids: Any, begin: Any, skip: Any, index: Any) -> Any:
    """Pointer to row i of a table."""
    build = lanes.builder
    after_skip = build.zext(build.icmp_signed(">=", index, skip), lanes.size_type)
    return lanes.row_pointer(table, width, ids, build.add(begin, build.add(index, after_skip)))


def _target_pointers(lanes: SimdBuilder, width: Any, outputs: Any, targets: Any, block: Any, count: int) -> list[Any]:
    """Pointers to the rows of a block of targets."""
    positions = [lanes.builder.add(block, lanes.number(i)) for i in range(count)]
    return [lanes.row_pointer(outputs, width, targets, position) for position in positions]


@_intrinsic()
def prefetch_row(lanes: SimdBuilder, width: Any, rows: Any, number: Any, first: Any, last: Any) -> None:
    """Prefetch a range of columns of a row, into the second-level cache: the first takes too few requests at a time."""
    start = lanes.element_pointer(rows, lanes.builder.mul(number, width))
    with lanes.step_loop(first, last, CACHE_LINE) as (column, _):
        emit_prefetch(lanes.builder, lanes.element_pointer(start, column), locality=2)


@_intrinsic(ELEMENTWISE_LANES)
def average_rows(
    lanes: SimdBuilder, width: Any,
    rows: Any, ids: Any, begin: Any, skip: Any, count: Any, out: Any, out_row: Any, first: Any, last: Any,
) -> None:  # fmt: skip
    """out[out_row, first:last] = the mean of `count` rows."""
    build = lanes.builder
    out = lanes.element_pointer(out, build.mul(out_row, width))
    scale = lanes.broadcast(build.fdiv(ir.Constant(FLOAT, 1.0), build.sitofp(count, FLOAT)))

    def mean(columns: list[Any]) -> None:
        totals = [lanes.variable() for _ in columns]
        with lanes.step_loop(lanes.number(0), count, 1) as (which, _):
            start = _row_pointer(lanes, width, rows, ids, begin, skip, which)
            for total, column in zip(totals, columns, strict=True):
                build.store(build.fadd(build.load(total), lanes.load(start, column)), total)
        for total, column in zip(totals, columns, strict=True):
            lanes.store(build.fmul(build.load(total), scale), out, column)

    lanes.column_loop(first, last, ADD_VECTORS, mean)


@_intrinsic(ELEMENTWISE_LANES)
def add_to_rows(
    lanes: SimdBuilder, width: Any,
    rows: Any, ids: Any, begin: Any, skip: Any, count: Any, updates: Any, update_row: Any, first: Any, last: Any,
) -> None:  # fmt: skip
    """Add updates[update_row] to each of `count` rows, one after the other, in columns first to last."""
    updates = lanes.element_pointer(updates, lanes.builder.mul(update_row, width))

    def add(columns: list[Any]) -> None:
        vectors = [lanes.load(updates, column) for column in columns]
        with lanes.step_loop(lanes.number(0), count, 1) as (which, _):
            start = _row_pointer(lanes, width, rows, ids, begin, skip, which)
            for update, column in zip(vectors, columns, strict=True):
                lanes.store(lanes.builder.fadd(lanes.load(start, column), update), start, column)

    lanes.column_loop(first, last, ADD_VECTORS, add)


@_intrinsic()
def score_rows(
    lanes: SimdBuilder, width: Any,
    rows: Any, ids: Any, begin: Any, skip: Any, count: Any, outputs: Any, targets: Any, block: Any,
    scores: Any, score_offset: Any, block_size: int,
) -> None:  # fmt: skip
    """scores[score_offset + i · block_size + j] = row i · outputs[targets[block + j]], for i below count.

    Up to SUM_LANES numbers after the last are overwritten.
    """
    build = lanes.builder
    target_pointers = _target_pointers(lanes, width, outputs, targets, block, block_size)
    scores = lanes.element_pointer(scores, score_offset)

    def products(first: Any, rows_at_once: int) -> None:
        indices = [build.add(first, lanes.number(i)) for i in range(rows_at_once)]
        starts = [_row_pointer(lanes, width, rows, ids, begin, skip, index) for index in indices]
        totals = [[lanes.variable() for _ in target_pointers] for _ in starts]
        with lanes.step_loop(lanes.number(0), width, SUM_LANES) as (column, _):
            row_vectors = [lanes.load(start, column) for start in starts]
            for target, pointer in enumerate(target_pointers):
                target_vector = lanes.load(pointer, column)
                for row_vector, row_totals in zip(row_vectors, totals, strict=True):
                    lanes.accumulate_product(row_totals[target], row_vector, target_vector)
        sums = [build.load(total) for row_totals in totals for total in row_totals]
        for start in range(0, len(sums), SUM_LANES):
            offset = build.add(build.mul(first, lanes.number(block_size)), lanes.number(start))
            lanes.store(lanes.horizontal_sums(sums[start : start + SUM_LANES]), scores, offset)

    num_done = lanes.number(0)
    for rows_at_once in ROWS_AT_ONCE:
        end = build.sub(count, build.srem(build.sub(count, num_done), lanes.number(rows_at_once)))
        with lanes.step_loop(num_done, end, rows_at_once) as (first, _):
            products(first, rows_at_once)
        num_done = end


@_intrinsic()
def sigmoid_gradients(
    lanes: SimdBuilder, width: Any, scores: Any, score_offset: Any, signs: Any, sign: Any, count: Any, rate: Any
) -> None:
    """In place from scores[score_offset] on: rate · s / (1 + e^(s · score)), the gradient, for s = signs[sign], …

    `count` numbers, rounded up to SUM_LANES.
    """
    build, rate = lanes.builder, lanes.broadcast(rate)
    scores, signs = lanes.element_pointer(scores, score_offset), lanes.element_pointer(signs, sign)
    with lanes.step_loop(lanes.number(0), count, SUM_LANES) as (offset, _):
        sign = lanes.load(signs, offset)
        unlikely = lanes.sigmoid(build.fneg(build.fmul(sign, lanes.load(scores, offset))))
        lanes.store(build.fmul(build.fmul(rate, sign), unlikely), scores, offset)


@_intrinsic()
def repeat_signs(
    lanes: SimdBuilder,
    width: Any,
    tile: Any,
    tile_offset: Any,
    signs: Any,
    sign_offset: Any,
    count: Any,
    block_size: int,
) -> None:
    """From tile[tile_offset] on, `count` times block_size signs; up to SUM_LANES numbers after them are overwritten."""
    build, starts = lanes.builder, range(0, block_size, SUM_LANES)
    tile = lanes.element_pointer(tile, tile_offset)
    # all loads precede the stores
    vectors = [lanes.load(signs, build.add(sign_offset, lanes.number(start))) for start in starts]
    with lanes.step_loop(lanes.number(0), count, 1) as (which, _):
        for start, vector in zip(starts, vectors, strict=True):
            offset = build.add(build.mul(which, lanes.number(block_size)), lanes.number(start))
            lanes.store(vector, tile, offset)


@_intrinsic(ELEMENTWISE_LANES)
def update_rows(
    lanes: SimdBuilder, width: Any,
    rows: Any, ids: Any, begin: Any, skip: Any, count: Any, outputs: Any, targets: Any, block: Any,
    gradients: Any, gradient_offset: Any, block_size: int, updated: Any, is_fresh: Any, first: Any, last: Any,
) -> None:  # fmt: skip
    """Between two columns, with gradients g[i, j] = gradients[gradient_offset + i · block_size + j]:

    outputs[targets[block + j]] += Σ_i g[i, j] · row i,
    row i of updated += Σ_j g[i, j] · outputs[targets[block + j]], with outputs as they were before; if is_fresh, the
    row of updated counts as 0.
    """
    build = lanes.builder
    target_pointers = _target_pointers(lanes, width, outputs, targets, block, block_size)

    def update(columns: list[Any]) -> None:
        previous_targets = [[lanes.load(pointer, column) for column in columns] for pointer in target_pointers]
        totals = [[lanes.variable() for _ in columns] for _ in target_pointers]
        with lanes.step_loop(lanes.number(0), count, 1) as (which, _):
            source, destination = (
                _row_pointer(lanes, width, table, ids, begin, skip, which) for table in (rows, updated)
            )
            row_vectors = [lanes.load(source, column) for column in columns]
            sums = [lanes.load(destination, column) for column in columns]
            sums = [build.select(is_fresh, lanes.constant(0.0), vector) for vector in sums]
            row_gradients = lanes.element_pointer(
                gradients, build.add(gradient_offset, build.mul(which, lanes.number(block_size)))
            )
            for target in range(block_size):
                gradient = lanes.broadcast(build.load(lanes.element_pointer(row_gradients, lanes.number(target))))
                for i in range(len(columns)):
                    lanes.accumulate_product(totals[target][i], gradient, row_vectors[i])
                    sums[i] = lanes.fused_multiply_add(gradient, previous_targets[target][i], sums[i])
            for vector, column in zip(sums, columns, strict=True):
                lanes.store(vector, destination, column)
        for pointer, target_totals in zip(
            target_pointers, totals, strict=True
        ):  # reloaded: targets may repeat in a block
            for total, column in zip(target_totals, columns, strict=True):
                lanes.store(build.fadd(lanes.load(pointer, column), build.load(total)), pointer, column)

    lanes.column_loop(first, last, UPDATE_VECTORS, update)
