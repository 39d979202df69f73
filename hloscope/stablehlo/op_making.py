"""Conversion between operations of the syntax tree and ops of the graph, by the op tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import NODEFAULT

from hloscope.errors import UnsupportedError, VerifyError
from hloscope.ir import Dims, ElementType, Op, TensorType, defaults_of
from hloscope.mlir import Attribute, AttributeSlot, DenseArrayAttr, Operation
from hloscope.mlir.dialects import CLASSES, DEFINITIONS
from hloscope.ops import (
    AsyncDone,
    AsyncStart,
    Call,
    Case,
    ConvDimensions,
    DotDimensions,
    Return,
    UnknownOp,
    Window,
)
from hloscope.stablehlo.kinds import attribute_text, kind_of, read_verbatim, verbatim


class OpMaker:
    """Creates the graph's ops for the operations of one module.

    Operations with shared attributes share an op.
    """

    __slots__ = ("_by_shared_key", "_known")

    def __init__(self) -> None:
        # By name and `id` of the attribute mappings, then by the reader's key of equal ops: asked
        # for each op, of which most repeat.
        self._known: dict[tuple[str, int, int], tuple[Op, object, object]] = {}
        self._by_shared_key: dict[object, Op] = {}

    def __call__(self, operation: Operation) -> Op:
        """Return the graph's op for an operation, as `make_op` does."""
        shared_key = operation.shared_key
        if shared_key is None:
            return self._made(operation)
        op = self._by_shared_key.get(shared_key)
        if op is None:
            op = self._by_shared_key[shared_key] = self._made(operation)
        return op

    def _made(self, operation: Operation) -> Op:
        properties, attributes = operation.properties, operation.attributes
        key = (operation.name, id(properties), id(attributes))
        known = self._known.get(key)
        if known is not None:
            return known[0]
        op = make_op(operation)
        if operation.name not in _BY_TYPE:
            self._known[key] = (
                op,
                properties,
                attributes,
            )  # held, so that their `id`s are not reused
        return op


def make_op(operation: Operation) -> Op:
    """Return the op of the graph for an operation, with the attributes as its fields.

    Fields have the values of the attributes, also if type inference refuses them. An unknown
    operation becomes an `UnknownOp` with its attributes as settings.

    Raises:
        VerifyError: A required attribute is missing, or an attribute has another kind than the op
            declares.
    """
    name = operation.name
    cls = CLASSES.get(name)
    if cls is None:
        if name.endswith(".return") and not operation.results:
            return Return()
        if name == "func.call":
            return Call()
        given = {**operation.properties, **operation.attributes}
        return UnknownOp(name, tuple([(k, verbatim(v)) for k, v in given.items()]))
    values = _values(operation)
    values |= _FIXED.get(name, {})
    special = _SPECIAL.get(name)
    if special is not None:
        special(values, operation)
    fields = defaults_of(cls)
    settings = tuple([(k, _text(values.pop(k))) for k in [*values] if k not in fields])
    if settings:
        values["settings"] = settings
    for field, default in fields.items():
        if default is NODEFAULT and field not in values:
            values[field] = ()
    return cls(**values)


def _text(value: object) -> str:
    return value if isinstance(value, str) else str(value).lower()


def _values(operation: Operation) -> dict[str, Any]:
    """Return the values of an operation's attributes, by the fields of its op class."""
    values: dict[str, Any] = {}
    properties, attributes = operation.properties, operation.attributes
    for slot in own_attributes(operation.name):
        written = properties.get(slot.name)
        if written is None and attributes:
            written = attributes.get(slot.name)
        if written is None:
            if not slot.optional:
                raise VerifyError(
                    f"'{operation.name}' op requires attribute '{slot.name}'",
                    span=operation.span,
                )
            continue
        kind = kind_of(slot.constraint)
        try:
            value = kind.read(written)
        except ValueError as error:
            raise VerifyError(
                f"attribute `{slot.name}` of `{operation.name}` is"
                f" `{attribute_text(written)[:60]}`, needs {error}",
                span=operation.span,
            ) from None
        if kind.spreads:
            values |= value
        else:
            values[slot.field] = value
    return values


