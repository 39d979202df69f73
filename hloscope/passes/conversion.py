"""The conversion driver: one traversal replaces every illegal operation, or makes the pass fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import is_
from typing import Final, NamedTuple, TypeAlias

from hloscope.errors import Diagnostic
from hloscope.ir import ELEMENT_TYPES, ElementType, FunctionType, TensorType, Type
from hloscope.mlir import (
    I32,
    I64,
    INDEX,
    Attribute,
    Block,
    DenseAttr,
    EnumAttr,
    IntegerAttr,
    Operation,
    TypeAttr,
    UnitAttr,
    Value,
    elements,
    function_type,
    illegal,
)
from hloscope.passes.framework import Run
from hloscope.passes.patterns import Chooser, Pattern
from hloscope.passes.rewriting import OpenBlock, Rewriter, Watcher
from hloscope.stablehlo import i64_array

# --------------------------------------------------------------------------------------------------
# The conversion driver: one traversal replaces every illegal operation, or the pass fails.
#
# Patterns are those of the greedy driver.  A pattern calls `replace_converted` for a result of
# another type, and `converted` for an operand of another type.  Casts connect converted values with
# users that are not converted yet; casts without users are erased at the end.
#
# Source: MLIR's `DialectConversion.cpp`.


CAST: Final = "builtin.unrealized_conversion_cast"

TypeMap: TypeAlias = Callable[[Type], Type]
"""Function that returns the converted type of a type; a legal type is returned unchanged."""

_MARK: Final = "hloscope.between"
"""Name of the attribute of a temporary cast.

Such a cast is erased once both of its sides are converted.
"""

_DEEPEST: Final = 64
"""Maximum depth of ops that patterns create for illegal ops, which may be illegal themselves.

Beyond it, the conversion fails.
"""


class Conversion(Watcher):
    """Replaces illegal operations in program order, and illegal operations that patterns create.

    Args:
        run: The run of the pass; it counts the patterns that apply, and collects errors.
        patterns: Patterns; those of larger benefit are tried first.
        is_legal: Returns whether an operation may stay unchanged.
        warn: Returns the text of an additional warning about an operation without a pattern, or
            `None`.
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
        """Record a new operation and those in its regions: they must be legal, too."""
        self._new.extend(self.rewriter.walk(operation))

    def erased(self, operation: Operation) -> None:
        """Record an erased operation; it is not visited any more."""
        self._gone.add(operation)

    def convert(self, scope: Operation) -> bool:
        """Replace all illegal operations in `scope`, and itself; return whether that succeeded.

        After a failure, `run.failed` is set and the module must not be used.
        """
        outer, self.rewriter.watcher = self.rewriter.watcher, self
        try:
            # The list is taken first, since patterns change the module under the traversal.
            return all(self._legalized(operation) for operation in [*self.rewriter.walk(scope)])
        finally:
            self.rewriter.watcher = outer
            self.run.fired += self.chooser.fired
            cancel_casts(self.rewriter, scope)

    def convert_functions(self) -> None:
        """Convert each function of the module, in order; stop after the first failure."""
        for function in self.run.functions():
            if not self.convert(function):
                return

    def _legalized(self, root: Operation) -> bool:
        """Replace an illegal operation, and illegal ones created for it; return whether it worked.

        A failure is reported with `refuse`, at `root`.
        """
        work = [(root, 0)]
        while work:
            operation, depth = work.pop()
            if operation in self._gone or _is_temporary(operation) or self.is_legal(operation):
                continue
            self._new = []
            if depth > _DEEPEST or not self.chooser.rewrite(self.rewriter, operation):
                warning = self.warn(operation)
                if warning is not None:
                    found = Diagnostic(warning, operation.span, severity="warning")
                    self.run.diagnostics.append(found)
                refuse(self.run, root)
                return False
            # MLIR legalizes what a pattern created before the rest; depth first, in order of
            # creation.
            new = [made for made in self._new if made not in self._gone]
            work += [(made, depth + 1) for made in reversed(new)]
        return True


