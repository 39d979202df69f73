"""Names of values and blocks in a text: MLIR's numbers, or the names in the source.

Source: MLIR `AsmPrinter.cpp` (`SSANameState`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final, TypeAlias

from hloscope.mlir.definitions import Dialects
from hloscope.mlir.ir import Block, Operation, Region, Value
from hloscope.mlir.text.printer_functions import SUGGESTIONS
from hloscope.support.lazy import pattern

_NAME: Final = pattern(r"[A-Za-z$._-][A-Za-z0-9$._-]*")
_ODD: Final = pattern(r"[^A-Za-z0-9$._-]")
_ISOLATED: Final = frozenset({"builtin.module", "func.func"})
"""Ops whose regions do not use names from outside."""


class _Texts(dict[Value, str]):
    """Texts of values; a value without a definition gets one, too."""

    def __missing__(self, value: Value) -> str:
        return f"%{value.name}" if value.name else "<<UNKNOWN SSA VALUE>>"


class _Labels(dict[Block, str]):
    """Labels of blocks; a block outside of any region gets one, too."""

    def __missing__(self, block: Block) -> str:
        return "INVALIDBLOCK"


class Names:
    """Texts of the values and blocks inside of an op.

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
    """Return the names of all values and blocks as MLIR chooses them.

    Values of a region are numbered before those of nested regions. Each nested region continues
    from the same number. In generic form no number occurs twice in the text.
    """
    return _Numbering(dialects, generic).run(root)


class _Numbering:
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
    """Return a name without invalid characters that does not begin with a digit.

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
    """Return the names of values in the source; a value without a name gets an unused number.

    If two values have one name, as after some passes, a number distinguishes them.
    """
    return _SourceNames(root).run(root)


_Step: TypeAlias = Callable[[], "list[_Step]"]
"""A step of the traversal: a function that returns the next steps, the first of them last."""


class _SourceNames:
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
        """Return the first number from `number` on that is not a name in the source.

        Skipped numbers are remembered, as sibling regions start from the same number.
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
