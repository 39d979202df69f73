"""hloscope: which elements of which tensors an HLO or StableHLO instruction touches.

>>> import hloscope as hs
>>> program = hs.read("ENTRY e { p = f32[4,8] parameter(0) ROOT t = f32[8,4] transpose(p), "
...                   "dimensions={1,0} }")
>>> print(program["t"].indexing().map)
(d0, d1) -> (d1, d0), domain: d0 in [0, 7], d1 in [0, 3]

The names below are loaded when they are first used: `hloscope --version` needs none of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from hloscope.api import Indexing, Program, read
    from hloscope.errors import (
        HloscopeError,
        InputError,
        ParseError,
        UnknownNameError,
        UnsupportedError,
    )
    from hloscope.hlo_parser import parse_hlo, print_hlo
    from hloscope.indexing import Access, IndexingMap, Precision

__version__ = "0.1.0"

__all__ = [
    # programs
    "read", "Program", "Indexing", "parse_hlo", "print_hlo",
    # maps
    "IndexingMap", "Access", "Precision",
    # errors
    "HloscopeError", "InputError", "ParseError", "UnknownNameError", "UnsupportedError",
    "__version__",
]  # fmt: skip

_HOMES: Final = {
    "api": ("read", "Program", "Indexing"),
    "hlo_parser": ("parse_hlo", "print_hlo"),
    "indexing": ("IndexingMap", "Access", "Precision"),
    "errors": (
        "HloscopeError", "InputError", "ParseError", "UnknownNameError", "UnsupportedError",
    ),
}  # fmt: skip
"""The public names by the room they live in."""


def __getattr__(name: str) -> Any:
    for room, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"hloscope.{room}"), name)
            return value
    raise AttributeError(f"module `hloscope` has no attribute `{name}`")


def __dir__() -> list[str]:
    return __all__
