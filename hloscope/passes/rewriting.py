"""The rewriter: a private copy of a module, and the users of each value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from hloscope.ir import Callee, TensorType, Type
from hloscope.mlir import (
    NO_ATTRIBUTES,
    Attribute,
    Block,
    DenseAttr,
    Location,
    Operation,
    Region,
    Value,
    from_array,
)
from hloscope.stablehlo import clone, made
from hloscope.support.arrays import np

# --------------------------------------------------------------------------------------------------
# The rewriter: a private copy of a module, with the users of each value.
#
# A pass creates a `Rewriter`, changes its copy in place, and returns it with `finish`.  The input
# module is not changed.  Traversals are iterative: nesting is not limited.


_MANY_OPERANDS: Final = 64
"""An op with more operands gets a table of the positions of each operand."""


class OpenBlock(Block):
    """A block whose operations form a linked list, so that insertion and removal take O(1)."""

    __slots__ = ("_after", "_before", "_first", "_known", "_last")

    def __init__(
        self,
        arguments: tuple[Value, ...],
        operations: tuple[Operation, ...] = (),
        label: str = "",
    ) -> None:
        self._after: dict[Operation, Operation | None] = {}
        self._before: dict[Operation, Operation | None] = {}
        self._first: Operation | None = None
        self._last: Operation | None = None
        self._known: tuple[Operation, ...] | None = ()
        super().__init__(arguments, (), label)
        self.operations = operations

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The operations in order, as a tuple; it is built again after a change."""
        # Verification, printing and traversals read the tuple repeatedly between changes.
        if self._known is None:
            self._known = tuple(self)
        return self._known

    @operations.setter
    def operations(self, given: Iterable[Operation]) -> None:
        self._after, self._before, self._first, self._last = {}, {}, None, None
        for operation in given:
            self.insert(operation, None)

    def __iter__(self) -> Iterator[Operation]:
        """Yield the operations in order.

        During iteration, the last yielded one may be erased, and others inserted.
        """
        at = self._first
        while at is not None:
            # The successor is read before the yield, for the case that the operation is erased.
            after = self._after[at]
            yield at
            at = self._after.get(at, after)

    @property
    def first(self) -> Operation | None:
        """The first operation; `None` if the block is empty."""
        return self._first

    @property
    def last(self) -> Operation | None:
        """The last operation, of most blocks the terminator; `None` if the block is empty."""
        return self._last

    def after(self, operation: Operation) -> Operation | None:
        """Return the next operation; `None` after the last."""
        return self._after[operation]

    def before(self, operation: Operation) -> Operation | None:
        """Return the previous operation; `None` before the first."""
        return self._before[operation]

    def insert(self, operation: Operation, before: Operation | None) -> None:
        """Insert an operation before another one; at the end if that is `None`."""
        previous = self._last if before is None else self._before[before]
        self._before[operation], self._after[operation] = previous, before
        if previous is None:
            self._first = operation
        else:
            self._after[previous] = operation
        if before is None:
            self._last = operation
        else:
            self._before[before] = operation
        operation.parent = self
        self._known = None

    def remove(self, operation: Operation) -> None:
        """Remove an operation from the block."""
        previous, following = self._before.pop(operation), self._after.pop(operation)
        if previous is None:
            self._first = following
        else:
            self._after[previous] = following
        if following is None:
            self._last = previous
        else:
            self._before[following] = previous
        operation.parent = None
        self._known = None


class Watcher:
    """Interface of objects that receive changes of a module, such as drivers with a work list."""

    def inserted(self, operation: Operation) -> None:
        """Receive an operation that was inserted into the module."""

    def changed(self, operation: Operation) -> None:
        """Receive an operation that moved, or whose operands, types or attributes changed."""

    def erased(self, operation: Operation) -> None:
        """Receive an operation that is about to be erased; it still has its operands."""


