"""Types of values.  All compare by value and are immutable.

Element types have HLO's names (`f32`, `pred`, `s4`, `f8e4m3fn`); `mlir.types` has MLIR's.
"""

from __future__ import annotations

from math import prod
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import force_setattr

from hloscope.errors import UnsupportedError
from hloscope.support.limits import Nested

Dims: TypeAlias = tuple[int, ...]


class ElementType(Struct, frozen=True):
    """Type of one element: its HLO name, width in bits, kind and numpy (or ml_dtypes) name.

    In MLIR, values outside of tensors have such a type (`i32`, `index`).
    """

    name: str
    bits: int
    kind: str  # pred | signed | unsigned | float | complex | quantized | token | opaque | tuple
    numpy: str = ""

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"ElementType({self.name!r})"

    @property
    def integer_limits(self) -> tuple[int, int] | None:
        """The least and the greatest value of an integer or boolean type; `None` for other types.

        >>> ELEMENT_TYPES["s8"].integer_limits, ELEMENT_TYPES["pred"].integer_limits
        ((-128, 127), (0, 1))
        """
        match self.kind:
            case "pred":
                return 0, 1
            case "signed":
                return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
            case "unsigned":
                return 0, (1 << self.bits) - 1
            case _:
                return None


class QuantizedType(ElementType, frozen=True, kw_only=True):
    """Integers that represent real numbers, `(integer - zero_point) * scale`.

    `name` is MLIR's text of the type, `bits` the width of the storage type.

    Attributes:
        storage: Type of the integers.
        expressed: Type of the real numbers.
        scales: One scale for the tensor, one for each slice along `axes[0]`, or one for each block
            in row-major order.
        zero_points: The zero point for each scale.
        storage_min: Smallest integer in use.
        storage_max: Largest integer in use.
        axes: Dimensions along which scales differ; empty if there is one scale.
        blocks: Size of a block along each axis; empty unless quantized by blocks (sub-channels).
        blocks_shape: Number of blocks along each dimension; empty unless quantized by blocks.
        by_blocks: Is it quantized by blocks, even if there is only one?
    """

    storage: ElementType
    expressed: ElementType
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    storage_min: int
    storage_max: int
    axes: tuple[int, ...] = ()
    blocks: tuple[int, ...] = ()
    blocks_shape: tuple[int, ...] = ()
    by_blocks: bool = False

    @property
    def is_per_tensor(self) -> bool:
        """Is there one scale for the whole tensor?"""
        return not self.axes and not self.by_blocks

    @property
    def is_per_axis(self) -> bool:
        """Is there one scale for each slice along an axis?"""
        return bool(self.axes) and not self.by_blocks

    @property
    def axis(self) -> int | None:
        """The quantized dimension; `None` if there is one scale for the whole tensor."""
        return self.axes[0] if self.axes else None


_ELEMENT_ROWS: Final = """
    pred        8   pred      bool
    s1          1   signed    int1
    s2          2   signed    int2
    s4          4   signed    int4
    s8          8   signed    int8
    s16         16  signed    int16
    s32         32  signed    int32
    s64         64  signed    int64
    u1          1   unsigned  uint1
    u2          2   unsigned  uint2
    u4          4   unsigned  uint4
    u8          8   unsigned  uint8
    u16         16  unsigned  uint16
    u32         32  unsigned  uint32
    u64         64  unsigned  uint64
    f4e2m1fn    4   float     float4_e2m1fn
    f6e2m3fn    6   float     float6_e2m3fn
    f6e3m2fn    6   float     float6_e3m2fn
    f8e3m4      8   float     float8_e3m4
    f8e4m3      8   float     float8_e4m3
    f8e4m3b11fnuz 8 float     float8_e4m3b11fnuz
    f8e4m3fn    8   float     float8_e4m3fn
    f8e4m3fnuz  8   float     float8_e4m3fnuz
    f8e5m2      8   float     float8_e5m2
    f8e5m2fnuz  8   float     float8_e5m2fnuz
    f8e8m0fnu   8   float     float8_e8m0fnu
    bf16        16  float     bfloat16
    f16         16  float     float16
    f32         32  float     float32
    f64         64  float     float64
    c64         64  complex   complex64
    c128        128 complex   complex128
"""

ELEMENT_TYPES: Final[dict[str, ElementType]] = {
    name: ElementType(name, int(bits), kind, numpy)
    for name, bits, kind, numpy in (row.split() for row in _ELEMENT_ROWS.strip().splitlines())
}
"""Element types of HLO and StableHLO by HLO name."""


