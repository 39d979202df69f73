"""Readers of attribute texts: numbers, arrays, `dense<…>`, enums, structures.

Every reader takes the text of one attribute and raises `ValueError` saying what it expected.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from hloscope.ir.types import Dims
from hloscope.ops.base import Pairs
from hloscope.stablehlo.types import split_types

_INT: Final = re.compile(r"-?(?:0x[0-9A-Fa-f]+|\d+)")
_SHAPE: Final = re.compile(r":\s*(?:tensor|vector)<((?:\d+\s*x\s*)*)([su]?i\d+|index)\s*>\s*$")
_LIST: Final = re.compile(r"[\[\]]|-?\d+|true|false")


def read_int(text: str) -> int:
    """An integer, `3 : i64` or `3`.

    >>> read_int("-3 : i64")
    -3
    """
    found = re.fullmatch(r"(-?\d+)(?:\s*:\s*[\w.]+)?|dense<(-?\d+)>\s*:\s*tensor<\w+>", text)
    if found is None:
        raise ValueError("an integer")
    return int(found[1] or found[2])


def read_float(text: str) -> float:
    """A number, `1.0e-3 : f32`."""
    number = text.partition(":")[0].strip()
    try:
        return float(number)
    except ValueError:
        raise ValueError("a number") from None


def read_bool(text: str) -> bool:
    """`true`, `false`; a unit attribute is true.

    >>> read_bool("true"), read_bool("unit"), read_bool("false")
    (True, True, False)
    """
    if text not in ("true", "false", "unit", ""):
        raise ValueError("`true` or `false`")
    return text != "false"


def read_string(text: str) -> str:
    """A string without its quotes; also a symbol's name."""
    text = text.removeprefix("@")
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return re.sub(r'\\([\\"])', r"\1", text[1:-1])
    return text


def read_enum(text: str) -> str:
    """The value of `#stablehlo<comparison_direction EQ>`, or the bare word.

    >>> read_enum("#stablehlo<fft_type FFT>"), read_enum("FFT")
    ('FFT', 'FFT')
    """
    found = re.fullmatch(r"#\w+<\s*[\w.]+\s+(\w+)\s*>|#[\w.]+<\s*(\w+)\s*>|\"?(\w+)\"?", text)
    if found is None:
        raise ValueError("a word")
    return found[1] or found[2] or found[3]


def read_nested(text: str) -> tuple[Dims, list[int]]:
    """Sizes and elements (booleans as 0 and 1) of any spelling of an integer array.

    >>> read_nested("dense<[[1, 2], [3, 4]]> : tensor<2x2xi64>")
    ((2, 2), [1, 2, 3, 4])
    >>> read_nested("dense<0> : tensor<3xi64>")
    ((3,), [0, 0, 0])
    >>> read_nested("array<i64: 1, 2>")
    ((2,), [1, 2])
    """
    text = text.strip()
    if text.startswith("array<"):
        _, _, inside = text[6:-1].partition(":")
        numbers = [_number(x) for x in _LIST.findall(inside)]
        return (len(numbers),), numbers
    if text.startswith("["):
        parts = re.sub(r":\s*[su]?i\d+", "", text)
        sizes, numbers = _nested(parts)
        return sizes, numbers
    shape = _SHAPE.search(text)
    if not text.startswith("dense<") or shape is None:
        raise ValueError("an array of integers")
    given = tuple(int(n) for n in shape[1].replace(" ", "").split("x") if n)
    return given, _dense(text[6 : text.rindex(">", 0, shape.start())].strip(), given, shape[2])


