"""An op as written → the op of the graph: pretty forms to attributes, attributes to fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from hloscope.errors import did_you_mean
from hloscope.ir.op import REQUIRED
from hloscope.ir.types import TensorType, Type
from hloscope.ops.base import Op
from hloscope.ops.contraction import DotDimensions
from hloscope.ops.control import Call, Return, UnknownOp
from hloscope.ops.convolution import ConvDimensions
from hloscope.ops.windows import Window
from hloscope.source import Source
from hloscope.stablehlo.attributes import (
    READERS,
    read_dims,
    read_enum,
    read_list,
    read_string,
    read_struct,
)
from hloscope.stablehlo.lexer import fail, shown
from hloscope.stablehlo.spelling import SPELLINGS, Attribute, Spelling

Pairs: TypeAlias = tuple[tuple[str, str], ...]
Texts: TypeAlias = dict[str, str]


@dataclass(slots=True)
class Written:
    """An op as it stands in the text.

    Attributes:
        name: Full name, `stablehlo.add`.
        start: Where the name stands, and `end` where it ends.
        pretty: Is it in the pretty form?
        operands: Names of the values, without `%`, and where they stand.
        words: What else the pretty form has: words, symbols, strings, `[…]`.
        attributes: Texts of keywords of the pretty form, attributes and properties.
        at: Where the attributes stand.
        operand_types: Types of the operands as far as they are written.
        results: Types of the results.
        regions: Number of regions.
    """

    name: str
    start: int
    end: int
    pretty: bool = True
    operands: list[tuple[str, int]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    attributes: Texts = field(default_factory=dict)
    at: dict[str, tuple[int, int]] = field(default_factory=dict)
    operand_types: tuple[Type, ...] = ()
    results: tuple[Type, ...] = ()
    regions: int = 0


@dataclass(frozen=True, slots=True)
class Template:
    """An op without its operands' names: what equal texts share.

    Attributes:
        op: The op.
        results: Types of its results.
        extras: Attributes that belong to no field.
        callees: Names of the functions it calls.
        applies: The op a compact reduction applies.
        swapped: Operands stand in pairs (input, initial value).
    """

    op: Op
    results: tuple[Type, ...]
    extras: Pairs = ()
    callees: tuple[str, ...] = ()
    applies: str = ""
    swapped: bool = False


def build(written: Written, source: Source, aliases: Mapping[str, str]) -> Template:
    """Return what the text says, operands and regions left out.

    Raises:
        ParseError: The op or an attribute is unknown, missing or not readable.
    """
    name = written.name
    attributes = {k: _resolved(v, aliases) for k, v in written.attributes.items()}
    words = written.words
    if name in ("func.call", "call"):
        callee = words[0] if words else attributes.pop("callee", "")
        if not callee.startswith("@"):
            fail(f"expected the function `{name}` calls", source, written.start, written.end)
        extras = tuple(attributes.items())
        return Template(Call(), written.results, extras, (read_string(callee),))
    if name.rpartition(".")[2] == "return" and not written.results:
        return Template(Return(), (), tuple(attributes.items()))
    spelling = SPELLINGS.get(name)
    if spelling is None:
        return _unknown(written, source, attributes)
    applies = ""
    if written.pretty:
        if "applies" in words:
            applies = [*words, ""][words.index("applies") + 1]
            if not applies:
                fail(f"expected the op `{name}` applies", source, written.start, written.end)
        _from_pretty(spelling, words, attributes, written, source)
    try:
        _flatten(attributes)
    except ValueError as error:
        message = f"attributes of `{name}` cannot be read: expected {error}"
        fail(message, source, written.start, written.end)
    return _known(spelling, written, attributes, source, applies)


def _resolved(text: str, aliases: Mapping[str, str]) -> str:
    return aliases.get(text, text) if text.startswith("#") else text


def _unknown(written: Written, source: Source, attributes: Texts) -> Template:
    dialect = written.name.partition(".")[0]
    if dialect in ("stablehlo", "chlo") and not _LATER.fullmatch(written.name):
        hint = did_you_mean(written.name, SPELLINGS)
        fail(f"unknown op `{written.name}`{hint}", source, written.start, written.end)
    settings = [("", word) for word in written.words]
    op = UnknownOp(written.name, (*settings, *attributes.items()))
    return Template(op, written.results)


_LATER: Final = re.compile(
    r"(?:stablehlo|chlo)\."
    r"(?:trace|custom_reserved|async_start|async_done|scan|dynamic_reshape|minimum_broadcast_shapes"
    r"|dynamic_conv_v2|rank_specialization_cluster(?:_yield)?|scaled_dot|ragged_all_to_all|.*_start|.*_done)"
)
"""Ops of the dialects that have no class; kept as they are."""


# --------------------------------------------------------------------- pretty forms


def _from_pretty(
    spelling: Spelling, words: list[str], attributes: Texts, written: Written, source: Source
) -> None:
    """Give keywords and words of the pretty form the names of the attributes they stand for."""
    own = {a.pretty: a.name for a in spelling.attributes.values() if a.pretty != a.name}
    for pretty, name in own.items():
        if pretty in attributes:
            attributes[name] = attributes.pop(pretty)
    reader = _PRETTY.get(spelling.name)
    if reader is not None:
        try:
            reader(words, attributes)
        except (ValueError, IndexError) as error:
            what = str(error) if isinstance(error, ValueError) else "more arguments"
            message = f"`{spelling.name}` is not written in its pretty form: expected {what}"
            fail(message, source, written.start, written.end)


def _constant(words: list[str], attributes: Texts) -> None:
    attributes.setdefault("value", words[0] if words else "")


def _compare(words: list[str], attributes: Texts) -> None:
    for name, word in zip(("comparison_direction", "compare_type"), words, strict=False):
        attributes[name] = word


def _slice(words: list[str], attributes: Texts) -> None:
    parts = [[int(n) for n in part.split(":")] for part in read_list(words[0])]
    if any(len(part) not in (2, 3) for part in parts):
        raise ValueError("`start:limit` or `start:limit:stride` for each dimension")
    attributes["start_indices"] = str([part[0] for part in parts])
    attributes["limit_indices"] = str([part[1] for part in parts])
    attributes["strides"] = str([part[2] if len(part) > 2 else 1 for part in parts])


def _index(words: list[str], attributes: Texts) -> None:
    attributes["index"] = words[0].strip("[] ")


def _target(words: list[str], attributes: Texts) -> None:
    attributes["call_target_name"] = words[0]


def _composite(words: list[str], attributes: Texts) -> None:
    attributes["name"] = words[0]


def _format(words: list[str], attributes: Texts) -> None:
    found = re.fullmatch(r"e(\d+)m(\d+)", attributes.pop("format", ""))
    if found is None:
        raise ValueError("`format = e5m10`")
    attributes["exponent_bits"], attributes["mantissa_bits"] = found[1], found[2]


def _dot(words: list[str], attributes: Texts) -> None:
    for pretty, kind in (("batching_dims", "batching"), ("contracting_dims", "contracting")):
        sides = re.fullmatch(r"(\[.*\])\s*x\s*(\[.*\])", attributes.pop(pretty, "[] x []"))
        if sides is None:
            raise ValueError(f"`{pretty} = [0] x [0]`")
        attributes[f"lhs_{kind}_dimensions"] = sides[1]
        attributes[f"rhs_{kind}_dimensions"] = sides[2]


def _convolution(words: list[str], attributes: Texts) -> None:
    attributes["dimension_numbers"] = attributes.pop("dim_numbers", "")
    names = {
        "stride": "window_strides",
        "pad": "padding",
        "lhs_dilate": "lhs_dilation",
        "rhs_dilate": "rhs_dilation",
        "reverse": "window_reversal",
    }
    window = read_struct(attributes.pop("window", "{}"))
    for name, text in window.items():
        if name not in names:
            raise ValueError(f"one of {', '.join(names)} in `window`, found `{name}`")
        attributes[names[name]] = text


_PRETTY: Final[dict[str, Callable[[list[str], Texts], None]]] = {
    "stablehlo.constant": _constant,
    "chlo.constant": _constant,
    "stablehlo.compare": _compare,
    "stablehlo.slice": _slice,
    "stablehlo.get_tuple_element": _index,
    "stablehlo.custom_call": _target,
    "stablehlo.composite": _composite,
    "stablehlo.reduce_precision": _format,
    "stablehlo.dot_general": _dot,
    "stablehlo.convolution": _convolution,
    "stablehlo.dynamic_conv": _convolution,
}


# ------------------------------------------------------------- attributes to fields


def _flatten(attributes: Texts) -> None:
    """Replace structures by their parts."""
    for name in (
        "dot_dimension_numbers",
        "ragged_dot_dimension_numbers",
        "scatter_dimension_numbers",
    ):
        if name in attributes:
            parts = read_struct(attributes.pop(name))
            if "dot_dimension_numbers" in parts:
                parts |= read_struct(parts.pop("dot_dimension_numbers"))
            attributes.update(parts)
    if attributes.get("dimension_numbers", "").startswith(("#stablehlo.gather", "#mhlo.gather")):
        attributes.update(read_struct(attributes.pop("dimension_numbers")))
    if "channel_handle" in attributes:
        parts = read_struct(attributes.pop("channel_handle"))
        attributes["channel_id"] = parts.get("handle", "0")
        attributes["channel_type"] = parts.get("type", "0")


def _known(
    spelling: Spelling, written: Written, attributes: Texts, source: Source, applies: str
) -> Template:
    values: dict[str, Any] = {}
    settings: list[tuple[str, str]] = []
    callees: tuple[str, ...] = ()
    for attribute in spelling.attributes.values():
        text = attributes.pop(attribute.name, None)
        if text is None:
            if attribute.required:
                message = f"`{spelling.name}` needs attribute `{attribute.name}`"
                fail(message, source, written.start, written.end)
        elif attribute.kind == "setting":
            settings.append((attribute.field, _setting(text)))
        elif attribute.kind == "call":
            callees = tuple(map(read_string, re.findall(r'@(?:"[^"]*"|[\w$.-]+)', text)))
        else:
            values[attribute.field] = _read(attribute, text, spelling, written, source)
    if settings:
        values["settings"] = tuple(settings)
    special = _SPECIAL.get(spelling.name)
    try:
        if special is not None:
            special(values, written)
    except (ValueError, IndexError) as error:
        what = error if isinstance(error, ValueError) else "other dimensions"
        message = f"attributes of `{spelling.name}` do not fit: expected {what}"
        fail(message, source, written.start, written.end)
    for name, default in spelling.op.fields.items():
        if default is REQUIRED and name not in values:
            values[name] = _DEFAULTS.get(name, ())
    swapped = written.pretty and "init" in written.words
    extras = tuple(attributes.items())
    return Template(spelling.op(**values), written.results, extras, callees, applies, swapped)


_DEFAULTS: Final[dict[str, object]] = {"index_vector_dim": 0, "dimension": -1}


def _setting(text: str) -> str:
    """Enums by their value; everything else as written."""
    if text.startswith("#stablehlo<") or text.startswith("#chlo<"):
        return read_enum(text)
    found = re.fullmatch(r"(-?\d+)\s*:\s*i\d+", text)
    return found[1] if found else text


def _read(
    attribute: Attribute, text: str, spelling: Spelling, written: Written, source: Source
) -> Any:
    try:
        return READERS[attribute.kind](text)
    except ValueError as error:
        message = f"expected {error} for `{attribute.name}` of `{spelling.name}`"
        start, end = written.at.get(attribute.name, (written.start, written.end))
        return fail(f"{message}, found `{shown(text)}`", source, start, end)


def _rank(written: Written, operand: int = 0) -> int:
    types = written.operand_types or written.results
    type = types[min(operand, len(types) - 1)]
    return type.rank if isinstance(type, TensorType) else 0


def _make_case(values: dict[str, Any], written: Written) -> None:
    values["predicated"] = True


def _make_sort(values: dict[str, Any], written: Written) -> None:
    dimension = values.get("dimension", -1)
    values["dimension"] = dimension + _rank(written) if dimension < 0 else dimension


def _make_dots(values: dict[str, Any], written: Written) -> None:
    names = ("lhs_batching", "rhs_batching", "lhs_contracting", "rhs_contracting")
    dims = [values.pop(f"{name}_dimensions", ()) for name in names]
    values["dimensions"] = DotDimensions(*dims)


def _make_window(values: dict[str, Any], written: Written) -> None:
    sizes = values.pop("window_dimensions", None)
    rank = _rank(written)
    sizes = (1,) * rank if sizes is None else sizes
    ones = (1,) * len(sizes)
    values["window"] = Window(
        sizes,
        values.pop("window_strides", ones),
        values.pop("padding", ((0, 0),) * len(sizes)),
        values.pop("base_dilations", ones),
        values.pop("window_dilations", ones),
        (False,) * len(sizes),
    )


def _make_convolution(values: dict[str, Any], written: Written) -> None:
    values["dimensions"] = dims = read_conv_dimensions(values.pop("dimension_numbers"))
    kernel = written.operand_types[1]
    if not isinstance(kernel, TensorType) or kernel.rank != len(dims.kernel_spatial) + 2:
        raise ValueError(f"a kernel of rank {len(dims.kernel_spatial) + 2}")
    sizes = tuple(kernel.sizes[d] or 0 for d in dims.kernel_spatial)
    ones = (1,) * len(sizes)
    values["window"] = Window(
        sizes,
        values.pop("window_strides", ones),
        values.pop("padding", ((0, 0),) * len(sizes)),
        values.pop("lhs_dilation", ones),
        values.pop("rhs_dilation", ones),
        values.pop("window_reversal", (False,) * len(sizes)),
    )


def read_conv_dimensions(text: str) -> ConvDimensions:
    """Read `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`, also inside `#stablehlo.conv<…>`.

    >>> read_conv_dimensions("[b, 0, f]x[0, i, o]->[b, 0, f]").kernel_spatial
    (0,)
    """
    if re.match(r"#\w+\.conv<\s*raw\b", text):
        parts = dict(re.findall(r"(\w+?)(?:_dimensions?)\s*=\s*(\[[^]]*\]|\d+)", text))
        read = {k: read_dims(v) if "spatial" in k else int(v) for k, v in parts.items()}
        if set(read) != set(ConvDimensions.__dataclass_fields__):
            raise ValueError("all nine dimensions of the raw form")
        return ConvDimensions(**read)  # type: ignore[arg-type]  # the names say which is which
    found = re.findall(r"\[([^]]*)\]", text)
    if len(found) != 3:
        raise ValueError("`[b, 0, f]x[0, i, o]->[b, 0, f]`")
    places = [[part.strip() for part in side.split(",")] for side in found]

    def side(labels: list[str], first: str, second: str) -> tuple[int, int, tuple[int, ...]]:
        spatial = [label for label in labels if label.isdecimal()]
        if {first, second, *spatial} - set(labels) or len(spatial) + 2 != len(labels):
            raise ValueError(f"dimensions `{first}`, `{second}` and numbers")
        order = tuple(labels.index(str(i)) for i in range(len(spatial)))
        return labels.index(first), labels.index(second), order

    base, kernel, result = places
    return ConvDimensions(
        *side(base, "b", "f"),
        *side(kernel, "i", "o"),
        *side(result, "b", "f"),
    )


_SPECIAL: Final[dict[str, Callable[[dict[str, Any], Written], None]]] = {
    "stablehlo.if": _make_case,
    "stablehlo.sort": _make_sort,
    "stablehlo.dot_general": _make_dots,
    "chlo.ragged_dot": _make_dots,
    "stablehlo.reduce_window": _make_window,
    "stablehlo.select_and_scatter": _make_window,
    "stablehlo.convolution": _make_convolution,
    "stablehlo.dynamic_conv": _make_convolution,
}
