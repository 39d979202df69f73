"""Passes: a name, options and a function that rewrites a module; and the greedy driver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct, field

from hloscope.errors import Diagnostic, HloscopeError
from hloscope.ir import Type
from hloscope.mlir import UNKNOWN, Attribute, DenseAttr, Operation, Region, Value, elements
from hloscope.mlir.dialects import DEFINITIONS, is_isolated
from hloscope.passes.patterns import Chooser, Pattern
from hloscope.passes.regions import clean_regions, has_branches, may_be_erased
from hloscope.passes.rewriting import OpenBlock, Rewriter, Watcher
from hloscope.stablehlo import CONSTANTS
from hloscope.support.walks import needed_first

# --------------------------------------------------------------------------------------------------
# The greedy driver: applies patterns until none applies, in the order of MLIR's driver.
#
# Source: MLIR's `GreedyPatternRewriteDriver.cpp` and `FoldUtils.cpp`.


ITERATIONS: Final = 10
"""Default maximum number of iterations of the greedy driver over a scope."""


_VALUES: Final = dict.fromkeys(CONSTANTS, "value") | {"shape.const_shape": "shape"}
"""Name of the attribute with the value of each constant op, by op name."""

_WIDE: Final = 500
"""An op with more operands is visited only when no other op is left to visit."""
_OF_ONE_OP: Final = ("stablehlo.async_start",)
"""Ops whose region may have only one op and its `return`: no constant is inserted there."""
_Key: TypeAlias = tuple[OpenBlock, str, Attribute | None, object]
"""Key that equal constants share: block in which they are inserted, dialect, value and type."""
_MOST_COMPARED: Final = 4096
"""A longer literal, in characters or bytes, is compared by its text, not by its elements."""
_MOST_REWRITES: Final = 256
"""Limit of rewrites per initial operation; beyond it, patterns are assumed to undo each other."""


_OWN_CONSTANTS: Final = frozenset(["sdy.manual_computation"])
"""Ops whose regions have their own constants, though they may read values from outside."""


class PostponedError(Exception):
    """Raised by a pattern that has changed nothing, and must be tried again after other work."""


class GreedyDriver(Watcher):
    """Applies patterns to all operations in the regions of one operation, usually a function.

    Args:
        rewriter: The module being rewritten; the driver is its watcher while it runs.
        scope: The operation whose regions are rewritten.
        patterns: The patterns, or a `Chooser` of them that several drivers share.
        top_down: Visit the first operation first, not the last.
        max_iterations: Largest number of iterations over the scope.
        merges_blocks: Merge equal blocks of a region between iterations?
    """

    def __init__(
        self,
        rewriter: Rewriter,
        scope: Operation,
        patterns: Iterable[Pattern] | Chooser,
        *,
        top_down: bool = True,
        max_iterations: int = ITERATIONS,
        merges_blocks: bool = True,
    ) -> None:
        self.rewriter: Final = rewriter
        self.scope: Final = scope
        self.chooser: Final = patterns if isinstance(patterns, Chooser) else Chooser(patterns)
        self.top_down: Final = top_down
        self.max_iterations: Final = max_iterations
        self.merges_blocks: Final = merges_blocks
        self._has_branches = False
        # Operations to visit, the next one last; those with many operands are in `_later`.
        self._work: dict[Operation, None] = {}
        self._later: dict[Operation, None] = {}
        self._iterations, self._is_under_way, self._is_changed, self._left = 0, False, False, 0
        self._constants: dict[_Key, Operation] = {}
        self._owned: dict[Operation, _Key] = {}

    def run(self) -> bool:
        """Apply patterns until none applies; false if `max_iterations` did not suffice.

        Raises:
            PostponedError: A pattern depends on other work. Call `run` again after that work: it
                resumes at the same operation.
        """
        outer, self.rewriter.watcher = self.rewriter.watcher, self
        try:
            while self._iterations < self.max_iterations:
                if not self._iteration():
                    return True
            return False
        finally:
            self.rewriter.watcher = outer

    # ----------------------------------------------------------------------------------- watching

    def inserted(self, operation: Operation) -> None:
        """Push a new operation, and all operations in its regions, on the work list."""
        for each in self.rewriter.walk(operation):
            self._push(each)

    def changed(self, operation: Operation) -> None:
        """Push an operation whose operands, types or attributes changed on the work list."""
        self._push(operation)

    def erased(self, operation: Operation) -> None:
        """Push producers of an erased operation's operands on the work list.

        They are those that have at most two users: they may now have no user, or one, on which
        patterns depend.
        """
        for value in operation.operands:
            owner = value.owner
            if isinstance(owner, Operation) and self.rewriter.user_count(value) <= 2:
                self._push(owner)
        self._work.pop(operation, None)
        self._later.pop(operation, None)
        key = self._owned.pop(operation, None)
        if key is not None:
            del self._constants[key]

    def _push(self, operation: Operation) -> None:
        """Push an operation, and the operations around it up to the scope, on the work list."""
        chain: list[Operation] = []
        at: Operation | None = operation
        while at is not None and at is not self.scope:
            chain.append(at)
            at = at.parent_op
        # Operations outside the scope are not this driver's to change.
        if at is self.scope:
            for each in chain:
                (self._later if len(each.operands) > _WIDE else self._work)[each] = None

    def _next(self) -> Operation | None:
        """Pop the next operation from the work list; `None` if none is left.

        Operations of more than `_WIDE` operands come last.
        """
        stack = self._work or self._later
        return stack.popitem()[0] if stack else None

    def constant(
        self, name: str, properties: Mapping[str, Attribute], type: Type, *, before: Operation
    ) -> Value:
        """Return the result of a constant op `name` of this value and type, for use by `before`.

        The constant is at the front of the outermost region whose values `before` can read; an
        equal constant of the same dialect there is used again. `properties` has the value.
        """
        front = _front(before, self.scope)
        first = before if front is None or front.first is None else front.first
        new = self.rewriter.create(name, (), properties, before=first, types=(type,))
        new.location = before.location
        if front is None:
            return new.result
        key = _constant_key(new, front)
        known = self._constants.get(key)
        if known is not None:
            self.rewriter.erase(new)
            return known.result
        self._constants[key], self._owned[new] = new, key
        return new.result

    # ------------------------------------------------------------------------------------- running

    def _iteration(self) -> bool:
        """Visit all operations once, and operations that their changes push.

        Return whether anything changed.
        """
        # After a `PostponedError` the iteration resumes with its list.
        if not self._is_under_way:
            self._begin()
        self._work_off()
        if self._has_branches:
            self._is_changed |= clean_regions(self.rewriter, self.scope, merges=self.merges_blocks)
        self._is_under_way = False
        self._iterations += 1
        return self._is_changed

    def _begin(self) -> None:
        """Fill the work list with all operations of the scope."""
        self._is_under_way, self._is_changed = True, False
        self._work, self._later, self._constants, self._owned = {}, {}, {}, {}
        _, *order = every = [*self.rewriter.walk(self.scope)]
        self._has_branches = any(each.regions and has_branches(each) for each in every)
        if self.top_down:
            for operation in order:
                if not self._is_merged(operation):
                    self._work[operation] = None
            self._work = dict.fromkeys(reversed(self._work))
        else:
            for operation in postorder(self.scope):
                if not self._is_merged(operation):
                    self._push(operation)
        self._left = _MOST_REWRITES * (len(self._work) + len(self._later) + 16)

    def _work_off(self) -> None:
        """Visit all operations on the work list: erase unused ones, apply patterns to others."""
        rewriter = self.rewriter
        while self._left and (operation := self._next()) is not None:
            # Unused operations go before patterns are tried, as in MLIR: their patterns would be
            # wasted.
            if (
                not rewriter.is_used(operation)
                and may_be_erased(operation)
                and not _is_last(operation)
            ):
                rewriter.erase(operation)
                self._is_changed = True
            elif (
                operation.name not in _VALUES
                and not _is_alone(operation)
                and self._rewrite(operation)
            ):
                self._is_changed = True
                self._left -= 1

    def _rewrite(self, operation: Operation) -> bool:
        try:
            return self.chooser.rewrite(self.rewriter, operation)
        except PostponedError:
            # The operation goes back on top, so that a resumed run begins with it.
            self._work[operation] = None
            raise

    def _is_merged(self, operation: Operation) -> bool:
        """Move a constant to the front of its scope, or replace it by an equal one and erase it.

        Return true if it was replaced; false also for ops that are no constants. The first constant
        of each key is moved to the front block, unless it is among the constants at the front.
        """
        if operation.name not in _VALUES:
            return False
        rewriter, front = self.rewriter, _front(operation, self.scope)
        if front is None or len(operation.results) != 1:
            return False
        key = _constant_key(operation, front)
        known = self._constants.get(key)
        if known is not None:
            # One constant for several source lines belongs to none of them.
            known.location = UNKNOWN
            rewriter.replace(operation, known.results)
            return True
        block = operation.parent
        assert isinstance(block, OpenBlock)
        # Constants are consecutive at the front: one that follows a constant of this driver is at
        # its final position.
        is_front = block is front and (
            front.first is operation or block.before(operation) in self._owned
        )
        if not is_front:
            assert front.first is not None
            rewriter.move(operation, before=front.first)
        self._constants[key], self._owned[operation] = operation, key
        return False


def _by_value(value: Attribute | None) -> Attribute | None:
    """Return a literal with its elements as bytes, so that literals of equal elements are equal.

    Long literals, and attributes of other kinds, are returned unchanged.
    """
    if isinstance(value, DenseAttr) and len(value.literal) <= _MOST_COMPARED:
        try:
            return DenseAttr(bytes(elements(value).raw), value.type)
        except HloscopeError:  # strings and element types without an array type
            return value
    return value


def _constant_key(operation: Operation, front: OpenBlock) -> _Key:
    """Return the key that constants of equal dialect, value and type at the front of a block share.

    `operation` is the constant, `front` the block.
    """
    dialect, value = operation.name.partition(".")[0], operation.get(_VALUES[operation.name])
    return front, dialect, _by_value(value), operation.result.type


def _is_last(operation: Operation) -> bool:
    """Is the operation the last of its block?

    In an invalid program that may be a constant.
    """
    block = operation.parent
    return isinstance(block, OpenBlock) and block.last is operation


def _is_alone(operation: Operation) -> bool:
    """Must the operation be the only one of its region, so that no constant may precede it?"""
    owner = operation.parent_op
    return owner is not None and owner.name in _OF_ONE_OP


def _front(operation: Operation, scope: Operation) -> OpenBlock | None:
    """Return the entry block of the outermost region in `scope` whose values an operation can read.

    Regions of ops that are isolated from above cannot read outer values; unknown ops count as such.
    The result is `None` if constants cannot be inserted there.
    """
    at: Operation | None = operation
    region: Region | None = None
    while at is not None and at is not scope:
        outer, at = at.parent.parent if at.parent is not None else None, at.parent_op
        if at is not None and at.name in _OF_ONE_OP:
            break
        region = outer
        definition = DEFINITIONS.get(at.name) if at is not None else None
        if definition is None or is_isolated(definition.name) or definition.name in _OWN_CONSTANTS:
            break
    block = region.blocks[0] if region is not None and region.blocks else None
    return block if isinstance(block, OpenBlock) else None


def postorder(scope: Operation) -> list[Operation]:
    """Return all operations in the regions of `scope`, each after those in its own regions."""
    return [*needed_first(scope.inside, lambda operation: operation.inside)]


# --------------------------------------------------------------------------------------------------
# Passes: a name, options and a function that rewrites a module.


_LOOKED_BACK: Final = 100
"""Number of latest diagnostics among which a duplicate is searched.

