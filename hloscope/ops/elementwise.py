"""Elementwise ops, `result[i] = f(operand0[i], operand1[i], …)`, one line of a table each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import starmap
from typing import ClassVar, Final, TypeVar

from hloscope.errors import UnsupportedError, VerifyError
from hloscope.ir import (
    Callees,
    Dims,
    ElementType,
    IncompatibleTypesError,
    Op,
    TensorType,
    Type,
    Types,
    UnrankedTensorType,
    compatible,
    compatible_elements,
)
from hloscope.ops.inference import (
    PRED,
    Extent,
    array,
    common_element,
    compatible_shapes,
    complex_of,
    count,
    kind,
    op,
    raw_sizes,
    real_part,
    require,
    same_elements,
    same_sizes,
    sizes_text,
    tensor,
    tensors,
    with_element,
    without_layouts,
)
from hloscope.ops.quantization import any_quantized, check_binary
from hloscope.ops.result_types import broadcast_along, most_specific, numpy_broadcast

_O = TypeVar("_O", bound=Op)


class Elementwise(Op):
    """Base of ops whose operands and result all have the same sizes.

    Attributes:
        arity: Number of operands.
        parameters: Names of the attributes of the op; their texts are in `settings`.
        result: Element type of the result: that of the operands (`same`), `pred`, the real `part`
            of a complex type, the `complex` type of a real one, or declared (`written`).  `any` is
            `same` and also takes values that are not arrays.
        same_rule: Label of the constraint that the operands have one type.
        shape_rule: Label of the constraint that operands and result have the same sizes.
        settings: Attributes as pairs (name, text), as written.
    """

    arity: ClassVar[int] = 0
    parameters: ClassVar[tuple[str, ...]] = ()
    result: ClassVar[str] = "same"
    same_rule: ClassVar[str] = ""
    shape_rule: ClassVar[str] = ""
    settings: tuple[tuple[str, str], ...] = ()

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, self.arity)
        if self.result == "written":
            return Op.infer(self, operands, calls)
        if self.result == "any" and not isinstance(operands[0], TensorType):
            return without_layouts(operands[0])
        ranked = [t for t in operands if not isinstance(t, UnrankedTensorType)]
        if not ranked:
            return UnrankedTensorType(_result_element(self, element_of(self, operands[0])))
        types = tensors(self.name, ranked)
        # Operands often share one type object; then there is nothing to compare.
        first = types[0]
        if all(t is first for t in types):
            return with_element(first, _result_element(self, first.element))
        element = _result_element(self, common_element(self.name, types, self.same_rule))
        dims = same_sizes(self.name, types, self.shape_rule)
        return array(element, dims, first.encoding)


def element_of(op: Op, type_: Type) -> ElementType:
    """Return the element type of a ranked or unranked array type.

    Raises:
        VerifyError: The type is not an array type.
    """
    if isinstance(type_, TensorType | UnrankedTensorType):
        return type_.element
    raise VerifyError(f"an operand of `{op.name}` is a {kind(type_)}, needs an array")


def _result_element(op: Elementwise, element: ElementType) -> ElementType:
    """Return the element type of the result for operands of type `element`."""
    match op.result:
        case "pred":
            return PRED
        case "part":
            return real_part(element)
        case "complex":
            return complex_of(element, f"{op.name}_i1")
        case _:
            return element


# name, number of operands, parameters, `>` element type of the result
_ROWS: Final = """
    abs 1 >part                 | negate 1              | sign 1           | not 1
    popcnt 1              | count_leading_zeros 1 | is_finite 1 >pred      | real 1 >part
    imag 1 >part                | floor 1               | ceil 1
    round_nearest_afz 1   | round_nearest_even 1  | cbrt 1 result_accuracy
    exponential 1 result_accuracy                 | exponential_minus_one 1 result_accuracy
    log 1 result_accuracy | log_plus_one 1 result_accuracy
    logistic 1 result_accuracy                    | rsqrt 1 result_accuracy
    sqrt 1 result_accuracy                        | sine 1 result_accuracy
    cosine 1 result_accuracy                      | tan 1 result_accuracy
    tanh 1 result_accuracy
    subtract 2            | multiply 2            | divide 2         | power 2
    remainder 2           | maximum 2             | minimum 2
    atan2 2               | and 2                 | or 2             | xor 2
    shift_left 2          | shift_right_logical 2 | shift_right_arithmetic 2
    complex 2 >complex
    erf 1                 | copy 1 >any
    chlo.acos 1           | chlo.acosh 1          | chlo.asin 1      | chlo.asinh 1
    chlo.atan 1           | chlo.atanh 1          | chlo.bessel_i1e 1
    chlo.conj 1           | chlo.cosh 1           | chlo.digamma 1   | chlo.erf_inv 1
    chlo.erfc 1           | chlo.is_inf 1 >pred         | chlo.is_neg_inf 1 >pred
    chlo.is_pos_inf 1 >pred     | chlo.lgamma 1         | chlo.next_after 2
    chlo.polygamma 2      | chlo.sinh 1           | chlo.square 1    | chlo.zeta 2
    chlo.mulhi 2          | chlo._asin_acos_kernel 1
