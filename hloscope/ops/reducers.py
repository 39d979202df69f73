"""Checks of the bodies of reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from hloscope.errors import Name, VerifyError, said
from hloscope.ir import (
    Callee,
    ElementType,
    Signature,
    TensorType,
    TupleType,
    Type,
    UnrankedTensorType,
)
from hloscope.ops.infer_util import compatible_shapes, fit, promotable, require, tensors

Array: TypeAlias = TensorType | UnrankedTensorType


class ReducerRules(NamedTuple):
    """Labels of the constraints on a body; an empty label means that of `body`.

    Attributes:
        body: The body is a function of 2N scalars with N results.
        parameter: A parameter has the type of the result.
        init_shape: The initial value has the sizes of the result.
        init_element: The element type of the initial value can be promoted to that of the result.
        input_element: The element type of the input can be promoted to that of the parameter.
    """

    body: str
    parameter: str = ""
    init_shape: str = ""
    init_element: str = ""
    input_element: str = ""


def body_results(body: Callee, number: int) -> tuple[Type, ...]:
    """Return the results of a body, which HLO may pack in one tuple of `number` elements."""
    match body.results:
        case (TupleType(elements),) if len(elements) == number:
            return body.results if number == 1 and isinstance(body, Signature) else elements
        case results:
            return results


def accumulators(op: str, body: Callee, number: int) -> list[ElementType]:
    """Return the element types of a body's `number` results.

    Raises:
        VerifyError: It returns another number of results, or one is not an array.
    """
    results = body_results(body, number)
    require(
        len(results) == number,
        "",
        said(f"the body of `{{}}` returns {len(results)}, needs {number}", Name(op)),
    )
    return [t.element for t in tensors(op, results)]


def check_reducer(
    body: Callee,
    inputs: Sequence[TensorType],
    inits: Sequence[TensorType],
    allowed: Sequence[int | None],
    rules: ReducerRules,
) -> None:
    """Check the body of a reduction.

    Args:
        body: Types of its parameters and results.
        inputs: Types of the N inputs.
        inits: Types of the N initial values.
        allowed: Sizes of which a parameter's sizes have to be a subsequence.
        rules: Labels of the constraints.
    """
    number, arguments = len(inputs), body.arguments
    require(
        len(arguments) == 2 * number,
        rules.body,
        f"Reduction-region must take {2 * number} parameters, but takes {len(arguments)}"
        " parameter(s)",
    )
    results = body_results(body, number)
    message = "The reduction-region expected to return some value(s)"
    require(bool(results), rules.body, message)
    require(
        len(results) == number,
        rules.body,
        f"Reduction-region here must produce {number} tensors, but produces {len(results)} instead",
    )
    arrays: list[Array] = []
    for result in results:
        message = "Reduction-region here must produce tensor-typed result(s), but produces"
        if not isinstance(result, Array):
            raise VerifyError(said(f"{message} {{}} instead", result), rule=rules.body)
        arrays.append(result)
    # Accumulators have exactly the type of the result.  The second half of the parameters takes
    # elements of the inputs, for which HLO allows another float type.
    for i, result in enumerate(arrays):
        _check_parameter(arguments, i, result, rules, any_float=False)
        parameter = _check_parameter(arguments, number + i, result, rules, any_float=True)
        _check_init(i, result, inits[i], rules)
        require(
            promotable(inputs[i].element, parameter.element, any_float=True),
            rules.input_element or rules.body,
            said(
                f"The element-type of reduction-region's argument at index {number + i} is expected"
                " to be promotable from {}, but got {}",
                inputs[i].element,
                parameter.element,
            ),
        )
        if isinstance(parameter, TensorType):
            _check_sizes(number, i, parameter, allowed, rules.body)


def alike(a: Array, b: Type, *, any_float: bool = True) -> bool:
    """Could `b` have the sizes and the element type of `a`?  With `any_float`, floats may differ.

    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> f32, bf16 = ELEMENT_TYPES["f32"], ELEMENT_TYPES["bf16"]
    >>> alike(TensorType(f32, (2,)), TensorType(bf16, (2,)))
    True
    """
    if not isinstance(b, Array):
        return False
    if isinstance(a, TensorType) and isinstance(b, TensorType) and not compatible_shapes(a, b):
        return False
    x, y = a.element, b.element
    return x == y or (any_float and x.kind == y.kind == "float")


def _check_parameter(
    arguments: Sequence[Type],
    index: int,
    result: Array,
    rules: ReducerRules,
    *,
    any_float: bool,
) -> Array:
    """Check that a parameter has the type of the corresponding result, and return it."""
    parameter = arguments[index]
    if not isinstance(parameter, Array) or not alike(result, parameter, any_float=any_float):
        raise VerifyError(
            said(
                f"The type of reduction-region's parameter at index {index} is different than the"
                " corresponding result type: {} vs {}",
                parameter,
                result,
            ),
            rule=rules.parameter or rules.body,
        )
    return parameter


def _check_init(i: int, result: Array, init: TensorType, rules: ReducerRules) -> None:
    """Check that an initial value has the sizes of the result and a type promotable to it."""
    both = said("{} vs {}", result, init)
    require(
        isinstance(result, UnrankedTensorType) or compatible_shapes(init, result),
        rules.init_shape or rules.body,
        said(
            f"The shape of reduction-region's result type at index {i} differs from the op's"
            " corresponding init-value type: {}",
            both,
        ),
    )
    require(
        promotable(init.element, result.element, any_float=True),
        rules.init_element or rules.body,
        said(
            f"The element-type of reduction-region's result type at index {i} is expected to be"
            " promotable from the op's corresponding init-value element-type: {}",
            both,
        ),
    )


def _check_sizes(
    number: int, i: int, parameter: TensorType, allowed: Sequence[int | None], rule: str
) -> None:
    """Check that the sizes of a parameter are a subsequence of `allowed`."""
    require(
        parameter.rank <= len(allowed),
        rule,
        f"The rank of reduction-region's argument at index {number + i} is expected to be"
        f" <= {len(allowed)}, got {parameter.rank}",
    )
    found = 0
    # Greedy matching finds a subsequence if there is one, as a match taken early leaves more
    # choices for the rest.
    for size in allowed:
        found += found < parameter.rank and fit(size, parameter.sizes[found])
    require(
        found == parameter.rank,
        rule,
        f"The shape of reduction-region's argument at index {number + i} is not compatible with"
        f" that of reduce-op's input-parameter at index {i}",
    )
