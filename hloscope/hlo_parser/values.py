"""Grammars of attribute values, one `Kind` each, for the table of attributes in `spelling`.

A reader takes the text of one value and raises `ParseError` with offsets in it. A writer returns
the text as XLA prints it.

Source: XLA docs "Operation semantics"; StableHLO spec for the names of enumerations.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from hloscope.errors import UnsupportedError
from hloscope.hlo_parser.scanner import fail, inside, split_list
from hloscope.ir import Dims
from hloscope.ops import ConvDimensions, Pairs, Window
from hloscope.support.lazy import pattern


class Kind(Struct, frozen=True):
    """A grammar of attribute values: a function that reads a text, and one that prints a value.

    A value of an attribute that a reader returns is stored in a field of the op.
    """

    read: Callable[[str], Any]
    write: Callable[[Any], str]


# ------------------------------------------------------------------------------ numbers, words


def read_int(text: str) -> int:
    """Return the integer in a text."""
    try:
        return int(text)
    except ValueError:
        fail(f"expected an integer, found `{text}`", text, 0, len(text))


def read_float(text: str) -> float:
    """Return the number in a text, also `inf` and `nan`."""
    try:
        return float(text)
    except ValueError:
        fail(f"expected a number, found `{text}`", text, 0, len(text))


def read_bool(text: str) -> bool:
    """Return the boolean in a text: `true` or `false`, also `1` and `0`."""
    if text in ("true", "1"):
        return True
    if text not in ("false", "0"):
        fail(f"expected `true` or `false`, found `{text}`", text, 0, len(text))
    return False


def write_bool(value: bool) -> str:
    """Return `true` or `false` as text."""
    return "true" if value else "false"


def one_of(*words: str) -> Kind:
    """Return the grammar whose values are the words `words`."""

    def read(text: str) -> str:
        if text not in words:
            fail(f"expected one of {', '.join(words)}, found `{text}`", text, 0, len(text))
        return text

    return Kind(read, str)


def caseless(*words: str) -> Kind:
    """Return the grammar whose values are `words` in any letter case.

    A value is stored as written.
    """
    known = one_of(*words)

    def read(text: str) -> str:
        known.read(text.upper() if text.upper() in words else text)
        return text

    return Kind(read, str)


def renamed(names: dict[str, str]) -> Kind:
    """Return the grammar of words that have another name in StableHLO than in HLO.

    `names` has the name in the op's field by the name in HLO.
    """
    back = {value: key for key, value in names.items()}

    def read(text: str) -> str:
        word = names.get(text)
        if word is None:
            fail(f"expected one of {', '.join(names)}, found `{text}`", text, 0, len(text))
        return word

    return Kind(read, back.__getitem__)


_ESCAPE: Final = pattern(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.))", re.DOTALL)
_NAMED: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_ESCAPED: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "'": "\\'", "\\": "\\\\"}
_SPECIAL: Final = pattern(r"[^ !#-&(-\[\]-~]")


def unquote(text: str) -> str:
    r"""Return the string of a double-quoted C literal; return other text unchanged.

    >>> unquote('"a\\"b\\303\\251"')
    'a"bé'
    """
    if not (len(text) >= 2 and text[0] == text[-1] == '"'):
        return text
    body = text[1:-1]
    if "\\" not in body:
        return body
    out = bytearray()
    at = 0
    for escape in _ESCAPE.finditer(body):
        out += body[at : escape.start()].encode()
        octal, hexa, char = escape.groups()
        if octal or hexa:
            out.append(int(octal, 8) & 255 if octal else int(hexa, 16))
        else:
            out += _NAMED.get(char, char).encode()
        at = escape.end()
    out += body[at:].encode()
    return out.decode("utf-8", "surrogateescape")


def quote(value: str) -> str:
    r"""Return a double-quoted literal of `value` with C escapes, as XLA writes them.

    >>> print(quote("it's"))
    "it\'s"
    """

    def escape(found: re.Match[str]) -> str:
        char = found.group()
        known = _ESCAPED.get(char)
        if known is not None:
            return known
        return "".join(f"\\{byte:03o}" for byte in char.encode("utf-8", "surrogateescape"))

    return f'"{_SPECIAL.sub(escape, value)}"'


def read_string(text: str) -> str:
    """Return the string of a double-quoted literal.

    Raises:
        ParseError: The text is not quoted.
    """
    if not text.startswith('"'):
        fail(f"expected a string, found `{text}`", text, 0, len(text))
    return unquote(text)


# ------------------------------------------------------------------------------------- lists


def read_dims(text: str) -> Dims:
    """Return the integers in the text `{0,1}`; a bare integer counts as a list of one."""
    inner = text[1:-1] if text.startswith("{") and text.endswith("}") else text
    if not inner or inner.isspace():
        if text[:1] != "{":
            fail("expected `{…}`", text, 0, len(text))
        return ()
    try:
        return tuple(map(int, inner.split(",")))
    except ValueError:
        fail(f"expected a list of integers, found `{text}`", text, 0, len(text))


def read_devices(text: str) -> Dims:
    """Return the device numbers in the text `{0,1}`.

    >>> read_devices("{0,1}")
    (0, 1)
    """
    values = read_dims(text)
    if any(value.bit_length() > 63 for value in values):
        fail(f"numbers of devices have 64 bits, found `{text}`", text, 0, len(text))
    return values


def write_dims(values: Dims) -> str:
    """Return integers as the text `{0,1}`."""
    return f"{{{','.join(map(str, values))}}}"


def read_dim(text: str) -> int:
    """Return the integer in the text `{1}`, which must have one."""
    values = read_dims(text)
    if len(values) != 1:
        fail(f"expected one dimension, found {len(values)}", text, 0, len(text))
    return values[0]


def read_first_dim(text: str) -> int:
    """Return the first integer in the text `{1,0}`, as XLA does where it needs one."""
    values = read_dims(text)
    if not values:
        fail("expected a dimension, found none", text, 0, len(text))
    return values[0]


def write_same(pair: Dims) -> str:
    """Return the text `{1}` for (1, 1): HLO has one dimension for both operands."""
    if pair[0] != pair[1]:
        raise UnsupportedError("HLO text has no different split and concat dimensions")
    return f"{{{pair[0]}}}"


def read_pairs(text: str) -> Pairs:
    """Return the pairs in the text `{{0,1},{1,2}}`."""
    pairs: list[tuple[int, int]] = []
    for part, at in split_list(inside(text)):
        values = read_devices(part)
        if len(values) != 2:
            fail(f"expected a pair, found `{part}`", text, 1 + at, 1 + at + len(part))
        pairs.append((values[0], values[1]))
    return tuple(pairs)


def write_pairs(pairs: Pairs) -> str:
    """Return pairs as the text `{{0,1},{1,2}}`."""
    return f"{{{','.join(map(write_dims, pairs))}}}"


# --------------------------------------------------------------------- slices, padding, windows

_RANGE: Final = pattern(r"\s*\[\s*(-?\d+)\s*:\s*(-?\d+)\s*(?::\s*(-?\d+)\s*)?\]\s*")


def read_ranges(text: str) -> tuple[Dims, Dims, Dims]:
    """Return starts, limits and strides in the text `{[0:8], [2:10:4]}`."""
    rows: list[tuple[int, int, int]] = []
    for part, at in split_list(inside(text)):
        found = _RANGE.fullmatch(part)
        if found is None:
            fail(
                f"expected `[start:limit:stride]`, found `{part}`", text, at + 1, at + 1 + len(part)
            )
        start, limit, stride = found.groups(default="1")
        rows.append((int(start), int(limit), int(stride)))
    starts, limits, strides = zip(*rows, strict=True) if rows else ((), (), ())
    return starts, limits, strides


def write_ranges(value: tuple[Dims, Dims, Dims]) -> str:
    """Return starts, limits and strides as the text `{[0:8:1], [2:10:4]}`.

    Strides are omitted if all of them are 1.
    """
    if all(stride == 1 for stride in value[2]):
        parts = [f"[{start}:{limit}]" for start, limit, _ in zip(*value, strict=True)]
    else:
        rows = zip(*value, strict=True)
        parts = [f"[{start}:{limit}:{stride}]" for start, limit, stride in rows]
    return f"{{{', '.join(parts)}}}"


def read_padding(text: str) -> tuple[Dims, Dims, Dims]:
    """Return low, high and interior padding in the text `0_1x2_3_1`.

    An empty text has no dimensions.
    """
    rows: list[tuple[int, int, int]] = []
    for part in unquote(text).split("x") if text not in ('""', "") else ():
        try:
            low, high, *rest = map(int, part.split("_"))
            (interior,) = rest or (0,)
        except ValueError:
            fail(f"expected `low_high` or `low_high_interior`, found `{part}`", text, 0, len(text))
        rows.append((low, high, interior))
    lows, highs, interiors = zip(*rows, strict=True) if rows else ((), (), ())
    return lows, highs, interiors


def write_padding(value: tuple[Dims, Dims, Dims]) -> str:
    """Return padding as the text `0_1x2_3`.

    Interior padding is included if any dimension has some.
    """
    inner = any(value[2])
    parts = (
        f"{low}_{high}_{interior}" if inner else f"{low}_{high}"
        for low, high, interior in zip(*value, strict=True)
    )
    return "x".join(parts) or '""'


_WINDOW_FIELD: Final = pattern(r"\s*([a-z_]+)\s*=\s*([-\dx_]+)")
_WINDOW_FIELDS: Final = ("size", "stride", "pad", "lhs_dilate", "rhs_dilate", "rhs_reversal")


def read_window(text: str) -> Window:
    """Return the window in the text `{size=3x3 stride=2x2 pad=0_1x0_1}`."""
    inner = inside(text)
    fields: dict[str, str] = {}
    at = 0
    while (found := _WINDOW_FIELD.match(inner, at)) is not None:
        name = found.group(1)
        if name not in _WINDOW_FIELDS:
            known = ", ".join(_WINDOW_FIELDS)
            fail(f"unknown window field `{name}`; known: {known}", text, 1 + found.start(1))
        if name in fields:
            fail(f"window field `{name}` occurs twice", text, 1 + found.start(1))
        fields[name] = found.group(2)
        at = found.end()
    if inner[at:].strip():
        fail(f"expected `field=values`, found `{inner[at:].strip()}`", text, 1 + at, len(text) - 1)
    try:
        columns = {
            name: tuple(map(int, values.split("x")))
            for name, values in fields.items()
            if name != "pad"
        }
        padding: Pairs = tuple(
            (int(low), int(high))
            for low, high in (p.split("_") for p in fields.get("pad", "").split("x") if p)
        )
    except ValueError:
        fail(f"window field is not a list of integers in `{text}`", text, 0, len(text))
    # All fields must have as many entries as `size`. Only XLA allows a shorter `rhs_reversal`.
    rank = len(columns.get("size", ()))
    for name in fields:
        length = len(padding) if name == "pad" else len(columns[name])
        if length != rank and not (name == "rhs_reversal" and length < rank):
            fail(
                f"window field `{name}` has {length} entries, `size` has {rank}", text, 0, len(text)
            )
    ones = (1,) * rank
    reversal = columns.get("rhs_reversal", ())
    return Window(
        columns.get("size", ()),
        columns.get("stride", ones),
        padding or ((0, 0),) * rank,
        columns.get("lhs_dilate", ones),
        columns.get("rhs_dilate", ones),
        (*map(bool, reversal), *(False,) * (rank - len(reversal))),  # XLA allows fewer
    )


def write_window(window: Window) -> str:
    """Return the text of a window; fields with default values are omitted."""
    parts: list[str] = []

    def field(name: str, values: Dims, default: int) -> None:
        if any(value != default for value in values):
            parts.append(f"{name}={'x'.join(map(str, values))}")

    if window.sizes:
        parts.append(f"size={'x'.join(map(str, window.sizes))}")
    field("stride", window.strides, 1)
    if any(pair != (0, 0) for pair in window.padding):
        parts.append(f"pad={'x'.join(f'{low}_{high}' for low, high in window.padding)}")
    field("lhs_dilate", window.base_dilations, 1)
    field("rhs_dilate", window.window_dilations, 1)
    field("rhs_reversal", tuple(map(int, window.reversal)), 0)
    return f"{{{' '.join(parts)}}}"


MOST_LABELS: Final = 1 << 10
"""Maximum number of labelled dimensions of a convolution's operand, `01bf`."""
_LABELS: Final = pattern(r"([bf\d?]*)_([io\d?]*)->([bf\d?]*)")


