"""What word vectors are learned by: sums, products and changes of a few rows of a table at a time, in vectors.

Tables are (rows, width) float32 with a width that is a multiple of LINE, as tables.py makes them. Rows are named by
numbers in an int32 array from a place on, one of which may be skipped: row i is ids[begin + i], and from i = skip on
ids[begin + i + 1]. A block is as many targets as `kinds` is long; so the loops know it when they are compiled. The
test beside it says each in a line of numpy.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

from forebear.kernels.lanes import INT, MANY_REGISTERS, WIDE, Lanes
from forebear.kernels.tables import LINE

intrinsic: Any = extending.intrinsic
KINDS = 6  # the longest block, so that its sums stay in registers
TOGETHER = (4, 2, 1) if MANY_REGISTERS else (1,)  # rows whose products with a block are summed at once
COLUMNS = 2 if MANY_REGISTERS else 1  # vectors of columns that are changed at once
ABREAST = 8  # vectors of columns that are only added up, or what is left of them: few long loops
NARROW = WIDE if MANY_REGISTERS else WIDE // 2  # numbers in a vector where nothing is summed across


def _named(names: str, signature: Any, values: Any, lanes: Lanes) -> tuple[dict[str, Any], Any]:
    """The arguments by name, arrays as pointers to their first number; and the length of the rows of the first."""
    kinds = signature.args
    width = lanes.width(kinds[0], values[0])
    given = {
        name: lanes.array(kind, value).data if isinstance(kind, types.Array) else value
        for name, kind, value in zip(names.split(), kinds, values, strict=True)
    }
    return given, width


def _row(lanes: Lanes, given: dict[str, Any], name: str, width: Any, which: Any) -> Any:
    """Where row i of a table begins."""
    build = lanes.builder
    late = build.zext(build.icmp_signed(">=", which, given["skip"]), lanes.size)
    return lanes.row(given[name], width, given["ids"], build.add(given["begin"], build.add(which, late)))


def _targets(lanes: Lanes, given: dict[str, Any], width: Any, count: int) -> list[Any]:
    """Where the rows of a block of targets begin."""
    places = [lanes.builder.add(given["block"], lanes.number(kind)) for kind in range(count)]
    return [lanes.row(given["outputs"], width, given["targets"], place) for place in places]


@intrinsic
def fetched(typing: Any, rows: Any, number: Any, first: Any, last: Any) -> Any:
    """Asks for a row, between two columns, long before it is needed.

    Into the second cache: the first has room for too few requests at a time, and loops would wait for it.
    """

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        lanes = Lanes(context, builder)
        given, width = _named("rows number first last", signature, values, lanes)
        start = lanes.place(given["rows"], builder.mul(given["number"], width))
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, INT, INT, INT])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        how = [ir.Constant(INT, flag) for flag in (0, 2, 1)]  # to read, near but not nearest, data
        with lanes.steps(given["first"], given["last"], LINE) as (column, _):
            builder.call(function, [builder.bitcast(lanes.place(start, column), byte), *how])
        return context.get_dummy_value()

    size = types.intp
    return types.void(rows, size, size, size), build


@intrinsic
def averaged(
    typing: Any, rows: Any, ids: Any, begin: Any, skip: Any, many: Any, made: Any, at: Any, first: Any, last: Any
) -> Any:
    """made[at, first:last] = the mean of so many rows, between two columns."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        lanes = Lanes(context, builder, NARROW)
        given, width = _named("rows ids begin skip many made at first last", signature, values, lanes)
        made = lanes.place(given["made"], builder.mul(given["at"], width))
        one = ir.Constant(ir.FloatType(), 1.0)
        share = lanes.spread(builder.fdiv(one, builder.sitofp(given["many"], ir.FloatType())))

        def mean(columns: list[Any]) -> None:
            totals = [lanes.variable() for _ in columns]
            with lanes.steps(lanes.number(0), given["many"], 1) as (which, _):
                start = _row(lanes, given, "rows", width, which)
                for total, column in zip(totals, columns, strict=True):
                    builder.store(builder.fadd(builder.load(total), lanes.loaded(start, column)), total)
            for total, column in zip(totals, columns, strict=True):
                lanes.stored(builder.fmul(builder.load(total), share), made, column)

        lanes.abreast(given["first"], given["last"], ABREAST, mean)
        return context.get_dummy_value()

    size = types.intp
    return types.void(rows, ids, size, size, size, made, size, size, size), build


