"""Traversal in the order of MLIR's verifier: an op is checked before and after its regions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Final

from hloscope.errors import Diagnostic, UnsupportedError, VerifyError
from hloscope.ir import IncompatibleTypesError, InferenceError, Op, Signature, Type
from hloscope.mlir import (
    NAME_SCOPES,
    Block,
    Operation,
    Region,
    Value,
    equality_key,
    spell,
    types_text,
)
from hloscope.mlir.dialects import DEFINITIONS, is_isolated
from hloscope.stablehlo import OpMaker, operand_types, signature
from hloscope.verifier.shardy import check_shardy
from hloscope.verifier.stablehlo.custom_calls import check_custom_call
from hloscope.verifier.stablehlo.invariants import check_definition
from hloscope.verifier.stablehlo.symbols import (
    RedefinitionError,
    Symbols,
    check_async_start,
    check_constant,
    check_function,
    check_indirect_call,
    check_isolation,
    check_return,
    check_run_parallel,
    check_table,
)
from hloscope.verifier.stablehlo.traits import refuse, undominated, wrong_branch

# --------------------------------------------------------------------------------------------------
# Traversal of MLIR's verifier: each op is checked before, and again after, its regions.
#
# An op is checked against its definition and its own rules first; then its regions; then what needs
# them to be sound: terminators, symbols, inferred types.  An op isolated from above (a function, a
# module) is checked on its own, and in the end the uses of values in it.
#
# Source: MLIR's `Verifier.cpp`.


ISOLATED: Final = frozenset(filter(is_isolated, DEFINITIONS))
"""Names of the ops whose regions may read no value from outside.

