"""Conversion of opcodes and attributes between text and ops, by the table in `opcodes`."""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias

from hloscope.errors import ParseError, UnsupportedError
from hloscope.hlo_parser.literals import HloLiteral
from hloscope.hlo_parser.metadata import written as written_text
from hloscope.hlo_parser.opcodes import COMMON, GROUPS, OPCODES, SPELLINGS, Attribute, Spelling
from hloscope.hlo_parser.scanner import (
    NAME,
    Attribute as Part,
    error_in_source,
    fail,
    near,
    split_attributes,
    without_comments,
)
from hloscope.hlo_parser.types import parse_type
from hloscope.hlo_parser.values import read_call, read_calls
from hloscope.ir import Op, TensorType, TupleType, Type
from hloscope.ops import (
    AsyncDone,
    AsyncStart,
    AsyncUpdate,
    Case,
    Constant,
    CustomCall,
    Parameter,
    UnknownOp,
)
from hloscope.support.lazy import pattern
from hloscope.support.source import Source

# --------------------------------------------------------------------------------------------------
# Conversion between opcode and attribute text and ops, by the table in `opcodes`.
#
# Reading is cached by opcode and attributes: a dump repeats a few hundred of them thousands of
# times, with different metadata.


Pairs: TypeAlias = tuple[tuple[str, str], ...]
"""Attributes that are stored as text: pairs (name, text)."""

Read: TypeAlias = tuple[Op, tuple[str, ...], tuple[str, ...], Pairs]
"""What the text of an instruction besides type and operands means.

Op, names of called computations, names of control predecessors, attributes without a field as text.
"""

_COMMON: Final = pattern(rf",\s*(?:{'|'.join(map(re.escape, COMMON))})\s*=")
Built: TypeAlias = tuple[Op, tuple[str, ...], Pairs]

_MEMO: Final[dict[tuple[str, str, str], Built]] = {}
_MOST: Final = 1 << 13
"""Maximum entries of the cache of ops, which is then emptied.

11 MB of HLO have 1,806 texts of ops.
"""
_LONG: Final = 200
"""Maximum characters of a literal that is cached."""
_SUGAR: Final = pattern(r"(.+)-(start|update|done)")
_ASYNC: Final = {
    "start": ("async_execution_thread", "output_to_operand_aliasing"),
    "update": ("async_execution_thread",),
    "done": ("async_execution_thread",),
}
"""Attributes of an asynchronous op itself, not of the op that it wraps."""

_NO_STEPS: Final = {
    "all-gather": ("update",),
    "all-reduce": ("update",),
    "collective-permute": ("update",),
    "copy": ("update",),
    "recv": ("start", "update"),
    "send": ("start", "update"),
}
"""Steps (`start`, `update`, `done`) that an opcode does not have.

Its asynchronous forms are opcodes of their own.
"""


def read_op(opcode: str, attributes: str = "", inside: str = "") -> Read:
    """Return op, called computations, control predecessors and other attributes of an instruction.

    Names are without `%`; a nested computation is returned as its text, `{…}`.

    Args:
        opcode: Opcode as written, `add`, `all-gather-start`.
        attributes: Text after the operand list: `, dimensions={0}, metadata={…}`.
        inside: Text in the parentheses of `parameter(0)` and `constant({1, 2})`.

    >>> read_op("reduce", ", dimensions={1}, to_apply=%add, metadata={}")
    (Reduce(dimensions=(1,)), ('add',), (), (('metadata', '{}'),))

    Raises:
        ParseError: The text is invalid. Offsets are in `attributes`; for errors in `opcode` or
            `inside`, in these.
    """
    # Attributes common to all opcodes are printed last and differ from line to line, so the cache's
    # key is only the text before them.
    common = _COMMON.search(attributes)
    head = attributes if common is None else attributes[: common.start()]
    key = (opcode, head, inside if opcode in ("parameter", "constant") else "")
    known = _MEMO.get(key)
    if known is None:
        try:
            known = _build(opcode, split_attributes(head), head, inside)
        except ParseError:
            if common is None:
                raise
            return _read_all(opcode, attributes, inside)  # the comma was inside brackets
        if len(inside) <= _LONG:
            if len(_MEMO) >= _MOST:
                _MEMO.clear()
            _MEMO[key] = known
    op, calls, extras = known
    if common is None:
        return op, calls, (), extras
    try:
        tail = split_attributes(attributes[common.start() :])
    except ParseError:
        return _read_all(opcode, attributes, inside)  # raises, with the right offset
    if any(name not in COMMON for name, _, _ in tail):
        return _read_all(opcode, attributes, inside)
    predecessors, more = _read_common(tail, attributes)
    return op, calls, predecessors, extras + more


