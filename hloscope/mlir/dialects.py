"""What the reader and the printer know of each dialect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct, field

from hloscope.ir import Type
from hloscope.mlir.attributes import Attribute
from hloscope.mlir.ir import Operation, Region
from hloscope.mlir.text.asm import AsmParser, AsmPrinter, Forms

ReadAttribute: TypeAlias = Callable[[AsmParser, str], Attribute | None]
"""Reads what follows the mnemonic of `#dialect.mnemonic…` or `#dialect<mnemonic …>` (up to the
closing `>` of the latter, which the caller reads); `None` if there is no such mnemonic."""

ReadType: TypeAlias = Callable[[AsmParser, str], Type | None]
"""The same of `!dialect.mnemonic…`."""

WriteAttribute: TypeAlias = Callable[[AsmPrinter, Attribute], bool]
"""Writes an attribute of the dialect, all of it with `#`; false if it is none of its own."""


class Suggestion(NamedTuple):
    """How values would like to be called in a pretty form: `%cst` instead of `%0`.

    Attributes:
        results: Names of an op's results, without `%`; an empty one belongs to the name before it.
        arguments: Names of the arguments of the entry block of one of its regions.
    """

    results: Callable[[Operation], Sequence[str]] | None = None
    arguments: Callable[[Region], Sequence[str]] | None = None


class Dialect(Struct, frozen=True):
    """One dialect.

    Attributes:
        name: `stablehlo`.
        ops: Names of the inherent attributes of each op, by the op's full name.
        forms: Pretty forms by the op's full name; an op without one has only the generic form.
        read_attribute: Reader of its attributes; without one they are kept as written.
        write_attribute: Writer of its attributes.
        read_type: Reader of its types; without one they are kept as written.
        open: May have ops that are not in `ops`.
        suggestions: Names for values by the op's full name.
        inside: The dialect whose prefix is left out in the regions of an op, by its full name.
        defaults: Attributes that an op has even if it is not said, by the op's full name.
        behind: Ops whose pretty form MLIR says to be behind their name, not at it.
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
    """How the ops of a dialect are read as those of another that took its place.

    Attributes:
        name: Name of the other dialect.
        renewed: Makes inherent attributes of an op of the older dialect those of the other's op
            of this full name.
    """

    name: str
    renewed: Callable[[str, Mapping[str, Attribute]], dict[str, Attribute]]


NO_OLDER: Final[Mapping[str, Older]] = {}


class Dialects:
    """Several dialects.

    Attributes:
        named: The dialects by name.
        ops: Names of the inherent attributes of every known op.
        forms: Pretty forms of every op that has one.
        suggestions: Names for values by op.
        inside: The dialect whose prefix is left out in the regions of an op.
        defaults: Attributes that an op has even if it is not said.
        behind: Ops whose pretty form MLIR says to be behind their name, not at it.
        older: Dialects whose ops are read as those of another, by name.
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