def read_dim_labels(text: str) -> ConvDimensions:
    """Return the dimension numbers in the text `b01f_01io->b01f`.

    `?` marks a dimension without a role.
    """
    found = _LABELS.fullmatch(unquote(text))
    if found is None:
        fail(f"expected `input_kernel->output`, found `{text}`", text, 0, len(text))
    sides: list[tuple[int, int, Dims]] = []
    for number, (labels, first, second) in enumerate(
        zip(found.groups(), "bib", "fof", strict=True), 1
    ):
        digits = sorted((int(c), at) for at, c in enumerate(labels) if c.isdecimal())
        whole = labels.count(first) == labels.count(second) == 1
        if not whole or [digit for digit, _ in digits] != list(range(len(digits))):
            fail(
                f"expected `{first}`, `{second}` and each spatial digit once in `{labels}`",
                text,
                found.start(number),
                found.end(number),
            )
        spatial = tuple(at for _, at in digits)
        sides.append((labels.index(first), labels.index(second), spatial))
    counts = {len(side[2]) for side in sides}
    if len(counts) != 1:
        fail("input, kernel and output differ in their spatial dimensions", text, 0, len(text))
    (input_, kernel, output) = sides
    return ConvDimensions(*input_, *kernel, *output)


def write_dim_labels(dims: ConvDimensions) -> str:
    """Return dimension numbers as the text `b01f_01io->b01f`.

    `?` marks a dimension without a role.

    Raises:
        ValueError: There are more than `MOST_LABELS` labels.
    """

    def side(first: str, at: int, second: str, other: int, spatial: Dims) -> str:
        labels = dict(zip(spatial, map(str, range(len(spatial))), strict=True))
        labels |= {at: first, other: second}
        if max(labels) >= MOST_LABELS:
            raise ValueError(f"a dimension of number {max(labels):,}")
        return "".join(labels.get(i, "?") for i in range(max(labels) + 1))

    input_ = side("b", dims.input_batch, "f", dims.input_feature, dims.input_spatial)
    kernel = side(
        "i", dims.kernel_input_feature, "o", dims.kernel_output_feature, dims.kernel_spatial
    )
    output = side("b", dims.output_batch, "f", dims.output_feature, dims.output_spatial)
    return f"{input_}_{kernel}->{output}"


