"""Random programs in which passes find much to do: laws, constants, regions in regions, calls.

Numbers are those at which laws break (-0, NaN, infinities, the ends of a type, 0, 1, all bits),
sizes are 0, 1 and a few more; what regions read comes from all levels around them.  Each way to
make a value of a type is a function that writes an op with such a result, or writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tests.passes.nested_writer import (
    COMPLEX,
    ELEMENTS,
    FLOATS,
    INDEX,
    INTEGERS,
    SHAPES,
    SIGNED,
    TRUTH,
    UNSIGNED,
    Array,
    Named,
    Way,
    Writer,
    returns,
)

QUANTIZED: Final = "!quant.uniform<i8:f32, 0.5:3>"

# ------------------------------------------------------------------------------------ element-wise

_NUMBERS: Final = ("add", "subtract", "multiply", "maximum", "minimum")
_BITS: Final = ("and", "or", "xor")


def binary(w: Writer, type: Array) -> str | None:
    names = [*(_NUMBERS if type.element != "i1" else ()), *(() if is_real(type) else _BITS)]
    if type.element.startswith("complex"):
        names = ["add", "subtract", "multiply"]
    if type.element in FLOATS:
        names.append("divide")
    left = w.given(type)
    right = left if w.chance(0.15) else w.given(type)
    return w.generic(w.random.choice(names), (left, right), type)


def is_real(type: Array) -> bool:
    """Are the elements floating-point numbers, or complex ones?"""
    return type.element in FLOATS or type.element.startswith("complex")


def unary(w: Writer, type: Array) -> str | None:
    if type.element == "i1" or (type.element in INTEGERS and w.chance(0.5)):
        return w.generic("not", (w.given(type),), type)
    names = ["negate", "abs"] if type.element not in COMPLEX + UNSIGNED else ["negate"]
    if type.element in FLOATS:
        names += ["sign", "floor", "round_nearest_even", "sqrt"]
    return w.generic(w.random.choice(names), (w.given(type),), type)


def compare(w: Writer, type: Array) -> str | None:
    if type.element != "i1":
        return None
    operand = type.of(w.random.choice(ELEMENTS))
    is_complex = operand.element.startswith("complex")
    direction = w.random.choice(
        ["EQ", "NE"] if is_complex else ["EQ", "NE", "LT", "GE", "GT", "LE"]
    )
    kind = "SIGNED" if operand.element in SIGNED else "UNSIGNED"
    kind = "FLOAT" if is_real(operand) else kind
    left = w.given(operand)
    right = left if w.chance(0.3) else w.given(operand)
    says = (
        f"comparison_direction = #stablehlo<comparison_direction {direction}>,"
        f" compare_type = #stablehlo<comparison_type {kind}>"
    )
    return w.generic("compare", (left, right), type, says)


def select(w: Writer, type: Array) -> str | None:
    predicate = w.given(TRUTH if w.chance(0.3) else type.of("i1"))
    on_true = w.given(type)
    on_false = on_true if w.chance(0.2) else w.given(type)
    return w.generic("select", (predicate, on_true, on_false), type)


def convert(w: Writer, type: Array) -> str | None:
    source = w.random.choice([type.element, *ELEMENTS])
    if source.startswith("complex") and type.element != source:
        return None
    return w.generic("convert", (w.given(type.of(source)),), type)


def complexes(w: Writer, type: Array) -> str | None:
    if type.element == "complex<f32>":
        parts = w.given(type.of("f32")), w.given(type.of("f32"))
        return w.generic("complex", parts, type)
    if type.element != "f32":
        return None
    return w.generic(w.random.choice(["real", "imag"]), (w.given(type.of("complex<f32>")),), type)


# --------------------------------------------------------------------------------------- arranging


def reshape(w: Writer, type: Array) -> str | None:
    same = [s for s in SHAPES if Array("", s).count == type.count]
    if not same:
        return None
    source = Array(type.element, w.random.choice(same))
    if w.chance(0.3):
        sizes = sizes_of(w, type.sizes)
        return w.generic("dynamic_reshape", (w.given(source), sizes), type)
    return w.generic("reshape", (w.given(source),), type)


def sizes_of(w: Writer, sizes: Sequence[int]) -> Named:
    """A constant vector of integers."""
    type = Array("i64", (len(sizes),))
    return w.emit(f"stablehlo.constant dense<{[*sizes] if sizes else ''}> : {type}", type), type


def ints(values: Sequence[int]) -> str:
    """An attribute."""
    return f"array<i64{': ' if values else ''}{', '.join(map(str, values))}>"


def transpose(w: Writer, type: Array) -> str | None:
    order = [*range(len(type.sizes))]
    w.random.shuffle(order)
    sizes = [0] * len(order)
    for k, d in enumerate(order):
        sizes[d] = type.sizes[k]
    source = Array(type.element, tuple(sizes))
    return w.generic("transpose", (w.given(source),), type, f"permutation = {ints(order)}")


def broadcast(w: Writer, type: Array) -> str | None:
    dims = [d for d in range(len(type.sizes)) if w.chance(0.7)]
    if w.chance(0.3):
        w.random.shuffle(dims)
    source = Array(type.element, tuple(1 if w.chance(0.3) else type.sizes[d] for d in dims))
    across = f"broadcast_dimensions = {ints(dims)}"
    if w.chance(0.3):
        given = (w.given(source), sizes_of(w, type.sizes))
        return w.generic("dynamic_broadcast_in_dim", given, type, across)
    return w.generic("broadcast_in_dim", (w.given(source),), type, across)


def reverse(w: Writer, type: Array) -> str | None:
    dims = [d for d in range(len(type.sizes)) if w.chance(0.5)]
    return w.generic("reverse", (w.given(type),), type, f"dimensions = {ints(dims)}")


def cut(w: Writer, type: Array) -> str | None:
    """A slice, of one of the four kinds."""
    low = [w.random.choice([0, 0, 1]) for _ in type.sizes]
    step = [w.random.choice([1, 1, 2]) for _ in type.sizes]
    way = w.random.randrange(3)
    if way:
        step = [1] * len(step)
    high = [a + max(0, (n - 1) * s + 1) for a, n, s in zip(low, type.sizes, step, strict=True)]
    source = Array(type.element, tuple(h + w.random.choice([0, 0, 1]) for h in high))
    if source.count > 64:
        return None
    given = w.given(source)
    if way == 0:
        says = f"start_indices = {ints(low)}, limit_indices = {ints(high)}, strides = {ints(step)}"
        return w.generic("slice", (given,), type, says)
    if way == 1:
        starts = [w.given(INDEX) for _ in low]
        return w.generic(
            "dynamic_slice", (given, *starts), type, f"slice_sizes = {ints(type.sizes)}"
        )
    bounds = [sizes_of(w, v) for v in (low, high, step)]
    return w.generic("real_dynamic_slice", (given, *bounds), type)


def update(w: Writer, type: Array) -> str | None:
    sizes = tuple(w.random.choice([n, w.random.randint(0, n)]) for n in type.sizes)
    given = (w.given(type), w.given(Array(type.element, sizes)), *(w.given(INDEX) for _ in sizes))
    return w.generic("dynamic_update_slice", given, type)


def concatenate(w: Writer, type: Array) -> str | None:
    if not type.sizes:
        return None
    d = w.random.randrange(len(type.sizes))
    left, parts = type.sizes[d], []
    while left or not parts or w.chance(0.3):
        parts.append(w.random.randint(0, left))
        left -= parts[-1]
        if len(parts) > 4:
            parts.append(left)
            break
    types = [Array(type.element, (*type.sizes[:d], n, *type.sizes[d + 1 :])) for n in parts]
    return w.generic("concatenate", [w.given(t) for t in types], type, f"dimension = {d} : i64")


def pad(w: Writer, type: Array) -> str | None:
    low, high, between, sizes = [], [], [], []
    for n in type.sizes:
        size, gap = w.random.randint(0, n), w.random.choice([0, 0, 0, 1])
        if size + gap * max(0, size - 1) > n:
            gap = 0
        rest = n - size - gap * max(0, size - 1)
        low.append(w.random.randint(-1 if size > 1 and not gap else 0, rest))
        high.append(rest - low[-1])
        between.append(gap)
        sizes.append(size)
    given = w.given(Array(type.element, tuple(sizes))), w.given(Array(type.element, ()))
    if w.chance(0.3):
        how = [sizes_of(w, v) for v in (low, high, between)]
        return w.generic("dynamic_pad", (*given, *how), type)
    says = (
        f"edge_padding_low = {ints(low)}, edge_padding_high = {ints(high)},"
        f" interior_padding = {ints(between)}"
    )
    return w.generic("pad", given, type, says)


def iota(w: Writer, type: Array) -> str | None:
    if not type.sizes or type.element == "i1":
        return None
    d = w.random.randrange(len(type.sizes))
    if w.chance(0.3):
        sizes = sizes_of(w, type.sizes)
        return w.generic("dynamic_iota", (sizes,), type, f"iota_dimension = {d} : i64")
    return w.generic("iota", (), type, f"iota_dimension = {d} : i64")


def gather(w: Writer, type: Array) -> str | None:
    """One slice, without the dimensions that are collapsed."""
    rank = len(type.sizes) + 1
    gone = w.random.randrange(rank)
    sizes = (*type.sizes[:gone], 1, *type.sizes[gone:])
    source = Array(type.element, tuple(n + w.random.choice([0, 1]) for n in sizes))
    mapped = [d for d in range(rank) if w.chance(0.6)]
    index = w.given(Array("i64", (len(mapped),)))
    numbers = (
        f"offset_dims = {[*range(rank - 1)]}, collapsed_slice_dims = [{gone}],"
        f" start_index_map = {mapped}, index_vector_dim = 0"
    )
    says = f"dimension_numbers = #stablehlo.gather<{numbers}>, slice_sizes = {ints(sizes)}"
    return w.generic("gather", (w.given(source), index), type, says)


# ----------------------------------------------------------------------------------------- regions


def _bodies(w: Writer, types: Sequence[Array]) -> Callable[[list[Named]], list[str]]:
    return lambda _: [w.of(type) for type in types]


def _others(w: Writer, type: Array) -> tuple[list[Array], int]:
    """The types of several results, and which of them is the one that is wanted."""
    types = [w.type() for _ in range(w.random.choice([0, 0, 1, 2]))]
    at = w.random.randint(0, len(types))
    return [*types[:at], type, *types[at:]], at


def branch(w: Writer, type: Array) -> str | None:
    if w.depth > 3:
        return None
    types, at = _others(w, type)
    is_if = w.chance(0.5)
    chosen = w.of(TRUTH if is_if else INDEX)
    count = 2 if is_if else w.random.randint(1, 3)
    regions = ", ".join(w.region((), _bodies(w, types), types) for _ in range(count))
    op, of = ("if", TRUTH) if is_if else ("case", INDEX)
    results = ", ".join(map(str, types))
    return w.emit_all(f'"stablehlo.{op}"({chosen}) ({regions}) : ({of}) -> ({results})', types)[at]


def loop(w: Writer, type: Array) -> str | None:
    if w.depth > 2:
        return None
    types, at = _others(w, type)
    start = w.emit(f"stablehlo.constant dense<0> : {INDEX}", INDEX)
    given = [start, *(w.of(t) for t in types)]
    every = [INDEX, *types]
    limit = w.random.choice([0, 1, 2, 3])

    def goes_on(own: list[Named]) -> list[str]:
        most = w.emit(f"stablehlo.constant dense<{limit}> : {INDEX}", INDEX)
        says = (
            "comparison_direction = #stablehlo<comparison_direction LT>,"
            " compare_type = #stablehlo<comparison_type SIGNED>"
        )
        return [w.generic("compare", (own[0], (most, INDEX)), TRUTH, says)]

    def body(own: list[Named]) -> list[str]:
        one = w.emit(f"stablehlo.constant dense<1> : {INDEX}", INDEX), INDEX
        results = [w.generic("add", (own[0], one), INDEX)]
        for k, each in enumerate(types, 1):
            moved = [name for name, known in own[1:] if known == each]
            way = w.random.randrange(5)
            fixed = {0: own[k][0], 1: w.random.choice(moved), 2: given[k]}
            results.append(fixed.get(way) or w.of(each))
        return results

    regions = f"{w.region(every, goes_on, [TRUTH])}, {w.region(every, body, every)}"
    all_types = ", ".join(map(str, every))
    text = f'"stablehlo.while"({", ".join(given)}) ({regions}) : ({all_types}) -> ({all_types})'
    return w.emit_all(text, every)[at + 1]


def reduce(w: Writer, type: Array) -> str | None:
    """Of one to three arrays at once, whose bodies read each other's values."""
    at = w.random.randint(0, len(type.sizes))
    sizes = (*type.sizes[:at], w.random.choice([0, 1, 2, 3]), *type.sizes[at:])
    count = w.random.choice([1, 2, 2, 3])
    types = [type, *(type.of(w.random.choice(ELEMENTS)) for _ in range(count - 1))]
    given = [w.given(Array(t.element, sizes)) for t in types]
    given += [w.given(Array(t.element, ())) for t in types]
    scalars = [Array(t.element, ()) for t in types]

    def body(own: list[Named]) -> list[str]:
        return [
            w.generic(_joins(w, s), (own[k], own[k + count]), s) if w.chance(0.7) else w.of(s)
            for k, s in enumerate(scalars)
        ]

    region = w.region([*scalars, *scalars], body, scalars)
    names, operands = ", ".join(n for n, _ in given), ", ".join(str(t) for _, t in given)
    text = (
        f'"stablehlo.reduce"({names}) <{{dimensions = {ints([at])}}}> ({region}) :'
        f" ({operands}) -> ({', '.join(map(str, types))})"
    )
    return w.emit_all(text, types)[0]


