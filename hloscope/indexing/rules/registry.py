"""Registry of indexing rules by op and direction, and the builder of maps that rules use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from importlib import import_module
from typing import Final, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from hloscope.affine import NEG_INF, POS_INF, Expr, Interval, Range, Runtime, first_dims
from hloscope.indexing.access import Access, Accesses, Precision
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.variables import Constraint, RuntimeVariable, Variable, below
from hloscope.ir import BufferType, Dims, Instruction, Op, TensorType, TupleType, Type, of_last
from hloscope.support.lazy import once_for_each
from hloscope.support.walks import nested

# --------------------------------------------------------------------------------------------------
# Registry of the rules, by op and direction.
#
# A rule takes the instruction, its op and the number of the output (or operand), and returns the
# accesses of each operand (or output). It reads sizes and parameters only, never syntax, so both
# front ends share it. Outputs are the arrays of the result type, numbered in order. The rule of an
# op that calls computations gets their dependences and does not inspect them itself.
#
# The rules of a family of ops are in the file with its name. The file is imported at the first
# lookup of one of its ops, as a program has ops of few families.


Rule: TypeAlias = Callable[..., tuple[Accesses, ...]]
"""Function of an instruction, its op and the number of an output or operand.

It has a fourth argument, the `Bodies` or the `DeviceCounts`, if its entry says so.
"""
R = TypeVar("R", bound=Callable[..., tuple[Accesses, ...]])


class Direction(StrEnum):
    """Direction of a map: from output elements to operand elements, or the reverse."""

    OUTPUT_TO_INPUT = "output_to_input"
    INPUT_TO_OUTPUT = "input_to_output"


class Entry(Struct, frozen=True):
    """A rule with its precision and the arguments it takes.

    Attributes:
        rule: The function, or `None` if the result is always unknown.
        precision: The weakest precision of the rule for valid programs.
        reason: Why it is not exact; empty for exact rules.
        has_bodies: Does the rule take the dependences of the called computations?
        is_shared: Does the result depend only on the op, the types and the bodies?
        has_counts: Does the rule take the numbers of replicas and partitions?
    """

    rule: Rule | None
    precision: Precision = Precision.EXACT
    reason: str = ""
    has_bodies: bool = False
    is_shared: bool = False
    has_counts: bool = False


RULES: Final[dict[Direction, dict[type[Op], Entry]]] = {direction: {} for direction in Direction}
"""The rules of all op families that were looked up, by direction and op class."""
_FAMILIES: Final = "hloscope.ops."
OTHER_FILES: Final = {
    "Copy": "control",
    "CustomCall": "custom_calls",
    "Map": "elementwise",
}
"""The file of the rules by op class, where it is not the file of the class's family."""
_NEAREST: Final[dict[Direction, dict[type[Op], Entry | None]]] = {way: {} for way in Direction}
"""Results of `lookup`; emptied when a rule is registered."""


class Instances(Struct, frozen=True):
    """Accesses from an output element to a result of a called computation.

    Attributes:
        call: Number of the computation among those that the instruction calls.
        result: Number of the leaf of its root.
        accesses: From the element of the output to elements of that leaf.
    """

    call: int
    result: int
    accesses: Accesses


_INSTANCES: Final[dict[type[Op], Callable[..., Iterable[Instances]]]] = {}
"""By op class, the function that `reads_bodies` registered."""
I = TypeVar("I", bound=Callable[..., Iterable[Instances]])  # noqa: E741


def reads_bodies(*classes: type[Op]) -> Callable[[I], I]:
    """Return a decorator that registers how an op's outputs read results of its bodies.

    The function takes the instruction, its op, the number of the output and the bodies. It yields
    the accesses from an element of the output to results of called computations.
    """

    def register(found: I) -> I:
        _INSTANCES.update(dict.fromkeys(classes, found))
        return found

    return register


def _enter(direction: Direction, classes: tuple[type[Op], ...], entry: Entry) -> None:
    _NEAREST[direction].clear()
    RULES[direction].update(dict.fromkeys(classes, entry))


def _register(
    direction: Direction, classes: tuple[type[Op], ...], entry: Entry
) -> Callable[[R], R]:
    def decorate(rule: R) -> R:
        _enter(direction, classes, replace(entry, rule=rule))
        return rule

    return decorate


def output_to_input(
    *classes: type[Op],
    shared: bool = True,
    precision: Precision = Precision.EXACT,
    reason: str = "",
    bodies: bool = False,
    counts: bool = False,
) -> Callable[[R], R]:
    """Return a decorator that registers a rule: accesses from an output element to each operand.

    Args:
        classes: The ops of the rule; a class stands for its subclasses too.
        shared: Whether the result depends only on the op, the types and the bodies, so that equal
            instructions share it.
        precision: The weakest precision of the rule.
        reason: Why it is not exact.
        bodies: Whether the last argument is the dependences of the called computations.
        counts: Whether the last argument is the `DeviceCounts` of the program; excludes `bodies`.
    """
    entry = Entry(None, precision, reason, bodies, shared, counts)
    return _register(Direction.OUTPUT_TO_INPUT, classes, entry)