"""

_LABELS: Final = {
    "complex": ("complex_c1", "complex_c1", "complex_c3"),
    "real": ("", "", "real_c2"),
    "imag": ("", "", "imag_c2"),
    "abs": ("", "", "abs_c2"),
    "erf": ("", "", ""),
    "copy": ("", "", ""),
}
"""Labels of three constraints, by op, where not all of them are `<op>_c1`.

In order: the operands have one type, all have one shape, the type of the result.
"""


def _subclass(name: str, base: type[_O], doc: str, fields: Mapping[str, object]) -> type[_O]:
    """Return a new subclass of `base` with the docstring `doc` and the class variables `fields`.

    It adds no other fields, so that it inherits all generated methods.
    """
    return type(name, (base,), {"__module__": __name__, "__doc__": doc, **fields})


def _class(name: str, arity: str, marks: list[str]) -> type[Elementwise]:
    """Return the op class of one line of the table, registered by its name.

    Args:
        name: Name of the op.
        arity: Number of operands.
        marks: Names of attributes; `>` and a word states the element type of the result.
    """
    camel = "".join(part.capitalize() for part in name.removeprefix("chlo.").split("_"))
    usual = "" if "." in name else f"{name}_c1"
    same, shape, result = _LABELS.get(name, (usual, usual, usual))
    fields: dict[str, object] = {
        "arity": int(arity),
        "parameters": tuple(m for m in marks if m[0] != ">"),
        "same_rule": same,
        "shape_rule": shape,
        "result_rule": result,
    }
    for mark in marks:
        if mark[0] == ">":
            fields["result"] = mark[1:]
    return op(name)(_subclass(camel, Elementwise, name, fields))


@op("add")
class Add(Elementwise):
    """`lhs[i] + rhs[i]`; `or` of booleans.  Source: StableHLO spec `add`."""

    arity: ClassVar[int] = 2
    same_rule: ClassVar[str] = "add_c1"
    shape_rule: ClassVar[str] = "add_c1"
    result_rule: ClassVar[str] = "add_c1"

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        count(self.name, operands, 2)
        if any_quantized(*operands, *results):
            check_binary(operands[0], operands[1], results[0])
        super().verify(operands, results, calls)


@op("compare")
class Compare(Elementwise):
    """`lhs[i] < rhs[i]`, or another comparison.  Source: StableHLO spec `compare`.

    Attributes:
        comparison_direction: `EQ`, `NE`, `GE`, `GT`, `LE` or `LT`.
        compare_type: Order of the numbers: `FLOAT`, `TOTALORDER`, `SIGNED`, `UNSIGNED`; if empty,
            the usual order of their type.
    """

    arity: ClassVar[int] = 2
    result: ClassVar[str] = "pred"
    same_rule: ClassVar[str] = "compare_c1"
    shape_rule: ClassVar[str] = "compare_c2"
    result_rule: ClassVar[str] = "compare_c2"
    comparison_direction: str = ""
    compare_type: str = ""


@op("convert")
class Convert(Elementwise):
    """Converts numbers to the declared element type."""

    arity: ClassVar[int] = 1
    result: ClassVar[str] = "written"
    shape_rule: ClassVar[str] = "convert_c1"

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        count(self.name, operands, self.arity)
        types = tensors(self.name, (*operands, *results))
        require(
            all(compatible_shapes(types[0], t) for t in types[1:]),
            self.shape_rule,
            "requires the same shape for all operands and results",
        )


@op("stochastic_convert")
class StochasticConvert(Convert):
    """`convert` to integers, with rounding by the random bits in operand 1 (HLO)."""

    arity: ClassVar[int] = 2
    shape_rule: ClassVar[str] = ""


@op("reduce_precision")
class ReducePrecision(Elementwise):
    """Rounds to the nearest numbers with `exponent_bits` and `mantissa_bits`, in the same type."""

    arity: ClassVar[int] = 1
    result_rule: ClassVar[str] = "reduce_precision_c1"
    exponent_bits: int = 1
    mantissa_bits: int = 0

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        exponent, mantissa = self.exponent_bits, self.mantissa_bits
        message = f"exponent_bits is {exponent}, needs at least 1"
        require(exponent >= 1, "reduce_precision_c2", message)
        message = f"mantissa_bits is {mantissa}, needs at least 0"
        require(mantissa >= 0, "reduce_precision_c3", message)
        return super().infer(operands, calls)


@op("select")
class Select(Elementwise):
    """`on_true[i]` if the predicate holds, else `on_false[i]`; the predicate may be one scalar."""

    arity: ClassVar[int] = 3
    result_rule: ClassVar[str] = "select_c2"

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        pred, on_true, on_false = tensors(self.name, operands, 3)
        require(
            pred.element == PRED,
            "select_i1",
            f"operand 0 of `select` has element type {pred.element}, needs pred",
        )
        require(
            compatible_shapes(on_true, on_false)
            and same_elements((on_true, on_false), any_float=False),
            "select_c2",
            "requires compatible types for non-predicate operands",
        )
        require(
            pred.rank == 0 or compatible_shapes(pred, on_true),
            "select_c1",
            "requires the same shape for all operands",
        )
        return most_specific((on_true, on_false), "select_c2")


@op("clamp")
class Clamp(Elementwise):
    """`operand[i]` limited to `min[i]` … `max[i]`; each limit may be one scalar for all."""

    arity: ClassVar[int] = 3
    result_rule: ClassVar[str] = "clamp_c4"

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        types = tensors(self.name, operands, 3)
        least, operand, most = types
        for name, limit, rule in (("min", least, "clamp_c1"), ("max", most, "clamp_c2")):
            require(
                limit.rank == 0 or compatible_shapes(limit, operand),
                rule,
                f"{name} shape [{raw_sizes(limit)}] is not scalar and is not compatible to operand"
                f" shape [{raw_sizes(operand)}]",
            )
        common_element(self.name, types, "clamp_c3")
        return without_layouts(operand)


@op("chlo.constant_like")
class ConstantLike(Elementwise):
    """An array of the operand's sizes filled with the number `value`."""

    arity: ClassVar[int] = 1
    parameters: ClassVar[tuple[str, ...]] = ("value",)
    value_type: ElementType | None = None

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 1)
        element = self.value_type
        if element is None:
            return Op.infer(self, operands, calls)
        if isinstance(operands[0], UnrankedTensorType):
            return UnrankedTensorType(element)
        return with_element(tensor(self.name, operands[0], "the operand"), element)

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        element = self.value_type
        require(
            element is None or element == element_of(self, results[0]),
            "",
            "'chlo.constant_like' op value's type doesn't match element return type",
        )
        super().verify(operands, results, calls)


