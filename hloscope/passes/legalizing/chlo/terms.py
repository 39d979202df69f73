"""Terms for expansions: Python's operators create StableHLO ops in evaluation order.

A `Term` is a value of the program.  A number in an expression becomes a constant of the term's
element type and sizes.  Unknown sizes are those of `like`, the operand at the start of the
expression.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from hloscope.ir import ELEMENT_TYPES, FORMATS, ElementType, TensorType, encode
from hloscope.mlir import DenseAttr, EnumAttr, Operation, Value
from hloscope.passes.legalizing.chlo.constants import like_constant
from hloscope.passes.rewriting import Rewriter

Number: TypeAlias = float | int

_PRED: Final = ELEMENT_TYPES["pred"]
_PARTS: Final = {"c64": ELEMENT_TYPES["f32"], "c128": ELEMENT_TYPES["f64"]}
_COMPLEX: Final = {"f32": ELEMENT_TYPES["c64"], "f64": ELEMENT_TYPES["c128"]}


def literal(value: Number, element: ElementType, bits: int | None = None) -> DenseAttr:
    """Return a number as a literal of rank 0.

    Args:
        value: The number.
        element: Element type; the imaginary part of a complex number is 0.
        bits: Bits of the float, in place of the number.
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
    """Insertion point of an expansion, and the constructor of its constants."""

    rewriter: Rewriter
    before: Operation
    constant: Callable[[Rewriter, DenseAttr, Value, Operation], Value] = like_constant


def _unary(name: str) -> Callable[[Term], Term]:
    """Return the function that creates `stablehlo.<name>` of a term."""
    return lambda x: x.make(name)


def _binary(name: str) -> Callable[[Term, Term | Number], Term]:
    """Return the function that creates `stablehlo.<name>` of a term and a term or number."""
    return lambda x, y: x.make(name, x._other(y))


def _reflected(name: str) -> Callable[[Term, Number], Term]:
    """Return the function of `y` and a number `x` that creates `stablehlo.<name>` of `x, y`."""
    return lambda y, x: y.number(x).make(name, y)


def _comparison(direction: str) -> Callable[[Term, Term | Number], Term]:
    return lambda x, y: x.compare(direction, y)


class Term:
    """A value in an expansion.

    Args:
        value: The value of the program.
        site: Insertion point of ops.
        like: Value whose sizes constants take; the value itself by default.
    """

    __slots__ = ("like", "site", "value")

    def __init__(self, value: Value, site: Site, like: Value | None = None) -> None:
        self.value: Final = value
        self.site: Final = site
        self.like: Final = value if like is None else like

    @property
    def own(self) -> Term:
        """The term with constants of its own sizes."""
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
        """Create a constant with the sizes and element type of this value."""
        assert isinstance(self.value.type, TensorType)
        return self._constant(literal(value, self.element), self.value)

    def number(self, value: Number) -> Term:
        """Create a constant with the sizes and element type of `like`."""
        type = self.like.type
        assert isinstance(type, TensorType)
        return self._constant(literal(value, type.element), self.like)

    def limit(self, name: str) -> Term:
        """Create a limit: `largest`, `normal` (least normal), `smallest`, `inf`, `-inf`, `nan`."""
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
        """Create an elementwise op of this term and others, of this type unless specified."""
        own = self.type if type is None else type
        if element is not None:
            own = TensorType(element, own.sizes, None, own.bounds, own.encoding)
        operands = (self.value, *[other.value for other in others])
        made = self.site.rewriter.create(
            f"stablehlo.{name}", operands, properties or {}, before=self.site.before, types=(own,)
        )
        return Term(made.result, self.site, self.like)

    def compare(self, direction: str, other: Term | Number) -> Term:
        """Create a comparison, with elements of type `pred`."""
        properties = {
            "comparison_direction": EnumAttr("stablehlo", "comparison_direction", direction)
        }
        return self.make("compare", self._other(other), element=_PRED, properties=properties)

    def _other(self, other: Term | Number) -> Term:
        return other if isinstance(other, Term) else self.number(other)

    __add__, __radd__ = _binary("add"), _reflected("add")
    __sub__, __rsub__ = _binary("subtract"), _reflected("subtract")
    __mul__, __rmul__ = _binary("multiply"), _reflected("multiply")
    __truediv__, __rtruediv__ = _binary("divide"), _reflected("divide")
    __mod__ = _binary("remainder")
    __pow__ = _binary("power")
    __and__ = _binary("and")
    __or__ = _binary("or")
    __neg__ = _unary("negate")
    __invert__ = _unary("not")
    __abs__ = _unary("abs")
    __lt__ = _comparison("LT")
    __le__ = _comparison("LE")
    __gt__ = _comparison("GT")
    __ge__ = _comparison("GE")
    eq = _comparison("EQ")
    ne = _comparison("NE")

    def convert(self, element: ElementType) -> Term:
        """Convert the elements; constants then take the result's sizes."""
        made = self.make("convert", element=element)
        return made.own

    def bits(self, element: ElementType) -> Term:
        """Reinterpret the bits as another element type."""
        made = self.make("bitcast_convert", element=element)
        return made.own


