"""The conversion driver: one traversal replaces every illegal operation, or makes the pass fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from hloscope.errors import Diagnostic
from hloscope.ir import ELEMENT_TYPES, ElementType, FunctionType, TensorType, Type
from hloscope.mlir import (
    I32,
    I64,
    Attribute,
    Block,
    DenseArrayAttr,
    DenseAttr,
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
from hloscope.passes.rewriting import Chooser, OpenBlock, Pattern, Rewriter, Watcher

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


def cast(rewriter: Rewriter, value: Value, type: Type, *, before: Operation) -> Value:
    """Return a value cast to `type` by an op before `before`; the cast stays in the program."""
    return rewriter.create(CAST, (value,), before=before, types=(type,)).result


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
    made = rewriter.create(
        CAST, (value,), before=before, types=(type,), attributes={_MARK: UnitAttr()}
    )
    return made.result


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
            between = rewriter.create(
                CAST, (argument,), before=first, types=(old,), attributes={_MARK: UnitAttr()}
            )
            for user in rewriter.users(argument):
                if user is not between:
                    operands = [between.result if v is argument else v for v in user.operands]
                    rewriter.set_operands(user, operands)
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
# Constructors of constants, types and small ops for conversion patterns.


I1: Final = ELEMENT_TYPES["pred"]
S32: Final = ELEMENT_TYPES["s32"]
F32: Final = ELEMENT_TYPES["f32"]


def shaped(element: ElementType, *sizes: int | None) -> TensorType:
    """Return a tensor type without bounds; `None` in `sizes` is a dynamic size."""
    bounds = (None,) * len(sizes) if None in sizes else ()
    return TensorType(element, sizes, None, bounds)


def dense(text: str, type: TensorType) -> DenseAttr:
    """Return a dense literal of a type, from the text between `<` and `>`.

    Literals of equal text and type compare equal.
    """
    return DenseAttr(elements(DenseAttr(text, type)).raw, type)


def integers(values: Sequence[int]) -> DenseArrayAttr:
    """Return `array<i64: …>` of these values."""
    return DenseArrayAttr(I64, tuple(values))


def i64(value: int) -> IntegerAttr:
    """Return `value : i64`."""
    return IntegerAttr(value, I64)


def constant(
    rewriter: Rewriter, values: int | Sequence[int], element: ElementType, *, before: Operation
) -> Value:
    """Create a constant of integers of type `element` before the operation `before`.

    It has rank 0 for a single number, rank 1 for a list.
    """
    if isinstance(values, int):
        type, text = shaped(element), str(values)
    else:
        type, text = shaped(element, len(values)), f"[{', '.join(map(str, values))}]"
    return rewriter.constant(dense(text if values != [] else "", type), type, before=before)


def splat(rewriter: Rewriter, text: str, type: TensorType, *, before: Operation) -> Value:
    """Create a constant of type `type` whose elements are all the number written in `text`."""
    return rewriter.constant(dense(text, type), type, before=before)


def sliced(
    rewriter: Rewriter,
    value: Value,
    starts: Sequence[int],
    limits: Sequence[int],
    *,
    before: Operation,
) -> Value:
    """Create a `stablehlo.slice` of `starts` to `limits`, without the limits, with strides of 1."""
    properties = {
        "start_indices": integers(starts),
        "limit_indices": integers(limits),
        "strides": integers([1] * len(starts)),
    }
    return rewriter.create("stablehlo.slice", (value,), properties, before=before).result


def reshaped(rewriter: Rewriter, value: Value, *sizes: int, before: Operation) -> Value:
    """Create a `stablehlo.reshape` of a value to the static sizes `sizes`."""
    assert isinstance(value.type, TensorType)
    type = shaped(value.type.element, *sizes)
    return rewriter.create("stablehlo.reshape", (value,), before=before, types=(type,)).result


def concatenated(rewriter: Rewriter, values: Sequence[Value], *, before: Operation) -> Value:
    """Create a `stablehlo.concatenate` along dimension 0."""
    properties = {"dimension": i64(0)}
    return rewriter.create("stablehlo.concatenate", values, properties, before=before).result


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
# Sizes as values of type `i64`, of tensors of known or unknown sizes.


def as_i64(rewriter: Rewriter, value: Value, *, before: Operation) -> Value:
    """Return an integer value converted to element type `i64`; `before` is the insertion point."""
    type = value.type
    assert isinstance(type, TensorType)
    if type.element == I64:
        return value
    wide = shaped(I64, *type.sizes)
    return rewriter.create("stablehlo.convert", (value,), before=before, types=(wide,)).result


def dimension_size(rewriter: Rewriter, value: Value, k: int, *, before: Operation) -> Value:
    """Create a `stablehlo.get_dimension_size` of dimension `k`, converted to `i64` of rank 0."""
    size = rewriter.create(
        "stablehlo.get_dimension_size",
        (value,),
        {"dimension": i64(k)},
        before=before,
        types=(shaped(I32),),
    )
    return as_i64(rewriter, size.result, before=before)


def known_size(rewriter: Rewriter, value: Value, k: int, *, before: Operation) -> Value:
    """Return the size of dimension `k` as `tensor<1xi64>`; a constant if the size is static."""
    type = value.type
    assert isinstance(type, TensorType)
    size = type.sizes[k]
    made = (
        dimension_size(rewriter, value, k, before=before)
        if size is None
        else constant(rewriter, size, I64, before=before)
    )
    return reshaped(rewriter, made, 1, before=before)


def sizes_of(type: TensorType) -> tuple[int, ...]:
    """Return the sizes of a tensor type of static shape."""
    assert None not in type.sizes
    return type.shape