def _joins(w: Writer, type: Array) -> str:
    if type.element == "i1":
        return w.random.choice(_BITS)
    return w.random.choice(["add", "multiply"])


def sort(w: Writer, type: Array) -> str | None:
    if not type.sizes:
        return None
    count, d = w.random.choice([1, 2, 3]), w.random.randrange(len(type.sizes))
    types = [type, *(type.of(w.random.choice(ELEMENTS)) for _ in range(count - 1))]
    key = w.random.randrange(count)
    if types[key].element.startswith("complex"):
        return None
    given = [w.given(t) for t in types]
    scalars = [Array(t.element, ()) for t in types for _ in (0, 1)]
    kind = "FLOAT" if is_real(types[key]) else "UNSIGNED"
    kind = "SIGNED" if types[key].element in SIGNED else kind

    def body(own: list[Named]) -> list[str]:
        says = (
            "comparison_direction = #stablehlo<comparison_direction LT>,"
            f" compare_type = #stablehlo<comparison_type {kind}>"
        )
        return [w.generic("compare", own[2 * key : 2 * key + 2], TRUTH, says)]

    region, all_types = w.region(scalars, body, [TRUTH]), ", ".join(map(str, types))
    text = (
        f'"stablehlo.sort"({", ".join(n for n, _ in given)}) <{{dimension = {d} : i64,'
        f" is_stable = true}}> ({region}) : ({all_types}) -> ({all_types})"
    )
    return w.emit_all(text, types)[0]


