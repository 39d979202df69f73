"""Reductions, scans, sorts and `map`, which apply a computation to elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple, TypeAlias

from hloscope.errors import Name, VerifyError, message_of
from hloscope.ir import (
    Callee,
    Callees,
    Dims,
    ElementType,
    IncompatibleTypesError,
    Op,
    Signature,
    TensorType,
    TupleType,
    Type,
    Types,
    UnrankedTensorType,
    compatible,
)
from hloscope.ops.inference import (
    PRED,
    S32,
    Extent,
    array,
    compatible_shapes,
    count,
    extents,
    halves,
    leaves,
    may_be_one_size,
    op,
    packed,
    promotable,
    require,
    returned,
    tensor,
    tensors,
    without,
    without_layouts,
)
from hloscope.ops.result_types import mismatch

# --------------------------------------------------------------------------------------------------
# Checks of the bodies of reductions.


Array: TypeAlias = TensorType | UnrankedTensorType


class ReducerRules(NamedTuple):
    """Labels of the constraints on a body; an empty label stands for that of `body`.

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


def body_results(body: Callee, number: int) -> Types:
    """Return the result types of a body; HLO may return one tuple of `number` elements."""
    match body.results:
        case (TupleType(elements),) if len(elements) == number:
            return body.results if number == 1 and isinstance(body, Signature) else elements
        case results:
            return results


def accumulators(
    op: str, calls: Sequence[Callee], inits: Sequence[TensorType]
) -> list[ElementType]:
    """Return the element types of the results of a reduction's body, the first of `calls`.

    The body must return as many arrays as there are `inits`. Without a body, the types are those of
    the `inits`. `op` is the name of the op for the message.

    Raises:
        VerifyError: The body returns another number of results, or a result is not an array.
    """
    if not calls:
        return [t.element for t in inits]
    results = body_results(calls[0], len(inits))
    require(
        len(results) == len(inits),
        "",
        message_of(f"the body of `{{}}` returns {len(results)}, needs {len(inits)}", Name(op)),
    )
    return [t.element for t in tensors(op, results)]


def check_reducer(
    body: Callee,
    inputs: Sequence[TensorType],
    inits: Sequence[TensorType],
    allowed: Sequence[int | None],
    rules: ReducerRules,
) -> None:
    """Check the body of a reduction against the types of inputs and initial values.

    Args:
        body: Types of its parameters and results.
        inputs: Types of the N inputs.
        inits: Types of the N initial values.
        allowed: Sizes that a parameter may have: its sizes must be a subsequence of them.
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
            raise VerifyError(message_of(f"{message} {{}} instead", result), rule=rules.body)
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
            message_of(
                f"The element-type of reduction-region's argument at index {number + i} is expected"
                " to be promotable from {}, but got {}",
                inputs[i].element,
                parameter.element,
            ),
        )
        if isinstance(parameter, TensorType):
            _check_sizes(number, i, parameter, allowed, rules.body)


def check_input_shapes(inputs: Sequence[TensorType], rule: str) -> None:
    """Check that all inputs of a reduction have the shape of the first; `rule` is the label."""
    for i, t in enumerate(inputs):
        require(
            compatible_shapes(inputs[0], t),
            rule,
            "expects all inputs to have compatible shapes. Shape at input-index"
            f" {i} is not compatible with shape at input-index 0",
        )


def could_have_type(a: Array, b: Type, *, any_float: bool = True) -> bool:
    """Could `b` be a type with the sizes and the element type of `a`?

    With `any_float`, float types may differ.

    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> f32, bf16 = ELEMENT_TYPES["f32"], ELEMENT_TYPES["bf16"]
    >>> could_have_type(TensorType(f32, (2,)), TensorType(bf16, (2,)))
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
    """Check that a parameter of a reduction's body has the type of a result; return its type.

    Args:
        arguments: Types of all parameters of the body.
        index: Number of the parameter.
        result: Type of the result.
        rules: Labels of the constraints.
        any_float: May float types differ?
    """
    parameter = arguments[index]
    if not isinstance(parameter, Array) or not could_have_type(
        result, parameter, any_float=any_float
    ):
        raise VerifyError(
            message_of(
                f"The type of reduction-region's parameter at index {index} is different than the"
                " corresponding result type: {} vs {}",
                parameter,
                result,
            ),
            rule=rules.parameter or rules.body,
        )
    return parameter


