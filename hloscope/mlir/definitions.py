"""Definitions of ops, and the parser and printer functions of each dialect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct, field

from hloscope.ir import Type
from hloscope.mlir.ir import Attribute, Operation, Region
from hloscope.mlir.text.asm import AsmParser, AsmPrinter, Forms

# --------------------------------------------------------------------------------------------------
# Definitions of ops: operands, attributes, results, regions, pretty form and result names.


class Slot(Struct, frozen=True):
    """Definition of an operand or a result of an op.

    Attributes:
        name: Name in the definition.
        constraint: Constraint on the type, in the notation of `type_summary`.
        count: Empty for exactly one, `?` for one or none, `*` for any number.
        label: The specification's label of the constraint (`add_i1`), if it has one.
    """

    name: str
    constraint: str
    count: str = ""
    label: str = ""

    @property
    def summary(self) -> str:
        """The constraint on the type, in MLIR's words.

        >>> Slot("inputs", "token", "*").summary
        'variadic of token'
        """
        text = type_summary(self.constraint)
        return f"variadic of {text}" if self.count == "*" else text


class AttributeSlot(Struct, frozen=True):
    """Definition of an inherent attribute of an op.

    Attributes:
        name: Name in the definition.
        constraint: Constraint on the value, a key of `ATTRIBUTE_SUMMARIES`.
        optional: Whether the attribute may be omitted.
        label: The specification's label of the constraint (`slice_i2`), if it has one.
        field: Name of the field in the op's class.
        default: Value of an omitted attribute, as text; empty if there is none.
        given: Whether MLIR adds the default to an op that is read without the attribute.
    """

    name: str
    constraint: str
    optional: bool = False
    label: str = ""
    field: str = ""
    default: str = ""
    given: bool = False

    @property
    def summary(self) -> str:
        """The constraint on the value, in MLIR's words."""
        return ATTRIBUTE_SUMMARIES.get(self.constraint, "any attribute")


class RegionSlot(Struct, frozen=True):
    """Definition of a region of an op.

    Attributes: name of the region; `variadic`: whether it may be repeated; `sized`: whether it must
    consist of one block.
    """

    name: str
    variadic: bool = False
    sized: bool = True


class Definition(Struct, frozen=True):
    """The declarative part of an op's definition, without its verifier.

    Attributes:
        name: Name with the dialect.
        operands: Operands in order. At most one is variadic, unless a trait gives group sizes.
        attributes: Inherent attributes, in the order of the definition.
        results: Results in order.
        regions: Regions in order.
        traits: Names of rules that several ops share; the verifier implements each.
        labels: The specification's label for each trait that has one.
        agreements: Operands and results that have the same `element type`, `type` or `rank`, or
            attributes of the same `size`: what they share, their names, the label.
        open: Whether only the op's inherent attributes are known, so that nothing else is checked.
        form: Pretty form after the op's name, or the name of a shared form;
            empty if there is only the generic one.
        since: The first version of portable artifacts that has the op.
        suggested: Suggested names of results without a name.
        pure: Whether the op may be removed if its results have no users.
    """

    name: str
    operands: tuple[Slot, ...] = ()
    attributes: tuple[AttributeSlot, ...] = ()
    results: tuple[Slot, ...] = ()
    regions: tuple[RegionSlot, ...] = ()
    traits: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    agreements: tuple[tuple[str, tuple[str, ...], str], ...] = ()
    open: bool = False
    form: str = ""
    since: str = "0.9.0"
    suggested: tuple[str, ...] = ()
    pure: bool = True

    @property
    def inherent(self) -> frozenset[str]:
        """Names of the attributes that are properties of the op, not discardable attributes."""
        names = [attribute.name for attribute in self.attributes]
        if "segments" in self.traits:
            names += ["operandSegmentSizes", "resultSegmentSizes"]
        return frozenset(names)


_ELEMENTS: Final = {
    "F": "4/6/8/16/32/64-bit float",
    "B": "bool",
    "I": "2/4/8/16/32/64-bit integer",
    "S": "2/4/8/16/32/64-bit signless integer",
    "C": "complex type with 32/64-bit float elements",
    "Q": "per-tensor integer quantized",
    "A": "per-axis integer quantized",
    "D": "32/64-bit float",
    "X": "index",
    "N": "integer",
    "i": "32-bit signless integer",
    "u": "32-bit unsigned integer",
    "f": "floating-point",
    "c": "complex-type",
}
"""Kinds of elements in MLIR's words, by their letter in a constraint."""

