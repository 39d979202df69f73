"""The walk of MLIR's verifier: every op before, and after, what its regions hold.

An op is checked against its definition and its own rules first; then its regions; then what needs
them to be sound: terminators, symbols, inferred types.  An op isolated from above (a function, a
module) is checked on its own, and in the end the uses of values in it.

Source: MLIR's `Verifier.cpp`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from hloscope.dialects import DEFINITIONS, is_isolated
from hloscope.errors import Diagnostic, VerifyError
from hloscope.mlir import NAME_SCOPES, Block, Operation, Region
from hloscope.verifier.shardy import check_shardy
from hloscope.verifier.stablehlo.branches import wrong_branch
from hloscope.verifier.stablehlo.custom_calls import check_custom_call
from hloscope.verifier.stablehlo.dominance import undominated
from hloscope.verifier.stablehlo.invariants import check_definition
from hloscope.verifier.stablehlo.likeness import (
    Likeness,
    closed_likeness,
    full_likeness,
    quick_likeness,
)
from hloscope.verifier.stablehlo.programs import (
    check_async_start,
    check_constant,
    check_isolation,
    check_run_parallel,
)
from hloscope.verifier.stablehlo.symbols import (
    RedefinitionError,
    Symbols,
    check_function,
    check_indirect_call,
    check_return,
    check_table,
)
from hloscope.verifier.stablehlo.traits import refuse
from hloscope.verifier.stablehlo.typing import TYPED, Typing, infers, is_inference, message_of

ISOLATED: Final = frozenset(filter(is_isolated, DEFINITIONS))
"""Ops whose regions read no value defined outside them.