def _check_init(i: int, result: Array, init: TensorType, rules: ReducerRules) -> None:
    """Check that an initial value has the result's sizes, and an element type promotable to it.

    Args:
        i: Number of the initial value.
        result: Type of the result of the body.
        init: Type of the initial value.
        rules: Labels of the constraints.
    """
    both = message_of("{} vs {}", result, init)
    require(
        isinstance(result, UnrankedTensorType) or compatible_shapes(init, result),
        rules.init_shape or rules.body,
        message_of(
            f"The shape of reduction-region's result type at index {i} differs from the op's"
            " corresponding init-value type: {}",
            both,
        ),
    )
    require(
        promotable(init.element, result.element, any_float=True),
        rules.init_element or rules.body,
        message_of(
            f"The element-type of reduction-region's result type at index {i} is expected to be"
            " promotable from the op's corresponding init-value element-type: {}",
            both,
        ),
    )


def _check_sizes(
    number: int, i: int, parameter: TensorType, allowed: Sequence[int | None], rule: str
) -> None:
    """Check that the sizes of a parameter are a subsequence of `allowed`.

    Args:
        number: Number of inputs.
        i: Number of the input whose elements the parameter takes; the parameter is `number + i`.
        parameter: Type of the parameter.
        allowed: The allowed sizes.
        rule: Label of the constraint.
    """
    require(
        parameter.rank <= len(allowed),
        rule,
        f"The rank of reduction-region's argument at index {number + i} is expected to be"
        f" <= {len(allowed)}, got {parameter.rank}",
    )
    found = 0
    # Greedy matching finds a subsequence if there is one: an early match leaves the most choices
    # for the remaining sizes.
    for size in allowed:
        found += found < parameter.rank and may_be_one_size(size, parameter.sizes[found])
    require(
        found == parameter.rank,
        rule,
        f"The shape of reduction-region's argument at index {number + i} is not compatible with"
        f" that of reduce-op's input-parameter at index {i}",
    )


# --------------------------------------------------------------------------------------------------
# Reductions, scans, sorts and `map`, which apply a computation to elements.