@intrinsic
def added(
    typing: Any, rows: Any, ids: Any, begin: Any, skip: Any, many: Any, pulls: Any, at: Any, first: Any, last: Any
) -> Any:
    """Each of so many rows += pulls[at], one after the other, between two columns."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        lanes = Lanes(context, builder, NARROW)
        given, width = _named("rows ids begin skip many pulls at first last", signature, values, lanes)
        pulls = lanes.place(given["pulls"], builder.mul(given["at"], width))

        def more(columns: list[Any]) -> None:
            mine = [lanes.loaded(pulls, column) for column in columns]
            with lanes.steps(lanes.number(0), given["many"], 1) as (which, _):
                start = _row(lanes, given, "rows", width, which)
                for pull, column in zip(mine, columns, strict=True):
                    lanes.stored(builder.fadd(lanes.loaded(start, column), pull), start, column)

        lanes.abreast(given["first"], given["last"], ABREAST, more)
        return context.get_dummy_value()

    size = types.intp
    return types.void(rows, ids, size, size, size, pulls, size, size, size), build


@intrinsic
def scored(
    typing: Any, rows: Any, ids: Any, begin: Any, skip: Any, many: Any, outputs: Any, targets: Any, block: Any,
    scores: Any, at: Any, kinds: Any,
) -> Any:  # fmt: skip
    """scores[at + i · kinds + j] = row i · outputs[targets[block + j]], for i below many.

    Up to WIDE numbers behind the last are overwritten.
    """
    count = len(kinds)

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        lanes = Lanes(context, builder)
        names = "rows ids begin skip many outputs targets block scores at kinds"
        given, width = _named(names, signature, values, lanes)
        ends = _targets(lanes, given, width, count)
        scores = lanes.place(given["scores"], given["at"])

        def products(first: Any, together: int) -> None:
            places = [builder.add(first, lanes.number(one)) for one in range(together)]
            starts = [_row(lanes, given, "rows", width, place) for place in places]
            totals = [[lanes.variable() for _ in ends] for _ in starts]
            with lanes.steps(lanes.number(0), width, WIDE) as (column, _):
                mine = [lanes.loaded(start, column) for start in starts]
                for kind, end in enumerate(ends):
                    other = lanes.loaded(end, column)
                    for one, total in zip(mine, totals, strict=True):
                        lanes.grow(total[kind], one, other)
            found = [builder.load(total) for line in totals for total in line]
            for at in range(0, len(found), WIDE):
                offset = builder.add(builder.mul(first, lanes.number(count)), lanes.number(at))
                lanes.stored(lanes.sums(found[at : at + WIDE]), scores, offset)

        done = lanes.number(0)
        for together in TOGETHER:
            rest = builder.sub(given["many"], done)
            ends_at = builder.sub(given["many"], builder.srem(rest, lanes.number(together)))
            with lanes.steps(done, ends_at, together) as (first, _):
                products(first, together)
            done = ends_at
        return context.get_dummy_value()

    size = types.intp
    return types.void(rows, ids, size, size, size, outputs, targets, size, scores, size, kinds), build


@intrinsic
def weighed(typing: Any, scores: Any, at: Any, signs: Any, sign: Any, many: Any, rate: Any) -> Any:
    """In place from scores[at] on: rate · s / (1 + e^(s · score)) for the signs s = signs[sign], …: how far to pull.

    So many numbers, rounded up to WIDE.
    """

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        lanes = Lanes(context, builder)
        given, _ = _named("scores at signs sign many rate", signature, values, lanes)
        rate = lanes.spread(given["rate"])
        scores, signs = lanes.place(given["scores"], given["at"]), lanes.place(given["signs"], given["sign"])
        with lanes.steps(lanes.number(0), given["many"], WIDE) as (at, _):
            sign = lanes.loaded(signs, at)
            unlikely = lanes.likely(builder.fneg(builder.fmul(sign, lanes.loaded(scores, at))))
            lanes.stored(builder.fmul(builder.fmul(rate, sign), unlikely), scores, at)
        return context.get_dummy_value()

    size = types.intp
    return types.void(scores, size, signs, size, size, types.float32), build


@intrinsic
def repeated(typing: Any, tile: Any, at: Any, signs: Any, sign: Any, many: Any, kinds: Any) -> Any:
    """From tile[at] on, signs[sign : sign + kinds] so many times; up to WIDE numbers behind them are overwritten."""
    count = len(kinds)

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        lanes = Lanes(context, builder)
        given, _ = _named("tile at signs sign many kinds", signature, values, lanes)
        tile = lanes.place(given["tile"], given["at"])
        # All are loaded before any is stored: they are not the same array.
        part = [
            lanes.loaded(given["signs"], builder.add(given["sign"], lanes.number(at))) for at in range(0, count, WIDE)
        ]
        with lanes.steps(lanes.number(0), given["many"], 1) as (which, _):
            for at, vector in zip(range(0, count, WIDE), part, strict=True):
                offset = builder.add(builder.mul(which, lanes.number(count)), lanes.number(at))
                lanes.stored(vector, tile, offset)
        return context.get_dummy_value()

    size = types.intp
    return types.void(tile, size, signs, size, size, kinds), build


@intrinsic
def changed(
    typing: Any, rows: Any, ids: Any, begin: Any, skip: Any, many: Any, outputs: Any, targets: Any, block: Any,
    pulls: Any, at: Any, kinds: Any, sinks: Any, fresh: Any, first: Any, last: Any,
) -> Any:  # fmt: skip
    """Between two columns, with a pull p[i, j] = pulls[at + i · kinds + j] between a row and a target:

    outputs[targets[block + j]] += Σ_i p[i, j] · row i,
    row i of sinks += Σ_j p[i, j] · outputs[targets[block + j]], with outputs as they were before; if fresh, the row of
    sinks is held to be 0.
    """
    count = len(kinds)

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        lanes = Lanes(context, builder, NARROW)
        names = "rows ids begin skip many outputs targets block pulls at kinds sinks fresh first last"
        given, width = _named(names, signature, values, lanes)
        ends = _targets(lanes, given, width, count)

        def change(columns: list[Any]) -> None:
            before = [[lanes.loaded(end, column) for column in columns] for end in ends]
            totals = [[lanes.variable() for _ in columns] for _ in ends]
            with lanes.steps(lanes.number(0), given["many"], 1) as (which, _):
                start, sink = (_row(lanes, given, name, width, which) for name in ("rows", "sinks"))
                mine = [lanes.loaded(start, column) for column in columns]
                made = [lanes.loaded(sink, column) for column in columns]
                made = [builder.select(given["fresh"], lanes.constant(0.0), one) for one in made]
                pulls = builder.add(given["at"], builder.mul(which, lanes.number(count)))
                pulls = lanes.place(given["pulls"], pulls)
                for kind in range(count):
                    pull = lanes.spread(builder.load(lanes.place(pulls, lanes.number(kind))))
                    for one in range(len(columns)):
                        lanes.grow(totals[kind][one], pull, mine[one])
                        made[one] = lanes.fused(pull, before[kind][one], made[one])
                for one, column in zip(made, columns, strict=True):
                    lanes.stored(one, sink, column)
            for end, total in zip(ends, totals, strict=True):  # anew from the table: it may have been there before
                for slot, column in zip(total, columns, strict=True):
                    lanes.stored(builder.fadd(lanes.loaded(end, column), builder.load(slot)), end, column)

        lanes.abreast(given["first"], given["last"], COLUMNS, change)
        return context.get_dummy_value()

    size = types.intp
    kind = types.void(
        rows, ids, size, size, size, outputs, targets, size, pulls, size, kinds, sinks, types.boolean, size, size
    )
    return kind, build