def input_to_output(
    *classes: type[Op],
    shared: bool = True,
    precision: Precision = Precision.EXACT,
    reason: str = "",
    bodies: bool = False,
    counts: bool = False,
) -> Callable[[R], R]:
    """Return a decorator that registers a rule: accesses from an operand element to each output.

    The relation is the exact inverse of that of `output_to_input`.

    Args:
        classes: The ops of the rule; a class stands for its subclasses too.
        shared: Whether the result depends only on the op, the types and the bodies, so that equal
            instructions share it.
        precision: The weakest precision of the rule.
        reason: Why it is not exact.
        bodies: Whether the last argument is the dependences of the called computations.
        counts: Whether the last argument is the `DeviceCounts` of the program; excludes `bodies`.
    """
    entry = Entry(None, precision, reason, bodies, shared, counts)
    return _register(Direction.INPUT_TO_OUTPUT, classes, entry)


def analysed_elsewhere(
    *classes: type[Op], reason: str, precision: Precision = Precision.EXACT
) -> None:
    """Register ops as analysed in another package, through the computations they call.

    `precision` is the weakest precision of that analysis, and `reason` names the package.
    """
    _state(classes, Entry(None, precision, reason))


def without_rule(*classes: type[Op], reason: str) -> None:
    """Register ops about whose accesses nothing is known in both directions, with the reason."""
    _state(classes, Entry(None, Precision.UNKNOWN, reason))


def _state(classes: tuple[type[Op], ...], entry: Entry) -> None:
    for direction in Direction:
        _enter(direction, classes, entry)


def lookup(direction: Direction, cls: type[Op]) -> Entry | None:
    """Return the entry of an op class, or of its nearest base class with one, in a direction.

    The result is `None` if no class has one.
    """
    known = _NEAREST[direction]
    try:
        return known[cls]
    except KeyError:
        _load(cls)
        table = RULES[direction]
        found = next((table[base] for base in cls.__mro__ if base in table), None)
        known[cls] = found  # another thread that registers rules may remove the entry at once
        return found


def body_reads_of(cls: type[Op]) -> Callable[..., Iterable[Instances]] | None:
    """Return the function that `reads_bodies` registered for a class, or `None`."""
    _load(cls)
    return _INSTANCES.get(cls)


def file_of(cls: type) -> str:
    """Return the name, without `.py`, of the file with the rules of an op class.

    The file need not exist.

    >>> from hloscope.ops import Reverse, Scan
    >>> file_of(Reverse), file_of(Scan)
    ('shape', 'reduction')
    """
    return OTHER_FILES.get(cls.__name__) or cls.__module__.removeprefix(_FAMILIES)


@once_for_each
def _load(cls: type[Op]) -> None:
    """Import the files with rules of a class or its bases; other threads wait for it."""
    for base in cls.__mro__:
        if base.__module__.startswith(_FAMILIES):
            name = f"{__package__}.{file_of(base)}"
            try:
                import_module(name)
            except ModuleNotFoundError as error:
                if error.name != name:
                    raise


# --------------------------------------------------------------------------------------------------
# Helpers of the rules: sizes of values, a builder of maps, and maps that most families use.


NEVER: Accesses = ()
"""Accesses of a tensor of which no element is accessed."""


def leaves(type: Type) -> tuple[Type, ...]:
    """Return the arrays and tokens of a type in flattened order.

    A type that is not a tuple is its own leaf.

    >>> from hloscope.ir.types import TokenType, TupleType
    >>> len(leaves(TupleType((TokenType(), TupleType((TokenType(), TokenType()))))))
    3
    """
    if not isinstance(type, TupleType):
        return (type,)
    if type.depth == 1:
        return type.elements
    every = nested(type.elements, lambda t: t.elements if isinstance(t, TupleType) else ())
    return tuple([t for t in every if not isinstance(t, TupleType)])


def first_leaf(type: Type, index: int) -> int:
    """Return the number of the first leaf of element `index` of a tuple.

    >>> from hloscope.ir.types import TokenType, TupleType
    >>> first_leaf(TupleType((TupleType((TokenType(), TokenType())), TokenType())), 1)
    2
    """
    elements = type.elements if isinstance(type, TupleType) else ()
    return sum(len(leaves(element)) for element in elements[:index])


