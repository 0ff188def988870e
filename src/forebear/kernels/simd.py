"""SIMD operations of word2vec and GloVe in LLVM IR: sums, products and updates of a few table rows at a time.

Tables are (rows, width) float32 with a width that is a multiple of CACHE_LINE, as `aligned_table` makes them. Row
indices come from `ids`, starting at `begin`; the index at `skip` is left out: row i is ids[begin + i], and from
i = skip on ids[begin + i + 1]. A block has as many targets as the tuple `block_size` is long, so that its size is known
at compile time. The tests contain a one-line NumPy reference of each operation.
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
MAX_EXPONENT = 60.0  # exponents are clipped: 1 is negligible relative to 2^60
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

    def intp_constant(self, value: int) -> Any:
        return ir.Constant(self.size_type, value)

    def array(self, numba_type: Any, value: Any) -> Any:
        return self.context.make_array(numba_type)(self.context, self.builder, value)

    def width(self, numba_type: Any, value: Any) -> Any:
        """The length of the rows of an array."""
        return self.builder.extract_value(self.array(numba_type, value).shape, numba_type.ndim - 1)

    def argument(self, numba_type: Any, value: Any) -> Any:
        """An argument of a kernel: arrays as data pointers, tuples as their length."""
        if isinstance(numba_type, types.Array):
            return self.array(numba_type, value).data
        return len(numba_type) if isinstance(numba_type, types.BaseTuple) else value

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
        return cgutils.for_range_slice(self.builder, first, last, self.intp_constant(step), self.size_type)

    def column_loop(self, first: Any, last: Any, num_vectors: int, body: Callable[[list[Any]], None]) -> None:
        """Loop over columns, `num_vectors` vectors at a time, then over the remainder."""
        builder, step = self.builder, num_vectors * self.lanes
        remainder = builder.srem(builder.sub(last, first), self.intp_constant(step))
        end = builder.sub(last, remainder)
        with self.step_loop(first, end, step) as (column, _):
            body([builder.add(column, self.intp_constant(i * self.lanes)) for i in range(num_vectors)])
        for remaining in range(1, num_vectors):
            with builder.if_then(builder.icmp_signed("==", remainder, self.intp_constant(remaining * self.lanes))):
                body([builder.add(end, self.intp_constant(i * self.lanes)) for i in range(remaining)])

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
        function_type = ir.FunctionType(self.vector, [self.vector] * 3)
        function = cgutils.get_or_insert_function(self.builder.module, function_type, f"llvm.fmuladd.v{self.lanes}f32")
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
        builder = self.builder
        exponent = builder.fmul(x, self.constant(-LOG2_E))
        for sign, end in ((">", MAX_EXPONENT), ("<", -MAX_EXPONENT)):
            exponent = builder.select(
                builder.fcmp_ordered(sign, exponent, self.constant(end)), self.constant(end), exponent
            )
        shifted = builder.fadd(exponent, self.constant(ROUNDING_MAGIC))
        fraction = builder.fsub(exponent, builder.fsub(shifted, self.constant(ROUNDING_MAGIC)))
        power_of_two = self.constant(EXP2_COEFFICIENTS[0])
        for factor in EXP2_COEFFICIENTS[1:]:
            power_of_two = self.fused_multiply_add(power_of_two, fraction, self.constant(factor))
        exponent_bits = builder.shl(
            builder.bitcast(shifted, self.int_vector), ir.Constant(self.int_vector, [23] * self.lanes)
        )
        power_of_two = builder.bitcast(
            builder.add(builder.bitcast(power_of_two, self.int_vector), exponent_bits), self.vector
        )
        return builder.fdiv(self.constant(1.0), builder.fadd(self.constant(1.0), power_of_two))


def _block_halves(lanes: int, block: int) -> tuple[list[int], list[int]]:
    """Lane numbers of the first and of the second half of each block."""
    starts, half = range(0, lanes, block), block // 2
    low = [start + lane for start in starts for lane in range(half)]
    return low, [lane + half for lane in low]


def _input_order(lanes: int) -> list[int]:
    """Permutation of the inputs that makes `horizontal_sums` return them in order."""
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
ADD_VECTORS = 8  # column vectors per iteration when rows are only added; the remainder is unrolled
ELEMENTWISE_LANES = SUM_LANES if HAS_AVX512 else SUM_LANES // 2  # numbers in a vector where nothing is summed across


def _intrinsic(num_lanes: int = SUM_LANES) -> Callable[[Callable[..., None]], Any]:
    """Make an operation callable from kernels, given a function that emits its instructions.

    The function receives a SimdBuilder and the row length of the first argument, then the arguments by name: arrays as
    data pointers, tuples as their length.
    """

    def decorate(emit: Callable[..., None]) -> Any:
        _, _, *parameters = inspect.signature(emit).parameters.values()

        def define(typing: Any, *numba_types: Any) -> Any:
            def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
                simd = SimdBuilder(context, builder, num_lanes)
                emit(simd, simd.width(numba_types[0], values[0]), *map(simd.argument, numba_types, values))
                return context.get_dummy_value()

            return types.void(*map(_argument_type, numba_types)), codegen

        functools.update_wrapper(define, emit)
        typing_context = inspect.Parameter("typing", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        define.__dict__["__signature__"] = inspect.Signature([typing_context, *parameters])
        return extending.intrinsic(define)

    return decorate


def _argument_type(numba_type: Any) -> Any:
    """The type that a value is converted to: numbers of any width and literals share one compiled operation."""
    if isinstance(numba_type, types.Boolean):
        return types.boolean
    return types.intp if isinstance(numba_type, types.Integer) else numba_type


def _row_pointer(simd: SimdBuilder, width: Any, table: Any, ids: Any, begin: Any, skip: Any, index: Any) -> Any:
    """Pointer to row i of a table."""
    builder = simd.builder
    after_skip = builder.zext(builder.icmp_signed(">=", index, skip), simd.size_type)
    return simd.row_pointer(table, width, ids, builder.add(begin, builder.add(index, after_skip)))


def _target_pointers(simd: SimdBuilder, width: Any, outputs: Any, targets: Any, block: Any, count: int) -> list[Any]:
    """Pointers to the rows of a block of targets."""
    positions = [simd.builder.add(block, simd.intp_constant(i)) for i in range(count)]
    return [simd.row_pointer(outputs, width, targets, position) for position in positions]


@_intrinsic()
def prefetch_row(simd: SimdBuilder, width: Any, rows: Any, row: Any, first: Any, last: Any) -> None:
    """Prefetch a range of columns of a row, into the second-level cache: the first takes too few requests at a time."""
    start = simd.element_pointer(rows, simd.builder.mul(row, width))
    with simd.step_loop(first, last, CACHE_LINE) as (column, _):
        emit_prefetch(simd.builder, simd.element_pointer(start, column), locality=2)


@_intrinsic(ELEMENTWISE_LANES)
def average_rows(
    simd: SimdBuilder, width: Any,
    rows: Any, ids: Any, begin: Any, skip: Any, count: Any, out: Any, out_row: Any, first: Any, last: Any,
) -> None:  # fmt: skip
    """out[out_row, first:last] = the mean of `count` rows."""
    builder = simd.builder
    out = simd.element_pointer(out, builder.mul(out_row, width))
    scale = simd.broadcast(builder.fdiv(ir.Constant(FLOAT, 1.0), builder.sitofp(count, FLOAT)))

    def mean(columns: list[Any]) -> None:
        totals = [simd.variable() for _ in columns]
        with simd.step_loop(simd.intp_constant(0), count, 1) as (row_index, _):
            start = _row_pointer(simd, width, rows, ids, begin, skip, row_index)
            for total, column in zip(totals, columns, strict=True):
                builder.store(builder.fadd(builder.load(total), simd.load(start, column)), total)
        for total, column in zip(totals, columns, strict=True):
            simd.store(builder.fmul(builder.load(total), scale), out, column)

    simd.column_loop(first, last, ADD_VECTORS, mean)


@_intrinsic(ELEMENTWISE_LANES)
def add_to_rows(
    simd: SimdBuilder, width: Any,
    rows: Any, ids: Any, begin: Any, skip: Any, count: Any, updates: Any, update_row: Any, first: Any, last: Any,
) -> None:  # fmt: skip
    """Add updates[update_row] to each of `count` rows, one after the other, in columns first to last."""
    updates = simd.element_pointer(updates, simd.builder.mul(update_row, width))

    def add(columns: list[Any]) -> None:
        vectors = [simd.load(updates, column) for column in columns]
        with simd.step_loop(simd.intp_constant(0), count, 1) as (row_index, _):
            start = _row_pointer(simd, width, rows, ids, begin, skip, row_index)
            for update, column in zip(vectors, columns, strict=True):
                simd.store(simd.builder.fadd(simd.load(start, column), update), start, column)

    simd.column_loop(first, last, ADD_VECTORS, add)


@_intrinsic()
def score_rows(
    simd: SimdBuilder, width: Any,
    rows: Any, ids: Any, begin: Any, skip: Any, count: Any, outputs: Any, targets: Any, block: Any,
    scores: Any, score_offset: Any, block_size: int,
) -> None:  # fmt: skip
    """scores[score_offset + i · block_size + j] = row i · outputs[targets[block + j]], for i below count.

    Up to SUM_LANES numbers after the last are overwritten.
    """
    builder = simd.builder
    target_pointers = _target_pointers(simd, width, outputs, targets, block, block_size)
    scores = simd.element_pointer(scores, score_offset)

    def products(first: Any, rows_at_once: int) -> None:
        indices = [builder.add(first, simd.intp_constant(i)) for i in range(rows_at_once)]
        starts = [_row_pointer(simd, width, rows, ids, begin, skip, index) for index in indices]
        totals = [[simd.variable() for _ in target_pointers] for _ in starts]
        with simd.step_loop(simd.intp_constant(0), width, SUM_LANES) as (column, _):
            row_vectors = [simd.load(start, column) for start in starts]
            for target, pointer in enumerate(target_pointers):
                target_vector = simd.load(pointer, column)
                for row_vector, row_totals in zip(row_vectors, totals, strict=True):
                    simd.accumulate_product(row_totals[target], row_vector, target_vector)
        sums = [builder.load(total) for row_totals in totals for total in row_totals]
        for start in range(0, len(sums), SUM_LANES):
            offset = builder.add(builder.mul(first, simd.intp_constant(block_size)), simd.intp_constant(start))
            simd.store(simd.horizontal_sums(sums[start : start + SUM_LANES]), scores, offset)

    num_done = simd.intp_constant(0)
    for rows_at_once in ROWS_AT_ONCE:
        end = builder.sub(count, builder.srem(builder.sub(count, num_done), simd.intp_constant(rows_at_once)))
        with simd.step_loop(num_done, end, rows_at_once) as (first, _):
            products(first, rows_at_once)
        num_done = end


@_intrinsic()
def sigmoid_gradients(
    simd: SimdBuilder, width: Any, scores: Any, score_offset: Any, signs: Any, sign: Any, count: Any, rate: Any
) -> None:
    """In place from scores[score_offset] on: rate · s / (1 + e^(s · score)), the gradient, for s = signs[sign], …

    `count` numbers, rounded up to SUM_LANES.
    """
    builder, rate = simd.builder, simd.broadcast(rate)
    scores, signs = simd.element_pointer(scores, score_offset), simd.element_pointer(signs, sign)
    with simd.step_loop(simd.intp_constant(0), count, SUM_LANES) as (offset, _):
        sign = simd.load(signs, offset)
        error = simd.sigmoid(builder.fneg(builder.fmul(sign, simd.load(scores, offset))))
        simd.store(builder.fmul(builder.fmul(rate, sign), error), scores, offset)


@_intrinsic()
def repeat_signs(
    simd: SimdBuilder,
    width: Any,
    tile: Any,
    tile_offset: Any,
    signs: Any,
    sign_offset: Any,
    count: Any,
    block_size: int,
) -> None:
    """From tile[tile_offset] on, `count` times block_size signs; up to SUM_LANES numbers after them are overwritten."""
    builder, starts = simd.builder, range(0, block_size, SUM_LANES)
    tile = simd.element_pointer(tile, tile_offset)
    # all loads precede the stores
    vectors = [simd.load(signs, builder.add(sign_offset, simd.intp_constant(start))) for start in starts]
    with simd.step_loop(simd.intp_constant(0), count, 1) as (row_index, _):
        for start, vector in zip(starts, vectors, strict=True):
            offset = builder.add(builder.mul(row_index, simd.intp_constant(block_size)), simd.intp_constant(start))
            simd.store(vector, tile, offset)


@_intrinsic(ELEMENTWISE_LANES)
def update_rows(
    simd: SimdBuilder, width: Any,
    rows: Any, ids: Any, begin: Any, skip: Any, count: Any, outputs: Any, targets: Any, block: Any,
    gradients: Any, gradient_offset: Any, block_size: int, updated: Any, overwrite: Any, first: Any, last: Any,
) -> None:  # fmt: skip
    """In columns `first` to `last`, with gradients g[i, j] = gradients[gradient_offset + i · block_size + j]:

    outputs[targets[block + j]] += Σ_i g[i, j] · row i,
    row i of updated += Σ_j g[i, j] · outputs[targets[block + j]], with outputs as they were before; if overwrite, the
    row of updated counts as 0.
    """
    builder = simd.builder
    target_pointers = _target_pointers(simd, width, outputs, targets, block, block_size)

    def update(columns: list[Any]) -> None:
        previous_targets = [[simd.load(pointer, column) for column in columns] for pointer in target_pointers]
        totals = [[simd.variable() for _ in columns] for _ in target_pointers]
        with simd.step_loop(simd.intp_constant(0), count, 1) as (row_index, _):
            source, destination = (
                _row_pointer(simd, width, table, ids, begin, skip, row_index) for table in (rows, updated)
            )
            row_vectors = [simd.load(source, column) for column in columns]
            sums = [simd.load(destination, column) for column in columns]
            sums = [builder.select(overwrite, simd.constant(0.0), vector) for vector in sums]
            row_gradients = simd.element_pointer(
                gradients, builder.add(gradient_offset, builder.mul(row_index, simd.intp_constant(block_size)))
            )
            for target in range(block_size):
                gradient = simd.broadcast(builder.load(simd.element_pointer(row_gradients, simd.intp_constant(target))))
                for i in range(len(columns)):
                    simd.accumulate_product(totals[target][i], gradient, row_vectors[i])
                    sums[i] = simd.fused_multiply_add(gradient, previous_targets[target][i], sums[i])
            for vector, column in zip(sums, columns, strict=True):
                simd.store(vector, destination, column)
        for pointer, target_totals in zip(
            target_pointers, totals, strict=True
        ):  # reloaded: targets may repeat in a block
            for total, column in zip(target_totals, columns, strict=True):
                simd.store(builder.fadd(simd.load(pointer, column), builder.load(total)), pointer, column)

    simd.column_loop(first, last, UPDATE_VECTORS, update)