_WITH_CLASS: Final[tuple[type[Elementwise], ...]] = (
    *(Add, Compare, Convert, StochasticConvert, ReducePrecision, Select, Clamp, ConstantLike),
)
_LINES: Final = [row.split() for row in _ROWS.replace("\n", "|").split("|") if row.strip()]
ELEMENTWISE: Final[dict[str, type[Elementwise]]] = {
    **{name: _class(name, arity, marks) for name, arity, *marks in _LINES},
    **{cls.name: cls for cls in _WITH_CLASS},
}
"""All elementwise op classes, by the name of the op."""


class ImplicitBroadcast(Op):
    """Base of CHLO's `broadcast_*` ops, which broadcast the operands of an elementwise op.

    Attributes:
        applies: Name of the elementwise op.
        broadcast_dimensions: Result dimension of each dimension of the smaller operand; `None`
            aligns dimensions at the end, as numpy does.
        settings: Other attributes, as written.
    """

    applies: ClassVar[str] = ""
    broadcast_dimensions: Dims | None = None
    settings: tuple[tuple[str, str], ...] = ()

    def result_dims(self, rank: int, result_rank: int) -> Dims:
        """Return the result dimension of each dimension of an operand of rank `rank`.

        The result has rank `result_rank`.

        Raises:
            UnsupportedError: `broadcast_dimensions` are not distinct dimensions of the result,
                which the verifier does not check.
        """
        if rank == result_rank:
            return tuple(range(result_rank))
        dims = self.broadcast_dimensions
        if dims is None:
            return tuple(range(result_rank - rank, result_rank))
        if (
            len(set(dims)) != len(dims)
            or len(dims) != rank
            or not all(0 <= d < result_rank for d in dims)
        ):
            raise UnsupportedError(
                f"broadcast_dimensions [{sizes_text(dims)}] are not {rank} different dimensions of"
                f" {result_rank}"
            )
        return dims

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        applied = ELEMENTWISE[self.applies]
        count(self.name, operands, applied.arity)
        require(self._elements_agree(operands), "", "mismatched operand types")
        element = _result_element(
            applied(), element_of(self, operands[-1 if applied is Select else 0])
        )
        types = [t for t in operands if isinstance(t, TensorType)]
        dims = self._dimensions(types) if len(types) == len(operands) else None
        return UnrankedTensorType(element) if dims is None else array(element, dims)

    def _elements_agree(self, operands: Types) -> bool:
        """Are the element types of the last two operands compatible; for `select`, equal?"""
        a, b = [element_of(self, t) for t in operands[-2:]]
        return a == b or (self.applies != "select" and compatible_elements(a, b))

    def _dimensions(self, types: Sequence[TensorType]) -> list[Extent] | None:
        """Return the dimensions of the result; `None` if they are unknown."""
        if self.broadcast_dimensions is not None and len(types) == 2:
            return broadcast_along(types[0], types[1], self.broadcast_dimensions)
        return numpy_broadcast(types)

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        applied = ELEMENTWISE[self.applies]
        count(self.name, operands, applied.arity)
        types = [t for t in operands if isinstance(t, TensorType)]
        if len(types) == len(operands) and self._elements_agree(operands):
            self._dimensions(types)
        try:
            super().verify(operands, results, calls)
        except IncompatibleTypesError as error:  # for `select`, element types are not compared
            pairs = zip(error.inferred, error.declared, strict=True)
            if applied is not Select or not all(starmap(_shapes_fit, pairs)):
                raise


