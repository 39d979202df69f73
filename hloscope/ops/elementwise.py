"""Element-wise ops: `result[i] = f(operand0[i], operand1[i], …)`, one row each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, TypeVar

from hloscope.ir.types import ElementType, TensorType
from hloscope.ops.base import Callee, Dims, Op, Type, op
from hloscope.ops.infer_util import (
    PRED,
    Extent,
    array,
    bare,
    common_element,
    complex_of,
    count,
    extents,
    may_equal,
    merged,
    real_part,
    require,
    same_sizes,
    tensors,
)

_O = TypeVar("_O", bound=Op)


class Elementwise(Op):
    """Base: every operand and the result have the same sizes.

    An operand may also be a scalar where the op allows it (`select`'s predicate, `clamp`'s
    bounds): it is then read by every result element.

    Attributes:
        arity: Number of operands.
        parameters: Names of the parameters, kept as `(name, text)` in `settings`.
        result: Element type of the result: that of the operands (`same`), `pred`, the `part` of
            a complex one, the `complex` of a real one, or not to be inferred (`written`); `any`
            takes values that are no arrays too.
        may_be_scalar: Operands that may be scalars beside arrays.
    """

    arity: ClassVar[int] = 0
    parameters: ClassVar[tuple[str, ...]] = ()
    result: ClassVar[str] = "same"
    may_be_scalar: ClassVar[Dims] = ()
    settings: tuple[tuple[str, str], ...] = ()

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, self.arity)
        if self.result == "written":
            return Op.infer(self, operands, calls)
        if self.result == "any" and not isinstance(operands[0], TensorType):
            return bare(operands[0])
        types = tensors(self.name, operands)
        shaped, rule = types, f"{self.name}_c1"
        if self.may_be_scalar:
            rule = "select_c1" if self.name == "select" else "clamp_c1_c3"
            shaped = [t for i, t in enumerate(types) if t.rank or i not in self.may_be_scalar]
        dims = same_sizes(self.name, shaped, rule)
        if self.name == "select":
            require(
                types[0].element == PRED,
                "select_i1",
                f"operand 0 of `select` has element type {types[0].element}, needs pred",
            )
            types = types[1:]
        return array(_result_element(self.result, common_element(self.name, types)), dims)


def _result_element(result: str, element: ElementType) -> ElementType:
    match result:
        case "pred":
            return PRED
        case "part":
            return real_part(element)
        case "complex":
            return complex_of(element)
        case _:
            return element


# name, number of operands, parameters, `>` element type of the result, `?` operands that may be
# scalars
_ROWS: Final = """
    abs 1 >part                 | negate 1              | sign 1           | not 1
    popcnt 1              | count_leading_zeros 1 | is_finite 1 >pred      | real 1 >part
    imag 1 >part                | floor 1               | ceil 1           | convert 1 >written
    round_nearest_afz 1   | round_nearest_even 1  | cbrt 1 result_accuracy
    exponential 1 result_accuracy                 | exponential_minus_one 1 result_accuracy
    log 1 result_accuracy | log_plus_one 1 result_accuracy
    logistic 1 result_accuracy                    | rsqrt 1 result_accuracy
    sqrt 1 result_accuracy                        | sine 1 result_accuracy
    cosine 1 result_accuracy                      | tan 1 result_accuracy
    tanh 1 result_accuracy                        | reduce_precision 1 exponent_bits mantissa_bits
    add 2                 | subtract 2            | multiply 2       | divide 2
    remainder 2           | maximum 2             | minimum 2        | power 2
    atan2 2               | and 2                 | or 2             | xor 2
    shift_left 2          | shift_right_logical 2 | shift_right_arithmetic 2
    complex 2 >complex             | compare 2 >pred comparison_direction compare_type
    select 3 ?0              | clamp 3 ?02
    uniform_quantize 1 >written    | uniform_dequantize 1 >written
    erf 1                 | copy 1 >any                | stochastic_convert 2 >written
    chlo.acos 1           | chlo.acosh 1          | chlo.asin 1      | chlo.asinh 1
    chlo.atan 1           | chlo.atanh 1          | chlo.bessel_i1e 1
    chlo.conj 1           | chlo.cosh 1           | chlo.digamma 1   | chlo.erf_inv 1
    chlo.erfc 1           | chlo.is_inf 1 >pred         | chlo.is_neg_inf 1 >pred
    chlo.is_pos_inf 1 >pred     | chlo.lgamma 1         | chlo.next_after 2
    chlo.polygamma 2      | chlo.sinh 1           | chlo.square 1    | chlo.zeta 2
    chlo.mulhi 2          | chlo.constant_like 1 value               | chlo._asin_acos_kernel 1