def read_unknown(opcode: str, attributes: str = "") -> Read:
    """Return an `UnknownOp` for `opcode`, with all its attributes as text."""
    parts = split_attributes(attributes)
    own = tuple((name, value) for name, value, _ in parts if name not in COMMON)
    common = [part for part in parts if part[0] in COMMON]
    predecessors, extras = _read_common(common, attributes)
    return UnknownOp(opcode, own), (), predecessors, extras


def is_opcode(opcode: str) -> bool:
    """Is `opcode` an HLO opcode?

    >>> is_opcode("add"), is_opcode("all-gather-start"), is_opcode("sclie")
    (True, True, False)
    """
    return opcode in SPELLINGS or _asynchronous_parts(opcode) is not None


def _asynchronous_parts(opcode: str) -> tuple[str, str] | None:
    """Split an asynchronous opcode into base opcode and step: `all-gather`, `start`.

    The result is `None` for other opcodes.
    """
    found = _SUGAR.fullmatch(opcode)
    if found is None or found[1] not in SPELLINGS or _SUGAR.fullmatch(found[1]):
        return None
    base, step = found[1], found[2]
    return None if step in _NO_STEPS.get(base, ()) else (base, step)


def is_impossible(opcode: str) -> bool:
    """Is `opcode` a step that its base opcode does not have, such as `all-gather-update`?

    >>> is_impossible("recv-start"), is_impossible("recv-done"), is_impossible("mystery-start")
    (True, False, False)
    """
    found = _SUGAR.fullmatch(opcode)
    return found is not None and found[2] in _NO_STEPS.get(found[1], ()) and not is_opcode(opcode)


def _read_all(opcode: str, attributes: str, inside: str) -> Read:
    parts = split_attributes(attributes)
    own = [part for part in parts if part[0] not in COMMON]
    common = [part for part in parts if part[0] in COMMON]
    op, calls, extras = _build(opcode, own, attributes, inside)
    predecessors, more = _read_common(common, attributes)
    return op, calls, predecessors, extras + more


def _read_common(parts: list[Part], text: str) -> tuple[tuple[str, ...], Pairs]:
    predecessors: tuple[str, ...] = ()
    extras: list[tuple[str, str]] = []
    seen: set[str] = set()
    for name, value, _ in parts:
        if name in seen:
            at = text.rindex(name)
            fail(f"attribute `{name}` is given twice", text, at, at + len(name))
        seen.add(name)
        if name == "control-predecessors":
            predecessors = read_calls(value)
        else:
            extras.append((name, written_text(name, value)))
    return predecessors, tuple(extras)