def refuse(run: Run, operation: Operation) -> None:
    """Report to `run` that an operation cannot be legalized; the pass fails."""
    run.diagnostics.append(Diagnostic(illegal(operation.name), operation.span))
    run.failed = True


# ------------------------------------------------------------------------------------------- types


def converted(rewriter: Rewriter, value: Value, type: Type, *, before: Operation) -> Value:
    """Return a value of type `type` for `value`, for use by an operation at `before`.

    This is `value` itself if it has that type, the operand of the temporary cast that defines it if
    that has the type, and else a new temporary cast.
    """
    if value.type == type:
        return value
    owner = value.owner
    # The cast was made for users of the old type; its operand is the converted value.
    if isinstance(owner, Operation) and _is_temporary(owner) and owner.operands[0].type == type:
        return owner.operands[0]
    return _temporary_cast(rewriter, value, type, before).result


def _temporary_cast(rewriter: Rewriter, value: Value, type: Type, before: Operation) -> Operation:
    mark = {_MARK: UnitAttr()}
    return rewriter.create(CAST, (value,), before=before, types=(type,), attributes=mark)


def replace_converted(rewriter: Rewriter, operation: Operation, values: Sequence[Value]) -> None:
    """Replace all uses of an operation's results by `values` and erase it; types may differ."""
    pairs = zip(operation.results, values, strict=True)
    fit = [converted(rewriter, new, old.type, before=operation) for old, new in pairs]
    rewriter.replace(operation, fit)


def convert_arguments(rewriter: Rewriter, block: Block, types: TypeMap) -> None:
    """Set the arguments of a block to their converted types; their users read temporary casts.

    `types` converts a type. The casts lead back to the old types.
    """
    first = block.first if isinstance(block, OpenBlock) else None
    for argument in block.arguments:
        old, new = argument.type, types(argument.type)
        if new == old:
            continue
        if first is not None and rewriter.user_count(argument):
            cast = _temporary_cast(rewriter, argument, old, first)
            rewriter.replace_uses(argument, cast.result, unless=partial(is_, cast))
        rewriter.set_type(argument, new)


def convert_function(rewriter: Rewriter, function: Operation, types: TypeMap) -> None:
    """Convert the signature of a function and the block arguments of its body.

    `types` returns the converted type of a type.
    """
    convert_signature(rewriter, function, types)
    convert_regions(rewriter, function, types)


def convert_signature(rewriter: Rewriter, function: Operation, types: TypeMap) -> None:
    """Convert the type of a function; its body is not changed.

    `types` returns the converted type of a type.
    """
    signature = function_type(function)
    if signature is not None:
        inputs, results = tuple(map(types, signature.inputs)), tuple(map(types, signature.results))
        properties: dict[str, Attribute] = dict(function.properties)
        properties["function_type"] = TypeAttr(FunctionType(inputs, results))
        rewriter.set_properties(function, properties)


def convert_regions(rewriter: Rewriter, operation: Operation, types: TypeMap) -> None:
    """Convert the arguments of all blocks in an operation's regions.

    `types` returns the converted type of a type.
    """
    for block in operation.blocks:
        convert_arguments(rewriter, block, types)


def cancel_casts(rewriter: Rewriter, scope: Operation) -> None:
    """Erase temporary casts in `scope`: pairs that undo each other, then those without users.

    A temporary cast that still has a user becomes a permanent one.
    """
    between = [op for op in rewriter.walk(scope) if _is_temporary(op)]
    for operation in between:
        source = operation.operands[0]
        owner = source.owner
        if (
            isinstance(owner, Operation)
            and _is_temporary(owner)
            and owner.operands[0].type == operation.result.type
        ):
            rewriter.replace_uses(operation.result, owner.operands[0])
    # In reverse, a cast's users are erased before the cast.
    for operation in reversed(between):
        if rewriter.is_used(operation):
            # A cast that is still read is part of the program now.
            rest = {k: v for k, v in operation.attributes.items() if k != _MARK}
            rewriter.set_attributes(operation, rest)
        else:
            rewriter.erase(operation)


