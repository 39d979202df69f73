"""Element-wise ops: `result[i] = f(operand0[i], operand1[i], …)`, one row each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, TypeVar

from hloscope.ops.base import Dims, Op, op

_O = TypeVar("_O", bound=Op)


@dataclass(frozen=True, slots=True)
class Elementwise(Op):
    """Base: every operand and the result have the same sizes.

    An operand may also be a scalar where the op allows it (`select`'s predicate, `clamp`'s
    bounds): it is then read by every result element.

    Attributes:
        arity: Number of operands.
        parameters: Names of the parameters, kept as `(name, text)` in `settings`.
    """

    arity: ClassVar[int] = 0
    parameters: ClassVar[tuple[str, ...]] = ()
    settings: tuple[tuple[str, str], ...] = ()


_ROWS: Final = """
    abs 1                 | negate 1              | sign 1           | not 1
    popcnt 1              | count_leading_zeros 1 | is_finite 1      | real 1
    imag 1                | floor 1               | ceil 1           | convert 1
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
    complex 2             | compare 2 comparison_direction compare_type
    select 3              | clamp 3
    uniform_quantize 1    | uniform_dequantize 1
    erf 1                 | copy 1                | stochastic_convert 2
    chlo.acos 1           | chlo.acosh 1          | chlo.asin 1      | chlo.asinh 1
    chlo.atan 1           | chlo.atanh 1          | chlo.bessel_i1e 1
    chlo.conj 1           | chlo.cosh 1           | chlo.digamma 1   | chlo.erf_inv 1
    chlo.erfc 1           | chlo.is_inf 1         | chlo.is_neg_inf 1
    chlo.is_pos_inf 1     | chlo.lgamma 1         | chlo.next_after 2
    chlo.polygamma 2      | chlo.sinh 1           | chlo.square 1    | chlo.zeta 2
    chlo.mulhi 2          | chlo.constant_like 1 value               | chlo._asin_acos_kernel 1
"""


def _subclass(name: str, base: type[_O], doc: str, fields: Mapping[str, object]) -> type[_O]:
    """A subclass that adds class variables only, so the base's generated methods serve it."""
    return type(name, (base,), {"__slots__": (), "__module__": __name__, "__doc__": doc, **fields})


def _class(name: str, arity: int, parameters: tuple[str, ...]) -> type[Elementwise]:
    camel = "".join(part.capitalize() for part in name.removeprefix("chlo.").split("_"))
    fields = {"arity": arity, "parameters": parameters}
    return op(name)(_subclass(camel, Elementwise, name, fields))


ELEMENTWISE: Final[dict[str, type[Elementwise]]] = {
    name: _class(name, int(arity), tuple(parameters))
    for name, arity, *parameters in (
        row.split() for row in _ROWS.replace("\n", "|").split("|") if row.strip()
    )
}
"""Every element-wise op class by name."""


@dataclass(frozen=True, slots=True)
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
