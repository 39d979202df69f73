"""Notation of the tables of ops: one line, a row, declares everything about one op."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from hloscope.ir import ElementType, TensorType
from hloscope.mlir import (
    I32,
    INDEX,
    ArrayAttr,
    Attribute,
    AttributeSlot,
    BoolAttr,
    Definition,
    DenseArrayAttr,
    DictAttr,
    EnumAttr,
    IntegerAttr,
    Operation,
    Region,
    RegionSlot,
    Slot,
    StringAttr,
    StructAttr,
    Suggestion,
    VerbatimAttr,
    element_text,
)

# --------------------------------------------------------------------------------------------------
# Notation of a row, which declares everything about one op.
#
# A row is one line; deeper indented lines continue it.  It has columns, separated by `|`:
#
# 1. The op's name without its dialect, then exceptions: `class=case`, the name of its class;
#    `since=1.4.0`, the version of portable artifacts that introduced it; `names=a,b`, names of its
#    results in texts; `effect` if it must be kept even if its results have no users; `terminator`
#    if
#    it ends a block and the row has no column of traits.
# 2. Operands: `name:constraint`.  `*` after the name means any number of operands, `?` that it may
#    be
#    missing.
# 3. Attributes: in the same form, with `?` if it may be missing.  `name>field` gives the name of
#    the
#    class's field.  `=value` at the end is the meaning of a missing attribute; without `?`, MLIR
#    adds
#    the attribute to an op that is read.
# 4. Results, in the form of operands.
# 5. Regions and traits: `^name` is a region of one block, `^name*` any number of such regions,
#    `^name+` a region of any number of blocks.  `elements=a,b`, `types=a,b` and `ranks=a,b` name
#    operands and results with a common element type, type or rank; `sizes=a,b` names attributes of
#    equal length.  `@c3` after a trait is the label in the specification; the default is `c1`.
#
# A row of two columns, name and attributes, leaves the rest undeclared.  A row of one column is for
# an op whose definition is not known.  After `~` follows the pretty form, or the name of a form
# that several ops share.


def split_rows(text: str) -> list[str]:
    r"""Return the rows of a table, each joined into one line.

    >>> split_rows("    a | b\n        c\n    d")
    ['a | b c', 'd']
    """
    lines = text.replace("\n        ", " ").splitlines()
    return [row for line in lines if (row := line.strip())]


def head(row: str) -> tuple[str, dict[str, str]]:
    """Return an op's name, and the entries `key=value` of the first column of its row, by key."""
    name, *words = row.partition(" ~")[0].partition("|")[0].split()
    return name, {key: value for key, _, value in (word.partition("=") for word in words)}


def compile_row(row: str, dialect: str) -> Definition:
    """Return the definition of the op that a row of `dialect` declares.

    >>> compile_row("reverse | operand:FC | dimensions:dims | result:FC | infer", "d").traits
    ('infer',)
    """
    said, _, form = row.partition(" ~")
    name, more = head(row)
    full = f"{dialect}.{name}"
    _, *columns = (column.split() for column in said.split("|"))
    since = more.get("since", "0.9.0")
    suggested = tuple(more["names"].split(",")) if "names" in more else ()
    pure = "effect" not in more
    if len(columns) < 2:
        attributes = tuple(map(_attribute, columns[0])) if columns else ()
        return Definition(
            full,
            attributes=attributes,
            traits=("terminator",) if "terminator" in more else (),
            open=True,
            form=form,
            since=since,
            suggested=suggested,
            pure=pure,
        )
    operands, given, results, rest = columns
    # Traits and agreements have labels with the op's name; ops outside of the specification have
    # none.
    labels = _labels(dialect, name, len(operands), len(given))
    traits = [word for word in rest if not word.startswith("^") and "=" not in word]
    prefix = f"{name}_" if labels[0] else ""
    slots = tuple(map(_slot, results))
    return Definition(
        full,
        tuple(map(_slot, operands, labels)),
        tuple(map(_attribute, given, labels[len(operands) :])),
        slots,
        tuple(_region(word) for word in rest if word.startswith("^")),
        tuple(word.partition("@")[0] for word in traits),
        {trait: prefix + (c or "c1") for trait, _, c in (w.partition("@") for w in traits)}
        if prefix
        else {},
        tuple(_agreement(word, prefix) for word in rest if "=" in word),
        form=form,
        since=since,
        suggested=suggested or _names(slots),
        pure=pure,
    )