Source: MLIR's trait `IsolatedFromAbove`.
"""
_OPENLY_READ: Final = ISOLATED - NAME_SCOPES
"""Ops of `ISOLATED` whose regions may name outer values as far as the parser is concerned."""
_CLOSED: Final = frozenset({"stablehlo", "chlo", "check", "interpreter", "func", "builtin"})
"""Dialects whose ops all have definitions, so that another op of theirs is an error."""
_FAMILIAR: Final = frozenset(
    "arith bufferization cf complex linalg llvm math memref mhlo ml_program mpmd quant scf sdy"
    " shape sparse_tensor tensor ub vector vhlo hlo_test_broadcast hlo_test_infer"
    " hlo_test_speculatability".split()
)
"""Dialects whose ops are accepted without a definition, since StableHLO programs use them."""
_OWN: Final[dict[str, Callable[[Operation], None]]] = {
    "func.func": check_function,
    "func.return": check_return,
    "func.call_indirect": check_indirect_call,
    "stablehlo.custom_call": check_custom_call,
    "check.expect_eq_const": check_constant,
    "check.expect_almost_eq_const": check_constant,
}
"""Additional checks, by op name."""


def verify_mlir(
    root: Operation, *, allow_unregistered: bool = True, first_only: bool = False
) -> list[Diagnostic]:
    """Return all errors of a module, in the order of the text.

    Args:
        root: A module, or any op.
        allow_unregistered: Accept ops that have no definition.
        first_only: Stop at the first error in each function, and in the module around them, as
            MLIR does.  Otherwise return every error that does not follow from another error.
    """
    walk = _Verification(allow_unregistered, first_only)
    walk.run(root)
    found = walk.found
    for operation, error in check_shardy(root, walk.broken):
        if not (first_only and found):
            found += _diagnostics(operation, error)
    if not first_only:
        found.sort(key=lambda d: d.span.start if d.span else -1)
    return found


class _Verification:
    """The state of one verification: stack of the traversal, errors, and keys of valid ops."""

    def __init__(self, allow_unregistered: bool, first_only: bool) -> None:
        self.found: list[Diagnostic] = []
        self._allow, self._first_only = allow_unregistered, first_only
        self._symbols, self._typing = Symbols(), Typing()
        self._stack: list[tuple[Operation | Block, Iterator[Operation | Block]]] = []
        """Ops and blocks that are entered but not left, each with an iterator over its rest."""
        self._scopes: list[int] = []
        """Indices in `_stack` of the isolated ops."""
        self._isolated: dict[int, list[Operation]] = {}
        """Isolated ops by the identity of the op around them.

        They are visited after its other contents.
        """
        self.broken: set[int] = set()
        """Identities of the ops that have an error, themselves or in their regions."""
        self._valid_keys: set[OpKey | None] = set()
        """Keys of valid ops; an op with one of these keys is not checked.

        `None` is never in the set: it means that an op has no key.
        """
        self._closed: dict[Operation, OpKey] = {}
        """Keys of ops with regions that read no outer value, by op."""
        self._postponed: dict[int, VerifyError] = {}
        """Inference errors by the identity of the op; reported if the op's regions are valid."""

    def run(self, root: Operation) -> None:
        """Verify `root` and all ops in it; an explicit stack does not limit the nesting depth."""
        self._enter(root)
        stack = self._stack
        while stack:
            item, rest = stack[-1]
            following = self._next_new(rest) if isinstance(item, Block) else next(rest, None)
            if isinstance(following, Operation):
                # MLIR verifies an isolated op by itself, after the rest of the op around it.  The
                # order decides which error comes first.
                if isinstance(item, Block) and following.regions and following.name in ISOLATED:
                    self._postpone_isolated(following)
                else:
                    self._enter(following)
            elif following is not None:
                self._enter_block(following)
            elif isinstance(item, Operation):
                isolated = self._isolated.pop(id(item), None)
                if isolated and not self._is_done(item):
                    # The op is visited a second time, now for its isolated ops only.  `pop` above
                    # removes them, so that the next visit leaves the op.
                    stack[-1] = item, iter(isolated)
                else:
                    self._leave(item)
            else:
                stack.pop()
                self._leave_block(item)

    def _next_new(self, rest: Iterator[Operation | Block]) -> Operation | Block | None:
        """Return the next op of `rest` that must be checked; `None` at the end of the block.

        An op with the key of a valid op is skipped.
        """
        sound = self._valid_keys
        for operation in rest:
            assert isinstance(operation, Operation)
            if not operation.regions:
                # The reader's key is there already and is tried first; the other one is built from
                # the op.
                if operation.shared_key not in sound and quick_key(operation) not in sound:
                    return operation
                continue
            key = closed_key(operation)
            if key is not None:
                self._closed[operation] = key
            if key not in sound:
                return operation
        return None

    # --- reporting --------------------------------------------------------------------------

    def _report(self, operation: Operation | None, *diagnostics: Diagnostic) -> None:
        """Record errors of an op.

        With `first_only`, the rest of the innermost isolated op is skipped.
        """
        self.found += diagnostics
        if operation is not None:
            self.broken.add(id(operation))
        if self._first_only and self._scopes:
            height = self._scopes[-1]
            root = self._stack[height][0]
            self.broken.add(id(root))
            # The isolated op stays on the stack with no more ops to visit, so that `_leave` still
            # checks it.
            self._stack[height:] = [(root, iter(()))]

    def _refuse(self, operation: Operation, error: VerifyError) -> None:
        self._report(operation, *_diagnostics(operation, error))

    # --- ops --------------------------------------------------------------------------------

    def _enter(self, operation: Operation) -> None:
        """Check an op before its regions; push it on the stack if it has any."""
        if operation.regions:
            # The root of a verification is a scope too, isolated or not: uses are checked in it.
            if operation.name in ISOLATED or not self._stack:
                self._scopes.append(len(self._stack))
            self._stack.append((operation, iter(operation.blocks)))
            quick = full = None
        else:
            quick, full = quick_key(operation), full_key(operation)
            if full in self._valid_keys:
                self._valid_keys.add(quick)
                return
        try:
            self._check(operation)
        except VerifyError as error:
            self._refuse(operation, error)
        else:
            # Ops whose check reads operand values are excluded: equal keys do not imply equal
            # values.
            if full is not None and self._typing.depends_on_types_only(operation):
                self._valid_keys |= {quick, full}
        if not operation.regions:
            self._mark_around(operation)

    def _check(self, operation: Operation) -> None:
        """Check an op without its regions, and raise its first error.

        Checked are the definition, rules of the op itself, its types, and the entry blocks of its
        regions.
        """
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
            # MLIR checks inferred types after the regions, and only if the regions are valid.
            if error is not None and operation.regions:
                self._postponed[id(operation)] = error
            elif error is not None:
                raise error
        for region in operation.regions:
            _check_entry(region)

    def _check_unknown(self, operation: Operation, dialect: str) -> None:
        """Check that the dialect of an op without a definition allows unknown ops.

        Raises:
            VerifyError: It does not.
        """
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

    def _postpone_isolated(self, operation: Operation) -> None:
        around = operation.parent_op
        if around is not None:
            self._isolated.setdefault(id(around), []).append(operation)

    def _leave(self, operation: Operation) -> None:
        """Pop the op on top of the stack, and check what depends on valid regions."""
        is_scope = self._scopes[-1] == len(self._stack) - 1
        self._stack.pop()
        if is_scope:
            self._scopes.pop()
        if id(operation) not in self.broken:
            try:
                self._check_after(operation)
            except VerifyError as error:
                # `_report` would cut the stack at a scope, and this one has just been popped.
                if not is_scope:
                    self._refuse(operation, error)
                else:
                    self._note(operation, *_diagnostics(operation, error))
            else:
                key = self._closed.get(operation)
                if key is not None and self._typing.depends_on_types_only(operation):
                    self._valid_keys.add(key)
        # These do not depend on the checks above: a broken op does not hide a wrong name or use.
        if is_scope:
            self._check_names(operation)
            self._check_uses(operation)
        self._mark_around(operation)

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

    def _mark_around(self, operation: Operation) -> None:
        """Record that the op whose region contains `operation`, which is broken, is broken, too."""
        around = operation.parent_op
        if around is not None and id(operation) in self.broken:
            self.broken.add(id(around))

    # --- blocks -----------------------------------------------------------------------------

    def _enter_block(self, block: Block) -> None:
        self._stack.append((block, iter(block.operations)))
        owner = block.parent_op
        if not block.operations:
            if not _may_lack_terminator(block):
                span = owner.span if owner else None
                message = "empty block: expect at least a terminator"
                self._report(owner, Diagnostic(message, span))
            return
        # A terminator may have successors; any earlier op must not.
        for operation in block.operations[:-1]:
            if operation.successors:
                message = "operation with block successors must terminate its parent block"
                self._report(owner, Diagnostic(message, operation.span))
                return

    def _leave_block(self, block: Block) -> None:
        if not block.operations:
            return
        owner = block.parent_op
        last = block.operations[-1]
        if any(successor.parent is not block.parent for successor in last.successors):
            error = refuse(last, "branching to block of a different region")
            self._report(owner, *_diagnostics(last, error))
        elif wrong := wrong_branch(last):
            self._report(owner, Diagnostic(wrong, last.span))
        elif not _may_lack_terminator(block) and not _may_terminate(last):
            message = f'block with no terminator, has "{last.name}"'
            self._report(owner, Diagnostic(message, last.span))


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


