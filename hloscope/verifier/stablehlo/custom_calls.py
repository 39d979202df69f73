"""Checks of `custom_call` beyond its definition: layouts, aliases, buffers, configuration.

Source: StableHLO's `CustomCallOp::verify`; the rules about buffers are those its tests show.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from hloscope.ir import BufferType, Dims, TensorType, TupleType, Type, UnrankedTensorType
from hloscope.mlir import (
    ArrayAttr,
    Attribute,
    DenseAttr,
    DictAttr,
    IntegerAttr,
    Operation,
    StringAttr,
    StructAttr,
    attribute_text,
    string_of,
    to_array,
    type_text,
)
from hloscope.verifier.stablehlo.traits import refuse

_VERSIONS: Final = (
    "API_VERSION_UNSPECIFIED",
    "API_VERSION_ORIGINAL",
    "API_VERSION_STATUS_RETURNING",
    "API_VERSION_STATUS_RETURNING_UNIFIED",
    "API_VERSION_TYPED_FFI",
)
_TYPED: Final = 4


def check_custom_call(operation: Operation) -> None:
    """Check the layouts, aliases and buffers of a `custom_call`, and its configuration.

    Raises:
        VerifyError: The op is invalid; the message is upstream's.
    """
    _check_layouts(operation)
    aliases = list(_aliases(operation))
    _check_buffer_calls(operation)
    _check_aliases(operation, aliases)
    _check_buffers(operation, aliases)
    _check_config(operation)


# --- layouts --------------------------------------------------------------------------------


def _check_layouts(operation: Operation) -> None:
    """Check the attributes `operand_layouts` and `result_layouts`."""
    operands, results = operation.get("operand_layouts"), operation.get("result_layouts")
    if operands is None and results is None:
        return
    if operands is None or results is None:
        raise refuse(
            operation,
            "Layout attributes should be specified for either both operands and results or none.",
        )
    # A single tuple result has one layout for each element.
    types = operation.result_types
    if len(types) == 1 and isinstance(types[0], TupleType):
        types = list(types[0].elements)
    _check_layouts_of(operation, "operand", operation.operand_types, operands)
    _check_layouts_of(operation, "result", types, results)


def _check_layouts_of(
    operation: Operation, what: str, types: Sequence[Type], layouts: Attribute
) -> None:
    """Check that there is one layout per value, a permutation of the value's dimensions.

    Args:
        operation: The custom call.
        what: Text that names the operands or results in errors.
        types: Types of the values.
        layouts: The attribute with the layouts.
    """
    given = layouts.elements if isinstance(layouts, ArrayAttr) else ()
    if len(types) != len(given):
        raise refuse(
            operation,
            f"Number of {what}s must match the number of {what} layouts,"
            f" {len(types)} != {len(given)}",
        )
    for i, (type_, layout) in enumerate(zip(types, given, strict=True)):
        if isinstance(type_, TupleType):
            raise refuse(
                operation, "Tuple types are not fully supported with layout constraints yet"
            )
        text = type_text(type_)
        if isinstance(type_, BufferType):
            # One number more than the rank is read: enough to refuse a layout that is too long.
            type_ = type_.element
        order = _order(layout, 1 + (type_.rank if isinstance(type_, TensorType) else 0))
        if isinstance(type_, TensorType):
            if sorted(order) != list(range(type_.rank)):
                raise refuse(
                    operation,
                    f"incorrect layout {attribute_text(layout)} for type '{text}', layout must"
                    f" be a permutation of [0, {type_.rank})",
                )
        elif order and not isinstance(type_, UnrankedTensorType):
            raise refuse(
                operation,
                f"Only tensor types can have non-empty layout: {what} #{i} of type '{text}'"
                f" has layout {attribute_text(layout)}",
            )


def _order(layout: Attribute, most: int) -> list[int]:
    """Return the first `most` numbers of a layout attribute, the order of the dimensions.

    A splat may stand for very many more.
    """
    return [*map(int, to_array(layout).flat[:most])] if isinstance(layout, DenseAttr) else []


# --- aliases --------------------------------------------------------------------------------


class _Alias(NamedTuple):
    """One alias: tuple indices in the result, the operand's number, and tuple indices in that."""

    output: Dims
    operand: int
    part: Dims


def _aliases(operation: Operation) -> Iterator[_Alias]:
    given = operation.get("output_operand_aliases")
    for alias in given.elements if isinstance(given, ArrayAttr) else ():
        if isinstance(alias, StructAttr):
            yield _Alias(
                _dims(alias.get("output_tuple_indices")),
                _number(alias.get("operand_index")),
                _dims(alias.get("operand_tuple_indices")),
            )


def _dims(value: object) -> Dims:
    return value if isinstance(value, tuple) else ()


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _output(operation: Operation) -> Type:
    types = operation.result_types
    return types[0] if len(types) == 1 else TupleType(tuple(types))


