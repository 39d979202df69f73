"""Result types inferred from Python, and for the ops of upstream's test pass.

Source: StableHLO `tests/TestUtils.cpp` (`hlo-test-infer`, `hlo-test-broadcast`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from hloscope.dialects import CLASSES, DEFINITIONS
from hloscope.errors import HloscopeError, VerifyError
from hloscope.ir import Callee, NotInferredError, TensorType, Type
from hloscope.mlir import INDEX, Attribute, Block, Operation, StringAttr, TypeAttr, Value
from hloscope.ops import Op
from hloscope.source import Span
from hloscope.stablehlo.broadcasting import broadcast_together
from hloscope.stablehlo.making import (
    TypeLike,
    as_type,
    attributes_from,
    inferred,
    made,
    operand_types,
    signature,
)
from hloscope.stablehlo.op_making import make_op
from hloscope.stablehlo.reify import Reifier
from hloscope.stablehlo.tree import clone

_TYPES: Final = "hlo_test_infer.get_return_types"
_COMPONENTS: Final = "hlo_test_infer.get_return_type_components"
_SHAPES: Final = "hlo_test_infer.reify_return_type_shapes"
_BROADCAST: Final = "hlo_test_broadcast.numpy_broadcast"
_ASKED: Final = frozenset([_TYPES, _COMPONENTS, _SHAPES, _BROADCAST])


class Inferred(NamedTuple):
    """Inferred result types of one operation.

    Attributes:
        operation: The operation.
        types: The inferred types; `None` if the operands do not determine them.
        error: The error, if the op is invalid.
    """

    operation: Operation
    types: tuple[Type, ...] | None
    error: HloscopeError | None = None


def infer(
    op: Op | str, operands: Sequence[TypeLike] = (), calls: Sequence[Callee] = (), **attributes: Any
) -> tuple[Type, ...]:
    """Infer the types of an op's results.

    Args:
        op: An op, or its name: `stablehlo.transpose`, `transpose`.
        operands: Types of the operands, `tensor<2x3xf32>` or short `2x3xf32`.
        calls: Signatures of its regions or computations, in order.
        **attributes: Attributes of an op given by name, by their names in MLIR.

    Raises:
        VerifyError: The op cannot have these operands or attributes; `rule` names the constraint.
        NotInferredError: The operands do not determine the types.

    >>> from hloscope.mlir.types import type_text
    >>> [type_text(t) for t in infer("transpose", ["2x3xf32"], permutation=[1, 0])]
    ['tensor<3x2xf32>']
    """
    types = tuple(map(as_type, operands))
    if not isinstance(op, str):
        return inferred(op, types, calls)
    name = op if "." in op else f"stablehlo.{op}"
    if name not in CLASSES:
        raise TypeError(f"no op is called `{op}`")
    values = tuple(map(Value, types))
    return inferred(
        make_op(Operation(name, values, (), attributes_from(name, attributes))), types, calls
    )


def inferred_types(operation: Operation) -> Inferred:
    """Infer the result types of an operation of the syntax tree."""
    if operation.name not in CLASSES:
        return Inferred(operation, None)
    try:
        op = make_op(operation)
        calls = tuple(map(signature, operation.regions))
        return Inferred(operation, inferred(op, operand_types(op, operation.operands), calls))
    except NotInferredError:
        return Inferred(operation, None)
    except HloscopeError as error:
        return Inferred(operation, None, error)


def walk(module: Operation) -> Iterator[Operation]:
    """Iterate over a module's operations in program order, each before those in its regions."""
    return module.walk()


def is_asking(module: Operation) -> bool:
    """Does the module have ops of upstream's inference test pass?"""
    return any(operation.name in _ASKED for operation in walk(module))


def answered(module: Operation) -> Operation:
    """Return the module with its `hlo_test_infer` and `hlo_test_broadcast` ops evaluated.

    `get_return_types` and `get_return_type_components` become ops with the types as attributes.
    `reify_return_type_shapes` becomes the ops that compute the sizes; ops without users are removed
    then. `numpy_broadcast` becomes the ops that broadcast, and a custom call of their results.

    Raises:
        VerifyError: The shapes of values to broadcast are incompatible.
    """
    copy = clone(module, {})
    for operation in walk(copy):
        if operation.name == "func.func":
            for block in operation.blocks:
                _Block().answer(block)
    return copy


