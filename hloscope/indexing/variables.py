"""Variables of a map: intervals, names, and the origin of values read at run time."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Final, TypeAlias, TypeVar
from weakref import ref

from msgspec import Struct, StructMeta
from msgspec.structs import replace

from hloscope.affine import (
    Const,
    Dim,
    Expr,
    Interval,
    Range,
    Runtime,
    Var,
    substitute,
    variables,
)
from hloscope.ir import CalledValue, Instruction, called_value, captured
from hloscope.ops import Constant, GetTupleElement, Iota, Parameter, While
from hloscope.support.lazy import pattern
from hloscope.support.system import shared_lock

# --------------------------------------------------------------------------------------------------
# Variables of a map: intervals, names, and the origin of values read at run time.


Constraint: TypeAlias = tuple[Expr, Interval]
"""The constraint `expr in interval`; all constraints of a map hold."""


class VariableKind(StrEnum):
    """Role of a variable in a GPU program, determined by its name."""

    DEFAULT = "default"
    THREAD_X = "th_x"
    THREAD_Y = "th_y"
    THREAD_Z = "th_z"
    BLOCK_X = "bl_x"
    BLOCK_Y = "bl_y"
    BLOCK_Z = "bl_z"
    WARP = "warp"
    WARP_THREAD = "th_w"

    @classmethod
    def of_name(cls, name: str) -> VariableKind:
        """Return the role of the variables with this name; `DEFAULT` for any other name.

        >>> VariableKind.of_name("th_x"), VariableKind.of_name("pid")
        (<VariableKind.THREAD_X: 'th_x'>, <VariableKind.DEFAULT: 'default'>)
        """
        return _KINDS.get(name, cls.DEFAULT)


_KINDS: Final = {str(kind): kind for kind in VariableKind}


class _Interned(StructMeta):
    """Metaclass that interns `Variable`: equal variables are the same object."""

    def __call__(cls, interval: Interval, name: str = "") -> Variable:  # noqa: N805
        key = interval.lo, interval.hi, name
        entry = _LIVE.get(key)
        found = None if entry is None else entry()
        if found is None:
            made: Variable = super().__call__(interval, name)
            with _LOCK:  # another thread may have added the variable in the meantime
                entry = _LIVE.get(key)
                found = None if entry is None else entry()
                if found is None:
                    found = made
                    _LIVE[key] = ref(made, partial(_forget, key))
        return found


_LOCK: Final = shared_lock()
_LIVE: Final[dict[tuple[int, int, str], ref[Variable]]] = {}


def _forget(key: tuple[int, int, str], entry: ref[Variable]) -> None:
    """Remove the entry of a garbage-collected variable, unless a new variable has replaced it."""
    with _LOCK:
        if _LIVE.get(key) is entry:
            del _LIVE[key]


class Variable(Struct, metaclass=_Interned, frozen=True, eq=False, weakref=True):
    """A dimension or range variable of a map: its interval and its name.

    A variable without a name is printed by its position: `d0`, `s0`. Variables are interned, so
    that maps are compared and looked up fast.

    >>> Variable(Interval(0, 7)) is Variable(Interval(0, 7))
    True
    """

    interval: Interval
    name: str = ""

    def __copy__(self) -> Variable:
        return self

    @property
    def kind(self) -> VariableKind:
        """Role of the variable in a GPU program, by its name."""
        return VariableKind.of_name(self.name)


class RuntimeVariable(Struct, frozen=True):
    """A runtime variable: an integer read from a tensor at run time, or the position of a device.

    Attributes:
        interval: Values for which the map holds.
        name: Printed name; empty for `rt0` by position.
        origin: The instruction whose value is read; `None` if unknown.
        index: The element of the origin that is read: expressions over the variables of the map,
            also over other runtime variables, without cycles.
        clamp: Interval to which the value is clamped when it is read, if it is larger than
            `interval`; else `None`.
        collective: If set, nothing is read: the value is the position of the device in its group
            of this collective.
        is_every: The value is every position in the group, whose size is not written.
        via: Collectives that lead to the device of the read, the first one from the device of the
            output.
        positions: For each of `via`, the position in its group of the device it leads to.
    """

    interval: Interval
    name: str = ""
    origin: Instruction | None = None
    index: tuple[Expr, ...] = ()
    clamp: Interval | None = None
    collective: Instruction | None = None
    is_every: bool = False
    via: tuple[Instruction, ...] = ()
    positions: tuple[Expr, ...] = ()

    @property
    def source(self) -> Hashable:
        """Key of the value that is read; variables with equal keys and arguments have equal values.

        It is `None` if the origin is unknown.
        """
        if self.collective is not None:
            return self.collective, "every" if self.is_every else "position", self.via
        return (self.origin, "element", self.via) if self.via else self.origin

    @property
    def arguments(self) -> tuple[Expr, ...]:
        """Expressions that the value depends on: the index of the element and the device."""
        return self.index + self.positions

    def at(self, arguments: Sequence[Expr]) -> RuntimeVariable:
        """Return the variable with other `arguments`."""
        if not self.index and not self.positions:
            return self
        rank = len(self.index)
        # Written out instead of `replace`: compositions call nothing else as often.
        return RuntimeVariable(
            self.interval,
            self.name,
            self.origin,
            tuple(arguments[:rank]),
            self.clamp,
            self.collective,
            self.is_every,
            self.via,
            tuple(arguments[rank:]),
        )

    @property
    def values(self) -> Interval:
        """Every value that the variable can have after clamping."""
        return self.interval if self.clamp is None else self.clamp

    @property
    def is_condition(self) -> bool:
        """Does the map hold for only some of the variable's values?"""
        return self.clamp is not None

    @property
    def kind(self) -> VariableKind:
        """Role of the variable, by its name."""
        return VariableKind.of_name(self.name)


