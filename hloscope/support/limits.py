"""Limits of inputs, equal for every language; larger inputs are refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Final

from hloscope.errors import ParseError, UnsupportedError
from hloscope.support.lazy import lazy, pattern
from hloscope.support.source import Source, Span

if TYPE_CHECKING:
    import json
else:
    json = lazy("json")

MOST_DIGITS: Final = 4000
"""Maximum digits of a number in a text: Python's own limit, since more take quadratic time."""
MOST_NESTING: Final = 64
"""Maximum depth of nested types and attributes."""
MOST_RANK: Final = 1 << 10
"""Maximum number of dimensions of an array whose sizes are not listed in its type."""
MOST_LEAVES: Final = 1 << 20
"""Maximum number of tensors in a tuple, nested ones included."""
MOST_POSITIONS: Final = 1 << 23
"""Maximum number of tuple parts of all values in an analysis of memory; each takes 100 bytes."""
MOST_ALIASED: Final = 1 << 20
"""Maximum number of characters of an MLIR alias after its aliases are expanded."""
MOST_INPUT: Final = 1 << 28
"""Maximum bytes of a program's text, decompressed."""
MOST_ARTIFACT: Final = 1 << 32
"""Maximum bytes of an artifact that is not printed; its large constants are views of the file."""
MAX_BYTES: Final = 1 << 30
"""Maximum bytes of one value in a program that is executed."""
MOST_FLOPS: Final = 10**12
"""Maximum number of multiplications and additions of products and windows in one run.

So many take some minutes.
"""
MOST_STEPS: Final = 2 * 10**6
"""Maximum number of instructions that a run executes, with repetitions; so many take two
seconds.
"""
MOST_THREADS: Final = 1 << 26
"""Maximum number of threads of a GPU kernel that is executed."""
MOST_MEMORY: Final = 1 << 31
"""Maximum bytes for the execution of a GPU kernel: its arrays, and marks of accessed bytes."""
MOST_DIMENSIONS: Final = 64
"""Maximum number of dimensions of numpy's arrays.  Source: numpy, `NPY_MAXDIMS`."""
MOST_ARRAY: Final = (1 << 63) - 1
"""Maximum bytes of numpy's arrays; sizes of 0 count as 1.  Source: numpy, `npy_intp`."""
WIDEST: Final = 16
"""Bytes of the widest element type, complex128."""
MOST_JSON: Final = 200
"""Maximum depth of nested lists and objects in JSON."""
_JSON_MARK: Final = pattern(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_DIGITS: Final = pattern(r"[0-9]+")


class Nested:
    """Base class of value classes whose fields may hold such values, nested to any depth.

    It must come before `Struct` among the bases. The hash of a `Struct` recurses in C without a
    limit: for types nested 60,000 deep it would crash the process. This hash is in Python, which
    raises `RecursionError` before that.
    """

    __slots__ = ()
    __struct_fields__: ClassVar[tuple[str, ...]]

    def __hash__(self) -> int:
        return hash(tuple([getattr(self, name) for name in self.__struct_fields__]))


def read_json(text: str) -> Any:
    """Parse a JSON text.

    Raises:
        ValueError: The text is not valid JSON, or is nested more than `MOST_JSON` deep.

    >>> read_json("[" * 2000 + "]" * 2000)
    Traceback (most recent call last):
    ValueError: nested more than 200 deep
    """
    if text.count("[") + text.count("{") > MOST_JSON:
        # The parser recurses in C, so the depth is checked before. Strings are matched whole, so
        # that brackets in them do not count.
        depth = 0
        for mark in _JSON_MARK.finditer(text):
            depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(mark[0], 0)
            if depth > MOST_JSON:
                raise ValueError(f"nested more than {MOST_JSON} deep")
    return json.loads(text)


def refuse_many_dimensions(rank: int) -> None:
    """Raise an error for an array with more dimensions than numpy supports.

    Raises:
        UnsupportedError: `rank` is larger than `MOST_DIMENSIONS`.
    """
    if rank > MOST_DIMENSIONS:
        many = f"{rank} dimensions, at most {MOST_DIMENSIONS} are evaluated"
        raise UnsupportedError(f"a value has {many}")


def refuse_unsupported_array(sizes: Sequence[int | None], width: int = WIDEST) -> None:
    """Raise an error for an array that numpy does not support.

    The array has too many dimensions or bytes. An array without elements is refused if its other
    sizes are too large. Unknown sizes do not count.

    Args:
        sizes: Sizes of the array.
        width: Bytes of an element.

    Raises:
        UnsupportedError: Numpy does not support the array.

    >>> refuse_unsupported_array((2**32, 2**32, 0))
    Traceback (most recent call last):
    hloscope.errors.UnsupportedError: error: no array has sizes 4294967296, 4294967296, 0
    """
    refuse_many_dimensions(len(sizes))
    if prod(size for size in sizes if size) * width > MOST_ARRAY:
        raise UnsupportedError(f"no array has sizes {', '.join(map(str, sizes))}")


def refuse_long_numbers(source: Source) -> None:
    """Raise an error for a text with a decimal number of more than `MOST_DIGITS` digits.

    Names and the hexadecimal digits of literals may have any length.

    Raises:
        ParseError: The text has such a number.

    >>> refuse_long_numbers(Source("m.hlo", "f32[" + "9" * 4001 + "]"))
    Traceback (most recent call last):
    hloscope.errors.ParseError: m.hlo:1:5: error: a number of 4,001 digits, at most 4,000 are read
    ...
    """
    text = source.text
    if len(text) <= MOST_DIGITS:
        return
    # A run of more than `MOST_DIGITS` digits covers a multiple of that number, so it suffices to
    # look at the characters there.
    end = 0
    for at in range(0, len(text), MOST_DIGITS):
        if at < end or not "0" <= text[at] <= "9":
            continue
        run = _DIGITS.match(text, at)
        assert run
        start, end = at, run.end()
        # The loop ends before the previous multiple, which is not part of this run.
        while start > 0 and "0" <= text[start - 1] <= "9":
            start -= 1
        if end - start <= MOST_DIGITS or _is_word(text[start - 1 : start] + text[end : end + 1]):
            continue
        message = f"a number of {end - start:,} digits, at most {MOST_DIGITS:,} are read"
        raise ParseError(message, span=Span(source, start, end))


def _is_word(around: str) -> bool:
    """Do the characters around digits make them part of a name or a literal?"""
    return any(c.isalnum() or c in '"_.' for c in around)
