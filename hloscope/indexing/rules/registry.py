"""Registry of the rules, by op and direction.

A rule takes the instruction, its op and the number of the output (or operand), and returns the
accesses of each operand (or output). It reads sizes and parameters only, never syntax, so both
front ends share it. Outputs are the arrays of the result type, numbered in order. The rule of an op
that calls computations gets their dependences and does not inspect them itself.

The rules of a family of ops are in the file with its name. The file is imported at the first lookup
of one of its ops, as a program has ops of few families.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from importlib import import_module
from typing import Final, TypeAlias, TypeVar

from msgspec import Struct

from hloscope.indexing.access import Accesses, Precision
from hloscope.ir import Op
from hloscope.lazy import once_for_each

Rule: TypeAlias = Callable[..., tuple[Accesses, ...]]
"""Function of an instruction, its op and a number; also of `Bodies` if the entry says so."""
R = TypeVar("R", bound=Callable[..., tuple[Accesses, ...]])


class Direction(StrEnum):
    """Direction of a map."""

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


Claim: TypeAlias = tuple[Precision, str, bool, bool, bool]
"""The fields of an entry after the rule."""
RULES: Final[dict[Direction, dict[type[Op], Entry]]] = {direction: {} for direction in Direction}
"""The rules by direction and op class, of the families that were looked up."""
_FAMILIES: Final = "hloscope.ops."
APART: Final = {
    "Copy": "control",
    "CustomCall": "custom_calls",
    "Map": "elementwise",
    "RaggedDot": "ragged",
    "Scan": "scan",
}
"""Classes of ops whose rules are not in the file of their family."""
_NEAREST: Final[dict[Direction, dict[type[Op], Entry | None]]] = {way: {} for way in Direction}
"""Results of lookups, dropped when a rule is registered."""


class Instances(Struct, frozen=True):
    """Uses of a called computation's result by an element of an output.

    Attributes:
        call: Number of the computation among those that the instruction calls.
        result: Number of the leaf of its root.
        accesses: From the element of the output to elements of that leaf.
    """

    call: int
    result: int
    accesses: Accesses


_INSTANCES: Final[dict[type[Op], Callable[..., Iterable[Instances]]]] = {}
"""By op class, the function registered by `comes_from`."""
I = TypeVar("I", bound=Callable[..., Iterable[Instances]])  # noqa: E741


def comes_from(*classes: type[Op]) -> Callable[[I], I]:
    """Register which results of the called computations the outputs of ops depend on.

    The function takes the instruction, its op, an output and the bodies.
    """

    def register(found: I) -> I:
        _INSTANCES.update(dict.fromkeys(classes, found))
        return found

    return register


def _register(
    direction: Direction, classes: tuple[type[Op], ...], claim: Claim
) -> Callable[[R], R]:
    def decorate(rule: R) -> R:
        _NEAREST[direction].clear()
        RULES[direction].update(dict.fromkeys(classes, Entry(rule, *claim)))
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
    """Register a rule from the index of one output to the elements that it reads of each operand.

    Args:
        classes: The ops of the rule; a class stands for its subclasses too.
        shared: Whether the result depends only on the op, the types and the bodies, so that equal
            instructions share it.
        precision: The weakest precision of the rule.
        reason: Why it is not exact.
        bodies: Whether the last argument is the dependences of the called computations.
        counts: Whether the last argument is the `DeviceCounts` of the program; excludes `bodies`.
    """
    claim = (precision, reason, bodies, shared, counts)
    return _register(Direction.OUTPUT_TO_INPUT, classes, claim)


def input_to_output(
    *classes: type[Op],
    shared: bool = True,
    precision: Precision = Precision.EXACT,
    reason: str = "",
    bodies: bool = False,
    counts: bool = False,
) -> Callable[[R], R]:
    """Register a rule from the index of one operand to the elements of each output it influences.

    The arguments are those of `output_to_input`; the relation is its exact inverse.
    """
    claim = (precision, reason, bodies, shared, counts)
    return _register(Direction.INPUT_TO_OUTPUT, classes, claim)


def elsewhere(*classes: type[Op], reason: str, precision: Precision = Precision.EXACT) -> None:
    """State that ops are analysed in another package, through the computations they call."""
    _state(classes, Entry(None, precision, reason))


def missing(*classes: type[Op], reason: str) -> None:
    """State that nothing is known about ops in both directions, and why."""
    _state(classes, Entry(None, Precision.UNKNOWN, reason))


def _state(classes: tuple[type[Op], ...], entry: Entry) -> None:
    for direction in Direction:
        _NEAREST[direction].clear()
        RULES[direction].update(dict.fromkeys(classes, entry))


def lookup(direction: Direction, cls: type[Op]) -> Entry | None:
    """Return the entry of a class or of its nearest base class with an entry."""
    known = _NEAREST[direction]
    try:
        return known[cls]
    except KeyError:
        _load(cls)
        table = RULES[direction]
        found = next((table[base] for base in cls.__mro__ if base in table), None)
        known[cls] = found  # which another thread may forget at once, as it registers rules
        return found


def source_of(cls: type[Op]) -> Callable[..., Iterable[Instances]] | None:
    """Return the function that `comes_from` registered for a class, or `None`."""
    _load(cls)
    return _INSTANCES.get(cls)


def file_of(cls: type) -> str:
    """Return the name of the file with the rules of a class of ops, if it has any.

    >>> from hloscope.ops import Reverse, Scan
    >>> file_of(Reverse), file_of(Scan)
    ('shape', 'scan')
    """
    return APART.get(cls.__name__) or cls.__module__.removeprefix(_FAMILIES)


@once_for_each
def _load(cls: type[Op]) -> None:
    """Import the files with rules of a class or its bases.

    Other threads wait until that is done.
    """
    for base in cls.__mro__:
        if base.__module__.startswith(_FAMILIES):
            name = f"{__package__}.{file_of(base)}"
            try:
                import_module(name)
            except ModuleNotFoundError as error:
                if error.name != name:
                    raise