def _is_temporary(operation: Operation) -> bool:
    return operation.name == CAST and _MARK in operation.attributes


# --------------------------------------------------------------------------------------------------
# Constructors of types and attributes for conversion patterns.


S32: Final = ELEMENT_TYPES["s32"]


def shaped(element: ElementType, *sizes: int | None) -> TensorType:
    """Return a tensor type without bounds; `None` in `sizes` is a dynamic size."""
    bounds = (None,) * len(sizes) if None in sizes else ()
    return TensorType(element, sizes, None, bounds)


def dense(text: str, type: TensorType) -> DenseAttr:
    """Return a dense literal of a type, from the text between `<` and `>`.

    Literals of equal text and type compare equal.
    """
    return DenseAttr(elements(DenseAttr(text, type)).raw, type)


SLICE_BOUNDS: Final = ("start_indices", "limit_indices", "strides")
"""Names of the attributes of a `slice`."""


def slice_attributes(
    starts: Sequence[int], limits: Sequence[int], strides: Sequence[int]
) -> dict[str, Attribute]:
    """Return the attributes of a `slice`."""
    return dict(zip(SLICE_BOUNDS, map(i64_array, (starts, limits, strides)), strict=True))


def i64_tensor(values: Sequence[int], shape: Sequence[int]) -> DenseAttr:
    """Return `dense<…>` of type `i64` with this shape; equal values become a splat.

    >>> from hloscope.mlir import dense_text
    >>> dense_text(i64_tensor([1, 2, 3, 4], [2, 2]))
    'dense<[[1, 2], [3, 4]]>'
    """
    if len(values) > 1 and len(set(values)) == 1:
        values = values[:1]
    raw = b"".join(value.to_bytes(8, "little", signed=True) for value in values)
    return DenseAttr(raw, TensorType(I64, tuple(shape)))


def i64(value: int) -> IntegerAttr:
    """Return `value : i64`."""
    return IntegerAttr(value, I64)


def always_broadcastable(shapes: Sequence[Sequence[int | None]]) -> bool:
    """Are all shapes compatible under numpy broadcasting, whatever the dynamic sizes are?

    >>> shapes = [(None, 4), (4,)], [(None,), (4,)], [(3,), (4,)]
    >>> tuple(map(always_broadcastable, shapes))
    (True, False, False)
    """
    for k in range(1, max(map(len, shapes), default=0) + 1):
        sizes = [shape[-k] for shape in shapes if len(shape) >= k and shape[-k] != 1]
        # Two unknown sizes, or one beside a known size above 1, may turn out to differ.
        if len(set(sizes)) > 1 or sizes.count(None) > 1:
            return False
    return True


# --------------------------------------------------------------------------------------------------
# Creation of the small ops that many patterns need, before one operation.


