"""Tables of types and of ops with attributes, each read once for a text.

Lines of a dump differ in names and metadata, but have only a few hundred variants of the rest.
Names of computations are removed before the look-up, since each fusion calls its own.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from hloscope.errors import ParseError
from hloscope.hlo_parser.attributes import split_attributes
from hloscope.hlo_parser.literals import HloLiteral
from hloscope.hlo_parser.opcodes import COMMON, SPELLINGS
from hloscope.hlo_parser.scanner import NAME, without_comments
from hloscope.hlo_parser.spelling import is_opcode, read_op
from hloscope.hlo_parser.types import parse_type
from hloscope.ir import Op, TensorType, TupleType, Type
from hloscope.lazy import pattern
from hloscope.ops import Constant, Parameter

_CALLS: Final = sorted({name for row in SPELLINGS.values() for name in row.callees})
_CALLEE: Final = pattern(rf"(, (?:{'|'.join(_CALLS)})=)%?({NAME})(?=,|\Z)")
_HOLE: Final = "\0"
_ATTRIBUTES: Final = pattern(r", [^\n]*[^,\s]\Z")

CALLING: Final = frozenset(
    opcode
    for base, row in SPELLINGS.items()
    if row.callees
    for opcode in (base, f"{base}-start", f"{base}-update", f"{base}-done")
)
"""Opcodes with attributes that may name a computation."""
HOLDING_TEXT: Final = frozenset(("constant", "parameter"))
"""Opcodes whose parentheses have no operands."""


Pairs: TypeAlias = tuple[tuple[str, str], ...]
Calls = tuple[Any, ...]
"""Called computations: an `int` is an index into the removed names, a `str` is a name."""

Variant = tuple[Op, Calls, tuple[Any, ...], Pairs]
"""Op, called computations, names of control predecessors, attributes as text."""


def _unadorned(opcode: str, inside: str) -> Variant | None:
    """Return `read_op`'s result for a parameter or constant without attributes, or `None`."""
    if opcode == "constant":
        return Constant(HloLiteral(inside.strip())), (), (), ()
    return (Parameter(int(inside)), (), (), ()) if inside.isdecimal() else None


class Types(dict[str, Type]):
    """Types by their text."""

    def __missing__(self, text: str) -> Type:
        type_ = self[text] = parse_type(without_comments(text))
        return type_


class Variants(dict[str | tuple[str, str], Variant]):
    """Ops of one opcode, by their attributes without computation names.

    The key has the text in parentheses as a second part if that is not operands.
    """

    def __init__(self, opcode: str) -> None:
        super().__init__()
        self._opcode: Final = opcode

    def __missing__(self, key: str | tuple[str, str]) -> Variant:
        opcode = self._opcode
        attributes, *inside = (key,) if isinstance(key, str) else key
        if inside and not attributes and "/" not in inside[0]:
            common = _unadorned(opcode, inside[0])
            if common is not None:
                self[key] = common
                return common
        # A missing key means that the general reader must read the line; errors are its task too.
        if not is_opcode(opcode) or (attributes and not _ATTRIBUTES.match(attributes)):
            raise KeyError("not in the printed form")
        op, names, predecessors, extras = read_op(opcode, attributes, *inside)
        if any(name.startswith("{") for name in names):
            raise KeyError("a computation stands inside the instruction")
        calls = tuple(int(name[1:]) if name[0] == _HOLE else name for name in names)
        if sum(isinstance(call, int) for call in calls) != attributes.count(_HOLE):
            raise KeyError("a computation's name stands inside a string")
        variant = self[key] = (op, calls, predecessors, extras)
        return variant


Head = tuple[Type, Variants, bool, bool]
"""Type, ops of the opcode, whether they may call, whether their parentheses have operands."""


class Heads(dict[str, Head]):
    """Heads of instructions, `f32[2]{0} add`, by their text."""

    def __init__(self, types: Types) -> None:
        super().__init__()
        self._types: Final = types
        self._variants: Final[dict[str, Variants]] = {}

    def __missing__(self, text: str) -> Head:
        type_text, _, opcode = text.rpartition(" ")
        type_ = self._types[type_text]
        variants = self._variants.get(opcode)
        if variants is None:
            variants = self._variants[opcode] = Variants(opcode)
        head = self[text] = (type_, variants, opcode in CALLING, opcode not in HOLDING_TEXT)
        return head


class Tails(set[str]):
    """Texts after metadata that have only attributes which are kept as text."""

    def accept(self, text: str) -> bool:
        """Does `text` have only attributes that are kept as text?"""
        if text in self:
            return True
        try:
            names = [name for name, _, _ in split_attributes(text)]
        except ParseError:
            return False
        if "control-predecessors" in names or not set(names) <= set(COMMON):
            return False
        self.add(text)
        return True


def take_callees(attributes: str) -> tuple[str, list[str]]:
    r"""Return attributes with numbered placeholders for computation names, and the names.

    >>> take_callees(", condition=%c, body=%b")
    (', condition=\x000, body=\x001', ['c', 'b'])
    """
    parts = _CALLEE.split(attributes)
    if len(parts) == 1:
        return attributes, []
    if len(parts) == 4:
        before, attribute, name, after = parts
        return f"{before}{attribute}{_HOLE}0{after}", [name]
    names = parts[2::3]
    parts[2::3] = [f"{_HOLE}{number}" for number in range(len(names))]
    return "".join(parts), names


def compatible(left: Type, right: Type) -> bool:
    """Are the types equal, apart from layouts?"""
    pairs = [(left, right)]
    while pairs:
        a, b = pairs.pop()
        if a is b:
            continue
        if isinstance(a, TensorType) and isinstance(b, TensorType):
            if a.element is not b.element or a.sizes != b.sizes or a.bounds != b.bounds:
                return False
        elif isinstance(a, TupleType) and isinstance(b, TupleType):
            if len(a.elements) != len(b.elements):
                return False
            pairs += zip(a.elements, b.elements, strict=True)
        elif a != b:
            return False
    return True