def _names(results: tuple[Slot, ...]) -> tuple[str, ...]:
    """Return the suggested names of an op's results: those of its definition if there are several.

    The result is empty for one result, and if a result is optional or variadic.
    """
    each_is_one = len(results) > 1 and not any(slot.count for slot in results)
    return tuple([slot.name for slot in results]) if each_is_one else ()


_UNSPECIFIED: Final = frozenset(
    "broadcast create_token cross-replica-sum dot einsum real_dynamic_slice return"
    " set_dimension_size torch_index_select unary_einsum".split()
)
"""StableHLO ops that the specification does not define."""
_SPREAD: Final = frozenset(
    "convolution dot_general dynamic_conv dynamic_gather gather scatter".split()
)
"""Ops with an attribute that the specification lists as several inputs."""


def _labels(dialect: str, name: str, operands: int, attributes: int) -> list[str]:
    """Return the specification's labels of an op's inputs: of operands first, then of attributes.

    A label such as `add_i1` is empty if the specification does not define the op. The list has at
    least one entry.

    Args:
        dialect: Dialect of the op.
        name: Name of the op without the dialect.
        operands: Number of operands.
        attributes: Number of attributes.

    Source: StableHLO spec, the tables "Inputs".
    """
    count = operands + attributes
    if dialect != "stablehlo" or name in _UNSPECIFIED:
        return [""] * max(count, 1)
    labels = [f"{name}_i{i + 1}" for i in range(max(count, 1))]
    if name == "rng_bit_generator":
        labels.reverse()
    if name in _SPREAD:
        labels[operands:] = [""] * attributes
    return labels


def _split(text: str) -> tuple[str, str, str]:
    """Split `name?:constraint` into the name, the constraint and the count: `*`, `?` or nothing."""
    name, _, constraint = text.partition(":")
    count = name[-1] if name[-1] in "*?" else ""
    return name.rstrip("*?"), constraint, count


def _slot(text: str, label: str = "") -> Slot:
    return Slot(*_split(text), label)


def _attribute(text: str, label: str = "") -> AttributeSlot:
    rule, has_default, default = _default(text)
    names, constraint, count = _split(rule)
    name, _, field = names.partition(">")
    given = has_default and not count
    return AttributeSlot(
        name, constraint or "any", count == "?" or given, label, field or name, default, given
    )


def _default(text: str) -> tuple[str, bool, str]:
    """Split `a:type=1` at the `=`.

    Return the text before it, whether there is one, and the default after it.

    The `=` of `>=` belongs to a constraint.
    """
    at = text.find("=", text.find(">=") + 2 if ">=" in text else 0)
    return (text, False, "") if at < 0 else (text[:at], True, text[at + 1 :])


_SHARED: Final = {"elements": "element type", "types": "type", "ranks": "rank", "sizes": "size"}


def _agreement(text: str, prefix: str) -> tuple[str, tuple[str, ...], str]:
    """Parse an entry such as `types@c2=a,b`: operands `a` and `b` have equal types.

    Return what is equal (`type`), the names, and the label of the constraint: `prefix` followed by
    `c2`.
    """
    first, _, names = text.partition("=")
    what, _, label = first.partition("@")
    return _SHARED[what], tuple(names.split(",")), prefix and prefix + (label or "c1")


def _region(text: str) -> RegionSlot:
    return RegionSlot(text.strip("^*+"), "*" in text, "+" not in text)


# --------------------------------------------------------------------------------------------------
# Values of attributes that are not written, from the tables.
#
# Source: `DefaultValuedAttr` and `DefaultValuedOptionalAttr` in the definitions of the dialects;
# the texts that jaxlib prints for each op.