def sizes(type: Type) -> Dims:
    """Return the sizes of an array, with bounds for dynamic ones.

    `()` for tokens and opaque values.

    Raises:
        UnsupportedError: A dimension has neither size nor bound.
    """
    if isinstance(type, BufferType):
        type = type.element
    return type.shape if isinstance(type, TensorType) else ()


def is_data(type: Type) -> bool:
    """Does the type hold elements? Tokens and opaque values do not."""
    return isinstance(type, TensorType | BufferType)


def output_sizes(ins: Instruction, output: int = 0) -> Dims:
    """Return the sizes of output number `output`, with bounds for dynamic ones."""
    if isinstance(ins.type, TupleType):
        return sizes(leaves(ins.type)[output])
    return sizes(ins.type)


def all_output_sizes(ins: Instruction) -> tuple[Dims, ...]:
    """Return the sizes of every output, with bounds for dynamic ones."""
    return tuple([sizes(leaf) for leaf in leaves(ins.type)])


def integers(type: Type) -> tuple[int, int]:
    """Return the smallest and the largest integer of the element type, within int64.

    For types that are not integers, the ends are the values that stand for infinity.

    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> integers(TensorType(ELEMENT_TYPES["s8"], (3,)))
    (-128, 127)
    """
    if not isinstance(type, TensorType) or type.element.kind not in ("signed", "unsigned"):
        return NEG_INF, POS_INF
    assert type.element.integer_limits is not None
    low, high = type.element.integer_limits
    return max(low, NEG_INF), min(high, POS_INF)


def dynamic_dimensions(type: Type) -> tuple[int, ...]:
    """Return the dimensions of dynamic size; none for types that are not arrays."""
    if not isinstance(type, TensorType) or None not in type.sizes:
        return ()
    return tuple([k for k, size in enumerate(type.sizes) if size is None])


# Memoized: it is called for each operand of an instruction, and checking all operands each time is
# quadratic.
@of_last
def has_dynamic_sizes(ins: Instruction) -> bool:
    """Does an operand or the result have a dimension of dynamic size? Tuples do not count."""
    type = ins.type
    if isinstance(type, TensorType) and None in type.sizes:
        return True
    for operand in ins.operands:
        type = operand.type
        if isinstance(type, TensorType) and None in type.sizes:
            return True
    return False


@of_last
def has_unknown_sizes(ins: Instruction) -> bool:
    """Does an operand or the result have a dimension with neither size nor bound?

    >>> from hloscope.ir import Instruction, TensorType
    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> from hloscope.ops import Parameter
    >>> has_unknown_sizes(Instruction("p", TensorType(ELEMENT_TYPES["f32"], (None,)), Parameter(0)))
    True
    """
    return any(map(is_unbounded, [ins.type, *[operand.type for operand in ins.operands]]))


def is_unbounded(type: Type) -> bool:
    """Does the type have a dimension with neither size nor bound?"""
    if isinstance(type, TensorType):
        return None in type.sizes and None in type.most
    return any([isinstance(leaf, TensorType) and None in leaf.most for leaf in leaves(type)])


class MapBuilder:
    """Builder of one map, which collects its variables and constraints.

    >>> d0, d1 = dims(2)
    >>> at = MapBuilder((4, 6))
    >>> s = at.range(3)
    >>> at.require(d1 + s, 1, 6)
    >>> print(at.map((d0, d1 + s - 1)))
    (d0, d1)[s0] -> (d0, d1 + s0 - 1), domain: d0 in [0, 3], d1 in [0, 5], s0 in [0, 2], \
d1 + s0 in [1, 6]
    """

    __slots__ = ("constraints", "dims", "ranges", "runtime")

    def __init__(self, dims: Iterable[int]) -> None:
        self.dims = [below(size) for size in dims]
        self.ranges: list[Variable] = []
        self.runtime: list[RuntimeVariable] = []
        self.constraints: list[Constraint] = []

    def range(self, size: int) -> Range:
        """Add a range variable with the values `[0, size)`, and return it."""
        self.ranges.append(below(size))
        return Range(len(self.ranges) - 1)

    def read(
        self, lo: int, hi: int, origin: Instruction | None, index: Sequence[Expr] = ()
    ) -> Runtime:
        """Add a runtime variable in `[lo, hi]` that is read from `origin` at `index`; return it."""
        self.runtime.append(RuntimeVariable(Interval(lo, hi), "", origin, tuple(index)))
        return Runtime(len(self.runtime) - 1)

    def position(self, collective: Instruction, lo: int, hi: int, size: int | None) -> Runtime:
        """Add a runtime variable: the position of the device in its group of a collective.

        It is restricted to `[lo, hi]`. Return the variable.

        Args:
            collective: The instruction that has the groups.
            lo: Smallest position for which the map holds.
            hi: Largest position for which the map holds.
            size: Number of members of a group; `None` if it is not written.
        """
        inside = Interval(lo, hi)
        every = Interval(0, POS_INF if size is None else size - 1)
        clamp = None if inside == every else every
        self.runtime.append(RuntimeVariable(inside, clamp=clamp, collective=collective))
        return Runtime(len(self.runtime) - 1)

    def member(self, collective: Instruction, size: int | None) -> Expr:
        """Add a variable that takes all positions in a group of a collective, and return it.

        It is a runtime variable if the number of members, `size`, is not written.
        """
        if size is not None:
            return self.range(size)
        every = Interval(0, POS_INF)
        self.runtime.append(RuntimeVariable(every, collective=collective, is_every=True))
        return Runtime(len(self.runtime) - 1)

    def require(self, expr: Expr, lo: int, hi: int) -> None:
        """Add the constraint `lo <= expr <= hi`."""
        self.constraints.append((expr, Interval(lo, hi)))

    def bound(self, k: int, lo: int, hi: int) -> None:
        """Restrict dimension `k` of the index to `[lo, hi]`; cheaper than `require` on it."""
        self.dims[k] = Variable(self.dims[k].interval & Interval(lo, hi))

    def quotient(self, value: Expr, step: int, size: int) -> Expr:
        """Return the index `value / step`, with a constraint: it is an integer in `[0, size)`."""
        self.require(value, 0, (size - 1) * step)
        if step == 1:
            return value
        self.require(value % step, 0, 0)
        return value // step

    def map(self, results: Iterable[Expr | int]) -> IndexingMap:
        """Return the map with these results and the collected variables and constraints."""
        return IndexingMap(self.dims, self.ranges, self.runtime, tuple(results), self.constraints)

    def simplified(self, results: Iterable[Expr | int]) -> IndexingMap:
        """Return the simplified map with these results, without unused range variables."""
        return self.map(results).simplify().remove_unused_symbols()