Source: MLIR's trait `IsolatedFromAbove`.
"""
_OPENLY_READ: Final = ISOLATED - NAME_SCOPES
"""Those of them in whose regions the names of outer values are known to the parser."""
_CLOSED: Final = frozenset({"stablehlo", "chlo", "check", "interpreter", "func", "builtin"})
"""Dialects all of whose ops are known."""
_FAMILIAR: Final = frozenset(
    "arith bufferization cf complex linalg llvm math memref mhlo ml_program mpmd quant scf sdy"
    " shape sparse_tensor tensor ub vector vhlo hlo_test_broadcast hlo_test_infer"
    " hlo_test_speculatability".split()
)
"""Dialects that StableHLO programs use; their ops are taken as they are."""
_OWN: Final[dict[str, Callable[[Operation], None]]] = {
    "func.func": check_function,
    "func.return": check_return,
    "func.call_indirect": check_indirect_call,
    "stablehlo.custom_call": check_custom_call,
    "check.expect_eq_const": check_constant,
    "check.expect_almost_eq_const": check_constant,
}
"""Rules of single ops that need their attributes or surroundings."""


def verify_mlir(
    root: Operation, *, allow_unregistered: bool = True, first_only: bool = False
) -> list[Diagnostic]:
    """Everything that is wrong with a module, in the order of the text.

    Args:
        root: A module, or any op.
        allow_unregistered: May there be ops of dialects that nobody knows?
        first_only: Stop in each function, and in the module around, at the first error, as MLIR
            does.  Otherwise everything is reported that does not follow from another error.
    """
    walk = _Walk(allow_unregistered, first_only)
    walk.run(root)
    found = walk.found
    for operation, error in check_shardy(root, walk.broken):
        if not (first_only and found):
            found += _diagnostics(operation, error)
    if not first_only:
        found.sort(key=lambda d: d.span.start if d.span else -1)
    return found


class _Walk:
    """State of one verification."""

    def __init__(self, allow_unregistered: bool, first_only: bool) -> None:
        self.found: list[Diagnostic] = []
        self._allow, self._first_only = allow_unregistered, first_only
        self._symbols, self._typing = Symbols(), Typing()
        self._stack: list[tuple[Operation | Block, Iterator[Operation | Block]]] = []
        """What is being walked, each with what is still to come in it."""
        self._scopes: list[int] = []
        """Where in the stack the isolated ops are."""
        self._isolated: dict[int, list[Operation]] = {}
        """Isolated ops in an op, which are walked after all else in it, by its identity."""
        self.broken: set[int] = set()
        """Ops in which something is wrong, by identity."""
        self._sound: set[Likeness | None] = set()
        """What is alike in ops that were found right, so that the next one need not be checked.

        Never `None`, which is nothing that ops have in common.
        """
        self._closed: dict[Operation, Likeness] = {}
        """Ops with regions that use no value but their own, and what they are alike in."""
        self._closed_alike: dict[object, Likeness | None] = {}
        """The same by what ops have in common that the reader found alike."""
        self._postponed: dict[int, VerifyError] = {}
        """What inference found, reported if the op's regions are sound."""

    def run(self, root: Operation) -> None:
        """Walk; never recurses, whatever the nesting."""
        self._enter(root)
        stack = self._stack
        while stack:
            item, rest = stack[-1]
            following = self._next_new(rest) if isinstance(item, Block) else next(rest, None)
            if isinstance(following, Operation):
                if isinstance(item, Block) and following.regions and following.name in ISOLATED:
                    self._put_off(following)
                else:
                    self._enter(following)
            elif following is not None:
                self._enter_block(following)
            elif isinstance(item, Operation):
                isolated = self._isolated.pop(id(item), None)
                if isolated and not self._is_done(item):
                    stack[-1] = item, iter(isolated)
                else:
                    self._leave(item)
            else:
                stack.pop()
                self._leave_block(item)

    def _next_new(self, rest: Iterator[Operation | Block]) -> Operation | Block | None:
        """The next op that is not known to be right, with all in it."""
        sound = self._sound
        for operation in rest:
            assert isinstance(operation, Operation)
            if not operation.regions:
                if operation.alike not in sound and quick_likeness(operation) not in sound:
                    return operation
                continue
            key = self._closed_likeness(operation)
            if key is not None:
                self._closed[operation] = key
            if key not in sound:
                return operation
        return None

    def _closed_likeness(self, operation: Operation) -> Likeness | None:
        """See `closed_likeness`; ops that the reader found alike have it in common."""
        alike = operation.alike
        if alike is None:
            return closed_likeness(operation)
        if alike not in self._closed_alike:
            self._closed_alike[alike] = closed_likeness(operation)
        return self._closed_alike[alike]

    # --- reporting --------------------------------------------------------------------------

    def _report(self, operation: Operation | None, *diagnostics: Diagnostic) -> None:
        """Note errors; if the first of an isolated op will do, skip the rest of it."""
        self.found += diagnostics
        if operation is not None:
            self.broken.add(id(operation))
        if self._first_only and self._scopes:
            height = self._scopes[-1]
            root = self._stack[height][0]
            self.broken.add(id(root))
            self._stack[height:] = [(root, iter(()))]

    def _refuse(self, operation: Operation, error: VerifyError) -> None:
        self._report(operation, *_diagnostics(operation, error))

    # --- ops --------------------------------------------------------------------------------

    def _enter(self, operation: Operation) -> None:
        if operation.regions:
            if operation.name in ISOLATED or not self._stack:
                self._scopes.append(len(self._stack))
            self._stack.append((operation, iter(operation.blocks)))
            quick = full = None
        else:
            quick, full = quick_likeness(operation), full_likeness(operation)
            if full in self._sound:
                self._sound.add(quick)
                return
        try:
            self._check(operation)
        except VerifyError as error:
            self._refuse(operation, error)
        else:
            if full is not None and self._typing.depends_on_types_only(operation):
                self._sound |= {quick, full}
        if not operation.regions:
            self._spread(operation)

    def _check(self, operation: Operation) -> None:
        name = operation.name
        dialect = name.partition(".")[0]
        definition = DEFINITIONS.get(name)
        if definition is None:
            self._check_unknown(operation, dialect)
        else:
            check_definition(operation, definition)
        own = _OWN.get(name)
        if own is not None:
            own(operation)
        elif name == "interpreter.run_parallel":
            check_run_parallel(operation, self._symbols)
        if dialect in TYPED and not name.endswith(".return"):
            error = self._typing.check(operation)
            if error is not None and not is_inference(error):
                raise error
            if error is not None and operation.regions:
                self._postponed[id(operation)] = error
            elif error is not None:
                raise error
        for region in operation.regions:
            _check_entry(region)

    def _check_unknown(self, operation: Operation, dialect: str) -> None:
        if dialect in _CLOSED:
            raise VerifyError(
                f"unregistered operation '{operation.name}' found in dialect ('{dialect}') that"
                " does not allow unknown operations"
            )
        if not self._allow and dialect not in _FAMILIAR:
            raise refuse(
                operation,
                "created with unregistered dialect. If this is intended, please call"
                " allowUnregisteredDialects() on the MLIRContext, or use"
                " -allow-unregistered-dialect with the MLIR opt tool used",
            )

    def _put_off(self, operation: Operation) -> None:
        around = _owner(operation)
        if around is not None:
            self._isolated.setdefault(id(around), []).append(operation)

    def _leave(self, operation: Operation) -> None:
        """Check what needs sound regions, of the op on top of the stack, and take it away."""
        is_scope = self._scopes[-1] == len(self._stack) - 1
        self._stack.pop()
        if is_scope:
            self._scopes.pop()
        if id(operation) not in self.broken:
            try:
                self._check_after(operation)
            except VerifyError as error:
                if not is_scope:
                    self._refuse(operation, error)
                else:
                    self._note(operation, *_diagnostics(operation, error))
            else:
                key = self._closed.get(operation)
                if key is not None and self._typing.depends_on_types_only(operation):
                    self._sound.add(key)
        if is_scope:
            self._check_names(operation)
            self._check_uses(operation)
        self._spread(operation)

    def _check_after(self, operation: Operation) -> None:
        definition = DEFINITIONS.get(operation.name)
        if definition is None:
            return
        if "single_block" in definition.traits and "no_terminator" not in definition.traits:
            _check_terminators(operation)
        error = self._postponed.pop(id(operation), None)
        if error is not None:
            raise error
        if operation.name in _OPENLY_READ:
            check_isolation(operation)
        if operation.name == "stablehlo.async_start":
            check_async_start(operation)

    def _note(self, operation: Operation, *diagnostics: Diagnostic) -> None:
        self.found += diagnostics
        self.broken.add(id(operation))

    def _is_done(self, operation: Operation) -> bool:
        return self._first_only and id(operation) in self.broken

    def _check_names(self, table: Operation) -> None:
        definition = DEFINITIONS.get(table.name)
        if definition is None or "symbol_table" not in definition.traits:
            return
        if self._is_done(table):
            return
        for user, error in check_table(table, self._symbols):
            self._note(table, *_diagnostics(user, error))
            if self._first_only:
                break

    def _check_uses(self, root: Operation) -> None:
        if self._is_done(root):
            return
        for diagnostic in undominated(root, ISOLATED, self._closed):
            self._note(root, diagnostic)
            if self._first_only:
                break

    def _spread(self, operation: Operation) -> None:
        """Tell the op around that something in it is wrong."""
        around = _owner(operation)
        if around is not None and id(operation) in self.broken:
            self.broken.add(id(around))

    # --- blocks -----------------------------------------------------------------------------

    def _enter_block(self, block: Block) -> None:
        self._stack.append((block, iter(block.operations)))
        owner = block.parent.parent if block.parent else None
        if not block.operations:
            if not _may_lack_terminator(block):
                span = owner.span if owner else None
                message = "empty block: expect at least a terminator"
                self._report(owner, Diagnostic(message, span))
            return
        for operation in block.operations[:-1]:
            if operation.successors:
                message = "operation with block successors must terminate its parent block"
                self._report(owner, Diagnostic(message, operation.span))
                return

    def _leave_block(self, block: Block) -> None:
        if not block.operations:
            return
        owner = block.parent.parent if block.parent else None
        last = block.operations[-1]
        if any(successor.parent is not block.parent for successor in last.successors):
            error = refuse(last, "branching to block of a different region")
            self._report(owner, *_diagnostics(last, error))
        elif wrong := wrong_branch(last):
            self._report(owner, Diagnostic(wrong, last.span))
        elif not _may_lack_terminator(block) and not _may_terminate(last):
            message = f'block with no terminator, has "{last.name}"'
            self._report(owner, Diagnostic(message, last.span))


