"""Terms: values whose Python operators create StableHLO ops, in the order of evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from hloscope.errors import VerifyError
from hloscope.ir import ELEMENT_TYPES, FORMATS, ElementType, TensorType, encode
from hloscope.mlir import (
    BoolAttr,
    DenseAttr,
    EnumAttr,
    FloatAttr,
    IntegerAttr,
    Operation,
    Value,
    VerbatimAttr,
    elements,
)
from hloscope.passes.conversion import InsertionPoint, i64
from hloscope.passes.patterns import Pattern, Patterns
from hloscope.passes.rewriting import Rewriter

# --------------------------------------------------------------------------------------------------
# `chlo.constant_like` and `chlo.constant`: constants in the shape of another tensor.
#
# Source: StableHLO `ChloLegalizeToStablehlo.cpp`.


CONSTANTS_PATTERNS: Final = Patterns()


def like_constant(at: InsertionPoint, value: DenseAttr, like: Value) -> Value:
    """Create a constant of equal elements in the shape of another value.

    Args:
        at: Where ops are created.
        value: The number, as a literal of rank 0.
        like: Value with the shape.
    """
    shape, scalar = like.type, value.type
    assert isinstance(shape, TensorType)
    assert isinstance(scalar, TensorType)
    type = TensorType(scalar.element, shape.sizes, None, shape.bounds, shape.encoding)
    # Known sizes need one constant; bounded ones keep their bounds by `set_dimension_size`; others
    # are broadcast to the sizes at run time.
    if shape.is_static:
        return at.literal(DenseAttr(value.literal, type))
    number = at.literal(value)
    return (
        _bounded(at, number, like, type)
        if shape.is_bounded
        else at.broadcast(number, (), type, like)
    )


def _bounded(at: InsertionPoint, number: Value, like: Value, type: TensorType) -> Value:
    """Return a number broadcast to the bounds of a bounded type.

    The sizes of the result at run time are set to those of `like`.
    """
    wide = TensorType(type.element, type.shape)
    made = at.broadcast(number, (), wide, like)
    sizes: list[int | None] = list(wide.sizes)
    bounds: list[int | None] = [None] * wide.rank
    # Bounded sizes are set one by one: the broadcast has the bounds as sizes.
    for k, size in enumerate(type.sizes):
        if size is None:
            sizes[k], bounds[k] = None, type.bounds[k]
            made = at.make(
                "stablehlo.set_dimension_size",
                TensorType(type.element, tuple(sizes), None, tuple(bounds)),
                made,
                at.size(like, k),
                dimension=i64(k),
            )
    return made


def _number(op: Operation, element: ElementType) -> DenseAttr | None:
    """Return an op's attribute `value` as a literal of rank 0.

    `None` if `element` cannot hold it.
    """
    type, size = TensorType(element, ()), (element.bits + 7) // 8
    match op.get("value"):
        case FloatAttr(bits, given) if given == element and element.name in FORMATS:
            return DenseAttr(bits.to_bytes(size, "little"), type)
        case BoolAttr(value) if element.kind == "pred":
            return DenseAttr(bytes([value]), type)
        case IntegerAttr(value, given) if given == element:
            bits = value % (1 << element.bits)
            return DenseAttr(bits.to_bytes(size, "little"), type)
        case VerbatimAttr(text) if element.kind == "complex" and text.startswith("#complex.number"):
            inside = text.partition("<")[2].partition(">")[0].partition(" ")[2]
            try:
                return DenseAttr(elements(DenseAttr(f"({inside})", type)).raw, type)
            except VerifyError:
                return None
        case _:
            return None


@CONSTANTS_PATTERNS.on("chlo.constant_like")
def constant_like(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `chlo.constant_like` by a constant; it is broadcast at run time for dynamic sizes."""
    like, result = op.operands[0], op.result.type
    if not isinstance(like.type, TensorType) or not isinstance(result, TensorType):
        return False
    value = _number(op, result.element)
    if value is None:
        return False
    rewriter.replace(op, [like_constant(InsertionPoint(rewriter, op), value, like)])
    return True


