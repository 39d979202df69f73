"""A typed builder of random programs: steps ask it for operands, and give it nodes.

An operand is a value that is there already, most often, or a new parameter of the program, or a
constant where no parameter is in sight.  What a seed and options build is always the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Final, TypedDict, TypeVar

from tests.generator.program import (
    ASYNC,
    Node,
    Program,
    Region,
    Spelling,
    Value,
    captured,
    without_unread_parameters,
)
from tests.generator.value_types import INDEX, PRED, Sizes, Tensor, Tuple, Type, leaves

T = TypeVar("T")
Step = Callable[["Builder"], None]


@dataclass(frozen=True, slots=True)
class Options:
    """What programs are like.

    Attributes:
        languages: Those that have to have every op.
        steps: Most ops of the entry, called bodies not counted.
        depth: Most regions inside each other.
        largest: Most elements of a dimension.
        count: Most elements of a tensor.
        masks: May there be ops whose results do not show all they depend on, such as `maximum`?
        families: Names of the families of steps; all if empty.
        replicas: Processes that run the program.
    """

    languages: tuple[str, ...] = ("hlo", "mlir")
    steps: int = 6
    depth: int = 3
    largest: int = 3
    count: int = 8
    masks: bool = True
    families: frozenset[str] = frozenset()
    replicas: int = 1


@dataclass(frozen=True, slots=True)
class Row:
    """A step and when it may be taken.

    Attributes:
        family: The name of its family.
        weight: How often it is taken, relative to others.
        languages: The languages that have what it emits.
        masks: Does it emit ops that mask?
        has_regions: Does it open a region?
        in_scalars: May it be taken in a body that computes scalars?
    """

    take: Step
    family: str
    weight: float
    languages: tuple[str, ...]
    masks: bool
    has_regions: bool
    in_scalars: bool


ROWS: Final[list[Row]] = []
ELEMENTS: Final = ("f32", "s32", "pred")
"""The element types that steps compute with."""


def step(
    family: str,
    weight: float = 1.0,
    *,
    languages: tuple[str, ...] = ("hlo", "mlir"),
    masks: bool = False,
    has_regions: bool = False,
    in_scalars: bool = False,
) -> Callable[[Step], Step]:
    """Register a step of a family."""

    def register(take: Step) -> Step:
        ROWS.append(Row(take, family, weight, languages, masks, has_regions, in_scalars))
        return take

    return register


@dataclass(slots=True)
class _Frame:
    """A region that is being built.

    Attributes:
        is_open: Are the values around it in sight?
        is_scalar: Is it the body of an op that computes with scalars?
        is_uniform: Do all processes run it, equally often?
    """

    is_open: bool
    is_scalar: bool
    is_uniform: bool = False
    params: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)


class Builder:
    """Builds one program.

    >>> program = Builder(7, Options()).program()
    >>> len(program.entry.results) >= 1
    True
    """

    def __init__(self, seed: int, options: Options) -> None:
        self.seed: Final = seed
        self.options: Final = options
        self.random: Final = Random(seed)
        self.frames: Final = [_Frame(is_open=False, is_scalar=False, is_uniform=True)]
        self.budget = 4 * options.steps
        self.channels = 0
        self.unread: Final[set[Value]] = set()
        self.reserved: Final[set[Value]] = set()

    # ------------------------------------------------------------------------------- choices

    def number(self, lo: int, hi: int) -> int:
        """An integer in `[lo, hi]`."""
        return self.random.randint(lo, hi)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, items: Sequence[T]) -> T:
        return self.random.choice(items)

    def permutation(self, count: int) -> list[int]:
        return self.random.sample(range(count), count)

    def subset(self, count: int, size: int) -> list[int]:
        """`size` different numbers below `count`, ascending."""
        return sorted(self.random.sample(range(count), size))

    def sizes(self, lo: int = 0, hi: int = 2) -> Sizes:
        """Random sizes of a rank from `lo` to `hi`."""
        while True:
            found = tuple(self.number(1, self.options.largest) for _ in range(self.number(lo, hi)))
            if _count(found) <= self.options.count:
                break
        if found and self.chance(0.02):
            at = self.number(0, len(found) - 1)
            found = (*found[:at], 0, *found[at + 1 :])
        return found

    @property
    def is_hlo_too(self) -> bool:
        return "hlo" in self.options.languages

    @property
    def meets(self) -> bool:
        """Do several processes come here, equally often?"""
        return self.options.replicas > 1 and all(frame.is_uniform for frame in self.frames)

    @property
    def here(self) -> _Frame:
        return self.frames[-1]

    # ------------------------------------------------------------------------------- values

    def visible(self) -> Iterator[Value]:
        """The values in sight, nearest first."""
        for frame in reversed(self.frames):
            yield from reversed(frame.values)
            yield from (p for p in reversed(frame.params) if p not in self.reserved)
            if not frame.is_open:
                return

    def sees_entry(self) -> bool:
        return all(frame.is_open for frame in self.frames[1:])

    def find(self, fits: Callable[[Type], bool]) -> Value | None:
        """One of the values in sight, the nearest most often."""
        found = [v for v in self.visible() if fits(v.type)][:12]
        if not found:
            return None
        unread = [v for v in found if v in self.unread]
        if unread and self.chance(0.6):
            found = unread
        return found[min(int(self.random.expovariate(0.6)), len(found) - 1)]

    def any(
        self, element: str | None = None, lo: int = 0, hi: int = 3, *, least: int = 0
    ) -> tuple[Value, Tensor]:
        """A tensor in sight of this element type and a rank from `lo` to `hi`, or a new one."""

        def fits(type_: Type) -> bool:
            return (
                isinstance(type_, Tensor)
                and type_.is_plain
                and type_.element in ((element,) if element else ELEMENTS)
                and lo <= len(type_.sizes) <= hi
                and type_.count >= least
            )

        found = self.find(fits) if self.chance(0.85) else None
        if found is None:
            chosen = element or self.pick(["f32", "f32", "f32", "s32", "pred"])
            type_ = Tensor(chosen, self.sizes(lo, min(hi, max(lo, 2))))
            while type_.count < least:
                type_ = Tensor(chosen, self.sizes(lo, min(hi, max(lo, 2))))
            found = self.new(type_)
        assert isinstance(found.type, Tensor)
        return found, found.type

    def structured(self) -> Value | None:
        """A tuple or a tensor with a bounded dimension in sight, if there is one."""
        return self.find(lambda t: bool(t.parts) if isinstance(t, Tuple) else bool(t.bounded))

    def of(self, type_: Type, *, fresh: float = 0.15) -> Value:
        """A value of exactly this type: one in sight, one made of such a one, or a new one."""
        found = None if self.chance(fresh) else self.find(lambda t: t == type_)
        if found is not None:
            return found
        if isinstance(type_, Tuple):
            return self.new(type_)
        if type_.sizes and type_.is_plain and self.chance(0.5):
            small = self.find(
                lambda t: (
                    isinstance(t, Tensor)
                    and t.element == type_.element
                    and t.is_plain
                    and _is_subsequence(t.sizes, type_.sizes) is not None
                )
            )
            if small is not None:
                return self.broadcast(small, type_.sizes)
        return self.new(type_)

    def new(self, type_: Type) -> Value:
        """A new parameter of the program where it is in sight, else a constant."""
        if self.sees_entry() and not (self.here.is_scalar and self.is_hlo_too):
            value = Value(type_)
            self.frames[0].params.append(value)
            return value
        if isinstance(type_, Tuple):
            return self.tuple_of([self.new(part) for part in type_.parts])
        return self.constant(type_)

    def constant(self, type_: Tensor, value: int | None = None) -> Value:
        """A constant: all elements the same."""
        if value is None:
            value = self.number(0, 1) if type_.element == "pred" else self.number(1, 3)
        text = ("false", "true")[value] if type_.element == "pred" else str(value)
        is_float = type_.element[0] in "fb"
        scalar = self.emit(
            (),
            Tensor(type_.element),
            hlo=("constant", text),
            mlir=(
                "stablehlo.constant",
                f"value = dense<{text}{'.0' * is_float}> : {Tensor(type_.element).mlir()}",
            ),
        )
        return self.broadcast(scalar, type_.sizes) if type_.sizes else scalar

    def vector(self, numbers: Sequence[int]) -> Value:
        """A constant vector of integers."""
        type_ = Tensor("s32", (len(numbers),))
        listed = ", ".join(map(str, numbers))
        return self.emit(
            (),
            type_,
            hlo=("constant", f"{{{listed}}}"),
            mlir=("stablehlo.constant", f"value = dense<[{listed}]> : {type_.mlir()}"),
        )

    def broadcast(self, value: Value, sizes: Sizes, dims: Sequence[int] | None = None) -> Value:
        """`broadcast_in_dim`; by default each dimension goes to the first one of its size."""
        assert isinstance(value.type, Tensor)
        if dims is None:
            dims = _is_subsequence(value.type.sizes, sizes)
            assert dims is not None
        listed = ", ".join(map(str, dims))
        return self.emit(
            (value,),
            Tensor(value.type.element, sizes),
            hlo=("broadcast", f"dimensions={{{listed}}}"),
            mlir=(
                "stablehlo.broadcast_in_dim",
                f"broadcast_dimensions = array<i64{': ' * bool(dims)}{listed}>",
            ),
        )

    def tuple_of(self, values: Sequence[Value]) -> Value:
        whole = Tuple(tuple(value.type for value in values))
        return self.emit(values, whole, hlo=("tuple", ""), mlir=("stablehlo.tuple", ""))

    def reshape(self, value: Value, sizes: Sizes) -> Value:
        assert isinstance(value.type, Tensor)
        type_ = Tensor(value.type.element, sizes)
        return self.emit((value,), type_, hlo=("reshape", ""), mlir=("stablehlo.reshape", ""))

    def binary(self, name: str, a: Value, b: Value, *, masks: bool = False) -> Value:
        """An element-wise op whose name both languages share."""
        spelt = {"shift_right_logical": "shift-right-logical"}.get(name, name)
        return self.emit(
            (a, b), a.type, hlo=(spelt, ""), mlir=(f"stablehlo.{name}", ""), masks=masks
        )

    def compare(self, direction: str, a: Value, b: Value) -> Value:
        assert isinstance(a.type, Tensor)
        return self.emit(
            (a, b),
            Tensor("pred", a.type.sizes),
            hlo=("compare", f"direction={direction}"),
            mlir=(
                "stablehlo.compare",
                f"comparison_direction = #stablehlo<comparison_direction {direction}>",
            ),
            masks=True,
        )

    def chooser(self, type_: Tensor) -> tuple[Value, bool, bool]:
        """What a branch is chosen by, does it keep a branch from ever being taken, is it uniform?

        Where nothing is to be hidden, it is a parameter that nothing else reads.  All processes
        take the same branch where it is a constant.
        """
        if self.meets and self.chance(0.8):
            return self.constant(type_, self.number(0, 1)), True, True
        if self.options.masks:
            return (self.of(type_) if type_ == PRED else self.index()), True, False
        found = self.new(type_)
        self.reserved.add(found)
        return found, found not in self.frames[0].params, False

    def index(self) -> Value:
        """A scalar integer to index with: as it is, or computed from others."""
        way = self.number(0, 9)
        plain = self.of(INDEX)
        if way == 0:
            return self.constant(INDEX, self.number(0, 2))
        if way == 1:
            return self.binary("add", plain, self.constant(INDEX, self.number(1, 2)))
        if way == 2:
            return self.binary("add", plain, self.of(INDEX))
        if way == 3:
            return self.binary("multiply", plain, self.constant(INDEX, 2))
        if way == 4 and self.options.masks:
            return self.binary("minimum", plain, self.constant(INDEX, 2), masks=True)
        if way == 5 and self.options.masks:
            pred = self.of(PRED)
            return self.select(pred, plain, self.of(INDEX))
        if way == 6:
            vector, type_ = self.any("s32", 1, 1, least=1)
            return self.reshape(self.slice(vector, [self.number(0, type_.sizes[0] - 1)], [1]), ())
        if way == 7:
            size = self.number(2, 3)
            return self.binary("subtract", self.constant(INDEX, size), plain)
        return plain

    def indices(self, sizes: Sizes) -> Value:
        """A tensor of integers to index with, as it is or computed."""
        type_ = Tensor("s32", sizes)
        found = self.of(type_)
        way = self.number(0, 5)
        if way == 0 and sizes:
            axis = self.number(0, len(sizes) - 1)
            return self.binary("add", self.iota(type_, axis), found)
        if way == 1:
            return self.binary("add", found, self.constant(type_, 1))
        if way == 2 and sizes:
            return self.reverse(found, [self.number(0, len(sizes) - 1)])
        return found

    def iota(self, type_: Tensor, axis: int) -> Value:
        return self.emit(
            (),
            type_,
            hlo=("iota", f"iota_dimension={axis}"),
            mlir=("stablehlo.iota", f"iota_dimension = {axis} : i64"),
        )

    def reverse(self, value: Value, axes: Sequence[int]) -> Value:
        listed = ", ".join(map(str, axes))
        return self.emit(
            (value,),
            value.type,
            hlo=("reverse", f"dimensions={{{listed}}}"),
            mlir=("stablehlo.reverse", f"dimensions = {mlir_list(axes)}"),
        )

    def select(self, pred: Value, yes: Value, no: Value) -> Value:
        return self.emit(
            (pred, yes, no),
            yes.type,
            hlo=("select", ""),
            mlir=("stablehlo.select", ""),
            masks=True,
        )

    def slice(
        self, value: Value, starts: Sequence[int], sizes: Sequence[int], strides: Sequence[int] = ()
    ) -> Value:
        """`sizes` elements in each dimension, from `starts` on."""
        assert isinstance(value.type, Tensor)
        strides = strides or [1] * len(sizes)
        triples = list(zip(starts, sizes, strides, strict=True))
        limits = [start + (size - 1) * stride + 1 for start, size, stride in triples]
        spans = ", ".join(f"[{a}:{b}:{c}]" for a, b, c in zip(starts, limits, strides, strict=True))
        return self.emit(
            (value,),
            Tensor(value.type.element, tuple(sizes)),
            hlo=("slice", f"slice={{{spans}}}"),
            mlir=(
                "stablehlo.slice",
                f"start_indices = {mlir_list(starts)}, limit_indices = {mlir_list(limits)},"
                f" strides = {mlir_list(strides)}",
            ),
        )

    # ------------------------------------------------------------------------------- nodes

    def emit_all(
        self,
        operands: Sequence[Value],
        types: Sequence[Type],
        regions: Sequence[Region] = (),
        *,
        hlo: tuple[str, str] | None = None,
        mlir: tuple[str, str] | None = None,
        masks: bool = False,
    ) -> list[Value]:
        """The results of one more node."""
        results = tuple(map(Value, types))
        for region in regions:
            self.unread.difference_update(captured(region))
        self.unread.difference_update(operands)
        if operands or regions:
            self.unread.update(results)
        spellings = [None if s is None else Spelling(*s) for s in (hlo, mlir)]
        node = Node(tuple(operands), results, tuple(regions), *spellings, masks=masks)
        self.here.nodes.append(node)
        self.here.values.extend(results)
        return list(results)

    def emit(
        self,
        operands: Sequence[Value],
        type_: Type,
        regions: Sequence[Region] = (),
        *,
        hlo: tuple[str, str] | None = None,
        mlir: tuple[str, str] | None = None,
        masks: bool = False,
    ) -> Value:
        """The result of one more node."""
        (result,) = self.emit_all(operands, [type_], regions, hlo=hlo, mlir=mlir, masks=masks)
        return result

    def parts(self, value: Value) -> list[Value]:
        """The parts of a tuple."""
        assert isinstance(value.type, Tuple)
        return [
            self.emit(
                (value,),
                type_,
                hlo=("get-tuple-element", f"index={k}"),
                mlir=("stablehlo.get_tuple_element", f"index = {k} : i32"),
            )
            for k, type_ in enumerate(value.type.parts)
        ]

    # ------------------------------------------------------------------------------- regions

    @contextmanager
    def region(
        self,
        types: Sequence[Type],
        *,
        is_open: bool,
        is_scalar: bool = False,
        is_uniform: bool = False,
    ) -> Iterator[_Frame]:
        """A region with parameters of these types; its nodes are emitted inside the `with`."""
        frame = _Frame(is_open, is_scalar, is_uniform, params=list(map(Value, types)))
        self.frames.append(frame)
        yield frame
        self.frames.pop()

    def closed(self, frame: _Frame, results: Sequence[Value]) -> Region:
        return Region(tuple(frame.params), tuple(frame.nodes), tuple(results))

    def body(
        self, params: Sequence[Type], results: Sequence[Type], *, is_uniform: bool = False
    ) -> Region:
        """An open region of random ops with results of these types."""
        with self.region(params, is_open=True, is_uniform=is_uniform) as frame:
            for _ in range(self.pick([0, 1, 1, 2, 3])):
                self.step()
            found = [self.result(type_) for type_ in results]
        return self.closed(frame, found)

    def result(self, type_: Type) -> Value:
        """A value to return: one computed here, if any fits, or another."""
        own = [v for v in self.here.values if v.type == type_]
        if own and self.chance(0.8):
            return own[-1]
        value = self.of(type_, fresh=0.1)
        is_float = isinstance(type_, Tensor) and type_.element == "f32" and not type_.bounded
        if is_float and self.chance(0.6):
            other = self.of(type_)
            return self.binary(self.pick(["add", "multiply"]), value, other)
        return value

    # ------------------------------------------------------------------------------- programs

    def step(self) -> None:
        """One more op, or a few."""
        self.budget -= 1
        options, scalar = self.options, self.here.is_scalar
        depth = len(self.frames) - 1
        allowed = [
            row
            for row in ROWS
            if set(options.languages) <= set(row.languages)
            and (options.masks or not row.masks)
            and (not row.has_regions or (depth < options.depth and self.budget > 0))
            and (not scalar or row.in_scalars)
            and (not options.families or row.family in options.families)
            and (row.family != "collectives" or self.meets)
        ]
        # Inside regions, regions are sought: depth is what this generator is for.  So are
        # collectives where processes meet.
        nest = max(1.0, options.depth - 1.0) if depth else 1.0
        meet = 12.0 if depth else 4.0
        weights = [
            row.weight
            * (nest if row.has_regions else 1.0)
            * (meet if row.family == "collectives" else 1.0)
            for row in allowed
        ]
        row = self.random.choices(allowed, weights)[0]
        row.take(self)

    def program(self) -> Program:
        """A random program: its roots are some of what nothing else reads."""
        for _ in range(self.number(self.options.steps // 2, self.options.steps)):
            self.step()
        frame = self.here
        if not frame.values:
            self.binary("add", *[self.of(Tensor("f32", (2,))) for _ in range(2)])
        roots = [v for v in reversed(frame.values) if v in self.unread] or [frame.values[-1]]
        results = tuple(roots[: self.pick([1, 1, 2, 3, 4])])
        found = Program(
            Region(tuple(frame.params), tuple(frame.nodes), results),
            self.options.replicas,
            self.seed,
        )
        return without_unread_parameters(found)


class Spellings(TypedDict):
    """An op in both languages, as arguments of `emit`."""

    hlo: tuple[str, str]
    mlir: tuple[str, str]


def spelling(name: str, hlo: str, mlir: str, *, started: bool = False) -> Spellings:
    """The spellings of an op that both languages have under one name.

    Args:
        name: As HLO writes it.
        hlo: Its attributes in HLO.
        mlir: Its attributes in StableHLO.
        started: Is it a pair of ops, one that starts and one that waits?
    """
    op = f"stablehlo.{name.replace('-', '_')}"
    if started:
        return {"hlo": (f"{name}-start", hlo), "mlir": (f"{ASYNC}{op}", mlir)}
    return {"hlo": (name, hlo), "mlir": (op, mlir)}


def mlir_list(numbers: Sequence[int]) -> str:
    """`array<i64: 1, 2>`."""
    return f"array<i64: {', '.join(map(str, numbers))}>" if numbers else "array<i64>"


def hlo_list(numbers: Sequence[int]) -> str:
    """`{1,2}`."""
    return f"{{{','.join(map(str, numbers))}}}"


def tensors(type_: Type) -> list[Tensor]:
    return list(leaves(type_))


def _count(sizes: Sizes) -> int:
    count = 1
    for size in sizes:
        count *= size
    return count


def _is_subsequence(small: Sizes, large: Sizes) -> list[int] | None:
    """Ascending dimensions of `large` that have the sizes of `small`; `None` if there are none."""
    dims, at = [], 0
    for size in small:
        while at < len(large) and large[at] != size:
            at += 1
        if at == len(large):
            return None
        dims.append(at)
        at += 1
    return dims
