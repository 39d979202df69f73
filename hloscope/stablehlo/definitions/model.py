"""What a definition says of an op, and the notation of its row in the tables beside this file.

A row stands on one line, or goes on in lines indented deeper.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final


@dataclass(frozen=True, slots=True)
class Slot:
    """An operand or a result of an op.

    Attributes:
        name: Its name in the definition.
        constraint: What its type has to be, in the notation of `type_summary`.
        count: Empty for exactly one, `?` for one or none, `*` for any number.
        label: The specification's label of the constraint (`add_i1`), if it has one.
    """

    name: str
    constraint: str
    count: str = ""
    label: str = ""

    @property
    def summary(self) -> str:
        """The constraint as MLIR says it.

        >>> Slot("inputs", "token", "*").summary
        'variadic of token'
        """
        text = type_summary(self.constraint)
        return f"variadic of {text}" if self.count == "*" else text


@dataclass(frozen=True, slots=True)
class AttributeSlot:
    """An inherent attribute: its name, what it has to be, and whether it may be left out.

    `label` is the specification's, as that of a `Slot`.
    """

    name: str
    constraint: str
    optional: bool = False
    label: str = ""

    @property
    def summary(self) -> str:
        """The constraint as MLIR says it."""
        return ATTRIBUTE_SUMMARIES.get(self.constraint, "any attribute")


@dataclass(frozen=True, slots=True)
class RegionSlot:
    """A region: its name, whether there may be any number of it, and whether it is one block."""

    name: str
    variadic: bool = False
    sized: bool = True


@dataclass(frozen=True, slots=True)
class Definition:
    """What the dialect's definition fixes of an op, whatever its verifier adds.

    Attributes:
        name: With its dialect.
        operands: In order; at most one of them is variadic unless `traits` says how to divide.
        attributes: Inherent ones, sorted by name.
        results: In order.
        regions: In order.
        traits: Names of rules shared by several ops; the verifier knows each.
        labels: The specification's label for each trait that has one.
        agreements: Operands and results that have the same `element type`, `type` or `rank`, or
            attributes of the same `size`: what they share, their names, the label.
        open: The row names the op's inherent attributes only; nothing else is checked.
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
"""Kinds of elements by the letter that stands for them in a constraint."""

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
"""Kinds of tensors by the word before the dot."""

_NAMED: Final = {
    "token": "token",
    "future": "future",
    "anything": "any type",
    "index": "index",
    "function": "function type",
}

TUPLES: Final = {"tuple": "FBICQ/memref.FBICQ/A/token", "anytuple": "any.FBICQA/memref.FBICQ/token"}
"""What the leaves of the named kinds of tuples have to be."""


@cache
def type_summary(constraint: str) -> str:
    """A constraint on a type in MLIR's words.

    A constraint is one or more alternatives with `/` between them.  An alternative is a name
    (`token`) or a kind of tensor, a dot, and a letter for each kind of element it may have;
    without the dot the tensor has any known rank.

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
    "groups": "64-bit signless integer elements attribute or mesh and axes based replica groups "
    "representation.",
    "typed": "TypedAttr instance",
    "symbol": "flat symbol reference attribute",
    "symbols": "flat symbol ref array attribute",
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
"""Constraints on attributes in MLIR's words by the name a row gives them.

Source: the summaries of StableHLO's and MLIR's definitions as diagnostics print them.
"""


def compile_row(row: str, dialect: str) -> Definition:
    """The definition a row stands for.

    Columns: name, operands, attributes, results, then `^regions` and traits.  An operand is
    `name:constraint`, with `*` or `?` after the name of one that may come any number of times or
    be missing; attributes are the same.  `^name` is a region of one block, `^name*` any number of
    them, `^name+` a region of any number of blocks.  `elements=a,b`, `types=a,b` and `ranks=a,b`
    say what these operands and results share, `sizes=a,b` that attributes are equally long.  A row
    of two columns, name and attributes, says nothing of the rest.

    >>> compile_row("reverse | operand:FC | dimensions:dims | result:FC | infer", "d").traits
    ('infer',)
    """
    name, *columns = (column.split() for column in row.split("|"))
    full = f"{dialect}.{name[0]}"
    if len(columns) == 1:
        return Definition(full, attributes=tuple(map(_attribute, columns[0])), open=True)
    operands, attributes, results, rest = columns
    labels = _labels(dialect, name[0], len(operands), len(attributes))
    traits = [word for word in rest if not word.startswith("^") and "=" not in word]
    prefix = f"{name[0]}_" if labels[0] else ""
    return Definition(
        full,
        tuple(map(_slot, operands, labels)),
        tuple(sorted(map(_attribute, attributes, labels[len(operands) :]), key=lambda a: a.name)),
        tuple(map(_slot, results)),
        tuple(_region(word) for word in rest if word.startswith("^")),
        tuple(word.partition("@")[0] for word in traits),
        {trait: prefix + (c or "c1") for trait, _, c in (w.partition("@") for w in traits)}
        if prefix
        else {},
        tuple(_agreement(word, prefix) for word in rest if "=" in word),
    )


_UNSPECIFIED: Final = frozenset(
    "broadcast create_token cross-replica-sum dot einsum real_dynamic_slice return"
    " set_dimension_size torch_index_select unary_einsum".split()
)
"""Ops of StableHLO that its specification leaves out."""
_SPREAD: Final = frozenset(
    "convolution dot_general dynamic_conv dynamic_gather gather scatter".split()
)
"""Ops some of whose attributes are several inputs in the specification."""


def _labels(dialect: str, name: str, operands: int, attributes: int) -> list[str]:
    """The specification's labels of an op's inputs: operands first, then attributes.

    The first one is empty if the specification has none; an op without inputs has one all the
    same.  Source: StableHLO spec, the tables "Inputs".
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
    name, _, constraint = text.partition(":")
    count = name[-1] if name[-1] in "*?" else ""
    return name.rstrip("*?"), constraint, count


def _slot(text: str, label: str = "") -> Slot:
    return Slot(*_split(text), label)


def _attribute(text: str, label: str = "") -> AttributeSlot:
    name, constraint, count = _split(text)
    return AttributeSlot(name, constraint or "any", count == "?", label)


_SHARED: Final = {"elements": "element type", "types": "type", "ranks": "rank", "sizes": "size"}


def _agreement(text: str, prefix: str) -> tuple[str, tuple[str, ...], str]:
    head, _, names = text.partition("=")
    what, _, label = head.partition("@")
    return _SHARED[what], tuple(names.split(",")), prefix and prefix + (label or "c1")


def _region(text: str) -> RegionSlot:
    return RegionSlot(text.strip("^*+"), "*" in text, "+" not in text)
