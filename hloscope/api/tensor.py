"""Tensors and single elements as Python values: an array and its type, with the type's arithmetic.

>>> x = Tensor.of([[1, 2], [3, 4]], "s8")
>>> x.get((1, 0)) * x.get((1, 1)) + Element.of(120, "s8")
Element(-124, s8)
>>> print(x.set((0, 1), 7).to_mlir())
dense<[[1, 7], [3, 4]]> : tensor<2x2xi8>
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, Final

from hloscope.errors import InputError, ParseError
from hloscope.hlo_parser import literal_value, parse_type, print_array, print_literal
from hloscope.interpreter import Array, EvaluationError, Kernel, World, as_value, dtype_of, kernel
from hloscope.ir import ELEMENT_TYPES, ElementType, Instruction, TensorType
from hloscope.mlir import DenseAttr, array_text, parse_attribute, to_array
from hloscope.ops import ELEMENTWISE, Compare, Parameter
from hloscope.proof import load
from hloscope.support.arrays import np
from hloscope.support.source import Source, Span
from hloscope.support.whole_files import whole_file

Index = Sequence[int]


def _operator(op: str) -> Callable[[Element, Any], Element]:
    """Return a method that computes an op of this element and another element or number."""
    return lambda self, other: self.compute(op, other)


def _reflected(op: str) -> Callable[[Element, Any], Element]:
    """Return a method that computes an op of a number and this element, in this order."""
    return lambda self, other: self._like(other).compute(op, self)


def _compared(direction: str) -> Callable[[Element, Any], bool]:
    """Return a method that compares this element with another element or number.

    `direction` is the comparison direction of HLO, such as `LT`.
    """
    return lambda self, other: self._is(direction, other)


class Element:
    """One value of an element type.

    Python operators compute the ops of the same meaning.

    `+ - * / % **`, `& | ^ ~ << >>`, `abs` and comparisons take elements of the same type, or Python
    numbers, which are converted to it. `>>` keeps the sign of signed integers.
    """

    __slots__ = ("type", "value")

    def __init__(self, value: Any, type: ElementType) -> None:
        """Store a numpy scalar; for a quantized type, its stored integer."""
        self.value: Final = value
        self.type: Final = type

    @staticmethod
    def of(value: Any, type: ElementType | str) -> Element:
        """Convert a number to an element of a type, which may be given by its HLO name.

        Raises:
            EvaluationError: The type has no such value.
        """
        element = _element_type(type)
        return Element(as_value(value, TensorType(element, ()), "the value"), element)

    def compute(self, op: str, *others: Any) -> Element:
        """Compute an element-wise op of this element and further operands: `x.compute("tanh")`.

        Args:
            op: Name of the op.
            others: The further operands; numbers are converted to this element's type.

        Raises:
            ValueError: The op does not exist.
            UnsupportedError: The op does not take elements of this type.
        """
        cls = ELEMENTWISE.get(op)
        if cls is None:
            raise ValueError(f"no element-wise op `{op}`")
        operands = [self, *(o if isinstance(o, Element) else self._like(o) for o in others)]
        result, function = _function(op, *(o.type for o in operands))
        with np.errstate(all="ignore"):
            return Element(function(*(o.value for o in operands)), result)

    def _like(self, value: Any) -> Element:
        return Element.of(value, self.type)

    def _is(self, direction: str, other: Any) -> bool:
        other = other if isinstance(other, Element) else self._like(other)
        _, function = _function(direction, self.type, other.type)
        return bool(function(self.value, other.value))

    def __rshift__(self, other: Any) -> Element:
        signed = self.type.kind == "signed"
        return self.compute(f"shift_right_{'arithmetic' if signed else 'logical'}", other)

    __add__, __radd__ = _operator("add"), _reflected("add")
    __sub__, __rsub__ = _operator("subtract"), _reflected("subtract")
    __mul__, __rmul__ = _operator("multiply"), _reflected("multiply")
    __truediv__, __rtruediv__ = _operator("divide"), _reflected("divide")
    __mod__ = _operator("remainder")
    __pow__ = _operator("power")
    __and__ = _operator("and")
    __or__ = _operator("or")
    __xor__ = _operator("xor")
    __lshift__ = _operator("shift_left")
    __eq__ = _compared("EQ")
    __ne__ = _compared("NE")
    __lt__ = _compared("LT")
    __le__ = _compared("LE")
    __gt__ = _compared("GT")
    __ge__ = _compared("GE")

    def __neg__(self) -> Element:
        return self.compute("negate")

    def __invert__(self) -> Element:
        return self.compute("not")

    def __abs__(self) -> Element:
        return self.compute("abs")

    __hash__ = None  # type: ignore[assignment]  # NaN is not equal to itself, -0 is to 0

    def __bool__(self) -> bool:
        return bool(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __complex__(self) -> complex:
        return complex(self.value)

    def __repr__(self) -> str:
        return f"Element({self.value}, {self.type})"


class Tensor:
    """An array with its type. It is immutable: `set` returns another tensor."""

    __slots__ = ("array", "type")

    def __init__(self, array: Array, type: TensorType) -> None:
        """Store an array whose sizes and elements are those of the type.

        Raises:
            EvaluationError: The array has other sizes or other elements.
        """
        value: Any = as_value(array, type, "the array")
        view = value.view() if value.shape else _array(value)
        view.flags.writeable = False
        self.array: Final[Array] = view
        self.type: Final = TensorType(type.element, view.shape)

    @staticmethod
    def of(values: Any, element: ElementType | str | None = None) -> Tensor:
        """Convert Python numbers or an array to a tensor; the type may be given by its HLO name.

        Raises:
            EvaluationError: The values do not have that type, or no element type fits them.
        """
        if element is None:
            element = _element_of(_array(values).dtype)
        element = _element_type(element)
        return Tensor(values, TensorType(element, _array(values).shape))

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the sizes of the dimensions."""
        shape: tuple[int, ...] = self.array.shape
        return shape

    @property
    def size(self) -> int:
        """Return the number of elements."""
        return self.array.size

    def indices(self) -> Iterator[tuple[int, ...]]:
        """Yield every index, in row-major order."""
        return product(*map(range, self.shape))

    def get(self, index: Index) -> Element:
        """Return the element at an index, which counts from 0 along each dimension.

        Raises:
            IndexError: The index is out of bounds.
        """
        return Element(self.array[self._at(index)], self.type.element)

    def set(self, index: Index, value: Any) -> Tensor:
        """Return a copy of the tensor with another value at an index.

        Raises:
            EvaluationError: The element type has no such value.
            IndexError: The index is out of bounds.
        """
        at = self._at(index)
        if not isinstance(value, Element):
            value = Element.of(value, self.type.element)
        if value.type != self.type.element:
            raise EvaluationError(f"an element of {value.type} is none of {self.type.element}")
        array = self.array.copy()
        array[at] = value.value
        return Tensor(array, self.type)

    def _at(self, index: Index) -> tuple[int, ...]:
        index = tuple(index)
        if len(index) != len(self.shape) or not all(
            0 <= i < n for i, n in zip(index, self.shape, strict=True)
        ):
            raise IndexError(f"no element {index} in a tensor of sizes {self.shape}")
        return index

    def __iter__(self) -> Iterator[Element]:
        """Yield all elements, in row-major order."""
        return (self.get(index) for index in self.indices())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return a numpy array, for numpy's conversion."""
        return np.array(self.array, dtype, copy=copy)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the numpy type of the elements."""
        dtype: np.dtype[Any] = self.array.dtype
        return dtype

    def __eq__(self, other: object) -> bool:
        """Are the types equal, and the elements equal bit by bit?"""
        if not isinstance(other, Tensor):
            return NotImplemented
        return self.type == other.type and self.array.tobytes() == other.array.tobytes()

    def __hash__(self) -> int:
        return hash((self.type, self.array.tobytes()))

    def __repr__(self) -> str:
        return f"Tensor({self.array.tolist()}, {print_array(self.type)})"

    # ------------------------------------------------------------------------------------ text

    def to_mlir(self) -> str:
        """Return the elements and the type in MLIR's syntax, `dense<…> : tensor<…>`."""
        return array_text(self.array, self.type)

    def to_hlo(self) -> str:
        """Return the type and all elements in HLO's syntax, such as `f32[2] {1, 2}`."""
        return f"{print_array(self.type)} {print_literal(self.type, self.array)}"

    @staticmethod
    def parse(text: str) -> Tensor:
        """Parse a literal of MLIR or HLO, which includes its type.

        Raises:
            ParseError: The text is not a literal.

        >>> Tensor.parse("dense<[1, 2]> : tensor<2xi32>") == Tensor.parse("s32[2] {1, 2}")
        True
        """
        text = text.strip()
        if text.startswith("dense"):
            literal = parse_attribute(text)
            assert isinstance(literal, DenseAttr)
            type_ = literal.type
            value: Any = to_array(literal)
        else:
            first, _, rest = text.partition(" ")
            type_ = parse_type(first)
            value = literal_value(type_, rest)
        if not isinstance(type_, TensorType):
            raise ParseError(
                "expected a tensor", span=Span(Source("<literal>", text), 0, len(text))
            )
        return Tensor(value, type_)

    # ------------------------------------------------------------------------------------ files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a `.npy` file; elements of types that numpy lacks are written as raw bytes."""
        with whole_file(path) as file:
            np.lib.format.write_array(file, self.array, allow_pickle=False)

    @staticmethod
    def load(path: str | os.PathLike[str], element: ElementType | str | None = None) -> Tensor:
        """Read a `.npy` file.

        `element` is the element type; it must be given for types that numpy lacks.

        Raises:
            InputError: The file does not exist, or has no array of that type.
        """
        found = load(path)
        if list(found) != ["arr_0"]:
            raise InputError(f"`{os.fspath(path)}` is no .npy file: it holds {len(found)} arrays")
        array = found["arr_0"]
        if element is not None and array.dtype.kind == "V":
            dtype = dtype_of(_element_type(element))
            if array.dtype.itemsize != dtype.itemsize:
                raise InputError(f"`{os.fspath(path)}` has elements of {array.itemsize} bytes")
            array = array.view(dtype)
        return Tensor.of(array, element)


