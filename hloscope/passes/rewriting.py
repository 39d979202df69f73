"""A module that is being rewritten: a private copy, in which users and neighbours are known.

A pass opens a `Rewriter`, changes its copy in place, and hands it out by `finish`; the module it
was given stays as it is.  Nothing here recurses, however deeply regions nest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from hloscope.arrays import np
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

_MANY_OPERANDS: Final = 64
"""Of more, where each value stands is remembered."""


class OpenBlock(Block):
    """A block whose operations are a linked list, so that one is put in or taken out in O(1)."""

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
        """All operations in order; made anew after a change."""
        if self._known is None:
            self._known = tuple(self)
        return self._known

    @operations.setter
    def operations(self, given: Iterable[Operation]) -> None:
        self._after, self._before, self._first, self._last = {}, {}, None, None
        for operation in given:
            self.insert(operation, None)

    def __iter__(self) -> Iterator[Operation]:
        """In order; the operation that was yielded last may be erased, others put in."""
        at = self._first
        while at is not None:
            after = self._after[at]
            yield at
            at = self._after.get(at, after)

    @property
    def first(self) -> Operation | None:
        """The first operation."""
        return self._first

    @property
    def last(self) -> Operation | None:
        """The last operation: of most blocks the terminator."""
        return self._last

    def after(self, operation: Operation) -> Operation | None:
        """The next operation."""
        return self._after[operation]

    def before(self, operation: Operation) -> Operation | None:
        """The operation before."""
        return self._before[operation]

    def insert(self, operation: Operation, before: Operation | None) -> None:
        """Put an operation in, before another or at the end."""
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
        """Take an operation out."""
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
    """Is told what changes; a driver that keeps a work list is one."""

    def inserted(self, operation: Operation) -> None:
        """A new operation stands in the module, or one has moved."""

    def changed(self, operation: Operation) -> None:
        """Operands, types or attributes of an operation are others now."""

    def erased(self, operation: Operation) -> None:
        """An operation is about to go; its operands are still there."""


class Rewriter:
    """The copy, and all that may be done to it.

    Args:
        module: Any operation with regions; it is not changed.
        watcher: Is told of each change.

    Attributes:
        module: The copy.

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

    def __init__(self, module: Operation, watcher: Watcher | None = None) -> None:
        self.watcher: Watcher = watcher or Watcher()
        self._users: Final[dict[Value, dict[Operation, int]]] = {}
        self._places: Final[dict[Operation, tuple[tuple[Value, ...], dict[Value, list[int]]]]] = {}
        self.module: Final = self._opened(clone(module, {}))

    # ------------------------------------------------------------------------------------- looking

    def walk(self, inside: Operation | None = None) -> Iterator[Operation]:
        """All operations, each before those in its regions; the one at hand may be erased."""
        top = self.module if inside is None else inside
        yield top
        stack = [_within(top)]
        while stack:
            operation = next(stack[-1], None)
            if operation is None:
                stack.pop()
                continue
            regions = operation.regions
            yield operation
            if regions and operation.parent is not None:
                stack.append(_within(operation))

    def users(self, value: Value) -> tuple[Operation, ...]:
        """The operations that read a value, each once, the first that came to read it first."""
        return tuple(self._users.get(value, ()))

    def user_count(self, value: Value) -> int:
        """How many operations read a value."""
        return len(self._users.get(value, ()))

    def uses(self, value: Value) -> int:
        """How many operands are the value."""
        return sum(self._users.get(value, {}).values())

    def is_used(self, operation: Operation) -> bool:
        """Does anybody read one of its results?"""
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
        """A new operation, before another (whose location it gets) or at the end of a block.

        Args:
            name: With its dialect.
            operands: What it reads.
            properties: Its inherent attributes.
            before: Where it comes.
            into: Where it comes, if not `before` another.
            types: Of the results; inferred if they are not given.
            attributes: Discardable ones.
            regions: Of operations that belong to nobody.
            callee: The signature of what it calls, where types are inferred from that.
            location: Where it comes from.

        Raises:
            VerifyError: The op cannot have these operands or attributes.
            NotInferredError: The types of the results have to be given.
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
        """A new `stablehlo.constant` of that type before an operation."""
        literal = value if isinstance(value, DenseAttr) else from_array(value, type)
        properties = {"value": literal}
        return self.create(
            "stablehlo.constant", (), properties, before=before, types=(type,)
        ).result

    def insert(
        self, operation: Operation, *, before: Operation | None = None, into: Block | None = None
    ) -> Operation:
        """Put an operation that stands nowhere, with all in its regions, into the module."""
        block = into if before is None else before.parent
        assert isinstance(block, OpenBlock), "an operation is put before one that stands somewhere"
        opened = self._opened(operation)
        block.insert(opened, before)
        self.watcher.inserted(opened)
        return opened

    def copy(
        self, operation: Operation, values: dict[Value, Value], *, before: Operation
    ) -> Operation:
        """A copy of an operation; what it reads is looked up in `values`, which learns results."""
        return self.insert(clone(operation, values), before=before)

    def move(self, operation: Operation, *, before: Operation) -> None:
        """Put an operation elsewhere."""
        old, new = operation.parent, before.parent
        assert isinstance(old, OpenBlock)
        assert isinstance(new, OpenBlock)
        old.remove(operation)
        new.insert(operation, before)
        self.watcher.changed(operation)

    def take_regions(self, operation: Operation) -> tuple[Region, ...]:
        """The regions of an operation, with all they hold, for another one."""
        regions, operation.regions = operation.regions, ()
        for inner in [i for r in regions for block in r.blocks for i in block.operations]:
            for each in self.walk(inner):
                self._forget(each)
        return regions

    def inline(self, block: Block, arguments: Sequence[Value], *, before: Operation) -> None:
        """Move all operations of a block, whose arguments become values, before an operation."""
        for old, new in zip(block.arguments, arguments, strict=True):
            self.replace_uses(old, new)
        for operation in block:
            self.move(operation, before=before)

    def set_operands(self, operation: Operation, operands: Sequence[Value]) -> None:
        """Give an operation other operands."""
        before = operation.operands
        if before != tuple(operands):
            self._forget(operation)
            operation.operands = tuple(operands)
            self._remember(operation)
            self.watcher.changed(operation)
            for value in before:
                if value not in self._users and isinstance(value.owner, Operation):
                    self.watcher.changed(value.owner)  # nobody may need it any more

    def set_type(self, value: Value, type: Type) -> None:
        """Give a value another type; those who read it have changed, too."""
        value.type = type
        if isinstance(value.owner, Operation):
            self.watcher.changed(value.owner)
        for user in self.users(value):
            self.watcher.changed(user)

    def set_properties(self, operation: Operation, properties: Mapping[str, Attribute]) -> None:
        """Give an operation other inherent attributes."""
        operation.properties = properties
        self.watcher.changed(operation)

    def set_attributes(self, operation: Operation, attributes: Mapping[str, Attribute]) -> None:
        """Give an operation other discardable attributes."""
        operation.attributes = attributes
        self.watcher.changed(operation)

    def replace_uses(
        self, old: Value, new: Value, unless: Callable[[Operation], bool] | None = None
    ) -> None:
        """All who read one value, but those excepted, read another."""
        if old is new:
            return
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
        """One operand, wherever it is, becomes another.

        Where there are thousands, and each is replaced in its turn, their places are remembered.
        """
        if len(user.operands) <= _MANY_OPERANDS:
            user.operands = tuple([new if value is old else value for value in user.operands])
            return
        operands, places = self._places.get(user, ((), {}))
        if operands is not user.operands:
            places = {}
            for k, value in enumerate(user.operands):
                places.setdefault(value, []).append(k)
        changed, mine = list(user.operands), places.pop(old)
        for k in mine:
            changed[k] = new
        places.setdefault(new, []).extend(mine)
        user.operands = tuple(changed)
        self._places[user] = user.operands, places

    def replace(self, operation: Operation, values: Sequence[Value]) -> None:
        """Others take the place of an operation's results; it goes."""
        for old, new in zip(operation.results, values, strict=True):
            if old is not new:
                self.replace_uses(old, new)
        self.erase(operation)

    def keep_results(self, operation: Operation, kept: Sequence[Value]) -> None:
        """Leave out the results of an operation that are not kept, which nobody reads."""
        assert not any(self.uses(v) for v in operation.results if v not in kept), operation.name
        operation.results = _numbered(kept)
        self.watcher.changed(operation)

    def keep_arguments(self, block: Block, kept: Sequence[Value]) -> None:
        """Leave out the arguments of a block that are not kept, which nobody reads."""
        assert not any(self.uses(v) for v in block.arguments if v not in kept), block
        block.arguments = _numbered(kept)

    def erase(self, operation: Operation) -> None:
        """Take an operation, whose results nobody reads, with all in its regions out."""
        assert not self.is_used(operation), f"results of {operation.name} are still read"
        for inner in reversed([*self.walk(operation)]):
            self.watcher.erased(inner)
            self._forget(inner)
        block = operation.parent
        assert isinstance(block, OpenBlock)
        block.remove(operation)

    def finish(self) -> Operation:
        """The module as it is now, for others; the rewriter is not to be used again."""
        for operation in [*self.walk()]:
            for region in operation.regions:
                _exchange(operation, region, Block)
        return self.module

    # ------------------------------------------------------------------------------------- private

    def _opened(self, operation: Operation) -> Operation:
        """Note what is read, and make open blocks of all blocks."""
        work = [operation]
        for each in work:
            self._remember(each)
            for region in each.regions:
                if not all(isinstance(block, OpenBlock) for block in region.blocks):
                    _exchange(each, region, OpenBlock)
                for block in region.blocks:
                    work += block.operations
        return operation

    def _remember(self, operation: Operation) -> None:
        for value in operation.operands:
            users = self._users.setdefault(value, {})
            users[operation] = users.get(operation, 0) + 1

    def _forget(self, operation: Operation) -> None:
        self._places.pop(operation, None)
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


def _within(operation: Operation) -> Iterator[Operation]:
    return (inner for block in operation.blocks for inner in block)


def _exchange(owner: Operation, region: Region, kind: type[Block]) -> None:
    """Make blocks of another kind of a region's blocks."""
    made: dict[Block, Block] = {}
    for block in region.blocks:
        operations = block.operations
        new = made[block] = kind(block.arguments, operations, block.label)
        new.parent = region
        for argument in block.arguments:
            argument.owner = new
    region.blocks, region.parent = tuple(made.values()), owner
    for block in region.blocks:
        for operation in block.operations:
            if operation.successors:
                operation.successors = tuple([made[old] for old in operation.successors])