def below(size: int) -> Variable:
    """Return a variable without a name that takes the values `[0, size)`.

    >>> below(8).interval
    Interval(lo=0, hi=7)
    """
    return Variable(Interval(0, size - 1))


V = TypeVar("V", Variable, RuntimeVariable)


def replace_interval(variable: V, interval: Interval) -> V:
    """Return the variable with another interval.

    A runtime variable keeps its possible values in `clamp`.

    >>> replace_interval(RuntimeVariable(Interval(0, 4)), Interval(0, 2)).values
    Interval(lo=0, hi=4)
    """
    if interval == variable.interval:
        return variable
    if isinstance(variable, RuntimeVariable):
        clamp = None if interval.contains(variable.values) else variable.values
        return replace(variable, interval=interval, clamp=clamp)
    return Variable(interval, variable.name)


def renamed(variable: RuntimeVariable, new: dict[Var, Expr]) -> RuntimeVariable:
    """Return the runtime variable with variables in its index and positions replaced by `new`."""
    if not new or not (variable.index or variable.positions):
        return variable
    return variable.at(substituted(variable.arguments, new))


def substituted(exprs: Sequence[Expr], new: dict[Var, Expr]) -> tuple[Expr, ...]:
    """Return the expressions with variables replaced simultaneously by `new`."""
    if not new:
        return tuple(exprs)
    out: list[Expr] = []
    for e in exprs:
        found = new.get(e)  # type: ignore[arg-type]  # most expressions are bare variables
        if found is None:
            found = e if type(e) in _ATOMS else substitute(e, new)
        out.append(found)
    return tuple(out)


def in_a_circle(indices: Sequence[Sequence[Expr]]) -> list[int]:
    """Return the numbers of runtime variables whose indices depend on each other in a circle.

    `indices` has the index of each runtime variable. The result also has the variables whose index
    depends on such a circle.
    """
    needs = {i: variables(*index) for i, index in enumerate(indices)}
    # Topological sorting: what remains when no variable is ready depends on a circle.
    while ready := {i for i, used in needs.items() if not any(Runtime(j) in used for j in needs)}:
        needs = {i: used for i, used in needs.items() if i not in ready}
    return [*needs]


def substituted_constraints(
    constraints: Sequence[Constraint], new: dict[Var, Expr]
) -> list[Constraint]:
    """Return the constraints with variables replaced simultaneously by `new`."""
    if not constraints or not new:
        return [*constraints]
    exprs = substituted([e for e, _ in constraints], new)
    return [(e, interval) for e, (_, interval) in zip(exprs, constraints, strict=True)]


_ATOMS: Final = frozenset((Dim, Range, Runtime, Const))


PREFIXES: Final[dict[type[Var], str]] = {Dim: "d", Range: "s", Runtime: "rt"}
"""Prefix of the printed name of variables without a name; their position follows."""
_DEFAULT_NAME: Final = {kind: pattern(rf"{p}\d+") for kind, p in PREFIXES.items()}


def own_name(name: str, kind: type[Var]) -> str:
    """Return `name`, or "" if it is a default name of this kind (`d3` for a dimension).

    >>> own_name("d3", Dim), own_name("d3", Range), own_name("pid", Dim)
    ('', 'd3', 'pid')
    """
    return "" if _DEFAULT_NAME[kind].fullmatch(name) else name