def _array(values: Any) -> Array:
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        raise EvaluationError(f"the value is not an array: {error}") from None


def _element_type(name: ElementType | str) -> ElementType:
    if isinstance(name, ElementType):
        return name
    if name not in ELEMENT_TYPES:
        raise ValueError(f"no element type `{name}`; there are {', '.join(ELEMENT_TYPES)}")
    return ELEMENT_TYPES[name]


def _element_of(dtype: np.dtype[Any]) -> ElementType:
    for element in ELEMENT_TYPES.values():
        if element.numpy == dtype.name:
            return element
    raise EvaluationError(f"there is no element type for numpy's {dtype}; say which is meant")


# Cached: an addition of two elements takes 11 × as long without it.
@lru_cache(maxsize=1024)
def _function(op: str, *types: ElementType) -> tuple[ElementType, Kernel]:
    """Return the result type and the implementation of an element-wise op on scalars.

    `op` is the name of the op, or the direction of a comparison, such as `LT`. `types` are the
    types of the operands.
    """
    made = ELEMENTWISE[op]() if op in ELEMENTWISE else Compare(comparison_direction=op)
    operands = [Instruction(f"a{i}", TensorType(t, ()), Parameter(i)) for i, t in enumerate(types)]
    result = made.infer(tuple([o.type for o in operands]))
    assert isinstance(result, TensorType)
    return result.element, kernel(Instruction("r", result, made, tuple(operands)), World())


__all__ = ["Element", "Tensor"]