# ------------------------------------------------------------------------- calls, tuples and others


def call(w: Writer, type: Array) -> str | None:
    if w.depth > 3 or len(w.functions) > 4:
        return None
    arguments = [w.type() for _ in range(w.random.choice([0, 1, 2]))]
    name = w.function(arguments, [type])
    given = [w.of(t) for t in arguments]
    how = f"({', '.join(given)}) : ({', '.join(map(str, arguments))}) -> {type}"
    if not w.chance(0.3):
        return w.emit(f"func.call @{name}{how}", type)
    names, types = how.split(" : ")
    text = f'stablehlo.composite "a.b" {names.strip("()")} {{decomposition = @{name}}} : {types}'
    return w.emit(text, type)


def tuples(w: Writer, type: Array) -> str | None:
    types, at = _others(w, type)
    given, whole = [w.of(t) for t in types], f"tuple<{', '.join(map(str, types))}>"
    made = w.name()
    w.lines.append(f"{made} = stablehlo.tuple {', '.join(given)} : {whole}")
    parts = [
        w.emit(f"stablehlo.get_tuple_element {made}[{k}] : ({whole}) -> {t}", t)
        for k, t in enumerate(types)
    ]
    if w.chance(0.3):
        w.lines.append(f"{w.name()} = stablehlo.tuple {', '.join(parts)} : {whole}")
    return parts[at]


