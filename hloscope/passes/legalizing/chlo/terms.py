"""A language for expansions: Python's operators make StableHLO ops, in the order Python evaluates.

A `Term` is a value of the program.  A number beside one becomes a constant of its element type
and sizes: sizes that are known only at run time are those of `like`, the operand an expression
goes back to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from hloscope.ir import ELEMENT_TYPES, FORMATS, ElementType, TensorType, encode
from hloscope.mlir import DenseAttr, EnumAttr, Operation, Value
from hloscope.passes.legalizing.chlo.constants import like_constant
from hloscope.passes.rewriting import Rewriter

if TYPE_CHECKING:
    from collections.abc import Sequence

Number: TypeAlias = float | int

_PRED: Final = ELEMENT_TYPES["pred"]
_PARTS: Final = {"c64": ELEMENT_TYPES["f32"], "c128": ELEMENT_TYPES["f64"]}
_COMPLEX: Final = {"f32": ELEMENT_TYPES["c64"], "f64": ELEMENT_TYPES["c128"]}


def literal(value: Number, element: ElementType, bits: int | None = None) -> DenseAttr:
    """One number as the literal of a constant without dimensions.

    Args:
        value: The number.
        element: Its type; the imaginary part of a complex one is 0.
        bits: Those of a float, instead of the number.
    """
    type = TensorType(element, ())
    if element.name in _PARTS:
        part = _PARTS[element.name]
        size = part.bits // 8
        raw = encode(value, part.name).to_bytes(size, "little") + bytes(size)
        return DenseAttr(raw, type)
    size = (element.bits + 7) // 8
    if bits is None:
        is_float = element.name in FORMATS
        bits = encode(value, element.name) if is_float else int(value) % (1 << element.bits)
    return DenseAttr(bits.to_bytes(size, "little"), type)


class Site(NamedTuple):
    """Where ops of an expansion go, and how constants of unknown sizes are made there."""

    rewriter: Rewriter
    before: Operation
    constant: Callable[[Rewriter, DenseAttr, Value, Operation], Value] = like_constant


class Term:
    """A value while an expansion is written.

    Args:
        value: Of the program.
        site: Where ops go.
        like: Whose sizes constants beside it take; itself by default.
    """

    __slots__ = ("like", "site", "value")

    def __init__(self, value: Value, site: Site, like: Value | None = None) -> None:
        self.value: Final = value
        self.site: Final = site
        self.like: Final = value if like is None else like

    @property
    def own(self) -> Term:
        """The same value, beside which constants have its own sizes."""
        return Term(self.value, self.site)

    @property
    def type(self) -> TensorType:
        """The type of the value."""
        assert isinstance(self.value.type, TensorType)
        return self.value.type

    @property
    def element(self) -> ElementType:
        """The type of one element."""
        return self.type.element

    # ------------------------------------------------------------------------------------ constants

    def constant(self, value: Number) -> Term:
        """A constant with the sizes and the element type of this very value."""
        assert isinstance(self.value.type, TensorType)
        return self._constant(literal(value, self.element), self.value)

    def number(self, value: Number) -> Term:
        """A constant like the operand this goes back to."""
        type = self.like.type
        assert isinstance(type, TensorType)
        return self._constant(literal(value, type.element), self.like)

    def limit(self, name: str) -> Term:
        """`largest`, `normal` (the smallest that is), `smallest`, `inf`, `-inf` or `nan`."""
        bits = _limit_bits(name, self.element)
        return self._constant(literal(0, self.element, bits), self.value)

    def _constant(self, value: DenseAttr, like: Value) -> Term:
        made = self.site.constant(self.site.rewriter, value, like, self.site.before)
        return Term(made, self.site, like)

    # ----------------------------------------------------------------------------------- operations

    def make(
        self,
        name: str,
        *others: Term,
        element: ElementType | None = None,
        type: TensorType | None = None,
        properties: dict[str, EnumAttr] | None = None,
    ) -> Term:
        """An elementwise op of this and others; the result is of this type unless told."""
        own = self.type if type is None else type
        if element is not None:
            own = TensorType(element, own.sizes, None, own.bounds, own.encoding)
        operands = (self.value, *[other.value for other in others])
        made = self.site.rewriter.create(
            f"stablehlo.{name}", operands, properties or {}, before=self.site.before, types=(own,)
        )
        return Term(made.result, self.site, self.like)

    def _other(self, other: Term | Number) -> Term:
        return other if isinstance(other, Term) else self.number(other)

    def _binary(self, name: str, other: Term | Number) -> Term:
        return self.make(name, self._other(other))

    def _compare(self, direction: str, other: Term | Number) -> Term:
        properties = {
            "comparison_direction": EnumAttr("stablehlo", "comparison_direction", direction)
        }
        return self.make("compare", self._other(other), element=_PRED, properties=properties)

    def __add__(self, other: Term | Number) -> Term:
        return self._binary("add", other)

    def __radd__(self, other: Number) -> Term:
        return self.number(other) + self

    def __sub__(self, other: Term | Number) -> Term:
        return self._binary("subtract", other)

    def __rsub__(self, other: Number) -> Term:
        return self.number(other) - self

    def __mul__(self, other: Term | Number) -> Term:
        return self._binary("multiply", other)

    def __rmul__(self, other: Number) -> Term:
        return self.number(other) * self

    def __truediv__(self, other: Term | Number) -> Term:
        return self._binary("divide", other)

    def __rtruediv__(self, other: Number) -> Term:
        return self.number(other) / self

    def __mod__(self, other: Term | Number) -> Term:
        return self._binary("remainder", other)

    def __pow__(self, other: Term | Number) -> Term:
        return self._binary("power", other)

    def __and__(self, other: Term | Number) -> Term:
        return self._binary("and", other)

    def __or__(self, other: Term) -> Term:
        return self._binary("or", other)

    def __neg__(self) -> Term:
        return self.make("negate")

    def __invert__(self) -> Term:
        return self.make("not")

    def __abs__(self) -> Term:
        return self.make("abs")

    def __lt__(self, other: Term | Number) -> Term:
        return self._compare("LT", other)

    def __le__(self, other: Term | Number) -> Term:
        return self._compare("LE", other)

    def __gt__(self, other: Term | Number) -> Term:
        return self._compare("GT", other)

    def __ge__(self, other: Term | Number) -> Term:
        return self._compare("GE", other)

    def eq(self, other: Term | Number) -> Term:
        """Are elements equal?"""
        return self._compare("EQ", other)

    def ne(self, other: Term | Number) -> Term:
        """Do elements differ?"""
        return self._compare("NE", other)

    def convert(self, element: ElementType) -> Term:
        """Elements of another type; their sizes are this one's own from here on."""
        made = self.make("convert", element=element)
        return made.own

    def bits(self, element: ElementType) -> Term:
        """The same bits as elements of another type."""
        made = self.make("bitcast_convert", element=element)
        return made.own


