"""Names of values and blocks in a text: MLIR's numbers, or the names in the source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final, TypeAlias

from hloscope.mlir.definitions import Dialects
from hloscope.mlir.ir import Block, Operation, Region, Value
from hloscope.mlir.locations import (
    CallSiteLoc,
    FileLoc,
    FusedLoc,
    LazyLoc,
    Location,
    NameLoc,
    UnknownLoc,
    resolve_location,
)
from hloscope.mlir.text.functions import SUGGESTIONS
from hloscope.mlir.text.lexer import quoted
from hloscope.support.lazy import pattern

# --------------------------------------------------------------------------------------------------
# Names of values and blocks in a text: MLIR's numbers, or the names in the source.
#
# Source: MLIR `AsmPrinter.cpp` (`SSANameState`).


_NAME: Final = pattern(r"[A-Za-z$._-][A-Za-z0-9$._-]*")
_ODD: Final = pattern(r"[^A-Za-z0-9$._-]")
_ISOLATED: Final = frozenset({"builtin.module", "func.func"})
"""Ops whose regions do not use names from outside."""


class _Texts(dict[Value, str]):
    """Printed names of values.

    A value without a definition in the text gets a name on first use.
    """

    def __missing__(self, value: Value) -> str:
        return f"%{value.name}" if value.name else "<<UNKNOWN SSA VALUE>>"


class _Labels(dict[Block, str]):
    """Printed labels of blocks; a block outside of any region gets a label on first use."""

    def __missing__(self, block: Block) -> str:
        return "INVALIDBLOCK"


class Names:
    """Printed names of the values and blocks inside an op.

    Attributes:
        values: `%0`, `%arg1` or `%0#1`, the use of a value.
        results: `%0`, `%0:2` or `%a, %b`, the definition of an op's results.
        blocks: `^bb0`.
    """

    __slots__ = ("blocks", "results", "values")

    def __init__(self) -> None:
        self.values = _Texts()
        self.results: dict[Operation, str] = {}
        self.blocks = _Labels()

    def define(self, op: Operation, names: Sequence[str], starts: Sequence[int]) -> None:
        """Set the names of an op's results.

        `names[i]` is the common name of the results from index `starts[i]` to before `starts[i +
        1]`.
        """
        texts = []
        for name, start, end in zip(names, starts, [*starts[1:], len(op.results)], strict=True):
            if end - start == 1:
                self.values[op.results[start]] = f"%{name}"
                texts.append(f"%{name}")
            else:
                for i in range(start, end):
                    self.values[op.results[i]] = f"%{name}#{i - start}"
                texts.append(f"%{name}:{end - start}")
        self.results[op] = ", ".join(texts)

    def number_blocks(self, region: Region) -> None:
        """Set the labels of the blocks by their index in the region: `^bb0`, `^bb1`, …."""
        for i, block in enumerate(region.blocks):
            self.blocks[block] = f"^bb{i}"


def mlir_names(root: Operation, dialects: Dialects, *, generic: bool) -> Names:
    """Return the names of all values and blocks in the tree `root` as MLIR chooses them.

    Values of a region are numbered before those of nested regions. Each nested region continues
    from the same number. In generic form no number occurs twice in the text.
    """
    return _Numbering(dialects, generic).run(root)


class _Numbering:
    """Names the values and blocks of a tree as MLIR does."""

    def __init__(self, dialects: Dialects, generic: bool) -> None:
        self.suggestions = {} if generic else {**SUGGESTIONS, **dialects.suggestions}
        self.generic = generic
        self.names = Names()
        self.used: set[str] = set()
        self.scopes: list[list[str]] = [[]]
        self.value = self.argument = self.conflict = 0

    def run(self, root: Operation) -> Names:
        self._op(root)
        counters = self.value, self.argument, self.conflict
        # The stack is popped from its end, so sibling regions are numbered last to first, as in
        # MLIR. Each entry has the counters with which its region starts.
        stack = [(region, *counters, 1) for region in root.regions]
        while stack:
            region, value, argument, conflict, depth = stack.pop()
            if not self.generic:
                self.value, self.argument, self.conflict = value, argument, conflict
            # Names of regions that have ended may be used again: one list of names for each open
            # region.
            while len(self.scopes) > depth:
                self.used.difference_update(self.scopes.pop())
            self.scopes.append([])
            self._region(region)
            counters = self.value, self.argument, self.conflict
            stack += [
                (inner, *counters, depth + 1)
                for block in region.blocks
                for op in block.operations
                for inner in op.regions
            ]
        return self.names

    def _region(self, region: Region) -> None:
        self.names.number_blocks(region)
        values = self.names.values
        owner = region.parent
        suggestion = self.suggestions.get(owner.name) if owner is not None else None
        if suggestion is not None and suggestion.arguments is not None and region.blocks:
            entry = region.blocks[0].arguments
            for value, name in zip(entry, suggestion.arguments(region), strict=False):
                values[value] = f"%{self._unique(name)}"
        for number, block in enumerate(region.blocks):
            for value in block.arguments:
                if value in values:
                    continue
                if number == 0:
                    values[value] = f"%{self._unique(f'arg{self.argument}')}"
                    self.argument += 1
                else:
                    values[value] = self._next()
            for op in block.operations:
                self._op(op)

    def _op(self, op: Operation) -> None:
        results = op.results
        if not results:
            return
        suggestion = self.suggestions.get(op.name)
        if suggestion is None or suggestion.results is None:
            text = self._next()
            if len(results) == 1:
                self.names.values[results[0]] = self.names.results[op] = text
            else:
                self.names.define(op, [text[1:]], [0])
            return
        suggested = list(suggestion.results(op))[: len(results)]
        # Results without a suggestion share the name of the group before them: `%a:2`.
        starts = [i for i, name in enumerate(suggested) if name or i == 0] or [0]
        names = [self._unique(suggested[i]) if suggested and suggested[i] else "" for i in starts]
        if not names[0]:
            names[0] = self._next()[1:]
        self.names.define(op, names, starts)

    def _next(self) -> str:
        self.value += 1
        return f"%{self.value - 1}"

    def _unique(self, name: str) -> str:
        plain = name = sanitized(name)
        while name in self.used:
            name = f"{plain}_{self.conflict}"
            self.conflict += 1
        self.used.add(name)
        self.scopes[-1].append(name)
        return name


def sanitized(name: str) -> str:
    """Return a suggested name with invalid characters replaced; it never begins with a digit.

    >>> sanitized("add.3"), sanitized("3x"), sanitized("a b/c")
    ('add.3', '_3x', 'a_b2Fc')
    """
    if _NAME.fullmatch(name):
        return name
    text = _ODD.sub(lambda found: _hex(found[0]), name)
    return text if text[:1].isalpha() or text[:1] in "$._-" else f"_{text}"


def _hex(char: str) -> str:
    return "_" if char == " " else char.encode("utf-8", "surrogateescape").hex().upper()


def source_names(root: Operation) -> Names:
    """Return names as in the source for the tree `root`; unnamed values get an unused number.

    If two values have one name, as after some passes, a number distinguishes them.
    """
    return _SourceNames(root).run(root)


_Step: TypeAlias = Callable[[], "list[_Step]"]
"""A step of a traversal with an explicit stack: it returns the next steps, the first one last."""


class _SourceNames:
    """Names the values and blocks of a tree as in the source."""

    def __init__(self, root: Operation) -> None:
        self.names = Names()
        self.used: set[str] = set()
        self.added: list[str] = []
        self.given = {value.name for value in _all_values(root)}
        self.value = self.argument = self.conflict = 0
        self.next_free: dict[int, int] = {}

    def run(self, root: Operation) -> Names:
        steps = self._op(root)
        while steps:
            steps += steps.pop()()
        return self.names

    def _entering(self, region: Region) -> _Step:
        def enter() -> list[_Step]:
            # Names and counters are restored after the region, so that sibling regions start with
            # the same ones. A step restores them, since the traversal has no recursion.
            outer = self.used, self.added, self.value, self.argument
            if region.parent is not None and region.parent.name in _ISOLATED:
                self.used = set()
            self.added = []
            self._label(region)
            for number, block in enumerate(region.blocks):
                for value in block.arguments:
                    name = value.name or self._fresh(entry=number == 0)
                    self.names.values[value] = f"%{self._unique(name)}"
            operations = (op for block in region.blocks for op in block.operations)
            return [lambda: self._leave(*outer), self._going_on(operations)]

        return enter

    def _going_on(self, operations: Iterator[Operation]) -> _Step:
        def go_on() -> list[_Step]:
            for op in operations:
                steps = self._op(op)
                if steps:
                    return [go_on, *steps]
            return []

        return go_on

    def _leave(self, used: set[str], added: list[str], value: int, argument: int) -> list[_Step]:
        self.used.difference_update(self.added)
        self.used, self.added, self.value, self.argument = used, added, value, argument
        return []

    def _op(self, op: Operation) -> list[_Step]:
        """Return the steps of an op: its regions, then the names of its results.

        The names in the regions may be used again after them.
        """
        if not op.regions:
            return self._define(op)
        return [
            lambda: self._define(op),
            *(self._entering(region) for region in reversed(op.regions)),
        ]

    def _define(self, op: Operation) -> list[_Step]:
        names, starts, at = [], [], 0
        for name, group in groupby(value.name for value in op.results):
            names.append(self._unique(name or self._fresh()))
            starts.append(at)
            at += len(list(group))
        if names:
            self.names.define(op, names, starts)
        return []

    def _label(self, region: Region) -> None:
        """Set the labels of a region's blocks to those in the source, made unique."""
        taken: set[str] = set()
        for number, block in enumerate(region.blocks):
            label = sanitized(block.label) if block.label else f"bb{number}"
            while label in taken:
                label += "_"
            taken.add(label)
            self.names.blocks[block] = f"^{label}"

    def _fresh(self, *, entry: bool = False) -> str:
        while True:
            if entry:
                name = f"arg{self.argument}"
                self.argument += 1
            else:
                free = self._free(self.value)
                name = str(free)
                self.value = free + 1
            if name not in self.given:
                return name

    def _free(self, number: int) -> int:
        """Return the first number from `number` on that no value has as its name in the source.

        Used numbers are stored, as sibling regions start from the same number.
        """
        passed = []
        while str(number) in self.given:
            passed.append(number)
            number = self.next_free.get(number, number + 1)
        self.next_free.update(dict.fromkeys(passed, number))
        return number

    def _unique(self, name: str) -> str:
        if not name.isdecimal():
            name = sanitized(name)
        elif name in self.used:
            name = self._fresh()
        plain = name
        while name in self.used:
            name = f"{plain}_{self.conflict}"
            self.conflict += 1
        self.used.add(name)
        self.added.append(name)
        return name