def _dense(inside: str, sizes: Dims, element: str) -> list[int]:
    count = 1
    for size in sizes:
        count *= size
    if inside.startswith('"'):
        data = bytes.fromhex(inside.strip('"')[2:])
        width = 8 if element == "index" else max(1, int(element.lstrip("sui")) // 8)
        signed = not element.startswith("u")
        numbers = [
            int.from_bytes(data[i : i + width], "little", signed=signed)
            for i in range(0, len(data), width)
        ]
    else:
        numbers = [_number(x) for x in _LIST.findall(inside) if x not in "[]"]
    if len(numbers) == 1 and not inside.startswith("["):
        numbers *= count
    if len(numbers) != count:
        raise ValueError(f"{count} elements, found {len(numbers)}")
    return numbers


def _number(text: str) -> int:
    return {"true": 1, "false": 0}[text] if text in ("true", "false") else int(text)


def _nested(text: str) -> tuple[Dims, list[int]]:
    depth, sizes, numbers = 0, [0] * 8, []
    for token in _LIST.findall(text):
        if token == "[":
            depth += 1
            if depth > 1:
                sizes[depth - 2] += 1
        elif token == "]":
            depth -= 1
        else:
            numbers.append(_number(token))
    deepest = 0
    while deepest < 7 and sizes[deepest]:
        deepest += 1
    outer = 1
    dims = []
    for level in range(deepest):
        dims.append(sizes[level] // outer)
        outer *= dims[-1]
    return (*dims, len(numbers) // max(outer, 1)), numbers


def read_dims(text: str) -> Dims:
    """A list of integers in any spelling.

    >>> read_dims("[1, 0]"), read_dims("array<i64>"), read_dims("dense<2> : tensor<2xi64>")
    ((1, 0), (), (2, 2))
    """
    return tuple(read_nested(text)[1])


def read_bools(text: str) -> tuple[bool, ...]:
    """A list of booleans in any spelling."""
    if text.strip().startswith("dense<"):
        text = text.replace("xi1>", "xi8>").replace("<i1>", "<i8>")
    return tuple(bool(x) for x in read_nested(text)[1])


def read_pairs(text: str) -> Pairs:
    """A list of pairs: `dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>`, `[[0, 1]]`."""
    _, numbers = read_nested(text)
    if len(numbers) % 2:
        raise ValueError("pairs of integers")
    return tuple(zip(numbers[::2], numbers[1::2], strict=True))


def read_groups(text: str) -> str:
    """Replica groups in HLO's list notation; other notations as written.

    >>> read_groups("dense<[[0, 1], [2, -1]]> : tensor<2x2xi64>")
    '{{0,1},{2}}'
    """
    if not text.startswith("dense<"):
        return text
    sizes, numbers = read_nested(text)
    if len(sizes) != 2:
        raise ValueError("a table of replicas")
    rows = [numbers[i * sizes[1] : (i + 1) * sizes[1]] for i in range(sizes[0])]
    groups = [",".join(str(n) for n in row if n >= 0) for row in rows]
    return "{" + ",".join("{" + group + "}" for group in groups) + "}"


def read_struct(text: str) -> dict[str, str]:
    """The parts of `#stablehlo.gather<offset_dims = [1], index_vector_dim = 1>`.

    >>> read_struct("#stablehlo.channel_handle<handle = 1, type = 0>")
    {'handle': '1', 'type': '0'}
    """
    found = re.fullmatch(r"(?:#[\w.]+\s*)?[<{](.*)[>}]", text, re.DOTALL)
    if found is None:
        raise ValueError("a structure `#name<key = value, …>`")
    parts = (part.partition("=") for part in split_types(found[1]) if part)
    return {name.strip(): value.strip() for name, _, value in parts}


def read_list(text: str) -> list[str]:
    """The parts of `[…]`."""
    if not (text.startswith("[") and text.endswith("]")):
        raise ValueError("a list `[…]`")
    return split_types(text[1:-1])


READERS: Final[dict[str, Callable[[str], Any]]] = {
    "int": read_int,
    "float": read_float,
    "bool": read_bool,
    "string": read_string,
    "enum": read_enum,
    "dims": read_dims,
    "bools": read_bools,
    "pairs": read_pairs,
    "groups": read_groups,
    "text": str,
}
"""Reader of each kind of attribute in the table of `spelling`."""
