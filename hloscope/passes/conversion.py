"""The conversion driver: one walk, in which every illegal operation is replaced; or nothing is.

Patterns are those of the greedy driver.  One that gives a result another type goes through
`replace_converted`, one that wants an operand of another type asks `converted`: casts stand between
what is converted and what is not yet, and those that nobody needs at the end go.

Source: MLIR's `DialectConversion.cpp`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from hloscope.errors import Diagnostic
from hloscope.ir import FunctionType, Type
from hloscope.mlir import (
    Attribute,
    Block,
    Operation,
    TypeAttr,
    UnitAttr,
    Value,
    function_type,
    illegal,
)
from hloscope.passes.framework import Run
from hloscope.passes.patterns import Chooser, Pattern
from hloscope.passes.rewriting import OpenBlock, Rewriter, Watcher

CAST: Final = "builtin.unrealized_conversion_cast"

TypeMap: TypeAlias = Callable[[Type], Type]
"""The type that takes the place of another; a legal one is its own."""

_MARK: Final = "hloscope.between"
"""Marks a cast that stands only until both its sides are converted."""

_DEEPEST: Final = 64
"""Patterns that make each other's illegal ops more often than that have no end."""


class Conversion(Watcher):
    """Replaces illegal operations in the order of the text, and at once what their patterns make.

    Args:
        run: Counts what fires, and is told what could not be done.
        patterns: Best first by benefit.
        is_legal: May the operation stay as it is?
        warn: What is told of an operation that no pattern fits, besides that.
    """

    def __init__(
        self,
        run: Run,
        patterns: Iterable[Pattern],
        is_legal: Callable[[Operation], bool],
        warn: Callable[[Operation], str | None] = lambda _: None,
    ) -> None:
        self.run: Final = run
        self.rewriter: Final = run.rewriter
        self.is_legal: Final = is_legal
        self.warn: Final = warn
        self.chooser: Final = Chooser(patterns)
        self._new: list[Operation] = []
        self._gone: set[Operation] = set()

    def inserted(self, operation: Operation) -> None:
        """A new operation, and all in its regions, has to be legal, too."""
        self._new.extend(self.rewriter.walk(operation))

    def erased(self, operation: Operation) -> None:
        """What is gone need not be legal."""
        self._gone.add(operation)

    def convert(self, scope: Operation) -> bool:
        """Replace all that is illegal in an operation, itself included; was everything possible?

        After a failure, which the run knows, the module is not to be used.
        """
        outer, self.rewriter.watcher = self.rewriter.watcher, self
        try:
            return all(self._legalized(operation) for operation in [*self.rewriter.walk(scope)])
        finally:
            self.rewriter.watcher = outer
            self.run.fired += self.chooser.fired
            cancel_casts(self.rewriter, scope)

    def convert_functions(self) -> None:
        """Convert the functions that the run is about, up to the first that fails."""
        for function in self.run.functions():
            if not self.convert(function):
                return

    def _legalized(self, root: Operation) -> bool:
        """Replace an operation and, again and again, what comes in its place."""
        work = [(root, 0)]
        while work:
            operation, depth = work.pop()
            if operation in self._gone or _is_between(operation) or self.is_legal(operation):
                continue
            self._new = []
            if depth > _DEEPEST or not self.chooser.rewrite(self.rewriter, operation):
                warning = self.warn(operation)
                if warning is not None:
                    found = Diagnostic(warning, operation.span, severity="warning")
                    self.run.diagnostics.append(found)
                refuse(self.run, root)
                return False
            new = [made for made in self._new if made not in self._gone]
            work += [(made, depth + 1) for made in reversed(new)]
        return True


def refuse(run: Run, operation: Operation) -> None:
    """Say that an operation cannot be legalized; the pass fails."""
    run.diagnostics.append(Diagnostic(illegal(operation.name), operation.span))
    run.failed = True


# ------------------------------------------------------------------------------------------- types


def cast(rewriter: Rewriter, value: Value, type: Type, *, before: Operation) -> Value:
    """The value as one of another type, by a cast that stays."""
    return rewriter.create(CAST, (value,), before=before, types=(type,)).result


def converted(rewriter: Rewriter, value: Value, type: Type, *, before: Operation) -> Value:
    """What the value is after conversion, or will be: of that type."""
    if value.type == type:
        return value
    owner = value.owner
    if isinstance(owner, Operation) and _is_between(owner) and owner.operands[0].type == type:
        return owner.operands[0]
    made = rewriter.create(
        CAST, (value,), before=before, types=(type,), attributes={_MARK: UnitAttr()}
    )
    return made.result


def replace_converted(rewriter: Rewriter, operation: Operation, values: Sequence[Value]) -> None:
    """Others, of other types perhaps, take the place of an operation's results; it goes."""
    pairs = zip(operation.results, values, strict=True)
    fit = [converted(rewriter, new, old.type, before=operation) for old, new in pairs]
    rewriter.replace(operation, fit)


def convert_arguments(rewriter: Rewriter, block: Block, types: TypeMap) -> None:
    """Give the arguments of a block their new types; those who read them read casts."""
    first = block.first if isinstance(block, OpenBlock) else None
    for argument in block.arguments:
        old, new = argument.type, types(argument.type)
        if new == old:
            continue
        if first is not None and rewriter.user_count(argument):
            between = rewriter.create(
                CAST, (argument,), before=first, types=(old,), attributes={_MARK: UnitAttr()}
            )
            for user in rewriter.users(argument):
                if user is not between:
                    operands = [between.result if v is argument else v for v in user.operands]
                    rewriter.set_operands(user, operands)
        rewriter.set_type(argument, new)


def convert_function(rewriter: Rewriter, function: Operation, types: TypeMap) -> None:
    """Give a function its new signature, and the blocks of its body their new arguments."""
    convert_signature(rewriter, function, types)
    convert_regions(rewriter, function, types)


def convert_signature(rewriter: Rewriter, function: Operation, types: TypeMap) -> None:
    """Give a function its new type; its body stays as it is."""
    signature = function_type(function)
    if signature is not None:
        inputs, results = tuple(map(types, signature.inputs)), tuple(map(types, signature.results))
        properties: dict[str, Attribute] = dict(function.properties)
        properties["function_type"] = TypeAttr(FunctionType(inputs, results))
        rewriter.set_properties(function, properties)


def convert_regions(rewriter: Rewriter, operation: Operation, types: TypeMap) -> None:
    """Give all blocks of an operation's regions their new arguments."""
    for block in operation.blocks:
        convert_arguments(rewriter, block, types)


def cancel_casts(rewriter: Rewriter, scope: Operation) -> None:
    """Take out casts that stood between, and those that undo each other; others stay."""
    between = [op for op in rewriter.walk(scope) if _is_between(op)]
    for operation in between:
        source = operation.operands[0]
        owner = source.owner
        if (
            isinstance(owner, Operation)
            and _is_between(owner)
            and owner.operands[0].type == operation.result.type
        ):
            rewriter.replace_uses(operation.result, owner.operands[0])
    for operation in reversed(between):
        if rewriter.is_used(operation):
            rest = {k: v for k, v in operation.attributes.items() if k != _MARK}
            rewriter.set_attributes(operation, rest)
        else:
            rewriter.erase(operation)


def _is_between(operation: Operation) -> bool:
    return operation.name == CAST and _MARK in operation.attributes
