"""Conversion of op attributes between StableHLO and VHLO, by the kinds in the op tables.

A value is equal in both dialects; the set of attributes of an op differs. VHLO writes every
attribute out, splits structures of numbers into one attribute per field, and stores lists of
numbers as tensors and symbols as strings.

Source: `MapStablehloToVhlo.h`, `StablehloLegalizeToVhlo.cpp`, `VhloLegalizeToStablehlo.cpp`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from operator import eq
from typing import Any, Final, NamedTuple, TypeAlias

from hloscope.ir import TensorType
from hloscope.mlir import (
    I1,
    I32,
    I64,
    ArrayAttr,
    Attribute,
    BoolAttr,
    DenseArrayAttr,
    DenseAttr,
    DictAttr,
    EnumAttr,
    IntegerAttr,
    Operation,
    StringAttr,
    StructAttr,
    SymbolAttr,
    TypeAttr,
    UnitAttr,
    elements,
)
from hloscope.mlir.dialects import EMPTY, sparse_struct
from hloscope.stablehlo.vhlo.tables import ENUMS
from hloscope.stablehlo.vhlo.versions import ACCURACY, FALSE, NO_NUMBERS, NO_TYPE, NOTHING

Pairs: TypeAlias = Mapping[str, Attribute]

API_VERSIONS: Final = ENUMS["api_version"]
_DEFAULT: Final = EnumAttr("stablehlo", "precision", "DEFAULT")
PRECISION: Final = ArrayAttr((_DEFAULT, _DEFAULT))
_EMPTY_STRING: Final = StringAttr(b"")
_EMPTY_DICTIONARY: Final = DictAttr(())
_NOTYPE: Final = EnumAttr("stablehlo", "comparison_type", "NOTYPE")
ALGORITHM: Final = (
    *("lhs_precision_type", "rhs_precision_type", "accumulation_type", "lhs_component_count"),
    *("rhs_component_count", "num_primitive_operations", "allow_imprecise_accumulation"),
)
"""Names of the fields of an algorithm of `dot_general`, which are attributes of VHLO."""


class MappingError(ValueError):
    """An op does not have this attribute, or the attribute has a value of another kind."""


def tensor(values: tuple[int, ...], *, truths: bool = False) -> DenseAttr:
    """Return integers (`i64`) or Booleans (`i1`, with `truths`) as a one-dimensional literal.

    Equal values are stored once, as a splat.

    Raises:
        MappingError: An integer does not fit into 64 bits.
    """
    width = 1 if truths else 8
    try:
        data = b"".join([value.to_bytes(width, "little", signed=not truths) for value in values])
    except OverflowError:
        raise MappingError(f"a number does not fit into {8 * width} bits") from None
    if len(values) > 1 and data[width:] == data[:-width]:
        data = data[:width]
    return DenseAttr(data, TensorType(I1 if truths else I64, (len(values),)))


def integer(value: int) -> IntegerAttr:
    """Return an integer attribute of type `i64`."""
    return IntegerAttr(value, I64)


def numbers(value: Attribute | None) -> tuple[int, ...]:
    """Return the integers of a one-dimensional dense literal.

    Raises:
        MappingError: `value` is not a tensor of one dimension, or it has more than 65,536
            elements.
    """
    if not isinstance(value, DenseAttr) or not isinstance(value.type, TensorType):
        raise MappingError("a tensor of numbers is needed")
    found = elements(value)
    (size,) = value.type.sizes if len(value.type.sizes) == 1 else (None,)
    signed = value.type.element.kind == "signed"
    if size is None or size > 1 << 16:
        raise MappingError("a list of numbers is needed")
    if not size:
        return ()
    raw, width = found.raw, found.width
    values = [
        int.from_bytes(raw[at : at + width], "little", signed=signed)
        for at in range(0, len(raw), width)
    ]
    return tuple(values * size if found.splat else values)


def number(value: Attribute | None) -> int:
    """Return the integer of an integer attribute.

    Raises:
        MappingError: `value` is not an integer attribute.
    """
    if not isinstance(value, IntegerAttr):
        raise MappingError("a number is needed")
    return value.value


class Kind(NamedTuple):
    """Conversion of one kind of attribute between StableHLO and VHLO.

    Attributes:
        to: Returns VHLO's attributes by name, given the name and value in StableHLO and the op's
            name.
        back: Returns StableHLO's value, given VHLO's attributes and the name; `None` if it is
            omitted.
        names: Returns the names of VHLO's attributes, given StableHLO's name and the op's name.
    """

    to: Callable[[str, Any, str], Pairs]
    back: Callable[[Pairs, str], Attribute | None]
    names: Callable[[str, str], tuple[str, ...]]


def _own(name: str, _: str) -> tuple[str, ...]:
    return (name,)


def _plain(drop: Callable[[Attribute], bool] = lambda _: False) -> Kind:
    """Return the conversion of attributes that are equal in both dialects.

    An attribute for which `drop` returns true is omitted in StableHLO.
    """
    return Kind(
        lambda name, value, _: {name: value},
        lambda found, name: None if drop(found[name]) else found[name],
        _own,
    )


def _list(*, truths: bool = False) -> Kind:
    element = I1 if truths else I64

    def to(name: str, value: Any, _: str) -> Pairs:
        if not isinstance(value, DenseArrayAttr):
            raise MappingError(f"`{name}` is not an array of numbers")
        return {name: tensor(value.values, truths=truths)}

    return Kind(to, lambda found, name: DenseArrayAttr(element, numbers(found[name])), _own)


def _symbol(name: str, value: Any, _: str) -> Pairs:
    if not isinstance(value, SymbolAttr) or value.nested:
        raise MappingError(f"`{name}` is not a symbol")
    return {name: StringAttr.of(value.root)}


def _symbol_back(found: Pairs, name: str) -> Attribute:
    return _as_symbol(found[name])


def _as_symbol(value: Attribute) -> SymbolAttr:
    if not isinstance(value, StringAttr):
        raise MappingError("a name is needed")
    return SymbolAttr(value.text)


def _symbols(name: str, value: Any, op: str) -> Pairs:
    if not isinstance(value, ArrayAttr):
        raise MappingError(f"`{name}` is not an array of symbols")
    return {name: ArrayAttr(tuple([_symbol(name, one, op)[name] for one in value.elements]))}


def _symbols_back(found: Pairs, name: str) -> Attribute | None:
    value = found[name]
    if not isinstance(value, ArrayAttr):
        raise MappingError("names are needed")
    return ArrayAttr(tuple(map(_as_symbol, value.elements))) if value.elements else None


def _struct(kind: str) -> Kind:
    """Return the conversion of the structure `kind`, whose fields VHLO stores as attributes."""
    empty = EMPTY[kind]

    def to(name: str, value: Any, _: str) -> Pairs:
        if not isinstance(value, StructAttr) or value.name != kind:
            raise MappingError(f"`{name}` is no {kind} dimension numbers")
        found = {**empty, **dict(value.fields)}
        return {
            field: integer(one) if isinstance(one, int) else tensor(one)  # type: ignore[arg-type]
            for field, one in found.items()
        }

    def back(found: Pairs, _: str) -> Attribute:
        values = {
            field: number(found[field]) if isinstance(usual, int) else numbers(found[field])
            for field, usual in empty.items()
        }
        if kind == "conv":
            return StructAttr("stablehlo", kind, tuple(values.items()))
        return sparse_struct("stablehlo", kind, values)

    return Kind(to, back, lambda *_: tuple(empty))


def _channel(name: str, value: Any, op: str) -> Pairs:
    """Return VHLO's attributes, by name, for a channel handle: its number and, for some ops, type.

    `name` is the attribute's name in StableHLO, `op` the name of the op.
    """
    if not isinstance(value, StructAttr) or value.name != "channel_handle":
        raise MappingError(f"`{name}` is not a channel handle")
    fields: dict[str, Any] = dict(value.fields)
    found = {"channel_id": integer(fields.get("handle", 0))}
    if op in _TYPED_CHANNELS:
        found["channel_type"] = integer(fields.get("type", 0))
    return found


_TYPED_CHANNELS: Final = ("stablehlo.send", "stablehlo.recv")


def _channel_back(found: Pairs, _: str) -> Attribute | None:
    handle = number(found["channel_id"])
    if "channel_type" not in found and not handle:
        return None
    kind = number(found["channel_type"]) if "channel_type" in found else 0
    return StructAttr("stablehlo", "channel_handle", (("handle", handle), ("type", kind)))


def _channel_names(_: str, op: str) -> tuple[str, ...]:
    return ("channel_id", "channel_type") if op in _TYPED_CHANNELS else ("channel_id",)


def _algorithm(name: str, value: Any, _: str) -> Pairs:
    if not isinstance(value, StructAttr) or value.name != "dot_algorithm":
        raise MappingError(f"`{name}` is not an algorithm")
    fields: dict[str, Any] = dict(value.fields)
    return {field: integer(one) if isinstance(one, int) else one for field, one in fields.items()}


def _algorithm_back(found: Pairs, _: str) -> Attribute | None:
    values = [found[name] for name in ALGORITHM]
    if found["lhs_component_count"] == NO_TYPE:
        if any(value != NO_TYPE for value in values):
            raise MappingError("an algorithm is given in part")
        return None
    if not all(isinstance(value, TypeAttr) for value in values[:3]):
        raise MappingError("an algorithm has three types")
    if not isinstance(values[6], BoolAttr):
        raise MappingError("an algorithm is imprecise or not")
    fields: list[Any] = [*values[:3], *map(number, values[3:6]), values[6]]
    return StructAttr("stablehlo", "dot_algorithm", tuple(zip(ALGORITHM, fields, strict=True)))


def _api_version(name: str, value: Any, _: str) -> Pairs:
    at = value.value if isinstance(value, IntegerAttr) else -1
    if not 0 <= at < len(API_VERSIONS):
        raise MappingError(f"`{name}` is not a version of the interface")
    return {name: EnumAttr("vhlo", "api_version", API_VERSIONS[at])}


def _api_version_back(found: Pairs, name: str) -> Attribute | None:
    value = found[name]
    if not isinstance(value, EnumAttr) or value.name != "api_version":
        raise MappingError("a version of the interface is needed")
    at = API_VERSIONS.index(value.value)
    return None if at == 1 else IntegerAttr(at, I32)


def _unit_back(found: Pairs, name: str) -> Attribute | None:
    if not isinstance(found[name], BoolAttr):
        raise MappingError(f"`{name}` is not a Boolean value")
    return UnitAttr() if found[name] == BoolAttr(True) else None


def _layouts_back(found: Pairs, name: str) -> Attribute | None:
    both = (found["operand_layouts"], found["result_layouts"])
    return None if both == (NOTHING, NOTHING) else found[name]


def _is_empty(value: Attribute) -> bool:
    return value in (_EMPTY_STRING, _EMPTY_DICTIONARY)


def _is_default_precision(value: Attribute) -> bool:
    return isinstance(value, ArrayAttr) and all(one == _DEFAULT for one in value.elements)


_DEFAULTS: Final[Mapping[str, Attribute]] = {
    "accuracy": ACCURACY,
    "bool": FALSE,
    "unit": FALSE,
    "precision": PRECISION,
    "comparison_type": _NOTYPE,
    "layouts": NOTHING,
    "tilings": NOTHING,
    "aliases": NOTHING,
    "callees": NOTHING,
    "array": NOTHING,
    "dicts": NOTHING,
    "dict": _EMPTY_DICTIONARY,
    "string": _EMPTY_STRING,
    "i32": integer(0),
    "i64": integer(-1),
    "ints": NO_NUMBERS,
    "dims": NO_NUMBERS,
    "api_version": EnumAttr("vhlo", "api_version", "API_VERSION_ORIGINAL"),
}
"""Value in VHLO of an attribute that StableHLO omits, by the attribute's kind."""