def trailing(source: Dims, target: Dims) -> Dims:
    """Return the numbers of the last dimensions of a shape `target`, as many as `source` has."""
    return tuple(range(len(target) - len(source), len(target)))


def exact(*maps: IndexingMap) -> Accesses:
    """Return accesses by these maps, whose union has exactly the elements that are accessed."""
    return tuple([Access(m) for m in maps])


def over(reason: str, *maps: IndexingMap) -> Accesses:
    """Return accesses by these maps, whose union may have more elements than are accessed."""
    return tuple(Access(m, Precision.OVER, reason) for m in maps)


def unknown(reason: str) -> Accesses:
    """Return one access without a map, for this reason."""
    return (Access.unknown(reason),)


def dims(count: int) -> list[Expr]:
    """Return the first `count` dimension variables as a list."""
    return [*first_dims(count)]


def identity_map(shape: Dims) -> IndexingMap:
    """Return the map from each index to itself.

    >>> print(identity_map((4, 6)))
    (d0, d1) -> (d0, d1), domain: d0 in [0, 3], d1 in [0, 5]
    """
    return IndexingMap([below(size) for size in shape], results=first_dims(len(shape)))


def identity(shape: Dims) -> Accesses:
    """Return the exact access from each index to itself."""
    return exact(identity_map(shape))


def everything_map(shape: Dims, target: Dims) -> IndexingMap:
    """Return the map from each index of `shape` to every element of `target`.

    >>> print(everything_map((4,), (2, 3)))
    (d0)[s0, s1] -> (s0, s1), domain: d0 in [0, 3], s0 in [0, 1], s1 in [0, 2]
    >>> print(everything_map((4,), ()))
    (d0) -> (), domain: d0 in [0, 3]
    """
    at = MapBuilder(shape)
    return at.map([at.range(size) for size in target])


def everything(shape: Dims, target: Dims) -> Accesses:
    """Return the exact access from each index of `shape` to every element of `target`."""
    return exact(everything_map(shape, target))


def runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and last number of each run of consecutive numbers.

    `numbers` is ascending.

    >>> runs([0, 1, 4])
    [(0, 1), (4, 4)]
    """
    found: list[tuple[int, int]] = []
    for n in numbers:
        if found and found[-1][1] == n - 1:
            found[-1] = found[-1][0], n
        else:
            found.append((n, n))
    return found


def all_of_operands(ins: Instruction, first: int) -> tuple[Accesses, ...]:
    """Return, for each operand from number `first` on, the access to all its elements.

    The access is the same from every element of the output.
    """
    shape = sizes(ins.type)
    return tuple(everything(shape, sizes(operand.type)) for operand in ins.operands[first:])


def everywhere(ins: Instruction, operand: int) -> tuple[Accesses, ...]:
    """Return, for each output, the access from an operand element to all its elements."""
    source = sizes(ins.operands[operand].type)
    return tuple(everything(source, target) for target in all_output_sizes(ins))