def _build(opcode: str, parts: list[Part], text: str, inside: str) -> Built:
    spelling = SPELLINGS.get(opcode)
    if spelling is not None:
        return _build_plain(spelling, parts, text, inside)
    sugared = _asynchronous_parts(opcode)
    if sugared is None:
        hint = near(opcode, SPELLINGS, 3)
        also = f"; did you mean `{hint}`?" if hint else ""
        fail(f"unknown opcode `{opcode}`{also}", opcode, 0, len(opcode))
    base, step = sugared
    spelling = SPELLINGS[base]
    # If the wrapped op also has the attribute, it belongs to that op.
    names = [name for name in _ASYNC[step] if name not in spelling.attributes]
    settings = tuple((name, value) for name, value, _ in parts if name in names)
    rest = [part for part in parts if part[0] not in names]
    if step == "start":
        op, calls, extras = _build_plain(spelling, rest, text, inside)
        return AsyncStart(op, settings), calls, extras
    extras = tuple((name, value) for name, value, _ in rest)
    cls = AsyncUpdate if step == "update" else AsyncDone
    return cls(base, settings), (), extras


def _build_plain(spelling: Spelling, parts: list[Part], text: str, inside: str) -> Built:
    given: dict[str, tuple[str, int]] = {}
    extras: list[tuple[str, str]] = []
    for name, value, at in parts:
        if name in given:
            fail(f"attribute `{name}` is given twice", text, at, at + len(name))
        if name in spelling.attributes:
            given[name] = value, at
            continue
        hint = near(name, [*spelling.attributes, *COMMON])
        if hint is not None and hint not in given:
            message = f"`{spelling.opcode}` has no attribute `{name}`; did you mean `{hint}`?"
            fail(message, text, at, at + len(name))
        extras.append((name, value))
    for attribute in spelling.attributes.values():
        if attribute.required and attribute.name not in given:
            fail(f"`{spelling.opcode}` needs attribute `{attribute.name}`", text, 0, len(text))
    op, calls = _make(spelling, given, text, inside)
    return op, calls, tuple(extras)


def _make(
    spelling: Spelling, given: dict[str, tuple[str, int]], text: str, inside: str
) -> tuple[Op, tuple[str, ...]]:
    values: dict[str, Any] = _first_fields(spelling, given, text, inside)
    groups: dict[str, dict[str, Any]] = {}
    settings: list[tuple[str, str]] = []
    calls: list[str] = []
    # Attributes are visited in the table's order, which is the order of called computations too.
    for attribute in spelling.attributes.values():
        name = attribute.name
        if name not in given:
            if attribute.kind in ("call", "calls", "setting"):
                continue
            value = attribute.default
        else:
            written, at = given[name]
            value = _read_value(attribute, written, text, at)
            if attribute.kind in ("call", "calls"):
                calls += value
                continue
            if attribute.kind == "setting":
                settings.append((attribute.fields[0], written))
                continue
            if attribute.kind == "dim_labels" and "?" in written:
                settings.append((name, written))  # the dimensions do not determine the rank
        if len(attribute.fields) > 1:
            values.update(zip(attribute.fields, value, strict=True))
        else:
            into = groups.setdefault(attribute.group, {}) if attribute.group else values
            into[attribute.fields[0]] = value
    for group, fields in groups.items():
        values[group] = GROUPS[group](**fields)
    if settings:
        values["settings"] = tuple(settings)
    return spelling.op(**values), tuple(calls)


def _first_fields(
    spelling: Spelling, given: dict[str, tuple[str, int]], text: str, inside: str
) -> dict[str, Any]:
    """Return the op's fields that the text in parentheses sets.

    Conditions between attributes are checked.

    Args:
        spelling: The entry of the opcode.
        given: Value and offset of each attribute, by name.
        text: The text of the attributes, for errors.
        inside: The text in parentheses.
    """
    if spelling.op is Parameter:
        if not inside.strip().isdecimal():
            fail(f"expected a parameter number, found `{inside}`", inside, 0, len(inside))
        return {"number": int(inside)}
    if spelling.op is Constant:
        return {"literal": HloLiteral(inside.strip())}
    if spelling.op is Case:
        branches = {"true_computation", "false_computation"} & given.keys()
        if len(branches) == 1 or bool(branches) == ("branch_computations" in given):
            message = "`conditional` needs `true_computation` and `false_computation`, or"
            fail(f"{message} `branch_computations`", text, 0, len(text))
        return {"predicated": bool(branches)}
    return {}