Patterns are tried repeatedly, and may report an error each time.
"""


class PassError(HloscopeError):
    """A pass failed; `diagnostics` holds its errors, in order of discovery."""

    diagnostics: tuple[Diagnostic, ...] = ()


def names(text: str) -> tuple[str, ...]:
    """Return the names in the text of an option, separated by commas.

    Spaces around them are dropped.

    >>> names("a, b,")
    ('a', 'b')
    """
    return tuple([word.strip() for word in text.split(",") if word.strip()])


class Option(Struct, frozen=True):
    """An option of a pass: default value, help text, and the parser of its text.

    Texts of options that are true or false need no parser.
    """

    default: Any
    help: str
    read: Callable[[str], Any] = str


class Run(Struct):
    """One run of a pass over one module.

    Attributes:
        rewriter: The module being rewritten.
        options: Values of all options.
        diagnostics: Errors and warnings of the pass.
        fired: How often each pattern was applied, by the pattern's name.
        failed: True if the pass did not succeed; some passes fail without a diagnostic.
    """

    rewriter: Rewriter
    options: Mapping[str, Any]
    diagnostics: list[Diagnostic] = field(default_factory=list)
    fired: Counter[str] = field(default_factory=Counter)
    failed: bool = False

    def error(self, operation: Operation, message: str, *, fails: bool = True) -> None:
        """Report an error at an operation, with the op's name before `message`.

        Args:
            operation: Location of the error.
            message: Text after the op's name.
            fails: Whether the pass fails; some passes report errors and succeed.
        """
        self.plain_error(operation, f"'{operation.name}' op {message}", fails=fails)

    def plain_error(self, operation: Operation, message: str, *, fails: bool = True) -> None:
        """Report an error at an operation, without the op's name.

        It is skipped if an equal one is among the latest. With `fails`, the pass fails.
        """
        found = Diagnostic(message, operation.span)
        if found not in self.diagnostics[-_LOOKED_BACK:]:
            self.diagnostics.append(found)
        self.failed |= fails

    def functions(self) -> Iterator[Operation]:
        """Yield the functions of the module, in order."""
        for block in self.rewriter.module.blocks:
            yield from (op for op in block if op.name == "func.func")

    def greedy(
        self,
        scope: Operation,
        patterns: Iterable[Pattern] | Chooser,
        *,
        top_down: bool = True,
        max_iterations: int = ITERATIONS,
        merges_blocks: bool = True,
    ) -> bool:
        """Apply patterns in the regions of `scope` until none applies, by a `GreedyDriver`.

        Return false if `max_iterations` did not suffice. The options are those of the driver.
        """
        driver = GreedyDriver(
            self.rewriter,
            scope,
            patterns,
            top_down=top_down,
            max_iterations=max_iterations,
            merges_blocks=merges_blocks,
        )
        before = driver.chooser.fired.copy()
        converged = driver.run()
        self.fired += driver.chooser.fired - before
        return converged

    def greedy_bottom_up(self, patterns: Iterable[Pattern] | Chooser) -> None:
        """Apply patterns in all functions, last op first.

        The run fails if the iterations do not suffice.
        """
        for function in self.functions():
            self.failed |= not self.greedy(function, patterns, top_down=False)


def until_none_fits(patterns: Iterable[Pattern], name: str) -> Callable[[Run], None]:
    """Return the `run` function of a pass that applies patterns in functions until none applies.

    The pass reports an error and fails if the iterations do not suffice.

    Args:
        patterns: The patterns.
        name: Name of the pass in upstream's message.
    """

    def run(about: Run) -> None:
        for function in about.functions():
            if not about.greedy(function, patterns):
                about.error(function, f"Failed to converge {name} in {ITERATIONS} iterations")

    return run


class Pass(Struct, frozen=True):
    """A pass over modules.

    Attributes:
        name: Upstream's name, such as `stablehlo-refine-shapes`.
        run: Function that rewrites the module of a `Run`.
        help: One line of help.
        options: Options by name.
        on_functions: True if upstream runs the pass on functions, not on a module.
    """

    name: str
    run: Callable[[Run], None]
    help: str
    options: Mapping[str, Option] = field(default_factory=dict)
    on_functions: bool = False

    def apply(self, module: Operation, **options: Any) -> tuple[Operation, Run]:
        """Run the pass on a copy of `module`; return the rewritten copy, and the `Run`.

        `options` has option values by name; a missing option has its default.

        Raises:
            PassError: The pass did not succeed.
        """
        run = self.change(Rewriter(module), options)
        if run.failed:
            raise pass_error(self.name, run.diagnostics)
        return run.rewriter.finish(), run

    def change(self, rewriter: Rewriter, options: Mapping[str, Any]) -> Run:
        """Run the pass on the module of `rewriter`, in place.

        If `failed` is set in the returned run, the module must not be used.
        """
        unknown = options.keys() - self.options.keys()
        if unknown:
            raise TypeError(f"{self.name} has no option `{min(unknown)}`")
        values = {name: option.default for name, option in self.options.items()}
        run = Run(rewriter, {**values, **options})
        self.run(run)
        return run


def pass_error(name: str, diagnostics: Sequence[Diagnostic]) -> PassError:
    """Return the exception for a pass that failed: its first error, and all `diagnostics`."""
    first = next((found for found in diagnostics if found.severity == "error"), None)
    if first is None:
        return PassError(f"{name} did not succeed")
    error = PassError(first.message, span=first.span, rule=first.rule)
    error.diagnostics = tuple(diagnostics)
    return error