def own_attributes(name: str) -> Sequence[AttributeSlot]:
    """Return the attributes of op `name` that its class holds: all but the name of a callee.

    >>> [slot.name for slot in own_attributes("stablehlo.composite")]
    ['name', 'composite_attributes', 'version']
    """
    return [slot for slot in DEFINITIONS[name].attributes if slot.constraint != "callee"]


# --- what is no plain field: tree to op -----------------------------------------------------------


def _read_constant_like(values: dict[str, Any], operation: Operation) -> None:
    type = getattr(operation.get("value"), "type", None)
    values["value_type"] = type if isinstance(type, ElementType) else None


def _read_sort(values: dict[str, Any], operation: Operation) -> None:
    """Replace a negative dimension of a `sort` op by the non-negative one, in `values`.

    `values` are the fields of the op's class by name. A missing dimension is the last one.
    """
    given = values.get("dimension", -1)
    type = operation.operands[0].type if operation.operands else None
    rank = type.rank if isinstance(type, TensorType) else 0
    values["dimension"] = given + rank if -rank <= given < 0 else given


_DOT: Final = ("lhs_batching", "rhs_batching", "lhs_contracting", "rhs_contracting")


def _read_dot(values: dict[str, Any], operation: Operation) -> None:
    values["dimensions"] = DotDimensions(*[values.pop(f"{name}_dimensions") for name in _DOT])
    if "lhs_ragged_dimensions" in values:
        values["lhs_ragged"] = values.pop("lhs_ragged_dimensions")
        values["rhs_group"] = values.pop("rhs_group_dimensions")


def _read_scan(values: dict[str, Any], operation: Operation) -> None:
    sizes = operation.get("operandSegmentSizes")
    given = len(operation.operands) // 2
    values["is_associative"] = str(values.get("is_associative", "")).lower()
    values["num_carries"] = sizes.values[-1] if isinstance(sizes, DenseArrayAttr) else given


_WINDOW: Final = (
    "window_strides",
    "padding",
    "base_dilations",
    "window_dilations",
    "window_reversal",
)
_CONVOLVED: Final = ("window_strides", "padding", "lhs_dilation", "rhs_dilation", "window_reversal")


def _window(sizes: Dims, values: dict[str, Any], names: tuple[str, ...]) -> Window:
    """Return the window of an op; the fields called `names` are removed from `values`.

    `names` are those of strides, padding, base dilation, window dilation and reversal; `sizes` are
    the sizes of the window.
    """
    strides, padding, base, window, reversal = [values.pop(name, ()) for name in names]
    ones: Dims = (1,) * len(sizes)
    return Window(
        sizes,
        strides or ones,
        padding or ((0, 0),) * len(sizes),
        base or ones,
        window or ones,
        reversal or (False,) * len(sizes),
    )


def _read_window(values: dict[str, Any], operation: Operation) -> None:
    sizes = values.pop("window_dimensions", ())
    values["window"] = _window(sizes, values, _WINDOW)


def _read_convolution(values: dict[str, Any], operation: Operation) -> None:
    values["dimensions"] = dims = values.pop("dimension_numbers")
    operands = operation.operands
    kernel = operands[1].type if len(operands) > 1 else None
    sizes = kernel.sizes if isinstance(kernel, TensorType) else ()
    taps = [(sizes[d] or 0) if 0 <= d < len(sizes) else 0 for d in dims.kernel_spatial]
    values["window"] = _window(tuple(taps), values, _CONVOLVED)


_FIXED: Final[Mapping[str, Mapping[str, bool]]] = {
    "stablehlo.if": {"predicated": True},
    "stablehlo.async_start": {"region": True},
    "stablehlo.async_done": {"region": True},
    "stablehlo.scatter": {"by_window": False},
}
"""Fields of a class that have one value for an op, by op name."""