def _read_value(attribute: Attribute, written: str, text: str, at: int) -> Any:
    """Return the value of an attribute whose text is `written`.

    An error has its position in `text`, the text of all attributes, in which this one begins at
    `at`.
    """
    try:
        if attribute.kind == "call":
            return read_call(written)
        if attribute.kind == "calls":
            return read_calls(written) if written.startswith("{") else read_call(written)
        return written if attribute.grammar is None else attribute.grammar.read(written)
    except ParseError as error:
        base = text.index("=", at) + 1
        base += len(text[base:]) - len(text[base:].lstrip())
        raise error_in_source(error, Source("<attributes>", text), base) from None


# ----------------------------------------------------------------------------------- writing

CALL: Final = "\0"
"""Placeholder for the next called computation in the texts that `template` returns."""

Template: TypeAlias = tuple[str, tuple[str, ...]]
"""Opcode, and the texts of the attributes with `CALL` for each called computation."""

_TEMPLATES: Final[dict[tuple[type[Op], Op, int], Template]] = {}


def template(op: Op, calls: int) -> Template:
    """Return the opcode and the attribute texts of an op that calls `calls` computations.

    Each called computation is a placeholder `CALL`.
    """
    # Cached: printing a dump repeats a few hundred ops thousands of times.
    key = (type(op), op, calls)
    known = _TEMPLATES.get(key)
    if known is None:
        if len(_TEMPLATES) >= _MOST:
            _TEMPLATES.clear()
        known = _TEMPLATES[key] = _write(op, calls)
    return known


def opcode_of(op: Op) -> str:
    """Return the HLO opcode of an op, such as `all-reduce-start`.

    Raises:
        UnsupportedError: HLO does not have the op.
    """
    step = ""
    while isinstance(op, AsyncStart) and op.wrapped is not None:
        op, step = op.wrapped, f"-start{step}"
    if isinstance(op, UnknownOp):
        return op.opcode + step
    if isinstance(op, AsyncUpdate | AsyncDone) and op.wrapped_name:
        return f"{op.wrapped_name}-{'update' if isinstance(op, AsyncUpdate) else 'done'}{step}"
    opcode = OPCODES.get(type(op), "")
    if not opcode:
        raise UnsupportedError(f"HLO text has no op `{op.name}`")
    return opcode + step


def _write(op: Op, calls: int) -> Template:
    opcode = opcode_of(op)
    if isinstance(op, AsyncStart) and op.wrapped is not None:
        texts = template(op.wrapped, calls)[1]
        return opcode, texts + tuple(f"{name}={text}" for name, text in op.settings)
    if isinstance(op, UnknownOp) or (isinstance(op, AsyncUpdate | AsyncDone) and op.wrapped_name):
        return opcode, tuple(f"{name}={text}" for name, text in op.settings)
    settings_of = dict(getattr(op, "settings", ()))
    texts_: list[str] = []
    for attribute in SPELLINGS[opcode].attributes.values():
        written = _write_attribute(op, attribute, settings_of, calls)
        if written is not None:
            texts_.append(f"{attribute.name}={written}")
    texts_ += (f"{name}={text}" for name, text in settings_of.items())
    return opcode, tuple(texts_)


def _write_attribute(
    op: Op, attribute: Attribute, settings: dict[str, str], calls: int
) -> str | None:
    """Return the text of one attribute of an op; `None` if HLO text omits it.

    Args:
        op: The op.
        attribute: The attribute.
        settings: Attributes that are stored as text; this attribute is removed from them.
        calls: Number of called computations.
    """
    kind = attribute.kind
    if kind in ("call", "calls"):
        return _write_call(op, attribute, calls)
    if kind == "setting":
        return settings.pop(attribute.fields[0], None)
    if kind == "dim_labels" and attribute.name in settings:
        return settings.pop(attribute.name)
    owner: Any = getattr(op, attribute.group) if attribute.group else op
    value: Any = tuple(getattr(owner, name) for name in attribute.fields)
    if len(attribute.fields) == 1:
        (value,) = value
    if value == attribute.default and not attribute.always:
        return None
    assert attribute.grammar is not None
    return attribute.grammar.write(value)