def printed_names(
    dims: Sequence[Variable], ranges: Sequence[Variable], runtime: Sequence[RuntimeVariable]
) -> Mapping[Var, str]:
    """Return the printed name of each variable; all are different.

    A name that is used already gets a suffix, as two composed maps may both name a range `tile`.
    """
    if not any([v.name for group in (dims, ranges, runtime) for v in group]):
        return _names_by_position(len(dims), len(ranges), len(runtime))
    names: dict[Var, str] = {}
    taken: set[str] = set()
    groups: tuple[tuple[type[Var], Iterable[Variable | RuntimeVariable]], ...] = (
        (Dim, dims),
        (Range, ranges),
        (Runtime, runtime),
    )
    for kind, group in groups:
        for i, variable in enumerate(group):
            stem = name = variable.name or f"{PREFIXES[kind]}{i}"
            k = 0
            while name in taken:
                name, k = f"{stem}_{k}", k + 1
            taken.add(name)
            names[kind(i)] = name
    return names


def _names_by_position(dims: int, ranges: int, runtime: int) -> Mapping[Var, str]:
    """Return the default names of variables; the arguments are the numbers of each kind."""
    return {
        kind(i): f"{PREFIXES[kind]}{i}"
        for kind, count in ((Dim, dims), (Range, ranges), (Runtime, runtime))
        for i in range(count)
    }


# --------------------------------------------------------------------------------------------------
# Origins of runtime values. Two values that a program computes from common ones do not take all
# combinations of values.


MOST: Final = 1 << 14
"""Maximum number of instructions that a value is traced through; with more, it is unknown."""
_ValuePart: TypeAlias = tuple[Instruction | int, ...]
"""An instruction, or a parameter followed by the indices that lead to a part of its tuple."""


def are_related(one: Instruction, other: Instruction) -> bool:
    """May the value of one instruction restrict the possible values of the other?

    Two parameters, two parts of one, or values computed from different ones are independent.

    >>> from hloscope.hlo_parser import parse_hlo
    >>> e = parse_hlo("ENTRY e { k = s32[] parameter(0) l = s32[] parameter(1) c = s32[] copy(k) "
    ...               "ROOT t = (s32[], s32[]) tuple(c, l) }").entry
    >>> are_related(e["k"], e["l"]), are_related(e["k"], e["c"]), are_related(e["c"], e["l"])
    (False, True, False)
    """
    if one is other:
        return True
    mine, its = _computed_from(one), _computed_from(other)
    return mine is None or its is None or _share_value(mine, its) or _share_value(its, mine)


def _share_value(some: set[_ValuePart], others: set[_ValuePart]) -> bool:
    """Return whether a member of `some`, or a tuple that contains it, is a member of `others`."""
    return any(place[:k] in others for place in some for k in range(1, len(place) + 1))


def _computed_from(value: Instruction) -> set[_ValuePart] | None:
    """Return the value and all instructions and parameters that it is computed from.

    Constants and iotas are left out. A parameter of a called computation is traced to the operand
    of the call. The result is `None` if more than `MOST` instructions are involved.
    """
    found: set[_ValuePart] = set()
    todo = [value]
    seen: set[Instruction] = set()
    while todo:
        ins = todo.pop()
        # Constants have one value, so they relate nothing.
        if ins in seen or isinstance(ins.op, Constant | Iota):
            continue
        seen.add(ins)
        if len(seen) > MOST:
            return None
        if isinstance(ins, CalledValue):
            found.add((ins,))
            todo += _read_inside(ins)
            continue
        place = _origin_key(ins)
        found.add(place)
        # A part of a parameter's tuple is an input by itself and is not traced further.
        if len(place) == 1:
            todo += (*ins.operands, *captured(ins))
    return found


def _read_inside(value: CalledValue) -> list[Instruction]:
    """Return the values from which a value inside a called computation is computed.

    For a parameter of the computation they are operands of the call.
    """
    calls: list[tuple[Instruction, int]] = []
    inner: Instruction = value
    while isinstance(inner, CalledValue):
        calls.append((inner.call, inner.first))
        inner = inner.value
    read = [*inner.operands, *captured(inner)]
    if isinstance(inner.op, Parameter):
        call, first = calls.pop()
        number = first + inner.op.number
        # A loop's state may come from any earlier iteration, so all operands count.
        one = number < len(call.operands) and not isinstance(call.op, While)
        read = [call.operands[number]] if one else [*call.operands, *captured(call)]
    for call, first in reversed(calls):
        read = [called_value(v, call, first) for v in read]
    return read


def _origin_key(ins: Instruction) -> _ValuePart:
    """Return `(ins,)`; for a part of a parameter's tuple, the parameter and the indices."""
    numbers: list[int] = []
    value = ins
    while isinstance(value.op, GetTupleElement) and value.operands:
        numbers.append(value.op.index)
        value = value.operands[0]
    return (value, *numbers[::-1]) if isinstance(value.op, Parameter) else (ins,)
