"""Random programs on arrays whose sizes are known only at run time, and what their elements read.

The truth is found by execution: elements and sizes are changed one at a time, for several sizes up
to the bounds, and what changes is read.  An element that exists for one of two sizes only differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import Any, Final, TypeAlias

import numpy as np

from hloscope.interpreter.plan import Plans, run
from hloscope.interpreter.values import EvaluationError, World
from hloscope.ir.graph import Module

Index: TypeAlias = tuple[int, ...]
Pairs: TypeAlias = set[tuple[Index, Index]]
"""An element of the result, an element of a parameter."""

BODIES: Final = """HloModule m
add { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(a, b) }
lt { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }
"""
MATRIX, SIZE, OTHER, START = range(4)
"""The parameters: an array, the size of its dimension 1, of its dimension 0, a start."""
ROWS: Final = 3
COLUMNS: Final = 4


@dataclass(frozen=True)
class Value:
    """A value of a program: its name, and of each dimension its bound and is it dynamic."""

    name: str
    dims: tuple[tuple[int, bool], ...]

    @property
    def type(self) -> str:
        return written(self.dims)


def written(dims: tuple[tuple[int, bool], ...]) -> str:
    """The type of 32-bit integers of such dimensions."""
    return f"s32[{','.join('<=' * dynamic + str(size) for size, dynamic in dims)}]"


@dataclass
class Writer:
    """Writes a program line by line."""

    random: Random
    lines: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    def add(self, dims: tuple[tuple[int, bool], ...], what: str, name: str = "") -> Value:
        name = name or f"v{len(self.lines)}"
        self.lines.append(f"{name} = {written(dims)} {what}")
        return Value(name, dims)


Step: TypeAlias = Callable[[Writer, Value], Value | None]
STEPS: Final[dict[str, Step]] = {}


def step(made: Step) -> Step:
    STEPS[made.__name__] = made
    return made


def changed(dims: tuple[tuple[int, bool], ...], k: int, size: int) -> tuple[tuple[int, bool], ...]:
    return tuple((size, dynamic) if i == k else (n, dynamic) for i, (n, dynamic) in enumerate(dims))


@step
def negate(w: Writer, v: Value) -> Value:
    return w.add(v.dims, f"negate({v.name})")


@step
def add_to_itself(w: Writer, v: Value) -> Value:
    other = negate(w, negate(w, v))
    return w.add(v.dims, f"add({v.name}, {other.name})")


@step
def reverse(w: Writer, v: Value) -> Value | None:
    dims = [k for k in range(len(v.dims)) if w.random.random() < 0.7]
    return w.add(v.dims, f"reverse({v.name}), dimensions={{{','.join(map(str, dims))}}}")


@step
def transpose(w: Writer, v: Value) -> Value:
    order = w.random.sample(range(len(v.dims)), len(v.dims))
    dims = tuple(v.dims[k] for k in order)
    return w.add(dims, f"transpose({v.name}), dimensions={{{','.join(map(str, order))}}}")


@step
def pad(w: Writer, v: Value) -> Value | None:
    if not v.dims:
        return None
    amounts, dims = [], []
    for size, dynamic in v.dims:
        low, high = w.random.choice(((0, 0), (1, 0), (0, 2), (1, 1), (0, 1)))
        inside = w.random.choice((0, 0, 1))
        amounts.append(f"{low}_{high}_{inside}")
        dims.append((low + high + size + max(size - 1, 0) * inside, dynamic))
    return w.add(tuple(dims), f"pad({v.name}, nine), padding={'x'.join(amounts)}")


@step
def slice_(w: Writer, v: Value) -> Value | None:
    parts, dims = [], []
    for size, dynamic in v.dims:
        if (dynamic and w.random.random() < 0.5) or size < 2:
            parts.append(f"[0:{size}]")
            dims.append((size, dynamic))
            continue
        start = w.random.randrange(size)
        limit = w.random.randint(start + 1, size)
        parts.append(f"[{start}:{limit}]")
        dims.append((limit - start, dynamic and limit - start > 1))
    return w.add(tuple(dims), f"slice({v.name}), slice={{{', '.join(parts)}}}")


@step
def concatenate(w: Writer, v: Value) -> Value | None:
    if not v.dims:
        return None
    k, count = w.random.randrange(len(v.dims)), w.random.choice((2, 3))
    dims = changed(v.dims, k, count * v.dims[k][0])
    names = ", ".join([v.name] * count)
    return w.add(dims, f"concatenate({names}), dimensions={{{k}}}")


@step
def reduce(w: Writer, v: Value) -> Value | None:
    if not v.dims:
        return None
    over = w.random.sample(range(len(v.dims)), w.random.randint(1, len(v.dims)))
    dims = tuple(d for k, d in enumerate(v.dims) if k not in over)
    listed = ",".join(map(str, sorted(over)))
    return w.add(dims, f"reduce({v.name}, zero), dimensions={{{listed}}}, to_apply=add")


@step
def broadcast(w: Writer, v: Value) -> Value | None:
    if len(v.dims) > 2:
        return None
    at = w.random.randrange(len(v.dims) + 1)
    dims = (*v.dims[:at], (2, False), *v.dims[at:])
    places = ",".join(str(k) for k in range(len(dims)) if k != at)
    return w.add(dims, f"broadcast({v.name}), dimensions={{{places}}}")


@step
def reshape(w: Writer, v: Value) -> Value | None:
    if len(v.dims) == 2 and not v.dims[1][1]:
        (rows, dynamic), (columns, _) = v.dims
        return w.add(((rows * columns, dynamic),), f"reshape({v.name})")
    if len(v.dims) > 2:
        return None
    at = w.random.randrange(len(v.dims) + 1)
    return w.add((*v.dims[:at], (1, False), *v.dims[at:]), f"reshape({v.name})")


@step
def dynamic_slice(w: Writer, v: Value) -> Value | None:
    if not v.dims:
        return None
    k = w.random.randrange(len(v.dims))
    part = w.random.randint(1, max(v.dims[k][0], 1))
    if v.dims[k][0] < 1:
        return None
    starts = ", ".join("start" if i == k else "zero" for i in range(len(v.dims)))
    is_whole = part == v.dims[k][0]
    dims = tuple(
        (part, dynamic and is_whole) if i == k else (size, dynamic)
        for i, (size, dynamic) in enumerate(v.dims)
    )
    sizes = ",".join(str(size) for size, _ in dims)
    return w.add(dims, f"dynamic-slice({v.name}, {starts}), dynamic_slice_sizes={{{sizes}}}")


@step
def dynamic_update_slice(w: Writer, v: Value) -> Value | None:
    if not v.dims or min(size for size, _ in v.dims) < 1:
        return None
    part = tuple((w.random.randint(1, size), False) for size, _ in v.dims)
    update = w.add(part, "broadcast(nine), dimensions={}")
    starts = ", ".join(w.random.choice(("start", "zero")) for _ in v.dims)
    return w.add(v.dims, f"dynamic-update-slice({v.name}, {update.name}, {starts})")


@step
def gather(w: Writer, v: Value) -> Value | None:
    if len(v.dims) != 2 or v.dims[0][0] < 1:
        return None
    indices = w.add(((2, False),), f"constant({{{w.random.randrange(4)},{w.random.randrange(9)}}})")
    dims = ((2, False), v.dims[1])
    return w.add(
        dims,
        f"gather({v.name}, {indices.name}), offset_dims={{1}}, collapsed_slice_dims={{0}}, "
        f"start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,{v.dims[1][0]}}}",
    )


@step
def dot(w: Writer, v: Value) -> Value | None:
    if len(v.dims) != 2:
        return None
    k = w.random.randrange(2)
    dims = (v.dims[1 - k], v.dims[1 - k])
    what = f"dot({v.name}, {v.name}), lhs_contracting_dims={{{k}}}, rhs_contracting_dims={{{k}}}"
    return w.add(dims, what)


@step
def sort(w: Writer, v: Value) -> Value | None:
    if not v.dims:
        return None
    k = w.random.randrange(len(v.dims))
    return w.add(v.dims, f"sort({v.name}), dimensions={{{k}}}, to_apply=lt")


@step
def reduce_window(w: Writer, v: Value) -> Value | None:
    if not v.dims or min(size for size, _ in v.dims) < 2:
        return None
    k = w.random.randrange(len(v.dims))
    sizes = "x".join("2" if i == k else "1" for i in range(len(v.dims)))
    dims = changed(v.dims, k, v.dims[k][0] - 1)
    return w.add(dims, f"reduce-window({v.name}, zero), window={{size={sizes}}}, to_apply=add")


@step
def set_again(w: Writer, v: Value) -> Value | None:
    if not v.dims or not v.dims[0][1] or v.dims[0][0] < ROWS:
        return None
    return w.add(v.dims, f"set-dimension-size({v.name}, other), dimensions={{0}}")


@step
def in_a_call(w: Writer, v: Value) -> Value:
    both = w.add(v.dims, f"fusion({v.name}), kind=kLoop, calls=f{len(w.lines)}")
    body = f"f{len(w.lines) - 1} {{ a = {v.type} parameter(0) ROOT r = {v.type} negate(a) }}"
    w.used.add(body)
    return both


@step
def through_a_tuple(w: Writer, v: Value) -> Value:
    name = f"t{len(w.lines)}"
    w.lines.append(f"{name} = ({v.type}, {v.type}) tuple({v.name}, {v.name})")
    return w.add(v.dims, f"get-tuple-element({name}), index={w.random.randrange(2)}")


@step
def size_of(w: Writer, v: Value) -> Value | None:
    if not v.dims:
        return None
    k = w.random.randrange(len(v.dims))
    return w.add((), f"get-dimension-size({v.name}), dimensions={{{k}}}")


def program(seed: int, first: str = "") -> tuple[str, list[str]]:
    """A program of a few steps and their names; the first may be chosen."""
    random = Random(f"{seed} {first}")
    w = Writer(random)
    head = [
        f"matrix = s32[{ROWS},{COLUMNS}] parameter({MATRIX})",
        f"size = s32[] parameter({SIZE})",
        f"other = s32[] parameter({OTHER})",
        f"start = s32[] parameter({START})",
        "zero = s32[] constant(0)",
        "nine = s32[] constant(900)",
    ]
    dims: tuple[tuple[int, bool], ...] = ((ROWS, False), (COLUMNS, True))
    value = w.add(dims, "set-dimension-size(matrix, size), dimensions={1}")
    if random.random() < 0.6:
        dims = ((ROWS, True), (COLUMNS, True))
        value = w.add(dims, f"set-dimension-size({value.name}, other), dimensions={{0}}")
    names: list[str] = []
    wanted = random.randint(1, 3)
    while len(names) < wanted:
        name = first if first and not names else random.choice(list(STEPS))
        made = STEPS[name](w, value)
        if made is None:
            if name == first and not names:
                first = ""
            continue
        names.append(name)
        value = made
    *before, last = w.lines
    lines = "\n  ".join([*head, *before, f"ROOT {last}"])
    bodies = "\n".join(sorted(w.used))
    return f"{BODIES}{bodies}\nENTRY e {{\n  {lines}\n}}", names


def truth(module: Module, shape: Index, random: np.random.Generator) -> dict[int, Pairs] | None:
    """By parameter: which elements of the result depend on which of its elements."""
    plan = Plans(World()).of(module.entry)
    matrix = random.permutation(ROWS * COLUMNS).reshape(ROWS, COLUMNS).astype(np.int32) + 1

    def result(given: Any, size: int, other: int, start: int) -> Any:
        numbers = [np.int32(x) for x in (size, other, start)]
        try:
            (found,) = run(plan, [given, *numbers])
        except EvaluationError:
            return None
        full = np.full(shape, -(1 << 40), np.int64)  # what does not exist
        here = np.asarray(found)
        full[tuple(map(slice, here.shape))] = here
        return full

    found: dict[int, Pairs] = {MATRIX: set(), SIZE: set(), OTHER: set(), START: set()}
    results = {}
    for at in product((0, 2, COLUMNS), (0, 1, ROWS), (0, 3)):
        results[at] = base = result(matrix, *at)
        if base is None:
            continue
        for index in np.ndindex(ROWS, COLUMNS):
            other = matrix.copy()
            other[index] += 1000
            found[MATRIX] |= {(i, index) for i in _differing(base, result(other, *at))}
    if not any(base is not None for base in results.values()):
        return None
    for (a, x), (b, y) in product(results.items(), results.items()):
        differs = [k for k in range(3) if a[k] != b[k]]
        if len(differs) == 1 and x is not None and y is not None:
            found[1 + differs[0]] |= {(i, ()) for i in _differing(x, y)}
    return found


def _differing(one: Any, other: Any) -> Iterator[Index]:
    for index in np.argwhere(one != other) if one.ndim else [()] * bool(one != other):
        yield tuple(int(i) for i in index)