def _write_call(op: Op, attribute: Attribute, calls: int) -> str | None:
    """Return the text of an attribute that names called computations; `None` to omit it.

    `calls` is the number of called computations; each is a placeholder `CALL`.
    """
    if isinstance(op, Case):
        if op.predicated == (attribute.kind == "calls"):
            return None
    elif isinstance(op, CustomCall):
        if attribute.name == "to_apply" or not calls:
            return None
    elif calls == 0:
        return None
    if attribute.kind == "call":
        return CALL
    return "{" + ", ".join([CALL] * calls) + "}"


# --------------------------------------------------------------------------------------------------
# Tables of types and of ops with attributes; equal texts are read once.
#
# Lines of a dump differ in names and metadata, but have only a few hundred variants of the rest.
# Names of computations are removed before the look-up, since each fusion calls its own.


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
"""Opcodes with attributes whose values may be names of computations."""
HOLDING_TEXT: Final = frozenset(("constant", "parameter"))
"""Opcodes whose parentheses contain a text that is not a list of operands."""


TextPairs: TypeAlias = tuple[tuple[str, str], ...]
Calls = tuple[Any, ...]
"""Called computations of a cached op.

An `int` is an index into the names that `take_callees` removed, a `str` is a name.
"""

Variant = tuple[Op, Calls, tuple[Any, ...], TextPairs]
"""A cached op: op, called computations, names of control predecessors, other attributes.

The other attributes, those without a field in the op, are text.
"""


def _without_attributes(opcode: str, inside: str) -> Variant | None:
    """Return the cached form of a parameter or constant without attributes.

    `None` for a parameter whose number is invalid. `inside` is the text in the parentheses.
    """
    if opcode == "constant":
        return Constant(HloLiteral(inside.strip())), (), (), ()
    return (Parameter(int(inside)), (), (), ()) if inside.isdecimal() else None


class Types(dict[str, Type]):
    """Cache of types by their text; looking up an unknown text reads it."""

    def __missing__(self, text: str) -> Type:
        type_ = self[text] = parse_type(without_comments(text))
        return type_


class Variants(dict[str | tuple[str, str], Variant]):
    """Ops of one opcode by the text of their attributes; looking up an unknown text reads it.

    Names of computations in the text are placeholders. If the parentheses contain another text than
    operands, the key is a pair with that text.
    """

    def __init__(self, opcode: str) -> None:
        super().__init__()
        self._opcode: Final = opcode

    def __missing__(self, key: str | tuple[str, str]) -> Variant:
        opcode = self._opcode
        attributes, *inside = (key,) if isinstance(key, str) else key
        if inside and not attributes and "/" not in inside[0]:
            common = _without_attributes(opcode, inside[0])
            if common is not None:
                self[key] = common
                return common
        # A missing key means that the general reader must read the line; it also reports errors.
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
"""What the text `f32[2]{0} add` before an instruction's parentheses means.

Type, cache of ops of the opcode, whether they may call computations, whether the parentheses
contain operands.
"""


class Heads(dict[str, Head]):
    """Cache of `Head` by the text `f32[2]{0} add`; looking up an unknown text reads it."""

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
    """Texts after an instruction's metadata that contain only attributes without a field."""

    def accept(self, text: str) -> bool:
        """Does `text` contain only attributes that are stored as text, in no field of the op?"""
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
    r"""Replace the names of computations in attributes by numbered placeholders.

    Return the new text, and the names.

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
    """Are the types equal, apart from their layouts?"""
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