KINDS: Final[Mapping[str, Kind]] = {
    "dims": _list(),
    "bools": _list(truths=True),
    "unit": Kind(lambda name, value, _: {name: BoolAttr(True)}, _unit_back, _own),
    "callee": Kind(_symbol, _symbol_back, _own),
    "callees": Kind(_symbols, _symbols_back, _own),
    "channel": Kind(_channel, _channel_back, _channel_names),
    "algorithm": Kind(_algorithm, _algorithm_back, lambda *_: ALGORITHM),
    "api_version": Kind(_api_version, _api_version_back, _own),
    "layouts": Kind(lambda name, value, _: {name: value}, _layouts_back, _own),
    "gather": _struct("gather"),
    "scatter": _struct("scatter"),
    "dot": _struct("dot"),
    "conv": _struct("conv"),
    **{
        kind: _plain(partial(eq, _DEFAULTS[kind]))
        for kind in ("accuracy", "aliases", "array", "comparison_type", "dicts", "tilings")
    },
    "precision": _plain(_is_default_precision),
    "config": _plain(_is_empty),
    "dict": _plain(_is_empty),
}
"""Conversions by kind, for attributes whose values differ between the dialects."""

PLAIN: Final = _plain()


# ----------------------------------------------------------------------------- what is left out


def _windows(op: Operation) -> int:
    """Return the number of spatial dimensions of a convolution, or of window dimensions.

    0 for other ops.
    """
    conv = op.get("dimension_numbers")
    if isinstance(conv, StructAttr):
        spatial = conv.get("input_spatial_dimensions")
        return len(spatial) if isinstance(spatial, tuple) else 0
    window = op.get("window_dimensions")
    return len(window.values) if isinstance(window, DenseArrayAttr) else 0