def _shapes_fit(a: Type, b: Type) -> bool:
    """Are the shapes of two types compatible?  Element types may differ."""
    if not isinstance(a, TensorType) or not isinstance(b, TensorType):
        return True
    return compatible(a, with_element(b, a.element))


@op("chlo.broadcast_compare")
class BroadcastCompare(ImplicitBroadcast):
    """`compare` after broadcasting; its attributes are those of `Compare`."""

    applies: ClassVar[str] = "compare"
    comparison_direction: str = ""
    compare_type: str = ""


def _broadcasting(name: str) -> type[ImplicitBroadcast]:
    """Return the class, registered by its name, that broadcasts the operands of the op `name`."""
    short = name.removeprefix("chlo.")
    camel = "Broadcast" + "".join(part.capitalize() for part in short.split("_"))
    cls = _subclass(camel, ImplicitBroadcast, f"broadcast_{short}", {"applies": name})
    return op(f"chlo.broadcast_{short}")(cls)


IMPLICIT_BROADCAST: Final[dict[str, type[ImplicitBroadcast]]] = {
    "compare": BroadcastCompare,
    **{
        name: _broadcasting(name)
        for name in """
        add and atan2 complex divide maximum minimum multiply chlo.next_after or
        chlo.polygamma power remainder select shift_left shift_right_arithmetic
        shift_right_logical subtract xor chlo.zeta
    """.split()
    },
}
"""All classes of `chlo.broadcast_*` ops, by the name of the elementwise op."""

globals().update(
    {cls.__name__: cls for cls in (*ELEMENTWISE.values(), *IMPLICIT_BROADCAST.values())}
)  # by name, as the classes written out are: pickle looks them up in their module