def _limit_bits(name: str, element: ElementType) -> int:
    """The bits of a number that is special in its format."""
    if name in ("inf", "-inf", "nan"):
        return encode(float(name), element.name)
    format = FORMATS[element.name]
    if name == "largest":
        # All bits below the sign are the largest number, but for NaNs and infinities on top.
        positive = (1 << (format.exponent + format.mantissa)) - 1
        infinity = ((1 << format.exponent) - 1) << format.mantissa
        top = {"ieee": infinity - 1, "fn": positive - 1, "scale": positive - 1}
        return top.get(format.special, positive)
    return {"smallest": 1, "normal": 1 << format.mantissa}[name]


# --------------------------------------------------------------------------------------- functions


def sqrt(x: Term) -> Term:
    """`stablehlo.sqrt`."""
    return x.make("sqrt")


def log(x: Term) -> Term:
    """`stablehlo.log`."""
    return x.make("log")


def log1p(x: Term) -> Term:
    """`stablehlo.log_plus_one`."""
    return x.make("log_plus_one")


def exp(x: Term) -> Term:
    """`stablehlo.exponential`."""
    return x.make("exponential")


def expm1(x: Term) -> Term:
    """`stablehlo.exponential_minus_one`."""
    return x.make("exponential_minus_one")


def sine(x: Term) -> Term:
    """`stablehlo.sine`."""
    return x.make("sine")


def cosine(x: Term) -> Term:
    """`stablehlo.cosine`."""
    return x.make("cosine")


def atan2(y: Term, x: Term) -> Term:
    """`stablehlo.atan2`."""
    return y.make("atan2", x)


def sign(x: Term) -> Term:
    """`stablehlo.sign`."""
    return x.make("sign")


def floor(x: Term) -> Term:
    """`stablehlo.floor`."""
    return x.make("floor")


def maximum(x: Term, y: Term) -> Term:
    """`stablehlo.maximum`."""
    return x.make("maximum", y)


def minimum(x: Term, y: Term) -> Term:
    """`stablehlo.minimum`."""
    return x.make("minimum", y)


def is_finite(x: Term) -> Term:
    """`stablehlo.is_finite`."""
    return x.make("is_finite", element=_PRED)


def clamp(low: Term, x: Term, high: Term) -> Term:
    """`stablehlo.clamp`."""
    made = low.make("clamp", x, high, type=x.type)
    return made.own


def select(pred: Term, yes: Term, no: Term) -> Term:
    """`stablehlo.select`; goes back to what `yes` goes back to."""
    made = pred.make("select", yes, no, type=yes.type)
    return Term(made.value, pred.site, yes.like)


def real(z: Term) -> Term:
    """The real part; constants beside it have its own sizes."""
    return z.make("real", element=_PARTS[z.element.name]).own


def imag(z: Term) -> Term:
    """The imaginary part; constants beside it have its own sizes."""
    return z.make("imag", element=_PARTS[z.element.name]).own


def complex_(x: Term, y: Term) -> Term:
    """`x + iy`."""
    made = x.make("complex", y, element=_COMPLEX[x.element.name])
    return made.own


def polynomial(x: Term, coefficients: Sequence[float]) -> Term:
    """By Horner's rule, the highest power first; constants have the sizes of `x` itself."""
    total = x.constant(coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x
        total = total + x.constant(coefficient)
    return total


def chebyshev(x: Term, coefficients: Sequence[float]) -> Term:
    """A Chebyshev series by Clenshaw's recurrence, the highest first, as Cephes has it."""
    newest, middle, oldest = x.constant(0.0), x.constant(0.0), x.constant(0.0)
    for coefficient in coefficients:
        oldest, middle = middle, newest
        newest = x * middle - oldest + x.constant(coefficient)
    return (newest - oldest) * x.constant(0.5)