_PRECISIONS: Final = ("default", "high", "highest", "packed_nibble")


def read_precisions(text: str) -> tuple[str, ...]:
    """Return the precisions in the text `{highest,default}`, as StableHLO spells them."""
    words = [word for word, _ in split_list(inside(text))]
    for word in words:
        if word.lower() not in _PRECISIONS:
            known = ", ".join(_PRECISIONS)
            fail(f"expected one of {known}, found `{word}`", text, 0, len(text))
    return tuple([word.upper() for word in words])


def write_precisions(words: tuple[str, ...]) -> str:
    """Return precisions as the text `{highest,default}`."""
    return f"{{{','.join(words).lower()}}}"


# ------------------------------------------------------------------------------- called names


def read_call(text: str) -> tuple[str, ...]:
    """Return the name of the one computation that the text names, as a tuple of one.

    A text `{…}`, a computation written in place of a name, is returned itself.
    """
    return (text.removeprefix("%"),)


def read_calls(text: str) -> tuple[str, ...]:
    """Return the names in the text `{%a, %b}`."""
    return tuple(part.removeprefix("%") for part, _ in split_list(inside(text)))


KINDS: Final[dict[str, Kind]] = {
    "int": Kind(read_int, str),
    "float": Kind(
        read_float, lambda value: f"{value:g}" if value == float(f"{value:g}") else repr(value)
    ),
    "bool": Kind(read_bool, write_bool),
    "word": Kind(str, str),
    "string": Kind(read_string, quote),
    "dims": Kind(read_dims, write_dims),
    "dim": Kind(read_dim, lambda value: f"{{{value}}}"),
    "first_dim": Kind(read_first_dim, lambda value: f"{{{value}}}"),
    "dim2": Kind(lambda text: (read_dim(text),) * 2, write_same),
    "pairs": Kind(read_pairs, write_pairs),
    "ranges": Kind(read_ranges, write_ranges),
    "padding": Kind(read_padding, write_padding),
    "window": Kind(read_window, write_window),
    "dim_labels": Kind(read_dim_labels, write_dim_labels),
    "precision": Kind(read_precisions, write_precisions),
    "fusion_kind": one_of("kLoop", "kInput", "kOutput", "kCustom"),
    "direction": one_of("EQ", "NE", "GE", "GT", "LE", "LT"),
    "compare_type": one_of("FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"),
    "transpose_a": one_of("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT", "TRANSPOSE_INVALID"),
    "api_version": caseless(
        "API_VERSION_ORIGINAL",
        "API_VERSION_STATUS_RETURNING",
        "API_VERSION_STATUS_RETURNING_UNIFIED",
        "API_VERSION_TYPED_FFI",
        "API_VERSION_UNSPECIFIED",  # printed by XLA itself, for example in torch-neuronx dumps
    ),
    "schedule": caseless("SCHEDULE_NONE", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST"),
    "padding_type": one_of("PADDING_INVALID", "PADDING_VALID", "PADDING_SAME"),
    "convolution_kind": one_of("fprop", "dgrad", "wgrad", "unset"),
    "fft_type": one_of("FFT", "IFFT", "RFFT", "IRFFT"),
    "distribution": renamed({"rng_uniform": "UNIFORM", "rng_normal": "NORMAL"}),
    "rng_algorithm": renamed(
        {"rng_default": "DEFAULT", "rng_three_fry": "THREE_FRY", "rng_philox": "PHILOX"}
    ),
}
"""Grammars by the names that the table of attributes in `spelling` uses."""