def _all_values(root: Operation) -> list[Value]:
    values: list[Value] = []
    stack = [root]
    while stack:
        op = stack.pop()
        values += op.results
        for block in op.blocks:
            values += block.arguments
            stack += block.operations
    return values


# --------------------------------------------------------------------------------------------------
# Aliases of locations, attributes and types: their numbers and positions.
#
# The number of an alias is known only after printing, since aliases inside it come first. Until
# then a placeholder represents the alias in the text.
#
# Source: MLIR `AsmPrinter.cpp` (`AliasInitializer`, `AliasState`).


_PLACEHOLDER: Final = pattern("\ud800(\\d+)\ud801")
"""Pattern of a placeholder for an alias.

Text from files cannot contain its first and last character.
"""


def _placeholder(index: int) -> str:
    return f"\ud800{index}\ud801"


class _Alias:
    """An alias of a type, attribute or location.

    Attributes:
        name: Name without its number, with `#` or `!`.
        text: What it abbreviates, with placeholders for aliases.
        parts: The aliases in that text.
    """

    __slots__ = ("depth", "later", "name", "parts", "text")

    def __init__(self, name: str, text: str, parts: list[_Alias]) -> None:
        self.name = name
        self.text = text
        self.parts = parts
        self.depth: int = 1 + max((part.depth for part in parts), default=0)
        self.later = True  # may be defined below the module


