"""The programs of `rewrites.mlir`: for each rewrite, some that it changes and some it may not."""

from __future__ import annotations

import re
from ast import literal_eval
from pathlib import Path
from typing import Final, NamedTuple

_HEAD: Final = re.compile(r"// ----- (\w+) (fires|stays) ?(.*)\n")


class Case(NamedTuple):
    """A program: the rewrite it is for, whether that fires, and what the program is run on.

    Of `arguments`, tuples are shapes and lists elements; where there are none, anything will do.
    """

    name: str
    fires: bool
    arguments: tuple[object, ...]
    text: str


def cases() -> list[Case]:
    """All programs."""
    _, *parts = _HEAD.split((Path(__file__).parent / "rewrites.mlir").read_text())
    rows = zip(parts[::4], parts[1::4], parts[2::4], parts[3::4], strict=True)
    return [
        Case(name, word == "fires", tuple(map(literal_eval, given.split())), text)
        for name, word, given, text in rows
    ]