class InsertionPoint(NamedTuple):
    """A rewriter, and the operation before which the methods create operations."""

    rewriter: Rewriter
    before: Operation

    def make(
        self, name: str, type: Type | None, /, *operands: Value, **properties: Attribute
    ) -> Value:
        """Create an operation with one result, and return the result.

        Args:
            name: Full name of the operation.
            type: Type of its result; `None` to infer it.
            operands: Its operands.
            properties: Its inherent attributes.
        """
        types = None if type is None else (type,)
        return self.rewriter.create(
            name, operands, properties, before=self.before, types=types
        ).result

    def infer(self, name: str, /, *operands: Value, **properties: Attribute) -> Value:
        """Create an operation with one result, whose type is inferred, and return the result."""
        return self.make(name, None, *operands, **properties)

    def cast(self, value: Value, type: Type) -> Value:
        """Create a cast of a value to `type`, which stays in the program."""
        return self.make(CAST, type, value)

    def literal(self, value: DenseAttr) -> Value:
        """Create a constant with this value and its type."""
        assert isinstance(value.type, TensorType)
        return self.rewriter.constant(value, value.type, before=self.before)

    def constant(self, values: int | Sequence[int], element: ElementType) -> Value:
        """Create a constant of integers of type `element`.

        It has rank 0 for a single number, rank 1 for a list.
        """
        if isinstance(values, int):
            type, text = shaped(element), str(values)
        else:
            type, text = shaped(element, len(values)), f"[{', '.join(map(str, values))}]"
        return self.literal(dense(text if values != [] else "", type))

    def splat(self, text: str, type: TensorType) -> Value:
        """Create a constant of type `type` whose elements are all the number written in `text`."""
        return self.literal(dense(text, type))

    def slice(self, value: Value, starts: Sequence[int], limits: Sequence[int]) -> Value:
        """Create a slice from `starts` to `limits`, without the limits, with strides of 1."""
        bounds = slice_attributes(starts, limits, [1] * len(starts))
        return self.infer("stablehlo.slice", value, **bounds)

    def reshape(self, value: Value, *sizes: int) -> Value:
        """Create a reshape of a value to the static sizes `sizes`."""
        assert isinstance(value.type, TensorType)
        return self.make("stablehlo.reshape", shaped(value.type.element, *sizes), value)

    def concatenate(self, values: Sequence[Value], dimension: int = 0) -> Value:
        """Create a concatenation along a dimension."""
        return self.infer("stablehlo.concatenate", *values, dimension=i64(dimension))

    def iota(self, type: TensorType, dimension: int) -> Value:
        """Create an iota along a dimension of a static type."""
        return self.make("stablehlo.iota", type, iota_dimension=i64(dimension))

    def convert(self, value: Value, type: TensorType) -> Value:
        """Create a conversion to another element type."""
        return self.make("stablehlo.convert", type, value)

    def compare(self, direction: str, left: Value, right: Value, type: TensorType) -> Value:
        """Create a comparison with `direction`, such as `LT`, and a result of type `type`."""
        enum = EnumAttr("stablehlo", "comparison_direction", direction)
        return self.make("stablehlo.compare", type, left, right, comparison_direction=enum)

    def shape_of(self, value: Value) -> Value:
        """Create a `shape.shape_of`: the sizes of a tensor as a vector of `index`."""
        assert isinstance(value.type, TensorType)
        return self.make("shape.shape_of", shaped(INDEX, value.type.rank), value)

    def broadcast(
        self, value: Value, dimensions: Sequence[int], type: TensorType, like: Value
    ) -> Value:
        """Create a broadcast to `type`; if that is dynamic, to the run-time sizes of `like`.

        `dimensions` has the dimension of the result for each dimension of `value`.
        """
        if not type.is_static:
            return self.broadcast_to(value, dimensions, type, self.shape_of(like))
        along = i64_array(dimensions)
        return self.make("stablehlo.broadcast_in_dim", type, value, broadcast_dimensions=along)

    def broadcast_to(
        self, value: Value, dimensions: Sequence[int], type: TensorType, sizes: Value
    ) -> Value:
        """Create a broadcast to the run-time sizes that the vector `sizes` holds.

        `dimensions` has the dimension of the result for each dimension of `value`.
        """
        return self.make(
            "stablehlo.dynamic_broadcast_in_dim",
            type,
            value,
            sizes,
            broadcast_dimensions=i64_array(dimensions),
        )

    def as_i64(self, value: Value) -> Value:
        """Return an integer value converted to element type `i64`."""
        type = value.type
        assert isinstance(type, TensorType)
        return value if type.element == I64 else self.convert(value, shaped(I64, *type.sizes))

    def size(self, value: Value, k: int) -> Value:
        """Create a `stablehlo.get_dimension_size` of dimension `k`: an `i32` of rank 0."""
        name = "stablehlo.get_dimension_size"
        return self.make(name, shaped(I32), value, dimension=i64(k))

    def known_size(self, value: Value, k: int) -> Value:
        """Return the size of dimension `k` as `tensor<1xi64>`; a constant if it is static."""
        assert isinstance(value.type, TensorType)
        size = value.type.sizes[k]
        made = self.as_i64(self.size(value, k)) if size is None else self.constant(size, I64)
        return self.reshape(made, 1)