class Layout(Struct, frozen=True):
    """Physical order of an array: `minor_to_major[0]` is the fastest-varying dimension.

    Attributes:
        minor_to_major: Logical dimensions from the fastest to the slowest varying.
        tiles: Tile sizes in elements, outermost tiling first (`T(8,128)(2,1)`).
        memory_space: `S(n)`; 0 is the default space.
        element_bits: `E(n)`; 0 means the natural width of the element type.
        extras: Other parts as written (`D(..)`, `L(..)`, `P(..)`, `SC(..)`), in text order.
    """

    minor_to_major: Dims
    tiles: tuple[Dims, ...] = ()
    memory_space: int = 0
    element_bits: int = 0
    extras: tuple[str, ...] = ()

    @property
    def major_to_minor(self) -> Dims:
        """Logical dimensions from the slowest to the fastest varying."""
        return self.minor_to_major[::-1]

    @property
    def is_row_major(self) -> bool:
        """Do dimensions vary faster from the first to the last?"""
        return self.minor_to_major == tuple(range(len(self.minor_to_major) - 1, -1, -1))


class TensorType(Struct, frozen=True):
    """An array type.

    A size is `None` if it is known at run time only (HLO `<=8` and `?`, StableHLO `?`); `bounds`
    then has its upper bound, or `None` if it has none.  `bounds` is empty if no dimension is
    dynamic.  `encoding` is an MLIR attribute other than bounds, as written.

    >>> TensorType(ELEMENT_TYPES["f32"], (2, None, None), Layout((2, 1, 0)), bounds=(None, 8, None))
    TensorType('f32[2,<=8,?]{2,1,0}')
    """

    element: ElementType
    sizes: tuple[int | None, ...]
    layout: Layout | None = None
    bounds: tuple[int | None, ...] = ()
    encoding: str = ""

    def __str__(self) -> str:
        sizes = [
            "?" if size is None and bound is None else f"<={bound}" if size is None else str(size)
            for size, bound in zip(self.sizes, self.each_bound, strict=True)
        ]
        return f"{self.element}[{','.join(sizes)}]"

    def __repr__(self) -> str:
        text, rest = str(self), ""
        if self.layout is not None and self.layout == Layout(self.layout.minor_to_major):
            text += f"{{{','.join(map(str, self.layout.minor_to_major))}}}"
        elif self.layout is not None:
            rest += f", {self.layout}"
        rest += f", encoding={self.encoding!r}" if self.encoding else ""
        return f"TensorType({text!r}{rest})"

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.sizes)

    @property
    def is_tiled(self) -> bool:
        """Does the layout have tiles?"""
        return self.layout is not None and bool(self.layout.tiles)

    @property
    def is_static(self) -> bool:
        """Are all sizes known?"""
        return None not in self.sizes

    @property
    def shape(self) -> Dims:
        """The sizes in elements; a dynamic size counts as its bound.

        Raises:
            UnsupportedError: A dimension has neither size nor bound.
        """
        shape = self.most
        if None in shape:
            raise UnsupportedError(f"dimension {shape.index(None)} has no bound")
        return shape  # type: ignore[return-value]

    @property
    def most(self) -> tuple[int | None, ...]:
        """The sizes in elements.

        A dynamic size is replaced by its bound, or `None` if it has no bound.
        """
        if None not in self.sizes:
            return self.sizes
        pairs = zip(self.sizes, self.each_bound, strict=True)
        return tuple([bound if size is None else size for size, bound in pairs])

    @property
    def is_bounded(self) -> bool:
        """Is some size dynamic, and does every dynamic size have a bound?"""
        return None in self.sizes and None not in self.most

    @property
    def has_bounds(self) -> bool:
        """Does any size have a bound?"""
        return any([bound is not None for bound in self.bounds])

    @property
    def each_bound(self) -> tuple[int | None, ...]:
        """The bound of each dimension; `None` for a dimension without one."""
        return self.bounds or (None,) * len(self.sizes)

    @property
    def num_elements(self) -> int:
        """Number of elements; a dynamic size counts as its bound."""
        return prod(self.shape)


class KnownTensor(TensorType, frozen=True):
    """The type of an integer array with a known value, for type rules that read it.

    Only operands named in the op's `reads_values` have such a type; results never do.
    """

    value: tuple[int, ...] = ()

    __repr__ = Struct.__repr__