def _check_aliases(operation: Operation, aliases: Sequence[_Alias]) -> None:
    """Check that aliases refer to existing parts of operand and result, of equal types."""
    count = len(operation.operands)
    for alias in aliases:
        if not 0 <= alias.operand < count:
            raise refuse(
                operation,
                "expects operandIndex in the output_operand_alias attribute to be in range"
                f" [0, {count}); got: {alias.operand}.",
            )
        operand = _part(operation, operation.operands[alias.operand].type, alias.part, "operand")
        output = _part(operation, _output(operation), alias.output, "output")
        if operand != output:
            raise refuse(
                operation,
                "shapes mismatch in the output_operand_alias attribute: operand part has type"
                f" '{type_text(operand)}' and output part has type '{type_text(output)}'",
            )


def _part(operation: Operation, type_: Type, indices: Dims, what: str) -> Type:
    """Return the part of a type at tuple indices of an alias; `what` names the value in errors."""
    for i in indices:
        if not isinstance(type_, TupleType) or not 0 <= i < len(type_.elements):
            raise refuse(
                operation,
                f"{what}_tuple_indices in the output_operand_alias attribute out of bounds",
            )
        type_ = type_.elements[i]
    return type_


# --- buffers --------------------------------------------------------------------------------


_Array: TypeAlias = TensorType | BufferType
_PINNED: Final[dict[str, tuple[type[_Array], type[_Array]]]] = {
    "Pin": (TensorType, BufferType),
    "Unpin": (BufferType, TensorType),
}
"""Classes of the types of operand and result, by the name of the custom call."""


def _check_buffer_calls(operation: Operation) -> None:
    """Check the operands and results of the custom calls `CreateBuffer`, `Pin` and `Unpin`."""
    name = string_of(operation.get("call_target_name"))
    operands, results = operation.operand_types, operation.result_types
    if name == "CreateBuffer":
        if operands:
            raise refuse(operation, "CreateBuffer custom_call shouldn't have any inputs")
        _check_one(operation, name, "output", results, BufferType)
    elif name in _PINNED:
        taken, made = _PINNED[name]
        _check_one(operation, name, "input", operands, taken)
        _check_one(operation, name, "output", results, made)
        a, b = (t.element if isinstance(t, BufferType) else t for t in (operands[0], results[0]))
        if a != b:
            message = f"{name} custom_call should have compatible input and output types"
            raise refuse(operation, message)


def _check_one(
    operation: Operation,
    name: str,
    what: str,
    types: Sequence[Type],
    kind: type[_Array],
) -> None:
    """Check that a custom call has exactly one operand or result, of class `kind`.

    Args:
        operation: The custom call.
        name: Name of the called target.
        what: `input` or `output`.
        types: Types of the operands or results.
        kind: Class that the type needs.
    """
    if len(types) != 1:
        raise refuse(operation, f"{name} custom_call should have one {what}")
    if not isinstance(types[0], kind):
        needed = "memref" if kind is BufferType else "tensor"
        raise refuse(operation, f"{name} custom_call should have a {needed} {what}")


def _check_buffers(operation: Operation, aliases: Sequence[_Alias]) -> None:
    """Check that a buffer in a result has exactly one alias, and one in an operand at most one."""
    target = operation.get("call_target_name")
    if isinstance(target, StringAttr) and target.text in {"CreateBuffer", "Pin", "Unpin"}:
        return
    # Every buffer in the results must be the alias of an operand; a buffer may be named once only
    # on either side.
    operands = {
        (i, path) for i, value in enumerate(operation.operands) for path in _buffers(value.type)
    }
    outputs = set(_buffers(_output(operation)))
    seen_operands: set[tuple[int, Dims]] = set()
    seen_outputs: set[Dims] = set()
    for alias in aliases:
        operand = alias.operand, alias.part
        if operand in operands:
            if operand in seen_operands:
                raise refuse(
                    operation,
                    f"buffer operand {alias.operand}{list(alias.part)} is used in"
                    " output_operand_alias more than once",
                )
            seen_operands.add(operand)
        if alias.output in outputs:
            if alias.output in seen_outputs:
                raise refuse(
                    operation,
                    f"buffer output {list(alias.output)} is used in output_operand_alias more"
                    " than once",
                )
            seen_outputs.add(alias.output)
    for output in _buffers(_output(operation)):
        if output not in seen_outputs:
            raise refuse(
                operation, f"buffer output {list(output)} is not used in output_operand_alias"
            )


def _buffers(type_: Type) -> Iterator[Dims]:
    """Yield the tuple indices of the buffers in a type, in order."""
    waiting: list[tuple[Dims, Type]] = [((), type_)]
    while waiting:
        path, part = waiting.pop()
        if isinstance(part, BufferType):
            yield path
        elif isinstance(part, TupleType):
            inner = list(enumerate(part.elements))
            waiting += [((*path, i), element) for i, element in reversed(inner)]


# --- configuration --------------------------------------------------------------------------


def _check_config(operation: Operation) -> None:
    config, given = operation.get("backend_config"), operation.get("api_version")
    # Without an `api_version`, the original one applies, whose configuration is a string.
    version = given.value if isinstance(given, IntegerAttr) else 1
    if config is None:
        return
    kind, needs = (DictAttr, "dictionary") if version == _TYPED else (StringAttr, "string")
    if not isinstance(config, kind):
        raise refuse(
            operation,
            f"backend_config for api_version {_VERSIONS[version]} must be a {needs} attribute.",
        )