_SHAPES: Final = {
    "": "ranked tensor of",
    "any": "tensor of",
    "0d": "0D tensor of",
    "1d": "1D tensor of",
    "static": "statically shaped tensor of",
    "bounded": "statically shaped or single bounded dimension tensor of",
    "shape": "statically shaped 1-dimensional tensor of",
    "list": "statically shaped 1-dimensional integer tensor of",
    "pairs": "statically shaped 2-dimensional integer tensor of",
    "memref": "memref of",
}
"""Kinds of tensors in MLIR's words, by the word before the dot in a constraint."""

_NAMED: Final = {
    "token": "token",
    "future": "future",
    "anything": "any type",
    "index": "index",
    "function": "function type",
}

TUPLES: Final = {"tuple": "FBICQ/memref.FBICQ/A/token", "anytuple": "any.FBICQA/memref.FBICQ/token"}
"""Constraints on the leaves of tuples, by the name of the kind of tuple."""


def type_summary(constraint: str) -> str:
    """Return a constraint on a type, given in the notation of the tables, in MLIR's words.

    A constraint is one or more alternatives, separated by `/`. An alternative is a name (`token`),
    or a kind of tensor, a dot, and a letter for each allowed kind of element. Without the dot, the
    tensor has any known rank.

    Source: the summaries of StableHLO's `Base.td` as diagnostics print them.

    >>> type_summary("0d.I/token")
    '0D tensor of 2/4/8/16/32/64-bit integer values or token'
    """
    return " or ".join(map(_alternative, constraint.split("/")))


def _alternative(part: str) -> str:
    if part in TUPLES:
        return f"nested tuple with any combination of {type_summary(TUPLES[part])} values"
    if part in _NAMED:
        return _NAMED[part]
    shape, _, letters = part.rpartition(".")
    kinds = " or ".join(_ELEMENTS[letter] for letter in letters)
    return f"{_SHAPES[shape]} {kinds} values"


ATTRIBUTE_SUMMARIES: Final = {
    "i32": "32-bit signless integer attribute",
    "i32>=0": "32-bit signless integer attribute whose value is non-negative",
    "i32>0": "32-bit signless integer attribute whose value is positive",
    "i64": "64-bit signless integer attribute",
    "i64>=0": "64-bit signless integer attribute whose value is non-negative",
    "i64>0": "64-bit signless integer attribute whose value is positive",
    "f32": "32-bit float attribute",
    "f64": "64-bit float attribute",
    "bool": "bool attribute",
    "unit": "unit attribute",
    "string": "string attribute",
    "array": "array attribute",
    "dict": "dictionary of named attribute values",
    "config": "string attribute or dictionary of named attribute values",
    "dims": "i64 dense array attribute",
    "bools": "i1 dense array attribute",
    "elements": "constant vector/tensor attribute",
    "ints": "64-bit signless integer elements attribute",
    "pairs": "64-bit signless integer elements attribute",
    "table": "64-bit signless integer elements attribute",
    "groups": "64-bit signless integer elements attribute or mesh and axes based replica groups "
    "representation.",
    "typed": "TypedAttr instance",
    "symbol": "flat symbol reference attribute",
    "symbols": "flat symbol ref array attribute",
    "callee": "flat symbol reference attribute",
    "callees": "flat symbol ref array attribute",
    "programs": "Array of FlatSymbolRefArrayAttr",
    "layouts": "Array of layout (1D tensor of index type) attributes",
    "aliases": "Aliasing attribute for outputs and operands of CustomCall",
    "precision": "Precision Config attribute",
    "channel": "two 64-bit integers 'handle' and 'type'",
    "accuracy": "The requested accuracy for transcendental unary ops.",
    "algorithm": "Attribute that models the algorithm constraints to use for computing dot.",
    "dot": "Attribute that models the dimension information for dot.",
    "gather": "Attribute that models the dimension information for gather",
    "scatter": "Attribute that models the dimension information for scatter",
    "ragged_dot": "Attribute that models the dimension information for ragged dot.",
    "conv": "Structure of dimension information for conv op",
    "api_version": "Custom call API version",
    "transpose": "Transpose options",
    "comparison_direction": "Which comparison operation to perform.",
    "comparison_type": "Which comparison type to use.",
    "rng_algorithm": "XLA PRNG algorithm to be used.",
    "rng_distribution": "XLA PRNG distribution to be used.",
    "fft_type": "XLA fast fourier transform type.",
    "type": "any type attribute",
    "dicts": "Array of dictionary attributes",
    "any": "any attribute",
}
"""Constraints on attributes in MLIR's words, by their name in the tables.

Source: the summaries of StableHLO's and MLIR's definitions as diagnostics print them.
"""