class TupleType(Nested, Struct, frozen=True):
    """A tuple of types, possibly nested and possibly empty.

    Attributes:
        elements: The types.
        depth: Nesting depth of tuples, itself included.
        leaves: Number of types in it, at any depth, that are not tuples.

    >>> type = TupleType((TupleType(()), TokenType()))
    >>> type.depth, type.leaves
    (2, 1)
    >>> type
    TupleType(2 elements)
    """

    elements: tuple[Type, ...]
    depth: int = 0
    leaves: int = 0

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.elements))})"

    def __repr__(self) -> str:
        if any(isinstance(element, TupleType) for element in self.elements) or self.leaves > 4:
            return f"TupleType({len(self.elements)} elements)"
        return f"TupleType({self.elements!r})"

    def __post_init__(self) -> None:
        depth = leaves = 0
        for element in self.elements:
            if isinstance(element, TupleType):
                depth = max(depth, element.depth)
                leaves += element.leaves
            else:
                leaves += 1
        force_setattr(self, "depth", depth + 1)
        force_setattr(self, "leaves", leaves)


class TokenType(Struct, frozen=True):
    """Ordering token (`token[]`)."""

    def __str__(self) -> str:
        return "token[]"


class OpaqueType(Struct, frozen=True):
    """A value of unknown contents (`opaque[]`)."""

    def __str__(self) -> str:
        return "opaque[]"


class DialectType(OpaqueType, frozen=True):
    """A type of MLIR that has no class here, such as `!shape.shape`, with its text."""

    text: str = ""


class BufferType(Struct, frozen=True):
    """A mutable buffer of an array (`b(f32[8])`)."""

    element: TensorType


class UnrankedTensorType(Struct, frozen=True):
    """A tensor of MLIR with an unknown number of dimensions (`tensor<*xf32>`)."""

    element: ElementType


class VectorType(Struct, frozen=True):
    """A vector of MLIR (`vector<4x[8]xf32>`).

    Attributes:
        element: Type of the elements.
        sizes: The sizes.
        scalable: For each size, is it multiplied by a run-time factor (`[8]`)?
    """

    element: ElementType
    sizes: Dims
    scalable: tuple[bool, ...] = ()


class FunctionType(Nested, Struct, frozen=True):
    """A function type of MLIR, `(a, b) -> c`."""

    inputs: tuple[Type, ...]
    results: tuple[Type, ...]


class FutureType(Nested, Struct, frozen=True):
    """Future results of an asynchronous op (`!stablehlo.future<a, b>`)."""

    elements: tuple[Type, ...]


Type: TypeAlias = (
    TensorType
    | TupleType
    | TokenType
    | OpaqueType
    | BufferType
    | ElementType
    | UnrankedTensorType
    | VectorType
    | FunctionType
    | FutureType
)

Types: TypeAlias = tuple[Type, ...]


def compatible(a: Type, b: Type) -> bool:
    """Could `a` and `b` be types of one value, layouts and encodings aside?

    Element types have to be equal, apart from scales of quantized types.  An unknown size is
    compatible with every size that does not exceed its bound.

    Source: StableHLO `type_inference.md`, (P2).

    >>> f32 = ELEMENT_TYPES["f32"]
    >>> compatible(TensorType(f32, (2, None)), TensorType(f32, (None, 3)))
    True
    """
    if a is b:
        return True
    match a, b:
        case TensorType(), TensorType():
            if len(a.sizes) != len(b.sizes) or not compatible_elements(a.element, b.element):
                return False
            if a.sizes == b.sizes and None not in a.sizes:
                return True
            return all(map(_fits, a.sizes, a.each_bound, b.sizes, b.each_bound))
        case TupleType(), TupleType():
            return len(a.elements) == len(b.elements) and all(
                map(compatible, a.elements, b.elements)
            )
        case UnrankedTensorType(x), TensorType(y) | UnrankedTensorType(y):
            return compatible_elements(x, y)
        case TensorType(x), UnrankedTensorType(y):
            return compatible_elements(x, y)
        case _:
            return a == b


def compatible_elements(a: ElementType, b: ElementType) -> bool:
    """Could `a` and `b` be element types of one tensor?

    Source: StableHLO `Base.cpp`, `isCompatibleElementTypeForHloTypeInference`.
    """
    if a is b or a == b:
        return True
    return (
        isinstance(a, QuantizedType)
        and isinstance(b, QuantizedType)
        and a.storage.bits == b.storage.bits
        and (a.storage_min, a.storage_max) == (b.storage_min, b.storage_max)
        and a.expressed == b.expressed
        and a.is_per_axis == b.is_per_axis
    )


def _fits(a: int | None, most_a: int | None, b: int | None, most_b: int | None) -> bool:
    """Could two dimensions, `a` and `b`, be the same one?

    `a` and `b` are the sizes, `None` if dynamic; `most_a` and `most_b` are the size, or the bound
    of a dynamic one.
    """
    if a is not None and b is not None:
        return a == b
    return (b is None or most_a is None or b <= most_a) and (
        a is None or most_b is None or a <= most_b
    )