class _Block:
    """Rewrites the operations of one block."""

    def __init__(self) -> None:
        self.new: Final[dict[Value, Value]] = {}
        self.reifier: Final = Reifier()
        self.operations: list[Operation] = []

    def answer(self, block: Any) -> None:
        """Replace the test ops of a block by their results."""
        for operation in block.operations:
            operation.operands = tuple([self.new.get(v, v) for v in operation.operands])
            if operation.name == _SHAPES and self._reified(operation):
                continue
            if operation.name == _BROADCAST:
                operation = self._broadcast(operation)
            self.operations.append(self._typed(operation))
        constants = [*self.reifier.constants.values()]
        block.operations = tuple(_read([*constants, *self.operations]))
        for operation in block.operations:
            operation.parent = block

    def _reified(self, operation: Operation) -> bool:
        defining = operation.operands[0].owner if len(operation.operands) == 1 else None
        if not isinstance(defining, Operation) or defining.name not in CLASSES:
            return False
        sizes = self.reifier.sizes(defining)
        if sizes is None:
            return False
        self.operations += self.reifier.operations
        self.reifier.operations = []
        self.new[operation.results[0]] = sizes
        return True

    def _broadcast(self, operation: Operation) -> Operation:
        try:
            before, values = broadcast_together(operation.operands)
        except VerifyError as error:
            error.span = _span(operation)
            raise
        self.operations += before
        target = {"call_target_name": StringAttr(b"numpy_broadcasted")}
        types = [value.type for value in operation.results]
        call = made("stablehlo.custom_call", values, target, types=types)
        self.new.update(zip(operation.results, call.results, strict=True))
        return call

    def _typed(self, operation: Operation) -> Operation:
        if operation.name not in (_TYPES, _COMPONENTS) or len(operation.operands) != 1:
            return operation
        defining = operation.operands[0].owner
        types = inferred_types(defining).types if isinstance(defining, Operation) else None
        if types is None:
            return operation
        if operation.name == _COMPONENTS:
            types = tuple(map(_component, types))
        given: dict[str, Attribute] = {f"types{k}": TypeAttr(t) for k, t in enumerate(types)}
        results = tuple([Value(v.type, None, k, v.name) for k, v in enumerate(operation.results)])
        made = Operation(
            operation.name.replace(".get_", "."),
            operation.operands,
            results,
            operation.properties,
            {**operation.attributes, **given},
            location=operation.location,
        )
        for value in results:
            value.owner = made
        self.new.update(zip(operation.results, results, strict=True))
        return made


def _span(operation: Operation) -> Span | None:
    """Return the span of the op that defines the first value, or of `operation`."""
    arrays = all(isinstance(value.type, TensorType) for value in operation.operands)
    owner = operation.operands[0].owner if operation.operands and arrays else operation
    if isinstance(owner, Block) and owner.parent is not None and owner.parent.parent is not None:
        owner = owner.parent.parent
    return owner.span if isinstance(owner, Operation) else operation.span


def _component(type: Type) -> Type:
    """Return the sizes and bounds of a type, with elements of type `index`."""
    if isinstance(type, TensorType):
        return TensorType(INDEX, type.sizes, None, type.bounds, type.encoding)
    return type


def _is_pure(operation: Operation) -> bool:
    """May the operation be removed if its results have no users?"""
    dialect, definition = operation.name.partition(".")[0], DEFINITIONS.get(operation.name)
    if dialect == "stablehlo":
        return definition is not None and definition.pure
    return dialect in ("chlo", "shape", "tensor", "arith")


def _read(operations: Sequence[Operation]) -> list[Operation]:
    """Return the operations without those that are pure and have no users."""
    used: set[Value] = set()
    kept: list[Operation] = []
    # Backwards, so that all users of an op have been decided before the op itself.
    for operation in reversed(operations):
        if _is_pure(operation) and not any(value in used for value in operation.results):
            continue
        for inner in walk(operation):
            used.update(inner.operands)
        kept.append(operation)
    return kept[::-1]