@CONSTANTS_PATTERNS.on("chlo.constant")
def constant(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `chlo.constant` by a constant of StableHLO."""
    value, type = op.get("value"), op.result.type
    if not isinstance(value, DenseAttr) or not isinstance(type, TensorType):
        return False
    rewriter.replace(op, [rewriter.constant(value, type, before=op)])
    return True


# --------------------------------------------------------------------------------------------------
# Terms for expansions: Python's operators create StableHLO ops in evaluation order.
#
# A `Term` is a value of the program.  A number in an expression becomes a constant of the term's
# element type and sizes.  Unknown sizes are those of `like`, the operand at the start of the
# expression.


Number: TypeAlias = float | int

_PRED: Final = ELEMENT_TYPES["pred"]
_PARTS: Final = {"c64": ELEMENT_TYPES["f32"], "c128": ELEMENT_TYPES["f64"]}
_COMPLEX: Final = {"f32": ELEMENT_TYPES["c64"], "f64": ELEMENT_TYPES["c128"]}


def literal(value: Number, element: ElementType, bits: int | None = None) -> DenseAttr:
    """Return a number as a literal of rank 0.

    Args:
        value: The number.
        element: Element type; the imaginary part of a complex number is 0.
        bits: Bit pattern of the float; if given, it is used in place of `value`.
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
    """Insertion point of an expansion's ops, and the function that creates its constants."""

    at: InsertionPoint
    constant: Callable[[InsertionPoint, DenseAttr, Value], Value] = like_constant


def _unary(name: str) -> Callable[[Term], Term]:
    """Return a function that creates the op `stablehlo.<name>` of a term."""
    return lambda x: x.make(name)


def _binary(name: str) -> Callable[[Term, Term | Number], Term]:
    """Return a function that creates the op `stablehlo.<name>` of a term and a term or number."""
    return lambda x, y: x.make(name, x._other(y))


def _reflected(name: str) -> Callable[[Term, Number], Term]:
    """Return a function of `y` and a number `x` that creates `stablehlo.<name>(x, y)`."""
    return lambda y, x: y.number(x).make(name, y)


def _comparison(direction: str) -> Callable[[Term, Term | Number], Term]:
    return lambda x, y: x.compare(direction, y)


class Term:
    """A value, with Python operators that create StableHLO ops of it.

    Args:
        value: The value in the program.
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
        """This term, but constants created from it take its own sizes, not those of `like`."""
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
        """Create a constant with the sizes of `like`, and the element type of this term's value."""
        type = self.like.type
        assert isinstance(type, TensorType)
        return self._constant(literal(value, type.element), self.like)

    def limit(self, name: str) -> Term:
        """Create a constant that is a limit of the float type.

        The names are `largest`, `normal` (least normal number), `smallest`, `inf`, `-inf` and
        `nan`.
        """
        bits = _limit_bits(name, self.element)
        return self._constant(literal(0, self.element, bits), self.value)

    def _constant(self, value: DenseAttr, like: Value) -> Term:
        return Term(self.site.constant(self.site.at, value, like), self.site, like)

    # ----------------------------------------------------------------------------------- operations

    def make(
        self,
        name: str,
        *others: Term,
        element: ElementType | None = None,
        type: TensorType | None = None,
        properties: dict[str, EnumAttr] | None = None,
    ) -> Term:
        """Create the elementwise op `name` of this term and others.

        The result has the type of this term, or `type`, or `element` with the sizes of this term.
        `properties` are the attributes of the op.
        """
        own = self.type if type is None else type
        if element is not None:
            own = TensorType(element, own.sizes, None, own.bounds, own.encoding)
        operands = [other.value for other in (self, *others)]
        made = self.site.at.make(f"stablehlo.{name}", own, *operands, **(properties or {}))
        return Term(made, self.site, self.like)

    def compare(self, direction: str, other: Term | Number) -> Term:
        """Create a `compare` op with `direction`, such as `LT`; its elements have type `pred`."""
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
        """Return the term converted to another element type.

        Its constants have the result's sizes.
        """
        return self.make("convert", element=element).own

    def bits(self, element: ElementType) -> Term:
        """Return the term with its bits reinterpreted as another element type."""
        return self.make("bitcast_convert", element=element).own


def _limit_bits(name: str, element: ElementType) -> int:
    """Return the bit pattern of a limit of a float format; the names are those of `Term.limit`."""
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
    return low.make("clamp", x, high, type=x.type).own


def select(pred: Term, yes: Term, no: Term) -> Term:
    """Create a `stablehlo.select`: `yes` where `pred` is true, else `no`.

    Constants made from the result have the sizes of those of `yes`.
    """
    made = pred.make("select", yes, no, type=yes.type)
    return Term(made.value, pred.site, yes.like)


def real(z: Term) -> Term:
    """Create the real part of a complex term; constants have its own sizes."""
    return z.make("real", element=_PARTS[z.element.name]).own


def imag(z: Term) -> Term:
    """Create the imaginary part of a complex term; constants have its own sizes."""
    return z.make("imag", element=_PARTS[z.element.name]).own


def complex_(x: Term, y: Term) -> Term:
    """Create the complex term `x + iy`."""
    return x.make("complex", y, element=_COMPLEX[x.element.name]).own


def polynomial(x: Term, coefficients: Sequence[float]) -> Term:
    """Create a polynomial in `x` by Horner's rule.

    The coefficient of the highest power is first.
    """
    total = x.constant(coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x
        total = total + x.constant(coefficient)
    return total


def chebyshev(x: Term, coefficients: Sequence[float]) -> Term:
    """Create a Chebyshev series by Clenshaw's recurrence, as in Cephes.

    The coefficient of the highest term is first.
    """
    newest, middle, oldest = x.constant(0.0), x.constant(0.0), x.constant(0.0)
    for coefficient in coefficients:
        oldest, middle = middle, newest
        newest = x * middle - oldest + x.constant(coefficient)
    return (newest - oldest) * x.constant(0.5)


# --------------------------------------------------------------------------------------------------
# Table rows of expansions: the function for a CHLO op, by element type.


ANY: Final = "any"
HALF: Final = "half"

_F32: Final = ELEMENT_TYPES["f32"]


class Expansion(NamedTuple):
    """The expansion of one CHLO op into StableHLO.

    Attributes:
        name: Op name without the dialect.
        real: Function for floats.
        complex: Function for complex numbers, if there is one.
        double: Function for `f64`, if it differs from `real`.
        in_f32: `any`: floats below 32 bits are computed in `f32`.  `half`: 16-bit floats are, and
            narrower ones are refused.  Empty: each float is computed in its own type.
    """

    name: str
    real: Callable[..., Term] | None
    complex: Callable[..., Term] | None = None
    double: Callable[..., Term] | None = None
    in_f32: str = ""

    def rewrite(self, rewriter: Rewriter, op: Operation) -> bool:
        """Replace the op by its expansion; false if there is none for its element type."""
        types = [value.type for value in op.operands]
        first = types[0]
        if not isinstance(first, TensorType) or any(type != first for type in types):
            return False
        site = Site(InsertionPoint(rewriter, op))
        terms = [Term(value, site) for value in op.operands]
        element = first.element
        found: Callable[..., Term] | None = self.complex if element.kind == "complex" else self.real
        narrow = element.kind == "float" and element.bits < 32
        if element.name == "f64" and self.double is not None:
            found = self.double
        if found is None or element.kind not in ("float", "complex"):
            return False
        if narrow and self.in_f32 == HALF and element.name not in ("f16", "bf16"):
            return False
        if narrow and self.in_f32:
            made = found(*[term.convert(_F32) for term in terms]).convert(element)
        else:
            made = found(*terms)
        rewriter.replace(op, [made.value])
        return True


def rows(*tables: Iterable[Expansion]) -> list[Pattern]:
    """Return the rewrite patterns of the expansions in all `tables`, in order."""
    return [
        Pattern(row.name, (f"chlo.{row.name}",), row.rewrite) for table in tables for row in table
    ]