# --------------------------------------------------------------------------------------------------
# Keys of ops: ops with equal keys get the same verdict, so that one of them is checked.
#
# Types, properties and attributes count by identity: the tree keeps them, and readers share them.


OpKey = object

_CONTEXT_DEPENDENT: Final = frozenset(
    {"func.return", "stablehlo.return", "interpreter.run_parallel"}
)
"""Ops without regions whose checks depend on the op's position or on other ops."""
_WITH_REGIONS: Final = frozenset(
    f"stablehlo.{name}"
    for name in ("reduce", "reduce_window", "scatter", "select_and_scatter", "sort", "map")
)
"""Ops with regions whose checks depend only on the op and its regions."""
_MOST: Final = 16
"""Maximum number of ops in a region for which a key is computed."""
_type_of: Final = attrgetter("type")


def quick_key(operation: Operation) -> OpKey | None:
    """Return a key of everything that the checks of an op without regions depend on.

    An op with the key of a valid op is valid. The result is `None` if the checks depend on the op's
    position or on other ops, too.
    """
    if operation.successors or operation.name in _CONTEXT_DEPENDENT:
        return None
    return equality_key(operation)


def full_key(operation: Operation) -> OpKey | None:
    """Return a key as `quick_key` does, but with attributes compared one by one.

    `quick_key` compares dictionaries of attributes by identity, so that it may separate ops
    that have equal keys here. The result is `None` if the checks depend on the op's position or on
    other ops.
    """
    if operation.successors or operation.name in _CONTEXT_DEPENDENT:
        return None
    return (
        operation.name,
        tuple([id(value.type) for value in operation.operands]),
        tuple([id(value.type) for value in operation.results]),
        tuple([(name, id(attribute)) for name, attribute in operation.properties.items()]),
        tuple([(name, id(attribute)) for name, attribute in operation.attributes.items()]),
    )