def barrier(w: Writer, type: Array) -> str | None:
    types, at = _others(w, type)
    given, all_types = ", ".join([w.of(t) for t in types]), ", ".join(map(str, types))
    text = f'"stablehlo.optimization_barrier"({given}) : ({all_types}) -> ({all_types})'
    return w.emit_all(text, types)[at]


def quantized(w: Writer, type: Array) -> str | None:
    if type.element != "f32":
        return None
    narrow = type.of(QUANTIZED)
    value = w.generic("uniform_quantize", (w.given(type),), narrow), narrow
    if w.chance(0.5):
        value = w.generic("add", (value, value), narrow), narrow
    return w.generic("uniform_dequantize", (value,), type)


WAYS: Final[tuple[Way, ...]] = (
    binary, binary, binary, binary, unary, compare, compare, select, select, convert, complexes,
    reshape, transpose, broadcast, broadcast, reverse, cut, cut, update, concatenate, concatenate,
    pad, iota, gather, branch, branch, branch, loop, loop, reduce, reduce, sort, call, tuples,
    barrier, quantized,
)  # fmt: skip
"""The ops a value may come from; what is there twice is chosen more often."""


def nested_program(seed: int, fuel: int = 40) -> str:
    """The text of the program of a seed: `main`, of several arguments and results."""
    w = Writer(seed, WAYS, fuel)
    arguments = [(f"%arg{k}", w.type()) for k in range(w.random.randint(1, 4))]
    results = [w.type() for _ in range(w.random.randint(1, 3))]
    w.scope += arguments
    w.lines.append(returns("return", [w.of(type) for type in results], results))
    head, types = ", ".join(f"{n}: {t}" for n, t in arguments), ", ".join(map(str, results))
    return "\n".join(
        [f"func.func public @main({head}) -> ({types}) {{", *w.lines, "}", *w.functions]
    )