# --------------------------------------------------------------------------------------------------
# Parser and printer functions of each dialect.


ReadAttribute: TypeAlias = Callable[[AsmParser, str], Attribute | None]
"""Function that reads the text after the mnemonic of an attribute.

The attribute is `#dialect.mnemonic…` or `#dialect<mnemonic …>`. The caller reads the closing `>` of
the second form. The result is `None` for an unknown mnemonic.
"""

ReadType: TypeAlias = Callable[[AsmParser, str], Type | None]
"""Function that reads a type's text after the mnemonic, `!dialect.mnemonic…`; `None` if unknown."""

WriteAttribute: TypeAlias = Callable[[AsmPrinter, Attribute], bool]
"""Function that writes an attribute of a dialect, with `#`.

It returns false if the attribute is not one of the dialect.
"""


class Suggestion(NamedTuple):
    """Suggested names of values in printed text: `%cst` instead of `%0`.

    Attributes:
        results: Function that returns the names of an op's results, without `%`; a result with an
            empty name shares the previous one.
        arguments: Function that returns the names of the arguments of a region's entry block.
    """

    results: Callable[[Operation], Sequence[str]] | None = None
    arguments: Callable[[Region], Sequence[str]] | None = None


class Dialect(Struct, frozen=True):
    """Parser and printer functions of one dialect.

    Attributes:
        name: Name of the dialect, such as `stablehlo`.
        ops: Names of the inherent attributes of each op, by the op's full name.
        forms: Pretty forms by the op's full name; an op without one has only the generic form.
        read_attribute: Reader of its attributes; without one they are stored as text.
        write_attribute: Writer of its attributes.
        read_type: Reader of its types; without one they are stored as text.
        open: Whether the dialect may have ops that are not in `ops`.
        suggestions: Suggested names of values, by the op's full name.
        inside: The dialect whose prefix is omitted in the regions of an op, by its full name.
        defaults: Attributes that an op has even if the text omits them, by the op's full name.
        behind: Ops whose location in MLIR is the position after their name, not that of the name.
    """

    name: str
    ops: Mapping[str, frozenset[str]] = field(default_factory=dict)
    forms: Forms = field(default_factory=dict)
    read_attribute: ReadAttribute | None = None
    write_attribute: WriteAttribute | None = None
    read_type: ReadType | None = None
    open: bool = False
    suggestions: Mapping[str, Suggestion] = field(default_factory=dict)
    inside: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Mapping[str, Attribute]] = field(default_factory=dict)
    behind: frozenset[str] = frozenset()


class Older(NamedTuple):
    """Conversion of ops of an older dialect to ops of its successor, as of MHLO to StableHLO.

    Attributes:
        name: Name of the successor.
        renewed: Function that converts inherent attributes of an older op to those of the
            successor's op, which has this full name.
    """

    name: str
    renewed: Callable[[str, Mapping[str, Attribute]], dict[str, Attribute]]


NO_OLDER: Final[Mapping[str, Older]] = {}


class Dialects:
    """All known dialects together, with the tables of all of them merged.

    Attributes:
        named: The dialects by name.
        ops: Names of the inherent attributes of every known op, by its full name.
        forms: Pretty forms, by the op's full name.
        suggestions: Suggested names of values, by the op's full name.
        inside: The dialect whose prefix is omitted in the regions of an op, by its full name.
        defaults: Attributes that an op has even if the text omits them, by the op's full name.
        behind: Ops whose location in MLIR is the position after their name, not that of the name.
        older: Older dialects whose ops are read as those of their successor, by name.
    """

    __slots__ = ("behind", "defaults", "forms", "inside", "named", "older", "ops", "suggestions")

    def __init__(
        self, dialects: Iterable[Dialect] = (), older: Mapping[str, Older] = NO_OLDER
    ) -> None:
        self.older = older
        self.named = {dialect.name: dialect for dialect in dialects}
        self.ops = {op: names for d in self.named.values() for op, names in d.ops.items()}
        self.forms = {op: form for d in self.named.values() for op, form in d.forms.items()}
        self.suggestions = {op: s for d in self.named.values() for op, s in d.suggestions.items()}
        self.inside = {op: name for d in self.named.values() for op, name in d.inside.items()}
        self.defaults = {op: found for d in self.named.values() for op, found in d.defaults.items()}
        self.behind = frozenset(op for d in self.named.values() for op in d.behind)