_ACCURACY: Final = StructAttr(
    "stablehlo",
    "result_accuracy",
    (("mode", EnumAttr("stablehlo", "result_accuracy_mode", "DEFAULT")),),
)
_EMPTY: Final[dict[str, Attribute]] = {
    "{}": DictAttr(()),
    "[]": ArrayAttr(()),
    '""': StringAttr(b""),
    "true": BoolAttr(True),
    "false": BoolAttr(False),
}


def default(slot: AttributeSlot) -> Attribute | None:
    """Return the value of an attribute that an op omits; `None` if it has no default.

    >>> default(AttributeSlot("lower", "bool", optional=True, default="false"))
    BoolAttr(value=False)
    """
    if slot.constraint == "accuracy":
        return _ACCURACY
    text = slot.default
    if not text:
        return None
    if text in _EMPTY:
        return _EMPTY[text]
    return VerbatimAttr(text) if text.startswith("#") else IntegerAttr(int(text), I32)


def elided(definition: Definition) -> Mapping[str, Attribute]:
    """Return the default values of an op's attributes that pretty forms omit, by name."""
    found = {slot.name: default(slot) for slot in definition.attributes if not slot.given}
    return {name: value for name, value in found.items() if value is not None}


def given(definition: Definition) -> Mapping[str, Attribute]:
    """Return the default values that MLIR adds to an op that is read without them.

    They are by the attribute's name; the generic form prints them.
    """
    found = {slot.name: default(slot) for slot in definition.attributes if slot.given}
    return {name: value for name, value in found.items() if value is not None}


# --------------------------------------------------------------------------------------------------
# Suggested names of results and block arguments, such as `%cst` instead of `%0`.
#
# Fixed names are in the tables; this module has those that depend on the op.
#
# Source: `getAsmResultNames` and `getAsmBlockArgumentNames` in MLIR and StableHLO.


def _constant(op: Operation) -> Sequence[str]:
    """Return the suggested name of a constant op's result: `c` for whole numbers, else `cst`.

    Whole numbers are integers and booleans.
    """
    type_ = op.results[0].type
    element = type_.element if isinstance(type_, TensorType) else None
    whole = element is not None and element.kind in ("pred", "signed", "unsigned")
    return ("c" if whole and element != INDEX else "cst",)


def _number(op: Operation) -> Sequence[str]:
    """Return the suggested name of the result of an `arith` constant.

    It is `true` or `false` for a boolean, `c0` for an index, `c0_i32` for an integer, else `cst`.
    """
    match op.get("value"):
        case BoolAttr(value):
            return ("true" if value else "false",)
        case IntegerAttr(value, ElementType() as type_):
            return (f"c{value}" if type_ == INDEX else f"c{value}_{element_text(type_)}",)
        case _:
            return ("cst",)


def _size(op: Operation) -> Sequence[str]:
    value = op.get("value")
    return (f"c{value.value}",) if isinstance(value, IntegerAttr) else ()


def _iterated(region: Region) -> Sequence[str]:
    return ["iterArg"] * len(region.blocks[0].arguments)


def _scanned(region: Region) -> Sequence[str]:
    """Return the suggested names of the arguments of a `scan`'s region: inputs, then carries."""
    sizes = region.parent.get("operandSegmentSizes") if region.parent is not None else None
    count = len(region.blocks[0].arguments)
    inputs = sizes.values[0] if isinstance(sizes, DenseArrayAttr) and sizes.values else 0
    return ["input"] * inputs + ["carry"] * max(count - inputs, 0)


_COMPUTED: Final[dict[str, Suggestion]] = {
    "stablehlo.constant": Suggestion(results=_constant),
    "arith.constant": Suggestion(results=_number),
    "shape.const_size": Suggestion(results=_size),
    "stablehlo.while": Suggestion(arguments=_iterated),
    "chlo.scan": Suggestion(arguments=_scanned),
}


def suggestion(definition: Definition) -> Suggestion | None:
    """Return the functions that suggest names for the results and block arguments of an op.

    `None` without them. `definition` is the definition of the op.
    """
    computed = _COMPUTED.get(definition.name)
    if computed is not None or not definition.suggested:
        return computed
    return Suggestion(results=lambda op: definition.suggested)