def _limit_bits(name: str, element: ElementType) -> int:
    """Return the bits of a limit of a float format."""
    if name in ("inf", "-inf", "nan"):
        return encode(float(name), element.name)
    format = FORMATS[element.name]
    if name == "largest":
        # All bits below the sign give the largest number, except for NaNs and infinities above it.
        positive = (1 << (format.exponent + format.mantissa)) - 1
        infinity = ((1 << format.exponent) - 1) << format.mantissa
        top = {"ieee": infinity - 1, "fn": positive - 1, "scale": positive - 1}
        return top.get(format.special, positive)
    return {"smallest": 1, "normal": 1 << format.mantissa}[name]


# --------------------------------------------------------------------------------------- functions

sqrt: Final = _unary("sqrt")
log: Final = _unary("log")
log1p: Final = _unary("log_plus_one")
exp: Final = _unary("exponential")
expm1: Final = _unary("exponential_minus_one")
sine: Final = _unary("sine")
cosine: Final = _unary("cosine")
sign: Final = _unary("sign")
floor: Final = _unary("floor")
atan2: Final = _binary("atan2")
maximum: Final = _binary("maximum")
minimum: Final = _binary("minimum")


def is_finite(x: Term) -> Term:
    """Create a `stablehlo.is_finite`."""
    return x.make("is_finite", element=_PRED)


def clamp(low: Term, x: Term, high: Term) -> Term:
    """Create a `stablehlo.clamp`."""
    made = low.make("clamp", x, high, type=x.type)
    return made.own


def select(pred: Term, yes: Term, no: Term) -> Term:
    """Create a `stablehlo.select`; constants take the sizes of `yes`' `like`."""
    made = pred.make("select", yes, no, type=yes.type)
    return Term(made.value, pred.site, yes.like)


def real(z: Term) -> Term:
    """Create the real part; constants take its own sizes."""
    return z.make("real", element=_PARTS[z.element.name]).own


def imag(z: Term) -> Term:
    """Create the imaginary part; constants take its own sizes."""
    return z.make("imag", element=_PARTS[z.element.name]).own


def complex_(x: Term, y: Term) -> Term:
    """Create `x + iy`."""
    made = x.make("complex", y, element=_COMPLEX[x.element.name])
    return made.own


def polynomial(x: Term, coefficients: Sequence[float]) -> Term:
    """Create a polynomial by Horner's rule; coefficients from the highest power."""
    total = x.constant(coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x
        total = total + x.constant(coefficient)
    return total


def chebyshev(x: Term, coefficients: Sequence[float]) -> Term:
    """Create a Chebyshev series by Clenshaw's recurrence, as Cephes; highest term first."""
    newest, middle, oldest = x.constant(0.0), x.constant(0.0), x.constant(0.0)
    for coefficient in coefficients:
        oldest, middle = middle, newest
        newest = x * middle - oldest + x.constant(coefficient)
    return (newest - oldest) * x.constant(0.5)
