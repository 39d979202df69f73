"""hloscope: which elements of which tensors an HLO or StableHLO instruction touches.

>>> import hloscope
>>> program = hloscope.read("ENTRY e { p = f32[4,8] parameter(0) ROOT r = f32[32] reshape(p) }")
>>> print(program["r"].indexing().map)
(d0) -> (d0 / 8, d0 mod 8), domain: d0 in [0, 31]

Names are loaded when they are first used: starting costs nothing that is not needed.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # `typing` takes longer to load than all the rest, and may be interrupted
if TYPE_CHECKING:
    from typing import Any, Final

    from hloscope.api import (
        ComputationView,
        Indexing,
        InstructionView,
        Program,
        evaluate,
        evaluate_grid,
        read,
        verify,
    )
    from hloscope.api.tensor import Element, Tensor
    from hloscope.errors import (
        Diagnostic,
        HloscopeError,
        InputError,
        ParseError,
        UnknownNameError,
        UnsupportedError,
        VerifyError,
    )
    from hloscope.hlo_parser import parse_hlo
    from hloscope.hlo_parser.printer import print_hlo
    from hloscope.indexing import Access, IndexingMap, Precision
    from hloscope.interpreter.values import EvaluationError
    from hloscope.passes.constant_folding import fold
    from hloscope.simplifier import simplify
    from hloscope.stablehlo.builder import Builder
    from hloscope.stablehlo.inferring import infer
    from hloscope.stablehlo.printing import print_stablehlo
    from hloscope.stablehlo.reading import parse_stablehlo

__version__ = "0.1.0"
__all__ = [
    "Access",
    "Builder",
    "ComputationView",
    "Diagnostic",
    "Element",
    "EvaluationError",
    "HloscopeError",
    "Indexing",
    "IndexingMap",
    "InputError",
    "InstructionView",
    "ParseError",
    "Precision",
    "Program",
    "Tensor",
    "UnknownNameError",
    "UnsupportedError",
    "VerifyError",
    "evaluate",
    "evaluate_grid",
    "fold",
    "infer",
    "parse_hlo",
    "parse_stablehlo",
    "print_hlo",
    "print_stablehlo",
    "read",
    "simplify",
    "verify",
]

_HOMES: Final = {
    "hloscope.api": (
        "ComputationView",
        "Indexing",
        "InstructionView",
        "Program",
        "evaluate",
        "evaluate_grid",
        "read",
        "verify",
    ),
    "hloscope.errors": (
        "Diagnostic",
        "HloscopeError",
        "InputError",
        "ParseError",
        "UnknownNameError",
        "UnsupportedError",
        "VerifyError",
    ),
    "hloscope.hlo_parser": ("parse_hlo",),
    "hloscope.hlo_parser.printer": ("print_hlo",),
    "hloscope.indexing": ("Access", "IndexingMap", "Precision"),
    "hloscope.passes.constant_folding": ("fold",),
    "hloscope.api.tensor": ("Element", "Tensor"),
    "hloscope.interpreter.values": ("EvaluationError",),
    "hloscope.simplifier": ("simplify",),
    "hloscope.stablehlo.builder": ("Builder",),
    "hloscope.stablehlo.inferring": ("infer",),
    "hloscope.stablehlo.printing": ("print_stablehlo",),
    "hloscope.stablehlo.reading": ("parse_stablehlo",),
}
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load a public name from the module it lives in."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module `hloscope` has no attribute `{name}`")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