class Aliases:
    """The aliases that a printed module uses.

    Its text has placeholders for them until `finished`.
    """

    def __init__(self) -> None:
        self._all: list[_Alias] = []
        self._by_text: dict[tuple[str, str], int] = {}
        # By `id`, looked up for each op: ops of one source line share a location.
        self._by_location: dict[int, tuple[Location, int]] = {}

    def placeholder(self, name: str, text: str, *, later: bool = False) -> str:
        """Return a placeholder for an alias, which `finished` replaces by the alias.

        Equal names and texts give the same placeholder.

        Args:
            name: Name of the alias without its number, with `#` or `!`.
            text: The attribute or type that the alias abbreviates; it may contain placeholders.
            later: May the alias be defined below the module? Otherwise it is defined above.
        """
        return _placeholder(self._index(name, text, later=later))

    def location(self, location: Location, *, later: bool = True) -> str:
        """Return the placeholder for the alias of a location.

        If `later` is false, the alias is defined above the module, otherwise it may be below.
        """
        known = self._by_location.get(id(location))
        index = self._location(location) if known is None else known[1]
        if not later:
            self._not_later(self._all[index])
        return _placeholder(index)

    def location_text(self, location: Location) -> str:
        """Return a location's text with placeholders; its aliases are defined above the module."""
        self.location(location, later=False)
        return self._all[self._by_location[id(location)][1]].text

    def finished(self, text: str) -> str:
        """Return a module's text with aliases in place of placeholders, and with their definitions.

        A definition is above the module, or below it if each use of the alias allowed that.
        """
        if not self._all:
            return text
        # MLIR numbers aliases by depth, so that one is defined after those inside it, then types
        # before attributes, then by name. The sort is stable: ties are in the order of first use.
        order = sorted(
            range(len(self._all)),
            key=lambda i: (self._all[i].depth, self._all[i].name[0] == "#", self._all[i].name),
        )
        names = [""] * len(self._all)
        count: Counter[str] = Counter()
        for i in order:
            name = self._all[i].name
            names[i] = f"{name}{count[name] or ''}"
            count[name] += 1
        above: list[str] = []
        below: list[str] = []
        for i in order:
            alias = self._all[i]
            written = f"loc({alias.text})" if alias.name == "#loc" else alias.text
            (below if alias.later else above).append(f"{names[i]} = {written}\n")
        whole = "".join([*above, text, *below])
        return _PLACEHOLDER.sub(lambda found: names[int(found[1])], whole)

    def _index(self, name: str, text: str, *, later: bool) -> int:
        """Return the index of the alias with this name and text; it is added if it is new.

        Without `later`, it must be defined above the module.
        """
        index = self._by_text.setdefault((name, text), len(self._all))
        if index == len(self._all):
            parts = [self._all[int(found)] for found in dict.fromkeys(_PLACEHOLDER.findall(text))]
            self._all.append(_Alias(name, text, parts))
        if not later:
            self._not_later(self._all[index])
        return index

    def _not_later(self, alias: _Alias) -> None:
        stack = [alias]
        # An alias above the module may use only aliases above it, so those inside follow it.
        while stack:
            alias = stack.pop()
            if alias.later:
                alias.later = False
                stack += alias.parts

    def _location(self, location: Location) -> int:
        """Add a location, and the locations inside it before it; return its index."""
        stack = [location]
        while stack:
            top = stack[-1]
            missing = [part for part in _parts(top) if id(part) not in self._by_location]
            if missing:
                stack += reversed(missing)
                continue
            stack.pop()
            if id(top) not in self._by_location:
                index = self._index("#loc", self._written(top), later=True)
                self._by_location[id(top)] = top, index
        return self._by_location[id(location)][1]

    def _written(self, location: Location) -> str:
        placeholders = [_placeholder(self._by_location[id(part)][1]) for part in _parts(location)]
        return _location_text(location, placeholders)


