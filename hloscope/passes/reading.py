"""Helpers of patterns: a budget for folding, attributes, defining ops, device meshes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, Final, NamedTuple, TypeAlias

from hloscope.errors import HloscopeError, UnsupportedError
from hloscope.ir import Dims, ElementType, TensorType
from hloscope.mlir import (
    ArrayAttr,
    Attribute,
    DenseArrayAttr,
    DenseAttr,
    DictAttr,
    IntegerAttr,
    Operation,
    StringAttr,
    StructAttr,
    Value,
    elements,
    expanded,
    print_mlir,
    to_array,
)
from hloscope.mlir.dialects import DIALECTS, meshes_in
from hloscope.ops import MOST_DEVICES, AxisRef, Mesh
from hloscope.passes.rewriting import Pattern, Patterns, Rewrite, Rewriter
from hloscope.stablehlo import CONSTANTS, AttributeGroups, integers_in, known_integers
from hloscope.support.arrays import np

# --------------------------------------------------------------------------------------------------
# Limits of what the patterns of one run read and compute, and patterns that obey them.


FOLD_ELEMENTS: Final = 1 << 16
"""Default maximum number of elements of a folded result, as in upstream."""

_MOST_WORK: Final = 1 << 26
"""Maximum number of bytes that all folds of one run read and write; further folds are skipped."""

_INTEGERS: Final = ("pred", "signed", "unsigned")


class Known(NamedTuple):
    """The elements of a constant as bytes, with its type.

    Attributes:
        type: Type of the constant.
        raw: Bytes of the elements; for a splat, of one element.
        is_splat: Are all elements equal, bit by bit, and is there at least one?
    """

    type: TensorType
    raw: bytes | memoryview
    is_splat: bool

    @property
    def array(self) -> np.ndarray:
        """All elements, in the shape of the type; a splat is a view of one element."""
        return to_array(DenseAttr(self.raw, self.type))

    @property
    def element(self) -> np.ndarray:
        """The one element of a splat, as an array of rank 0."""
        return to_array(DenseAttr(self.raw, TensorType(self.type.element, ())))

    def as_type(self, type: TensorType) -> DenseAttr:
        """Return a literal of another type with the bytes of this constant."""
        return DenseAttr(self.raw, type)


class Limits:
    """Limits of folding in one run of a pass: element counts, and a budget of bytes.

    Args:
        max_elements: Largest number of elements of a result, where upstream has a limit; `None` for
            no limit.
        optimize_float: Fold floats, not only integers.
        max_work: Largest number of bytes to read and write in all; further folds are skipped.
    """

    def __init__(
        self,
        max_elements: int | None = None,
        *,
        optimize_float: bool = True,
        max_work: int = _MOST_WORK,
    ) -> None:
        self.max_elements: Final = max_elements
        self.optimize_float: Final = optimize_float
        self.left = max_work
        self._read: Final[dict[Value, tuple[DenseAttr, Known | None]]] = {}

    def known(self, value: Value) -> Known | None:
        """Return the elements of a constant.

        The result is `None` if `value` is not a constant, or the budget is spent.

        >>> from hloscope.mlir import I32
        >>> type = TensorType(I32, (1000000, 1000000))
        >>> constant = Operation("stablehlo.constant", properties={"value": DenseAttr("7", type)})
        >>> Limits().known(Value(type, constant)).element.item()
        7
        """
        literal = literal_of(value)
        if literal is None:
            return None
        # Several patterns ask for the elements of one constant: they are read, and counted, once.
        # The literal is compared, since a pattern may give a constant another one.
        found = self._read.get(value)
        if found is None or found[0] is not literal:
            known = self._elements(literal) if self.spend(_size(literal)) else None
            found = self._read[value] = literal, known
        return found[1]

    def is_constant(self, value: Value) -> bool:
        """Is the value defined by a constant op?

        The elements are not read.
        """
        return literal_of(value) is not None

    def spend(self, bytes: int) -> bool:
        """Subtract `bytes` from the budget; if less is left, change nothing and return false."""
        if bytes > self.left:
            return False
        self.left -= bytes
        return True

    def allows(self, type: TensorType) -> bool:
        """May a result of this static type be folded, given its number of elements?"""
        return self.max_elements is None or _count(type) <= self.max_elements

    def folds(self, element: ElementType) -> bool:
        """Are constants of this element type folded: integers, and floats if the option is on?"""
        return (element.kind in _INTEGERS and element.name != "index") or self.folds_float(element)

    def folds_float(self, element: ElementType) -> bool:
        """Is the element type a float, and are floats folded?"""
        return element.kind == "float" and self.optimize_float

    def _elements(self, literal: DenseAttr) -> Known | None:
        type = literal.type
        if not isinstance(type, TensorType) or not type.element.numpy:
            return None
        try:
            found = elements(literal)
        except HloscopeError:  # not a literal of its type, which the verifier reports
            return None
        return Known(type, found.raw, found.splat)


LimitedRewrite: TypeAlias = "Callable[[Rewriter, Operation, Limits], bool]"
"""A rewrite function that reads constants; its `Limits` bound what it reads and computes."""


class Row(NamedTuple):
    """A rewrite that needs limits: its name, the ops it applies to, its function, its benefit.

    `roots` are the ops' names; empty for all ops. Rewrites of larger benefit are tried first.
    """

    name: str
    roots: tuple[str, ...]
    rewrite: LimitedRewrite
    benefit: int = 1


class LimitedRewrites:
    """A list of rewrites in the order in which they are tried.

    A call with limits returns them as patterns.

    >>> folds = LimitedRewrites()
    >>> @folds.on("stablehlo.add")
    ... def fold_add(rewriter, op, limits):
    ...     return False
    >>> [pattern.name for pattern in folds(optimize_float=False)]
    ['fold_add']
    """

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._rows: Final = list(rows)

    def on(self, *roots: str, benefit: int = 1) -> Callable[[LimitedRewrite], LimitedRewrite]:
        """Return a decorator that adds a rewrite for the ops `roots`, with benefit `benefit`.

        Without `roots` it is for all ops. Rewrites of larger benefit are tried first.
        """

        def listed(rewrite: LimitedRewrite) -> LimitedRewrite:
            self._rows.append(Row(rewrite.__name__, roots, rewrite, benefit))
            return rewrite

        return listed

    def add(self, name: str, root: str, rewrite: LimitedRewrite) -> None:
        """Add a rewrite for ops of the name `root`."""
        self._rows.append(Row(name, (root,), rewrite))

    def __call__(self, max_elements: int | None = None, optimize_float: bool = True) -> Patterns:
        """Return the rewrites as patterns that share new limits.

        Args:
            max_elements: Largest number of elements of a result, where upstream has a limit.
            optimize_float: Fold floats, not only integers.
        """
        return self.within(Limits(max_elements, optimize_float=optimize_float))

    def within(self, limits: Limits) -> Patterns:
        """Return the rewrites as patterns that share `limits`, with the budget left there."""
        return Patterns(
            Pattern(row.name, row.roots, _within(row.rewrite, limits), row.benefit)
            for row in self._rows
        )

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __add__(self, others: Iterable[Row]) -> LimitedRewrites:
        return LimitedRewrites([*self._rows, *others])


def _within(rewrite: LimitedRewrite, limits: Limits) -> Rewrite:
    """Return a rewrite that calls `rewrite` with `limits`.

    It returns false if the new op would be invalid, which means that the program is.
    """

    def pattern(rewriter: Rewriter, operation: Operation) -> bool:
        try:
            return rewrite(rewriter, operation, limits)
        except HloscopeError:  # the new op would be invalid, and so is the program
            return False

    return pattern


def literal_of(value: Value) -> DenseAttr | None:
    """Return the literal of a constant.

    `None` if `value` is not a constant, or its type is not the literal's.
    """
    owner = value.owner
    if not isinstance(owner, Operation) or owner.name not in CONSTANTS:
        return None
    literal = owner.get("value")
    return literal if isinstance(literal, DenseAttr) and literal.type == value.type else None


def work_of(type: TensorType) -> int:
    """Return the number of bytes that reading or writing a value of this static type costs."""
    return _count(type) * max(1, type.element.bits // 8)


def _count(type: TensorType) -> int:
    return prod(size or 0 for size in type.sizes)


def _size(literal: DenseAttr) -> int:
    """Return the length of a literal: the characters or bytes that are inspected to read it."""
    return len(literal.literal)


# --------------------------------------------------------------------------------------------------
# Readers of operations for patterns: integer attributes, result types, producers of values.


def integers_of(operation: Operation, name: str) -> Dims | None:
    """Return the integers of the attribute `name`, dense or array; `None` if it is missing.

    >>> from hloscope.mlir import I64
    >>> op = Operation("stablehlo.transpose", properties={"permutation": DenseArrayAttr(I64, (0,))})
    >>> integers_of(op, "permutation"), integers_of(op, "dimensions")
    ((0,), None)
    """
    match operation.get(name):
        case DenseArrayAttr(_, values):
            return values
        case DenseAttr() as literal:
            try:
                return expanded(literal)
            except ValueError:  # no integers
                return None
        case _:
            return None


def integer_of(operation: Operation, name: str) -> int | None:
    """Return the integer of the attribute `name`; `None` if it is missing or of another kind."""
    attribute = operation.get(name)
    return attribute.value if isinstance(attribute, IntegerAttr) else None


def tensor_of(value: Value) -> TensorType | None:
    """Return the type of a value; `None` if it is not a ranked tensor."""
    return value.type if isinstance(value.type, TensorType) else None


def static_result(operation: Operation) -> TensorType | None:
    """Return the type of the only result; `None` if it is not a tensor of static shape."""
    results = operation.results
    type = tensor_of(results[0]) if len(results) == 1 else None
    return type if type is not None and type.is_static else None


def has_bounds(type: TensorType) -> bool:
    """Does the tensor type have a bound or another encoding?"""
    return bool(type.encoding) or any(bound is not None for bound in type.bounds)


def defining_op(value: Value, name: str = "") -> Operation | None:
    """Return the operation that defines a value; `None` for a block argument.

    With a `name`, the result is also `None` if the operation has another name.
    """
    owner = value.owner
    return owner if isinstance(owner, Operation) and name in ("", owner.name) else None


def constant_integers(value: Value) -> Dims | None:
    """Return the integers of a constant in row-major order; `None` if the value is no constant.

    Constants of `index` and `shape.const_shape` are read, too.

    >>> from hloscope.mlir import I64
    >>> type = TensorType(I64, (2,))
    >>> constant = Operation("stablehlo.constant", properties={"value": DenseAttr("[1, 2]", type)})
    >>> constant_integers(Value(type, constant))
    (1, 2)
    """
    shape = defining_op(value, "shape.const_shape")
    return known_integers(value) if shape is None else integers_in(shape.get("shape"))


# --------------------------------------------------------------------------------------------------
# Device meshes that a module names, and device groups along their axes.


def symbols_of(module: Operation) -> Mapping[str, Operation]:
    """Return the operations of a module that define a symbol, by symbol name."""
    return {
        name.text: op for op in module.inside if isinstance(name := op.get("sym_name"), StringAttr)
    }


def mesh_named(module: Operation, name: str) -> Mesh | None:
    """Return the mesh of this name, defined by Shardy or as an attribute; `None` if unknown."""
    symbol = symbols_of(module).get(name)
    if symbol is None:
        return None
    if symbol.name != "sdy.mesh":
        return mesh_of_symbol(symbol)
    try:
        return meshes_in(print_mlir(symbol, dialects=DIALECTS).strip()).get(name)
    except UnsupportedError:
        return None


def mesh_of_symbol(symbol: Operation) -> Mesh | None:
    """Return the mesh in the attribute `stablehlo.mesh` of an operation; `None` if it has none.

    The attribute is a structure or a dictionary.
    """
    attribute: Attribute | None = symbol.get("stablehlo.mesh")
    if isinstance(attribute, StructAttr):
        fields: Mapping[str, Any] = {"mesh": attribute, "axes": ArrayAttr(())}
        found = AttributeGroups(
            StructAttr("stablehlo", "replica_group_mesh_axes", tuple(fields.items()))
        ).mesh
        return found if isinstance(found, Mesh) else None
    if not isinstance(attribute, DictAttr):
        return None
    entries = dict(attribute.entries)
    listed, ids = entries.get("axes"), entries.get("device_ids")
    axes: list[tuple[str, int]] = []
    for axis in listed.elements if isinstance(listed, ArrayAttr) else ():
        fields_of_axis = dict(axis.entries) if isinstance(axis, DictAttr) else {}
        name, size = fields_of_axis.get("name"), fields_of_axis.get("size")
        if not isinstance(name, StringAttr) or not isinstance(size, IntegerAttr):
            return None
        axes.append((name.text, size.value))
    return Mesh(tuple(axes), expanded(ids) if isinstance(ids, DenseAttr) else None)


def rows_of(mesh: Mesh, axes: Sequence[AxisRef]) -> tuple[Dims, ...] | None:
    """Return the device groups along mesh axes, as tuples of device numbers.

    `None` if the mesh lacks an axis.
    """
    sizes = dict(mesh.axes)
    count = prod(sizes.values())
    wrong = any(size < 1 for size in sizes.values()) or not 0 < count <= MOST_DEVICES
    # A part of an axis must end at a divisor of the axis' size.
    parts = [(axis.before * (axis.size or sizes.get(axis.name, 0)), axis) for axis in axes]
    if wrong or any(not end or sizes.get(axis.name, 1) % end for end, axis in parts):
        return None
    # Each device and each axis counts once, or the groups would overlap.
    if len(mesh.devices) != count or len(set(axes)) != len(axes):
        return None
    return mesh.groups(axes)