def _owner(operation: Operation) -> Operation | None:
    """The op whose region this op is in."""
    region = operation.parent.parent if operation.parent else None
    return region.parent if region else None


def _diagnostics(operation: Operation, error: VerifyError) -> list[Diagnostic]:
    notes = (error.note,) if isinstance(error, RedefinitionError) else ()
    span = error.span or operation.span
    found = [Diagnostic(message_of(operation, error), span, error.rule, notes=notes)]
    if is_inference(error) and infers(operation.name):
        message = f"'{operation.name}' op failed to infer returned types"
        found.append(Diagnostic(message, operation.span, error.rule))
    return found


def _check_entry(region: Region) -> None:
    if region.blocks:
        entry = region.blocks[0]
        for block in region.blocks:
            if block.operations and entry in block.operations[-1].successors:
                raise VerifyError("entry block of region may not have predecessors")


def _check_terminators(operation: Operation) -> None:
    expected = f"{operation.name.partition('.')[0]}.return"
    for region in operation.regions:
        last = region.blocks[0].operations[-1]
        if last.name != expected:
            raise refuse(
                operation, f"expects regions to end with '{expected}', found '{last.name}'"
            )


def _may_lack_terminator(block: Block) -> bool:
    region = block.parent
    if region is None or region.parent is None:
        return True
    if len(region.blocks) != 1:
        return False
    definition = DEFINITIONS.get(region.parent.name)
    return definition is None or definition.open or "no_terminator" in definition.traits


def _may_terminate(operation: Operation) -> bool:
    definition = DEFINITIONS.get(operation.name)
    return definition is None or "terminator" in definition.traits