class Rewriter:
    """A private copy of a module, and the methods that change it.

    Args:
        module: Any operation with regions; it is not changed.

    Attributes:
        module: The copy.
        watcher: Receives each change.

    >>> from hloscope.stablehlo import parse_stablehlo
    >>> text = '''func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
    ...   %0 = stablehlo.negate %a : tensor<2xf32>
    ...   return %0 : tensor<2xf32>
    ... }'''
    >>> rewriter = Rewriter(parse_stablehlo(text).tree)
    >>> negate = next(op for op in rewriter.walk() if op.name == "stablehlo.negate")
    >>> rewriter.replace(negate, [negate.operands[0]])
    >>> [op.name for op in rewriter.walk()]
    ['builtin.module', 'func.func', 'func.return']
    """

    def __init__(self, module: Operation) -> None:
        self.watcher = Watcher()
        self._users: Final[dict[Value, dict[Operation, int]]] = {}
        self._positions: Final[
            dict[Operation, tuple[tuple[Value, ...], dict[Value, list[int]]]]
        ] = {}
        self.module: Final = self._with_open_blocks(clone(module, {}))

    # ------------------------------------------------------------------------------------- looking

    def walk(self, inside: Operation | None = None) -> Iterator[Operation]:
        """Yield all operations in `inside`, each before those in its regions.

        The default is the module. The operation that was yielded last may be erased.
        """
        top = self.module if inside is None else inside
        yield top
        stack = [_ops_inside(top)]
        while stack:
            operation = next(stack[-1], None)
            if operation is None:
                stack.pop()
                continue
            # The regions are read before the yield: an erased operation has no parent and is
            # skipped.
            regions = operation.regions
            yield operation
            if regions and operation.parent is not None:
                stack.append(_ops_inside(operation))

    def users(self, value: Value) -> tuple[Operation, ...]:
        """Return the operations that read a value, each once, in the order of their first use."""
        return tuple(self._users.get(value, ()))

    def user_count(self, value: Value) -> int:
        """Return the number of operations that read a value."""
        return len(self._users.get(value, ()))

    def uses(self, value: Value) -> int:
        """Return how many operands of operations in the module are the value.

        An operation may count several times.
        """
        return sum(self._users.get(value, {}).values())

    def is_used(self, operation: Operation) -> bool:
        """Does any operation read a result of `operation`?"""
        return not self._users.keys().isdisjoint(operation.results)

    # ------------------------------------------------------------------------------------ changing

    def create(
        self,
        name: str,
        operands: Sequence[Value] = (),
        properties: Mapping[str, Attribute] = NO_ATTRIBUTES,
        *,
        before: Operation | None = None,
        into: Block | None = None,
        types: Sequence[Type] | None = None,
        attributes: Mapping[str, Attribute] = NO_ATTRIBUTES,
        regions: tuple[Region, ...] = (),
        callee: Callee | None = None,
        location: Location | None = None,
    ) -> Operation:
        """Create an operation before another, whose location it gets, or at the end of a block.

        Args:
            name: Full name, with the dialect.
            operands: Operands.
            properties: Inherent attributes.
            before: Operation before which it is inserted.
            into: Block at whose end it is inserted, if `before` is not given.
            types: Types of the results; inferred if not given.
            attributes: Discardable attributes.
            regions: Regions without an owner.
            callee: Signature of the called function, if result types are inferred from it.
            location: Location; that of `before` if not given.

        Raises:
            VerifyError: The op does not accept these operands or attributes.
            NotInferredError: The result types cannot be inferred, so that they must be given.
        """
        new = made(
            name,
            operands,
            properties,
            types=types,
            regions=regions,
            attributes=attributes,
            callee=callee,
        )
        # A new op takes the location of the op it helps to replace, as in MLIR's rewriters.
        if before is not None:
            new.location, new.source = before.location, before.source
            new.start, new.end = before.start, before.end
        if location is not None:
            new.location = location
        return self.insert(new, before=before, into=into)

    def constant(
        self,
        value: np.ndarray[tuple[int, ...], np.dtype[np.generic]] | DenseAttr,
        type: TensorType,
        *,
        before: Operation,
    ) -> Value:
        """Insert a `stablehlo.constant` of type `type` before an operation; return its result."""
        literal = value if isinstance(value, DenseAttr) else from_array(value, type)
        properties = {"value": literal}
        return self.create(
            "stablehlo.constant", (), properties, before=before, types=(type,)
        ).result

    def insert(
        self, operation: Operation, *, before: Operation | None = None, into: Block | None = None
    ) -> Operation:
        """Insert an operation that is in no block, with all in its regions; return it.

        It is inserted before `before`, or at the end of the block `into`.
        """
        block = into if before is None else before.parent
        assert isinstance(block, OpenBlock), (
            "an operation is inserted into a block or before an operation of one"
        )
        opened = self._with_open_blocks(operation)
        block.insert(opened, before)
        self.watcher.inserted(opened)
        return opened

    def move(self, operation: Operation, *, before: Operation) -> None:
        """Move an operation before another one."""
        old, new = operation.parent, before.parent
        assert isinstance(old, OpenBlock)
        assert isinstance(new, OpenBlock)
        old.remove(operation)
        new.insert(operation, before)
        self.watcher.changed(operation)

    def take_regions(self, operation: Operation) -> tuple[Region, ...]:
        """Detach the regions of an operation, with their content, and return them."""
        regions, operation.regions = operation.regions, ()
        for inner in [i for r in regions for block in r.blocks for i in block.operations]:
            for each in self.walk(inner):
                self._forget(each)
        return regions

    def inline(self, block: Block, arguments: Sequence[Value], *, before: Operation) -> None:
        """Move all operations of a block before an operation.

        `arguments` replace the block's arguments.
        """
        for old, new in zip(block.arguments, arguments, strict=True):
            self.replace_uses(old, new)
        for operation in block:
            self.move(operation, before=before)

    def set_operands(self, operation: Operation, operands: Sequence[Value]) -> None:
        """Replace all operands of an operation."""
        before = operation.operands
        if before != tuple(operands):
            self._forget(operation)
            operation.operands = tuple(operands)
            self._remember(operation)
            self.watcher.changed(operation)
            for value in before:
                if value not in self._users and isinstance(value.owner, Operation):
                    self.watcher.changed(value.owner)  # it may be unused now

    def set_type(self, value: Value, type: Type) -> None:
        """Set the type of a value; the watcher receives its definition and its users as changed."""
        value.type = type
        if isinstance(value.owner, Operation):
            self.watcher.changed(value.owner)
        for user in self.users(value):
            self.watcher.changed(user)

    def set_properties(self, operation: Operation, properties: Mapping[str, Attribute]) -> None:
        """Set the inherent attributes of an operation."""
        operation.properties = properties
        self.watcher.changed(operation)

    def set_attributes(self, operation: Operation, attributes: Mapping[str, Attribute]) -> None:
        """Set the discardable attributes of an operation."""
        operation.attributes = attributes
        self.watcher.changed(operation)

    def replace_uses(
        self, old: Value, new: Value, unless: Callable[[Operation], bool] | None = None
    ) -> None:
        """Replace uses of `old` by `new`, in nested regions too.

        Users for which `unless` is true are left unchanged.
        """
        if old is new:
            return
        # `users` is a copy: the loop removes entries of `_users[old]`.
        for user in self.users(old):
            if unless is None or not unless(user):
                readers = self._users[old]
                count = readers.pop(user)
                if not readers:
                    del self._users[old]
                others = self._users.setdefault(new, {})
                others[user] = others.get(user, 0) + count
                self._substitute(user, old, new)
                self.watcher.changed(user)

    def _substitute(self, user: Operation, old: Value, new: Value) -> None:
        """Replace `old` by `new` at all positions of the operands of `user`.

        For an op of many operands the positions of each operand are stored, since each may be
        replaced in turn.
        """
        if len(user.operands) <= _MANY_OPERANDS:
            user.operands = tuple([new if value is old else value for value in user.operands])
            return
        operands, places = self._positions.get(user, ((), {}))
        # The record is valid for one tuple of operands; any other change makes a new tuple.
        if operands is not user.operands:
            places = {}
            for k, value in enumerate(user.operands):
                places.setdefault(value, []).append(k)
        changed, positions = list(user.operands), places.pop(old)
        for k in positions:
            changed[k] = new
        places.setdefault(new, []).extend(positions)
        user.operands = tuple(changed)
        self._positions[user] = user.operands, places

    def replace(self, operation: Operation, values: Sequence[Value]) -> None:
        """Replace all uses of an operation's results by `values` and erase the operation."""
        for old, new in zip(operation.results, values, strict=True):
            if old is not new:
                self.replace_uses(old, new)
        self.erase(operation)

    def replace_by(
        self,
        operation: Operation,
        name: str,
        operands: Sequence[Value],
        properties: Mapping[str, Attribute] = NO_ATTRIBUTES,
        *,
        attributes: Mapping[str, Attribute] = NO_ATTRIBUTES,
        regions: tuple[Region, ...] = (),
    ) -> bool:
        """Replace an operation by a new one with results of the same types; return true.

        Args:
            operation: The replaced operation.
            name: Full name of the new one.
            operands: Its operands.
            properties: Its inherent attributes.
            attributes: Its discardable attributes.
            regions: Its regions, without an owner.
        """
        types = [value.type for value in operation.results]
        new = self.create(
            name,
            operands,
            properties,
            before=operation,
            types=types,
            attributes=attributes,
            regions=regions,
        )
        self.replace(operation, new.results)
        return True

    def keep_results(self, operation: Operation, kept: Sequence[Value]) -> None:
        """Remove the results of an operation that are not in `kept`; these must be unused."""
        assert not any(self.uses(v) for v in operation.results if v not in kept), operation.name
        operation.results = _numbered(kept)
        self.watcher.changed(operation)

    def keep_arguments(self, block: Block, kept: Sequence[Value]) -> None:
        """Remove the arguments of a block that are not in `kept`; these must be unused."""
        assert not any(self.uses(v) for v in block.arguments if v not in kept), block
        block.arguments = _numbered(kept)

    def erase(self, operation: Operation) -> None:
        """Erase an operation with its regions; its results must be unused."""
        assert not self.is_used(operation), f"results of {operation.name} are still read"
        # Inner operations go first, in reverse, so that users go before what they read.
        for inner in reversed([*self.walk(operation)]):
            self.watcher.erased(inner)
            self._forget(inner)
        block = operation.parent
        assert isinstance(block, OpenBlock)
        block.remove(operation)

    def finish(self) -> Operation:
        """Return the rewritten module, with ordinary blocks.

        The rewriter must not be used afterwards.
        """
        for operation in [*self.walk()]:
            for region in operation.regions:
                _replace_blocks(operation, region, Block)
        return self.module

    # ------------------------------------------------------------------------------------- private

    def _with_open_blocks(self, operation: Operation) -> Operation:
        """Return the operation with open blocks, and record its uses and those in its regions."""
        work = [operation]
        for each in work:
            self._remember(each)
            for region in each.regions:
                if not all(isinstance(block, OpenBlock) for block in region.blocks):
                    _replace_blocks(each, region, OpenBlock)
                for block in region.blocks:
                    work += block.operations
        return operation

    def _remember(self, operation: Operation) -> None:
        for value in operation.operands:
            users = self._users.setdefault(value, {})
            users[operation] = users.get(operation, 0) + 1

    def _forget(self, operation: Operation) -> None:
        self._positions.pop(operation, None)
        for value in operation.operands:
            users = self._users[value]
            users[operation] -= 1
            if not users[operation]:
                del users[operation]
                if not users:
                    del self._users[value]


def _numbered(values: Sequence[Value]) -> tuple[Value, ...]:
    for k, value in enumerate(values):
        value.index = k
    return tuple(values)


def _ops_inside(operation: Operation) -> Iterator[Operation]:
    return (inner for block in operation.blocks for inner in block)


def _replace_blocks(owner: Operation, region: Region, kind: type[Block]) -> None:
    """Replace each block of a region of `owner` by a block of class `kind` with its operations."""
    made: dict[Block, Block] = {}
    for block in region.blocks:
        operations = block.operations
        new = made[block] = kind(block.arguments, operations, block.label)
        new.parent = region
        for argument in block.arguments:
            argument.owner = new
    region.blocks, region.parent = tuple(made.values()), owner
    # Successors are translated last, when all new blocks exist.
    for block in region.blocks:
        for operation in block.operations:
            if operation.successors:
                operation.successors = tuple([made[old] for old in operation.successors])