"""


def _subclass(name: str, base: type[_O], doc: str, fields: Mapping[str, object]) -> type[_O]:
    """A subclass that adds class variables only, so the base's generated methods serve it."""
    return type(name, (base,), {"__module__": __name__, "__doc__": doc, **fields})


def _class(name: str, arity: str, marks: list[str]) -> type[Elementwise]:
    camel = "".join(part.capitalize() for part in name.removeprefix("chlo.").split("_"))
    fields: dict[str, object] = {
        "arity": int(arity),
        "parameters": tuple(m for m in marks if m[0] not in ">?"),
    }
    for mark in marks:
        if mark[0] == ">":
            fields["result"] = mark[1:]
        elif mark[0] == "?":
            fields["may_be_scalar"] = tuple(map(int, mark[1:]))
    return op(name)(_subclass(camel, Elementwise, name, fields))


ELEMENTWISE: Final[dict[str, type[Elementwise]]] = {
    name: _class(name, arity, marks)
    for name, arity, *marks in (
        row.split() for row in _ROWS.replace("\n", "|").split("|") if row.strip()
    )
}
"""Every element-wise op class by name."""


class ImplicitBroadcast(Op):
    """Base of CHLO's `broadcast_*`: element-wise after broadcasting the smaller operand.

    Attributes:
        applies: Name of the element-wise op.
        broadcast_dimensions: Where the smaller operand's dimensions go; `None` aligns them at
            the end, as numpy does.
    """

    applies: ClassVar[str] = ""
    broadcast_dimensions: Dims | None = None
    settings: tuple[tuple[str, str], ...] = ()

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        applied = ELEMENTWISE[self.applies]
        count(self.name, operands, applied.arity)
        types = tensors(self.name, operands)
        rank = max(t.rank for t in types)
        dims: list[Extent] = [(1, None)] * rank
        for t in types:
            places: Sequence[int] = range(rank - t.rank, rank)
            if t.rank < rank and self.broadcast_dimensions is not None and len(types) == 2:
                places = self.broadcast_dimensions
            for d, mine in zip(places, extents(t), strict=True):
                require(
                    mine[0] == 1 or dims[d][0] == 1 or may_equal(mine, dims[d]),
                    "",
                    f"dimension {d} of `{self.name}`: sizes {mine[0]} and {dims[d][0]} do not meet",
                )
                if dims[d][0] == 1:
                    dims[d] = mine
                elif mine[0] != 1:
                    dims[d] = merged(mine, dims[d])
        elements = types[1:] if self.applies == "select" else types
        return array(_result_element(applied.result, common_element(self.name, elements)), dims)


def _broadcasting(name: str) -> type[ImplicitBroadcast]:
    short = name.removeprefix("chlo.")
    camel = "Broadcast" + "".join(part.capitalize() for part in short.split("_"))
    cls = _subclass(camel, ImplicitBroadcast, f"broadcast_{short}", {"applies": name})
    return op(f"chlo.broadcast_{short}")(cls)


IMPLICIT_BROADCAST: Final[dict[str, type[ImplicitBroadcast]]] = {
    name: _broadcasting(name)
    for name in """
        add and atan2 compare complex divide maximum minimum multiply chlo.next_after or
        chlo.polygamma power remainder select shift_left shift_right_arithmetic
        shift_right_logical subtract xor chlo.zeta
    """.split()
}
"""Every `chlo.broadcast_*` class by the name of the op it applies."""
