"""Parser and printer functions of each dialect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct, field

from hloscope.ir import Type
from hloscope.mlir.attributes import Attribute
from hloscope.mlir.ir import Operation, Region
from hloscope.mlir.text.asm import AsmParser, AsmPrinter, Forms

ReadAttribute: TypeAlias = Callable[[AsmParser, str], Attribute | None]
"""Reads the text after the mnemonic of `#dialect.mnemonic…` or `#dialect<mnemonic …>`.

The caller reads the closing `>` of the second form. The result is `None` for an unknown mnemonic.
"""

ReadType: TypeAlias = Callable[[AsmParser, str], Type | None]
"""Reads the text after the mnemonic of `!dialect.mnemonic…`; `None` for an unknown mnemonic."""

WriteAttribute: TypeAlias = Callable[[AsmPrinter, Attribute], bool]
"""Writes an attribute of the dialect, with `#`; false if the attribute is not the dialect's own."""


class Suggestion(NamedTuple):
    """Suggested names of values in pretty forms: `%cst` instead of `%0`.

    Attributes:
        results: Names of an op's results, without `%`; an empty one shares the name before it.
        arguments: Names of the arguments of the entry block of one of its regions.
    """

    results: Callable[[Operation], Sequence[str]] | None = None
    arguments: Callable[[Region], Sequence[str]] | None = None


class Dialect(Struct, frozen=True):
    """Parser and printer functions of one dialect.

    Attributes:
        name: `stablehlo`.
        ops: Names of the inherent attributes of each op, by the op's full name.
        forms: Pretty forms by the op's full name; an op without one has only the generic form.
        read_attribute: Reader of its attributes; without one they are kept as text.
        write_attribute: Writer of its attributes.
        read_type: Reader of its types; without one they are kept as text.
        open: The dialect may have ops that are not in `ops`.
        suggestions: Suggested names of values, by the op's full name.
        inside: The dialect whose prefix is omitted in the regions of an op, by its full name.
        defaults: Attributes that an op has even if they are omitted, by its full name.
        behind: Ops whose location MLIR sets after their name, not at it.
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
    """Conversion of the ops of an older dialect to those of its successor.

    Attributes:
        name: Name of the successor.
        renewed: Converts inherent attributes of an older op to those of the successor's op
            of this full name.
    """

    name: str
    renewed: Callable[[str, Mapping[str, Attribute]], dict[str, Attribute]]


NO_OLDER: Final[Mapping[str, Older]] = {}


class Dialects:
    """Several dialects together.

    Attributes:
        named: The dialects by name.
        ops: Names of the inherent attributes of every known op.
        forms: Pretty forms of every op that has one.
        suggestions: Suggested names of values, by op.
        inside: The dialect whose prefix is omitted in the regions of an op.
        defaults: Attributes that an op has even if they are omitted.
        behind: Ops whose location MLIR sets after their name, not at it.
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