def _window_default(name: str, op: Operation) -> Attribute:
    size = _windows(op)
    if name == "padding":
        return DenseAttr(bytes(8) if size else b"", TensorType(I64, (size, 2)))
    return tensor((0,) * size, truths=True) if name == "window_reversal" else tensor((1,) * size)


_WINDOWED: Final = frozenset(
    "window_strides padding lhs_dilation rhs_dilation base_dilations window_dilations"
    " window_reversal".split()
)


def default(name: str, kind: str, op: Operation) -> Pairs:
    """Return VHLO's attributes, by name, for an attribute that an op of StableHLO omits.

    Args:
        name: Name of the attribute in StableHLO.
        kind: Kind of the attribute in the op tables.
        op: The op.

    Raises:
        MappingError: The attribute is required.
    """
    if name in _WINDOWED:
        return {name: _window_default(name, op)}
    if name == "window_dimensions":
        raise MappingError("`window_dimensions` is missing")
    if kind == "channel":
        return {"channel_id": integer(0)}
    if kind == "algorithm":
        return dict.fromkeys(ALGORITHM, NO_TYPE)
    if kind == "config":
        typed = op.get("api_version") == IntegerAttr(
            API_VERSIONS.index("API_VERSION_TYPED_FFI"), I32
        )
        return {name: _EMPTY_DICTIONARY if typed else _EMPTY_STRING}
    if kind not in _DEFAULTS:
        raise MappingError(f"`{name}` is missing")
    return {name: _DEFAULTS[kind]}


_SPLATS: Final[Mapping[str, int]] = {
    **dict.fromkeys(_WINDOWED, 1),
    "padding": 0,
    "window_reversal": 0,
}


def is_default_value(name: str, kind: str, value: Attribute) -> bool:
    """Is `value` the default of an optional attribute, so that StableHLO omits the attribute?

    `name` is the attribute's name, `kind` its kind in the op tables.
    """
    if name in _SPLATS and isinstance(value, DenseAttr):
        found = elements(value)
        return found.splat and int.from_bytes(found.raw, "little") == _SPLATS[name]
    if kind in ("ints", "dims"):
        return isinstance(value, DenseAttr) and 0 in getattr(value.type, "sizes", ())
    if kind in ("i32", "i64"):
        usual = 0 if kind == "i32" else -1
        return isinstance(value, IntegerAttr) and value.value == usual
    return value == _DEFAULTS.get(kind)