def closed_key(operation: Operation) -> OpKey | None:
    """Return a key of an op with regions and of all ops in them.

    An op with the key of a valid op is valid. The result is `None` if the checks may depend on
    more, or if the regions use a value that is not defined before in the same block.
    """
    if operation.name not in _WITH_REGIONS or operation.successors:
        return None
    found = [equality_key(operation)]
    for region in operation.regions:
        if len(region.blocks) != 1:
            return None
        (block,) = region.blocks
        if not 0 < len(block.operations) <= _MOST or not _add_block(block, found):
            return None
    return tuple(found)


def _add_block(block: Block, found: list[OpKey]) -> bool:
    """Add the keys of a block's ops to `found`.

    Return false if an op has regions, or uses a value that is not defined before in the block.
    """
    numbers: dict[Value, int] = {}
    found.append(tuple(map(id, map(_type_of, block.arguments))))
    _number(block.arguments, numbers)
    for operation in block.operations:
        if operation.regions or operation.successors:
            return False
        # Values count by their number in the block, so that renamed copies have equal keys.
        uses = tuple(map(numbers.get, operation.operands))
        if None in uses:
            return False
        found += (equality_key(operation), uses)
        _number(operation.results, numbers)
    return True


def _number(values: Iterable[Value], numbers: dict[Value, int]) -> None:
    for value in values:
        numbers[value] = len(numbers)


# --------------------------------------------------------------------------------------------------
# Type checks of operations, by the op class of each.


TYPED: Final = frozenset({"stablehlo", "chlo", "sdy"})
"""Dialects whose ops have Python classes with type rules."""


class Typing:
    """Checks the types of the operations of one module by type inference."""

    def __init__(self) -> None:
        self._make = OpMaker()

    def check(self, operation: Operation) -> VerifyError | None:
        """Return the type error of an operation; `None` if its types are valid."""
        try:
            op = self._make(operation)
        except VerifyError as error:
            return error
        operands, results = tuple(operation.operand_types), tuple(operation.result_types)
        if operation.regions:
            calls = tuple(map(signature, operation.regions))
            return _verify(op, operands, results, calls)
        if op.reads_values:
            return _verify(op, operand_types(op, operation.operands), results, ())
        return _verify(op, operands, results, ())

    def depends_on_types_only(self, operation: Operation) -> bool:
        """Does the type check of an op depend on types only, not on operand values?

        The op must have passed `check`.
        """
        if operation.name.partition(".")[0] not in TYPED:
            return True
        return not self._make(operation).reads_values


def _verify(
    op: Op,
    operands: tuple[Type, ...],
    results: tuple[Type, ...],
    calls: tuple[Signature, ...],
) -> VerifyError | None:
    """Return the error of an op's type rules; `None` if these types are valid.

    Args:
        op: The op.
        operands: Types of its operands.
        results: Types of its results.
        calls: Parameter and result types of its regions and called functions.
    """
    try:
        op.verify(operands, results, calls)
    except VerifyError as error:
        error.spell = spell
        return error
    except UnsupportedError:
        return None
    return None


def infers(name: str) -> bool:
    """Does StableHLO infer the result types of op `name`?"""
    traits = DEFINITIONS[name].traits
    return "infer" in traits or "compatible" in traits


def is_inference(error: VerifyError) -> bool:
    """Is it an error of type inference, which MLIR runs after checking the op and its regions?"""
    return isinstance(error, InferenceError | IncompatibleTypesError)


def message_of(operation: Operation, error: VerifyError) -> str:
    """Return the message of an error in StableHLO's wording.

    Only an error of inferred types has another message than `error.message`.
    """
    if isinstance(error, IncompatibleTypesError):
        return (
            f"'{operation.name}' op inferred type(s) {_quoted(error.inferred)} are incompatible"
            f" with return type(s) of operation {_quoted(error.declared)}"
        )
    return error.message


def _quoted(types: tuple[Type, ...]) -> str:
    return ", ".join(f"'{types_text((type_,))}'" for type_ in types)