_SPECIAL: Final[dict[str, Callable[[dict[str, Any], Operation], None]]] = {
    "chlo.constant_like": _read_constant_like,
    "stablehlo.sort": _read_sort,
    "stablehlo.dot_general": _read_dot,
    "chlo.ragged_dot": _read_dot,
    "chlo.scan": _read_scan,
    "stablehlo.reduce_window": _read_window,
    "stablehlo.select_and_scatter": _read_window,
    "stablehlo.convolution": _read_convolution,
    "stablehlo.dynamic_conv": _read_convolution,
}

_BY_TYPE: Final = frozenset(
    ["stablehlo.convolution", "stablehlo.dynamic_conv", "stablehlo.sort", "chlo.scan"]
)
"""Ops with fields that depend on operand types, not on attributes alone."""


# --- op to tree -----------------------------------------------------------------------------------

_BY_CLASS: Final[dict[type[Op], str]] = {
    **{cls: name for name, cls in sorted(CLASSES.items())},
    Case: "stablehlo.case",
    Call: "func.call",
    Return: "stablehlo.return",
}


def name_of(op: Op) -> str:
    """Return the full name of the op in MLIR.

    >>> from hloscope.ops.shape import Transpose
    >>> name_of(Transpose((1, 0)))
    'stablehlo.transpose'

    Raises:
        UnsupportedError: StableHLO has no such op.
    """
    if isinstance(op, UnknownOp):
        return op.opcode
    if isinstance(op, Case) and op.predicated:
        return "stablehlo.if"
    name = _BY_CLASS.get(type(op))
    if name is None or (isinstance(op, AsyncStart | AsyncDone) and not op.region):
        raise UnsupportedError(f"StableHLO has no op `{op.name}`")
    return name


def attributes_of(op: Op) -> dict[str, Attribute]:
    """Return the attributes of the op in MLIR, without optional ones that have their default.

    Raises:
        UnsupportedError: StableHLO has no such op.
    """
    name = name_of(op)
    if isinstance(op, UnknownOp):
        return {key: read_verbatim(text) for key, text in op.settings if key}
    if name not in CLASSES:
        return {}
    values, defaults = _written(op)
    found: dict[str, Attribute] = {}
    dialect = name.partition(".")[0]
    for slot in own_attributes(name):
        kind = kind_of(slot.constraint)
        value = values if kind.spreads else values.get(slot.field)
        if value is None or (slot.optional and value == defaults.get(slot.field)):
            continue
        attribute = kind.write(value, dialect)
        if attribute is not None:
            found[slot.name] = attribute
    return found


def _written(op: Op) -> tuple[dict[str, Any], Mapping[str, object]]:
    """Return the values of all attributes of an op by field, and the defaults of optional ones."""
    defaults = defaults_of(type(op))
    values: dict[str, Any] = {field: getattr(op, field) for field in defaults}
    values |= dict(values.pop("settings", ()))
    window, dims = values.pop("window", None), values.get("dimensions")
    if isinstance(window, Window):
        rank = len(window.sizes)
        ones, rest = (1,) * rank, ((0, 0),) * rank
        given = (window.strides, window.padding, window.base_dilations, window.window_dilations)
        names = _CONVOLVED if isinstance(dims, ConvDimensions) else _WINDOW
        values |= zip(names, (*given, window.reversal), strict=True)
        defaults |= zip(names, (ones, rest, ones, ones, (False,) * rank), strict=True)
        values["window_dimensions"] = window.sizes
        defaults["window_dimensions"] = ()
    if isinstance(dims, ConvDimensions):
        values["dimension_numbers"] = dims
    if isinstance(dims, DotDimensions):
        given_dims = [getattr(dims, field) for field in DotDimensions.__struct_fields__]
        values |= {f"{n}_dimensions": v for n, v in zip(_DOT, given_dims, strict=True)}
        values["lhs_ragged_dimensions"] = values.get("lhs_ragged", ())
        values["rhs_group_dimensions"] = values.get("rhs_group", ())
    return values, defaults


__all__ = ["OpMaker", "attributes_of", "make_op", "name_of"]