@op("reduce")
class Reduce(Op):
    """Reduction over `dimensions`.  Operands: N inputs, N initial values.  Callee: the body."""

    dimensions: Dims

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        inputs, inits = halves(self.name, operands)
        kept = self._result_dims(inputs)
        return packed(array(e, kept) for e in accumulators(self.name, calls, inits))

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        require(bool(operands), "reduce_c3", "requires at least 1 input value")
        inputs, inits = halves(self.name, operands[: len(operands) // 2 * 2])
        kept = [size for size, _ in self._result_dims(inputs)]
        if calls:
            check_reducer(calls[0], inputs, inits, kept, _REDUCE_BODY)
        super().verify(operands, results, calls)

    def broken_rule(self, inferred: Types, declared: Types) -> str:
        return mismatch(
            inferred, declared, number="reduce_c3", sizes="reduce_c7", element="reduce_c8"
        )

    def _result_dims(self, inputs: Sequence[TensorType]) -> list[Extent]:
        """Return the dimensions of the result: those of the first input that are not reduced."""
        check_input_shapes(inputs, "reduce_c1")
        rank = inputs[0].rank
        for i, d in enumerate(self.dimensions):
            message = f"Out-of-bounds dimension {d}, expected to be in range [0, {rank})"
            require(0 <= d < rank, "reduce_c4", message)
            message = f"Duplicate reduction dimension: {d}"
            require(d not in self.dimensions[:i], "reduce_c5", message)
        return without(extents(inputs[0]), self.dimensions)


_REDUCE_BODY = ReducerRules(body="reduce_c6", parameter="reduce_c2")


@op("scan")
class Scan(Op):
    """Applies the body to one slice after another.

    Operands: inputs, initial carries.  Callee: the body, which takes a slice of each input and the
    carries, and returns a slice of each output and new carries.

    Attributes:
        scan_dimension: Dimension along which slices are taken.
        num_carries: Number of values that each step passes to the next one.
        is_reverse: Whether the last slice is taken first.
        is_associative: Whether the body is associative, as written.
        scan_dim_size: Number of steps, if it is written (CHLO).
    """

    scan_dimension: int
    num_carries: int
    is_reverse: bool = False
    is_associative: str = ""
    scan_dim_size: int | None = None

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        inputs = tensors(self.name, operands[: len(operands) - self.num_carries])
        axis = self.scan_dimension
        size: Extent = (self.scan_dim_size, None)
        for i, t in enumerate(inputs):
            message = f"scan dimension of operand {i} is out of bounds"
            require(0 <= axis < t.rank, "", message)
            size = extents(t)[axis] if size[0] is None else size
        results = tensors(self.name, leaves(returned(self.name, calls)))
        message = f"ScanOp body must return at least {self.num_carries} values (carries)"
        require(len(results) >= self.num_carries, "", message)
        outputs = results[: len(results) - self.num_carries]
        grown = [(t.element, extents(t)) for t in outputs]
        stacked = [array(e, [*x[:axis], size, *x[axis:]]) for e, x in grown]
        return packed((*stacked, *results[len(outputs) :]))

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        types = tensors(self.name, operands)
        number = len(types) - self.num_carries
        self._check_steps(types[:number])
        if calls:
            arguments = calls[0].arguments
            message = f"expects {len(types)} arguments in the body, but got {len(arguments)}"
            require(len(arguments) == len(types), "", f"'chlo.scan' op {message}")
            for i, (t, argument) in enumerate(zip(types, arguments, strict=True)):
                dims = extents(t)
                part = without(dims, (self.scan_dimension,)) if i < number else dims
                message = f"operand and body argument {i} are incompatible"
                require(
                    compatible(array(t.element, part), argument), "", f"'chlo.scan' op {message}"
                )
        try:
            super().verify(operands, results, calls)
        except IncompatibleTypesError as error:  # CHLO may declare other element types
            rules = {"number": "number", "sizes": "sizes", "element": ""}
            if mismatch(error.inferred, error.declared, **rules):
                raise

    def _check_steps(self, inputs: Sequence[TensorType]) -> None:
        """Check that all inputs have the same number of slices along the scanned dimension."""
        size = self.scan_dim_size
        for i, t in enumerate(inputs):
            message = f"scan dimension of operand {i} is out of bounds"
            require(0 <= self.scan_dimension < t.rank, "", f"'chlo.scan' op {message}")
            found = t.sizes[self.scan_dimension]
            message = f"'chlo.scan' op invalid scan dimension size of operand {i}"
            require(size is None or found in (size, None), "", message)
            size = found if size is None else size


@op("sort")
class Sort(Op):
    """Sorts all operands together along `dimension`.  Callee: the comparator.

    Attributes:
        dimension: Dimension along which elements are ordered.
        is_stable: Whether equal elements must keep their order.
    """

    result_rule: ClassVar[str] = "sort_c2"
    dimension: int
    is_stable: bool = False

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 1, at_least=True)
        return packed(array(t.element, extents(t)) for t in tensors(self.name, operands))

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        require(bool(operands), "sort_c1", "requires at least 1 input value")
        types = tensors(self.name, operands)
        message = "requires the same shape for all operands and results"
        require(all(compatible_shapes(types[0], t) for t in types), "sort_c3", message)
        rank = types[0].rank
        require(
            -rank <= self.dimension < rank,
            "sort_c4",
            f"dimension attribute value must be in range [-{rank}, {rank}), but found"
            f" {self.dimension}",
        )
        if calls:
            _check_comparator(types, calls[0])
        super().verify(operands, results, calls)


def _check_comparator(types: Sequence[TensorType], body: Callee) -> None:
    """Check a comparator: two scalar parameters for each operand, one boolean result."""
    rule, arguments, results = "sort_c5", body.arguments, body.results
    message = f"comparator block should have {2 * len(types)} arguments"
    require(len(arguments) == 2 * len(types), rule, message)
    for i, argument in enumerate(arguments):
        needed = array(types[i // 2].element, ())
        require(
            without_layouts(argument) == needed,
            rule,
            message_of(
                f"comparator block argument #{i} should be of type {{}} but got {{}}",
                needed,
                argument,
            ),
        )
    message = f"comparator must return single output but got {len(results)}"
    require(len(results) == 1, rule, message)
    wrong = message_of("comparator must return {:bare} but got {}", array(PRED, ()), results[0])
    require(without_layouts(results[0]) == array(PRED, ()), rule, wrong)


@op("top_k")
class TopK(Op):
    """The `k` largest or smallest elements along the last dimension in order, and their indices."""

    k: int
    largest: bool = True

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 1)
        if isinstance(operands[0], UnrankedTensorType):
            return TupleType((operands[0], UnrankedTensorType(S32)))
        t = tensor(self.name, operands[0], "the operand")
        require(t.rank > 0, "", "operand's rank must be at least 1")
        last = t.sizes[-1]
        message = f"operand's last dimension must be at least {self.k}"
        require(last is None or self.k <= last, "", message)
        require(self.k >= 0, "", f"k must not be negative, but is {self.k}")
        dims = [*extents(t)[:-1], (self.k, None)]
        return TupleType((array(t.element, dims), array(S32, dims)))


@op("map")
class Map(Op):
    """Applies the called computation to the operands' elements at each index."""

    dimensions: Dims

    def broken_rule(self, inferred: Types, declared: Types) -> str:
        return mismatch(inferred, declared, number="", sizes="map_c1", element="map_c4")

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        require(bool(operands), "map_c2", "requires at least 1 input value")
        types = tensors(self.name, operands)
        if not calls:
            raise VerifyError("`map` calls no computation, needs 1", rule="map_c4")
        result = _mapped(types, calls[0])
        dims = ", ".join(map(str, self.dimensions))
        require(
            self.dimensions == tuple(range(len(self.dimensions))),
            "map_c3",
            f"requires monotonically increasing dimension numbers, but got: {dims}",
        )
        for t in types:
            require(
                len(self.dimensions) in (0, t.rank),  # HLO may leave them out
                "map_c3",
                "applied to a subset of dimensions currently not supported: operand dimensions ="
                f" {t.rank}, requested map dimensions size = {len(self.dimensions)}",
            )
        message = "requires the same shape for all operands and results"
        require(all(compatible_shapes(types[0], t) for t in types), "map_c1", message)
        return array(result.element, extents(types[-1]))


def _mapped(types: Sequence[TensorType], body: Callee) -> TensorType:
    """Return the scalar type that the computation of a `map` returns, after checking its signature.

    Args:
        types: Types of the operands of `map`.
        body: The computation: one scalar parameter for each operand.
    """
    rule, arguments, results = "map_c4", body.arguments, body.results
    require(
        not arguments or len(arguments) == len(types),
        rule,
        "expects number of operands to match the arity of map computation, but got:"
        f" {len(types)} and {len(arguments)}",
    )
    for i, (argument, t) in enumerate(zip(arguments, types, strict=False)):
        message = "computation arguments must be 0-rank tensor, but got: arg"
        if not isinstance(argument, TensorType) or argument.rank:
            raise VerifyError(message_of(f"{message} #{i} of type {{}}", argument), rule=rule)
        require(
            argument.element == t.element,
            rule,
            message_of(
                "element type of operands and computation arguments must match, but got: {} and {}",
                t.element,
                argument.element,
            ),
        )
    message = f"computation must return single output, but got: {len(results)}"
    require(len(results) == 1, rule, message)
    (result,) = results
    if not isinstance(result, TensorType) or result.rank:
        wrong = message_of("computation must return 0-rank tensor, but got: {}", result)
        raise VerifyError(wrong, rule=rule)
    return result