class NoAliases(Aliases):
    """Replacement of `Aliases` that writes locations, attributes and types in full."""

    def placeholder(self, name: str, text: str, *, later: bool = False) -> str:
        """Return `text` itself; the other arguments are ignored."""
        return text

    def location(self, location: Location, *, later: bool = True) -> str:
        """Return the location as text."""
        return location_text(location)

    def location_text(self, location: Location) -> str:
        """Return the location as text."""
        return location_text(location)


def location_text(location: Location) -> str:
    """Return the text of a location inside `loc(…)`, with nothing abbreviated.

    >>> location_text(NameLoc("add", FileLoc("a.py", 1, 2)))
    '"add"("a.py":1:2)'
    """
    texts: dict[int, str] = {}
    location = resolve_location(location)
    stack = [location]
    while stack:
        parts = _parts(stack[-1])
        missing = [part for part in parts if id(part) not in texts]
        if missing:
            stack += missing
        else:
            top = stack.pop()
            texts[id(top)] = _location_text(top, [texts[id(part)] for part in parts])
    return texts[id(location)]


def _parts(location: Location) -> tuple[Location, ...]:
    """Return the locations that a location directly contains, such as those of `fused[…]`."""
    match location:
        case NameLoc(_, child):
            return () if isinstance(child, UnknownLoc) else (child,)
        case CallSiteLoc(callee, caller):
            return callee, caller
        case FusedLoc(locations):
            return locations
        case LazyLoc():
            raise AssertionError("locations are resolved before they are printed")
        case _:
            return ()


def _location_text(location: Location, parts: list[str]) -> str:
    match location:
        case FileLoc(file, line, column, end_line, end_column):
            text = f"{quoted(file)}:{line}:{column}"
            if end_column < 0 or (end_line, end_column) == (line, column):
                return text
            if end_line in (-1, line):
                return f"{text} to :{end_column}"
            return f"{text} to {end_line}:{end_column}"
        case NameLoc(name):
            return quoted(name) + (f"({parts[0]})" if parts else "")
        case CallSiteLoc():
            return f"callsite({parts[0]} at {parts[1]})"
        case FusedLoc(_, metadata):
            return f"fused{f'<{metadata}>' if metadata else ''}[{', '.join(parts)}]"
        case _:
            return "unknown"
